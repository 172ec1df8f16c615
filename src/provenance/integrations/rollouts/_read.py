"""Files of rollouts as trajectories, each with the line it is on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from provenance.errors import ReadError, SchemaError
from provenance.formats._io import Line, read_lines
from provenance.formats._problem import RecordError
from provenance.formats.jsonl import object_in
from provenance.integrations.rollouts._formats import Claims, Unusable, importer, names
from provenance.models import Trajectory


class Rollout(NamedTuple):
    """A trajectory and where it comes from."""

    trajectory: Trajectory
    file: str
    line: int
    """Physical line, from 1."""


def read(path: str, kind: str, claims: Claims, *, max_line: int) -> Iterator[Rollout | Unusable]:
    """Read the rollouts of a file, and what cannot be used of it.

    Args:
        path: a file of lines of JSON, which may be compressed (``.gz``, ``.zst``).
        kind: the name of its format.
        claims: what the file does not say.
        max_line: how many bytes a line may have.

    Raises:
        ReadError: the file cannot be read, holds no record, or one of another format first.
    """
    form = importer(kind)
    first: Unusable | None = None
    told = False
    for line in read_lines(path, max_line=max_line):
        try:
            record = object_in(line)
            if not told:
                _refuse_another(record, kind, path, line)
            for found in form.read(record, claims):
                told = True
                yield _placed(found, path, line)
        except (RecordError, SchemaError) as error:
            refused = Unusable("malformed", _words(error), file=path, line=line.number)
            first = first or refused
            yield refused
    if not told:
        reason = "no record in it" if first is None else f"line {first.line}: {first.detail}"
        raise ReadError(path, f"{reason}; expected {kind} rollouts, one JSON object a line")


def _placed(found: Trajectory | Unusable, path: str, line: Line) -> Rollout | Unusable:
    if isinstance(found, Unusable):
        return replace(found, file=path, line=line.number)
    return Rollout(found, path, line.number)


def _words(error: RecordError | SchemaError) -> str:
    if isinstance(error, RecordError):
        return f"{error.field}: {error.message}" if error.field else error.message
    return str(error)


#: What files that are no rollouts have, and what they are.
_OTHERS: Final = {
    "model_input": "it has a model_input, as datums have, which are built already",
    "prompt_tokens": "it has prompt_tokens, as sampled sequences have, which are no rollouts without turns",
}


def _refuse_another(record: Mapping[str, Any], kind: str, path: str, line: Line) -> None:
    """Refuse a file whose first record is of another format, and say of which."""
    mark = importer(kind).MARK
    if mark in record:
        return
    hints = {importer(name).MARK: f"it has {importer(name).MARK}, as --from {name} reads" for name in names()}
    hint = next((f"; {hint}" for other, hint in (hints | _OTHERS).items() if other in record), "")
    raise ReadError(path, f"line {line.number}: no field {mark!r}, which every {kind} rollout has{hint}")
