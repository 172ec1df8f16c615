"""Other ways to check the same files, and what each is held to before it is timed.

A peer is one function of the two files, the session and the time. Those that work on whole columns say how
often each rule is broken that they state; those that go row by row raise at the first fault. None may find
anything in data that hold, legal oddities included; and for each rule there is a file in which a mutation
breaks it.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from benchmarks import _data

if TYPE_CHECKING:
    from provenance import mutations

Files: TypeAlias = tuple[str, str, str, datetime]
"""Data, sequences, session, time."""
Check: TypeAlias = Callable[[str, str, str, datetime], Mapping[str, int] | None]
"""Code of a rule -> how often it is broken; or None, having raised nothing."""

COLUMNAR = ("polars", "dataframely", "duckdb")
INSTALL = "pip install -c constraints.txt -e '.[dev]' -r benchmarks/requirements.txt"
NOW = datetime.fromisoformat(_data.NOW)
_FAULTS = (ValueError, LookupError, TypeError, AssertionError)
_DATUMS, _POSITIONS = 24, 120.0
_COLUMNS = {
    "model_input_tokens",
    "target_tokens",
    "logprobs",
    "advantages",
    "model_input_spans",
    "loss_fn_input_spans",
}


def peer(name: str) -> Check:
    """The check of a peer; ends the program with the command that installs it where that is needed."""
    try:
        check: Check = importlib.import_module(f"benchmarks._peer_{name}").check
    except ModuleNotFoundError as error:
        raise SystemExit(f"{error.name!r} is not installed: run {INSTALL}") from error
    return check


def version(name: str) -> str:
    """The peer and its version."""
    return f"{name} {metadata.version(name)}"


def clean(check: Check, data: _data.Dataset) -> Callable[[], None]:
    """The work of a peer over a dataset in which nothing is wrong."""

    def work() -> None:
        found = check(data.data(".parquet"), data.sequences(".parquet"), _data.SESSION, NOW)
        assert not any((found or {}).values()), found

    return work


# --- what they find ------------------------------------------------------------------------------


def covered(checks: Mapping[str, Check]) -> dict[str, set[str]]:
    """The rules that each peer enforces, each proved by a file in which it is broken.

    Ends the program where a columnar peer misses a fault of a rule that it states, where it states a rule
    that no file here breaks, and where any peer finds something in data that hold. One that raises is
    credited with a rule where nothing else is broken.
    """
    enforced: dict[str, set[str]] = {name: set() for name in checks}
    stated: dict[str, set[str]] = {name: set() for name in checks}
    with tempfile.TemporaryDirectory() as folder:
        for fault, files in _files(Path(folder)):
            fires = set(fault.fires) if fault else set()
            where = f"where the data are {fault.name if fault else 'clean'!r}"
            for name, check in checks.items():
                try:
                    found = check(*files) or {}
                except _FAULTS as error:
                    if name in COLUMNAR or not fires:
                        raise SystemExit(f"{name} fails {where}: {error}") from error
                    enforced[name] |= fires if fault and fault.pure else set()
                    continue
                broken = {code for code, count in found.items() if count}
                stated[name] |= set(found)
                if wrong := fires.intersection(found) - broken:
                    raise SystemExit(f"{name} misses {sorted(wrong)} {where}")
                if broken and not fires:
                    raise SystemExit(f"{name} reports {sorted(broken)} {where}")
                enforced[name] |= broken & fires
    for name, codes in stated.items():
        if unproved := codes - enforced[name]:
            raise SystemExit(f"{name} states {sorted(unproved)}, and no file here breaks them")
    return enforced


def _files(folder: Path) -> Iterator[tuple[mutations.Mutation | None, Files]]:
    """A small dataset: clean, after each change that keeps it valid, and after one fault of each rule."""
    from provenance import WriteError, mutations

    block = _data.draw(0, _DATUMS, _POSITIONS)
    original = mutations.Dataset(
        datums=list(_data.datum_lines(block)),
        sequences=list(_data.sequence_lines(block)),
        session=_data.SESSION,
        now=_data.NOW,
    )
    yield None, _written(original, folder / "clean")
    planted: set[str] = set()
    # Those that break one rule alone come first: they prove more.
    for mutation in sorted(mutations.registry().values(), key=lambda mutation: not mutation.pure):
        dataset = original.copy()
        if mutation.fires and planted.issuperset(mutation.fires):
            continue
        applied = mutations.apply(dataset, [mutation.name], seed=0)
        # A peer is told of neither, so that a fault of theirs is none of its data.
        asked = (dataset.contract, dataset.loss_config) == (original.contract, original.loss_config)
        if applied and asked:
            try:
                files = _written(dataset, folder / mutation.name)
            except WriteError:  # a fault that no Parquet file can hold
                continue
            if _columns(files[0]) >= _COLUMNS:
                planted |= set(mutation.fires)
                yield mutation, files


def _written(dataset: mutations.Dataset, folder: Path) -> Files:
    folder.mkdir()
    data, sequences = str(folder / "data.parquet"), str(folder / "sequences.parquet")
    dataset.write(data, sequences)
    return data, sequences, dataset.session or "", NOW


def _columns(path: str) -> set[str]:
    import pyarrow.parquet as pq

    return set(pq.read_schema(path).names)
