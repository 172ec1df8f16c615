"""Reports as JSON: one object for a report, one line for a violation.

The text is ASCII, so that ids with control or bidirectional characters reach no terminal as such and lone
surrogates of file names survive; and it holds no NaN or Infinity literals, which are not JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from provenance.report import Report, Violation

__all__ = ["dumps", "report_to_json", "violation_to_line"]


def report_to_json(report: Report) -> str:
    """The whole report as one indented JSON object, without a last newline."""
    return dumps(report.to_dict(), indent=2)


def violation_to_line(violation: Violation) -> str:
    """One violation as one line of JSONL, without its newline."""
    return dumps(violation.to_dict())


def dumps(value: Any, *, indent: int | None = None) -> str:
    """JSON text of a value; floats that JSON cannot write become "NaN", "Infinity" and "-Infinity"."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
