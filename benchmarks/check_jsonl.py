"""What does the stable_reinforce contract cost over JSONL, and does its memory grow with the file?

The floor is a typed msgspec decode of the same lines, data and sequences, read with `for line in file`:
Structs with list[int] and list[float], nothing kept. The check reads JSONL data and a JSONL ledger. Every
measurement has a fresh process; they take turns. CPU is user and system time, imports excepted. Memory is the
peak RSS over a quarter of the datums and over all of them with the same ledger, beside that of the ledger
alone and of a bare `import provenance.engine`. Exit code 1: a target is missed.

    python benchmarks/check_jsonl.py [--datums N] [--tokens N] [--repeats N] [--dir PATH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data

CPU_RATIO, RSS = 3.0, 200.0


class Chunk(msgspec.Struct, tag_field="type", tag="encoded_text"):
    """Text."""

    tokens: list[int]


class ModelInput(msgspec.Struct):
    """The input."""

    chunks: list[Chunk]


class Ids(msgspec.Struct):
    """Loss input of integers."""

    data: list[int]
    dtype: str
    shape: list[int]


class Floats(msgspec.Struct):
    """Loss input of floats."""

    data: list[float]
    dtype: str
    shape: list[int]


class LossInputs(msgspec.Struct):
    """The loss inputs."""

    target_tokens: Ids
    logprobs: Floats
    advantages: Floats


class Span(msgspec.Struct):
    """A span."""

    type: str
    sequence_id: str
    offset: int
    length: int


class Datum(msgspec.Struct):
    """A line of data."""

    model_input: ModelInput
    loss_fn_inputs: LossInputs
    model_input_spans: list[Span]
    loss_fn_input_spans: list[Span]


class Sequence(msgspec.Struct):
    """A line of the ledger."""

    sequence_id: str
    session_id: str
    prompt_tokens: list[int]
    tokens: list[int]
    logprobs: list[float]
    sampled_at: str
    last_used_at: str
    record_stability_info: bool
    policy_version: str
    temperature: float
    top_p: float
    seed: int


def decode(data: _data.Dataset) -> None:
    files: list[tuple[str, msgspec.json.Decoder[Any]]] = [
        (data.data(".jsonl"), msgspec.json.Decoder(Datum)),
        (data.sequences(".jsonl"), msgspec.json.Decoder(Sequence)),
    ]
    for path, decoder in files:
        with Path(path).open("rb") as file:
            for line in file:
                decoder.decode(line)


def checking(data: Any, ledger: str, positions: int, **options: Any) -> Callable[[], object]:
    import provenance.engine

    def work() -> None:
        report = provenance.engine.check(
            data, "stable_reinforce", ledger=ledger, session=_data.SESSION, now=_data.NOW, **options
        )
        if positions:
            _data.assert_clean(report, positions)

    return work


def nothing() -> Callable[[], object]:
    import provenance.engine

    return lambda: provenance.engine


def first_quarter(data: _data.Dataset) -> tuple[str, int]:
    """Write the first quarter of the datums, and return the file and its positions."""
    part = Path(data.data("-quarter.jsonl"))
    count = data.size["datums"] // 4
    if not part.exists():
        with Path(data.data(".jsonl")).open("rb") as source, part.with_suffix(".part").open("wb") as target:
            target.writelines(islice(source, count))
        part.with_suffix(".part").replace(part)
    with part.open("rb") as file:
        decoder = msgspec.json.Decoder(Datum)
        return str(part), sum(len(decoder.decode(line).loss_fn_inputs.target_tokens.data) for line in file)


def main() -> int:
    parser = _data.arguments_of(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--positions", type=int, default=0, help="positions that the check must have judged")
    parser.add_argument("--measure", choices=["decode", "check", "quarter", "ledger", "import"])
    options = parser.parse_args()
    data = _data.dataset(options.datums, options.tokens, folder=options.dir, jsonl=True)
    ledger = data.sequences(".jsonl")
    if options.measure:
        works: dict[str, Callable[[], Callable[[], object]]] = {
            "decode": lambda: lambda: decode(data),
            "check": lambda: checking(data.data(".jsonl"), ledger, options.positions),
            "quarter": lambda: checking(data.data("-quarter.jsonl"), ledger, options.positions),
            "ledger": lambda: checking([], ledger, 0, allow_empty=True),
            "import": nothing,
        }
        _data.report_cost(works[options.measure]())
        return 0

    same = ["--datums", str(options.datums), "--tokens", str(options.tokens)]
    same += ["--dir", options.dir] if options.dir else []
    _, positions = first_quarter(data)
    all_positions = ["--positions", str(data.size["positions"])]
    runs = {
        "typed decode of data and sequences": ["decode", *same],
        "check": ["check", *same, *all_positions],
        "check, a quarter of the datums": ["quarter", *same, "--positions", str(positions)],
        "ledger alone, no data": ["ledger", *same],
        "import provenance.engine": ["import", *same],
    }
    results = _data.costs(__file__, runs, options.repeats)
    megabytes = [Path(path).stat().st_size // 10**6 for path in (data.data(".jsonl"), ledger)]
    print(f"{data.size}; {megabytes[0]} MB of data, {megabytes[1]} MB of sequences")
    _data.print_costs(results, options.repeats)
    floor, checked, quarter, *_ = results.values()
    print("no error, no warning, and the identity of every input and target judged")
    print(f"peak RSS, all datums / a quarter: {checked.rss / quarter.rss:.2f}x")
    good = [
        _data.met("check / typed decode, CPU", checked.cpu / floor.cpu, CPU_RATIO, unit="x"),
        _data.met("peak RSS of check", checked.rss, RSS, unit=" MB"),
    ]
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
