"""Chunks and ModelInput."""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provenance.errors import SchemaError
from provenance.models import (
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInput,
)

PIXEL = b"\x89PNG\r\n\xff\x00"


def test_from_ints_and_back() -> None:
    model_input = ModelInput.from_ints([5, 6]).append_int(7).append(EncodedTextChunk(tokens=[]))
    assert model_input.to_ints() == [5, 6, 7]
    assert model_input.length == 3
    assert [chunk.length for chunk in model_input.chunks] == [2, 1, 0]


def test_appending_leaves_the_original_alone() -> None:
    empty = ModelInput.empty()
    assert empty.append_int(1) == ModelInput.from_ints([1])
    assert (empty.chunks, empty.length, empty.to_ints()) == ((), 0, [])


def test_to_ints_names_the_chunk_that_is_no_text() -> None:
    mixed = ModelInput(
        chunks=[EncodedTextChunk(tokens=[1]), ImageChunk(data=PIXEL, format="png", expected_tokens=4)]
    )
    assert mixed.length == 5
    with pytest.raises(SchemaError, match=r"^chunks\[1\]: a chunk of type 'image' has no token ids$"):
        mixed.to_ints()


@pytest.mark.parametrize(
    "chunk",
    [ImageChunk(data=PIXEL, format="png"), ImageAssetPointerChunk(location="x", format="jpeg")],
    ids=lambda chunk: chunk.type,
)
def test_an_image_without_expected_tokens_has_no_length(chunk: ImageChunk) -> None:
    remedy = r"the length is unknown, set expected_tokens \(TOK003 unknown-chunk-length\)$"
    assert chunk.known_length is None
    with pytest.raises(SchemaError, match="^" + remedy):
        _ = chunk.length
    with pytest.raises(SchemaError, match=r"^chunks\[1\]: " + remedy):
        _ = ModelInput(chunks=[EncodedTextChunk(tokens=[1]), chunk]).length


@pytest.mark.parametrize("data", [PIXEL, bytearray(PIXEL), base64.b64encode(PIXEL).decode()], ids=type)
def test_image_data_is_bytes_in_python_and_base64_in_json(data: bytes | bytearray | str) -> None:
    chunk = ImageChunk(data=data, format="png", expected_tokens=2)
    assert chunk.data == PIXEL
    assert type(chunk.data) is bytes
    assert chunk.model_dump(mode="json") == {
        "type": "image",
        "data": base64.b64encode(PIXEL).decode(),
        "format": "png",
        "expected_tokens": 2,
    }
    assert "expected_tokens" not in ImageChunk(data=data, format="png").model_dump(mode="json")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | (value & 0x7F))
        value >>= 7
    return bytes([*out, value])


@settings(deadline=None)
@given(
    constant=st.booleans(),
    dtype=st.integers(0, 7),
    shape=st.lists(st.integers(0, 2**40), min_size=1, max_size=4),
    payload=st.binary(max_size=8),
)
def test_the_length_of_audio_is_its_first_dimension(
    constant: bool, dtype: int, shape: list[int], payload: bytes
) -> None:
    header = (b"\xfe" if constant else b"") + bytes([dtype]) + varint(len(shape))
    data = header + b"".join(map(varint, shape)) + payload
    assert DmelChunk(dmel=data).length == shape[0]


@pytest.mark.parametrize("data", [b"\xfe\x07\x02\xac\x02\x05", b"\x00\x01\x00", b"\x03\x03\x01\x02\x03\xff"])
def test_the_sdk_reads_the_same_length_of_audio(data: bytes) -> None:
    sdk = pytest.importorskip("tinker.types")
    assert DmelChunk(dmel=data).length == sdk.DmelChunk(dmel=data).length


@pytest.mark.parametrize(
    "data", [b"", b"\xfe", b"\x08\x01\x01", b"\x00", b"\x00\x00", b"\x00\x01", b"\x00" + b"\xff" * 50]
)
def test_audio_without_a_header_has_no_length(data: bytes) -> None:
    chunk = DmelChunk(dmel=data)
    assert chunk.known_length is None
    with pytest.raises(SchemaError, match=r"has no tensor header, so the length is unknown \(TOK003"):
        _ = chunk.length


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_have_a_length_or_none(data: bytes) -> None:
    length = DmelChunk(dmel=data).known_length
    assert length is None or length >= 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: ImageChunk(data="not base64!", format="png"),
            "data: 'not base64!' is not base64 (FMT004 wrong-type)",
        ),
        (
            lambda: ImageChunk(data="aGk", format="png"),
            "data: 'aGk' is not base64 (FMT004 wrong-type)",
        ),
        (
            lambda: DmelChunk(dmel=[1]),
            "dmel: [1] is neither bytes nor base64 text (FMT004 wrong-type)",
        ),
        (
            lambda: ImageChunk(data=PIXEL, format="gif"),
            "format: 'gif' should be 'png' or 'jpeg' (FMT004 wrong-type)",
        ),
        (
            lambda: ImageChunk(data=PIXEL, format="png", expected_tokens=-1),
            "expected_tokens: -1 should be greater than or equal to 0 (FMT004 wrong-type)",
        ),
        (
            lambda: ImageChunk(data=PIXEL, format="png", expected_tokens=True),
            "expected_tokens: True should be a valid integer (FMT004 wrong-type)",
        ),
        (
            lambda: ImageAssetPointerChunk(location=b"x", format="png"),
            "location: b'x' should be a valid string (FMT004 wrong-type)",
        ),
        (
            lambda: ModelInput.model_validate({"chunks": [{"type": "video", "tokens": [1]}]}),
            (
                "chunks[0].type: 'video' is none of 'encoded_text', 'image', 'image_asset_pointer', 'dmel' "
                "(FMT004 wrong-type)"
            ),
        ),
        (
            lambda: ModelInput.model_validate({"chunks": [{"type": "encoded_text", "tokens": [1, -2]}]}),
            "chunks[0].tokens[1]: -2 is not a token id in [0, 2^31) (TOK001 token-out-of-range)",
        ),
        (lambda: ModelInput(chunks=None), "chunks: None is not a list (FMT004 wrong-type)"),
        (
            lambda: ModelInput.from_ints([1]).append_int(np.int64(2**31)),
            "tokens[0]: 2147483648 is not a token id in [0, 2^31) (TOK001 token-out-of-range)",
        ),
    ],
)
def test_refusals_name_field_value_and_rule(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        build()
    assert str(caught.value) == message
