"""How do time and memory of a check grow with the dataset, and does it matter how much of it is broken?

Datasets of so many million tokens, 500 a datum, each once as it is and once with every datum broken in four
rules: the first input token is another, all logprobs are 2 too low, and every prompt token has an advantage.
The counts of the broken ones must be exact. The ledger is held in memory and grows with the data, so that it
has a line of its own: a check of no datum with it. Every measurement has a fresh process on two cores; they
take turns. CPU is user and system time, after the same work over eight datums, which leaves out imports and
the like. Exit code 1: a target is missed.

    python benchmarks/growth.py [--sizes 1,10,100] [--repeats N] [--dir PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data

POSITIONS = 500
#: Datums in eight batches: with fewer, the pool does not hold as many at a time as it may.
ENOUGH = 8 * _data.BLOCK
CPU_GROWTH, MEMORY_GROWTH, BROKEN_MEMORY = 1.2, 1.5, 1.5


def sized(millions: float, folder: str | None) -> _data.Dataset:
    """The dataset of so many million tokens."""
    tokens = round(millions * 1e6)
    return _data.dataset(max(1, tokens // POSITIONS), tokens, folder=folder)


# --- the same with every datum broken ------------------------------------------------------------


def write_broken(data: _data.Dataset) -> None:
    """Write the datums, all of them broken, and what must be counted, where they are not there yet."""
    path = Path(data.data("-broken.parquet"))
    if path.exists():
        return
    import pyarrow.parquet as pq

    path.with_suffix(".json").write_text(json.dumps(expected(data)))
    source, part = pq.ParquetFile(data.data(".parquet")), path.with_suffix(".part")
    with pq.ParquetWriter(part, source.schema_arrow, compression="zstd") as writer:
        for batch in source.iter_batches(_data.BLOCK):
            writer.write_batch(break_all(batch))
    part.replace(path)


def break_all(batch: Any) -> Any:
    """The datums of a batch after these faults."""
    import numpy as np
    import pyarrow as pa

    def values(name: str) -> tuple[Any, Any]:
        column = batch.column(name)
        return column.flatten().to_numpy(zero_copy_only=False).copy(), column.offsets

    def put(name: str, numbers: Any, offsets: Any) -> None:
        nonlocal batch
        column = pa.ListArray.from_arrays(offsets, pa.array(numbers))
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)

    tokens, offsets = values("model_input_tokens")
    tokens[offsets.to_numpy()[:-1]] += 1
    put("model_input_tokens", tokens, offsets)
    logprobs, offsets = values("logprobs")
    put("logprobs", logprobs - np.float32(2), offsets)
    advantages, offsets = values("advantages")
    put("advantages", np.ones_like(advantages), offsets)
    return batch


def expected(data: _data.Dataset) -> dict[str, list[int]]:
    """Code -> how many datums and elements a check of the broken datums must count."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    sampled = long = prompts = 0
    for batch in pq.ParquetFile(data.data(".parquet")).iter_batches(columns=["loss_fn_input_spans"]):
        spans = batch.column(0).flatten()
        of_sampled = pc.equal(spans.field("type"), "sampled")
        lengths = spans.field("length").filter(of_sampled)
        sampled += pc.sum(lengths).as_py()
        long += pc.sum(pc.greater_equal(lengths, 4)).as_py()
        prompts += pc.sum(spans.field("length").filter(pc.invert(of_sampled))).as_py()
    datums = data.size["datums"]
    return {
        "ADV001": [datums, prompts],
        "SEQ003": [datums, datums],
        "SEQ006": [datums, sampled],
        "SEQ012": [datums, long],
    }


# --- measuring -----------------------------------------------------------------------------------


def checking(data: _data.Dataset, what: str) -> Callable[[], object]:
    import provenance.engine
    import provenance.formats.arrow

    files: Any = {"clean": data.data(".parquet"), "broken": data.data("-broken.parquet"), "ledger": []}[what]

    def work() -> None:
        report = provenance.engine.check(
            files,
            "stable_reinforce",
            ledger=data.sequences(".parquet"),
            session=_data.SESSION,
            now=_data.NOW,
            allow_empty=what == "ledger",
        )
        if what == "clean":
            _data.assert_clean(report, data.size["positions"])
        elif what == "broken":
            found = {code: [count.datums, count.elements] for code, count in report.counts.items()}
            counts = json.loads(Path(data.data("-broken.json")).read_text())
            assert found == counts, (found, counts)
            assert report.bad_datums == data.size["datums"]

    return work


def print_growth(datasets: Mapping[str, _data.Dataset], results: Mapping[str, _data.Cost]) -> bool:
    """Print each size beside the smallest; whether all targets are met."""
    good, per_token, above = [], [], []
    for size, data in datasets.items():
        clean, faulty, ledger = (results[f"{size}, {what}"] for what in ("clean", "broken", "ledger"))
        print(f"{size} tokens: {ledger.rss / clean.rss:.0%} of the peak RSS is there with the ledger alone")
        per_token.append(clean.cpu / data.size["positions"])
        if len(per_token) > 1:
            ratio = per_token[-1] / per_token[0]
            good.append(_data.met("  CPU per token / that of the smallest", ratio, CPU_GROWTH, unit="x"))
        if data.size["datums"] >= ENOUGH:
            above.append(clean.rss - ledger.rss)
        if len(above) > 1:
            ratio = above[-1] / above[0]
            what = "  RSS above the ledger / that of the smallest with eight batches"
            good.append(_data.met(what, ratio, MEMORY_GROWTH, unit="x"))
        good.append(_data.met("  RSS, broken / clean", faulty.rss / clean.rss, BROKEN_MEMORY, unit="x"))
        print(f"  CPU, broken / clean: {faulty.cpu / clean.cpu:.3g}x")
    return all(good)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1,10", help="millions of tokens, ascending; default %(default)s")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dir", help="where the data are kept; default is the folder for temporary files")
    parser.add_argument("--measure", choices=["clean", "broken", "ledger"])
    options = parser.parse_args()
    sizes = [float(size) for size in options.sizes.split(",")]
    datasets = {f"{size:g}M": sized(size, options.dir) for size in sizes}
    few = sized(8 * POSITIONS / 1e6, options.dir)
    write_broken(few)
    if options.measure:
        checking(few, options.measure)()
        _data.report_cost(checking(next(iter(datasets.values())), options.measure))
        return 0

    cores = _data.two_cores()
    same = ["--dir", options.dir] if options.dir else []
    runs = {}
    for size, data in datasets.items():
        write_broken(data)
        for what in ("clean", "broken", "ledger"):
            runs[f"{size}, {what}"] = [what, "--sizes", size.removesuffix("M"), *same]
    results = _data.costs(__file__, runs, options.repeats)
    print(f"{cores} cores")
    for size, data in datasets.items():
        print(f"{size}: {data.size}")
    _data.print_costs(results, options.repeats)
    print("of the clean ones no error, of the broken ones all counts exact")
    return int(not print_growth(datasets, results))


if __name__ == "__main__":
    sys.exit(main())
