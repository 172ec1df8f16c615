"""How records are written, by the name that their file will have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from provenance.errors import WriteError
from provenance.formats import jsonl
from provenance.formats._suffix import is_arrow
from provenance.models import Datum, SampledSequence

_Record: TypeAlias = Datum | SampledSequence | Mapping[str, Any]


def writer_of(name: str, *, sequences: bool = False) -> Callable[[Iterable[_Record], str], None]:
    """Return what writes datums, or sampled sequences, to a path that will be called ``name``.

    That raises `WriteError` for a place that cannot be written, `RowError` for what Arrow files cannot hold.

    Raises:
        WriteError: for an unknown suffix.
    """
    if not is_arrow(name, WriteError):
        return partial(jsonl.write, name=name)
    from provenance.formats import arrow

    write = arrow.write_sequences if sequences else arrow.write_datums
    return lambda records, path: write(map(_plain, records), path, name=name)


def _plain(record: _Record) -> Mapping[str, Any]:
    return record if isinstance(record, Mapping) else record.model_dump(mode="json")
