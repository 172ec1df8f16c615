"""What training requests say of themselves stands in for options that were not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

__all__ = ["Stated", "stated_by"]


class Stated(NamedTuple):
    """The options that describe a training request."""

    loss: str | None
    session: str | None
    loss_config: Mapping[str, float | str] | None


def stated_by(data: Sequence[str], given: Stated, *, max_line: int) -> Stated:
    """The options as given, and where they were not, as the requests in ``data`` have them.

    Files of datums state none of them.
    """
    from pathlib import Path

    from provenance.engine.sources import paths_of
    from provenance.errors import ReadError
    from provenance.formats import is_request

    paths = paths_of(list(data)) or []
    requests = [path for path in paths if is_request(path)]
    if not requests or (len(requests) < len(paths) and given.loss and given.session):
        return given
    if len(requests) < len(paths):
        other = next(path for path in paths if path not in requests)
        raise click.UsageError(
            f"{requests[0]} says its loss and session, and {other} does not: one at a time, or give --loss "
            "and --session"
        )

    from provenance.formats.tinker_request import read_head

    for path in paths:
        if Path(path).exists() and not Path(path).is_file():
            raise ReadError(path, "a request is read twice: save it to a file first")
    heads = [read_head(path, max_record=max_line) for path in paths]
    first = heads[0]
    for path, head in zip(paths, heads, strict=True):
        if (head.loss_fn, head.session, head.loss_fn_config) != (
            first.loss_fn,
            first.session,
            first.loss_fn_config,
        ):
            raise click.UsageError(
                f"{path} and {paths[0]} are of different losses, configurations or sessions: one at a time"
            )
    loss = first.loss_fn if given.loss is None else given.loss
    options = given.loss_config
    if options is None and loss == first.loss_fn:  # those of another loss say nothing
        options = first.loss_fn_config
    return Stated(
        loss=loss, session=first.session if given.session is None else given.session, loss_config=options
    )
