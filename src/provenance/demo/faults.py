"""Valid datums broken the way pipelines break them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong between sampling and training."""

    happened: str
    change: Callable[[Json], None]
    """Does it to a datum of several turns, in place."""
    codes: tuple[str, ...]
    """Rules that find it."""


def _shift_advantages(datum: Json) -> None:
    values = datum["loss_fn_inputs"]["advantages"]["data"]
    values[:] = [*values[1:], 0.0]


def _tokenise_again(datum: Json) -> None:
    span = datum["loss_fn_input_spans"][0]["length"] + 1  # the second sampled token, as a target
    targets, tokens = _targets(datum), datum["model_input"]["chunks"][0]["tokens"]
    # Another id with the same text does not exist among characters; any other id does the same harm.
    targets[span] = tokens[span + 1] = (targets[span] + 1) % (max(targets) + 1)


def _shift_logprobs(datum: Json) -> None:
    values = datum["loss_fn_inputs"]["logprobs"]["data"]
    values[:] = [*values[1:], values[0]]


def _forget_logprobs(datum: Json) -> None:
    values = datum["loss_fn_inputs"]["logprobs"]["data"]
    values[-2] = float("nan")


def _train_on_observation(datum: Json) -> None:
    observation = datum["loss_fn_input_spans"][2]
    start = sum(span["length"] for span in datum["loss_fn_input_spans"][:2])
    advantages = datum["loss_fn_inputs"]["advantages"]["data"]
    advantages[start : start + observation["length"]] = [advantages[start - 1]] * observation["length"]


def _cut(datum: Json) -> None:
    datum["model_input"]["chunks"][0]["tokens"].pop()
    for tensor in datum["loss_fn_inputs"].values():
        tensor["data"].pop()
        tensor["shape"] = [len(tensor["data"])]
    for spans in ("model_input_spans", "loss_fn_input_spans"):
        datum[spans][-1]["length"] -= 1


def _targets(datum: Json) -> list[int]:
    targets: list[int] = datum["loss_fn_inputs"]["target_tokens"]["data"]
    return targets


def _nothing(datum: Json) -> None:
    """The fault lies in when or where its sequences were sampled."""


FAULTS = (
    Fault("the advantages are off by one position", _shift_advantages, ("ADV001", "ADV005")),
    Fault("the text was decoded and tokenised again", _tokenise_again, ("SEQ003", "SEQ004")),
    Fault("the logprobs are off by one position", _shift_logprobs, ("SEQ006",)),
    Fault("a logprob was lost and became NaN", _forget_logprobs, ("VAL001",)),
    Fault("the environment's text is trained on as if sampled", _train_on_observation, ("ADV001",)),
    Fault("the last token was cut off", _cut, ("SPN008",)),
)
FOREIGN = Fault("the script was restarted, in a new session", _nothing, ("SES001",))
STALE = Fault("it was sampled thirty hours ago", _nothing, ("SES002",))
