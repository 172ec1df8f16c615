"""What a mutation sees of a datum: positions, plain loss inputs, and spans with the positions they cover."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from provenance.columns import TARGETS
from provenance.mutations._dataset import Dataset, Json
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS

#: In `View.tokens`: the position is no text.
NO_TEXT: Final = -1
# Half of the smallest number that float32 holds: this and anything smaller is rounded to 0.
_ROUNDED_TO_ZERO: Final = 2.0**-150


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A span, and the positions [start, stop) that it covers."""

    span: Json
    """The datum's own object."""
    number: int
    """Its index in its list."""
    kind: str
    sequence_id: str
    offset: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Positions."""
        return self.stop - self.start

    def names(self, other: Run) -> bool:
        """Both are of one kind and of one sequence."""
        return (self.kind, self.sequence_id) == (other.kind, other.sequence_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A datum that can be read, of at least one position; ``n`` positions."""

    row: int
    datum: Json
    chunks: list[Json]
    """The datum's own list."""
    tokens: list[int]
    """(n,): a copy; NO_TEXT where the position is no text."""
    tensors: dict[str, Json]
    """The datum's loss inputs, without those that are null."""
    inputs: dict[str, list[Any]]
    """Those that are dense and one-dimensional, of n numbers: the datum's own lists."""
    given: tuple[Run, ...]
    """Spans of the input; empty where the datum carries none."""
    trained: tuple[Run, ...]
    """Spans of the targets."""

    @property
    def plain(self) -> bool:
        """Every loss input has one value a position, so that positions can be added and removed."""
        return len(self.inputs) == len(self.tensors)

    @property
    def targets(self) -> list[int]:
        """(n,), the datum's own list; empty where there are none, or several a position."""
        return self.inputs.get(TARGETS, [])

    @property
    def spanned(self) -> bool:
        """The datum carries spans."""
        return bool(self.trained)

    def sampled(self, at_least: int = 1) -> list[Run]:
        """The target-side sampled runs of at least so many tokens."""
        return [run for run in self.trained if run.kind == "sampled" and run.length >= at_least]

    def unsampled_positions(self) -> list[int]:
        """Positions whose target was not sampled, as the spans say."""
        return [i for run in self.trained if run.kind == "prompt" for i in range(run.start, run.stop)]


def nonzero(value: Any) -> bool:
    """Whether a number is nonzero as float32; NaN is."""
    return not -_ROUNDED_TO_ZERO <= value <= _ROUNDED_TO_ZERO


def signal_name(dataset: Dataset) -> str:
    """The loss input that carries the training signal."""
    return "advantages" if dataset.contract.loss.takes("advantages") else "weights"


def shuffled(items: Sequence[Any], rng: random.Random) -> list[Any]:
    """The items in random order."""
    return rng.sample(items, len(items))


def views(dataset: Dataset, rng: random.Random, *, spare: bool = False) -> Iterator[View]:
    """The datums that can be read, in random order.

    Args:
        dataset: whose datums they are.
        rng: chooses the order.
        spare: only datums without which the dataset keeps a training signal, or has no datum at all.
    """
    kept = _only_row_with_signal(dataset) if spare and len(dataset.datums) > 1 else None
    for row in shuffled(range(len(dataset.datums)), rng):
        view = None if row == kept or row in dataset.lines else look(dataset.datums[row], row)
        if view is not None:
            yield view


def _only_row_with_signal(dataset: Dataset) -> int | None:
    name, found = signal_name(dataset), None
    for row, datum in enumerate(dataset.datums):
        if row not in dataset.lines and _has_signal(datum, name):
            if found is not None:
                return None
            found = row
    return found


def _has_signal(datum: Json, name: str) -> bool:
    try:
        return any(nonzero(value) for value in datum["loss_fn_inputs"][name]["data"])
    except (KeyError, TypeError):
        return False


def signal_outside(dataset: Dataset, row: int) -> bool:
    """Whether another datum has a training signal."""
    return any(
        other != row and other not in dataset.lines and _has_signal(datum, signal_name(dataset))
        for other, datum in enumerate(dataset.datums)
    )


def look(datum: Any, row: int) -> View | None:
    """Read a datum; None where it is not as it should be, or has no position."""
    try:
        return _read(datum, row)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read(datum: Json, row: int) -> View | None:
    chunks = datum["model_input"]["chunks"]
    tokens = [token for chunk in chunks for token in _positions(chunk)]
    tensors = {name: tensor for name, tensor in datum["loss_fn_inputs"].items() if tensor is not None}
    lists = [datum.get(INPUT_SPANS), datum.get(TARGET_SPANS)]
    given, trained = (() if spans is None else tuple(_runs(spans)) for spans in lists)
    uneven = (lists[0] is None) != (lists[1] is None) or bool(given) != bool(trained)
    untiled = any(runs[-1].stop != len(tokens) for runs in (given, trained) if runs)
    if not tokens or uneven or untiled or not all(isinstance(t["data"], list) for t in tensors.values()):
        return None
    return View(
        row=row,
        datum=datum,
        chunks=chunks,
        tokens=tokens,
        tensors=tensors,
        inputs={name: t["data"] for name, t in tensors.items() if _is_plain(t, len(tokens))},
        given=given,
        trained=trained,
    )


def _positions(chunk: Json) -> list[int]:
    if chunk["type"] == "encoded_text":
        tokens: Any = chunk["tokens"]
        if not isinstance(tokens, list) or not all(type(token) is int and token >= 0 for token in tokens):
            raise TypeError("no token ids")
        return tokens
    if chunk["type"] not in ("image", "image_asset_pointer"):
        raise ValueError("a chunk that only the exact reader can measure")
    return [NO_TEXT] * _count(chunk["expected_tokens"])


def _runs(spans: Any) -> Iterator[Run]:
    if not isinstance(spans, list):
        raise TypeError("no list of spans")
    start = 0
    for number, span in enumerate(spans):
        length, offset = _count(span["length"]), _count(span.get("offset") or 0)
        kind, sequence_id = span["type"], span["sequence_id"]
        if kind not in ("prompt", "sampled") or not isinstance(sequence_id, str) or not sequence_id:
            raise ValueError("no span")
        yield Run(
            span=span,
            number=number,
            kind=kind,
            sequence_id=sequence_id,
            offset=offset,
            start=start,
            stop=start + length,
        )
        start += length


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no length or offset")
    return value


def _is_plain(tensor: Json, positions: int) -> bool:
    data, shape = tensor["data"], tensor.get("shape")
    return (
        tensor.get("sparse_crow_indices") is None
        and len(data) == positions
        and (shape is None or list(shape) == [positions])
        and tensor.get("dtype") in ("int64", "float32")
        and all(type(value) is int or type(value) is float for value in data)
    )
