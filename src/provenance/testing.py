"""An assertion about data for test suites, of pytest or any other."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from provenance.contract import Contract
from provenance.engine import check
from provenance.engine.verbs import EXAMPLES
from provenance.errors import ContractError, ProvenanceError
from provenance.models._base import shorten
from provenance.report import Report, Severity
from provenance.reports._machine import verdict_under
from provenance.reports.text import findings_to_text

__all__ = ["assert_valid_dataset"]

#: Columns that pytest puts before each line of a message.
_MARGIN: Final = 8


def assert_valid_dataset(
    data: Any,
    contract: Contract | str = "stable_reinforce",
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
    loss_config: Mapping[str, Any] | None = None,
    max_examples: int = EXAMPLES,
    fail_on: Literal["error", "warning"] = "error",
) -> Report:
    """Check a dataset as `provenance.check` does, and fail with the report where it breaks the contract.

    What cannot be checked, because no ledger or no session is given, fails nothing: the report names it.

    Args:
        data: as for `provenance.check`, like all arguments but the last.
        contract: a Contract, or the name of a loss.
        ledger: what was sampled.
        session: the training session.
        now: the time at which sequences must not have expired; default is the clock's, so give one for data
            that lie in a repository.
        loss_config: options of the loss.
        max_examples: violations of each rule that are shown.
        fail_on: the least severity that fails.

    Returns:
        The report of data that are valid; it may hold warnings, where these do not fail.

    Raises:
        AssertionError: there are violations of that severity. The message is the report, as wide as the
            terminal, the verdict first.
        ContractError: ``fail_on`` is neither, and what `provenance.check` raises.
    """
    __tracebackhide__ = True  # pytest shows the caller
    if fail_on not in ("error", "warning"):
        raise ContractError(f"fail_on is {shorten(fail_on)}, expected 'error' or 'warning'")
    try:
        report = check(
            data,
            contract,
            ledger=ledger,
            session=session,
            now=now,
            loss_config=loss_config,
            max_examples=max_examples,
        )
    except ProvenanceError as error:  # the caller's mistake: where in here it was noticed helps nobody
        raise error.with_traceback(None) from None
    if report.valid and (fail_on == "error" or not report.warnings):
        return report
    found = findings_to_text(report, width=shutil.get_terminal_size().columns - _MARGIN)
    raise AssertionError(f"{verdict_under(report, Severity(fail_on))}\n\n{found}")
