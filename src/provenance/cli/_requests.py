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


def stated_by(data: Sequence[str], given: Stated, *, config: str | None, max_line: int = 64 << 20) -> Stated:
    """The options as given, and where they were not, as the requests in ``data`` have them.

    Files of datums state none of them, and a contract file states the loss.
    """
    from provenance.engine.sources import paths_of
    from provenance.formats import is_request

    paths = paths_of(list(data)) or []
    if not paths or not all(map(is_request, paths)):
        return given

    from provenance.formats.tinker_request import read_head

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
    loss = first.loss_fn if given.loss is None and config is None else given.loss
    options = given.loss_config
    if options is None and loss in (None, first.loss_fn):  # those of another loss say nothing
        options = first.loss_fn_config
    return Stated(
        loss=loss, session=first.session if given.session is None else given.session, loss_config=options
    )
