"""What all models share: immutability, value equality, short reprs, and refusals that name a rule."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import pydantic
from pydantic import BaseModel, ConfigDict
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from provenance.errors import SchemaError

# The models sit below the rules and cannot ask the registry for a name.
RULE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "FMT001": "invalid-json",
        "FMT004": "wrong-type",
        "INP003": "wrong-dtype",
        "INP004": "wrong-rank",
        "INP005": "length-mismatch",
        "SEQ003": "input-token-mismatch",
        "SEQ007": "inconsistent-record",
        "SEQ010": "repeated-sequence",
        "SES001": "wrong-session",
        "SPN001": "unpaired-spans",
        "SPN003": "untiled-input",
        "SPN004": "untiled-targets",
        "SPN005": "invalid-span",
        "TOK001": "token-out-of-range",
        "TOK003": "unknown-chunk-length",
        "TOK004": "untrainable-chunk",
        "VAL001": "non-finite-value",
    }
)

# Tags of the discriminated unions: pydantic writes them into the path of an error, where nobody typed them.
_TAGS = frozenset({"encoded_text", "image", "image_asset_pointer", "dmel", "prompt", "sampled"})
_SHOWN_FAULTS = 5
_SHOWN_ITEMS = 4
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

Result = TypeVar("Result")

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


class Fault(NamedTuple):
    """One reason for a refusal: where, by which rule, and what."""

    path: str
    code: str
    text: str

    def __str__(self) -> str:
        """Write the fault as one clause of a message."""
        rule = f"({self.code} {RULE_NAMES[self.code]})"
        return f"{self.path}: {self.text} {rule}" if self.path else f"{self.text} {rule}"


def shorten(value: object) -> str:
    """Return the value's repr, cut to what one line of a message can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return array_repr(value) if isinstance(value, np.ndarray) else _short.repr(value)
    except ValueError:  # CPython refuses to print integers of more than 4,300 digits
        return f"<{type(value).__name__} too long to print>"


def array_repr(array: np.ndarray[Any, Any]) -> str:
    """Return dtype, shape and the first and last values of an array, whatever its size."""
    size = "x".join(map(str, array.shape)) or "scalar"
    if array.size <= 2 * _SHOWN_ITEMS:
        values = str(array.tolist())
    else:
        head = ", ".join(str(item) for item in array.flat[: _SHOWN_ITEMS - 1].tolist())
        values = f"[{head}, ..., {array.flat[array.size - 1].item()}]"
    return f"{array.dtype}[{size}] {values}"


def refuse(
    code: str, text: str, *, path: str = "", index: tuple[int, ...] | None = None
) -> PydanticCustomError:
    """Return the exception with which a validator refuses its input.

    `path` and `index` go on where pydantic's own path ends: a field of the model, an element of the array.
    """
    place = "" if index is None else "[" + ", ".join(str(int(i)) for i in index) + "]"
    return PydanticCustomError(code, "{text}", {"text": text, "path": path + place})


def within(path: str, error: PydanticCustomError) -> PydanticCustomError:
    """Return a refusal that starts at the given field, for a validator that converts a field of its model."""
    context = error.context or {}
    return refuse(error.type, context["text"], path=_join(path, context["path"]))


def schema_error(code: str, text: str, *, path: str = "") -> SchemaError:
    """Return a refusal that is raised outside of validation, worded like the others."""
    return SchemaError(str(Fault(path, code, text)), code=code)


def faults(error: pydantic.ValidationError, rules: Mapping[str, str]) -> list[Fault]:
    """Translate pydantic's errors; `rules` maps a top-level field to the rule that its type stands for."""
    return [_fault(detail, rules) for detail in error.errors(include_url=False)]


def nested(title: str, found: Mapping[str, list[Fault]]) -> pydantic.ValidationError:
    """Return what a validator raises to refuse a mapping for faults of its values, by key."""
    lines = [
        InitErrorDetails(type=refuse(fault.code, fault.text, path=fault.path), loc=(key,), input=None)
        for key, group in found.items()
        for fault in group
    ]
    return pydantic.ValidationError.from_exception_data(title, lines)


def _join(head: str, tail: str) -> str:
    dot = "." if head and tail and not tail.startswith("[") else ""
    return head + dot + tail


def _fault(detail: ErrorDetails, rules: Mapping[str, str]) -> Fault:
    path = _path(detail["loc"])
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind in RULE_NAMES:
        return Fault(_join(path, context["path"]), kind, context["text"])
    code = rules.get(str(detail["loc"][0]), "FMT004") if detail["loc"] else "FMT004"
    message = detail["msg"].removeprefix("Input ").removeprefix("String ")
    message = message[:1].lower() + message[1:]
    match kind:
        case "extra_forbidden":
            code, text = "FMT004", "unknown field"
        case "missing":
            # A dtype that is not there is no wrong one.
            code, text = ("FMT004" if code == "INP003" else code), "missing"
        case "union_tag_not_found":
            path, text = _join(path, "type"), "missing"
        case "union_tag_invalid":
            path, text = (
                _join(path, "type"),
                f"{shorten(context['tag'])} is none of {context['expected_tags']}",
            )
        case "json_invalid":
            code, text = "FMT001", message
        case _:
            text = f"{shorten(value)} {message}"
    return Fault(path, code, text)


def _path(loc: tuple[int | str, ...]) -> str:
    path, previous = "", None
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not (isinstance(previous, int) and step in _TAGS):
            path += f".{step}" if _IDENTIFIER.fullmatch(step) else f"[{shorten(step)}]"
        previous = step
    return path.removeprefix(".")


class Model(BaseModel, frozen=True):  # noqa: PLW1641 - pydantic gives frozen models a hash
    """A frozen, keyword-only model whose refusals are `SchemaError`s.

    Scalars are declared strict one by one, because pydantic's `strict=True` would also refuse nested dicts.
    Copies are the model itself and pickling goes through validation: that keeps arrays read-only, which
    numpy's own copies and pickles do not.
    """

    # `frozen` is a class argument, here and in every model, because type checkers see only that one.
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    _rules: ClassVar[MappingProxyType[str, str]] = MappingProxyType({})
    """Field -> code of the rule that its declared type stands for, where that is not FMT004."""

    def __init__(self, /, **data: Any) -> None:
        """Validate the fields.

        Raises:
            SchemaError: naming field, value and rule of at most the first five faults.
        """
        __tracebackhide__ = True
        try:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
        except pydantic.ValidationError as error:
            # `lengths.sum()` is a numpy scalar: as good as an int, but nothing that strict fields know.
            if not any(isinstance(value, np.generic) for value in data.values()):
                raise _translated(type(self), error) from None
            data = {k: v.item() if isinstance(v, np.generic) else v for k, v in data.items()}
            validate = self.__pydantic_validator__.validate_python
            _refusing(type(self), lambda: validate(data, self_instance=self))

    # Tells pydantic that this is no constructor of a subclass: nested models stay inside pydantic-core.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **kwargs: Any) -> Self:
        """Return a model from a JSON-shaped dict; raises `SchemaError`."""
        __tracebackhide__ = True
        return _refusing(cls, lambda: super(Model, cls).model_validate(obj, **kwargs))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **kwargs: Any) -> Self:
        """Return a model from JSON text; raises `SchemaError`."""
        __tracebackhide__ = True
        return _refusing(cls, lambda: super(Model, cls).model_validate_json(json_data, **kwargs))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:  # noqa: ARG002 - pydantic's
        """Return the model with some fields replaced and everything checked again."""
        return type(self)(**self._state() | dict(update)) if update else self

    def __copy__(self) -> Self:
        """Return self: nothing in it can change."""
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return self: nothing in it can change."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields and validate them when they are loaded."""
        return type(self).model_validate, (self._state(),)

    def __eq__(self, other: object) -> bool:
        """Compare by value; arrays by value, dtype and shape."""
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.__dict__, other.__dict__
        return all(_same(mine[name], theirs[name]) for name in self.__pydantic_fields__)

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Yield the fields that are set, each cut to a readable length."""
        for name, value in self.__dict__.items():
            if value is not None:
                yield name, _Shown(value)

    def __str__(self) -> str:
        """Return the repr: pydantic's own string leaves the class out."""
        return repr(self)

    def _state(self) -> dict[str, Any]:
        fields = ((name, self.__dict__[name]) for name in self.__pydantic_fields__)
        return {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in fields if v is not None}


class _Shown:
    """A field's value in its model's repr."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        value = self.value
        if isinstance(value, np.ndarray):
            return array_repr(value)
        if isinstance(value, bytes):
            return f"<{len(value)} bytes>"
        if isinstance(value, tuple) and len(value) > _SHOWN_ITEMS:
            head = ", ".join(map(repr, value[: _SHOWN_ITEMS - 1]))
            return f"({head}, ... {len(value) - _SHOWN_ITEMS + 1} more)"
        if isinstance(value, MappingProxyType):
            return repr(dict(value))
        return repr(value)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        both = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
        return both and left.dtype == right.dtype and np.array_equal(left, right)
    return bool(left == right)


def _translated(cls: type[Model], error: pydantic.ValidationError) -> SchemaError:
    found = faults(error, cls._rules)
    message = "; ".join(map(str, found[:_SHOWN_FAULTS]))
    if len(found) > _SHOWN_FAULTS:
        message += f"; and {len(found) - _SHOWN_FAULTS} more"
    return SchemaError(message, code=found[0].code)


def _refusing(cls: type[Model], build: Callable[[], Result]) -> Result:
    __tracebackhide__ = True
    try:
        return build()
    except pydantic.ValidationError as error:
        raise _translated(cls, error) from None


def absent(value: object) -> bool:
    """Tell whether an optional field is left out of what is written: null and absent are the same."""
    return value is None
