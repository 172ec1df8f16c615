"""Break a dataset in every way that it can be, and ask a check each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from provenance._text import without_passwords
from provenance._version import __version__
from provenance.contract import Contract
from provenance.errors import SchemaError
from provenance.formats import MAX_LINE
from provenance.fuzz._command import by_command
from provenance.fuzz._judge import Answer, Check, FailOn, Judge, by_contract, by_function
from provenance.fuzz._load import Unbroken, load
from provenance.fuzz._report import FuzzReport, Trial, Verdict
from provenance.mutations import Dataset, Mutation, apply, named
from provenance.mutations import registry as mutations
from provenance.report import Severity
from provenance.rules import registry as rules

#: What a check made of a mutation: of one that breaks the data, and of one that does not.
_VERDICTS: Final[Mapping[Answer, tuple[Verdict, Verdict]]] = {
    Answer.REFUSED: (Verdict.CAUGHT, Verdict.CRIED_WOLF),
    Answer.WARNED: (Verdict.WARNED, Verdict.CRIED_WOLF),
    Answer.ACCEPTED: (Verdict.LET_THROUGH, Verdict.PASSED),
    Answer.NONE: (Verdict.NO_VERDICT, Verdict.NO_VERDICT),
    Answer.UNASKED: (Verdict.NOT_APPLICABLE, Verdict.NOT_APPLICABLE),
}


def fuzz(
    data: Any,
    contract: Contract | str | None = None,
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
    loss_config: Mapping[str, Any] | None = None,
    against: Check | str | None = None,
    only: Iterable[str] | None = None,
    datums: int = 100,
    seed: int = 0,
    fail_on: FailOn = "warning",
    timeout: float = 60.0,
    max_line: int = MAX_LINE,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> FuzzReport:
    """Break valid data by each mutation in turn, and report which faults a check catches.

    The same data, seed and check give the same report. Each mutation is done to a fresh copy, at the place
    that ``provenance.mutations.apply(dataset, [name], seed)`` chooses.

    Args:
        data: valid data: paths (patterns are expanded, "-" is JSONL on stdin), a list of datums (models or
            JSON-shaped dicts), or a `provenance.mutations.Dataset`, which has its own contract, ledger,
            session, time and options.
        contract: a Contract, or the name of a loss; default stable_reinforce. It says what is a fault: a
            mutation that breaks no rule of its loss is not applicable.
        ledger: what was sampled, as for `provenance.check`. Only the records that the datums name are used.
        session: the training session.
        now: the time of the check, aware or RFC 3339; default is the clock's.
        loss_config: options of the loss.
        against: the check that is tried. None: the contract, under these circumstances. A function gets a
            `Dataset` (``datums`` and ``sequences`` are lists of JSON objects) and returns False or raises an
            exception to refuse it. A text is a command of the shell, with ``{}`` for a file of the datums in
            the format of ``data`` and ``{ledger}`` for one of the sequences; exit status 0 accepts.
        only: names of mutations; default all.
        datums: how many datums to take, from the first on.
        seed: chooses the places.
        fail_on: the least severity at which the contract has caught a fault.
        timeout: seconds that a command may take.
        max_line: longest line of a JSONL file, in bytes.
        on_progress: called before each mutation with the number of those done, of all, and its name.

    Raises:
        ValidationError: the check refuses the unbroken data, so that its other verdicts would mean nothing.
        ReadError, LedgerError: the data cannot be read.
        SchemaError: an argument is wrong, or the command cannot be started.
        ContractError: the contract or the time cannot be used.
        WriteError: the data cannot be written for a command.
    """
    wanted = mutations() if only is None else {named(name).name for name in only}
    chosen = [each for each in mutations().values() if each.name in wanted]
    for what, value, least in (("datums", datums, 1), ("seed", seed, 0)):
        if type(value) is not int or not least <= value < 2**63:
            raise SchemaError(f"{what} is {value!r}, expected an integer of {least} or more, in 64 bits")
    if not timeout > 0:  # NaN is not
        raise SchemaError(f"timeout is {timeout!r}, expected a number of seconds above 0")
    unbroken = load(
        data,
        contract,
        limit=datums,
        max_line=max_line,
        ledger=ledger,
        session=session,
        now=now,
        loss_config=loss_config,
    )
    if not unbroken.dataset.datums:
        raise SchemaError("there is no datum to break")
    judge, name = _judge(against, unbroken, fail_on, timeout)
    trials = []
    for done, mutation in enumerate(chosen):
        if on_progress is not None:
            on_progress(done, len(chosen), mutation.name)
        trials.append(_trial(mutation, unbroken, judge, seed, lines=unbroken.lines and not callable(against)))
    return FuzzReport(
        trials=tuple(trials),
        judge=name,
        datums=len(unbroken.dataset.datums),
        more=unbroken.more,
        seed=seed,
        contract=unbroken.dataset.contract.to_dict(),
        version=__version__,
    )


def _judge(
    against: Check | str | None, unbroken: Unbroken, fail_on: FailOn, timeout: float
) -> tuple[Judge, str]:
    """Whom to ask, and the name of it."""
    if against is None:
        return by_contract(unbroken, fail_on), f"the {unbroken.dataset.contract.loss.name} contract"
    if isinstance(against, str):
        return by_command(against, unbroken, timeout), without_passwords(against)
    if callable(against):
        return by_function(against, unbroken), getattr(against, "__qualname__", type(against).__qualname__)
    raise SchemaError(f"against is {against!r}, expected a function or a command")


def _trial(mutation: Mutation, unbroken: Unbroken, judge: Judge, seed: int, *, lines: bool) -> Trial:
    loss = unbroken.dataset.contract.loss
    expected = tuple(code for code in mutation.fires if rules()[code].severity_for(loss) != Severity.OFF)

    def trial(verdict: Verdict, **more: Any) -> Trial:
        return Trial(
            mutation=mutation.name,
            family=mutation.family,
            summary=mutation.summary,
            expected=expected,
            verdict=verdict,
            **more,
        )

    if mutation.fires and not expected:
        codes = ", ".join(mutation.fires)
        return trial(Verdict.NOT_APPLICABLE, note=f"no fault for {loss.name}, whose contract has no {codes}")
    broken = unbroken.dataset.copy()
    applied = apply(broken, [mutation.name], seed)
    if not applied:
        return trial(Verdict.NOT_APPLICABLE, note=_missing(expected, broken))
    if broken.lines and not lines:
        return trial(Verdict.NOT_APPLICABLE, note="single lines can be broken in files of lines only")
    ((_, place),) = applied
    said = judge(broken, mutation)
    verdict = _VERDICTS[said.answer][not mutation.fires]
    return trial(verdict, place=unbroken.located(place.location()), by=said.by, note=said.note)


def _missing(codes: Iterable[str], dataset: Dataset) -> str:
    """What a mutation that breaks these rules did not find."""
    given = {"ledger": dataset.sequences, "session": dataset.session}
    parameters = dataset.contract.parameters
    for need in (need for code in codes for need in rules()[code].needs):
        if (given[need] if need in given else getattr(parameters, need)) is None:
            return f"nothing to break that way without a {need}"
    return "nothing to break that way in these datums"
