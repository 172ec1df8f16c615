"""One training example with its loss inputs and their provenance.

Source: `tinker.types.Datum` of the official SDK. What the SDK asserts or skips is refused here: spans come in
pairs and tile their fields, in the constructor as well as in `with_provenance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import numpy as np
import pydantic
from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from provenance.models._arrays import ArrayLike, flatten, to_numpy
from provenance.models._base import Fault, Model, absent, faults, nested, refuse, shorten
from provenance.models.chunks import ModelInput, as_tuple
from provenance.models.spans import ProvenanceSpan
from provenance.models.tensor import TensorData, TensorDtype

__all__ = ["Datum"]

# The dtypes of plain lists, which carry none. Source: the SDK's table; `mask` is the cookbook's.
_DTYPES: Mapping[str, TensorDtype] = MappingProxyType(
    {
        "target_tokens": "int64",
        "logprobs": "float32",
        "advantages": "float32",
        "weights": "float32",
        "mask": "float32",
        "clip_low_threshold": "float32",
        "clip_high_threshold": "float32",
        "sequence_ratio_mask": "float32",
    }
)


def _as_inputs(value: Any) -> Mapping[str, TensorData]:
    if not isinstance(value, Mapping):
        raise refuse("FMT004", f"{shorten(value)} is not a mapping of names to tensors")
    tensors: dict[str, TensorData] = {}
    found: dict[str, list[Fault]] = {}
    for name, given in value.items():
        if not isinstance(name, str) or not name:
            raise refuse("FMT004", f"{shorten(name)} is not the name of a loss input")
        if given is None:
            continue  # an input that is null is one that is not there
        try:
            tensors[name] = given if isinstance(given, TensorData) else _as_tensor(name, given)
        except pydantic.ValidationError as error:
            found[name] = faults(error, TensorData._rules)
    if found:
        raise nested("loss_fn_inputs", found)
    return MappingProxyType(tensors)


def _as_tensor(name: str, given: Any) -> TensorData:
    if isinstance(given, Mapping):
        return _validated(dict(given))
    dtype = _DTYPES.get(name)
    if not isinstance(given, (list, tuple)):
        array = given if type(given) is np.ndarray else to_numpy(given)
        if array is not None:
            given = array.tolist() if array.dtype.kind == "O" else array
        if isinstance(given, np.ndarray) and dtype != "int64":
            # An integer array for a float input stays int64, as in the SDK; INP007 reports it.
            dtype = "int64" if given.dtype.kind in "iu" else "float32"
    if dtype is None:
        dtype = _dtype_of(given)
    return _validated({"data": given, "dtype": dtype})


def _validated(fields: dict[str, Any]) -> TensorData:
    tensor: TensorData = TensorData.__pydantic_validator__.validate_python(fields)
    return tensor


def _dtype_of(given: Any) -> TensorDtype:
    try:
        flat, _ = flatten(given if isinstance(given, (list, tuple)) else ())
    except PydanticCustomError:
        return "float32"
    whole = flat and all(isinstance(item, (int, np.integer)) for item in flat)
    return "int64" if whole else "float32"


LossInputs: TypeAlias = Annotated[
    Mapping[str, TensorData],
    PlainValidator(_as_inputs, json_schema_input_type=dict[str, TensorData]),
    PlainSerializer(dict, return_type=dict[str, TensorData]),
]
_Spans: TypeAlias = Annotated[tuple[ProvenanceSpan, ...], BeforeValidator(as_tuple)]


class Datum(Model, frozen=True):
    """A model input of N positions, the loss inputs with a row each, and where both come from.

    Loss inputs may be lists, numpy arrays or torch tensors. Rules that compare fields are the engine's;
    only what would make spans meaningless is refused here.

    Raises:
        SchemaError: SPN001 where one span list is missing, SPN003 or SPN004 where spans do not tile their
            field, INP005 or INP004 where there are spans and targets and input differ in length, and what
            the parts raise.
    """

    _rules = MappingProxyType({"model_input_spans": "SPN005", "loss_fn_input_spans": "SPN005"})

    model_input: ModelInput
    """What the model reads, N positions."""

    loss_fn_inputs: LossInputs = Field(default_factory=dict, validate_default=True)
    """Name -> tensor of N rows, immutable; row i belongs to the target that follows input position i."""

    model_input_spans: _Spans | None = Field(default=None, exclude_if=absent)
    """Runs that tile `model_input`: their lengths sum to N. None where the datum carries no provenance."""

    loss_fn_input_spans: _Spans | None = Field(default=None, exclude_if=absent)
    """Runs that tile `target_tokens`: their lengths sum to its rows. None where the other list is."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            model_input: ModelInput,
            loss_fn_inputs: Mapping[str, TensorData | ArrayLike] = ...,
            model_input_spans: Sequence[ProvenanceSpan] | None = None,
            loss_fn_input_spans: Sequence[ProvenanceSpan] | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _check_spans(self) -> Self:
        ours, theirs = self.model_input_spans, self.loss_fn_input_spans
        if ours is None and theirs is None:
            return self
        if ours is None or theirs is None:
            missing = "model_input_spans" if ours is None else "loss_fn_input_spans"
            raise refuse("SPN001", "missing, provenance needs both span lists or neither", path=missing)
        length = self.model_input.known_length
        target = self.loss_fn_inputs.get("target_tokens")
        if length is not None and target is not None and target.rows not in (None, length):
            _refuse_misaligned(target, length)
        if length is not None:
            _check_tiling("SPN003", "model_input_spans", ours, length, "the length of model_input")
        if target is not None and target.rows is not None:
            what = f"the rows of target_tokens of shape {list(target.shape)}"
            _check_tiling("SPN004", "loss_fn_input_spans", theirs, target.rows, what)
        return self

    def with_provenance(
        self, model_input: Sequence[ProvenanceSpan], loss_fn_inputs: Sequence[ProvenanceSpan]
    ) -> Self:
        """Return a copy whose spans tile `model_input` and `loss_fn_inputs["target_tokens"]`.

        Raises:
            SchemaError: SPN003 or SPN004 with the sum and what was expected, SPN005 for what is no span,
                INP005 or INP004 for targets that are not as long as the input.
        """
        return self.model_copy(
            update={"model_input_spans": model_input, "loss_fn_input_spans": loss_fn_inputs}
        )

    def _repr_html_(self) -> str:
        from provenance.models._display import datum_to_html

        return datum_to_html(self)


def _refuse_misaligned(target: TensorData, length: int) -> None:
    """Say that targets and input are of different lengths, before spans are held against either."""
    if len(target.shape) > 1:
        text = f"shape {list(target.shape)} for {length} positions, expected one target a position or (N, K)"
        raise refuse("INP004", text, path="loss_fn_inputs.target_tokens.shape")
    text = f"{target.rows} rows for {length} positions of model_input"
    raise refuse("INP005", text, path="loss_fn_inputs.target_tokens")


def _check_tiling(code: str, field: str, spans: tuple[ProvenanceSpan, ...], expected: int, what: str) -> None:
    total = sum(span.length for span in spans)
    if total != expected:
        raise refuse(code, f"lengths sum to {total}, expected {expected}, {what}", path=field)
