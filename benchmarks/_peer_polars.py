"""The contract in polars: lazy frames over both files, run together by the streaming engine.

A rule is an expression, true where a row is valid, over a frame: a row a datum, a span with the record that
it names, a sampled position, a record, a pair of spans. Spans are held against records as slices of lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import polars as pl

LOSS_INPUTS = ("target_tokens", "logprobs", "advantages")
INPUT_SPANS, TARGET_SPANS = SPANS = ("model_input_spans", "loss_fn_input_spans")
COLUMNS = ("model_input_tokens", *LOSS_INPUTS, *SPANS)
RECORD = ("session_id", "sequence_id")


def each(*names: str, valid: pl.Expr) -> pl.Expr:
    """Every element of these lists is valid, and none is null."""
    return pl.all_horizontal(pl.col(names).list.eval(valid.fill_null(value=False)).list.all())


# --- a row a datum -------------------------------------------------------------------------------

positions = pl.col("model_input_tokens").list.len()
length_of_span = pl.element().struct.field("length")
rewarded = pl.col("advantages").list.eval(pl.element() != 0)
sampled_target = (pl.element().struct.field("type") == "sampled") & (length_of_span > 0)

DATUM = {
    "INP001": pl.all_horizontal(pl.col(LOSS_INPUTS).is_not_null()),
    "INP005": pl.all_horizontal(pl.col(LOSS_INPUTS).list.len() == positions),
    "TOK001": each("model_input_tokens", "target_tokens", valid=pl.element().is_between(0, 2**31 - 1)),
    "VAL001": each("logprobs", "advantages", valid=pl.element().is_finite()),
    "VAL002": pl.col("logprobs").list.max() <= 1e-4,
    "ADV004": pl.max_horizontal(pl.col("advantages").list.max(), -pl.col("advantages").list.min()) <= 100,
    "SPN001": pl.col(INPUT_SPANS).is_null() == pl.col(TARGET_SPANS).is_null(),
    "SPN002": pl.any_horizontal(pl.col(SPANS).is_not_null()),
    "SPN003": pl.col(INPUT_SPANS).list.eval(length_of_span).list.sum() == positions,
    "SPN004": pl.col(TARGET_SPANS).list.eval(length_of_span).list.sum() == pl.col("target_tokens").list.len(),
    "SPN007": pl.col(TARGET_SPANS).list.eval(sampled_target).list.any(),
}

# --- a row a span, with the record that it names -------------------------------------------------

offset, length, start = pl.col("offset"), pl.col("length"), pl.col("start")
sampled = pl.col("type") == "sampled"
known = pl.col("session_id").is_not_null()
recorded = pl.when(sampled).then("recorded_tokens").otherwise("prompt_tokens")

SPAN = {
    "SPN005": pl.col("type").is_in(["prompt", "sampled"])
    & (pl.col("sequence_id") != "")
    & (offset >= 0)
    & (length >= 0),
    "SPN006": length > 0,
    "SPN010": pl.col("after").is_null() | (offset == pl.col("after")),
    "SEQ001": ~sampled | known,
    "SEQ002": offset + length <= recorded.list.len(),
    "SEQ013": sampled | known,
}


def under(name: str) -> pl.Expr:
    """What a list of the datum holds under the span."""
    return pl.col(name).list.slice(start, length)


claimed = recorded.list.slice(offset, length)
same_input = under("model_input_tokens") == claimed
same_target = under("target_tokens") == claimed.cast(pl.List(pl.Int64))
signal = under("advantages").list.eval(pl.element() != 0)
next_inputs = pl.col("model_input_tokens").list.slice(start + 1, length)
zeros = pl.all_horizontal(under("logprobs").list.min() == 0, under("logprobs").list.max() == 0)
zeros_recorded = pl.col("recorded_logprobs").list.slice(offset, length).list.min() == 0

INPUT = SPAN | {"SEQ003": same_input}
SAMPLED_TARGET = {
    "SPN008": (offset == 0) & (length == pl.col("recorded_tokens").list.len()),
    "SEQ004": same_target,
    "SEQ009": pl.all_horizontal(pl.col("temperature", "top_p").fill_null(1) == 1)
    & pl.col("top_k").fill_null(0).is_in([0, -1]),
    "SEQ011": (offset > 0) | (pl.col("model_input_tokens").list.head(start + 1) == pl.col("prompt_tokens")),
    "TOK005": under("target_tokens").list.head(next_inputs.list.len()) == next_inputs.cast(pl.List(pl.Int64)),
    "VAL003": (length < 32) | ~zeros | zeros_recorded,
    "ADV002": pl.col("record_stability_info") | ~signal.list.any(),
    "ADV005": ~signal.list.any() | (signal.list.first() & signal.list.last()),
}
PROMPT_TARGET = {"SEQ005": same_target, "ADV001": ~signal.list.any()}


def of_time(session: str, now: datetime) -> dict[str, pl.Expr]:
    """Rules of a sampled target that depend on when, and in which session, the data are trained on."""
    age = now - pl.max_horizontal("sampled_at", "last_used_at")
    return {
        "SES001": pl.col("session_id") == session,
        "SES002": age <= timedelta(hours=24),
        "SES003": (age < timedelta(hours=23)) | (age > timedelta(hours=24)),
        "SES004": pl.col("sampled_at") <= now + timedelta(minutes=5),
    }


def of_target(session: str, now: datetime) -> dict[str, pl.Expr]:
    """Rules of a target span."""
    of_sampled = SAMPLED_TARGET | of_time(session, now)
    return (
        SPAN
        | {code: ~sampled | valid for code, valid in of_sampled.items()}
        | {code: sampled | valid for code, valid in PROMPT_TARGET.items()}
    )


# --- a row a sampled position, a record ----------------------------------------------------------

given, said = pl.col("given"), pl.col("said")
difference = (given - said).abs()
POSITION = {
    "SEQ006": difference <= 1e-3 + 2**-7 * pl.max_horizontal(given.abs(), said.abs()),
    "SEQ012": (length < 4) | (difference.mean().over("row", "start") <= 0.5),
}
OF_RECORD = {
    "SEQ007": (pl.col("recorded_tokens").list.len() == pl.col("recorded_logprobs").list.len())
    & each("recorded_logprobs", valid=pl.element().is_finite() & (pl.element() <= 1e-4))
}

contents = pl.struct("prompt_tokens", "recorded_tokens", "recorded_logprobs")

# --- a row an input span and a target span of one datum and source -------------------------------

before = pl.col("start_input") - 1
meet = (start < before + pl.col("length_input")) & (before < start + length)
PAIR = {"SPN009": ~meet | (offset - start == pl.col("offset_input") - before)}

# --- the frames ----------------------------------------------------------------------------------


def spans_of(datums: pl.LazyFrame, side: str) -> pl.LazyFrame:
    """Each span of a list: where it starts in its field, and where the span before it says it continues."""
    source = pl.struct("row", "type", "sequence_id")
    return (
        datums.select("row", "model_input_tokens", *LOSS_INPUTS, span=side)
        .explode("span")
        .unnest("span")
        .with_columns(
            start=length.cum_sum().over("row") - length,
            after=pl.when(source == source.shift()).then((offset + length).shift()),
        )
    )


def positions_of(targets: pl.LazyFrame) -> pl.LazyFrame:
    """Each sampled target's logprob, beside the recorded one."""
    said = pl.col("recorded_logprobs").list.slice(offset, length)
    return (
        targets.filter(sampled)
        .select("row", "start", "length", given=under("logprobs"), said=said)
        .filter(given.list.len() == pl.col("said").list.len())
        .explode("given", "said")
    )


def pairs_of(inputs: pl.LazyFrame, targets: pl.LazyFrame) -> pl.LazyFrame:
    """Each input span with the target spans of its datum that have the same source."""
    places = ("row", "type", "sequence_id", "offset", "start", "length")
    return targets.select(places).join(inputs.select(places), on=places[:3], suffix="_input")


def records_of(sequences: str) -> pl.LazyFrame:
    """The records, no name of theirs being one of a datum's."""
    return pl.scan_parquet(sequences).rename({"tokens": "recorded_tokens", "logprobs": "recorded_logprobs"})


def broken(rules: Mapping[str, pl.Expr]) -> dict[str, pl.Expr]:
    """How many rows break each rule."""
    return {code: (~valid).sum() for code, valid in rules.items()}


def check(data: str, sequences: str, session: str, now: datetime) -> dict[str, int]:
    """How often each rule is broken that polars can state."""
    datums, records = pl.scan_parquet(data).with_row_index("row"), records_of(sequences)
    inputs, targets = spans_of(datums, INPUT_SPANS), spans_of(datums, TARGET_SPANS)
    named_inputs, named_targets = (
        spans.join(records, on="sequence_id", how="left") for spans in (inputs, targets)
    )
    trained = targets.filter(sampled & (length > 0)).group_by("sequence_id")
    repeated = records.filter(pl.struct(RECORD).is_duplicated()).group_by(RECORD)
    queries = [
        datums.select(**broken(DATUM), ADV003=~rewarded.list.any().any()),
        named_inputs.select(**broken(INPUT)),
        named_targets.select(**broken(of_target(session, now))),
        positions_of(named_targets).select(**broken(POSITION)),
        records.select(**broken(OF_RECORD)),
        pairs_of(inputs, targets).select(**broken(PAIR)),
        trained.agg(pl.col("row").n_unique()).select(SEQ010=(pl.col("row") > 1).sum()),
        repeated.agg(n=contents.n_unique()).select(SEQ008=(pl.col("n") > 1).sum()),
    ]
    found = {"INP002": len(set(datums.collect_schema()) - {"row", *COLUMNS})}
    for answer in pl.collect_all(queries, engine="streaming"):
        for code, count in answer.row(0, named=True).items():
            found[code] = found.get(code, 0) + int(count or 0)
    return found
