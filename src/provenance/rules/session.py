"""SES: the session a sequence belongs to, and the day within which it can be trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance._text import quoted
from provenance.columns import Ints, Mask
from provenance.rules._batch import Batch
from provenance.rules._examples import DROP, RECORD, SIBLING, case
from provenance.rules._rule import Verdict, rule
from provenance.rules._sides import TARGET_SPANS
from provenance.sequences import rfc3339


def _span_of_time(microseconds: int) -> str:
    """A duration as [days d] hours:minutes:seconds, exact."""
    seconds, rest = divmod(microseconds, 1_000_000)
    days, hours = divmod(seconds // 3600, 24)
    if days < 3:  # the window is a day: hours say it better
        days, hours = 0, seconds // 3600
    text = f"{hours}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    text = f"{days} d {text}" if days else text
    # Fractions of a second matter beside a limit only.
    return f"{text}.{rest:06}" if rest and days == 0 else text


_UNRELATED = {
    **SIBLING,
    "sequences.1": {
        **RECORD,
        "sequence_id": "s:sibling",
        "sampled_at": "2025-12-01T10:00:00Z",
        "last_used_at": None,
        "policy_version": "1",
    },
}
_TWO_RECORDS = {"sequences.0.policy_version": "1", "sequences.1": {**RECORD, "policy_version": "2"}}


@rule(
    "SES001",
    at="sequence",
    over=(TARGET_SPANS,),
    needs=("ledger", "session"),
    message="{id} belongs to session {session}, training session is {training}",
    detail=lambda batch, field, pair: {
        "session": quoted(batch.table.session_id[batch.pairs.sequence[pair]]),
        "training": quoted(batch.session),
    },
    evidence="documented",
    good=[
        case(),
        case(SIBLING),
    ],
    bad=[case({"sequences.0.session_id": "session-2"})],
)
def wrong_session(batch: Batch, field: str) -> Verdict:
    """A sequence was sampled in another session than the one that trains.

    Sequences exist within the session that sampled them, and a script that was restarted is a new session:
    what its predecessor sampled cannot be named any more. Sample again, or keep the session. Evidence:
    documented (StableReinforce page).
    """
    return Verdict(batch.of_pairs(batch.table.session_id == batch.session), batch.of_pairs(batch.table.known))


def _in_words(moment: int) -> str:
    try:
        return rfc3339(moment)
    except OverflowError:
        return f"{moment} microseconds after 1970"


def _age(batch: Batch) -> Ints:
    """(q,): microseconds since the sequence was sampled or last trained on."""
    table = batch.table
    age: Ints = batch.now - np.maximum(table.sampled_at, table.last_used_at)
    return age[batch.pairs.sequence]


def _expires(batch: Batch) -> Mask:
    """(q,): the day applies, that is to recorded sequences that a sampled span names."""
    return batch.pairs.sampled & batch.recorded_pairs & batch.of_pairs(batch.table.record_stability_info)


def _window(batch: Batch) -> int:
    return _microseconds(batch.parameters.window)


def _microseconds(seconds: float) -> int:
    """Seconds as microseconds, at most half of what int64 holds, so that sums stay in it."""
    return round(min(seconds, 2.0**42) * 1_000_000)


def _age_and_window(batch: Batch, field: str, pair: int) -> Mapping[str, Any]:
    age = int(_age(batch)[pair])
    return {
        "age": _span_of_time(age),
        "window": _span_of_time(_window(batch)),
        "left": _span_of_time(_window(batch) - age),
        "now": rfc3339(batch.now),
    }


@rule(
    "SES002",
    at="sequence",
    over=(TARGET_SPANS,),
    given=("SES001",),
    elsewhere="off",
    needs=("ledger",),
    message="{id} was last used {age} ago, more than {window} (at {now}; --now asks about another time)",
    detail=_age_and_window,
    evidence="documented",
    good=[
        case(now="2026-01-03T10:00:00Z"),
        case({"sequences.0.sampled_at": "2025-12-30T10:00:00Z"}),
        case({"sequences.0.record_stability_info": False}, now="2026-02-02T10:00:00Z"),
        case(_UNRELATED),
        case(_TWO_RECORDS, now="2026-02-02T10:00:00Z"),
        case({"sequences.0.session_id": "session-2"}, now="2026-01-03T10:00:01Z"),
    ],
    bad=[
        case(now="2026-01-03T10:00:01Z"),
        case({"sequences.0.last_used_at": DROP}, now="2026-01-03T10:00:00.000001Z"),
        case(now="2026-01-05T12:01:00.5Z"),
    ],
)
def expired_sequence(batch: Batch, field: str) -> Verdict:
    """A sequence was neither sampled nor trained on within the last day.

    Recorded sequences can be trained on for one day, and each training request that uses one restarts it;
    an age of exactly 24 hours is still valid. Old buffers, a queue that stalled, or a dataset kept for
    later. Train sooner, or sample again. Stated for sequences sampled with record_stability_info and judged
    for those that a sampled span names. Evidence: documented (StableReinforce page).
    """
    return Verdict(_age(batch) <= _window(batch), _expires(batch))


@rule(
    "SES003",
    at="sequence",
    over=(TARGET_SPANS,),
    given=("SES002",),
    elsewhere="off",
    severity="warning",
    needs=("ledger",),
    message="{id} can be trained on for {left} more (at {now})",
    detail=_age_and_window,
    evidence="ours",
    good=[
        case(now="2026-01-03T08:59:59Z"),
        case({"sequences.0.record_stability_info": False}, now="2026-01-03T09:30:00Z"),
        case(parameters={"window": 2.0**62}),
        case(now="2026-01-03T10:00:01Z"),
    ],
    bad=[case(now="2026-01-03T09:00:00Z")],
)
def expiring_sequence(batch: Batch, field: str) -> Verdict:
    """A sequence will expire within the hour.

    Upload, queueing and a retry take time, and a request that comes too late fails. Train on it first.
    ``margin`` (3600 seconds) is how much of the day should be left. Evidence: ours.
    """
    margin = _microseconds(batch.parameters.margin)
    return Verdict(_window(batch) - _age(batch) > margin, _expires(batch))


@rule(
    "SES004",
    at="sequence",
    over=(TARGET_SPANS,),
    elsewhere="off",
    needs=("ledger",),
    message="{id} was sampled at {sampled}, which is after {now}",
    detail=lambda batch, field, pair: {
        "sampled": _in_words(int(batch.table.sampled_at[batch.pairs.sequence[pair]])),
        "now": rfc3339(batch.now),
    },
    evidence="ours",
    good=[
        case(now="2026-01-02T09:55:00Z"),
        case(SIBLING),
    ],
    bad=[case(now="2026-01-02T09:54:59Z")],
)
def future_sequence(batch: Batch, field: str) -> Verdict:
    """A sequence was sampled in the future.

    A clock is wrong, a local time was stored as UTC, or seconds and milliseconds were mixed up; the day
    cannot be judged with such a time. Record the time of sampling in UTC, with its offset. Five minutes
    between two machines' clocks (``skew``) are allowed. Evidence: ours.
    """
    latest = batch.now + _microseconds(batch.parameters.skew)
    return Verdict(batch.of_pairs(batch.table.sampled_at <= latest), batch.recorded_pairs)


def _policy_lag(batch: Batch) -> Any:
    """(i,): learner version minus policy version of each named sequence, NaN without a numeric version."""
    learner = batch.parameters.learner_version
    lags = np.full(len(batch.table), np.nan)
    for sequence, version in enumerate(batch.table.policy_version):
        try:
            lags[sequence] = np.nan if learner is None or version is None else learner - int(version)
        except (ValueError, OverflowError):
            continue  # a version that is no number has no distance
    return lags


@rule(
    "SES005",
    at="sequence",
    over=(TARGET_SPANS,),
    severity="warning",
    needs=("ledger", "learner_version", "max_policy_lag"),
    message="{id} was sampled {lag} policy versions ago, at most {limit} wanted",
    detail=lambda batch, field, pair: {
        "lag": int(_policy_lag(batch)[batch.pairs.sequence[pair]]),
        "limit": batch.parameters.max_policy_lag,
    },
    evidence="ours",
    good=[
        case({"sequences.0.policy_version": "5"}, parameters={"learner_version": 7, "max_policy_lag": 2}),
        case(parameters={"learner_version": 7, "max_policy_lag": 2}),
        case(_UNRELATED, parameters={"learner_version": 7, "max_policy_lag": 2}),
        case(_TWO_RECORDS, parameters={"learner_version": 7, "max_policy_lag": 2}),
        case({"sequences.0.policy_version": "main"}, parameters={"learner_version": 7, "max_policy_lag": 2}),
        case(
            {"sequences.0.policy_version": "9" * 400}, parameters={"learner_version": 7, "max_policy_lag": 2}
        ),
    ],
    bad=[case({"sequences.0.policy_version": "4"}, parameters={"learner_version": 7, "max_policy_lag": 2})],
)
def stale_policy(batch: Batch, field: str) -> Verdict:
    """A sequence was sampled by weights that are many versions old.

    The further the sampler lags, the noisier the ratios; asynchronous pipelines drift without noticing. Train
    sooner, or drop what is too old. Judged where the ledger has numeric policy versions and
    ``learner_version`` and ``max_policy_lag`` are given. Evidence: ours.
    """
    lags, limit = _policy_lag(batch), batch.parameters.max_policy_lag
    judged = batch.pairs.trained & batch.recorded_pairs & batch.of_pairs(~np.isnan(lags))
    return Verdict(batch.of_pairs(lags <= (np.inf if limit is None else limit)), judged)
