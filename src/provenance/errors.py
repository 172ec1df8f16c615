"""Every exception that this package raises on purpose; all share one root.

Messages put the place first and the value next, as its repr, in lower case and without a full stop.
"""

from __future__ import annotations

from typing import Any

from provenance._text import without_passwords

__all__ = [
    "ContractError",
    "LedgerError",
    "MissingDependencyError",
    "ProvenanceError",
    "ReadError",
    "SchemaError",
    "ValidationError",
    "WriteError",
]


class ProvenanceError(Exception):
    """The root of the package's exceptions."""


class SchemaError(ProvenanceError, ValueError):
    """A model was given data that its declaration does not allow.

    `code` is the code of the first rule that the data break, or None where no rule stands behind the refusal.
    """

    def __init__(self, message: str, *, code: str | None = None) -> None:
        """Keep the message, and the code of the first rule that it names."""
        super().__init__(message)
        self.code = code


class ContractError(ProvenanceError):
    """A contract cannot be used: an unknown loss, rule or parameter, or one that contradicts another."""


class LedgerError(ProvenanceError):
    """A ledger refused a record or cannot answer."""


class _FileError(ProvenanceError):
    """Something is wrong with one file; `file` names it and `reason` says what."""

    def __init__(self, file: object, reason: str) -> None:
        """Name the file (a path or a stream's name) and the reason."""
        # Where a file is expected, somebody may have given the address of a ledger.
        self.file = without_passwords(str(file))
        self.reason = reason
        super().__init__(f"{self.file}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the two arguments: worker processes hand errors back pickled."""
        return type(self), (self.file, self.reason)


class ReadError(_FileError):
    """Input that cannot be read; `file` names it and `reason` says why."""


class WriteError(_FileError):
    """Output that cannot be written; `file` names it and `reason` says why."""


class MissingDependencyError(ProvenanceError, ImportError):
    """An optional library is not installed; the message carries the command that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        """Name the missing module and the extra of this distribution that brings it."""
        super().__init__(f"{module} is not installed: run pip install 'datum-provenance[{extra}]'")
        self.module = module
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the two arguments: worker processes hand errors back pickled."""
        return type(self), (self.module, self.extra)


class ValidationError(ProvenanceError):
    """Data broke the contract; `report`, a `provenance.report.Report`, says which rules, where, how often."""

    def __init__(self, message: str, report: Any = None) -> None:
        """Keep the caller's message and the report behind it."""
        super().__init__(message)
        self.report = report
