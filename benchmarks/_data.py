"""The dataset that the benchmarks of ``check`` share, and the fresh processes that they measure in.

The data are drawn from a fixed seed and hold the whole stable_reinforce contract: 80 % of the datums share
their prompt in groups of 8, 30 % are multi-turn with 2 to 5 turns, and the prompt of each later turn is the
datum so far and what the environment added. The sequences lie in another order than the datums.

    python benchmarks/_data.py [--datums N] [--tokens N] [--dir PATH] [--jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SESSION = "session-1"
NOW = "2026-01-02T12:00:00Z"
DATUMS, TOKENS = 20_000, 10_000_000
GROUP = 8
SHARED, MULTI_TURN = 0.8, 0.3
VOCABULARY = 150_000
#: Datums of a row group, and of what is in memory at a time.
BLOCK = 2_000
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where a dataset lies."""

    folder: Path

    def data(self, suffix: str) -> str:
        """The file of datums."""
        return str(self.folder / f"data{suffix}")

    def sequences(self, suffix: str) -> str:
        """The file of sequences."""
        return str(self.folder / f"sequences{suffix}")

    @property
    def size(self) -> dict[str, int]:
        """Numbers of datums, positions, sequences and tokens of the sequences."""
        sizes: dict[str, int] = json.loads((self.folder / "size.json").read_text())
        return sizes


def dataset(
    datums: int = DATUMS, tokens: int = TOKENS, *, folder: str | None = None, jsonl: bool = False
) -> Dataset:
    """Return the dataset of this size, written in a process of its own where it does not exist yet."""
    base = Path(folder or tempfile.gettempdir()) / f"provenance-bench-{_VERSION}-{datums}-{tokens}"
    wanted = (base / "data.jsonl", base / "sequences.jsonl") if jsonl else (base / "size.json",)
    if not all(path.exists() for path in wanted):
        base.mkdir(parents=True, exist_ok=True)
        arguments = ["--datums", str(datums), "--tokens", str(tokens), "--into", str(base)]
        subprocess.run([sys.executable, __file__, *arguments, *(["--jsonl"] if jsonl else [])], check=True)
    return Dataset(base)


# --- generation ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of numbers, one after the other."""

    values: Any
    lengths: Any

    def rows(self) -> Iterator[list[Any]]:
        """Each list."""
        end = 0
        for length in self.lengths.tolist():
            start, end = end, end + length
            yield self.values[start:end].tolist()


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of one side of every datum."""

    sampled: Any
    sequence: Any
    offset: Any
    length: Any
    counts: Any


@dataclass(frozen=True, slots=True)
class Block:
    """Some datums and the sequences that they were sampled as."""

    lists: dict[str, Ragged]
    spans: dict[str, Spans]
    ids: list[str]
    recorded: dict[str, Ragged]
    """Of each sequence, in the order of ``order``."""
    order: Any
    sampled_at: Any
    seed: Any


def draw(number: int, size: int, mean: float) -> Block:
    """Draw one block of datums with ``mean`` positions on average."""
    import numpy as np

    rng = np.random.default_rng([number, size, int(mean)])
    index = np.arange(size)
    shared = int(size * SHARED) // GROUP * GROUP
    leader = np.where(index < shared, index - index % GROUP, index)
    multi = np.concatenate([np.repeat(_share(rng, shared // GROUP), GROUP), _share(rng, size - shared)])
    turns = np.where(multi, rng.integers(2, 6, size), 1)

    # Pieces of a datum: prompt, sampled, then for each later turn what the environment added, sampled.
    pieces = 2 * turns
    of_piece = np.repeat(index, pieces)
    first_piece = np.cumsum(pieces) - pieces
    k = np.arange(len(of_piece)) - first_piece[of_piece]
    sampled, is_first, is_last = k % 2 == 1, k == 0, k == 2 * turns[of_piece] - 1
    share = np.where(is_first, 0.4, np.where(sampled, np.where(multi[of_piece], 0.35, 0.6), 0.15))
    raw = share * np.exp(0.6 * rng.standard_normal(len(k)) - 0.18)
    raw[is_first] = raw[first_piece[leader]]
    length = np.maximum(2, np.rint(raw * (mean + 1) * size / raw.sum())).astype(np.int64)

    piece_end = np.cumsum(length)
    total = np.add.reduceat(length, first_piece)
    start = np.cumsum(total) - total
    tokens = (VOCABULARY * rng.random(piece_end[-1], np.float32) ** 4).astype(np.int32)
    prompt = length[first_piece]
    tokens[_ranges(start, prompt)] = tokens[_ranges(start[leader], prompt)]
    scored = np.repeat(sampled, length)
    logprobs = np.where(scored, -0.3 * rng.standard_exponential(len(tokens), np.float32) ** 2, np.float32(0))
    advantages = np.where(scored, np.repeat(rng.standard_normal(size, np.float32), total), np.float32(0))
    inputs, targets = np.ones(len(tokens), np.bool_), np.ones(len(tokens), np.bool_)
    inputs[start + total - 1] = targets[start] = False

    before = piece_end - length - start[of_piece]
    first_sequence = np.cumsum(turns) - turns
    claims: dict[str, Any] = {
        "sampled": sampled,
        "sequence": first_sequence[of_piece] + k // 2,
        "counts": pieces,
    }
    offset = np.where(sampled, 0, before)

    order = rng.permutation(int(turns.sum()))
    of_sequence, at = of_piece[sampled][order], before[sampled][order]
    said = _ranges(start[of_sequence] + at, length[sampled][order])
    now = int(datetime.fromisoformat(NOW).timestamp())
    return Block(
        lists={
            "model_input_tokens": Ragged(tokens[inputs], total - 1),
            "target_tokens": Ragged(tokens[targets].astype(np.int64), total - 1),
            "logprobs": Ragged(logprobs[targets], total - 1),
            "advantages": Ragged(advantages[targets], total - 1),
        },
        spans={
            "model_input_spans": Spans(**claims, offset=offset, length=length - is_last),
            "loss_fn_input_spans": Spans(**claims, offset=offset + is_first, length=length - is_first),
        },
        ids=[rng.bytes(16).hex() for _ in range(len(order))],
        recorded={
            "prompt_tokens": Ragged(tokens[_ranges(start[of_sequence], at)], at),
            "tokens": Ragged(tokens[said], length[sampled][order]),
            "logprobs": Ragged(logprobs[said], length[sampled][order]),
        },
        order=order,
        sampled_at=now - rng.integers(600, 6 * 3600, len(order)),
        seed=rng.integers(0, 2**62, len(order)),
    )


def _share(rng: Any, n: int) -> Any:
    return rng.permutation(n) < round(n * MULTI_TURN)


def _ranges(starts: Any, lengths: Any) -> Any:
    import numpy as np

    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)


# --- writing -------------------------------------------------------------------------------------


def datum_batch(block: Block) -> Any:
    """The datums as a record batch."""
    import pyarrow as pa

    ids = pa.array(block.ids)
    kinds = pa.array(["prompt", "sampled"])
    columns = {
        name: _list_array(pa.array(ragged.values), ragged.lengths) for name, ragged in block.lists.items()
    }
    for name, spans in block.spans.items():
        fields = {
            "type": kinds.take(pa.array(spans.sampled).cast("int8")),
            "sequence_id": ids.take(pa.array(spans.sequence)),
            "offset": pa.array(spans.offset),
            "length": pa.array(spans.length),
        }
        columns[name] = _list_array(
            pa.StructArray.from_arrays(list(fields.values()), list(fields)), spans.counts
        )
    return pa.RecordBatch.from_pydict(columns)


def sequence_batch(block: Block) -> Any:
    """The sequences as a record batch."""
    import pyarrow as pa

    n = len(block.order)
    moment = pa.array(block.sampled_at).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict(
        {
            "sequence_id": pa.array(block.ids).take(pa.array(block.order)),
            "session_id": pa.repeat(SESSION, n),
            **{name: _list_array(lists.values, lists.lengths) for name, lists in block.recorded.items()},
            "sampled_at": moment,
            "last_used_at": moment,
            "record_stability_info": pa.repeat(True, n),
            "policy_version": pa.repeat("step-12", n),
            "temperature": pa.repeat(pa.scalar(1.0, pa.float32()), n),
            "top_p": pa.repeat(pa.scalar(1.0, pa.float32()), n),
            "top_k": pa.nulls(n, pa.int32()),
            "seed": pa.array(block.seed),
        }
    )


def _list_array(values: Any, lengths: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, values if isinstance(values, pa.Array) else pa.array(values))


def datum_lines(block: Block) -> Iterator[dict[str, Any]]:
    """The datums in the shape of the SDK's JSON objects."""
    inputs, *others = (ragged.rows() for ragged in block.lists.values())
    names = [name for name in block.lists if name != "model_input_tokens"]
    sides = [_span_rows(spans, block.ids) for spans in block.spans.values()]
    for tokens, *rest, input_spans, target_spans in zip(inputs, *others, *sides, strict=True):
        yield {
            "model_input": {"chunks": [{"type": "encoded_text", "tokens": tokens}]},
            "loss_fn_inputs": {
                name: {
                    "data": values,
                    "dtype": "int64" if name == "target_tokens" else "float32",
                    "shape": [len(values)],
                }
                for name, values in zip(names, rest, strict=True)
            },
            "model_input_spans": input_spans,
            "loss_fn_input_spans": target_spans,
        }


def _span_rows(spans: Spans, ids: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    columns = (spans.sampled, spans.sequence, spans.offset, spans.length)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for count in spans.counts.tolist():
        yield [
            {
                "type": "sampled" if sampled else "prompt",
                "sequence_id": ids[sequence],
                "offset": offset,
                "length": length,
            }
            for sampled, sequence, offset, length in (next(rows) for _ in range(count))
        ]


def sequence_lines(block: Block) -> Iterator[dict[str, Any]]:
    """The sequences as JSON objects."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    lists = (ragged.rows() for ragged in block.recorded.values())
    rows = zip(block.order.tolist(), *lists, block.sampled_at.tolist(), block.seed.tolist(), strict=True)
    for number, prompt, tokens, logprobs, sampled_at, seed in rows:
        moment = (epoch + timedelta(seconds=sampled_at)).isoformat().replace("+00:00", "Z")
        yield {
            "sequence_id": block.ids[number],
            "session_id": SESSION,
            "prompt_tokens": prompt,
            "tokens": tokens,
            "logprobs": logprobs,
            "sampled_at": moment,
            "last_used_at": moment,
            "record_stability_info": True,
            "policy_version": "step-12",
            "temperature": 1.0,
            "top_p": 1.0,
            "seed": seed,
        }


def blocks(datums: int, tokens: int) -> Iterator[Block]:
    """The blocks of a dataset."""
    for number, start in enumerate(range(0, datums, BLOCK)):
        yield draw(number, min(BLOCK, datums - start), tokens / datums)


def write_parquet(datums: int, tokens: int, folder: Path) -> None:
    """Write data.parquet, sequences.parquet and, last, size.json."""
    import pyarrow.parquet as pq

    size = dict.fromkeys(("datums", "positions", "sequences", "sequence_tokens"), 0)
    writers: dict[str, Any] = {}
    for block in blocks(datums, tokens):
        for name, batch in (("data", datum_batch(block)), ("sequences", sequence_batch(block))):
            if name not in writers:
                writers[name] = pq.ParquetWriter(
                    folder / f"{name}.parquet.part", batch.schema, compression="zstd"
                )
            writers[name].write_batch(batch)
        size["datums"] += len(block.lists["target_tokens"].lengths)
        size["positions"] += len(block.lists["target_tokens"].values)
        size["sequences"] += len(block.order)
        size["sequence_tokens"] += sum(
            len(block.recorded[name].values) for name in ("prompt_tokens", "tokens")
        )
    for name, writer in writers.items():
        writer.close()
        (folder / f"{name}.parquet.part").replace(folder / f"{name}.parquet")
    (folder / "size.json").write_text(json.dumps(size))


def write_jsonl(datums: int, tokens: int, folder: Path) -> None:
    """Write data.jsonl and sequences.jsonl."""
    import msgspec

    paths = [folder / "data.jsonl", folder / "sequences.jsonl"]
    parts = [path.with_suffix(".part") for path in paths]
    with parts[0].open("wb") as data, parts[1].open("wb") as sequences:
        for block in blocks(datums, tokens):
            for file, lines in ((data, datum_lines(block)), (sequences, sequence_lines(block))):
                for line in lines:
                    file.write(msgspec.json.encode(line) + b"\n")
    for part, path in zip(parts, paths, strict=True):
        part.replace(path)


# --- measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """What something cost in a process of its own. Seconds are without those of the imports."""

    cpu: float
    wall: float
    rss: float
    """Peak of the whole process, in MB of 10^6 bytes."""
    imports: float
    """CPU seconds from the start of the interpreter until everything was imported."""

    @classmethod
    def median(cls, costs: Sequence[Cost]) -> Cost:
        """The median of each part."""
        return cls(
            *(
                statistics.median(getattr(c, part) for c in costs)
                for part in ("cpu", "wall", "rss", "imports")
            )
        )


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_rss() -> float:
    """Peak RSS in MB. Not ru_maxrss where it can be had: a child's starts at its parent's."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def two_cores() -> int:
    """Keep this process, and those that it starts, to two cores; returns how many it has then."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    return len(os.sched_getaffinity(0))


def report_cost(work: Callable[[], object]) -> None:
    """Do the work in this process, everything having been imported, and print what it cost."""
    imports, start = cpu_seconds(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - start, cpu_seconds() - imports
    print(json.dumps({"cpu": cpu, "wall": wall, "rss": peak_rss(), "imports": imports}))


def costs(script: str, runs: Mapping[str, Sequence[str]], repeats: int) -> dict[str, Cost]:
    """Medians of runs of a script, each in a fresh process, the runs taking turns."""
    taken: dict[str, list[Cost]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, arguments in runs.items():
            command = [sys.executable, script, "--measure", *arguments]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            taken[name].append(Cost(**json.loads(output)))
    return {name: Cost.median(all_of_it) for name, all_of_it in taken.items()}


def print_costs(results: Mapping[str, Cost], repeats: int) -> None:
    """Print a table of costs."""
    width = max(map(len, results))
    print(f"{f'medians of {repeats}':<{width}}  CPU s  wall s  peak RSS MB  (imports, CPU s)")
    for name, cost in results.items():
        print(f"{name:<{width}} {cost.cpu:6.2f} {cost.wall:7.2f} {cost.rss:12.0f} {cost.imports:16.2f}")


def met(what: str, value: float, target: float, *, least: bool = False, unit: str = "") -> bool:
    """Print a figure beside its target, and return whether it is met."""
    good = value >= target if least else value <= target
    print(
        f"{what}: {value:.3g}{unit}   target {'>=' if least else '<='} {target:g}{unit}: "
        f"{'met' if good else 'missed'}"
    )
    return good


def assert_clean(report: Any, positions: int) -> None:
    """Fail unless nothing was found, and the identity of every input and target token was judged."""
    checked = report.checked
    assert (report.errors, report.warnings) == (0, 0), [str(violation) for violation in report]
    assert report.positions == positions, (report.positions, positions)
    assert checked["SEQ003"] == positions, checked["SEQ003"]
    assert checked["SEQ004"] + checked["SEQ005"] == positions, (checked["SEQ004"], checked["SEQ005"])


def arguments_of(doc: str | None) -> argparse.ArgumentParser:
    """The options that the benchmarks share."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datums", type=int, default=DATUMS)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="positions of all datums, about")
    parser.add_argument("--dir", help="where the data are kept; default is the folder for temporary files")
    return parser


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--jsonl", action="store_true", help="write JSONL too")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.into:
        write_parquet(options.datums, options.tokens, Path(options.into))
        if options.jsonl:
            write_jsonl(options.datums, options.tokens, Path(options.into))
        return
    start = time.perf_counter()
    made = dataset(options.datums, options.tokens, folder=options.dir, jsonl=options.jsonl)
    print(f"{made.folder}: {made.size} in {time.perf_counter() - start:.1f} s")
    for path in sorted(made.folder.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.name}")


if __name__ == "__main__":
    main()
