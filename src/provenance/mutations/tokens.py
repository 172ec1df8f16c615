"""Faults of token ids: tokenised again, shifted, padded, cut, or of another vocabulary."""

from __future__ import annotations

import random
from typing import Final

from provenance.columns import TARGETS
from provenance.mutations._dataset import Dataset
from provenance.mutations._edit import (
    aligned_positions,
    another_token,
    append_token,
    is_text,
    remove_tokens,
    set_token,
)
from provenance.mutations._ledger import recorded_runs
from provenance.mutations._mutation import Place, mutation
from provenance.mutations._view import NO_TEXT, View, nonzero, signal_name, views
from provenance.rules._sides import INPUT_SPANS

#: What other frameworks write as the label of a position that is not to be scored.
_IGNORED: Final = -100


@mutation(fires=("SEQ003", "SEQ004"))
def tokenised_again(dataset: Dataset, rng: random.Random) -> Place | None:
    """Sampled text was decoded and tokenised again, and one token came out another."""
    return _render(dataset, rng, "sampled")


@mutation(fires=("SEQ003", "SEQ005"))
def prompt_rendered_again(dataset: Dataset, rng: random.Random) -> Place | None:
    """A chat template rendered the prompt anew, and one token of it came out another."""
    return _render(dataset, rng, "prompt")


def _render(dataset: Dataset, rng: random.Random, kind: str) -> Place | None:
    """Replace a token in both places where it stands, as a target and as the next input."""
    for view in views(dataset, rng):
        places = [i for i in aligned_positions(view, kind) if _is_next(view, i)]
        place = _replace_target(dataset, view, places, rng)
        if place is not None and place.index is not None:
            set_token(view, place.index + 1, view.targets[place.index])
            return place
    return None


def _replace_target(dataset: Dataset, view: View, places: list[int], rng: random.Random) -> Place | None:
    """Replace the target at one of some positions by another token; None where there is none."""
    if not places or not view.targets:
        return None
    i = rng.choice(places)
    token = another_token(dataset, view, view.targets[i], rng)
    if token is None:
        return None
    view.targets[i] = token
    return Place(row=view.row, field=TARGETS, index=i, length=1)


def _is_next(view: View, i: int) -> bool:
    return bool(view.targets) and view.tokens[i + 1] != NO_TEXT and view.targets[i] == view.tokens[i + 1]


@mutation(fires=("SEQ003",))
def first_token_replaced(dataset: Dataset, rng: random.Random) -> Place | None:
    """The datum begins with another token than the prompt did: another BOS, or none."""
    for view in views(dataset, rng):
        # Where there are several targets a position, inputs are not compared with records either.
        if view.spanned and view.targets and view.tokens[0] != NO_TEXT:
            token = another_token(dataset, view, view.tokens[0], rng)
            if token is not None:
                set_token(view, 0, token)
                return Place(row=view.row, field="model_input", index=0, length=1)
    return None


@mutation(fires=("TOK005",), may=("SEQ004", "SEQ005", "TOK006"))
def targets_not_shifted(dataset: Dataset, rng: random.Random) -> Place | None:
    """The targets are the input itself, not shifted by one."""
    for view in views(dataset, rng):
        differ = [
            i
            for i in aligned_positions(view, "sampled")
            if view.targets and view.tokens[i] != view.tokens[i + 1]
        ]
        if differ and is_text(view, 0, len(view.tokens)):
            view.targets[:] = view.tokens
            return Place(row=view.row, field=TARGETS, index=differ[0], length=differ[-1] + 1 - differ[0])
    return None


@mutation(fires=("TOK005",))
def sampled_target_edited(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sampled token was replaced among the targets and stayed in the input."""
    for view in views(dataset, rng):
        places = [i for i in aligned_positions(view, "sampled") if view.tokens[i + 1] != NO_TEXT]
        place = _replace_target(dataset, view, places, rng)
        if place is not None:
            return place
    return None


@mutation(fires=("TOK006",))
def scored_target_edited(dataset: Dataset, rng: random.Random) -> Place | None:
    """A scored token was replaced among the targets of a datum that carries no spans."""
    for view in views(dataset, rng):
        signal = view.inputs.get(signal_name(dataset))
        if view.spanned or signal is None:
            continue
        inner = range(len(view.tokens) - 1)
        places = [i for i in inner if nonzero(signal[i]) and view.tokens[i + 1] != NO_TEXT]
        place = _replace_target(dataset, view, places, rng)
        if place is not None:
            return place
    return None


@mutation(fires=("SEQ004",))
def last_target_replaced(dataset: Dataset, rng: random.Random) -> Place | None:
    """The stop token was replaced among the targets by another, and no input follows that would show it."""
    for view, run, _ in recorded_runs(dataset, rng):
        place = _replace_target(dataset, view, [run.stop - 1], rng) if run.stop == len(view.tokens) else None
        if place is not None:
            return place
    return None


@mutation(fires=("SEQ005",))
def prompt_targets_zeroed(dataset: Dataset, rng: random.Random) -> Place | None:
    """The targets of the first prompt are the placeholder 0, as an official recipe writes them."""
    for view in views(dataset, rng):
        run = view.trained[0] if view.spanned else None
        if run is not None and run.kind == "prompt" and any(view.targets[run.start : run.stop]):
            view.targets[run.start : run.stop] = [0] * run.length
            return Place(row=view.row, field=TARGETS, index=run.start, length=run.length)
    return None


@mutation(fires=("SPN008",))
def stop_token_dropped(dataset: Dataset, rng: random.Random) -> Place | None:
    """The last token of a completion was dropped, as a decoder drops a stop token."""
    for view, run, _ in recorded_runs(dataset, rng):
        last = len(view.tokens) - 1
        if (
            run.stop == last + 1
            and run.length > 1
            and view.plain
            and is_text(view, last, last + 1)
            and not _shows_otherwise(dataset, view, last)
        ):
            remove_tokens(view, last, last + 1, targets=last)
            return Place(row=view.row, sequence_id=run.sequence_id)
    return None


def _shows_otherwise(dataset: Dataset, view: View, last: int) -> bool:
    """Whether without its last token a run would look masked, or a ratio mask have no 1."""
    signal, mask = view.inputs.get(signal_name(dataset)), view.inputs.get("sequence_ratio_mask")
    masked = signal is not None and nonzero(signal[last]) and not nonzero(signal[last - 1])
    return masked or (mask is not None and not any(mask[:last]))


@mutation(fires=("SEQ002",))
def stop_token_appended(dataset: Dataset, rng: random.Random) -> Place | None:
    """A stop token was appended to a completion that had been sampled without one, and called sampled."""
    longest = dataset.contract.parameters.max_tokens
    for view, run, _ in recorded_runs(dataset, rng):
        end = len(view.tokens)
        if run.stop != end or not view.plain or not view.targets or end == longest:
            continue
        stop = another_token(dataset, view, view.targets[-1], rng)
        if stop is None:
            continue
        last = view.given[-1]
        append_token(view, view.targets[-1], stop)
        run.span["length"] += 1
        if last.names(run):
            last.span["length"] += 1
        else:
            own = {**run.span, "offset": run.offset + run.length - 1, "length": 1}
            view.datum[INPUT_SPANS].append(own)
        return Place(row=view.row, sequence_id=run.sequence_id)
    return None


@mutation(fires=("TOK001",))
def token_id_wrapped(dataset: Dataset, rng: random.Random) -> Place | None:
    """A target went through an int32 that it did not fit and came back negative."""
    for view in views(dataset, rng):
        if view.targets:
            i = rng.randrange(len(view.targets))
            view.targets[i] -= 2**31
            return Place(row=view.row, field=TARGETS, index=i, length=1)
    return None


@mutation(fires=("TOK001",))
def prompt_targets_ignored(dataset: Dataset, rng: random.Random) -> Place | None:
    """The targets of the first prompt are -100, the label that other frameworks ignore."""
    for view in views(dataset, rng):
        if view.targets and view.spanned and view.trained[0].kind == "prompt":
            length = view.trained[0].length
            view.targets[:length] = [_IGNORED] * length
            return Place(row=view.row, field=TARGETS, index=0, length=length)
    return None


@mutation(fires=("TOK001",))
def vocabulary_of_another_model(dataset: Dataset, rng: random.Random) -> Place | None:
    """A token id is beyond the vocabulary, because the text was tokenised for another model."""
    size = dataset.contract.parameters.vocab_size
    if size is None:
        return None
    for view in views(dataset, rng):
        places = [i for i in range(len(view.tokens) - 1) if _is_next(view, i)]
        if places:
            i = rng.choice(places)
            view.targets[i] = size + rng.randrange(100)
            set_token(view, i + 1, view.targets[i])
            return Place(row=view.row, field=TARGETS, index=i, length=1)
    return None
