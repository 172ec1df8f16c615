"""What does a ledger that stays in its Parquet file cost, against one that is loaded into memory?

`check` of the shared dataset, with `MemoryLedger` and with a `ParquetLedger` that keeps little of what it
reads. The datums once lie in the order of the sequences, as recorders and writers leave them, and once in
random order over the whole file, when every batch of datums asks for rows of every row group. Opening is
`ParquetLedger(...)` alone, against reading the file of sequences. Every measurement has a fresh process, and
they take turns. CPU and peak RSS of a check are taken without what the check of a dataset of one batch takes,
whose ledger is next to nothing. Exit code 1: a target is missed.

    python benchmarks/ledger_parquet.py [--datums N] [--tokens N] [--repeats N] [--dir PATH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data

CPU_RATIO, RSS_RATIO = 1.5, 0.5
CACHE = 2**25


def shuffled(data: _data.Dataset) -> str:
    """The datums in random order, written in a process of its own where they are not there yet."""
    path = data.folder / "shuffled.parquet"
    if not path.exists():
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(data.data(".parquet"))
        order = np.random.default_rng(0).permutation(len(table))
        pq.write_table(table.take(pa.array(order)), f"{path}.part", row_group_size=_data.BLOCK)
        Path(f"{path}.part").replace(path)
    return str(path)


def check(data: _data.Dataset, path: str, *, leave: bool) -> Callable[[], object]:
    import provenance.engine
    import provenance.formats.arrow
    import provenance.formats.parquet_ledger

    sequences = data.sequences(".parquet")

    def work() -> None:
        ledger: Any = provenance.ParquetLedger(sequences, cache_bytes=CACHE) if leave else sequences
        report = provenance.engine.check(
            path, "stable_reinforce", ledger=ledger, session=_data.SESSION, now=_data.NOW
        )
        _data.assert_clean(report, data.size["positions"])

    return work


def open_only(data: _data.Dataset) -> Callable[[], object]:
    from provenance import ParquetLedger

    return lambda: ParquetLedger(data.sequences(".parquet"))


def read(data: _data.Dataset) -> Callable[[], object]:
    from provenance.formats import arrow

    def work() -> None:
        for _ in arrow.read_sequences(data.sequences(".parquet")):
            pass

    return work


def main() -> int:
    parser = _data.arguments_of(__doc__)
    parser.set_defaults(datums=80_000, tokens=40_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure")
    options = parser.parse_args()
    whole = _data.dataset(options.datums, options.tokens, folder=options.dir)
    least = _data.dataset(_data.BLOCK, _data.BLOCK * 500, folder=options.dir)
    if options.measure:
        works: dict[str, Callable[[], Callable[[], object]]] = {
            "memory": lambda: check(whole, whole.data(".parquet"), leave=False),
            "parquet": lambda: check(whole, whole.data(".parquet"), leave=True),
            "memory-shuffled": lambda: check(whole, shuffled(whole), leave=False),
            "parquet-shuffled": lambda: check(whole, shuffled(whole), leave=True),
            "open": lambda: open_only(whole),
            "read": lambda: read(whole),
            "least": lambda: check(least, least.data(".parquet"), leave=True),
        }
        _data.report_cost(works[options.measure]())
        return 0

    same = ["--datums", str(options.datums), "--tokens", str(options.tokens)]
    same += ["--dir", options.dir] if options.dir else []
    _data.costs(__file__, {"written": ["memory-shuffled", *same]}, 1)
    names = {
        "in memory": "memory",
        "in the file": "parquet",
        "in memory, shuffled": "memory-shuffled",
        "in the file, shuffled": "parquet-shuffled",
        "opening": "open",
        "reading the sequences": "read",
        "one batch": "least",
    }
    results = _data.costs(__file__, {label: [name, *same] for label, name in names.items()}, options.repeats)
    print(f"{whole.size}")
    _data.print_costs(results, options.repeats)
    memory, parquet, memory_shuffled, parquet_shuffled, opening, reading, one = results.values()
    cpu = (parquet.cpu - one.cpu) / (memory.cpu - one.cpu)
    rss = (parquet.rss - one.rss) / (memory.rss - one.rss)
    any_order = (parquet_shuffled.cpu - one.cpu) / (memory_shuffled.cpu - one.cpu)
    print(f"opening / reading the sequences, CPU: {opening.cpu / reading.cpu:.3g}x")
    print(f"shuffled, in the file / in memory, CPU: {any_order:.3g}x")
    good = [
        _data.met("in order, in the file / in memory, CPU", cpu, CPU_RATIO, unit="x"),
        _data.met("in order, in the file / in memory, peak RSS", rss, RSS_RATIO, unit="x"),
    ]
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
