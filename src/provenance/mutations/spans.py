"""Faults of the two span lists: lost, too short, moved, split, or of the wrong kind."""

from __future__ import annotations

import random
from collections.abc import Iterator

from provenance.columns import TARGETS
from provenance.mutations._dataset import Dataset, Json
from provenance.mutations._edit import claims, is_text, remove_tokens
from provenance.mutations._ledger import is_placeholder, records
from provenance.mutations._mutation import Place, mutation
from provenance.mutations._view import Run, View, nonzero, shuffled, signal_name, signal_outside, views
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS


def _spanned(dataset: Dataset, rng: random.Random, *, spare: bool = False) -> Iterator[View]:
    return (view for view in views(dataset, rng, spare=spare) if view.spanned)


@mutation(fires=("SPN001",))
def one_span_list_lost(dataset: Dataset, rng: random.Random) -> Place | None:
    """One of the two span lists was lost in a join."""
    for view in _spanned(dataset, rng, spare=True):
        del view.datum[rng.choice([INPUT_SPANS, TARGET_SPANS])]
        return Place(row=view.row)
    return None


@mutation(fires=("SPN002",))
def spans_lost(dataset: Dataset, rng: random.Random) -> Place | None:
    """Both span lists were lost: a format on the way had no place for them."""
    for view in _spanned(dataset, rng):
        del view.datum[INPUT_SPANS], view.datum[TARGET_SPANS]
        return Place(row=view.row)
    return None


@mutation(fires=("SPN003",))
def last_input_span_short(dataset: Dataset, rng: random.Random) -> Place | None:
    """The last span of the input is one short."""
    for view in _spanned(dataset, rng, spare=True):
        if view.given[-1].length:
            view.given[-1].span["length"] -= 1
            return Place(row=view.row, field=INPUT_SPANS)
    return None


@mutation(fires=("SPN004",))
def last_target_span_short(dataset: Dataset, rng: random.Random) -> Place | None:
    """The last span of the targets is one short, as it is where it was copied from the input's."""
    for view in _spanned(dataset, rng, spare=True):
        # Targets that a loss takes in another shape have another number of rows.
        if view.trained[-1].length and TARGETS in view.tensors:
            view.trained[-1].span["length"] -= 1
            return Place(row=view.row, field=TARGET_SPANS)
    return None


@mutation(fires=("SPN005",))
def span_of_unknown_kind(dataset: Dataset, rng: random.Random) -> Place | None:
    """A span is of a kind that does not exist."""
    return _spoil(dataset, rng, "type", "generated")


@mutation(fires=("SPN005",))
def span_offset_as_float(dataset: Dataset, rng: random.Random) -> Place | None:
    """A span's offset went through a column of floats and has a fraction."""
    return _spoil(dataset, rng, "offset", 0.5)


def _spoil(dataset: Dataset, rng: random.Random, key: str, value: object) -> Place | None:
    for view in _spanned(dataset, rng, spare=True):
        field = rng.choice([INPUT_SPANS, TARGET_SPANS])
        run = rng.choice(view.given if field == INPUT_SPANS else view.trained)
        run.span[key] = value
        return Place(row=view.row, field=field, index=run.number, length=1)
    return None


@mutation(fires=("SPN006",))
def empty_span_left(dataset: Dataset, rng: random.Random) -> Place | None:
    """A span of no position was left at the end of the input."""
    for view in _spanned(dataset, rng):
        last = view.given[-1]
        view.datum[INPUT_SPANS].append({**last.span, "offset": last.offset + last.length, "length": 0})
        return Place(row=view.row, field=INPUT_SPANS, index=last.number + 1, length=1)
    return None


@mutation(fires=("SPN007",))
def completion_cut_off(dataset: Dataset, rng: random.Random) -> Place | None:
    """A length limit cut everything behind the first prompt, and nothing sampled is left."""
    for view in _spanned(dataset, rng):
        first, signal = view.trained[0], view.inputs.get(signal_name(dataset))
        length = first.length
        if (
            first.kind == "prompt"
            and length
            and view.sampled()
            and view.plain
            and signal is not None
            and not any(map(nonzero, signal[:length]))
            and "sequence_ratio_mask" not in view.inputs
            and is_text(view, length - 1, len(view.tokens))
            and signal_outside(dataset, view.row)
        ):
            remove_tokens(view, length, len(view.tokens), targets=length)
            return Place(row=view.row)
    return None


@mutation(fires=("SPN007",), may=("ADV001", "SEQ002", "SEQ005", "SPN010"))
def completion_called_prompt(dataset: Dataset, rng: random.Random) -> Place | None:
    """Every span of the targets is called a prompt."""
    for view in _spanned(dataset, rng):
        if view.sampled():
            for run in view.trained:
                run.span["type"] = "prompt"
            return Place(row=view.row)
    return None


@mutation(fires=("SPN008",))
def sampled_run_split(dataset: Dataset, rng: random.Random) -> Place | None:
    """The run of a sequence stands as two runs among the targets, one after the other."""
    for view in _spanned(dataset, rng):
        for run in shuffled(view.sampled(at_least=2), rng):
            at = rng.randrange(run.start + 1, run.stop)
            if not _shows_otherwise(dataset, view, run, at):
                _split(view.datum[TARGET_SPANS], run, at)
                return Place(row=view.row, field=TARGET_SPANS, index=run.number, length=2)
    return None


def _shows_otherwise(dataset: Dataset, view: View, run: Run, at: int) -> bool:
    """Whether one part of a split run would look masked, or filled with a placeholder."""
    signal = view.inputs.get(signal_name(dataset))
    logprobs = view.inputs.get("logprobs")
    parts = ((run.start, at), (at, run.stop))
    masked = signal is not None and len({nonzero(signal[i]) for i in range(run.start, run.stop)}) > 1
    return masked or (
        logprobs is not None and any(is_placeholder(dataset, logprobs[start:stop]) for start, stop in parts)
    )


@mutation(fires=())
def input_run_split(dataset: Dataset, rng: random.Random) -> Place | None:
    """A span of the input stands as two that continue each other, which is legal."""
    for view in _spanned(dataset, rng):
        runs = [run for run in view.given if run.length > 1]
        if runs:
            run = rng.choice(runs)
            _split(view.datum[INPUT_SPANS], run, rng.randrange(run.start + 1, run.stop))
            return Place(row=view.row, field=INPUT_SPANS, index=run.number, length=2)
    return None


def _split(spans: list[Json], run: Run, at: int) -> None:
    left = {**run.span, "length": at - run.start}
    right = {**run.span, "offset": run.offset + at - run.start, "length": run.stop - at}
    spans[run.number : run.number + 1] = [left, right]


@mutation(fires=("SPN009",), may=("SEQ005",))
def target_span_not_shifted(dataset: Dataset, rng: random.Random) -> Place | None:
    """A target span was copied from the input's with the offset that it has there."""
    for view, run in _shifted_prompts(dataset, rng):
        run.span["offset"] -= 1
        return Place(row=view.row, field=TARGET_SPANS, index=run.start, length=run.length)
    return None


@mutation(fires=("SPN009",))
def prompt_not_shifted(dataset: Dataset, rng: random.Random) -> Place | None:
    """Over the first prompt, the targets and their span were copied from the input and not shifted by one."""
    for view, run in _shifted_prompts(dataset, rng):
        if run.start == 0 and view.targets and is_text(view, 0, run.stop):
            run.span["offset"] -= 1
            view.targets[: run.stop] = view.tokens[: run.stop]
            return Place(row=view.row, field=TARGET_SPANS, index=0, length=run.length)
    return None


def _shifted_prompts(dataset: Dataset, rng: random.Random) -> Iterator[tuple[View, Run]]:
    """Target-side prompt runs, in random order, that the input names too, one position further on."""
    for view in _spanned(dataset, rng):
        trained, given = claims(view.trained), claims(view.given)
        for run in shuffled([run for run in view.trained if run.kind == "prompt" and run.offset], rng):
            inside = range(run.start, run.stop)
            matched = run.stop < len(given) and all(trained[i] == given[i + 1] for i in inside)
            if run.length and matched and not _continues(view.trained, run):
                yield view, run


def _continues(runs: tuple[Run, ...], run: Run) -> bool:
    """Whether a neighbour of a run is of the same kind and sequence."""
    neighbours = runs[max(run.number - 1, 0) : run.number + 2]
    return any(other is not run and other.names(run) for other in neighbours)


@mutation(fires=("SPN010",))
def observation_cut_in_the_middle(dataset: Dataset, rng: random.Random) -> Place | None:
    """The middle of the last observation was cut out to fit a length limit."""
    for view in _spanned(dataset, rng):
        given, trained = view.given[-1], view.trained[-1]
        cut = _inner_cut(view, given, trained, rng)
        if cut is not None and given.start:
            remove_tokens(view, cut.start, cut.stop, targets=cut.start - 1)
            return Place(row=view.row)
    return None


@mutation(fires=("SEQ011", "SPN010"))
def prompt_cut_in_the_middle(dataset: Dataset, rng: random.Random) -> Place | None:
    """The middle of a long first prompt was cut out to fit a length limit."""
    known = records(dataset)
    for view in _spanned(dataset, rng):
        given, trained = view.given[0], view.trained[0]
        cut = _inner_cut(view, given, trained, rng)
        answered = [run for run in view.sampled() if run.offset == 0 and run.sequence_id in known]
        if cut is not None and answered:
            remove_tokens(view, cut.start, cut.stop, targets=cut.start - 1)
            return Place(row=view.row)
    return None


def _inner_cut(view: View, given: Run, trained: Run, rng: random.Random) -> range | None:
    """Positions of a prompt, in the input, that can be cut out so that spans of both lists skip them."""
    first, last = max(given.start, trained.start + 1) + 1, min(given.stop, trained.stop + 1) - 1
    if not (given.kind == "prompt" and given.names(trained) and view.plain and first < last):
        return None
    start = rng.randrange(first, last)
    stop = rng.randrange(start + 1, last + 1)
    signal = [
        value for name in ("advantages", "weights") for value in view.inputs.get(name, [])[start - 1 : stop]
    ]
    if not is_text(view, given.start, given.stop) or any(map(nonzero, signal)):
        return None
    return range(start, stop)


@mutation(fires=("SEQ003",), may=("SPN009", "SPN010"))
def input_spans_swapped(dataset: Dataset, rng: random.Random) -> Place | None:
    """Two neighbouring spans of the input stand in the wrong order."""
    for view in _spanned(dataset, rng):
        for first, second in shuffled(list(zip(view.given, view.given[1:], strict=False)), rng):
            now = view.tokens[first.start : second.stop]
            claimed = [*view.tokens[second.start : second.stop], *view.tokens[first.start : first.stop]]
            if now != claimed and view.targets and is_text(view, first.start, second.stop):
                view.datum[INPUT_SPANS][first.number : second.number + 1] = [second.span, first.span]
                return Place(row=view.row)
    return None


@mutation(
    fires=("SEQ002",),
    may=("ADV005", "SPN010", "VAL003"),
)
def tool_output_called_sampled(dataset: Dataset, rng: random.Random) -> Place | None:
    """What a tool said between two turns is called sampled, like the turn after it."""
    known = records(dataset)
    for view in _spanned(dataset, rng):
        for run in shuffled([run for run in view.trained if run.kind == "prompt" and run.start], rng):
            record = known.get(run.sequence_id)
            if record is None or run.length == 0 or run.offset + run.length <= len(record["tokens"]):
                continue
            run.span["type"] = "sampled"
            same = [other for other in view.given if other.names(run) and other.offset == run.offset]
            for other in same:
                other.span["type"] = "sampled"
            return Place(row=view.row, sequence_id=run.sequence_id)
    return None
