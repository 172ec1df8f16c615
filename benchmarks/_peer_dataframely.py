"""The contract in dataframely: one schema a frame, the frames being those of the polars peer.

What a column's declaration can say of a datum, it says; the other rules are the expressions of that peer.
Two rules are about no row and are left out: ADV003 and INP002. Each schema is evaluated on its own, so that
both files are read into memory first, once; of the results only the failures are collected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from types import new_class

import dataframely as dy
import polars as pl

from benchmarks import _peer_polars as frames
from benchmarks._peer_polars import INPUT_SPANS, RECORD, TARGET_SPANS, length, sampled

text, number, real = dy.String(nullable=True), dy.Int64(nullable=True), dy.Float(nullable=True)
time = dy.Datetime(nullable=True, time_zone="UTC")
span = dy.Struct({"type": text, "sequence_id": text, "offset": number, "length": number}, nullable=True)


def listed(inner: dy.Column) -> dy.List:
    """A list of which its column says no more than the type."""
    return dy.List(inner, nullable=True)


class Datum(dy.Schema):
    """A row a datum."""

    model_input_tokens = dy.List(dy.Int32(min=0), nullable=True)
    target_tokens = dy.List(dy.Int64(min=0, max=2**31 - 1))
    logprobs = dy.List(dy.Float32(max=1e-4))
    advantages = dy.List(dy.Float32(min=-100, max=100))
    model_input_spans = listed(span)
    loss_fn_input_spans = listed(span)


#: The rules that the columns of a datum stand for.
DECLARED = {
    "nullability": "INP001",
    "inner_nullability": "VAL001",
    "inner_inf": "VAL001",
    "inner_nan": "VAL001",
}
OF_COLUMN = {
    "model_input_tokens": dict.fromkeys(("inner_nullability", "inner_min"), "TOK001"),
    "target_tokens": dict.fromkeys(("inner_nullability", "inner_min", "inner_max"), "TOK001"),
    "logprobs": {"inner_max": "VAL002"},
    "advantages": dict.fromkeys(("inner_min", "inner_max"), "ADV004"),
}


class Record(dy.Schema):
    """A row a record."""

    session_id = text
    sequence_id = text
    prompt_tokens = listed(dy.Int32(nullable=True))
    recorded_tokens = listed(dy.Int32(nullable=True))
    recorded_logprobs = listed(dy.Float32(nullable=True, allow_nan=True, allow_inf=True))


class Place(dy.Schema):
    """A row a span."""

    row = dy.UInt32()
    type = text
    sequence_id = text
    offset = number
    length = number
    start = number


class Span(Place, Record):
    """A row a span, with its datum and the record that it names."""

    after = number
    sampled_at = time
    last_used_at = time
    record_stability_info = dy.Bool(nullable=True)
    temperature = real
    top_p = real
    top_k = dy.Integer(nullable=True)
    model_input_tokens = listed(dy.Int32(nullable=True))
    target_tokens = listed(dy.Int64(nullable=True))
    logprobs = listed(dy.Float32(nullable=True, allow_nan=True, allow_inf=True))
    advantages = listed(dy.Float32(nullable=True, allow_nan=True, allow_inf=True))


class Position(dy.Schema):
    """A row a sampled position."""

    row = dy.UInt32()
    start = number
    length = number
    given = dy.Float32(nullable=True, allow_nan=True, allow_inf=True)
    said = dy.Float32(nullable=True, allow_nan=True, allow_inf=True)


class Pair(Place):
    """A row an input span and a target span of one datum and source."""

    offset_input = number
    start_input = number
    length_input = number


def with_rules(schema: type[dy.Schema], expressions: Mapping[str, pl.Expr]) -> type[dy.Schema]:
    """The schema with rules by code, but for those that its columns stand for."""
    rules = {code: dy.rule()(partial(rule, valid)) for code, valid in expressions.items()}
    made: type[dy.Schema] = new_class(schema.__name__, (schema,), exec_body=lambda body: body.update(rules))
    return made


def rule(valid: pl.Expr, _: type[dy.Schema]) -> pl.Expr:
    """What a rule's method in the body of a schema would return."""
    return valid


def code_of(name: str) -> str:
    """The code of a rule by the name that dataframely counts it under."""
    column, _, declared = name.partition("|")
    return OF_COLUMN.get(column, {}).get(declared) or DECLARED.get(declared, name)


def check(data: str, sequences: str, session: str, now: datetime) -> dict[str, int]:
    """How often each rule is broken that dataframely can state."""
    datums = pl.read_parquet(data).with_row_index("row").lazy()
    records = frames.records_of(sequences).collect().lazy()
    inputs, targets = frames.spans_of(datums, INPUT_SPANS), frames.spans_of(datums, TARGET_SPANS)
    held = [spans.join(records, on="sequence_id", how="left") for spans in (inputs, targets)]
    once = {"SEQ010": pl.col("row").n_unique().over("sequence_id") == 1}
    agreeing = {"SEQ008": frames.contents.n_unique().over(RECORD) == 1}
    declared = {"INP001", "TOK001", "VAL001", "VAL002", "ADV004"}
    judged: list[tuple[type[dy.Schema], dict[str, pl.Expr], pl.LazyFrame]] = [
        (Datum, {code: valid for code, valid in frames.DATUM.items() if code not in declared}, datums),
        (Span, frames.INPUT, held[0]),
        (Span, frames.of_target(session, now), held[1]),
        (Position, frames.POSITION, frames.positions_of(held[1])),
        (Record, frames.OF_RECORD | agreeing, records),
        (Pair, frames.PAIR, frames.pairs_of(inputs, targets)),
        (Place, once, targets.filter(sampled & (length > 0))),
    ]
    found: Counter[str] = Counter()
    for schema, expressions, frame in judged:
        found.update(dict.fromkeys([*expressions, *(declared if schema is Datum else ())], 0))
        failure = with_rules(schema, expressions).filter(frame).failure
        for name, count in failure.counts().items():
            found[code_of(name)] += count
    return dict(found)
