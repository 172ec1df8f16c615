"""NVIDIA NeMo-Gym: a rollout a line, an OpenAI response whose items carry the token ids of the model calls.

Source: NVIDIA-NeMo/Gym. Its model server puts the ids of a call on the last item that the call produced; its
agents return the id and the time of the last call as those of the whole response; its verifiers agent writes
one list of items for each call, or a single item of placeholders where a rollout produced nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from provenance.errors import SchemaError
from provenance.formats._json import dumps
from provenance.formats._problem import RecordError, is_unicode, object_of, required, shown
from provenance.integrations.rollouts._formats import Claims, Unusable
from provenance.models import SampledSequence, Trajectory, Turn

MARK: Final = "response"
SAYS_ALL: Final = False

_IDS: Final = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_MEDIA: Final = ("input_image", "input_audio", "input_file", "image_url")
#: Seconds from 1970 to the year 10000, which no datetime reaches.
_END_OF_TIME: Final = 253_402_300_800

_Item: TypeAlias = Mapping[str, Any]
#: Where in the response, and the item that carries the ids of a model call; None where no item of it does.
_Call: TypeAlias = tuple[str, _Item | None]


def read(record: Mapping[str, Any], claims: Claims) -> Iterator[Trajectory | Unusable]:
    """Yield the rollout of a record, and each model call of it that cannot be trained on.

    A rollout goes on without such a call: the calls after it have what it said in their prompts.
    """
    response = object_of(required(record, MARK, ""), MARK)
    output = _items(response.get("output"), "response.output")
    request = object_of(record.get("responses_create_params") or {}, "responses_create_params")
    medium = _medium(request.get("input"), "responses_create_params.input") or _medium(output, "output")
    if medium:
        yield Unusable("prompt with media", f"{medium}, of which the file holds no chunk to train on")
        return
    calls = list(_calls(output))
    if not calls:
        yield Unusable("no model call", "response.output has no item of a model")
    sampled: dict[int, tuple[str, _Item]] = {}
    for number, (place, item) in enumerate(calls):
        fault = _fault(item)
        if fault is not None:
            yield replace(fault, turn=place)
        elif item is not None:
            sampled[number] = place, item
    if not sampled:
        return
    sampled_at = claims.sampled_at or _moment(response.get("created_at"))
    if sampled_at is None:
        detail = f"response.created_at is {shown(response.get('created_at'))}: say when (--sampled-at)"
        yield Unusable("no time of sampling", detail)
        return
    name = _name(record, response, calls)
    constant = {
        "session_id": claims.session,
        "sampled_at": sampled_at,
        "record_stability_info": claims.record_stability_info,
        "model": _text(response.get("model")),
        "temperature": _parameter("temperature", response, request),
        "top_p": _parameter("top_p", response, request),
    }
    turns = []
    for number, (place, item) in sampled.items():
        lists = zip(("prompt_tokens", "tokens", "logprobs"), map(item.get, _IDS), strict=True)
        fields = {**constant, "sequence_id": f"{name}:{number}", **dict(lists)}
        try:
            turns.append(Turn(sequence=SampledSequence.model_validate(fields)))
        except SchemaError as error:
            yield Unusable("malformed", str(error), place)
    if turns:
        group = _group(record, response)
        yield Trajectory(turns=turns, reward=record.get("reward"), group_id=group, trajectory_id=name)


def _items(value: object, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise RecordError(path, f"{shown(value)}, expected the list of output items")
    return value


def _calls(output: list[Any]) -> Iterator[_Call]:
    """Yield the model calls of a response in their order."""
    if not any(isinstance(item, list) for item in output):
        yield from _calls_among(output, "output")
        return
    for i, items in enumerate(output):
        place = f"output[{i}]"
        # The last call is the one that the list is for, and what is before it the history that it was given.
        *_, last = (place, None), *_calls_among(_items(items, f"response.{place}"), place)
        yield last


def _calls_among(items: list[Any], path: str) -> Iterator[_Call]:
    """Yield each item with ids, and the first item of a stretch where the model spoke and none has any.

    A stretch ends with the item that has ids, and where somebody else spoke. Tool calls right after ids
    are of the same model call: hermes_agent puts ids on the message, and answers precede the next model call.
    """
    lost: str | None = None
    carried = False
    for i, item in enumerate(items):
        place = f"{path}[{i}]"
        fields = object_of(item, f"response.{place}")
        if any(name in fields for name in _IDS):
            yield place, fields
            lost, carried = None, True
        elif _is_tool_call(fields) and carried:
            continue
        elif _is_tool_call(fields) or fields.get("type") == "reasoning" or fields.get("role") == "assistant":
            lost = lost or place
        else:
            if lost:
                yield lost, None
            lost, carried = None, False
    if lost:
        yield lost, None


def _is_tool_call(item: _Item) -> bool:
    kind = item.get("type")
    return isinstance(kind, str) and kind.endswith("_call")


def _fault(item: _Item | None) -> Unusable | None:
    """Say why lists that are well-formed, or not there, hold nothing that was sampled."""
    if item is None:
        return Unusable("no token ids", "no item of this model call has any")
    prompt, tokens, logprobs = map(item.get, _IDS)
    for name, ids in zip(_IDS, (prompt, tokens), strict=False):
        if ids is None:
            return Unusable("no token ids", f"{name} is missing")
        if ids == []:
            return Unusable("empty token ids", f"{name} is []")
    if logprobs is None or logprobs == []:
        return Unusable("no logprobs", f"generation_log_probs is {shown(logprobs)}")
    if isinstance(prompt, list) and isinstance(tokens, list) and not any(prompt) and not any(tokens):
        return Unusable("placeholder token ids", "all ids of prompt and generation are 0")
    return None


def _name(record: _Item, response: _Item, calls: list[_Call]) -> str:
    """The rollout's id: the response's, and a digest, because agents number responses as they number tasks.

    The digest is of what was sampled, so that the same rollout has the same id wherever it is read, also
    where its reward was changed.
    """
    sampled = [[item.get(name) for name in _IDS] for _, item in calls if item is not None]
    indices = [record.get("_ng_task_index"), record.get("_ng_rollout_index")]
    digest = hashlib.blake2b(dumps(indices) + dumps(sampled), digest_size=8).hexdigest()
    given = _text(response.get("id"))
    return digest if given is None else f"{given}-{digest}"


def _group(record: _Item, response: _Item) -> str | None:
    """The task: rollouts of the same task are compared. Sources: ng_collect_rollouts, the verifiers agent."""
    given = record.get("_ng_task_index")
    if given is None:
        given = response.get("group_id")
    if given is not None and not isinstance(given, int | str):
        raise RecordError("_ng_task_index", f"{shown(given)} is neither an integer nor a string")
    return None if given is None else str(given)


def _medium(items: object, path: str) -> str | None:
    """Where a message, or what a tool returned, has a part that is no text."""
    for i, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, list):
            found = _medium(item, f"{path}[{i}]")
            if found:
                return found
        for field in ("content", "output"):
            parts = item.get(field) if isinstance(item, Mapping) else None
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, Mapping) and part.get("type") in _MEDIA:
                    return f"{shown(part['type'])} in {path}[{i}].{field}"
    return None


def _moment(created_at: object) -> datetime | None:
    """The time of a response; None for none, which some agents write as 0."""
    if isinstance(created_at, bool) or not isinstance(created_at, (int, float)):
        return None
    return datetime.fromtimestamp(created_at, UTC) if 0 < created_at < _END_OF_TIME else None


def _parameter(name: str, response: _Item, request: _Item) -> Any:
    value = response.get(name)
    return request.get(name) if value is None else value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and is_unicode(value) else None
