"""What does the stable_reinforce contract cost over Parquet, against reading it and against going row by row?

Every measurement has a fresh process; they take turns, so that a busy machine slows all of them alike. CPU is
user and system time of all threads, imports excepted. Reading is `ParquetFile(...).iter_batches(2000)` over
both files, with pyarrow's threads as they are by default (the target's floor) and without. The peers go row
by row over 1,000 datums and are scaled linearly, per datum: pydantic models of `to_pylist()` rows with the
same cross checks in Python, the reading of sequences included; and the SDK's
`Datum(...).with_provenance(...)` of `to_pylist()` rows, which reads no sequences and compares nothing. Needs
the extra `tinker`. Exit code 1: a target is missed.

    python benchmarks/check_parquet.py [--datums N] [--tokens N] [--repeats N] [--dir PATH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data

PEER_DATUMS = 1_000
CPU_RATIO, PEER_RATIO, RSS = 2.0, 8.0, 500.0


def read(data: _data.Dataset, *, threads: bool) -> Callable[[], object]:
    import pyarrow.parquet as pq

    def work() -> None:
        for path in (data.data(".parquet"), data.sequences(".parquet")):
            for _ in pq.ParquetFile(path).iter_batches(2000, use_threads=threads):
                pass

    return work


def check(data: _data.Dataset) -> Callable[[], object]:
    import provenance.engine
    import provenance.formats.arrow

    def work() -> None:
        report = provenance.engine.check(
            data.data(".parquet"),
            "stable_reinforce",
            ledger=data.sequences(".parquet"),
            session=_data.SESSION,
            now=_data.NOW,
        )
        _data.assert_clean(report, data.size["positions"])

    return work


def rows(path: str) -> Any:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(200):
        yield from batch.to_pylist()


# --- row by row, with pydantic -------------------------------------------------------------------

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


def compare(datum: DatumRow, records: dict[str, SequenceRow], now: datetime, trained: set[str]) -> None:
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
            compare_sampled(datum, span, record, at)
            if now - max(record.sampled_at, record.last_used_at or record.sampled_at) > timedelta(hours=23):
                raise ValueError(f"{span.sequence_id!r} expires")
            if span.sequence_id in trained:
                raise ValueError(f"{span.sequence_id!r} is trained twice")
            trained.add(span.sequence_id)
        at = end
    if datum.target_tokens[:-1] != datum.model_input_tokens[1:]:
        raise ValueError("targets are not the next inputs")


def compare_sampled(datum: DatumRow, span: SpanRow, record: SequenceRow, at: int) -> None:
    if span.offset or span.length != len(record.tokens):
        raise ValueError(f"not the whole of {span.sequence_id!r}")
    if record.session_id != _data.SESSION or not record.record_stability_info:
        raise ValueError(f"{span.sequence_id!r} is of another session, or recorded without stability info")
    if datum.model_input_tokens[: at + 1] != record.prompt_tokens:
        raise ValueError(f"{span.sequence_id!r} was sampled after another prompt")
    for given, recorded in zip(datum.logprobs[at : at + span.length], record.logprobs, strict=True):
        if abs(given - recorded) > 1e-3 + 2**-7 * max(abs(given), abs(recorded)):
            raise ValueError(f"logprob {given} was recorded as {recorded}")


def pydantic_rows(data: _data.Dataset) -> Callable[[], object]:
    now = datetime.fromisoformat(_data.NOW)

    def work() -> None:
        found = (SequenceRow.model_validate(row) for row in rows(data.sequences(".parquet")))
        records = {record.sequence_id: record for record in found}
        trained: set[str] = set()
        for row in rows(data.data(".parquet")):
            compare(DatumRow.model_validate(row), records, now, trained)
        assert len(trained) == data.size["sequences"]

    return work


# --- row by row, with the SDK --------------------------------------------------------------------


def sdk_rows(data: _data.Dataset) -> Callable[[], object]:
    import tinker
    from tinker import types

    kinds: dict[str, Any] = {"prompt": types.PromptProvenanceSpan, "sampled": types.SampledProvenanceSpan}

    def spans(side: list[dict[str, Any]]) -> list[Any]:
        return [kinds[span["type"]](**{key: span[key] for key in span if key != "type"}) for span in side]

    def work() -> None:
        for row in rows(data.data(".parquet")):
            tinker.Datum(
                model_input=tinker.ModelInput.from_ints(row["model_input_tokens"]),
                loss_fn_inputs={name: row[name] for name in ("target_tokens", "logprobs", "advantages")},
            ).with_provenance(
                model_input=spans(row["model_input_spans"]), loss_fn_inputs=spans(row["loss_fn_input_spans"])
            )

    return work


def main() -> int:
    parser = _data.arguments_of(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", choices=["read", "read-1-thread", "check", "pydantic", "sdk"])
    options = parser.parse_args()
    whole = _data.dataset(options.datums, options.tokens, folder=options.dir)
    peers = min(PEER_DATUMS, options.datums)
    part = _data.dataset(peers, options.tokens * peers // options.datums, folder=options.dir)
    if options.measure:
        works: dict[str, Callable[[], Callable[[], object]]] = {
            "read": lambda: read(whole, threads=True),
            "read-1-thread": lambda: read(whole, threads=False),
            "check": lambda: check(whole),
            "pydantic": lambda: pydantic_rows(part),
            "sdk": lambda: sdk_rows(part),
        }
        _data.report_cost(works[options.measure]())
        return 0

    same = ["--datums", str(options.datums), "--tokens", str(options.tokens)]
    same += ["--dir", options.dir] if options.dir else []
    names = {
        "read data and sequences": "read",
        "read them, one thread": "read-1-thread",
        "check": "check",
        f"pydantic, {peers:,} datums": "pydantic",
        f"SDK, {peers:,} datums": "sdk",
    }
    results = _data.costs(__file__, {label: [name, *same] for label, name in names.items()}, options.repeats)
    print(f"check: {whole.size}\npeers: {part.size}")
    _data.print_costs(results, options.repeats)
    threaded, single, checked, pydantic, sdk = results.values()
    print("no error, no warning, and the identity of every input and target judged")
    each = checked.cpu / whole.size["datums"]
    by_pydantic, by_sdk = pydantic.cpu / peers / each, sdk.cpu / peers / each
    print(f"check / reading with one thread, CPU: {checked.cpu / single.cpu:.3g}x")
    good = [
        _data.met("check / reading, CPU", checked.cpu / threaded.cpu, CPU_RATIO, unit="x"),
        _data.met("pydantic / check, CPU per datum", by_pydantic, PEER_RATIO, least=True, unit="x"),
        _data.met("SDK / check, CPU per datum", by_sdk, PEER_RATIO, least=True, unit="x"),
        _data.met("peak RSS of check", checked.rss, RSS, unit=" MB"),
    ]
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
