"""Faults in the two span lists."""

from __future__ import annotations

import copy
from random import Random

from oracle.mutate_inputs import Mutation
from oracle.world import SPAN_LISTS, Json, World


def some_spans(rng: Random, datum: Json) -> list[Json] | None:
    lists = [datum[name] for name in SPAN_LISTS if datum.get(name)]
    return rng.choice(lists) if lists else None


def move_span(rng: Random, world: World, datum: Json) -> None:
    spans = some_spans(rng, datum)
    if spans:
        span = rng.choice(spans)
        name = rng.choice(("offset", "offset", "length"))
        span[name] = (span.get(name) or 0) + rng.choice((-1, 1, 1, 2))
        if rng.random() < 0.03:
            span[name] = rng.choice((2**63 - 1, 2**63, 2**31, 10**30))


def move_edge(rng: Random, world: World, datum: Json) -> None:
    """The edge between two spans moves; lengths still add up."""
    spans = some_spans(rng, datum)
    if spans and len(spans) > 1:
        at, by = rng.randrange(len(spans) - 1), rng.choice((-1, 1))
        spans[at]["length"] += by
        spans[at + 1]["length"] -= by
        if rng.random() < 0.6:
            spans[at + 1]["offset"] = (spans[at + 1].get("offset") or 0) + by


def split_span(rng: Random, world: World, datum: Json) -> None:
    spans = some_spans(rng, datum)
    if spans:
        at = rng.randrange(len(spans))
        span = spans[at]
        cut = rng.randint(0, max(span["length"], 0))
        rest = {**span, "offset": (span.get("offset") or 0) + cut, "length": span["length"] - cut}
        span["length"] = cut
        spans.insert(at + 1, rest)


def merge_spans(rng: Random, world: World, datum: Json) -> None:
    spans = some_spans(rng, datum)
    if spans and len(spans) > 1:
        at = rng.randrange(len(spans) - 1)
        spans[at]["length"] += spans.pop(at + 1)["length"]


def swap_spans(rng: Random, world: World, datum: Json) -> None:
    spans = some_spans(rng, datum)
    if spans and len(spans) > 1:
        at = rng.randrange(len(spans) - 1)
        spans[at], spans[at + 1] = spans[at + 1], spans[at]


def insert_empty_span(rng: Random, world: World, datum: Json) -> None:
    spans = some_spans(rng, datum)
    if spans:
        like = rng.choice(spans)
        empty = {**like, "length": 0, "offset": rng.choice((0, 1, like.get("offset") or 0, 9))}
        empty["type"] = rng.choice(("prompt", "sampled"))
        spans.insert(rng.randint(0, len(spans)), empty)


def relabel_span(rng: Random, world: World, datum: Json) -> None:
    """Another kind, or another id: of nobody, of another datum, or the same with a space."""
    spans = some_spans(rng, datum)
    if not spans:
        return
    span = rng.choice(spans)
    if rng.random() < 0.4:
        span["type"] = "sampled" if span["type"] == "prompt" else "prompt"
        return
    others = [record["sequence_id"] for record in world.sequences or []]
    name = rng.choice(
        ("s:unknown", f"{span['sequence_id']} ", *(rng.sample(others, 2) if len(others) > 1 else ()))
    )
    everywhere = rng.random() < 0.4
    was = span["sequence_id"]
    for listed in SPAN_LISTS:
        for other in datum.get(listed) or ():
            if other is span or (everywhere and other["sequence_id"] == was):
                other["sequence_id"] = name


def drop_spans(rng: Random, world: World, datum: Json) -> None:
    for name in rng.choice((SPAN_LISTS, SPAN_LISTS, SPAN_LISTS[:1], SPAN_LISTS[1:])):
        if rng.random() < 0.4:
            datum[name] = None
        elif rng.random() < 0.2:
            datum[name] = []
        else:
            datum.pop(name, None)


def copy_spans(rng: Random, world: World, datum: Json) -> None:
    """Input spans that are used for the targets too, with the lengths corrected."""
    spans = copy.deepcopy(datum.get(SPAN_LISTS[0]))
    if spans and len(spans) > 1 and datum.get(SPAN_LISTS[1]) and spans[0]["length"] > 0:
        spans[0]["length"] -= 1
        spans[-1]["length"] += 1
        datum[SPAN_LISTS[1]] = spans


def break_span(rng: Random, world: World, datum: Json) -> None:
    spans = some_spans(rng, datum)
    if spans:
        span = rng.choice(spans)
        name = rng.choice(("type", "sequence_id", "offset", "length"))
        if rng.random() < 0.2:
            span.pop(name, None)
            return
        span[name] = rng.choice(
            {
                "type": ("sample", "", None, 3),
                "sequence_id": ("", None, 7, " "),
                "offset": (-1, None, 0.5, 1.0, "0", True, -(2**63), 2**64),
                "length": (-1, None, 0.5, 2.0, "1", False, -3, 2**64),
            }[name]
        )


OF_SPANS: tuple[Mutation, ...] = (
    *(move_span, move_edge, move_edge, split_span, merge_spans, swap_spans, insert_empty_span),
    *(relabel_span, relabel_span, drop_spans, copy_spans),
)
