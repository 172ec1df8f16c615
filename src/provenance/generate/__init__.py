"""Datasets for tests of pipelines: valid, or broken in one way, and the same for the same seed."""

from provenance.generate._fill import NOW, SESSION
from provenance.generate._generate import Generated, generate

__all__ = ["NOW", "SESSION", "Generated", "generate"]
