"""SEQ: the records in the ledger that the spans name, and the places they claim in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance._text import quoted
from provenance.columns import SAMPLED, any_in_rows, offsets_of
from provenance.rules._batch import Batch
from provenance.rules._examples import RECORD, SIBLING, case
from provenance.rules._rule import Verdict, rule
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS
from provenance.rules._values import LARGEST, Values
from provenance.sequences import ABSENT

_BOTH = (INPUT_SPANS, TARGET_SPANS)
_USED_LATER = {**RECORD, "last_used_at": "2026-01-02T11:00:00Z"}


@rule(
    "SEQ001",
    at="sequence",
    over=(TARGET_SPANS,),
    needs=("ledger",),
    message="{id} is not in the ledger",
    evidence="documented",
    good=[
        case(),
        case(turns="multi"),
        case(SIBLING),
    ],
    bad=[
        case({"sequences.0.sequence_id": "s:1 "}),
        case({"model_input_spans.1.sequence_id": "s:9"}),
    ],
)
def unknown_sequence(batch: Batch, field: str) -> Verdict:
    """A sampled span names a sequence that was never recorded as sampled.

    The server finds no such sequence, and nothing that the span claims can be verified. Ids are compared byte
    for byte. The id was changed on the way (trimmed, re-numbered), the ledger of another run is used, or the
    sample was not recorded. Keep ids as they are, and record at sampling time. A sequence of another session
    is SES001. Evidence: documented (StableReinforce page).
    """
    return Verdict(batch.of_pairs(batch.table.known), batch.pairs.sampled)


def _range(batch: Batch, field: str, span: int) -> Mapping[str, Any]:
    spans = batch.spans(field)
    sampled = spans.kind[span] == SAMPLED
    lengths = batch.table.token_length if sampled else batch.table.prompt_length
    start = int(spans.start[span])
    return {
        "start": start,
        "end": start + int(spans.length[span]),
        "recorded": int(lengths[spans.sequence[span]]),
        "what": "sampled tokens" if sampled else "prompt tokens",
    }


@rule(
    "SEQ002",
    at="span",
    over=_BOTH,
    given=("SEQ001",),
    needs=("ledger",),
    message="claims positions {start}:{end} of a record with {recorded} {what}",
    detail=_range,
    evidence="documented",
    good=[
        case(),
        case(turns="multi"),
        case(SIBLING),
    ],
    bad=[
        case({"sequences.0.tokens": [21, 22], "sequences.0.logprobs": [-0.125, -0.375]}),
        case({"sequences.0.prompt_tokens": [11, 12]}),
        case({"model_input_spans.0.offset": 2**63 - 1}),
    ],
)
def span_out_of_range(batch: Batch, field: str) -> Verdict:
    """A span claims positions that its sequence does not have.

    An EOS token that the framework appended and the sampler never emitted makes a sampled span one too long;
    a prompt rendered differently from the request makes prompt spans run over its end; tool output that was
    marked as sampled claims what nobody sampled. Call sampled what the sampler returned, and no more, and
    count positions of the record, not of rendered text. Evidence: documented (Datum page: a span covers
    positions of the request's prompt or of the sampled tokens).
    """
    return Verdict(batch.claims.claim_in_range(field), batch.claims.comparable(field))


@rule(
    "SEQ007",
    at="record",
    over=("logprobs",),
    needs=("ledger",),
    message="the record of {id} has {tokens} tokens and {logprobs} logprobs{problem}",
    detail=lambda batch, field, record: _record_problem(batch, record),
    evidence="ours",
    good=[
        case(),
        case(SIBLING),
        case({"sequences.0.logprobs": [-0.125], "sequences.1": RECORD}),
    ],
    bad=[
        case({"sequences.0.logprobs": [-0.125, -0.375]}),
        case({"sequences.0.logprobs.1": float("nan")}),
        case({"sequences.0.logprobs.2": float("-inf")}),
        case({"sequences.0.logprobs.0": 0.5}),
        case(
            {
                "sequences.0.logprobs": [-0.125, -0.375],
                "sequences.1.logprobs": [0.0001, float("nan"), -0.625],
                "sequences.2.logprobs.0": 0.0001,
            },
            copies=3,
        ),
    ],
)
def inconsistent_record(batch: Batch, field: str) -> Verdict:
    """A record in the ledger has not one finite logprob of at most 0 for each sampled token.

    The recorder stored something else than what was sampled, or logprobs were not requested. Nothing can be
    compared with such a record; mend the recorder. Reported once per record. Evidence: ours.
    """
    table = batch.table
    valid = table.logprob_length == table.token_length
    # Of records that conflict the first is kept, and which is the first says nothing.
    applies = batch.named_records & ~table.conflicting
    records = (applies & valid).nonzero()[0]
    lengths = table.logprob_length[records]
    tolerance = np.float32(batch.parameters.tolerance)
    for chosen, logprobs in table.logprobs.blocks(table.logprob_start[records], lengths):
        plausible = Values(logprobs).between(-LARGEST, tolerance)
        if plausible is not None:
            valid[records[chosen]] = ~any_in_rows(~plausible, offsets_of(lengths[chosen]))
    return Verdict(valid, applies)


def _record_problem(batch: Batch, record: int) -> Mapping[str, Any]:
    table = batch.table
    values = table.sampled_logprobs(record)
    wrong = np.flatnonzero(~((values <= batch.parameters.tolerance) & (values > -np.inf)))
    problem = f", logprob {int(wrong[0])} is {float(values[wrong[0]])!r}" if len(wrong) else ""
    return {
        "tokens": int(table.token_length[record]),
        "logprobs": int(table.logprob_length[record]),
        "problem": problem,
    }


@rule(
    "SEQ008",
    at="record",
    over=("sequence_id",),
    needs=("ledger",),
    message="{id} is recorded more than once in session {session}, with different content",
    detail=lambda batch, field, record: {"session": quoted(batch.table.session_id[record])},
    evidence="ours",
    good=[
        case({"sequences.1": _USED_LATER}),
        case(SIBLING),
    ],
    bad=[
        case({"sequences.1": {**_USED_LATER, "tokens": [21, 22, 3]}}),
        case({"sequences.1": {**_USED_LATER, "prompt_tokens": [11, 12, 14]}}),
        case({"sequences.1": {**_USED_LATER, "logprobs": [-0.125, -0.375, -0.5]}}),
    ],
)
def conflicting_records(batch: Batch, field: str) -> Verdict:
    """Two records with one (session, id) say different things.

    Which of the two the server means cannot be known, so nothing is compared with them. Every process
    counting from 0 is the usual cause: use the ids that sampling returned, or make yours unique. An
    identical repeat is fine. Reported once per id. Evidence: ours.
    """
    return Verdict(~batch.table.conflicting, batch.named_records)


@rule(
    "SEQ009",
    at="sequence",
    over=(TARGET_SPANS,),
    severity="warning",
    needs=("ledger",),
    message="{id} was sampled with {settings}",
    detail=lambda batch, field, pair: {"settings": _settings(batch, int(batch.pairs.sequence[pair]))},
    evidence="observed",
    good=[
        case({"sequences.0.temperature": 1.0, "sequences.0.top_p": 1.0, "sequences.0.top_k": -1}),
        case({"sequences.0.top_k": 0}),
        case(),
        case({**SIBLING, "sequences.1": {**RECORD, "sequence_id": "s:sibling", "temperature": 0.7}}),
        case({"sequences.0.temperature": 0.7, "sequences.1": {**RECORD, "temperature": 1.0}}),
    ],
    bad=[
        case({"sequences.0.temperature": 0.7, "sequences.0.top_k": 0}),
        case({"sequences.0.temperature": 1.0, "sequences.0.top_p": 0.95, "sequences.0.top_k": -1}),
        case({"sequences.0.top_k": 50}),
        case({"sequences.0.temperature": 0.7, "sequences.0.top_p": 0.95}),
    ],
)
def modified_sampling(batch: Batch, field: str) -> Verdict:
    """A sequence was not sampled from the model's own distribution.

    With a temperature other than 1, top-p or top-k the tokens follow another distribution than the recorded
    logprobs describe, and ratios and KL are biased without any sign of it. Sample for training with
    temperature 1, top_p 1 and without top_k. Judged where these were recorded. Evidence: observed.
    """
    table = batch.table
    plain = (
        (np.isnan(table.temperature) | (table.temperature == 1))
        & (np.isnan(table.top_p) | (table.top_p == 1))
        & ((table.top_k == ABSENT) | (table.top_k == 0) | (table.top_k == -1))
    )
    return Verdict(batch.of_pairs(plain), batch.pairs.trained & batch.recorded_pairs)


def _settings(batch: Batch, sequence: int) -> str:
    table = batch.table
    named = {"temperature": table.temperature[sequence], "top_p": table.top_p[sequence]}
    parts = [
        f"{name} {float(value):g}" for name, value in named.items() if not np.isnan(value) and value != 1
    ]
    if table.top_k[sequence] not in (ABSENT, 0, -1):
        parts.append(f"top_k {int(table.top_k[sequence])}")
    return ", ".join(parts)


@rule(
    "SEQ010",
    at="sequence",
    over=(TARGET_SPANS,),
    severity="warning",
    unique=True,
    message="{id} is a sampled target of an earlier datum already",
    evidence="ours",
    good=[case(), case(copies=2)],
    bad=[
        case(
            {
                "datums.1.model_input_spans.1.sequence_id": "s:1",
                "datums.1.loss_fn_input_spans.1.sequence_id": "s:1",
            },
            copies=2,
        )
    ],
)
def repeated_sequence(batch: Batch, field: str) -> Verdict:
    """A sequence is trained on in more than one datum of the dataset.

    It counts twice. A file was written twice, shards overlap, or several epochs were merged. Where it is
    meant, as with repeated epochs, ignore this rule. The later datum is reported. Evidence: ours.
    """
    return Verdict(~batch.trained_before, batch.pairs.trained)


@rule(
    "SEQ013",
    at="sequence",
    over=(INPUT_SPANS,),
    severity="warning",
    needs=("ledger",),
    message="{id} is named as the source of a prompt, but not in the ledger",
    evidence="ours",
    good=[case()],
    bad=[case(SIBLING)],
)
def unknown_prompt_source(batch: Batch, field: str) -> Verdict:
    """A prompt span names a sequence that is not in the ledger.

    Any sample of the same request may be named as the source of the shared prompt, also one that nobody
    trains on; if it was not recorded, the prompt cannot be verified. Record every sample of a request, or
    name the one that is trained. Evidence: ours.
    """
    return Verdict(batch.of_pairs(batch.table.known), ~batch.pairs.sampled)
