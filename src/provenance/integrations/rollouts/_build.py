"""Rollouts into a file of datums and a place of sampled sequences."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from provenance.builder import build_datums
from provenance.engine.sources import paths_of
from provenance.errors import ProvenanceError, ReadError, SchemaError
from provenance.formats import MAX_LINE, writer_of
from provenance.formats._io import STDIN, failing
from provenance.integrations.rollouts._formats import Claims, Unusable, importer
from provenance.integrations.rollouts._outputs import (
    open_outputs,
    refuse_outputs,
)
from provenance.integrations.rollouts._usable import Advantages, Baseline, usable
from provenance.models import Datum, SampledSequence

_ONCE: Final = "can be read once only, and rollouts are read twice: save it to a file first"


@dataclass(slots=True)
class Built:
    """What `build` wrote, and what it could not use."""

    rollouts: int = 0
    """Of which datums were built."""
    datums: int = 0
    sequences: int = 0
    groups: int = 0
    """Groups of rollouts whose mean reward was the baseline."""
    equal_groups: int = 0
    """... in which all rewards are equal, so that all advantages are 0."""
    unusable: dict[str, int] = field(default_factory=dict)
    """Reason -> how many records or turns were not used."""
    examples: list[Unusable] = field(default_factory=list)
    """The first of each reason."""


def build(
    rollouts: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    kind: str,
    datums: str | os.PathLike[str],
    sequences: str | os.PathLike[str],
    session: str | None = None,
    sampled_at: datetime | str | None = None,
    record_stability_info: bool = False,
    baseline: Baseline = "group",
    max_examples: int = 10,
    max_line: int = MAX_LINE,
) -> Built:
    """Build datums of the rollouts that a framework wrote, and keep what was sampled.

    Advantages that the rollouts carry are kept; where they carry none it is reward - baseline. Everything is
    read twice and held a rollout at a time, apart from ids and rewards. Both outputs appear when both are
    complete; where nothing can be used, neither does.

    Args:
        rollouts: files of rollouts, one JSON object a line, which may be compressed; patterns are expanded.
        kind: the framework's format: ``nemo-gym``, or ``turns``, a `Trajectory` a line.
        datums: file that gets the datums; its suffix tells the format, as for `write_datums`.
        sequences: file that gets the sampled sequences, or a database (path or address) that records them.
        session: the session that sampled; needed where the format does not say it.
        sampled_at: when all of it was sampled, aware or RFC 3339; needed where the rollouts do not say it.
        record_stability_info: whether the sampling client asked for stability info, which only it knows.
        baseline: what is taken from a reward: "group", the mean reward of the rollouts of the same group in
            the same file, or a number.
        max_examples: how many faults of each reason the result holds; counts are exact whatever it is.
        max_line: how many bytes a line may have.

    Raises:
        ReadError: a file cannot be read, is of another format, or is none that can be read twice.
        WriteError: an output cannot be written.
        LedgerError: the database holds one of the sequences with other content; nothing is written.
        SchemaError: session or time is malformed, or datums cannot be held in one Arrow file.
        ProvenanceError: what the rollouts do not say is not given, or given where they say it.
    """
    paths = paths_of(rollouts)
    if paths is None:
        raise ProvenanceError(f"{rollouts!r} is no path, expected files of rollouts")
    data, place = os.fspath(datums), os.fspath(sequences)
    refuse_outputs(data, place, paths)
    _refuse_baseline(baseline)
    claims = _claims(kind, session, sampled_at, record_stability_info)
    before = [_fingerprint(path) for path in paths]
    built, advantages = Built(), Advantages(baseline)

    def note(fault: Unusable) -> None:
        number = built.unusable[fault.reason] = built.unusable.get(fault.reason, 0) + 1
        if number <= max_examples:
            built.examples.append(fault)

    def each_sequence() -> Iterator[SampledSequence]:
        for found in usable(paths, kind, claims, baseline, max_line=max_line):
            if isinstance(found, Unusable):
                note(found)
                continue
            advantages.add(found)
            built.sequences += len(found.trajectory.turns)
            yield from (turn.sequence for turn in found.trajectory.turns)

    def each_datum() -> Iterator[Datum]:
        advantages.settle()
        for found in usable(paths, kind, claims, baseline, max_line=max_line):
            if isinstance(found, Unusable):
                continue
            try:
                made = build_datums(advantages.give(found))
            except SchemaError as error:
                note(Unusable("cannot be built", str(error), file=found.file, line=found.line))
                continue
            built.rollouts += bool(made)
            built.datums += len(made)
            yield from made

    try:
        with open_outputs(data, place) as (data_file, sequence_file):
            writer_of(sequence_file.name, sequences=True)(each_sequence(), sequence_file.path)
            writer_of(data_file.name)(each_datum(), data_file.path)
            _confirm(built, paths, before)
    except _NothingUsableError:
        built.sequences = 0
    built.groups, built.equal_groups = advantages.groups, advantages.equal_groups
    return built


class _NothingUsableError(Exception):
    """Leaves the outputs as they were."""


def _claims(
    kind: str, session: str | None, sampled_at: datetime | str | None, record_stability_info: bool
) -> Claims:
    if importer(kind).SAYS_ALL:
        if session is not None or sampled_at is not None or record_stability_info:
            raise ProvenanceError(
                f"{kind} rollouts say session, time and stability info themselves: leave session, sampled_at "
                "and record_stability_info out"
            )
        return Claims()
    if session is None:
        raise ProvenanceError(f"{kind} rollouts do not say which session sampled them: give it (--session)")
    # Refuses a malformed claim once, instead of every record with it.
    probe = SampledSequence(
        sequence_id="none",
        session_id=session,
        prompt_tokens=[],
        tokens=[],
        logprobs=[],
        sampled_at=datetime.now(UTC) if sampled_at is None else sampled_at,
        record_stability_info=record_stability_info,
    )
    return Claims(session, None if sampled_at is None else probe.sampled_at, record_stability_info)


def _refuse_baseline(baseline: object) -> None:
    number = isinstance(baseline, int | float) and math.isfinite(baseline)
    if baseline != "group" and not number:
        raise ProvenanceError(f"baseline {baseline!r} is neither 'group' nor a finite number")


def _confirm(built: Built, paths: list[str], before: list[tuple[int, ...]]) -> None:
    for path, was in zip(paths, before, strict=True):
        if _fingerprint(path) != was:
            raise ReadError(path, "changed while it was read: build again")
    if not built.datums:
        raise _NothingUsableError


def _fingerprint(path: str) -> tuple[int, ...]:
    """What changes when somebody writes to the file."""
    if path == STDIN:
        raise ReadError("<stdin>", _ONCE)
    with failing(ReadError, path):
        found = Path(path).stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise ReadError(path, _ONCE)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
