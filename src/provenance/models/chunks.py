"""The chunks of a model input: text, images, audio.

Source of shapes and fields: `tinker.types.*_chunk` of the official SDK; limits are those of the wire format.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, Strict, WithJsonSchema

from provenance.errors import SchemaError
from provenance.models._arrays import TOKENS, ArrayLike, Tokens, Vector
from provenance.models._base import Model, absent, refuse, schema_error, shorten

__all__ = [
    "Chunk",
    "DmelChunk",
    "EncodedTextChunk",
    "ImageAssetPointerChunk",
    "ImageChunk",
    "ModelInput",
]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a list or tuple as a tuple; sets and iterators are refused, because order is meaning here."""
    if isinstance(value, (list, tuple)):
        return tuple(value)
    raise refuse("FMT004", f"{shorten(value)} is not a list")


def tensor_length(data: bytes) -> int | None:
    """Return the first dimension of a serialised audio tensor, or None where the header cannot be read.

    The header: an optional byte 254 (constant tensor), a dtype byte in 0..7, the rank, then the dimensions;
    rank and dimensions are LEB128 integers of at most 10 bytes. Source: `tinker.types._tensor_container`.
    """
    start = 1 if data[:1] == b"\xfe" else 0
    if len(data) <= start or data[start] > 7:
        return None
    rank, start = _leb128(data, start + 1)
    if not rank:
        return None
    length, _ = _leb128(data, start)
    return length


def _leb128(data: bytes, start: int) -> tuple[int | None, int]:
    value = 0
    for i, byte in enumerate(data[start : start + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, start + i + 1
    return None, start


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise refuse("FMT004", f"{shorten(value)} is not base64") from None
    raise refuse("FMT004", f"{shorten(value)} is neither bytes nor base64 text")


Base64Bytes: TypeAlias = Annotated[
    bytes,
    PlainValidator(_as_bytes),
    PlainSerializer(lambda data: base64.b64encode(data).decode("ascii"), return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]
_Format: TypeAlias = Literal["png", "jpeg"]
_Expected: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=2**31 - 1)]


class _Chunk(Model, frozen=True):
    @property
    def known_length(self) -> int | None:
        """Number of positions the chunk takes in the model input, or None where it cannot be known."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """Number of positions the chunk takes in the model input; `SchemaError` (TOK003) if unknown."""
        length = self.known_length
        if length is None:
            raise schema_error("TOK003", self._remedy())
        return length

    def _remedy(self) -> str:
        return "the length is unknown, set expected_tokens"


class EncodedTextChunk(_Chunk, frozen=True):
    """Text as token ids.

    Raises:
        SchemaError: TOK001 for anything but integers in [0, 2^31), with index and value.
    """

    type: Literal["encoded_text"] = "encoded_text"
    """The kind of chunk, the tag in JSON."""

    tokens: Annotated[Tokens, Vector(TOKENS)]
    """Token ids, shape (length,), int32, read-only."""

    if TYPE_CHECKING:

        def __init__(self, *, tokens: ArrayLike) -> None: ...

    @property
    def known_length(self) -> int:
        """Number of tokens."""
        return int(self.tokens.size)


class ImageChunk(_Chunk, frozen=True):
    """An image, sent with the request.

    Raises:
        SchemaError: FMT004 for a field of the wrong type.
    """

    type: Literal["image"] = "image"
    """The kind of chunk, the tag in JSON."""

    data: Base64Bytes
    """The encoded image; base64 in JSON."""

    format: _Format
    """How `data` is encoded."""

    expected_tokens: _Expected | None = Field(default=None, exclude_if=absent)
    """Number of positions the image takes, int32. The server counts too and fails the request on a
    difference; provenance needs it, because spans tile positions (TOK003)."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            data: bytes | bytearray | str,
            format: _Format,  # noqa: A002 - the name of the field
            expected_tokens: int | None = None,
        ) -> None: ...

    @property
    def known_length(self) -> int | None:
        """`expected_tokens`."""
        return self.expected_tokens


class ImageAssetPointerChunk(_Chunk, frozen=True):
    """An image that the server fetches; fine for sampling, not possible in a training request (TOK004).

    Raises:
        SchemaError: FMT004 for a field of the wrong type.
    """

    type: Literal["image_asset_pointer"] = "image_asset_pointer"
    """The kind of chunk, the tag in JSON."""

    location: Annotated[str, Strict()]
    """Path or URL of the image."""

    format: _Format
    """How the image is encoded."""

    expected_tokens: _Expected | None = Field(default=None, exclude_if=absent)
    """Number of positions the image takes, int32; see `ImageChunk.expected_tokens`."""

    @property
    def known_length(self) -> int | None:
        """`expected_tokens`."""
        return self.expected_tokens


class DmelChunk(_Chunk, frozen=True):
    """Audio, as a serialised tensor whose first dimension is the number of positions.

    Raises:
        SchemaError: FMT004 for a field of the wrong type.
    """

    type: Literal["dmel"] = "dmel"
    """The kind of chunk, the tag in JSON."""

    dmel: Base64Bytes
    """The serialised tensor; base64 in JSON. Opaque but for its header, see `tensor_length`."""

    if TYPE_CHECKING:

        def __init__(self, *, dmel: bytes | bytearray | str) -> None: ...

    @property
    def known_length(self) -> int | None:
        """First dimension of the tensor, None where its header cannot be read."""
        return tensor_length(self.dmel)

    def _remedy(self) -> str:
        return f"{shorten(self.dmel)} has no tensor header, so the length is unknown"


Chunk: TypeAlias = EncodedTextChunk | ImageChunk | ImageAssetPointerChunk | DmelChunk


class ModelInput(Model, frozen=True):
    """What the model reads: chunks, one after the other. Method names follow the SDK's class.

    Raises:
        SchemaError: naming the chunk and what is wrong with it.
    """

    chunks: Annotated[tuple[Annotated[Chunk, Field(discriminator="type")], ...], BeforeValidator(as_tuple)]
    """The chunks, in order; their lengths add up to N, the number of positions."""

    if TYPE_CHECKING:

        def __init__(self, *, chunks: Sequence[Chunk]) -> None: ...

    @classmethod
    def from_ints(cls, tokens: ArrayLike) -> Self:
        """Return an input of one text chunk; tokens as in `EncodedTextChunk.tokens`."""
        return cls(chunks=(EncodedTextChunk(tokens=tokens),))

    @classmethod
    def empty(cls) -> Self:
        """Return an input without chunks."""
        return cls(chunks=())

    @property
    def known_length(self) -> int | None:
        """Number of positions N, or None where a chunk's length cannot be known."""
        total = 0
        for chunk in self.chunks:
            length = chunk.known_length
            if length is None:
                return None
            total += length
        return total

    @property
    def length(self) -> int:
        """Number of positions N; raises `SchemaError` (TOK003) naming the chunk whose length is unknown."""
        total = 0
        for i, chunk in enumerate(self.chunks):
            length = chunk.known_length
            if length is None:
                raise schema_error("TOK003", chunk._remedy(), path=f"chunks[{i}]")
            total += length
        return total

    def to_ints(self) -> list[int]:
        """Return all tokens; raises `SchemaError` naming the first chunk that is no text."""
        tokens: list[int] = []
        for i, chunk in enumerate(self.chunks):
            if not isinstance(chunk, EncodedTextChunk):
                raise SchemaError(f"chunks[{i}]: a chunk of type {chunk.type!r} has no token ids")
            tokens += chunk.tokens.tolist()
        return tokens

    def append(self, chunk: Chunk) -> Self:
        """Return a new input that ends with the chunk."""
        return self.model_copy(update={"chunks": (*self.chunks, chunk)})

    def append_int(self, token: int) -> Self:
        """Return a new input that ends with a text chunk of one token."""
        return self.append(EncodedTextChunk(tokens=[token]))
