"""What does the stable_reinforce contract cost over Parquet, against reading it and against its peers?

Every measurement has a fresh process on two cores; they take turns, so that a busy machine slows all of them
alike. CPU is user and system time of all threads, after the same work over eight datums, which leaves out
imports and the like. Reading is `ParquetFile(...).iter_batches(2000)` over both files, with pyarrow's threads
as they are by default (the floor) and without. Peers over the same files (benchmarks/_peer_*.py) are polars,
dataframely and DuckDB, which use threads as they like; and, row by row over 1,000 datums and scaled linearly,
pydantic models of `to_pylist()` rows with the cross checks in Python, and the SDK's
`Datum(...).with_provenance(...)`, which reads no sequences. Before anything is timed, the rules of each peer
are proved on small broken files. Needs the extra `tinker` and benchmarks/requirements.txt. Exit code 1: a
target is missed.

    python benchmarks/check_parquet.py [--datums N] [--tokens N] [--repeats N] [--dir PATH]
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data, _peers

PEER_DATUMS = 1_000
CPU_RATIO, WALL_RATIO, PEER_RATIO, RSS = 1.6, 1.5, 10.0, 500.0
BY_ROW = {"pydantic": "pydantic", "tinker": "SDK"}


def read(data: _data.Dataset, *, threads: bool) -> Callable[[], object]:
    import pyarrow.parquet as pq

    def work() -> None:
        for path in (data.data(".parquet"), data.sequences(".parquet")):
            for _ in pq.ParquetFile(path).iter_batches(2000, use_threads=threads):
                pass

    return work


def check(data: _data.Dataset) -> Callable[[], object]:
    import provenance.engine
    import provenance.formats.arrow

    def work() -> None:
        report = provenance.engine.check(
            data.data(".parquet"),
            "stable_reinforce",
            ledger=data.sequences(".parquet"),
            session=_data.SESSION,
            now=_data.NOW,
        )
        _data.assert_clean(report, data.size["positions"])

    return work


def work_of(name: str, whole: _data.Dataset, part: _data.Dataset) -> Callable[[], object]:
    """What is measured under a name, everything having been imported."""
    if name in ("read", "read-1-thread"):
        return read(whole, threads=name == "read")
    if name == "check":
        return check(whole)
    return _peers.clean(_peers.peer(name), part if name in BY_ROW else whole)


def print_rules(enforced: Mapping[str, set[str]]) -> None:
    """Which rules each peer enforces, of those that a check judges."""
    from provenance import Contract

    rules = set(Contract.for_loss("stable_reinforce").severities)
    print(f"rules, each proved by a file that breaks it; the contract has {len(rules)}:")
    for name, codes in enforced.items():
        line = f"{_peers.version(name)}: {len(codes)}, {' '.join(sorted(codes))}"
        print(textwrap.fill(line, 110, initial_indent="  ", subsequent_indent="    "))


def print_peers(results: Mapping[str, _data.Cost]) -> None:
    """Each columnar peer as a multiple of the check."""
    checked = results["check"]
    print(f"{'peer / check':<16} {'CPU':>8} {'wall':>8} {'peak RSS':>9}")
    for name in _peers.COLUMNAR:
        peer = results[name]
        ratios = (peer.cpu / checked.cpu, peer.wall / checked.wall, peer.rss / checked.rss)
        print(f"{name:<16} {ratios[0]:7.2f}x {ratios[1]:7.2f}x {ratios[2]:8.2f}x")


def main() -> int:
    parser = _data.arguments_of(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    names = ["read", "read-1-thread", "check", *_peers.COLUMNAR, *BY_ROW]
    parser.add_argument("--measure", choices=names)
    options = parser.parse_args()
    whole = _data.dataset(options.datums, options.tokens, folder=options.dir)
    rows = min(PEER_DATUMS, options.datums)
    part = _data.dataset(rows, options.tokens * rows // options.datums, folder=options.dir)
    few = _data.dataset(8, 8 * options.tokens // options.datums, folder=options.dir)
    if options.measure:
        work_of(options.measure, few, few)()
        _data.report_cost(work_of(options.measure, whole, part))
        return 0

    cores = _data.two_cores()
    print_rules(_peers.covered({name: _peers.peer(name) for name in (*_peers.COLUMNAR, *BY_ROW)}))
    same = ["--datums", str(options.datums), "--tokens", str(options.tokens)]
    same += ["--dir", options.dir] if options.dir else []
    results = _data.costs(__file__, {name: [name, *same] for name in names}, options.repeats)
    print(f"{cores} cores; {whole.size}\n{', '.join(BY_ROW)}: {part.size}")
    _data.print_costs(results, options.repeats)
    print("no error, no warning, and the identity of every input and target judged")
    print_peers(results)
    floor, single, checked = (results[name] for name in ("read", "read-1-thread", "check"))
    print(f"check / reading with one thread, CPU: {checked.cpu / single.cpu:.3g}x")
    good = [
        _data.met("check / reading, CPU", checked.cpu / floor.cpu, CPU_RATIO, unit="x"),
        _data.met("check / reading, wall", checked.wall / floor.wall, WALL_RATIO, unit="x"),
        _data.met("peak RSS of check", checked.rss, RSS, unit=" MB"),
    ]
    each = checked.cpu / whole.size["datums"]
    for name, label in BY_ROW.items():
        ratio = results[name].cpu / part.size["datums"] / each
        good.append(_data.met(f"{label} / check, CPU per datum", ratio, PEER_RATIO, least=True, unit="x"))
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
