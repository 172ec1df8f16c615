"""What workers find travels as rows of an Arrow table, and nothing is lost on the way."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _distributed import Case, case, text
from hypothesis import given, settings
from hypothesis import strategies as st
from test_engine_parts import cut
from test_properties import Dataset, datasets

import provenance
from provenance.engine.keys import KeySet
from provenance.engine.part import Example, Occurrence, Part
from provenance.engine.parts import CheckInParts
from provenance.errors import (
    ContractError,
    LedgerError,
    MissingDependencyError,
    ProvenanceError,
    ReadError,
    SchemaError,
)
from provenance.integrations._findings import SCHEMA, part_of, table_of
from provenance.integrations._stretches import stretches
from provenance.integrations._work import Joined, Plan, files_of, refuse_unique
from provenance.report import Count, FileCount, Location, Severity, Violation

NUMBERS = st.integers(0, 2**63 - 1)
CODES = st.sampled_from(["SEQ010", "FMT004", "VAL001"])
TEXTS = st.text(st.characters(), max_size=5)  # also what is no Unicode, as in names of files
SETS = st.dictionaries(
    CODES,
    st.lists(st.integers(0, 2**64 - 1), unique=True).map(lambda keys: KeySet(np.array(keys, np.uint64))),
)
LOCATIONS = st.builds(
    Location,
    file=st.none() | TEXTS,
    row=st.none() | NUMBERS,
    line=st.none() | NUMBERS,
    field=st.none() | TEXTS,
    index=st.none() | NUMBERS | st.tuples(NUMBERS, NUMBERS),
    length=st.none() | NUMBERS,
    sequence_id=st.none() | TEXTS,
)
COUNTS = st.builds(Count, NUMBERS, NUMBERS, NUMBERS)
FILES = st.builds(FileCount, NUMBERS, NUMBERS, st.dictionaries(CODES, COUNTS), st.frozensets(CODES))


@st.composite
def examples(draw: Any, code: str) -> Example:
    severity = draw(st.sampled_from([Severity.ERROR, Severity.WARNING]))
    violation = Violation(
        code=code, name=draw(TEXTS), severity=severity, location=draw(LOCATIONS), message=draw(TEXTS)
    )
    return Example(tuple(draw(st.lists(NUMBERS | TEXTS, max_size=3))), violation)


@st.composite
def parts(draw: Any) -> Part:
    occurrences = st.builds(Occurrence, st.tuples(NUMBERS, NUMBERS), LOCATIONS, st.booleans(), st.booleans())
    numbers = ("datums", "positions", "bad_datums", "unjudged", "unmeasured")
    return Part(
        origin=False,
        **{name: draw(NUMBERS) for name in numbers},
        ambiguous=draw(st.booleans()),
        failed_files=draw(st.booleans()),
        counts=draw(st.dictionaries(CODES, COUNTS)),
        files=draw(st.dictionaries(TEXTS, FILES)),
        checked=Counter(draw(st.dictionaries(CODES, NUMBERS))),
        softened=Counter(draw(st.dictionaries(CODES, NUMBERS))),
        satisfied=draw(st.dictionaries(st.tuples(CODES, st.sampled_from(["", "weights"])), st.booleans())),
        seen=draw(SETS),
        failing=draw(SETS),
        occurrences=draw(st.dictionaries(CODES, st.lists(occurrences, max_size=2))),
        examples={code: draw(st.lists(examples(code), max_size=2)) for code in draw(st.sets(CODES))},
    )


def plain(part: Part) -> dict[str, Any]:
    """The part without sets, which have no equality."""
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    for name in ("seen", "failing"):
        fields[name] = {code: keys.keys().tolist() for code, keys in fields[name].items()}
    return fields


def through_a_file(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    rows: list[dict[str, Any]] = pa.ipc.open_stream(sink.getvalue()).read_all().to_pylist()
    return rows


@settings(max_examples=40, deadline=None)
@given(given=st.lists(parts(), max_size=3))
def test_parts_come_back_as_they_were(given: list[Part]) -> None:
    batch = table_of(given)
    assert batch.schema == SCHEMA
    back = [part_of(row) for row in through_a_file(batch)]
    assert [plain(part) for part in back] == [plain(part) for part in given]


@settings(max_examples=15, deadline=None)
@given(
    dataset=datasets(max_datums=5, max_damages=5),
    bounds=st.lists(st.integers(1, 8), max_size=4),
    repeated=st.booleans(),
)
def test_joining_rows_is_joining_parts(dataset: Dataset, bounds: list[int], repeated: bool) -> None:
    datums = dataset.datums * (1 + repeated)
    contract = provenance.Contract.for_loss(dataset.loss).with_severity({"SEQ010": "error"})
    circumstances: Any = {"session": "session-1", "now": "2026-01-02T12:00:00Z", "max_examples": 3}
    plan = Plan(contract, ledger=dataset.sequences, share=Held, **circumstances)
    found = [plan.checker.look(stretch, plan.work.ledger()) for stretch in cut(datums, bounds)]
    rows = [row for part in found for row in through_a_file(table_of([part]))]
    whole = provenance.check(datums, contract, ledger=dataset.sequences, **circumstances)
    assert text(plan.report(rows)) == text(whole)


@pytest.mark.parametrize(
    "error",
    [
        ReadError("a.parquet", "is damaged"),
        LedgerError("no ledger"),
        SchemaError("no datum"),
        ContractError("no contract"),
        MissingDependencyError("psycopg", "postgres"),
        ProvenanceError("another"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_raised_where_the_row_is_read(error: ProvenanceError) -> None:
    (row,) = through_a_file(table_of([error]))
    with pytest.raises(ProvenanceError) as raised:
        part_of(row)
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)


@pytest.mark.parametrize("name", ["ValueError", "annotations", "Any", "__doc__"])
def test_a_forged_error_makes_no_other_object(name: str) -> None:
    (row,) = through_a_file(table_of([ProvenanceError("x")]))
    with pytest.raises(ProvenanceError, match=f"{name}: x"):
        part_of({**row, "error": f'["{name}", "x"]'})


# --- the work, in this process --------------------------------------------------------------------


def plan_of(given: Case, ledger: Any, **changes: Any) -> Plan:
    return Plan(ledger=ledger, share=Held, **(given.options | changes))


@dataclasses.dataclass
class Held:
    ledger: Any

    def __call__(self) -> Any:
        return self.ledger


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.fixture(scope="module", params=[False, True], ids=["valid", "broken"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("case"), broken=request.param, n=24)


@pytest.mark.parametrize("size", [1, 3000, 10_000, 2**26])
def test_files_in_stretches(made: Case, size: int) -> None:
    found = stretches(made.files, size)
    assert [stretch.path for task in found for stretch in task if stretch.pieces is None] == (
        made.files if size == 2**26 else made.files[1:]
    )
    assert len(found) == {1: 2, 2**26: 1}.get(size, len(found))
    plan = plan_of(made, made.sequences)
    work = sent(plan.work)
    rows = [row for task in found for row in through_a_file(work.files(task))]
    assert text(plan.report(rows)) == text(
        provenance.check(made.files, ledger=made.sequences, **made.options)
    )


@pytest.mark.parametrize("rows", [5, 100])
@pytest.mark.parametrize("form", ["broadcast", "database", "joined"])
def test_rows_in_stretches(made: Case, rows: int, form: str) -> None:
    ledgers: dict[str, tuple[Any, Any]] = {
        "broadcast": (made.sequences, made.sequences),
        "database": (made.database, made.database),
        "joined": (Joined(), made.ledger_without_places()),
    }
    theirs, ours = ledgers[form]
    table = made.with_sequences() if form == "joined" else made.table
    plan = plan_of(made, theirs)
    work = sent(plan.work)
    found = [work.rows(table.slice(start, rows)) for start in range(0, len(table), rows)]
    report = plan.report((row for batch in found for row in through_a_file(batch)), one_table=True)
    assert text(report) == text(provenance.check(made.table, ledger=ours, **made.options))
    assert report.datums == len(table) > report.bad_datums


def test_rows_are_sorted_as_files_are(made: Case, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    provenance.check(made.files[0], ledger=made.sequences, write_good=good, write_bad=bad, **made.options)
    work = plan_of(made, made.sequences).work
    tables = made.cut(7)
    assert pa.concat_tables(map(work.good, tables)).equals(pq.read_table(good))
    expected = [
        {**row, "provenance": {**row["provenance"], "file": None, "row": None}}
        for row in pq.read_table(bad).to_pylist()
    ]
    assert pa.concat_tables(map(work.bad, tables)).to_pylist() == expected
    assert bool(expected) == bool(made.dataset.report().bad_datums)


def test_wrong_columns_are_one_fault(made: Case) -> None:
    table = made.table.rename_columns({"target_tokens": "targets"}).append_column(
        "note", pa.array(["x"] * len(made.table))
    )
    plan = plan_of(made, made.sequences)
    rows = [row for start in (0, 9, 18) for row in through_a_file(plan.work.rows(table.slice(start, 9)))]
    report = plan.report(rows, one_table=True)
    assert text(report) == text(provenance.check(table, ledger=made.sequences, **made.options))
    assert plan.work.good(table).num_rows == 0
    notes = plan.work.bad(table).column("provenance").to_pylist()
    assert [note["codes"] for note in notes] == [["FMT004"]] * len(table)


@pytest.mark.parametrize("size", [1, 2**26])
def test_wrong_columns_are_a_fault_of_each_file(made: Case, tmp_path: Path, size: int) -> None:
    table = made.table.append_column("note", pa.array(["x"] * len(made.table)))
    wrong = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for path in wrong:
        pq.write_table(table, path, row_group_size=5)
    files = [wrong[0], *made.files, wrong[1]]
    plan = plan_of(made, made.sequences)
    rows = [row for task in stretches(files, size) for row in through_a_file(plan.work.files(task))]
    report = plan.report(rows)
    assert report.counts["FMT004"].violations == 2 * provenance.check(wrong[0]).counts["FMT004"].violations
    assert text(report) == text(provenance.check(files, ledger=made.sequences, **made.options))


def test_no_rows_are_no_row() -> None:
    plan = Plan("stable_reinforce", ledger=None, share=Held, now="2026-01-02T12:00:00Z")
    assert plan.work.rows(pa.table({})).num_rows == 0
    assert text(plan.report([])) == text(provenance.check([], now="2026-01-02T12:00:00Z"))


def test_the_first_error_is_that_of_one_machine(made: Case) -> None:
    missing = [made.files[0], str(made.folder / "missing.parquet"), str(made.folder / "missing.jsonl")]
    plan = plan_of(made, made.sequences)
    rows = [row for task in stretches(missing, 1) for row in through_a_file(plan.work.files(task))]
    with pytest.raises(ReadError) as theirs:
        plan.report(rows)
    with pytest.raises(ReadError) as ours:
        provenance.check(missing, ledger=made.sequences, **made.options)
    assert str(theirs.value) == str(ours.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (None, "there is no column 'sequences' with the sequences of each row: with_sequences makes one"),
        (pa.array([[1]]), "column 'sequences' is list<item: int64>, expected a list of structs"),
        (pa.array([[{"sequence_id": "a"}]]), "sequences: session_id: missing, expected string"),
    ],
)
def test_rows_without_readable_sequences(column: pa.Array | None, message: str) -> None:
    table = pa.table({"model_input_tokens": [[1]]})
    if column is not None:
        table = table.append_column("sequences", column)
    work = Plan("stable_reinforce", ledger=Joined(), share=Held).work
    with pytest.raises(ProvenanceError) as raised:
        part_of(work.rows(table).to_pylist()[0])
    assert message in str(raised.value)


def test_a_ledger_that_stays_where_it_is() -> None:
    def share(ledger: Any) -> Any:
        raise TypeError("cannot pickle")

    with pytest.raises(SchemaError, match="cannot send a MemoryLedger to other processes: give the path"):
        Plan("stable_reinforce", ledger=[], share=share)


def test_what_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SchemaError, match="cannot check a dict here: give paths, or a dataset"):
        files_of({}, None)
    with pytest.raises(SchemaError, match="files have no sequences beside their datums"):
        files_of("a.parquet", Joined())
    strict = provenance.Contract.for_loss("stable_reinforce").with_severity({"SEQ010": "error"})
    with pytest.raises(ContractError, match=r"SEQ010 is an error .*with_severity\(\{'SEQ010': 'warning'\}\)"):
        refuse_unique(strict)
    refuse_unique("stable_reinforce")


def test_findings_of_a_clean_part_are_small() -> None:
    checker = CheckInParts(ledger=False, now="2026-01-02T12:00:00Z")
    assert len(table_of([checker.look([])]).column("examples")[0].as_py()) == len("{}")
