"""Arrow and Parquet files: containers, batches, progress, damage, and how little is copied."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from _arrow import CONTAINERS, write

from provenance.errors import ReadError
from provenance.formats import arrow

ROWS, LENGTH = 60, 50


def plain(rows: int = ROWS, length: int = LENGTH) -> pa.Table:
    """Text alone, no nulls: what nearly every file looks like."""
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * length)
    numbers = np.arange(rows * length)

    def column(dtype: Any) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, pa.array(numbers.astype(dtype)))

    return pa.table(
        {
            "model_input_tokens": column(np.int32),
            "target_tokens": column(np.int64),
            "logprobs": column(np.float32),
            "advantages": column(np.float32),
        }
    )


# Batches


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("rows", [1, 7, ROWS, 1000])
@pytest.mark.parametrize("positions", [1, LENGTH * 10, LENGTH * 1000])
def test_batches(suffix: str, rows: int, positions: int, tmp_path: Path) -> None:
    path = write(plain(), tmp_path / f"data{suffix}", rows)
    read: list[int] = []
    batches = list(arrow.read_datums(path, batch_positions=positions, on_bytes=read.append))
    assert np.concatenate([batch.row for batch in batches]).tolist() == list(range(ROWS))
    assert np.concatenate([batch.tokens for batch in batches]).tolist() == list(range(ROWS * LENGTH))
    assert max(batch.positions for batch in batches) <= max(positions, LENGTH)
    assert {batch.file for batch in batches} == {path}
    assert all(batch.line is None for batch in batches)
    assert min(read) > 0
    assert sum(read) == Path(path).stat().st_size


def test_small_row_groups_share_a_batch(tmp_path: Path) -> None:
    path = write(plain(), tmp_path / "data.parquet", 1)
    assert len(list(arrow.read_datums(path))) == 1


def test_progress_is_even(tmp_path: Path) -> None:
    path = write(plain(), tmp_path / "data.parquet", 15)
    read: list[int] = []
    for _ in arrow.read_datums(path, batch_positions=15 * LENGTH, on_bytes=read.append):
        pass
    assert len(read) == 4
    assert max(read) < 2 * min(read)


def test_rows_of_a_batch_are_limited(tmp_path: Path) -> None:
    path = write(plain(10_000, 1), tmp_path / "data.parquet")
    assert max(len(batch) for batch in arrow.read_datums(path)) == 4096


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_no_rows(suffix: str, tmp_path: Path) -> None:
    path = write(plain().slice(0, 0), tmp_path / f"data{suffix}")
    read: list[int] = []
    assert sum(len(batch) for batch in arrow.read_datums(path, on_bytes=read.append)) == 0
    assert sum(read) == Path(path).stat().st_size


def test_the_suffix_says_nothing(tmp_path: Path) -> None:
    for suffix in CONTAINERS:
        path = Path(write(plain(), tmp_path / f"data{suffix}")).rename(tmp_path / "data")
        assert sum(len(batch) for batch in arrow.read_datums(str(path))) == ROWS


def test_columns_that_are_not_read(tmp_path: Path) -> None:
    data = plain().append_column("metadata", pa.array(["x"] * ROWS))
    # A column with a dot in its name, and one whose name starts that path.
    data = data.append_column("mask.a", data["logprobs"]).append_column("mask", data["logprobs"])
    for suffix in CONTAINERS:
        (batch,) = arrow.read_datums(write(data, tmp_path / f"data{suffix}"))
        assert set(batch.inputs) == {"target_tokens", "logprobs", "advantages", "mask", "mask.a"}


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_ipc(compression: str, tmp_path: Path) -> None:
    path = tmp_path / "data.arrow"
    with pa.ipc.new_file(
        str(path), plain().schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as file:
        file.write_table(plain())
    (batch,) = arrow.read_datums(str(path))
    assert batch.tokens.tolist() == list(range(ROWS * LENGTH))


# Copies


def test_plain_batches_are_views() -> None:
    data = plain().combine_chunks().to_batches()[0]
    batch = arrow.columns_of_batch(data)
    pairs = [(batch.tokens, "model_input_tokens")]
    pairs += [(batch.inputs[name].values, name) for name in ("target_tokens", "logprobs", "advantages")]
    for values, name in pairs:
        assert np.shares_memory(values, data.column(name).values.to_numpy()), name
    assert batch.text is None
    assert batch.null_tokens is None
    assert all(tensor.valid is None for tensor in batch.inputs.values())


def test_slices_and_chunks_of_text_are_views() -> None:
    tokens = plain().combine_chunks().to_batches()[0].column("model_input_tokens")
    struct = pa.StructArray.from_arrays([pa.array(["encoded_text"] * ROWS), tokens], names=["type", "tokens"])
    chunks = pa.ListArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32)), struct)
    batch = arrow.columns_of_batch(pa.RecordBatch.from_arrays([chunks], names=["model_input"]).slice(3, 5))
    assert batch.tokens.tolist() == list(range(3 * LENGTH, 8 * LENGTH))
    assert np.shares_memory(batch.tokens, tokens.values.to_numpy())


_MEMORY = """
import resource, sys
from provenance.formats import arrow
for _ in arrow.read_datums(sys.argv[1]):
    first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    break
positions = sum(batch.positions for batch in arrow.read_datums(sys.argv[1]))
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first
print(positions, grown // 1024, "pandas" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit")
@pytest.mark.parametrize("suffix", CONTAINERS)
def test_memory_is_flat(suffix: str, tmp_path: Path) -> None:
    # 80 MB of values in one row group; IPC holds as much as one of its batches.
    path = write(plain(2000, 2000), tmp_path / f"data{suffix}", None if suffix == ".parquet" else 100)
    done = subprocess.run([sys.executable, "-c", _MEMORY, path], capture_output=True, text=True, check=True)
    positions, grown, pandas = done.stdout.split()
    assert int(positions) == 4_000_000
    assert int(grown) < 40
    assert pandas == "False"


# Damage


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"{}\n", r"starts with b'\{\}\\n', neither Parquet nor Arrow IPC"),
        (b"PAR1", "parquet"),
        (b"PAR1" * 100, "."),
        (b"ARROW1\0\0", "."),
        (b"ARROW1\0\0" * 100, "."),
        (b"\xff\xff\xff\xff\x10\0\0\0" + b"\0" * 16, "."),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0" * 16, "."),
    ],
)
def test_no_such_container(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=f"(?i){re.escape(str(path))}: .*{reason}") as caught:
        list(arrow.read_datums(str(path)))
    assert "\n" not in str(caught.value)
    assert caught.value.reason


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"no such file or directory$") as caught:
        next(arrow.read_datums(str(tmp_path / "nothing.parquet")))
    assert caught.value.file == str(tmp_path / "nothing.parquet")
    with pytest.raises(ReadError, match="directory"):
        next(arrow.read_sequences(str(tmp_path)))


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_damaged_files_are_read_or_refused(suffix: str, tmp_path: Path) -> None:
    path = Path(write(plain(), tmp_path / f"data{suffix}", 20))
    content = path.read_bytes()
    random = np.random.default_rng(7)
    reasons = []
    for _ in range(150):
        damaged = bytearray(content)
        start = int(random.integers(len(damaged)))
        stop = min(start + int(random.integers(1, 40)), len(damaged))
        damaged[start:stop] = random.bytes(stop - start)
        path.write_bytes(damaged if random.random() < 0.7 else damaged[:start])
        try:
            for batch in arrow.read_datums(str(path)):
                assert batch.offsets[-1] == batch.positions
        except ReadError as error:
            reasons.append(error.reason)
    assert len(reasons) > 20
    assert not any("\n" in reason for reason in reasons)


def test_ids_that_are_not_utf8(tmp_path: Path) -> None:
    word = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    struct = pa.StructArray.from_arrays(
        [pa.array(["prompt"]), word, pa.array([1])], names=["type", "sequence_id", "length"]
    )
    spans = pa.ListArray.from_arrays(pa.array([0, 1]), struct)
    data = plain(1, 1).append_column("model_input_spans", spans)
    for suffix in CONTAINERS:
        path = write(data, tmp_path / f"data{suffix}")
        with pytest.raises(ReadError, match=r"(?i)utf-?8"):
            list(arrow.read_datums(path))
