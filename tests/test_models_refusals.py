"""What Datum and the spans refuse, and how they say it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from provenance.errors import SchemaError
from provenance.models import Datum, ModelInput, PromptProvenanceSpan, SampledProvenanceSpan

PROMPT = PromptProvenanceSpan(sequence_id="a", length=2)
INPUT_SPANS = [PROMPT, SampledProvenanceSpan(sequence_id="a", length=1)]
TARGET_SPANS = [
    PromptProvenanceSpan(sequence_id="a", offset=1, length=1),
    SampledProvenanceSpan(sequence_id="a", length=2),
]
INPUTS = {"target_tokens": [12, 21, 2], "logprobs": [0.0, -0.5, -0.25], "advantages": [0, 1, 1.5]}


def plain(**changes: object) -> Datum:
    return Datum(**{"model_input": ModelInput.from_ints([11, 12, 21]), "loss_fn_inputs": INPUTS} | changes)


def traced() -> Datum:
    return plain().with_provenance(model_input=INPUT_SPANS, loss_fn_inputs=TARGET_SPANS)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: traced().with_provenance(INPUT_SPANS[:1], TARGET_SPANS),
        "model_input_spans: lengths sum to 2, expected 3, the length of model_input (SPN003 untiled-input)",
    ),
    (
        lambda: traced().with_provenance(INPUT_SPANS, [*TARGET_SPANS, PROMPT]),
        (
            "loss_fn_input_spans: lengths sum to 5, expected 3, the rows of target_tokens of shape [3] "
            "(SPN004 untiled-targets)"
        ),
    ),
    (
        lambda: plain(
            loss_fn_inputs={"target_tokens": np.ones((1, 3), int)},
            model_input_spans=INPUT_SPANS,
            loss_fn_input_spans=TARGET_SPANS,
        ),
        (
            "loss_fn_inputs.target_tokens.shape: shape [1, 3] for 3 positions, "
            "expected one target a position or (N, K) (INP004 wrong-rank)"
        ),
    ),
    (
        lambda: plain(model_input_spans=INPUT_SPANS),
        "loss_fn_input_spans: missing, provenance needs both span lists or neither (SPN001 unpaired-spans)",
    ),
    (
        lambda: plain(loss_fn_input_spans=[]),
        "model_input_spans: missing, provenance needs both span lists or neither (SPN001 unpaired-spans)",
    ),
    (
        lambda: plain(model_input_spans={1}, loss_fn_input_spans=TARGET_SPANS),
        "model_input_spans: {1} is not a list (FMT004 wrong-type)",
    ),
    (
        lambda: Datum.model_validate(
            traced().model_dump() | {"model_input_spans": [{"type": "tool", "sequence_id": "a", "length": 3}]}
        ),
        "model_input_spans[0].type: 'tool' is none of 'prompt', 'sampled' (SPN005 invalid-span)",
    ),
    (
        lambda: Datum.model_validate(traced().model_dump() | {"model_input_spans": [{"length": 3}]}),
        "model_input_spans[0].type: missing (SPN005 invalid-span)",
    ),
    (
        lambda: Datum.model_validate(
            traced().model_dump()
            | {"loss_fn_input_spans": [{"type": "prompt", "sequence_id": "a", "length": None}]}
        ),
        "loss_fn_input_spans[0].length: None should be a valid integer (SPN005 invalid-span)",
    ),
    (
        lambda: PromptProvenanceSpan(sequence_id="", length=1),
        "sequence_id: '' should have at least 1 character (SPN005 invalid-span)",
    ),
    (
        lambda: PromptProvenanceSpan(sequence_id=7, length=1),
        "sequence_id: 7 should be a valid string (SPN005 invalid-span)",
    ),
    (lambda: SampledProvenanceSpan(sequence_id="a"), "length: missing (SPN005 invalid-span)"),
    (
        lambda: SampledProvenanceSpan(sequence_id="a", length=True),
        "length: True should be a valid integer (SPN005 invalid-span)",
    ),
    (
        lambda: SampledProvenanceSpan(sequence_id="a", length=np.True_),
        "length: True should be a valid integer (SPN005 invalid-span)",
    ),
    (
        lambda: SampledProvenanceSpan(sequence_id="a", length=2.0),
        "length: 2.0 should be a valid integer (SPN005 invalid-span)",
    ),
    (
        lambda: SampledProvenanceSpan(sequence_id="a", length=1, offset=-1),
        "offset: -1 should be greater than or equal to 0 (SPN005 invalid-span)",
    ),
    (
        lambda: SampledProvenanceSpan(type="prompt", sequence_id="a", length=1),
        "type: 'prompt' should be 'sampled' (SPN005 invalid-span)",
    ),
    (Datum, "model_input: missing (FMT004 wrong-type)"),
    (
        lambda: Datum.model_validate([1]),
        "[1] should be a valid dictionary or instance of Datum (FMT004 wrong-type)",
    ),
    (
        lambda: Datum.model_validate_json("{"),
        "invalid JSON: EOF while parsing an object at line 1 column 1 (FMT001 invalid-json)",
    ),
    (
        lambda: plain(loss_fn_inputs={"logprobs": [0.0, 1.0, 2.0, None]}),
        "loss_fn_inputs.logprobs.data[3]: None is not a number (VAL001 non-finite-value)",
    ),
    (
        lambda: plain(loss_fn_inputs={"a b": {"data": [1], "dtype": "bfloat16", "size": 1}}),
        (
            "loss_fn_inputs['a b'].dtype: 'bfloat16' should be 'int64' or 'float32' (INP003 wrong-dtype); "
            "loss_fn_inputs['a b'].size: unknown field (FMT004 wrong-type)"
        ),
    ),
    (
        lambda: plain(loss_fn_inputs={"mask": np.array([True])}),
        "loss_fn_inputs.mask.data: an array of bool is not an array of float32 (INP003 wrong-dtype)",
    ),
    (
        lambda: plain(loss_fn_inputs={"target_tokens": np.array([1.0, 2.5])}),
        "loss_fn_inputs.target_tokens.data[1]: 2.5 is not an int64 (INP003 wrong-dtype)",
    ),
    (
        lambda: plain(loss_fn_inputs={"weights": "abc"}),
        "loss_fn_inputs.weights.data: 'abc' is not an array of numbers (FMT004 wrong-type)",
    ),
    (
        lambda: plain(loss_fn_inputs={"rewards": [[1, 2], [3]]}),
        "loss_fn_inputs.rewards.data[1]: a row of 1 among rows of 2 values (INP004 wrong-rank)",
    ),
    (
        lambda: plain(loss_fn_inputs={"": [1.0]}),
        "loss_fn_inputs: '' is not the name of a loss input (FMT004 wrong-type)",
    ),
    (
        lambda: plain(loss_fn_inputs=[("logprobs", [1.0])]),
        "loss_fn_inputs: [('logprobs', [1.0])] is not a mapping of names to tensors (FMT004 wrong-type)",
    ),
]


@pytest.mark.parametrize(("build", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_refusals_name_field_value_and_rule(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        build()
    assert str(caught.value) == message
    assert f"({caught.value.code} " in message


def test_several_faults_are_listed_and_the_rest_counted() -> None:
    with pytest.raises(SchemaError) as caught:
        plain(loss_fn_inputs={f"x{i}": [None] for i in range(8)})
    assert str(caught.value).count("VAL001") == 5
    assert str(caught.value).endswith("; and 3 more")
