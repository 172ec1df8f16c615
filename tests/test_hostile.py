"""Files that want to do harm: a right verdict or one clear error, never a crash, a hang or endless memory."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import corpus, thrift
from hostile.messages import varint
from hostile.readers import READERS
from hostile.runner import run
from test_cli import run as command

import provenance
from provenance import ContractError, LedgerError, ReadError
from provenance.rules import Case, case

NAMES = list(READERS)


# --- very many files


def test_some_files_of_each_reader(tmp_path: Path) -> None:
    result = run(NAMES, 40 * len(NAMES), 0, tmp_path)
    assert not result.faults, str(result)
    assert result.files == 40 * len(NAMES)
    # What is never valid tests no more than the first lines of a reader.
    assert min(result.outcomes[word] for word in ("valid", "invalid", "refused")) > 20, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_files(name: str, tmp_path: Path) -> None:
    result = run([name], 600, 100_000, tmp_path)
    assert not result.faults, str(result)
    assert result.files == 600


BROKEN = """
import ctypes, time
from hostile.readers import Reader

def fail(path, number, rng): raise ZeroDivisionError("here")
def die(path, number, rng): ctypes.string_at(0)
def hang(path, number, rng): time.sleep(600)
def eat(path, number, rng): return str(len(b"x" * (512 << 20)))
def starve(path, number, rng): return str(len(b"x" * (5 << 30)))

READERS = {f.__name__: Reader(".x", lambda number, rng: b"", f) for f in (fail, eat, starve, hang, die)}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "told", "patience"),
    [
        (("fail", "eat", "starve"), ("ZeroDivisionError: here", "took 51", "MemoryError"), 60),
        (("hang", "die"), ("no answer within 30 s", "ended with -11"), 30),
    ],
)
def test_a_fault_is_told_with_the_file_that_did_it(
    names: tuple[str, ...],
    told: tuple[str, ...],
    patience: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "broken_readers.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    result = run(names, len(names), 0, tmp_path, module="broken_readers", patience=patience)
    assert list(result.faults) == list(range(len(names)))
    for number, (name, words) in enumerate(zip(names, told, strict=True)):
        assert result.faults[number].startswith(f"{name}: {words}"), str(result)
        assert (tmp_path / f"{name}-{number}.x").exists()


# --- files that did harm once


TOKENS = pa.list_(pa.int32())


def parquet(change: Callable[[thrift.Struct], object], table: Any = None) -> bytes:
    """A Parquet file with another footer."""
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"model_input_tokens": pa.array([[7] * 1000], TOKENS)}) if table is None else table, sink
    )
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    footer, _ = thrift.read_struct(data, len(data) - 8 - size)
    change(footer)
    written = thrift.write_struct(footer)
    return data[: -8 - size] + written + len(written).to_bytes(4, "little") + b"PAR1"


def field(struct: thrift.Struct, *path: int) -> Any:
    """A field by its number, and so on in it; of a list of structs the first."""
    found = next(found for found in struct if found[0] == path[0])
    if len(path) == 1:
        return found
    return field(found[2][1][0] if isinstance(found[2][0], int) else found[2], *path[1:])


#: The footer's metadata of the first column, and of it: number of values, sizes, and size statistics.
COLUMN = (4, 1, 3)


def run_of(count: int, *, honest: bool) -> bytes:
    """One row of so many tokens in a few bytes, with or without a word of it in the footer."""
    sink = io.BytesIO()
    table = pa.table({"model_input_tokens": pa.array([[7] * 1000], TOKENS)})
    pq.write_table(table, sink, compression="none", data_page_version="1.0")
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    footer, _ = thrift.read_struct(data, len(data) - 8 - size)
    metadata = field(footer, *COLUMN)[2]
    start = field(metadata, 9)[2]
    header, _ = thrift.read_struct(data, start)
    repeated = [varint(2) + b"\0" + varint(count - 1 << 1) + b"\1", varint(count << 1) + b"\3"]
    page = (
        b"".join(len(runs).to_bytes(4, "little") + runs for runs in repeated)
        + b"\1"
        + varint(count << 1)
        + b"\0"
    )
    field(header, 2)[2] = field(header, 3)[2] = len(page)
    field(header, 5, 1)[2] = count
    body = data[:start] + thrift.write_struct(header) + page
    field(metadata, 6)[2] = field(metadata, 7)[2] = len(body) - 4
    if honest:
        field(metadata, 5)[2] = count
    written = thrift.write_struct(footer)
    return body + written + len(written).to_bytes(4, "little") + b"PAR1"


def rows_of(count: int) -> bytes:
    """One row of 1,000 tokens, in a footer that says how many there are."""

    def change(footer: thrift.Struct) -> None:
        field(footer, 3)[2] = field(footer, 4, 3)[2] = count

    return parquet(change)


def dictionary_of(count: int) -> bytes:
    """Ids in a dictionary that holds so many, as its header says."""
    sink = io.BytesIO()
    table = pa.table({"model_input_tokens": pa.array([[7] * 1000], TOKENS)})
    pq.write_table(table, sink, compression="none")
    data = sink.getvalue()
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).dictionary_page_offset
    header, end = thrift.read_struct(data, start)
    field(header, 7, 1)[2] = count
    written = thrift.write_struct(header)
    size = len(written) - (end - start)
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer, _ = thrift.read_struct(data, at)
    metadata = field(footer, *COLUMN)[2]
    for number in (6, 7, 9):  # both sizes, and where the data begin
        field(metadata, number)[2] += size
    told = thrift.write_struct(footer)
    return data[:start] + written + data[end:at] + told + len(told).to_bytes(4, "little") + b"PAR1"


def stream(table: Any, old: bytes = b"", new: bytes = b"", **options: Any) -> bytes:
    """An Arrow IPC stream in which some bytes are others."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    assert not old or data.count(old) >= 1
    return data.replace(old, new)


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def shared_views() -> Any:
    n = 5000
    elements = pa.array([0] * n, pa.int32())
    starts, sizes = pa.array([0] * n, pa.int32()), pa.array([n] * n, pa.int32())
    return pa.table({"model_input_tokens": pa.ListViewArray.from_arrays(starts, sizes, elements)})


def lists_of_nulls(kind: Any, length: int) -> Any:
    offsets = [None, pa.py_buffer((0).to_bytes(4, "little") + length.to_bytes(4, "little"))]
    buffers = [None] if pa.types.is_fixed_size_list(kind) else offsets
    return pa.table(
        {"model_input_tokens": pa.Array.from_buffers(kind, 1, buffers, children=[pa.nulls(length)])}
    )


PACKED = pa.table({"model_input_tokens": pa.array([[7] * 12_345], TOKENS)})
HARMFUL: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "a run of one value": (".parquet", lambda: run_of(2**28, honest=True), "would have 268435456 elements"),
    "a run that the footer hides": (
        ".parquet",
        lambda: run_of(2**28, honest=False),
        "values more than the 1000 of",
    ),
    "a dictionary that says it is large": (
        ".parquet",
        lambda: dictionary_of(2**30),
        "a dictionary of 1073741824 values in a page of 4 bytes",
    ),
    "a dictionary of fewer than none": (".parquet", lambda: dictionary_of(-1), "a dictionary of -1 values"),
    "rows that have no values": (
        ".parquet",
        lambda: parquet(
            lambda footer: [field(footer, *path).__setitem__(2, 2**40) for path in ((3,), (4, 3))]
        ),
        "a footer that contradicts itself",
    ),
    "rows that are in no row group": (
        ".parquet",
        lambda: parquet(lambda footer: field(footer, 3).__setitem__(2, 2)),
        "a footer that contradicts itself",
    ),
    "rows that are not in the pages": (
        ".parquet",
        lambda: rows_of(3),
        "1 rows, where the footer says 3",
    ),
    "a column outside of the file": (
        ".parquet",
        lambda: parquet(lambda footer: field(footer, *COLUMN, 7).__setitem__(2, 2**40)),
        "of a file of",
    ),
    "a buffer that says it is large": (
        ".arrows",
        lambda: stream(PACKED, number(4 * 12_345), number(2**40), compression="zstd"),
        "a record batch would have",
    ),
    "rows without bytes": (
        ".arrows",
        lambda: stream(pa.table({"model_input": pa.nulls(77_777)}), number(77_777), number(2**40)),
        "a record batch would have 1099511627776 elements",
    ),
    "elements without bytes": (
        ".arrows",
        lambda: stream(lists_of_nulls(pa.list_(pa.null()), 2**31 - 1)),
        "a list column would have 2147483647 elements",
    ),
    "a width without bytes": (
        ".arrows",
        lambda: stream(lists_of_nulls(pa.list_(pa.null(), 2**31 - 1), 2**31 - 1)),
        "would have 2147483647 elements",
    ),
    "views of the same elements": (".arrows", lambda: stream(shared_views()), "a list column would have"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_file_is_refused(name: str, tmp_path: Path) -> None:
    suffix, make, message = HARMFUL[name]
    path = tmp_path / f"file{suffix}"
    path.write_bytes(make())
    with pytest.raises(ReadError, match=message):
        provenance.check(path, "custom")
    with pytest.raises(ReadError, match=message):
        provenance.convert(path, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_histogram_that_ended_the_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(parquet(lambda footer: field(footer, *COLUMN, 16, 3)[2][1].append(7)))
    done = command("check", path, "--loss", "custom")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "a footer that contradicts itself or the schema" in done.stderr


def test_a_file_of_equal_rows_is_no_bomb(tmp_path: Path) -> None:
    table = pa.concat_tables([pa.table({"model_input_tokens": pa.array([[7] * 50], TOKENS)})] * 50_000)
    pq.write_table(table.combine_chunks(), tmp_path / "file.parquet", compression="zstd")
    assert provenance.check(tmp_path / "file.parquet", "custom").positions == 2_500_000


def test_zeros_of_half_precision_stay_zeros(tmp_path: Path) -> None:
    halves = pa.array([[0.0, -0.0, 0.5]], pa.list_(pa.float16()))
    table = pa.table({"model_input_tokens": pa.array([[7] * 3], TOKENS), "weights": halves})
    pq.write_table(table, tmp_path / "file.parquet")
    provenance.convert(tmp_path / "file.parquet", tmp_path / "file.jsonl")
    written = json.loads((tmp_path / "file.jsonl").read_bytes())["loss_fn_inputs"]["weights"]["data"]
    assert list(map(repr, map(float, written))) == ["0.0", "-0.0", "0.5"]


# --- contracts


def test_a_contract_that_does_not_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "contract.toml"
    path.write_text('extends = "/dev/zero"')
    with pytest.raises(
        ContractError, match="/dev/zero: more than 1048576 bytes, the limit for a contract file"
    ):
        provenance.Contract.load(path)


def test_a_long_chain_of_contracts_is_refused(tmp_path: Path) -> None:
    for i in range(2000):
        (tmp_path / f"{i}.toml").write_text(f'extends = "{i + 1}.toml"')
    with pytest.raises(ContractError, match="16 files, the limit"):
        provenance.Contract.load(tmp_path / "0.toml")


@pytest.mark.parametrize(
    "key", ["extends", "ruleset", "severity.VAL001", "parameters.window", "inputs.a", "severity"]
)
def test_a_deep_value_in_a_contract_is_named_in_short(key: str, tmp_path: Path) -> None:
    path = tmp_path / "contract.toml"
    base = "" if key == "extends" else 'extends = "custom"\n'
    path.write_text(f"{base}{key}{'.a' * 900} = 1\n")
    with pytest.raises(ContractError) as error:
        provenance.Contract.load(path)
    assert len(str(error.value)) < 1000


# --- ledgers in SQLite files

EXAMPLE: Case = case()
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
RENAMED = "ALTER TABLE provenance_sequences RENAME TO other"
TRAPS: dict[str, tuple[str, str]] = {
    "view": (
        f"{RENAMED}; CREATE VIEW provenance_sequences AS {ENDLESS} SELECT other.* FROM n, other",
        "it has a view 'provenance_sequences', which no ledger has",
    ),
    "trigger": (
        "CREATE TRIGGER t AFTER INSERT ON provenance_sequences BEGIN DELETE FROM provenance_sequences; END",
        "it has a trigger 't', which no ledger has",
    ),
    "generated column": (
        "ALTER TABLE provenance_sequences ADD COLUMN x AS (zeroblob(900000000))",
        "it has a generated column 'x', which no ledger has",
    ),
    "no bool": ("UPDATE provenance_sequences SET record_stability_info = zeroblob(4)", "damaged: "),
    "number as blob": ("UPDATE provenance_sequences SET sampled_at = x'31'", "damaged: "),
    "text as blob": ("UPDATE provenance_sequences SET model = x'31'", "damaged: "),
}


@pytest.mark.parametrize("name", TRAPS)
def test_a_ledger_that_is_a_trap_is_refused(name: str, tmp_path: Path) -> None:
    statements, message = TRAPS[name]
    path = tmp_path / "ledger.db"
    path.write_bytes(corpus.database_file(corpus.CASES.index(EXAMPLE)))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)
        connection.commit()
    with pytest.raises(LedgerError, match=message):
        provenance.check(list(EXAMPLE.datums), ledger=path, session=EXAMPLE.session, now=EXAMPLE.now)


def test_a_union_is_not_copied(tmp_path: Path) -> None:
    """Arrow ends the process over some unions, of which a check needs nothing."""
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"]), pa.array([True])])
    path = tmp_path / "a.arrow"
    batch = pa.record_batch({"model_input_tokens": pa.array([[1]]), "advantages": union})
    with pa.ipc.new_file(str(path), batch.schema) as file:
        file.write_batch(batch)
    assert provenance.check(path).codes() == {"FMT004"}
    with pytest.raises(provenance.ReadError, match="'advantages' holds a union"):
        provenance.check(path, write_bad=tmp_path / "bad.arrow")
    assert list(tmp_path.iterdir()) == [path]


def test_lists_of_no_width_are_not_written_to_parquet(tmp_path: Path) -> None:
    """Arrow's writer ends the process over some of them."""
    none = pa.array([[], []], pa.list_(pa.string(), 0))
    table = pa.table({"model_input_tokens": pa.array([[1], [2]], TOKENS), "metadata": none})
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)
    with pytest.raises(provenance.WriteError, match=r"'metadata' holds fixed_size_list<item: string>\[0\]"):
        provenance.check(path, "custom", write_good=tmp_path / "good.parquet")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("moment", [2**62, -(2**62), -(2**63)])
def test_a_time_beyond_the_calendar_cannot_be_read(moment: int, tmp_path: Path) -> None:
    example = case()
    record = {**example.sequences[0], "sampled_at": moment, "record_stability_info": True}
    record.pop("last_used_at", None)
    columns = {
        name: pa.array([value], pa.timestamp("us", "UTC") if name == "sampled_at" else None)
        for name, value in record.items()
    }
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    report = provenance.check(
        list(example.datums), ledger=tmp_path / "s.parquet", session=example.session, now=example.now
    )
    (fault,) = (v for v in report if v.code == "FMT004")
    assert (fault.location.field, fault.message) == ("sampled_at", f"{moment} us is out of range")
