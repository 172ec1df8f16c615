"""Checks as a step of somebody else's job: batch after batch, or of a stream as it is read."""

from provenance.pipeline._checker import Checker
from provenance.pipeline._stream import CheckedStream

__all__ = ["CheckedStream", "Checker"]
