"""Batches of several libraries, and streams of them, get the verdicts of `provenance.check`."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_properties import Dataset
from test_properties import datasets as damaged_datasets

import provenance
from provenance import Contract, ContractError, ProvenanceError, SchemaError, ValidationError
from provenance.formats.arrow import columns_of_batch
from provenance.integrations.torch import CheckedDataset
from provenance.pipeline import CheckedStream, Checker
from provenance.rules import case
from provenance.rules._examples import NOW, SESSION

Json = dict[str, Any]

ROWS = 6
VALID = case(copies=ROWS)
SEQUENCES = [dict(sequence) for sequence in VALID.sequences]
UNIQUE = Contract.for_loss("stable_reinforce").with_severity({"SEQ010": "error"})
#: The rows of `broken` that have an error.
BAD = [1, 4]
MASK = [row not in BAD for row in range(ROWS)]


def checker(**options: Any) -> Checker:
    return Checker(**{"ledger": SEQUENCES, "session": SESSION, "now": NOW, **options})


def valid() -> list[Json]:
    return copy.deepcopy([dict(datum) for datum in VALID.datums])


def broken() -> list[Json]:
    datums = valid()
    datums[1]["loss_fn_inputs"]["logprobs"]["data"][3:] = [0.5, 0.5]
    datums[2]["loss_fn_inputs"]["advantages"]["data"][3] = 1000.0  # a warning
    datums[4]["loss_fn_inputs"]["advantages"]["data"] = [1.0] * 5
    datums[4]["loss_fn_inputs"]["logprobs"]["data"][4] = 0.5
    return datums


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    path = tmp_path_factory.mktemp("table") / "broken.parquet"
    provenance.write_datums(broken(), path)
    return pq.read_table(path)


def text(report: provenance.Report) -> str:
    return json.dumps(report.to_dict(), indent=1)


def rows_with_errors(datums: list[Any], contract: Any = "stable_reinforce", **options: Any) -> set[int]:
    """The datums with an error, and those that name a record with one."""
    errors = [v for v in provenance.iter_violations(datums, contract, **options) if v.severity == "error"]
    records = {v.location.sequence_id for v in errors if v.location.file == "ledger"}
    naming = {row for row, datum in enumerate(datums) if records & named(datum)}
    of_datums = {v.location.row for v in errors if v.location.file is None}
    return naming | {row for row in of_datums if row is not None}


def named(datum: Any) -> set[str]:
    lists = [datum.get(name) for name in ("model_input_spans", "loss_fn_input_spans")]
    spans = [span for found in lists if isinstance(found, list) for span in found]
    ids = [span.get("sequence_id") for span in spans if isinstance(span, dict)]
    return {name for name in ids if isinstance(name, str)}


# --- the verdicts are those of check ----------------------------------------------------------------------

MANY = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(
    dataset=damaged_datasets(max_datums=6, max_damages=6),
    at_once=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    strict=st.booleans(),
)
def test_a_stream_is_the_whole_however_it_comes(
    dataset: Dataset, at_once: int, cuts: list[int], strict: bool
) -> None:
    datums = dataset.datums + copy.deepcopy(dataset.datums)
    contract = Contract.for_loss(dataset.loss)
    if strict:
        contract = contract.with_severity({"SEQ010": "error", "ADV003": "error"})
    options = {"session": SESSION, "now": NOW, "loss_config": {"kl_coef": 1.0}}
    whole = provenance.check(datums, contract, ledger=dataset.sequences, allow_empty=True, **options)
    bad = rows_with_errors(datums, contract, ledger=dataset.sequences, **options)
    good = [datum for row, datum in enumerate(datums) if row not in bad]

    judge = Checker(contract, ledger=dataset.sequences, **options)
    stream = CheckedStream(datums, judge, on_error="skip", at_once=at_once)
    assert list(stream) == good
    assert text(stream.report) == text(whole)

    bounds = sorted({0, len(datums), *(cut for cut in cuts if cut < len(datums))})
    pieces = [datums[a:b] for a, b in pairwise(bounds)]
    stream = CheckedStream(pieces, judge, on_error="skip")
    assert [datum for piece in stream for datum in piece] == good
    assert text(stream.report) == text(whole)

    assert text(judge.check_batch(datums)) == text(whole)
    assert (~judge.mask(datums)).nonzero()[0].tolist() == sorted(bad)


def as_polars(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def as_pandas(table: pa.Table) -> Any:
    return table.to_pandas()


def as_relation(table: pa.Table) -> Any:
    return pytest.importorskip("duckdb").from_arrow(table)


FORMS: dict[str, tuple[Callable[[pa.Table], Any], str]] = {
    "table": (lambda table: table, "Table"),
    "chunks": (lambda table: pa.concat_tables([table[:2], table[2:2], table[2:]]), "Table"),
    "slice": (lambda table: pa.concat_tables([table, table])[ROWS:], "Table"),
    "record batch": (lambda table: table.to_batches()[0], "RecordBatch"),
    "reader": (lambda table: table.to_reader(), "Table"),
    "polars": (as_polars, "DataFrame"),
    "pandas": (as_pandas, "Table"),
    "duckdb": (as_relation, "Table"),
}


@pytest.mark.parametrize("form", FORMS)
def test_arrow_data_in_any_form(table: pa.Table, form: str) -> None:
    make, kind = FORMS[form]
    judge = checker()
    mask = judge.mask(make(table))
    assert (mask.dtype, mask.tolist()) == (np.dtype(np.bool_), MASK)
    assert judge.check_batch(make(table)).to_dict() == judge.check_batch(table).to_dict()
    filtered, annotated = judge.filter(make(table)), judge.annotate(make(table))
    assert type(filtered).__name__ == type(annotated).__name__ == kind
    back = pa.table(filtered).to_pylist()
    assert back == [row for row, good in zip(table.to_pylist(), MASK, strict=True) if good]
    again = pa.table(annotated)
    assert [note is None for note in again["provenance"].to_pylist()] == MASK
    assert again.drop_columns(["provenance"]).to_pylist() == table.to_pylist()


def test_a_list_is_filtered_to_the_same_objects() -> None:
    datums = broken()
    kept = checker().filter(datums)
    assert [id(datum) for datum in kept] == [id(datums[row]) for row in range(ROWS) if MASK[row]]


@pytest.mark.parametrize("make", [list, lambda datums: pa.table({"model_input_tokens": [[1]]})[:0]])
def test_an_empty_batch_is_fine(make: Callable[[Any], Any]) -> None:
    judge, empty = checker(), make([])
    assert judge.mask(empty).tolist() == []
    assert len(judge.filter(empty)) == 0
    assert judge.check_batch(empty).valid
    assert list(CheckedStream([empty, empty], judge)) == []


@pytest.mark.parametrize("bad", [[], list(range(ROWS)), [0], [ROWS - 1], [0, 2, 5]])
def test_any_rows_can_be_bad(table: pa.Table, bad: list[int], tmp_path: Path) -> None:
    datums = valid()
    for row in bad:
        datums[row]["loss_fn_inputs"]["logprobs"]["data"][3] = 0.5
    provenance.write_datums(datums, tmp_path / "some.parquet")
    rows = pq.read_table(tmp_path / "some.parquet")
    good = [row for row in range(ROWS) if row not in bad]
    for batch in (rows, rows.to_batches()[0]):
        kept = checker().filter(batch)
        assert kept.schema == rows.schema
        assert kept.to_pylist() == [rows.to_pylist()[row] for row in good]


def test_polars_hands_over_its_memory(table: pa.Table) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.concat([as_polars(table)] * 1000, rechunk=True)
    held = pa.total_allocated_bytes()
    arrow = pa.table(frame)
    assert pa.total_allocated_bytes() == held
    column = arrow["logprobs"].chunk(0)
    values = columns_of_batch(arrow).inputs["logprobs"].values
    assert np.shares_memory(values, np.frombuffer(column.values.buffers()[1], np.float32))


def test_notes_are_those_of_write_bad(table: pa.Table, tmp_path: Path) -> None:
    path, bad = tmp_path / "broken.parquet", tmp_path / "bad.parquet"
    pq.write_table(table, path)
    provenance.check(path, ledger=SEQUENCES, session=SESSION, now=NOW, write_bad=bad)
    written = pq.read_table(bad)
    annotated = checker().annotate(table)
    assert annotated.schema == written.schema
    notes = [note for note in annotated["provenance"].to_pylist() if note is not None]
    assert [note["row"] for note in notes] == BAD
    for note, other in zip(notes, written["provenance"].to_pylist(), strict=True):
        assert note["codes"] == other["codes"]
        assert sorted(note["violations"]) == sorted(other["violations"])
    again = checker().annotate(checker().annotate(table))
    assert again == annotated


def test_notes_have_some_of_many_violations(tmp_path: Path) -> None:
    datums = valid()
    for tensor in datums[0]["loss_fn_inputs"].values():
        tensor["data"] = [-1 if number % 2 else tensor["data"][number] for number in range(5)]
    datums[0]["loss_fn_inputs"]["logprobs"]["data"] = [0.5, -1.0, 0.5, -1.0, 0.5]
    provenance.write_datums(datums, tmp_path / "a.parquet")
    (note, *rest) = checker().annotate(pq.read_table(tmp_path / "a.parquet"))["provenance"].to_pylist()
    assert len(note["violations"]) == 5
    assert note["codes"] == sorted(note["codes"])
    assert len(note["codes"]) > 1
    assert rest == [None] * (ROWS - 1)


# --- what a checker is ------------------------------------------------------------------------------------


def test_the_time_is_that_of_each_batch() -> None:
    contract = Contract.for_loss("stable_reinforce").with_parameters(window=1, margin=0)
    moment = datetime.now(UTC).isoformat()
    sequences = [{**s, "sampled_at": moment, "last_used_at": moment} for s in SEQUENCES]
    judge = checker(contract=contract, ledger=sequences, now=None)

    def slowly() -> Iterator[list[Json]]:
        yield valid()[:2]
        time.sleep(1.1)
        yield valid()[2:]

    stream = CheckedStream(slowly(), judge, on_error="skip")
    assert [len(batch) for batch in stream] == [2]
    assert stream.report.codes("error") == {"SES002"}
    assert not judge.mask(valid()).any()


def test_a_pickled_checker_opens_its_ledger_anew(tmp_path: Path) -> None:
    place = tmp_path / "ledger.db"
    with provenance.SqlLedger(place) as ledger:
        ledger.record([provenance.SampledSequence(**s) for s in SEQUENCES[:3]])
        pickled = pickle.dumps(checker(ledger=str(place)))
        assert len(pickled) < 2000
        copied = pickle.loads(pickled)
        assert copied.mask(broken()).tolist() == [True, False, True, False, False, False]
        ledger.record([provenance.SampledSequence(**s) for s in SEQUENCES[3:]])
        assert copied.mask(broken()).tolist() == MASK


def test_other_ledgers_are_pickled() -> None:
    copied = pickle.loads(pickle.dumps(checker()))
    assert copied.mask(broken()).tolist() == MASK


def test_faults_of_the_ledger_are_told(tmp_path: Path) -> None:
    path = tmp_path / "sequences.jsonl"
    provenance.write_sequences(SEQUENCES, path)
    with path.open("a") as file:
        file.write("{}\n")
    judge = checker(ledger=path)
    assert judge.check_batch(valid()).codes("error") == {"FMT004"}
    assert judge.mask(valid()).all()
    for streamed in (CheckedStream([valid()], judge), judge.validated([valid()])):
        with pytest.raises(ValidationError, match="FMT004"):
            list(streamed)


ONLY = "; a batch has the columns of datums and no others"
EXPECTED = "a {} is no batch, expected Arrow data or a list of datums"
NO_BATCHES: dict[str, tuple[Any, str]] = {
    "columns of no datum": (
        pa.table({"a": [[1]]}),
        "column 'model_input': missing, expected this column or model_input_tokens" + ONLY,
    ),
    "a column too many": (
        pa.table({"model_input_tokens": [[1]], "reward": [1.0]}),
        "column 'reward': type double, expected list of numbers, or of lists of numbers" + ONLY,
    ),
    "sequences": (
        pa.table({"prompt_tokens": [[1]]}),
        "sampled sequences, expected datums: is this the ledger's file?" + ONLY,
    ),
    "mapping": (
        {"model_input_tokens": [[1]]},
        EXPECTED.format("dict") + ": with_format('arrow') makes datasets hand over tables",
    ),
    "path": ("datums.parquet", EXPECTED.format("str")),
    "generator": (iter([]), EXPECTED.format("list_iterator")),
}


@pytest.mark.parametrize("name", NO_BATCHES)
def test_what_is_no_batch_is_refused(name: str) -> None:
    batch, message = NO_BATCHES[name]
    judge = checker(contract=UNIQUE.ignore(["FMT"]))  # columns that cannot be read are refused even then
    for verb in (judge.mask, judge.filter, judge.annotate):
        with pytest.raises(SchemaError) as error:
            verb(batch)
        assert str(error.value) == message


def test_strings_are_no_paths() -> None:
    assert checker().mask(["datums.parquet"]).tolist() == [False]


def test_a_list_has_no_columns() -> None:
    with pytest.raises(SchemaError, match=r"^a list has no columns, expected Arrow data to annotate$"):
        checker().annotate([])


def test_what_cannot_hand_over_its_data_is_refused() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise OSError("gone")

    with pytest.raises(provenance.ReadError, match=r"^a Broken: gone$"):
        checker().mask(Broken())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ledger": "nowhere.db"}, "nowhere.db: no such file"),
        ({"ledger": "nowhere.parquet"}, "nowhere.parquet: no such file"),
        ({"ledger": 3}, "cannot use a int as a ledger"),
        ({"contract": "stable"}, "no loss is called 'stable'"),
        ({"now": "yesterday"}, "time 'yesterday' is not RFC 3339"),
        ({"session": ""}, "the training session is ''"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(options: Json, message: str) -> None:
    with pytest.raises(ProvenanceError, match=f"^{message}"):
        checker(**options)


# --- validated batches ------------------------------------------------------------------------------------


def test_validated_batches_are_those_of_validate() -> None:
    packed = list(checker().validated([valid()[:2], valid()[2:]]))
    assert [len(batch) for batch in packed] == [2, 4]
    expected = provenance.validate(valid()[2:], ledger=SEQUENCES, session=SESSION, now=NOW)
    assert packed[1].tokens.tolist() == expected.tokens.tolist()
    assert packed[1].sequence_ids == expected.sequence_ids
    assert packed[1].contract == expected.contract


def test_a_broken_batch_is_named() -> None:
    batches = checker().validated([valid()[:2], broken()[3:]])
    assert len(next(batches)) == 2
    with pytest.raises(
        ValidationError, match=r"^batch 1: 1 of 3 datums break .*; the first is row 1: "
    ) as error:
        next(batches)
    assert error.value.report.bad_datums == 1


def test_validated_batches_need_a_session() -> None:
    with pytest.raises(ContractError, match="needs a session"):
        next(checker(session=None).validated([valid()]))


# --- streams ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 4, 64])
def test_an_error_is_raised_with_its_place(at_once: int) -> None:
    datums = valid() + broken()
    stream = CheckedStream(datums, checker(), at_once=at_once)
    taken = []
    with pytest.raises(ValidationError, match=r"contract is broken: row 7: logprobs\[3:5\]: VAL002") as error:
        taken.extend(stream)
    assert taken == datums[: 7 // at_once * at_once]
    assert error.value.report.bad_datums >= 1
    assert text(error.value.report) == text(stream.report)


def test_no_more_is_read_than_said() -> None:
    read = []

    def source() -> Iterator[Json]:
        for datum in valid():
            read.append(datum)
            yield datum

    stream = iter(CheckedStream(source(), checker(), at_once=2))
    for count in (2, 2, 4):
        next(stream)
        assert len(read) == count


def test_datums_and_batches_leave_as_they_come(table: pa.Table) -> None:
    source = [valid()[0], table[:3], valid()[:1], tuple(valid()[:2]), broken()[1], table[4:5]]
    first, arrow, listed, tupled = CheckedStream(source, checker(), on_error="skip")
    assert first == valid()[0]
    assert arrow.to_pylist() == checker().filter(table[:3]).to_pylist()
    assert (listed, tupled) == (valid()[:1], tuple(valid()[:2]))


def test_each_iteration_starts_anew() -> None:
    stream = CheckedStream(valid(), checker(contract=UNIQUE))
    assert [len(list(stream)) for _ in range(2)] == [ROWS, ROWS]
    assert stream.report.datums == ROWS


def test_a_sequence_passes_once() -> None:
    stream = CheckedStream([valid(), valid()], checker(contract=UNIQUE), on_error="skip")
    assert [len(batch) for batch in stream] == [ROWS]
    assert (stream.report.datums, stream.report.counts["SEQ010"].datums) == (2 * ROWS, ROWS)


def test_what_only_the_whole_tells_is_told_at_the_end() -> None:
    datums = valid()
    for datum in datums:
        datum["loss_fn_inputs"]["advantages"]["data"] = [0.0] * 5
    contract = Contract.for_loss("stable_reinforce").with_severity({"ADV003": "error"})
    seen: list[provenance.Report] = []
    stream = CheckedStream(datums, checker(contract=contract), on_error="skip", on_report=seen.append)
    given = iter(stream)
    assert [next(given) for _ in datums] == datums
    assert (stream.report.valid, seen) == (True, [])
    assert list(given) == []
    assert stream.report.codes("error") == {"ADV003"}
    assert text(seen[0]) == text(stream.report)
    with pytest.raises(ValidationError, match="ADV003"):
        list(CheckedStream(datums, checker(contract=contract)))


def test_a_stream_that_was_not_read_has_no_report() -> None:
    stream = CheckedStream(valid(), checker())
    with pytest.raises(ProvenanceError, match=r"^no report: this process has not read the stream"):
        _ = stream.report
    assert len(list(stream)) == ROWS
    with pytest.raises(ProvenanceError, match=r"^no report"):
        _ = pickle.loads(pickle.dumps(stream)).report


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error is 'ignore', expected 'raise' or 'skip'"),
        ({"at_once": 0}, "at_once is 0, expected 1 or more"),
    ],
)
def test_unknown_ways_to_stream_are_refused(options: Json, message: str) -> None:
    with pytest.raises(ContractError) as error:
        CheckedStream([], checker(), **options)
    assert str(error.value) == message


# --- torch ------------------------------------------------------------------------------------------------


def save(folder: Path, report: provenance.Report) -> None:
    from torch.utils.data import get_worker_info

    worker = get_worker_info()
    path = folder / f"report-{'main' if worker is None else worker.id}.json"
    path.write_text(text(report))


def loader_of(dataset: Any, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=4, collate_fn=list, **options)


def test_a_loader_takes_a_checked_dataset(tmp_path: Path) -> None:
    dataset = CheckedDataset(broken(), checker(), on_error="skip", on_report=partial(save, tmp_path))
    batches = list(loader_of(dataset))
    assert [datum for batch in batches for datum in batch] == checker().filter(broken())
    assert json.loads((tmp_path / "report-main.json").read_text())["bad_datums"] == len(BAD)
    with pytest.raises(ValidationError, match="row 1: "):
        list(loader_of(CheckedDataset(broken(), checker())))


def test_a_checked_dataset_can_be_sent_to_a_worker() -> None:
    dataset = pickle.loads(pickle.dumps(CheckedDataset(broken(), checker(), on_error="skip")))
    assert list(dataset) == checker().filter(broken())


# From Python 3.12 on; the workers use none of the threads.
FORKED = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@FORKED
@pytest.mark.slow
def test_each_worker_checks_alone(tmp_path: Path) -> None:
    # The source is not dealt out: both workers give all of it.
    judge = checker(contract=UNIQUE)
    dataset = CheckedDataset(broken(), judge, on_error="skip", on_report=partial(save, tmp_path))
    workers = {"num_workers": 2, "multiprocessing_context": "fork"}
    assert [len(batch) for batch in loader_of(dataset, **workers)] == [ROWS - len(BAD)] * 2
    for number in range(2):
        report = json.loads((tmp_path / f"report-{number}.json").read_text())
        assert (report["datums"], report["bad_datums"]) == (ROWS, len(BAD))
        assert "SEQ010" not in report["counts"]
    with pytest.raises(ProvenanceError, match="no report"):
        _ = dataset.report

    around = CheckedStream(loader_of(CheckedDataset(valid(), judge), **workers), judge, on_error="skip")
    assert sum(map(len, around)) == ROWS
    assert around.report.counts["SEQ010"].datums == ROWS

    with pytest.raises(ValidationError, match="row 1: logprobs"):
        list(loader_of(CheckedDataset(broken(), judge), **workers))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (
            "import provenance.integrations.torch",
            "torch is not installed: run pip install 'datum-provenance[losses]'",
        ),
        ("from provenance.pipeline import Checker; Checker(ledger=[]).mask([])", None),
    ],
)
def test_only_the_dataset_needs_torch(code: str, error: str | None) -> None:
    blocked = "import sys; sys.modules |= dict.fromkeys(('torch', 'polars', 'datasets', 'pyarrow'))\n"
    done = subprocess.run([sys.executable, "-c", blocked + code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().rpartition("\n")[2].partition(": ")[2] == (error or "")
    assert (done.returncode == 0) == (error is None)


# --- Hugging Face datasets --------------------------------------------------------------------------------


def hugging_face(table: pa.Table) -> Any:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    return datasets.Dataset(table)


def test_datasets_are_filtered_and_annotated(table: pa.Table) -> None:
    rows, judge = hugging_face(table).with_format("arrow"), checker()
    good = [row for row, passes in zip(table.to_pylist(), MASK, strict=True) if passes]
    options = {"batched": True, "batch_size": 4}
    for kept in (rows.filter(judge.mask, **options), rows.map(judge.filter, **options)):
        assert kept[:].to_pylist() == good
    notes = rows.map(judge.annotate, **options)[:]["provenance"].to_pylist()
    assert [note and note["codes"] for note in notes] == [
        None if passes else ["ADV001", "VAL002"][row == 1 :] for row, passes in enumerate(MASK)
    ]
    stream = hugging_face(table).to_iterable_dataset(num_shards=2).with_format("arrow")
    kept = stream.filter(judge.mask, **options).iter(ROWS)
    assert [row for batch in kept for row in batch.to_pylist()] == good


def test_a_dataset_knows_a_checker_again(table: pa.Table, tmp_path: Path) -> None:
    fingerprint = pytest.importorskip("datasets.fingerprint")
    path = tmp_path / "sequences.jsonl"
    provenance.write_sequences(SEQUENCES, path)
    used, other = checker(ledger=path), checker(ledger=path, session="another")
    used.mask(table)
    hashes = [fingerprint.Hasher.hash(judge.mask) for judge in (used, checker(ledger=path), other)]
    assert hashes[0] == hashes[1] != hashes[2]


@FORKED
@pytest.mark.slow
def test_datasets_are_filtered_by_several_processes(table: pa.Table) -> None:
    rows = hugging_face(table).with_format("arrow")
    kept = rows.filter(checker().mask, batched=True, batch_size=2, num_proc=2)
    assert len(kept) == ROWS - len(BAD)


def test_a_dataset_that_is_no_arrow_is_refused(table: pa.Table) -> None:
    with pytest.raises(SchemaError, match=r"a LazyBatch is no batch, .*: with_format\('arrow'\)"):
        hugging_face(table).filter(checker().mask, batched=True)


# --- polars -----------------------------------------------------------------------------------------------


def test_frames_are_filtered(table: pa.Table) -> None:
    frame, judge = as_polars(table), checker()
    assert judge.filter(frame).equals(frame.filter(judge.mask(frame)))
    lazy = frame.lazy().map_batches(judge.filter)
    assert lazy.collect().equals(judge.filter(frame))
