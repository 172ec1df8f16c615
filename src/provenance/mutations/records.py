"""Faults of what was recorded, and of when and where it was sampled."""

from __future__ import annotations

import random
from collections.abc import Iterator

from provenance.engine.arguments import moment_of
from provenance.mutations._dataset import Dataset, Json, copied
from provenance.mutations._edit import is_text, remove_tokens
from provenance.mutations._ledger import prompt_sources, recorded_runs, records, spans_of
from provenance.mutations._mutation import Place, mutation
from provenance.mutations._view import Run, nonzero, views
from provenance.sequences import rfc3339

#: Seconds, about 30 years: times beyond need not exist.
_LONGEST = 1e9


@mutation(fires=("SEQ001",))
def record_lost(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sequence is missing in the ledger: its worker was killed before it wrote."""
    sources = prompt_sources(dataset)
    for _, run, record in recorded_runs(dataset, rng):
        if dataset.sequences is not None and run.sequence_id not in sources:
            dataset.sequences[:] = [other for other in dataset.sequences if other is not record]
            return Place(sequence_id=run.sequence_id)
    return None


@mutation(fires=("SEQ013",))
def sibling_not_recorded(dataset: Dataset, rng: random.Random) -> Place | None:
    """A prompt is credited to a sibling of the same request, and the sibling was not recorded."""
    known = records(dataset)
    for view in views(dataset, rng):
        prompts = [run for run in view.given if run.kind == "prompt" and run.sequence_id in known]
        if prompts:
            named = rng.choice(prompts).sequence_id
            sibling = _new_id(dataset, f"{named}-sibling")
            for run in (*view.given, *view.trained):
                if run.kind == "prompt" and run.sequence_id == named:
                    run.span["sequence_id"] = sibling
            return Place(row=view.row, sequence_id=sibling)
    return None


def _new_id(dataset: Dataset, wanted: str) -> str:
    used = {span["sequence_id"] for _, span in spans_of(dataset)}
    used |= set(records(dataset))
    while wanted in used:
        wanted += "'"
    return wanted


@mutation(fires=("SEQ008",))
def id_used_by_two_ranks(dataset: Dataset, rng: random.Random) -> Place | None:
    """Two ranks counted their sequences from 0, and one id stands for two samples."""
    for _, run, record in recorded_runs(dataset, rng):
        if dataset.sequences is not None and record["tokens"]:
            other = copied(record)
            other["tokens"][-1] += 1 if other["tokens"][-1] < 2**31 - 1 else -1
            dataset.sequences.append(other)
            return Place(sequence_id=run.sequence_id)
    return None


@mutation(fires=("SEQ007",))
def recorded_logprobs_cut(dataset: Dataset, rng: random.Random) -> Place | None:
    """The logprobs of a record are one short: the stop token's was not stored."""
    for _, run, record in recorded_runs(dataset, rng):
        record["logprobs"].pop()
        return Place(sequence_id=run.sequence_id)
    return None


@mutation(fires=("SEQ009",))
def sampled_with_a_temperature(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sequence was sampled at temperature 0.7."""
    for _, run, record in recorded_runs(dataset, rng):
        record["temperature"] = 0.7
        return Place(sequence_id=run.sequence_id)
    return None


@mutation(fires=("SEQ011",))
def history_rewritten(dataset: Dataset, rng: random.Random) -> Place | None:
    """A turn was sampled after a history that had been rewritten, and is trained after the first one."""
    claimed: dict[str, list[range]] = {}
    for _, span in spans_of(dataset):
        start, length = span.get("offset") or 0, span.get("length")
        if span.get("type") == "prompt" and type(start) is int and type(length) is int:
            claimed.setdefault(span["sequence_id"], []).append(range(start, start + length))
    for view, run, record in recorded_runs(dataset, rng):
        prompt, taken = record["prompt_tokens"], claimed.get(run.sequence_id, [])
        free = [
            i for i, token in enumerate(prompt) if token >= 0 and not any(i in places for places in taken)
        ]
        if free and run.offset == 0:
            i = rng.choice(free)
            prompt[i] += 1 if prompt[i] == 0 else -1
            return Place(row=view.row, sequence_id=run.sequence_id)
    return None


@mutation(fires=("SEQ011",))
def system_prompt_left_out(dataset: Dataset, rng: random.Random) -> Place | None:
    """The first tokens of the prompt are not in the datum: the system prompt was left out."""
    known = records(dataset)
    for view in views(dataset, rng):
        answered = [run for run in view.sampled() if run.offset == 0 and run.sequence_id in known]
        if not answered or not view.plain or view.trained[0].kind != "prompt":
            continue
        longest = min(view.given[0].length, view.trained[0].length) - 1
        signal = [
            v for name in ("advantages", "weights") for v in view.inputs.get(name, [])[: max(longest, 0)]
        ]
        if longest > 0 and is_text(view, 0, longest) and not any(map(nonzero, signal)):
            length = rng.randint(1, longest)
            remove_tokens(view, 0, length, targets=0)
            return Place(row=view.row)
    return None


@mutation(fires=("SES001",))
def sampled_in_another_session(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sequence was sampled before the script was restarted, in another session."""
    for _, run, record in recorded_runs(dataset, rng):
        if dataset.session is not None and record.get("session_id") == dataset.session:
            record["session_id"] = f"{dataset.session}-before-the-restart"
            return Place(sequence_id=run.sequence_id)
    return None


@mutation(fires=("SES001",))
def trained_in_another_session(dataset: Dataset, rng: random.Random) -> Place | None:
    """The whole dataset is trained on after a restart, in another session than it was sampled in."""
    if dataset.session is None or not records(dataset):
        return None
    for view in views(dataset, rng):
        if any(run.sequence_id in records(dataset) for run in (*view.given, *view.trained)):
            dataset.session += "-after-the-restart"
            return Place()
    return None


@mutation(fires=("SES002",))
def stale_by_a_second(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sequence was last used a second longer ago than the window allows."""
    return _age(dataset, rng, dataset.contract.parameters.window + 1)


@mutation(fires=("SES003",))
def exactly_a_day_old(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sequence was last used exactly one window ago: valid still, and in no request that comes later."""
    return _age(dataset, rng, dataset.contract.parameters.window)


def _age(dataset: Dataset, rng: random.Random, seconds: float) -> Place | None:
    """Let a sequence that was recorded for stable_reinforce be so old; the clock would not hold still."""
    for run, record, time in _at_a_time(dataset, rng, -seconds):
        if record.get("record_stability_info") is True:
            record["sampled_at"] = time
            record.pop("last_used_at", None)
            return Place(sequence_id=run.sequence_id)
    return None


@mutation(fires=("SES004",))
def sampled_in_the_future(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sampler wrote its local time as UTC, hours ahead, which is more than two clocks differ."""
    seconds = dataset.contract.parameters.skew + 7200
    for run, record, time in _at_a_time(dataset, rng, seconds):
        record["sampled_at"] = time
        record.pop("last_used_at", None)
        return Place(sequence_id=run.sequence_id)
    return None


def _at_a_time(dataset: Dataset, rng: random.Random, seconds: float) -> Iterator[tuple[Run, Json, str]]:
    """Recorded runs, with the time so many seconds after that of the dataset."""
    if dataset.now is None or abs(seconds) >= _LONGEST:
        return
    try:
        time = rfc3339(moment_of(dataset.now) + round(seconds * 1_000_000))
    except OverflowError:  # before the year 1, or after 9999
        return
    for _, run, record in recorded_runs(dataset, rng):
        yield run, record, time


@mutation(fires=("SES005",))
def sampled_by_an_old_policy(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sequence waited in a queue while the policy went on."""
    learner = dataset.contract.parameters.learner_version
    lag = dataset.contract.parameters.max_policy_lag
    if learner is None or lag is None:
        return None
    for _, run, record in recorded_runs(dataset, rng):
        record["policy_version"] = str(learner - lag - 1)
        return Place(sequence_id=run.sequence_id)
    return None


@mutation(
    fires=("SEQ004",),
    may=("ADV002", "SEQ002", "SEQ003", "SEQ005", "SEQ006", "SEQ011", "SEQ012"),
)
def ids_of_two_samples_exchanged(dataset: Dataset, rng: random.Random) -> Place | None:
    """Two samples of one length came back in another order than they were matched with, and swapped ids."""
    known = records(dataset)
    runs = [
        (run.sequence_id, view.targets[run.start : run.stop])
        for view in views(dataset, rng)
        for run in view.sampled()
        if run.offset == 0 and run.sequence_id in known and view.targets
    ]
    for i, (one, tokens) in enumerate(runs):
        for other, others in runs[:i]:
            # The last target has no next input, so that the ledger alone judges it.
            if one != other and len(tokens) == len(others) and tokens[-1] != others[-1]:
                new = {one: other, other: one}
                for _, span in spans_of(dataset):
                    span["sequence_id"] = new.get(span["sequence_id"], span["sequence_id"])
                return Place()
    return None
