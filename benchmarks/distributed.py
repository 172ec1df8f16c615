"""What does a check cost with Ray or Spark on one machine, against the check of this package alone?

The whole stable_reinforce contract with a ledger, over Parquet files of about 10 M tokens each. Every
measurement has a fresh process tree on two cores, and they take turns. Wall and CPU are those of the check,
after the engine was started and had warmed up on a tiny dataset; CPU is that of all processes, the engine's
own included. Memory is the peak of the driver's Python. Reports must be equal. Needs the extras `ray` and
`spark`, and Java.

    python benchmarks/distributed.py [--datums N] [--tokens N] [--repeats N] [--dir PATH] [--engine NAME ...]
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data

FILE_TOKENS = 10_000_000
ENGINES = ("local", "ray", "spark")


def files_of(data: _data.Dataset, count: int) -> list[str]:
    """The row groups of the dataset in so many files."""
    import pyarrow.parquet as pq

    names = [str(data.folder / f"data-{number}-of-{count}.parquet") for number in range(count)]
    if not Path(names[-1]).exists():
        source = pq.ParquetFile(data.data(".parquet"))
        groups = source.num_row_groups
        for number, name in enumerate(names):
            with pq.ParquetWriter(f"{name}.part", source.schema_arrow, compression="zstd") as writer:
                for group in range(groups * number // count, groups * (number + 1) // count):
                    writer.write_table(source.read_row_group(group))
            Path(f"{name}.part").replace(name)
    return names


def local() -> Callable[..., Any]:
    import provenance.engine
    import provenance.formats.arrow

    return provenance.engine.check


def ray() -> Callable[..., Any]:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    import ray as engine
    import ray.data

    engine.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    from provenance.integrations import ray as on_ray

    return on_ray.check


def spark() -> Callable[..., Any]:
    from pyspark.sql import SparkSession

    options = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }
    SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
    from provenance.integrations import spark as on_spark

    return on_spark.check


def processor_seconds() -> float:
    """User and system time of this process and all below it, those included that have ended."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    total = 0
    for process, spent in ticks.items():
        above = process
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        total += spent if above == os.getpid() else 0
    return total / os.sysconf("SC_CLK_TCK")


def measure(engine: str, paths: list[str], ledger: str, warm: list[str]) -> None:
    _data.two_cores()
    start = time.perf_counter()
    check = {"local": local, "ray": ray, "spark": spark}[engine]()
    options = {"session": _data.SESSION, "now": _data.NOW}
    check(warm[0], ledger=warm[1], **options)
    ready, before = time.perf_counter(), processor_seconds()
    report = check(paths, ledger=ledger, **options)
    wall, cpu = time.perf_counter() - ready, processor_seconds() - before
    digest = hashlib.sha256(json.dumps(report.to_dict()).encode()).hexdigest()
    cost = {"wall": wall, "cpu": cpu, "rss": _data.peak_rss(), "start": ready - start}
    print(json.dumps({**cost, "digest": digest, "positions": report.positions}))


def main() -> None:
    parser = _data.arguments_of(__doc__)
    parser.set_defaults(datums=80_000, tokens=40_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", action="append", choices=ENGINES[1:])
    parser.add_argument("--measure", nargs="+", help="for processes of this script")
    options = parser.parse_args()
    if options.measure:
        engine, ledger, first, second, *paths = options.measure
        measure(engine, paths, ledger, [first, second])
        return
    data = _data.dataset(options.datums, options.tokens, folder=options.dir)
    small = _data.dataset(20, 10_000, folder=options.dir)
    paths = files_of(data, max(1, options.tokens // FILE_TOKENS))
    engines = ("local", *(options.engine or ENGINES[1:]))
    found: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
    for _ in range(options.repeats):
        for engine in engines:
            sequences = [data.sequences(".parquet"), small.data(".parquet"), small.sequences(".parquet")]
            command = [sys.executable, __file__, "--measure", engine, *sequences, *paths]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[engine].append(json.loads(output.splitlines()[-1]))
    assert len({run["digest"] for runs in found.values() for run in runs}) == 1, "the reports differ"
    print(f"{data.size['positions']:,} positions in {len(paths)} files: all reports are equal")
    print(f"medians of {options.repeats}, as a multiple of local   wall   CPU  driver's memory  start, s")
    middle = {
        engine: {
            name: statistics.median(run[name] for run in runs) for name in ("wall", "cpu", "rss", "start")
        }
        for engine, runs in found.items()
    }
    base = middle["local"]
    for engine, cost in middle.items():
        ratios = [cost[name] / base[name] for name in ("wall", "cpu", "rss")]
        print(f"{engine:<40}{ratios[0]:7.2f}{ratios[1]:6.2f}{ratios[2]:17.2f}{cost['start']:10.1f}")
    print(f"local: {base['wall']:.1f} s wall, {base['cpu']:.1f} s CPU, {base['rss']:.0f} MB")


if __name__ == "__main__":
    main()
