"""Changes to a datum that several mutations make, each consistent in itself."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from provenance.mutations._dataset import Dataset, Json
from provenance.mutations._view import NO_TEXT, Run, View
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS

Claim = tuple[str, str, int]


def claims(runs: Iterable[Run]) -> list[Claim]:
    """What spans claim at each position: kind, sequence, and the position of it."""
    return [(run.kind, run.sequence_id, run.offset + i) for run in runs for i in range(run.length)]


def aligned_positions(view: View, kind: str) -> list[int]:
    """Positions i at which target i and input i + 1 claim the same token, of that kind of span."""
    trained, given = claims(view.trained), claims(view.given)
    return [i for i in range(len(given) - 1) if trained[i] == given[i + 1] and trained[i][0] == kind]


def another_token(dataset: Dataset, view: View, token: int, rng: random.Random) -> int | None:
    """A token id of the same vocabulary, as far as that is known; None where there is no other."""
    largest = max((*view.tokens, *view.targets, token))
    size = dataset.contract.parameters.vocab_size or min(largest + 2, 2**31)
    return (token + rng.randrange(1, size)) % size if size > 1 else None


def set_token(view: View, position: int, token: int) -> None:
    """Replace an input token."""
    start = 0
    for chunk in view.chunks:
        tokens = chunk.get("tokens")
        length = chunk["expected_tokens"] if tokens is None else len(tokens)
        if start <= position < start + length:
            chunk["tokens"][position - start] = token
            return
        start += length


def is_text(view: View, start: int, stop: int) -> bool:
    """Whether all input positions [start, stop) are text."""
    return NO_TEXT not in view.tokens[start:stop]


def without(runs: Iterable[Run], start: int, stop: int) -> list[Json]:
    """Spans that no longer cover positions [start, stop); none becomes empty."""
    spans: list[Json] = []
    for run in runs:
        for first, last in ((run.start, min(run.stop, start)), (max(run.start, stop), run.stop)):
            if first < last:
                offset = run.offset + first - run.start
                spans.append({**run.span, "offset": offset, "length": last - first})
    return spans


def remove_tokens(view: View, start: int, stop: int, *, targets: int) -> None:
    """Remove input positions [start, stop), which must be text, and as many targets from ``targets`` on.

    The view must be plain, and is not to be used any more.
    """
    begin = 0
    for chunk in view.chunks:
        tokens = chunk.get("tokens")
        if tokens is None:
            begin += chunk["expected_tokens"]
            continue
        end = begin + len(tokens)
        del tokens[max(start - begin, 0) : max(stop - begin, 0)]
        begin = end
    view.chunks[:] = [chunk for chunk in view.chunks if chunk.get("tokens") != []]
    for values in view.inputs.values():
        del values[targets : targets + stop - start]
    _reshape(view)
    if view.spanned:
        view.datum[INPUT_SPANS] = without(view.given, start, stop)
        view.datum[TARGET_SPANS] = without(view.trained, targets, targets + stop - start)


def append_token(view: View, token: int, target: int) -> None:
    """Lengthen a datum by an input token and its target; other inputs repeat their last value.

    The spans stay as they are. The view must be plain, and is not to be used any more.
    """
    if view.chunks[-1].get("tokens") is not None:
        view.chunks[-1]["tokens"].append(token)
    else:
        view.chunks.append({"type": "encoded_text", "tokens": [token]})
    for name, values in view.inputs.items():
        values.append(target if name == "target_tokens" else values[-1])
    _reshape(view)


def _reshape(view: View) -> None:
    for tensor in view.tensors.values():
        if tensor.get("shape") is not None:
            tensor["shape"] = [len(tensor["data"])]


def set_values(values: list[Any], start: int, new: Iterable[Any]) -> None:
    """Overwrite values from a position on."""
    new = list(new)
    values[start : start + len(new)] = new
