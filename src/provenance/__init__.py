"""The data contract of reinforcement-learning post-training: check datums against what was sampled.

Names are loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from provenance._version import __version__

if TYPE_CHECKING:
    from provenance.batch import ValidatedBatch
    from provenance.contract import Contract
    from provenance.engine import Progress, check, iter_violations, validate
    from provenance.errors import (
        ContractError,
        LedgerError,
        MissingDependencyError,
        ProvenanceError,
        ReadError,
        SchemaError,
        ValidationError,
        WriteError,
    )
    from provenance.formats import convert, write_datums, write_sequences
    from provenance.formats.parquet_ledger import ParquetLedger
    from provenance.integrations.rollouts._build import Built, build
    from provenance.ledger import Ledger, LedgerStats, MemoryLedger
    from provenance.ledger.recorder import Recorder
    from provenance.ledger.sql import SqlLedger
    from provenance.models import (
        Datum,
        DmelChunk,
        EncodedTextChunk,
        ImageAssetPointerChunk,
        ImageChunk,
        ModelInput,
        PromptProvenanceSpan,
        SampledProvenanceSpan,
        SampledSequence,
        TensorData,
        Trajectory,
        Turn,
    )
    from provenance.report import Location, Report, Severity, Violation

_HOMES = {
    "provenance.batch": ("ValidatedBatch",),
    "provenance.contract": ("Contract",),
    "provenance.engine": ("Progress", "check", "iter_violations", "validate"),
    "provenance.errors": (
        "ContractError",
        "LedgerError",
        "MissingDependencyError",
        "ProvenanceError",
        "ReadError",
        "SchemaError",
        "ValidationError",
        "WriteError",
    ),
    "provenance.formats": ("convert", "write_datums", "write_sequences"),
    "provenance.formats.parquet_ledger": ("ParquetLedger",),
    "provenance.integrations.rollouts._build": ("Built", "build"),
    "provenance.ledger": ("Ledger", "LedgerStats", "MemoryLedger"),
    "provenance.ledger.sql": ("SqlLedger",),
    "provenance.ledger.recorder": ("Recorder",),
    "provenance.models": (
        "Datum",
        "DmelChunk",
        "EncodedTextChunk",
        "ImageAssetPointerChunk",
        "ImageChunk",
        "ModelInput",
        "PromptProvenanceSpan",
        "SampledProvenanceSpan",
        "SampledSequence",
        "TensorData",
        "Trajectory",
        "Turn",
    ),
    "provenance.report": ("Location", "Report", "Severity", "Violation"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Built",
    "Contract",
    "ContractError",
    "Datum",
    "DmelChunk",
    "EncodedTextChunk",
    "ImageAssetPointerChunk",
    "ImageChunk",
    "Ledger",
    "LedgerError",
    "LedgerStats",
    "Location",
    "MemoryLedger",
    "MissingDependencyError",
    "ModelInput",
    "ParquetLedger",
    "Progress",
    "PromptProvenanceSpan",
    "ProvenanceError",
    "ReadError",
    "Recorder",
    "Report",
    "SampledProvenanceSpan",
    "SampledSequence",
    "SchemaError",
    "Severity",
    "SqlLedger",
    "TensorData",
    "Trajectory",
    "Turn",
    "ValidatedBatch",
    "ValidationError",
    "Violation",
    "WriteError",
    "__version__",
    "build",
    "check",
    "convert",
    "iter_violations",
    "validate",
    "write_datums",
    "write_sequences",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'provenance' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
