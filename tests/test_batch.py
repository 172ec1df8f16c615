"""ValidatedBatch: who makes one, that nobody changes one, and what it holds."""

from __future__ import annotations

import copy
import copyreg
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import provenance
from provenance import Contract, ContractError, SchemaError, ValidatedBatch, ValidationError, validate
from provenance.batch import sampled_tensor
from provenance.rules import DROP, Case, case


def validated(of: Case, contract: Any = None, **changes: Any) -> ValidatedBatch:
    circumstances = {
        "ledger": list(of.sequences),
        "session": of.session,
        "now": of.now,
        "loss_config": of.config,
    }
    return validate(list(of.datums), contract or of.loss, **(circumstances | changes))


ARRAYS = ("tokens", "cu_seqlens", "sampled", "sequence_starts", "sequence_lengths")


def test_the_arrays_of_a_worked_example() -> None:
    both = case(
        {
            "datums.1.loss_fn_inputs.advantages.data": [0.0, 0.0, -0.5, -0.5, -0.5],
            "sequences.1.policy_version": "7",
        },
        copies=2,
    )
    batch = validated(both)
    assert len(batch) == 2
    assert batch.tokens.tolist() == [11, 12, 13, 21, 22] * 2
    assert batch.cu_seqlens.tolist() == [0, 5, 10]
    assert batch.sampled.tolist() == [False, False, True, True, True] * 2
    assert set(batch.inputs) == {"target_tokens", "logprobs", "advantages"}
    assert batch.inputs["target_tokens"].tolist() == [12, 13, 21, 22, 2] * 2
    assert batch.inputs["logprobs"].tolist() == [0.0, 0.0, -0.125, -0.375, -0.625] * 2
    assert batch.inputs["advantages"].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, -0.5, -0.5, -0.5]
    assert batch.sequence_ids == ("s:1", "s:1/1")
    assert batch.sequence_starts.tolist() == [2, 7]
    assert batch.sequence_lengths.tolist() == [3, 3]
    assert batch.policy_versions == (None, "7")
    assert (batch.session, batch.now) == ("session-1", 1767355200 * 1_000_000)
    assert batch.contract == Contract.for_loss("stable_reinforce")
    dtypes = [getattr(batch, name).dtype for name in ARRAYS]
    assert dtypes == [np.int32, np.int64, np.bool_, np.int64, np.int64]
    assert {name: array.dtype for name, array in batch.inputs.items()} == {
        "target_tokens": np.int64,
        "logprobs": np.float32,
        "advantages": np.float32,
    }


def test_several_turns_have_several_sequences() -> None:
    batch = validated(case(turns="multi"))
    assert batch.sampled.tolist() == [False, True, True, False, False, True, True]
    assert batch.sequence_ids == ("s:1", "s:2")
    assert batch.sequence_starts.tolist() == [1, 5]
    assert batch.sequence_lengths.tolist() == [2, 2]


def test_batches_of_many_datums_are_joined() -> None:
    valid = case().datums[0]
    batch = validate([valid] * 2100, ledger=list(case().sequences), session=case().session, now=case().now)
    assert len(batch) == 2100
    assert batch.tokens.shape == (10500,)
    assert batch.cu_seqlens.tolist() == list(range(0, 10501, 5))
    assert batch.sequence_starts.tolist() == list(range(2, 10500, 5))


def test_images_have_no_token() -> None:
    image = {"type": "image", "format": "png", "data": "iVBORw0KGgo=", "expected_tokens": 1}
    chunks = [
        {"type": "encoded_text", "tokens": [11]},
        image,
        {"type": "encoded_text", "tokens": [13, 21, 22]},
    ]
    seen = case(
        {
            "model_input.chunks": chunks,
            "loss_fn_inputs.target_tokens.data.0": 0,
            "sequences.0.prompt_tokens.1": -1,
        }
    )
    assert validated(seen).tokens.tolist() == [11, -1, 13, 21, 22]


WIDE = {
    "loss_fn_inputs.target_tokens": {
        "data": [12, 0, 13, 0, 21, 9, 22, 0, 2, 0],
        "dtype": "int64",
        "shape": [5, 2],
    },
    "loss_fn_inputs.weights": {
        "data": [0.0] * 4 + [1.0, 0.5, 1.0, 0.0, 1.0, 0.0],
        "dtype": "float32",
        "shape": [5, 2],
    },
}
SPARSE = {
    "loss_fn_inputs.target_tokens": {
        "data": [12, 13, 21, 9, 22, 2],
        "dtype": "int64",
        "shape": [5, 2],
        "sparse_crow_indices": [0, 1, 2, 4, 5, 6],
        "sparse_col_indices": [0, 0, 0, 1, 0, 0],
    },
    "loss_fn_inputs.weights": {
        "data": [1.0, 0.5, 1.0, 1.0],
        "dtype": "float32",
        "shape": [5, 2],
        "sparse_crow_indices": [0, 0, 0, 2, 3, 4],
        "sparse_col_indices": [0, 1, 0, 0],
    },
}


@pytest.mark.parametrize("changes", [WIDE, SPARSE], ids=["dense", "sparse"])
def test_wide_inputs_are_packed_as_rows(changes: dict[str, Any]) -> None:
    batch = validated(case(changes, loss="cross_entropy"))
    assert batch.inputs["target_tokens"].tolist() == [[12, 0], [13, 0], [21, 9], [22, 0], [2, 0]]
    assert batch.inputs["weights"].tolist() == [[0, 0], [0, 0], [1, 0.5], [1, 0], [1, 0]]


def test_rows_of_no_targets_are_packed_as_such() -> None:
    none = {"data": [], "dtype": "int64", "shape": [5, 0]}
    batch = validated(case({"loss_fn_inputs.target_tokens": none}, loss="cross_entropy"))
    assert batch.inputs["target_tokens"].shape == (5, 0)
    assert batch.inputs["weights"].shape == (5,)


def test_datums_without_spans_have_nothing_sampled() -> None:
    batch = validated(case({"model_input_spans": DROP, "loss_fn_input_spans": DROP}, loss="ppo"))
    assert not batch.sampled.any()
    assert batch.sequence_ids == ()
    assert batch.sequence_starts.shape == (0,)


@pytest.mark.parametrize(
    "changes",
    [
        {f"datums.0.{path}": value for path, value in WIDE.items()},
        {"datums.0.loss_fn_inputs.clip_low_threshold": {"data": [0.8] * 5, "dtype": "float32"}},
    ],
    ids=["widths", "optional"],
)
def test_datums_of_different_shapes_are_not_packed(changes: dict[str, Any]) -> None:
    loss = "ppo" if "datums.0.loss_fn_inputs.clip_low_threshold" in changes else "cross_entropy"
    with pytest.raises(SchemaError, match=r"loss input '(target_tokens|weights|clip_low_threshold)'"):
        validated(case(changes, loss=loss, copies=2))


# What is refused


def test_errors_are_refused_with_their_report() -> None:
    broken = case({"datums.1.loss_fn_inputs.logprobs.data.0": 0.5}, copies=3)
    with pytest.raises(ValidationError, match="1 of 3 datums break the stable_reinforce contract") as caught:
        validated(broken)
    report = caught.value.report
    assert set(report.counts) == {"VAL002"}
    assert "row 1: logprobs[0]: VAL002 positive-logprob" in str(caught.value)
    assert "(1 error)" in str(caught.value)


def test_warnings_do_not_refuse() -> None:
    batch = validated(case({"loss_fn_inputs.advantages.data.2": 0.0}))
    assert len(batch) == 1
    assert batch.inputs["advantages"].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("config", [{"kl_coeff": -1.0}, {"kl_coef": 1.0}], ids=repr)
def test_a_broken_configuration_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        validated(case(), loss_config=config)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValidationError, match="FMT005"):
        validate([], ledger=[], session="s")


@pytest.mark.parametrize("missing", ["ledger", "session"])
def test_what_the_contract_needs_is_demanded(missing: str) -> None:
    with pytest.raises(ContractError, match=f"needs a {missing}"):
        validated(case(), **{missing: None})


def test_a_contract_without_such_rules_demands_nothing() -> None:
    contract = Contract.for_loss("stable_reinforce").select(["INP", "VAL"])
    batch = validate(list(case().datums), contract)
    assert batch.session is None
    assert batch.contract == contract
    assert batch.policy_versions == (None,)


def test_a_broken_ledger_is_refused() -> None:
    with pytest.raises(ValidationError):
        validated(case({"sequences.1": {"sequence_id": 5}}))


# Who makes one, and that nobody changes one


@pytest.mark.parametrize(
    "make",
    [
        ValidatedBatch,
        lambda: ValidatedBatch(_made_by=object()),
        lambda: ValidatedBatch(1, tokens=[]),
        lambda: ValidatedBatch.__new__(ValidatedBatch),
        lambda: copyreg.__newobj__(ValidatedBatch),
    ],
)
def test_only_the_engine_makes_batches(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"comes from provenance\.validate"):
        make()


def test_a_pickle_written_by_hand_makes_none() -> None:
    # What a pickle of an object with __slots__ holds: make it with __new__, then set its attributes.
    made_by_new = b"\x80\x04cprovenance.batch\nValidatedBatch\n)\x81."
    with pytest.raises(TypeError, match=r"comes from provenance\.validate"):
        pickle.loads(made_by_new)
    made_by_object = (
        b"\x80\x04ccopyreg\n_reconstructor\n(cprovenance.batch\nValidatedBatch\ncbuiltins\nobject\nNtR"
        b"N}X\x08\x00\x00\x00_sessionX\x01\x00\x00\x00ss\x86b."
    )
    with pytest.raises(AttributeError, match="cannot be changed"):
        pickle.loads(made_by_object)


def test_it_has_no_subclasses() -> None:
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Forged", (ValidatedBatch,), {})


def test_attributes_cannot_be_set_or_deleted() -> None:
    batch = validated(case())
    for name in ("tokens", "_tokens", "session", "new", "__class__"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(batch, name, None)
        with pytest.raises(AttributeError, match="cannot be changed"):
            delattr(batch, name)
    with pytest.raises(TypeError):
        batch.inputs["logprobs"] = np.zeros(5)  # type: ignore[index]
    assert not hasattr(batch, "__dict__")


def test_arrays_cannot_be_written_to() -> None:
    batch = validated(case())
    for array in (*(getattr(batch, name) for name in ARRAYS), *batch.inputs.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        for view in (array, array.view(), array[:], array.reshape(-1)):
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.setflags(write=True)


def test_arrays_are_copies_of_what_was_given() -> None:
    datum = copy.deepcopy(dict(case().datums[0]))
    logprobs = np.array(datum["loss_fn_inputs"]["logprobs"]["data"], np.float32)
    datum["loss_fn_inputs"]["logprobs"]["data"] = logprobs
    batch = validate([datum], ledger=list(case().sequences), session=case().session, now=case().now)
    logprobs[:] = 5.0
    assert batch.inputs["logprobs"].tolist() == [0.0, 0.0, -0.125, -0.375, -0.625]


def test_a_copy_is_the_batch_itself_and_pickle_refuses() -> None:
    batch = validated(case())
    assert copy.copy(batch) is batch
    assert copy.deepcopy([batch])[0] is batch
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(batch, protocol)


def test_repr_says_what_it_is() -> None:
    text = repr(validated(case(copies=2)))
    assert text == "<ValidatedBatch of 2 datums, 10 positions, stable_reinforce, session 'session-1'>"


def test_validate_takes_files(tmp_path: Any) -> None:
    valid = case(copies=3)
    provenance.write_datums(valid.datums, tmp_path / "datums.parquet")
    provenance.write_sequences(valid.sequences, tmp_path / "sequences.jsonl")
    batch = validate(
        tmp_path / "datums.parquet", ledger=tmp_path / "sequences.jsonl", session=valid.session, now=valid.now
    )
    plain = validated(valid)
    for name in ARRAYS:
        assert np.array_equal(getattr(batch, name), getattr(plain, name))
    for name, array in plain.inputs.items():
        assert np.array_equal(batch.inputs[name], array)
    assert batch.sequence_ids == plain.sequence_ids


# On a device

CPU = torch.device("cpu")


def test_a_batch_on_a_device_is_the_same_batch() -> None:
    batch = validated(case(copies=2))
    moved = batch.to("cpu")
    assert type(moved) is ValidatedBatch
    assert repr(moved) == repr(batch)
    assert moved.contract is batch.contract
    for name in ARRAYS:
        assert getattr(moved, name) is getattr(batch, name)
    assert moved.inputs is batch.inputs
    with pytest.raises(AttributeError, match="cannot be changed"):
        moved._tensors = {}
    assert copy.deepcopy(moved) is moved
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(moved)


@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        ("positions", torch.int64, [2, 3, 4, 7, 8, 9]),
        ("target_tokens", torch.int64, [21, 22, 2] * 2),
        ("logprobs", torch.float32, [-0.125, -0.375, -0.625] * 2),
        ("advantages", torch.float32, [1.0] * 6),
    ],
)
def test_tensors_hold_what_the_sampled_positions_hold(
    name: str, dtype: torch.dtype, values: list[Any]
) -> None:
    batch = validated(case(copies=2))
    for each in (batch, batch.to("cpu")):
        tensor = sampled_tensor(each, name, CPU)
        assert (tensor.device, tensor.dtype) == (CPU, dtype)
        assert tensor.tolist() == values


def test_tensors_are_made_once_and_are_no_views_of_the_arrays() -> None:
    batch = validated(case())
    moved = batch.to("cpu")
    assert sampled_tensor(moved, "logprobs", CPU) is sampled_tensor(moved, "logprobs", CPU)
    assert sampled_tensor(moved, "logprobs", CPU) is not sampled_tensor(moved.to(CPU), "logprobs", CPU)
    copied = sampled_tensor(batch, "logprobs", CPU)
    copied += 1
    sampled_tensor(moved, "logprobs", CPU).add_(1)
    assert batch.inputs["logprobs"].tolist() == moved.inputs["logprobs"].tolist()
    assert moved.inputs["logprobs"].tolist() == [0.0, 0.0, -0.125, -0.375, -0.625]


def test_another_device_than_the_losss_is_copied_to_it() -> None:
    moved = validated(case()).to("meta")
    assert sampled_tensor(moved, "logprobs", torch.device("meta")).device.type == "meta"
    assert sampled_tensor(moved, "logprobs", CPU).tolist() == [-0.125, -0.375, -0.625]


def test_an_unknown_device_is_torchs_error() -> None:
    with pytest.raises(RuntimeError, match="nowhere"):
        validated(case()).to("nowhere")


def test_a_batch_needs_no_torch_until_it_moves() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import provenance\n"
        "from provenance.rules import case\n"
        "c = case()\n"
        "b = provenance.validate(list(c.datums), ledger=list(c.sequences), session=c.session, now=c.now)\n"
        "try: b.to('cpu')\n"
        "except provenance.MissingDependencyError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "torch is not installed: run pip install 'datum-provenance[losses]'\n"
