"""SampledSequence: what a sample returned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provenance.errors import SchemaError
from provenance.models import SampledSequence

FIELDS = {
    "sequence_id": "s:7",
    "session_id": "s",
    "prompt_tokens": [11, -1, 12],
    "tokens": [21, 22],
    "logprobs": [-0.5, -0.25],
    "sampled_at": "2026-11-29T10:00:00Z",
    "record_stability_info": True,
}


class Nowhere(tzinfo):
    def __repr__(self) -> str:
        return "Nowhere()"  # part of a test's name, which must be the same in every process

    """A zone that does not know its offset: aware by its attribute, naive by its behaviour."""

    def utcoffset(self, _moment: datetime | None) -> None:
        return None


def test_arrays_have_the_documented_types() -> None:
    sequence = SampledSequence(**FIELDS)
    for name, dtype, size in (
        ("prompt_tokens", "int32", 3),
        ("tokens", "int32", 2),
        ("logprobs", "float32", 2),
    ):
        array = getattr(sequence, name)
        assert (array.dtype, array.shape, array.flags.writeable) == (np.dtype(dtype), (size,), False)


def test_json_leaves_out_what_is_not_known() -> None:
    assert SampledSequence(**FIELDS).model_dump(mode="json") == FIELDS
    assert SampledSequence(**FIELDS, last_used_at=None, model=None, seed=None) == SampledSequence(**FIELDS)


def test_json_carries_what_is_known() -> None:
    known = {
        "last_used_at": "2026-11-29T10:00:00.250000Z",
        "model": "m",
        "policy_version": "12",
        "stop_reason": "stop",
        "temperature": 1.0,
        "top_p": 0.9,
        "top_k": -1,
        "seed": 2**62,
    }
    sequence = SampledSequence(**FIELDS, **known | {"policy_version": 12})
    assert sequence.policy_version == "12"
    assert sequence.model_dump(mode="json") == FIELDS | known


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-29T10:00:00Z",
        "2026-11-29t10:00:00z",
        "2026-11-29 12:00:00+02:00",
        "2026-11-29T10:00:00.000000000+00:00",
        datetime(2026, 11, 29, 10, tzinfo=UTC),
        datetime(2026, 11, 29, 5, tzinfo=timezone(timedelta(hours=-5))),
    ],
    ids=str,
)
def test_times_are_kept_in_utc(value: str | datetime) -> None:
    sampled_at = SampledSequence(**FIELDS | {"sampled_at": value}).sampled_at
    assert sampled_at == datetime(2026, 11, 29, 10, tzinfo=UTC)
    assert sampled_at.tzinfo is UTC


NO_OFFSET = "has no offset from UTC, and a local time does not say when it was (FMT004 wrong-type)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sequence_id": ""}, "sequence_id: '' should have at least 1 character (FMT004 wrong-type)"),
        ({"session_id": ""}, "session_id: '' should have at least 1 character (FMT004 wrong-type)"),
        ({"session_id": None}, "session_id: None should be a valid string (FMT004 wrong-type)"),
        (
            {"prompt_tokens": [-2]},
            (
                "prompt_tokens[0]: -2 is not a token id in [0, 2^31), or -1 for no text "
                "(TOK001 token-out-of-range)"
            ),
        ),
        (
            {"tokens": [1, -1]},
            "tokens[1]: -1 is not a token id in [0, 2^31) (TOK001 token-out-of-range)",
        ),
        (
            {"logprobs": [0.0]},
            "logprobs: 1 values, expected 2, one for each token (SEQ007 inconsistent-record)",
        ),
        ({"logprobs": [0.0, None]}, "logprobs[1]: None is not a number (SEQ007 inconsistent-record)"),
        (
            {"logprobs": np.array([0, -np.inf])},
            "logprobs[1]: -inf is not finite (SEQ007 inconsistent-record)",
        ),
        ({"logprobs": None}, "logprobs: None is not an array of numbers (FMT004 wrong-type)"),
        ({"sampled_at": "2026-11-29T10:00:00"}, f"sampled_at: '2026-11-29T10:00:00' {NO_OFFSET}"),
        (
            {"sampled_at": datetime(2026, 11, 29, 10)},  # noqa: DTZ001 - naive on purpose
            f"sampled_at: '2026-11-29 10:00:00' {NO_OFFSET}",
        ),
        (
            {"last_used_at": datetime(2026, 11, 29, 10, tzinfo=Nowhere())},
            f"last_used_at: '2026-11-29 10:00:00' {NO_OFFSET}",
        ),
        (
            {"sampled_at": "2026-11-29"},
            "sampled_at: '2026-11-29' is not an RFC 3339 time (FMT004 wrong-type)",
        ),
        (
            {"sampled_at": "2026-02-30T10:00:00Z"},
            "sampled_at: '2026-02-30T10:00:00Z' is not an RFC 3339 time (FMT004 wrong-type)",
        ),
        (
            {"sampled_at": "0001-01-01T00:00:00+01:00"},
            "sampled_at: '0001-01-01T00:00:00+01:00' is out of range (FMT004 wrong-type)",
        ),
        (
            {"sampled_at": 1764410400},
            "sampled_at: 1764410400 is neither a datetime nor an RFC 3339 time (FMT004 wrong-type)",
        ),
        (
            {"record_stability_info": 1},
            "record_stability_info: 1 should be a valid boolean (FMT004 wrong-type)",
        ),
        (
            {"record_stability_info": "true"},
            "record_stability_info: 'true' should be a valid boolean (FMT004 wrong-type)",
        ),
        (
            {"policy_version": True},
            "policy_version: True is neither a string nor an integer (FMT004 wrong-type)",
        ),
        (
            {"policy_version": 1.5},
            "policy_version: 1.5 is neither a string nor an integer (FMT004 wrong-type)",
        ),
        ({"temperature": float("nan")}, "temperature: nan should be a finite number (FMT004 wrong-type)"),
        (
            {"top_p": -1e39},
            "top_p: -1e+39 is out of range, expected a number from -3e38 to 3e38 (FMT004 wrong-type)",
        ),
        ({"temperature": "1"}, "temperature: '1' should be a valid number (FMT004 wrong-type)"),
        ({"top_k": 1.0}, "top_k: 1.0 should be a valid integer (FMT004 wrong-type)"),
        ({"top_k": 2**31}, "top_k: 2147483648 should be less than 2147483648 (FMT004 wrong-type)"),
    ],
    ids=str,
)
def test_refusals_name_field_value_and_rule(change: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        SampledSequence(**FIELDS | change)
    assert str(caught.value) == message


def test_stability_info_must_be_stated() -> None:
    known = {name: value for name, value in FIELDS.items() if name != "record_stability_info"}
    with pytest.raises(SchemaError, match=r"^record_stability_info: missing \(FMT004 wrong-type\)$"):
        SampledSequence(**known)


def test_numpy_scalars_are_taken_for_what_they_are() -> None:
    changes = {"record_stability_info": np.bool_(False), "temperature": np.float32(0.5), "seed": np.int64(3)}
    sequence = SampledSequence(**FIELDS | changes)
    assert (sequence.record_stability_info, sequence.temperature, sequence.seed) == (False, 0.5, 3)


@settings(deadline=None)
@given(
    sampled_at=st.datetimes(
        datetime(1, 1, 3),  # noqa: DTZ001 - hypothesis adds the zone
        datetime(9999, 12, 29),  # noqa: DTZ001 - likewise
        timezones=st.timezones(),
    ),
    logprobs=st.lists(st.floats(max_value=0, width=32, allow_infinity=False)),
    prompt=st.lists(st.integers(-1, 2**31 - 1)),
)
def test_random_sequences_round_trip(sampled_at: datetime, logprobs: list[float], prompt: list[int]) -> None:
    sequence = SampledSequence(
        **FIELDS
        | {
            "sampled_at": sampled_at,
            "tokens": np.zeros(len(logprobs), int),
            "logprobs": logprobs,
            "prompt_tokens": prompt,
        }
    )
    # Times of different zones are never equal where one of them is skipped or repeated by a clock change.
    assert sequence.sampled_at == sampled_at.astimezone(UTC)
    assert sequence.logprobs.tolist() == logprobs
    assert sequence.prompt_tokens.tolist() == prompt
    assert SampledSequence.model_validate_json(sequence.model_dump_json()) == sequence
