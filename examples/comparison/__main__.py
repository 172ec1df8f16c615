"""Run the comparison: ``python -m examples.comparison {smoke,grid,mismatch,gentle,report}``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import Any, Final

import torch

from examples.comparison.arms import ARMS
from examples.comparison.experiment import Config, run
from examples.comparison.measures import final_accuracy
from examples.comparison.warm_start import warm_start

RESULTS: Final = Path(__file__).parent / "results.jsonl"
_KEYS: Final = tuple(field.name for field in fields(Config))

HEADLINE: Final = [
    Config(arm, kl_coeff, lag, seed)
    for seed, lag, kl_coeff, arm in product(range(1, 6), (8, 32, 0), (0.0, 0.01, 0.05), ARMS)
]
MISMATCH: Final = [
    Config(arm, kl_coeff, 8, seed, mismatch, silent)
    for seed, mismatch, silent, kl_coeff, arm in product(
        range(1, 4),
        ("bfloat16", "fp8", "heavy-tailed"),
        (False, True),
        (0.0, 0.01),
        ("token_is", "token_is cap 4"),
    )
]
GENTLE: Final = [Config(arm, 0.01, lag, 1, learning_rate=5e-4) for lag, arm in product((8, 32, 0), ARMS)]
SMOKE: Final = [Config(arm, 0.01, 8, 0, steps=60) for arm in ("reinforce", "token_is cap 4")]
GRIDS: Final = {"grid": HEADLINE, "mismatch": MISMATCH, "gentle": GENTLE}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.comparison", description=__doc__)
    parser.add_argument("what", choices=["smoke", *GRIDS, "report"])
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    if given.what == "report":
        from examples.comparison.report import report

        report(read(given.results))
    elif given.what == "smoke":
        for record in run_all(SMOKE, workers=1):
            print(summary(record))
    else:
        drop_fragment(given.results)
        done = {key_of(record) for record in read(given.results)}
        configs = GRIDS[given.what]
        wanted = [config for config in configs if key_of(asdict(config)) not in done]
        print(f"{len(wanted)} of {len(configs)} runs are left")
        with given.results.open("a", encoding="utf-8") as file:
            for record in run_all(wanted, given.workers):
                file.write(json.dumps(record) + "\n")
                file.flush()
                print(summary(record), flush=True)


def key_of(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in _KEYS)


def read(path: Path) -> list[dict[str, Any]]:
    """The runs in a file of results."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def drop_fragment(path: Path) -> None:
    """Cut off the line without an end that a run leaves when it is stopped while it writes."""
    if path.exists():
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])


def run_all(configs: Sequence[Config], workers: int) -> Iterable[dict[str, Any]]:
    """Run, each in one thread; records come when they are complete, in order."""
    with ProcessPoolExecutor(max(1, workers), initializer=_one_thread) as pool:
        yield from pool.map(_run, configs)


def _one_thread() -> None:
    torch.set_num_threads(1)
    if hasattr(os, "nice"):
        os.nice(10)


def _run(config: Config) -> dict[str, Any]:
    start, _, _ = warm_start()
    return run(config, start)


def summary(record: dict[str, Any]) -> str:
    what = " ".join(f"{name}={record[name]}" for name in _KEYS)
    change = f"{record['accuracies'][0]:.2f} -> {final_accuracy(record):.2f}"
    return f"{what}: accuracy {change} ({record['seconds']} s)"


if __name__ == "__main__":
    main()
