"""The public data models: frozen, keyword-only, carrying numpy arrays."""

from provenance.models.chunks import (
    Chunk,
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInput,
)
from provenance.models.datum import Datum
from provenance.models.sequence import SampledSequence
from provenance.models.spans import PromptProvenanceSpan, ProvenanceSpan, SampledProvenanceSpan
from provenance.models.tensor import TensorData, TensorDtype
from provenance.models.trajectory import Trajectory, Turn

__all__ = [
    "Chunk",
    "Datum",
    "DmelChunk",
    "EncodedTextChunk",
    "ImageAssetPointerChunk",
    "ImageChunk",
    "ModelInput",
    "PromptProvenanceSpan",
    "ProvenanceSpan",
    "SampledProvenanceSpan",
    "SampledSequence",
    "TensorData",
    "TensorDtype",
    "Trajectory",
    "Turn",
]
