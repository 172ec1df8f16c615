"""The batches of other libraries: what they hold, some rows of them, and how they go back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from provenance.columns import Mask
from provenance.errors import SchemaError


class Datums(list[Any]):
    """Datums that came one by one."""


def is_batch(item: Any) -> bool:
    """It is a list, or hands itself over as Arrow data."""
    return isinstance(item, list | tuple) or hasattr(item, "__arrow_c_stream__")


def in_batches(source: Iterable[Any], at_once: int) -> Iterator[Any]:
    """The batches of a source as they are, and what is none in groups."""
    datums = Datums()
    for item in source:
        if is_batch(item):
            if datums:
                yield datums
                datums = Datums()
            yield item
            continue
        datums.append(item)
        if len(datums) == at_once:
            yield datums
            datums = Datums()
    if datums:
        yield datums


def taken(batch: Any) -> Any:
    """A record batch, a table, or a sequence of datums.

    Raises:
        SchemaError: it is no batch.
    """
    if not is_batch(batch):
        hint = ": with_format('arrow') makes datasets hand over tables" if isinstance(batch, Mapping) else ""
        raise SchemaError(
            f"a {type(batch).__name__} is no batch, expected Arrow data or a list of datums{hint}"
        )
    if isinstance(batch, list | tuple):
        return batch
    from provenance.formats.arrow_batch import arrow_of

    return arrow_of(batch)


def data_of(taken: Any) -> Any:
    """A batch for the engine, for which a list of strings would be paths."""
    return iter(taken) if isinstance(taken, Sequence) else taken


def rows_of(taken: Any, good: Mask) -> Any:
    """The rows where ``good`` is True."""
    if good.all():
        return taken
    if isinstance(taken, Sequence):
        return [datum for datum, passes in zip(taken, good.tolist(), strict=True) if passes]
    from provenance.formats.arrow_batch import rows_where

    return rows_where(taken, good)


def given_back(data: Any, batch: Any) -> Any:
    """Arrow data as the polars DataFrame that they came in; all else as it is."""
    kind = type(batch)
    # By name, so that polars is not imported for those who do not use it.
    of_polars = kind.__module__.partition(".")[0] == "polars" and kind.__name__ == "DataFrame"
    return kind(data) if of_polars else data
