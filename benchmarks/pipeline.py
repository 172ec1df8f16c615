"""What does a checker add to a pipeline that only passes its batches on?

The same rows go through each pipeline with and without it, their ledger in memory: a Parquet file read in
record batches; polars, reading that file; a map of Hugging Face datasets, which writes what it gets to disk;
and a DataLoader that pads lists of token ids to tensors, as training does. The two take turns; figures are
medians of CPU time of all threads. Last, what it saves to make a checker once and not for each batch: its
ledger is opened once. Needs `tests/requirements-pipelines.txt` and the extra `losses`.

    python benchmarks/pipeline.py [REPEATS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import polars as pl
import pyarrow.parquet as pq
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import provenance
from benchmarks import _data
from provenance.pipeline import CheckedStream, Checker

DATUMS, TOKENS = 2_000, 1_000_000
ROWS, BATCH = 500, 64


def drain(items: Iterable[object]) -> None:
    deque(items, maxlen=0)


def padded(datums: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """What a training loop makes of a batch: each list of numbers as one tensor."""
    tokens = [torch.tensor(datum["model_input"]["chunks"][0]["tokens"]) for datum in datums]
    inputs = {
        name: pad_sequence([torch.tensor(datum["loss_fn_inputs"][name]["data"]) for datum in datums], True)
        for name in datums[0]["loss_fn_inputs"]
    }
    return {"tokens": pad_sequence(tokens, True), **inputs}


def medians(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each call, the calls taking turns; the first turn warms up."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            start = _data.cpu_seconds()
            call()
            taken[name].append(_data.cpu_seconds() - start)
    return {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}


def main(repeats: int) -> None:
    """Measure and print."""
    data = _data.dataset(DATUMS, TOKENS)
    path, sequences = data.data(".parquet"), data.sequences(".parquet")
    checker = Checker(ledger=sequences, session=_data.SESSION, now=_data.NOW)
    table = pq.read_table(path)
    assert checker.mask(table).all()
    batches = table.to_batches(max_chunksize=ROWS)
    lists = [datum for block in _data.blocks(DATUMS, TOKENS) for datum in _data.datum_lines(block)]
    loader: DataLoader[Any] = DataLoader(lists, BATCH, collate_fn=padded)  # type: ignore[arg-type]
    raw: DataLoader[Any] = DataLoader(lists, BATCH, collate_fn=list)  # type: ignore[arg-type]

    def checked_by(batch: Any) -> object:
        return provenance.check(batch, ledger=sequences, session=_data.SESSION, now=_data.NOW)

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        rows = datasets.Dataset.from_parquet(path, cache_dir=folder).with_format("arrow")

        def mapped(function: Callable[[Any], Any]) -> object:
            return rows.map(function, batched=True, batch_size=ROWS, load_from_cache_file=False)

        times = medians(
            {
                "read": lambda: drain(pq.ParquetFile(path).iter_batches(ROWS)),
                "read, filter": lambda: drain(map(checker.filter, pq.ParquetFile(path).iter_batches(ROWS))),
                "polars": lambda: pl.read_parquet(path),
                "polars, filter": lambda: checker.filter(pl.read_parquet(path)),
                "map": lambda: mapped(lambda batch: batch),
                "map, filter": lambda: mapped(checker.filter),
                "loader": lambda: drain(loader),
                "loader, stream": lambda: drain(map(padded, CheckedStream(raw, checker))),
                "loader, validated": lambda: drain(checker.validated(raw)),
                "in memory": lambda: drain(map(checker.filter, batches)),
                "made anew": lambda: drain(map(checked_by, batches)),
            },
            repeats,
        )
    print(f"{DATUMS:,} datums of {TOKENS // DATUMS} tokens, medians of {repeats}, CPU")
    for what, plain, with_checker in (
        ("Parquet in record batches, filtered / read", "read", "read, filter"),
        ("polars, read and filtered / read", "polars", "polars, filter"),
        ("map of datasets, filter / identity", "map", "map, filter"),
        ("DataLoader, checked and padded / padded", "loader", "loader, stream"),
        ("DataLoader, validated / padded", "loader", "loader, validated"),
        ("check that opens the ledger for each batch / filter", "in memory", "made anew"),
    ):
        print(f"{what}: {times[with_checker] / times[plain]:.2f}x")
    share = times["in memory"] / DATUMS
    print(f"filter, for each datum: {share * 1e6:.0f} us")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
