"""Names of the span lists, and which of the two a field belongs to."""

from __future__ import annotations

from typing import Final, Literal

Side = Literal["input", "target"]
INPUT_SPANS: Final = "model_input_spans"
TARGET_SPANS: Final = "loss_fn_input_spans"


def side_of(field: str) -> Side:
    """Which of the two span lists says where the positions of a field come from."""
    return "input" if field in ("model_input", INPUT_SPANS) else "target"
