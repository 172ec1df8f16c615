"""What a user says of a run beside its data: the session, the time, the options of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from numbers import Integral

from provenance import _rfc3339
from provenance.errors import ContractError
from provenance.models._base import shorten
from provenance.sequences import microseconds


def refuse_arguments(session: object, loss_config: object) -> None:
    """Refuse what is no session, or no options of a loss.

    Raises:
        ContractError: says what was expected.
    """
    if session is not None and (not isinstance(session, str) or not session):
        raise ContractError(f"the training session is {session!r}, expected its id")
    if loss_config is not None and not isinstance(loss_config, Mapping):
        raise ContractError(f"loss_config is {loss_config!r}, expected a mapping of options to values")


def refuse_examples(max_examples: object) -> None:
    """Refuse what is no number of violations to keep.

    Raises:
        ContractError: says what was expected.
    """
    if isinstance(max_examples, bool) or not isinstance(max_examples, Integral) or max_examples < 0:
        raise ContractError(f"max_examples is {shorten(max_examples)}, expected an integer of 0 or more")


def moment_of(now: datetime | str | None) -> int:
    """A time as microseconds since 1970 UTC; None is the clock's.

    Raises:
        ContractError: it has no offset from UTC, or is no RFC 3339 time.
    """
    if now is None:
        return microseconds(datetime.now(UTC))
    if isinstance(now, str):
        text = now
        try:
            now = _rfc3339.parse(text)
        except ValueError as error:
            raise ContractError(f"time {text!r} does not exist: {error}") from None
        if now is None or now.utcoffset() is None:
            raise ContractError(f"time {text!r} is not RFC 3339 with an offset, such as 2026-01-31T12:00:00Z")
    if not isinstance(now, datetime):
        raise ContractError(f"time is {now!r}, expected a datetime or RFC 3339 text")
    if now.utcoffset() is None:
        raise ContractError(f"time {now.isoformat()!r} has no offset from UTC")
    try:
        return microseconds(now.astimezone(UTC))
    except OverflowError:
        raise ContractError(f"time {now.isoformat()!r} is out of range") from None
