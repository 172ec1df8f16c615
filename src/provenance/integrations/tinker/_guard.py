"""A training client that sends no batch which breaks the contract, and renews what a batch has used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import WARNING
from typing import TYPE_CHECKING, Any, TypeVar

from provenance._log import event
from provenance.columns import SAMPLED, Columns
from provenance.contract import Contract
from provenance.engine.verbs import accepted
from provenance.errors import ContractError, LedgerError, SchemaError, ValidationError
from provenance.formats import columns_of
from provenance.integrations.tinker._convert import to_tinker
from provenance.integrations.tinker._own import own
from provenance.integrations.tinker._version import types
from provenance.ledger import Ledger
from provenance.models import Datum
from provenance.report import Report

if TYPE_CHECKING:
    import tinker

__all__ = ["guard"]

Client = TypeVar("Client", bound="tinker.TrainingClient")


def guard(
    training_client: Client,
    *,
    ledger: Ledger,
    session: str | None = None,
    contract: Contract | None = None,
    on_report: Callable[[Report], object] | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Client:
    """Return the same client, whose training requests are validated first and renew the ledger afterwards.

    `forward_backward` and `forward_backward_async` check the whole batch before any of it is sent: the SDK
    cuts a batch into chunks, and a bad datum in one would fail after others had accumulated gradients. The
    loss and its configuration are those of the call. Datums may also be ours, which are converted. What is
    checked and sent is the guard's own copy, so that yours may be written to when the call returns.

    When the server has done the request, the sequences that its datums train on (the sampled spans of their
    targets) are renewed in the ledger, as of the time just before the request, whether or not anybody waits
    for its future; the future gives its result after that. A request that fails renews nothing.

    The guarded client and `training_client` are one client with one state: requests of both keep their order.
    `forward`, `forward_backward_custom` with a function of one's own, and all else are as they were.

    Args:
        training_client: a `tinker.TrainingClient`, SDK 0.27 or later, or an object of a subclass.
        ledger: what was sampled, and where its use is noted.
        session: the training session; the client knows its own, and what is given here must agree.
        contract: instead of the default contract of the loss, for calls with that loss only.
        on_report: called with the report of each batch that passes, which may hold warnings.
        clock: gives the time, aware.

    Raises:
        LedgerError: `ledger` is none, or the session is not known or is another than the client's.
        SchemaError: `training_client` is no client, is still a future, or is guarded already.

    The methods raise:
        ValidationError: the batch breaks the contract; nothing was sent, `report` says why.
        ContractError: there is no such loss, or `contract` is another loss's.
        SchemaError: the SDK could not send one of the datums.

    Its future raises:
        LedgerError: the request was done, but the ledger could not be renewed.
    """
    kind = type(training_client)
    if hasattr(kind, "result"):
        raise SchemaError("the training client is still a future: call .result() on it, or await it, first")
    if not hasattr(kind, "forward_backward") or not hasattr(training_client, "holder"):
        raise SchemaError(f"{training_client!r} cannot train, expected a tinker.TrainingClient")
    if issubclass(kind, _Guarded):
        raise SchemaError(f"{training_client!r} is guarded already, expected a client of the SDK")
    if not isinstance(ledger, Ledger):
        raise LedgerError(f"{ledger!r} is no ledger: give a MemoryLedger, or SqlLedger(PATH)")
    rules = _Guard(ledger, _session_of(training_client, session), contract, on_report, clock)
    name = f"Guarded{kind.__name__}"
    members = {"__slots__": ("_guard", "_unguarded"), "__module__": kind.__module__}
    guarded: Any = object.__new__(type(name, (_Guarded, kind), members))
    # One state: requests are numbered by counters in it, whichever of the two objects makes them.
    guarded.__dict__ = training_client.__dict__
    guarded._guard, guarded._unguarded = rules, training_client
    client: Client = guarded
    return client


class _Guarded:
    """Stands before the client's class. Any, because a mixin cannot name the class that it is mixed into."""

    __slots__ = ()
    _guard: _Guard
    _unguarded: Any
    holder: Any

    def forward_backward(
        self,
        data: Sequence[types.Datum | Datum],
        loss_fn: str,
        loss_fn_config: Mapping[str, float | str] | None = None,
    ) -> Any:
        """Validate the batch, then compute and accumulate gradients; see `guard`."""
        config = dict(loss_fn_config) if isinstance(loss_fn_config, Mapping) else loss_fn_config
        at = self._guard.clock()
        datums, used = self._guard.admit(data, loss_fn, config, at)
        pending = super().forward_backward(datums, loss_fn, config)  # type: ignore[misc]
        if not used:
            return pending
        return self.holder.run_coroutine_threadsafe(self._guard.renewed(pending, used, at))

    def forward_backward_custom(self, data: Any, loss_fn: Any, **options: Any) -> Any:
        """As the client's own; a loss by name is a request like others, and is validated."""
        # Some versions of the SDK send their surrogate of a function through forward_backward.
        client: Any = self._unguarded if callable(loss_fn) else super()
        return client.forward_backward_custom(data, loss_fn, **options)

    async def forward_backward_custom_async(self, data: Any, loss_fn: Any, **options: Any) -> Any:
        """As the client's own, see `forward_backward_custom`."""
        client: Any = self._unguarded if callable(loss_fn) else super()
        return await client.forward_backward_custom_async(data, loss_fn, **options)


@dataclass(frozen=True, slots=True)
class _Guard:
    """What stands between a client and the server."""

    ledger: Ledger
    session: str
    contract: Contract | None
    on_report: Callable[[Report], object] | None
    clock: Callable[[], datetime]

    def admit(
        self,
        data: Iterable[types.Datum | Datum],
        loss_fn: str,
        config: Mapping[str, float | str] | None,
        now: datetime,
    ) -> tuple[list[Any], list[str]]:
        """Check a batch, and return a copy to send, and the ids of the sequences that it trains on."""
        datums: list[Any] = [to_tinker(datum) if isinstance(datum, Datum) else own(datum) for datum in data]
        columns = columns_of(datums)
        try:
            _, report, _ = accepted(
                columns,
                self._contract_of(loss_fn),
                ledger=self.ledger,
                session=self.session,
                now=now,
                loss_config=config,
            )
        except ValidationError as error:
            bad, found = error.report.bad_datums, error.report.errors
            event(WARNING, "batch refused", loss=loss_fn, datums=len(columns), bad_datums=bad, errors=found)
            raise
        if self.on_report is not None:
            self.on_report(report)
        return datums, _trained_on(columns)

    def _contract_of(self, loss_fn: str) -> Contract:
        if self.contract is None:
            return Contract.for_loss(loss_fn)
        if self.contract.loss.name != loss_fn:
            raise ContractError(
                f"loss_fn is {loss_fn!r}, and the client is guarded by a contract of "
                f"{self.contract.loss.name!r}: guard the client once more, for this loss"
            )
        return self.contract

    async def renewed(self, pending: Any, used: list[str], at: datetime) -> Any:
        """The result of a request, once the ledger knows of it."""
        result = await pending
        # The SDK's event loop sends heartbeats, which must not wait for a database.
        await asyncio.to_thread(self._renew, used, at)
        return result

    def _renew(self, used: list[str], at: datetime) -> None:
        try:
            table = self.ledger.lookup(used, self.session)
            ours = table.known & (table.session_id == self.session)
            self.ledger.renew([used[i] for i in ours.nonzero()[0]], self.session, at)
        except Exception as error:  # a ledger of one's own may raise anything; it must not look as if unsent
            raise LedgerError(
                f"the server did the training request, but the ledger does not know: {error}"
            ) from error


def _trained_on(columns: Columns) -> list[str]:
    spans = columns.target_spans
    chosen = (spans.kind == SAMPLED) & (spans.length > 0) & (spans.sequence >= 0)
    return [columns.ids[sequence] for sequence in dict.fromkeys(spans.sequence[chosen].tolist())]


def _session_of(client: Any, given: str | None) -> str:
    ask = getattr(client.holder, "get_session_id", None)
    known: str | None = None if ask is None else ask()
    session = known if given is None else given
    if session is None:
        raise LedgerError("the training client does not know its session: guard(..., session=...)")
    if known is not None and session != known:
        raise LedgerError(
            f"session is {session!r}, but the training client says {known!r}: it could train on nothing else"
        )
    return session
