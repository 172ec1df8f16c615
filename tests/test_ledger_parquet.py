"""The ledger over Parquet files, against the ledger in memory that has loaded the same files."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _fuzz import any_batch, examples
from _ledgers import HOUR, NOON, sequence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import provenance
from provenance import Ledger, LedgerError, MemoryLedger, ParquetLedger, ReadError, check
from provenance.engine.sources import ledger_of, paths_of
from provenance.formats import _parquet_pieces, parquet_ledger, read_sequences
from provenance.formats._arrow_files import ArrowFile
from provenance.mutations import Dataset, registry
from provenance.reports.json import report_to_json
from provenance.sequences import SequenceTable

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("sequence_id", pa.string()),
        ("session_id", pa.string()),
        ("prompt_tokens", pa.list_(pa.int64())),
        ("tokens", pa.list_(pa.int64())),
        ("logprobs", pa.list_(pa.float32())),
        ("sampled_at", TIME),
        ("last_used_at", TIME),
        ("record_stability_info", pa.bool_()),
        ("model", pa.string()),
        ("policy_version", pa.string()),
        ("stop_reason", pa.string()),
        ("temperature", pa.float32()),
        ("top_p", pa.float32()),
        ("top_k", pa.int64()),
        ("seed", pa.int64()),
    ]
)
RECORD: dict[str, Any] = {
    "sequence_id": "a",
    "session_id": "s",
    "prompt_tokens": [11, -1, 13],
    "tokens": [21, 22],
    "logprobs": [-0.5, -0.25],
    "sampled_at": NOON,
    "record_stability_info": True,
}


def write(
    records: Sequence[dict[str, Any]],
    path: Path,
    *,
    rows: int = 2,
    schema: pa.Schema = SCHEMA,
    **options: Any,
) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(records), schema), path, row_group_size=rows, **options)
    return str(path)


def split(records: Sequence[dict[str, Any]], folder: Path, rng: random.Random) -> list[str]:
    """Write records to one to three files with row groups of a few rows."""
    cuts = sorted(rng.choices(range(len(records) + 1), k=rng.randrange(3)))
    ends = zip([0, *cuts], [*cuts, len(records)], strict=True)
    return [
        write(records[a:b], folder / f"{n}.parquet", rows=rng.randint(1, 4)) for n, (a, b) in enumerate(ends)
    ]


def in_memory(paths: Sequence[str]) -> tuple[MemoryLedger, list[Any]]:
    memory, faults = MemoryLedger(), []
    for path in paths:
        for table, found in read_sequences(path):
            memory.load(table)
            faults += [(path, fault) for fault in found]
    return memory, faults


def rows_of(table: SequenceTable) -> list[tuple[Any, ...]]:
    """Everything a table says, row by row; NaNs as text, which equals itself."""
    names = [
        f.name for f in fields(table) if not f.name.endswith("_start") and f.name not in ("pool", "logprobs")
    ]
    return [
        (
            *(str(getattr(table, name)[i]) for name in names),
            table.prompt(i).tolist(),
            table.tokens(i).tolist(),
            str(table.sampled_logprobs(i).tolist()),
        )
        for i in range(len(table))
    ]


def a_record(rng: random.Random) -> dict[str, Any]:
    """A record of few ids and sessions, so that they repeat in all the ways they can; some have a fault."""
    record = {
        "sequence_id": rng.choice("abcdefgh"),
        "session_id": rng.choice(["s", "t", "u"]),
        "prompt_tokens": [11, -1, 13][: rng.choice([0, 3, 3, 3])],
        "tokens": [21, 22],
        "logprobs": [-0.5, rng.choice([-0.25, -0.25, float("nan"), None])],
        "sampled_at": NOON,
        "last_used_at": rng.choice([None, NOON + HOUR, NOON + 2 * HOUR]),
        "record_stability_info": rng.random() < 0.9,
    }
    if rng.random() < 0.15:
        name, value = rng.choice(
            [
                ("prompt_tokens", None),
                ("prompt_tokens", [11, None]),
                ("prompt_tokens", [-2]),
                ("tokens", [2**31]),
                ("tokens", [-1]),
                ("tokens", None),
                ("logprobs", None),
                ("sequence_id", None),
                ("session_id", ""),
                ("sampled_at", None),
                ("record_stability_info", None),
                ("temperature", float("inf")),
                ("top_k", 2**31),
            ]
        )
        record[name] = value
    return record


# The same as in memory


@pytest.mark.parametrize("seed", range(25))
def test_lookups_and_faults_are_those_of_the_ledger_in_memory(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(_parquet_pieces, "_POSITIONS", rng.choice([1, 8, 2**20]))
    paths = split([a_record(rng) for _ in range(rng.randrange(30))], tmp_path, rng)
    memory, faults = in_memory(paths)
    with ParquetLedger(paths, cache_bytes=rng.choice([0, 3000, 2**20])) as ledger:
        assert ledger.faults == faults
        for _ in range(4):
            ids = rng.choices(["a", "b", "c", "d", "e", "f", "g", "h", "nobody", ""], k=rng.randrange(12))
            session = rng.choice([None, "s", "t", "nowhere"])
            assert rows_of(ledger.lookup(ids, session)) == rows_of(memory.lookup(ids, session))
        before = NOON + rng.choice([0.5, 1.5, 2.5]) * HOUR
        for session in (None, "s"):
            expected = rows_of(memory.expiring(before, session))
            assert sorted(rows_of(ledger.expiring(before, session))) == sorted(expected)


def as_row(record: Any) -> dict[str, Any]:
    """A record of JSON as far as it has a place in Arrow; null where it has none."""
    row = {}
    for field in SCHEMA:
        value = record.get(field.name) if isinstance(record, dict) else None
        try:
            if pa.types.is_timestamp(field.type) and isinstance(value, str):
                value = dt.datetime.fromisoformat(value)
            row[field.name] = pa.array([value], field.type)[0].as_py()
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            row[field.name] = None
    return row


def same_report(dataset: Dataset, folder: Path, rng: random.Random) -> None:
    paths = split([as_row(record) for record in dataset.sequences or ()], folder, rng)
    arguments: dict[str, Any] = {
        "session": dataset.session,
        "now": dataset.now or NOON,
        "loss_config": dataset.loss_config,
        "max_examples": 10_000,
    }
    expected = check(dataset.datums, dataset.contract, ledger=paths, **arguments)
    found = check(dataset.datums, dataset.contract, ledger=ParquetLedger(paths), **arguments)
    assert report_to_json(found) == report_to_json(expected)


def mutated(dataset: Dataset, name: str, seed: int) -> Dataset:
    broken = dataset.copy()
    registry()[name].mutate(broken, random.Random(seed))
    return broken


@pytest.mark.parametrize(
    "name", sorted(name for name, found in registry().items() if found.family == "records")
)
def test_reports_on_mutated_ledgers_are_the_same_to_the_byte(name: str, tmp_path: Path) -> None:
    for number, dataset in enumerate(examples(any_batch(), 3)):
        same_report(mutated(dataset, name, number), tmp_path / str(number), random.Random(number))


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(any_batch(), st.lists(st.sampled_from(list(registry())), max_size=3), st.integers(0, 99))
def test_reports_are_the_same_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, dataset: Dataset, names: list[str], seed: int
) -> None:
    for name in names:
        dataset = mutated(dataset, name, seed)
    same_report(dataset, tmp_path_factory.mktemp("ledger"), random.Random(seed))


def test_a_report_names_the_records_that_cannot_be_read_and_those_that_conflict(tmp_path: Path) -> None:
    records = [RECORD, RECORD | {"tokens": [21, -1]}, RECORD | {"tokens": [21, 23]}]
    path = write(records, tmp_path / "a.parquet")
    spans = {
        "model_input_spans": [{"type": "prompt", "sequence_id": "a", "length": 2}],
        "loss_fn_input_spans": [{"type": "sampled", "sequence_id": "a", "length": 2}],
    }
    zeros = {"data": [0.0, 0.0], "dtype": "float32", "shape": [2]}
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": [13, 21]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": [21, 22], "dtype": "int64", "shape": [2]},
            "logprobs": zeros,
            "advantages": zeros,
        },
        **spans,
    }
    found = check([datum], ledger=ParquetLedger(path), session="s", now=NOON)
    places = {v.code: (v.location.file, v.location.row, v.location.field) for v in found}
    assert places["FMT004"] == (path, 1, "tokens[1]")
    assert places["SEQ008"] == (path, 0, "sequence_id")


def test_ids_that_share_a_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_ledger, "_hashes", lambda ids: np.array([len(i) for i in ids], np.int64))
    ids = ["a", "b", "cc", "dd"]
    path = write(
        [RECORD | {"sequence_id": i, "tokens": [k]} for k, i in enumerate(ids)], tmp_path / "a.parquet"
    )
    table = ParquetLedger(path).lookup(["dd", "x", "b", "yy", "a"], "s")
    assert table.known.tolist() == [True, False, True, False, True]
    assert [table.tokens(i).tolist() for i in (0, 2, 4)] == [[3], [1], [0]]


def test_a_file_with_a_column_of_the_wrong_type(tmp_path: Path) -> None:
    good = write([RECORD], tmp_path / "a.parquet")
    bad = tmp_path / "b.parquet"
    pq.write_table(pa.table({"sequence_id": [1, 2]}), bad)
    paths = [good, str(bad), write([RECORD | {"sequence_id": "b"}], tmp_path / "c.parquet")]
    ledger = ParquetLedger(paths)
    assert ledger.faults == in_memory(paths)[1]
    assert ledger.lookup(["a", "b"], "s").known.all()


# Statistics in the footer


@pytest.fixture
def names_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that were read, part after part."""
    names_read: list[str] = []
    batches_of = ArrowFile.batches_of

    def noted(self: ArrowFile, part: Any, names: Any, total: int) -> Any:
        names_read.extend(names)
        return batches_of(self, part, names, total)

    monkeypatch.setattr(ArrowFile, "batches_of", noted)
    return names_read


@pytest.mark.parametrize("column", ["prompt_tokens", "tokens"])
@pytest.mark.parametrize(
    ("value", "read"),
    [([5, 6], False), ([-2], True), ([2**31], True), ([5, None], True), (None, True), ([], True)],
)
def test_tokens_are_read_at_opening_where_statistics_do_not_vouch_for_them(
    column: str, value: Any, read: bool, tmp_path: Path, names_read: list[str]
) -> None:
    path = write([RECORD, RECORD | {column: value}], tmp_path / "a.parquet")
    ledger = ParquetLedger(path)
    assert (column in names_read) is read
    assert "logprobs" not in names_read
    assert ledger.faults == in_memory([path])[1]


def test_statistics_of_unknown_writers_vouch_for_nothing(tmp_path: Path, names_read: list[str]) -> None:
    path = Path(write([RECORD], tmp_path / "a.parquet"))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"parquet-cpp-arrow", b"parquet-xyz-arrow"))
    ParquetLedger(path)
    assert {"prompt_tokens", "tokens"} < set(names_read)


@pytest.mark.parametrize("options", [{"write_statistics": False}, {"write_statistics": ["sequence_id"]}])
def test_a_file_without_statistics(options: dict[str, Any], tmp_path: Path) -> None:
    path = write([RECORD, RECORD | {"sequence_id": "b", "tokens": [-5]}], tmp_path / "a.parquet", **options)
    ledger = ParquetLedger(path)
    assert ledger.faults == in_memory([path])[1] != []
    assert ledger.lookup(["a", "b"], "s").known.tolist() == [True, False]


def test_statistics_that_lie_are_found_out_when_the_record_is_asked_for(tmp_path: Path) -> None:
    records = [
        RECORD | {"sequence_id": str(i), "tokens": [t]} for i, t in enumerate([1, 2**29 + 12345, 2**30])
    ]
    path = Path(write(records, tmp_path / "a.parquet", rows=9, compression="none", use_dictionary=False))
    honest = (2**29 + 12345).to_bytes(8, "little")
    content = path.read_bytes()
    assert content.count(honest) == 1
    path.write_bytes(content.replace(honest, (-7).to_bytes(8, "little", signed=True)))
    ledger = ParquetLedger(path)
    assert ledger.lookup(["0", "2"], "s").known.all()
    with pytest.raises(ReadError, match=r"a\.parquet: row 1 is not as the statistics in the footer say"):
        ledger.lookup(["1"], "s")


# What is read


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the batches that were decoded since the ledger was opened."""
    rows: list[int] = []
    batch_with = _parquet_pieces._Cursor.batch_with
    monkeypatch.setattr(_parquet_pieces, "_POSITIONS", 50)

    def noted(self: Any, row: int) -> Any:
        iterator = self._batches
        found = batch_with(self, row)
        rows.append(found[0]) if self._batches is iterator else rows.append(-found[0] - 1)
        return found

    monkeypatch.setattr(_parquet_pieces._Cursor, "batch_with", noted)
    return rows


def many(n: int) -> list[dict[str, Any]]:
    return [RECORD | {"sequence_id": str(i), "tokens": [i, i]} for i in range(n)]


def test_one_large_row_group_is_read_once_by_who_asks_in_order(tmp_path: Path, decoded: list[int]) -> None:
    path = write(many(100), tmp_path / "a.parquet", rows=100)
    ledger = ParquetLedger(path, cache_bytes=8000)
    for start in range(0, 100, 7):
        ids = [str(i) for i in range(start, min(start + 7, 100))]
        assert ledger.lookup(ids, "s").tokens(len(ids) - 1).tolist() == [int(ids[-1])] * 2
    assert decoded == [-1, *range(10, 100, 10)]  # ten pieces of ten rows, opened once


def test_a_lookup_in_any_order_reads_each_piece_once(tmp_path: Path, decoded: list[int]) -> None:
    path = write(many(100), tmp_path / "a.parquet", rows=20)
    ledger = ParquetLedger(path, cache_bytes=0)
    ids = [str(i) for i in random.Random(0).sample(range(100), 100)]
    table = ledger.lookup(ids, "s")
    assert table.token_length.tolist() == [2] * 100
    assert [table.tokens(i)[0] for i in range(100)] == [int(i) for i in ids]
    assert len(decoded) == 10


def test_the_cache_is_bounded(tmp_path: Path, decoded: list[int]) -> None:
    path = write(many(100), tmp_path / "a.parquet", rows=100)
    ledger = ParquetLedger(path, cache_bytes=10_000)
    ledger.lookup([str(i) for i in range(100)], "s")
    kept = ledger._pieces._kept
    assert 1 < len(kept) < 10
    assert sum(piece.nbytes for piece in kept.values()) <= 10_000
    before = len(decoded)
    ledger.lookup(["99"], "s")
    assert len(decoded) == before
    ledger.close()
    assert ledger.lookup(["99"], "s").known.all()
    assert len(decoded) == before + 1


def test_what_was_used_last_is_kept(tmp_path: Path, decoded: list[int]) -> None:
    ledger = ParquetLedger(write(many(50), tmp_path / "a.parquet", rows=10), cache_bytes=13_000)
    for other in ("10", "20", "30", "40"):
        assert ledger.lookup(["0", other], "s").known.all()
    assert len(ledger._pieces._kept) == 3
    assert len(decoded) == 5  # of which the first is asked for four times


def test_few_files_are_open_at_a_time(tmp_path: Path) -> None:
    paths = [write([r], tmp_path / f"{i:02}.parquet") for i, r in enumerate(many(30))]
    ledger = ParquetLedger(paths, cache_bytes=0)
    assert ledger.lookup([str(i) for i in range(30)], "s").known.all()
    assert 1 < len(ledger._pieces._open) <= 8


def test_progress_sums_to_the_size_of_the_files(tmp_path: Path) -> None:
    seen: dict[str, int] = {}

    def count(path: str, size: int) -> None:
        seen[path] = seen.get(path, 0) + size

    bad = tmp_path / "b.parquet"
    pq.write_table(pa.table({"sequence_id": [1, 2]}), bad)
    paths = [write(many(50), tmp_path / "a.parquet", rows=7), str(bad), write([], tmp_path / "c.parquet")]
    ParquetLedger(paths, on_bytes=count)
    assert seen == {path: Path(path).stat().st_size for path in paths}


# Being a ledger


def test_it_is_a_ledger_that_cannot_be_written(tmp_path: Path) -> None:
    ledger = ParquetLedger(Path(write([RECORD], tmp_path / "a.parquet")))
    assert isinstance(ledger, Ledger)
    for refused in (
        lambda: ledger.record([sequence()]),
        lambda: ledger.renew(["a"], "s", NOON),
        lambda: ledger.prune(NOON),
        ledger.stats,
    ):
        with pytest.raises(LedgerError, match="answers lookups only, nothing was"):
            refused()
    assert ledger.lookup(["a"], "s").known.all()


def test_a_pickled_one_opens_the_files_anew(tmp_path: Path) -> None:
    # In another process strings hash to other numbers.
    ledger = ParquetLedger(write(many(9), tmp_path / "a.parquet"), cache_bytes=77)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).lookup(['3', 'x'], 's').known.tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(ledger), capture_output=True, check=True
    )
    assert done.stdout.decode().split("\n")[0] == "[True, False]"
    assert pickle.loads(pickle.dumps(ledger))._cache_bytes == 77


def test_threads_may_share_one(tmp_path: Path) -> None:
    ledger = ParquetLedger(write(many(300), tmp_path / "a.parquet", rows=9), cache_bytes=0)

    def look(seed: int) -> bool:
        ids = [str(i) for i in random.Random(seed).sample(range(300), 20)]
        table = ledger.lookup(ids, "s")
        return [table.tokens(i)[0] for i in range(20)] == [int(i) for i in ids]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(40)))


def test_no_files_and_empty_files(tmp_path: Path) -> None:
    assert not ParquetLedger([]).lookup(["a"], "s").known.any()
    ledger = ParquetLedger(write([], tmp_path / "a.parquet"))
    assert ledger.lookup([], None).known.tolist() == []
    assert not ledger.lookup(["a"], None).known.any()
    assert len(ledger.expiring(NOON + HOUR)) == 0


# Files that cannot be read


def test_files_that_are_no_parquet(tmp_path: Path) -> None:
    arrow = tmp_path / "a.arrow"
    with pa.ipc.new_file(str(arrow), SCHEMA):
        pass
    with pytest.raises(ReadError, match=r"a\.arrow: Arrow IPC, expected Parquet"):
        ParquetLedger(arrow)
    with pytest.raises(ReadError, match=r"none\.parquet: no such file"):
        ParquetLedger(tmp_path / "none.parquet")
    text = tmp_path / "text.parquet"
    text.write_text("{}")
    with pytest.raises(ReadError, match=r"text\.parquet: starts with"):
        ParquetLedger(text)


def test_a_file_that_changes_under_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ledger = ParquetLedger(write(many(5), path))
    write(many(4), path)
    for ask in (lambda: ledger.lookup(["1"], "s"), lambda: ledger.expiring(NOON + HOUR)):
        with pytest.raises(ReadError, match="changed since the ledger was opened: open it again"):
            ask()


@pytest.mark.parametrize("seed", range(40))
def test_damaged_pages_are_errors_of_one_line(seed: int, tmp_path: Path) -> None:
    path = Path(write(many(20), tmp_path / "a.parquet", rows=6))
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(4, len(content) - 8 - footer)] = rng.randrange(256)
    path.write_bytes(content)
    try:
        ledger = ParquetLedger(path)
        ledger.lookup([str(i) for i in range(20)], "s")
        ledger.expiring(NOON + HOUR)
        message = f"{path}: "
    except ReadError as error:
        message = str(error)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")


# As --ledger


def test_a_folder_stands_for_the_parquet_files_in_it(tmp_path: Path) -> None:
    days = [
        write([RECORD | {"sequence_id": str(day)}], tmp_path / f"date=2026-01-0{day}" / "part-0.parquet")
        for day in (1, 2)
    ]
    write([RECORD | {"tokens": [1]}], tmp_path / "_temporary" / "part-1.parquet")
    write([RECORD | {"tokens": [1]}], tmp_path / ".part-2.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").touch()
    assert paths_of(tmp_path) == days
    assert paths_of(f"{tmp_path}/date=*") == days
    ledger, faults = ledger_of(str(tmp_path), max_line=999)
    assert isinstance(ledger, MemoryLedger)
    assert len(ledger) == 2
    assert faults == []
    assert ParquetLedger(tmp_path).lookup(["1", "2", "a"], "s").known.tolist() == [True, True, False]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReadError, match="empty: a directory, expected a file or a pattern"):
        ledger_of(tmp_path / "empty", max_line=999)


def test_large_files_are_left_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write(many(5), tmp_path / "a.parquet"), write(many(9), tmp_path / "b.parquet")]
    size = sum(_parquet_pieces.bytes_in_memory(path) or 0 for path in paths)
    assert size == 14 * (400 + 4 * (3 + 2 + 2))
    monkeypatch.setattr(parquet_ledger, "LARGE", size)
    assert isinstance(ledger_of(paths, max_line=999)[0], MemoryLedger)
    monkeypatch.setattr(parquet_ledger, "LARGE", size - 1)
    found, faults = ledger_of(paths, max_line=999)
    assert isinstance(found, ParquetLedger)
    assert faults == []
    provenance.write_sequences(
        [json.loads(json.dumps(RECORD, default=dt.datetime.isoformat))], tmp_path / "c.jsonl"
    )
    assert isinstance(ledger_of([*paths, tmp_path / "c.jsonl"], max_line=999)[0], MemoryLedger)
    with pytest.raises(ReadError, match=r"none\.parquet: no such file"):
        ledger_of([*paths, tmp_path / "none.parquet"], max_line=999)


def test_an_id_of_several_other_sessions_is_that_of_the_first_by_name(tmp_path: Path) -> None:
    records = [RECORD | {"session_id": name} for name in ("t", "s", "u")]
    path = write(records, tmp_path / "a.parquet")
    for ledger in (ParquetLedger(path), in_memory([path])[0]):
        table = ledger.lookup(["a", "a"], None)
        assert table.session_id.tolist() == ["s", "s"]
        assert table.ambiguous.all()


LIMITED = """
import resource, sys
import provenance, pyarrow.parquet
from provenance import ParquetLedger, check
from provenance.engine import sources
path, kind = sys.argv[1:]
used = int(open("/proc/self/status").read().partition("VmSize:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, -1))
if kind == "parquet":
    ledger = ParquetLedger(path, cache_bytes=2**24)
else:
    ledger = sources.ledger_of(path, max_line=999)[0]
for start in range(0, 4000, 50):
    assert ledger.lookup([str(i) for i in range(start, start + 50)], "s").known.all()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_a_ledger_of_more_than_there_is_memory(tmp_path: Path) -> None:
    """A row group with 1 GiB of tokens, in 256 MiB of address space beside that of the libraries."""
    path = tmp_path / "a.parquet"
    n, length = 4000, 2**16
    offsets = np.arange(n // 40 + 1, dtype=np.int32) * length
    tokens = np.tile(np.random.default_rng(0).integers(0, 99, length, np.int32), n // 40)
    columns = {
        "sequence_id": [str(i) for i in range(n)],
        "session_id": ["s"] * n,
        "prompt_tokens": [[1]] * n,
        "tokens": pa.chunked_array([pa.ListArray.from_arrays(offsets, tokens)] * 40),
        "logprobs": [[-1.0]] * n,
        "sampled_at": pa.array([NOON] * n, TIME),
        "record_stability_info": [True] * n,
    }
    pq.write_table(pa.table(columns), path, row_group_size=n)
    done = {
        kind: subprocess.run(
            [sys.executable, "-c", LIMITED, path, kind], capture_output=True, text=True, check=False
        )
        for kind in ("parquet", "memory")
    }
    assert done["parquet"].returncode == 0, done["parquet"].stderr[-500:]
    assert done["memory"].returncode != 0
    # Whatever asks first: numpy, Arrow, or a thread for its stack.
    assert re.search("MemoryError|of size [0-9]+ failed|can't start new thread", done["memory"].stderr)


@pytest.mark.parametrize(
    ("paths", "options", "words"),
    [
        (None, {}, "a ledger from a NoneType: give paths"),
        (3, {}, "a ledger from a int: give paths"),
        ("x.parquet", {"cache_bytes": -1}, "cache_bytes is -1, expected a number of bytes"),
        ("x.parquet", {"cache_bytes": 1.5}, "cache_bytes is 1.5, expected a number of bytes"),
        ("x.parquet", {"cache_bytes": True}, "cache_bytes is True, expected a number of bytes"),
    ],
)
def test_what_is_no_ledger_of_files_is_refused(paths: Any, options: Any, words: str) -> None:
    with pytest.raises(provenance.SchemaError, match=words):
        provenance.ParquetLedger(paths, **options)


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_temporary.parquet").touch()
    with pytest.raises(provenance.ReadError, match="a folder without a Parquet file"):
        provenance.ParquetLedger(tmp_path)
