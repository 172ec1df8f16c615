"""The contract in pydantic, row by row: models of `to_pylist()` rows, and the cross checks in Python."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import pyarrow.parquet as pq
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

Token = Annotated[int, Field(ge=0, lt=2**31)]
Logprob = Annotated[float, Field(le=1e-4, allow_inf_nan=False)]
Advantage = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]


class SpanRow(BaseModel):
    """A span."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["prompt", "sampled"]
    sequence_id: Annotated[str, Field(min_length=1)]
    offset: NonNegativeInt
    length: PositiveInt


class DatumRow(BaseModel):
    """A datum whose lists have one length and whose spans tile them."""

    model_config = ConfigDict(extra="forbid")
    model_input_tokens: Annotated[list[Token], Field(min_length=1)]
    target_tokens: list[Token]
    logprobs: list[Logprob]
    advantages: list[Advantage]
    model_input_spans: list[SpanRow]
    loss_fn_input_spans: list[SpanRow]

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        n = len(self.model_input_tokens)
        if not n == len(self.target_tokens) == len(self.logprobs) == len(self.advantages):
            raise ValueError("loss inputs are not as long as the input")
        if any(
            sum(s.length for s in side) != n for side in (self.model_input_spans, self.loss_fn_input_spans)
        ):
            raise ValueError("spans do not tile their field")
        if not any(span.type == "sampled" for span in self.loss_fn_input_spans):
            raise ValueError("no sampled target")
        for first, second in (*pairwise(self.model_input_spans), *pairwise(self.loss_fn_input_spans)):
            same = (first.type, first.sequence_id) == (second.type, second.sequence_id)
            if same and second.offset != first.offset + first.length:
                raise ValueError(f"a span of {second.sequence_id!r} does not continue the one before it")
        return self


class SequenceRow(BaseModel):
    """What was sampled."""

    sequence_id: Annotated[str, Field(min_length=1)]
    session_id: str
    prompt_tokens: list[Annotated[int, Field(ge=-1, lt=2**31)]]
    tokens: list[Token]
    logprobs: list[Logprob]
    sampled_at: AwareDatetime
    last_used_at: AwareDatetime | None
    record_stability_info: bool
    temperature: Literal[1] | None
    top_p: Literal[1] | None
    top_k: Literal[0, -1] | None

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if len(self.tokens) != len(self.logprobs):
            raise ValueError("not one logprob for each token")
        return self


def claimed(span: SpanRow, record: SequenceRow) -> list[int]:
    tokens = record.tokens if span.type == "sampled" else record.prompt_tokens
    return tokens[span.offset : span.offset + span.length]


def compare(
    datum: DatumRow, records: dict[str, SequenceRow], session: str, now: datetime, trained: set[str]
) -> None:
    """Hold a datum against the records that it names."""
    at = 0
    for span in datum.model_input_spans:
        if claimed(span, records[span.sequence_id]) != datum.model_input_tokens[at : at + span.length]:
            raise ValueError(f"input tokens from {at} are not those of {span.sequence_id!r}")
        at += span.length
    at = 0
    for span in datum.loss_fn_input_spans:
        end = at + span.length
        record = records[span.sequence_id]
        if claimed(span, record) != datum.target_tokens[at:end]:
            raise ValueError(f"target tokens from {at} are not those of {span.sequence_id!r}")
        if span.type == "prompt":
            if any(datum.advantages[at:end]):
                raise ValueError(f"advantage on a prompt token from {at}")
        else:
            compare_sampled(datum, span, record, session, at)
            if now - max(record.sampled_at, record.last_used_at or record.sampled_at) > timedelta(hours=23):
                raise ValueError(f"{span.sequence_id!r} expires")
            if record.sampled_at > now + timedelta(minutes=5):
                raise ValueError(f"{span.sequence_id!r} was sampled in the future")
            if span.sequence_id in trained:
                raise ValueError(f"{span.sequence_id!r} is trained twice")
            trained.add(span.sequence_id)
        at = end
    if datum.target_tokens[:-1] != datum.model_input_tokens[1:]:
        raise ValueError("targets are not the next inputs")


def compare_sampled(datum: DatumRow, span: SpanRow, record: SequenceRow, session: str, at: int) -> None:
    if span.offset or span.length != len(record.tokens):
        raise ValueError(f"not the whole of {span.sequence_id!r}")
    if record.session_id != session or not record.record_stability_info:
        raise ValueError(f"{span.sequence_id!r} is of another session, or recorded without stability info")
    if datum.model_input_tokens[: at + 1] != record.prompt_tokens:
        raise ValueError(f"{span.sequence_id!r} was sampled after another prompt")
    logprobs, signal = datum.logprobs[at : at + span.length], datum.advantages[at : at + span.length]
    total = 0.0
    for given, recorded in zip(logprobs, record.logprobs, strict=True):
        difference = abs(given - recorded)
        if difference > 1e-3 + 2**-7 * max(abs(given), abs(recorded)):
            raise ValueError(f"logprob {given} was recorded as {recorded}")
        total += difference
    if span.length >= 4 and total > 0.5 * span.length:
        raise ValueError(f"the logprobs are not those of {span.sequence_id!r}")
    if span.length >= 32 and not any(logprobs) and any(record.logprobs):
        raise ValueError(f"no logprobs of {span.sequence_id!r}")
    if any(signal) and not (signal[0] and signal[-1]):
        raise ValueError(f"no advantage at an edge of {span.sequence_id!r}")


def check(data: str, sequences: str, session: str, now: datetime) -> None:
    """Raise at the first fault."""
    records = {row["sequence_id"]: SequenceRow.model_validate(row) for row in to_rows(sequences)}
    trained: set[str] = set()
    signal = False
    for row in to_rows(data):
        datum = DatumRow.model_validate(row)
        compare(datum, records, session, now, trained)
        signal = signal or any(datum.advantages)
    if not signal:
        raise ValueError("every advantage is 0")


def to_rows(path: str) -> Iterator[dict[str, Any]]:
    """The rows of a file as Python objects."""
    for batch in pq.ParquetFile(path).iter_batches(200):
        yield from batch.to_pylist()
