"""Valid worlds: small datums as pipelines build them, and the ledger of what was sampled; seeded."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from oracle.world import OPTIONAL, PARAMETERS, REQUIRED, TARGETS, Json, World, float32, moment

NOW = "2026-01-02T12:00:00Z"
SESSION = "session-1"
IMAGE = -1
#: (token or IMAGE, kind, sequence id, position): one place of a conversation, and where it comes from.
Place = tuple[int, str, str, int]
LOSSES = ("stable_reinforce",) * 6 + tuple(loss for loss in REQUIRED if loss != "stable_reinforce")


def time_text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def world(rng: Random, size: int) -> World:
    """A valid dataset of one loss, and every record that it names."""
    loss = rng.choice(LOSSES)
    datums, sequences, numbers = list[Json](), list[Json](), count()
    for _ in range(size):
        datum, sampled = _datum(rng, loss, numbers)
        datums.append(datum)
        sequences += sampled
    return World(
        datums=datums,
        sequences=sequences if rng.random() < 0.92 else None,
        session=SESSION if rng.random() < 0.9 else None,
        now=NOW,
        loss=loss,
        parameters=_parameters(rng),
    )


def _parameters(rng: Random) -> Json:
    chosen: Json = {"placeholder_run": rng.choice((2, 3, 32)), "foreign_run": rng.choice((2, 4))}
    options: Json = {
        "vocab_size": 1000,
        "max_tokens": rng.randint(5, 40),
        "tolerance": rng.choice((0.0, 1e-4, 0.5)),
        "logprob_abs": rng.choice((0.0, 1e-3, 0.25)),
        "logprob_rel": rng.choice((0.0, 0.125)),
        "foreign_logprobs": rng.choice((0.25, 1.0)),
        "window": rng.choice((3600, 86400, 90000)),
        "margin": rng.choice((0, 60, 3600)),
        "skew": rng.choice((0, 300)),
        "advantage_limit": rng.choice((1.0, 2.5)),
    }
    assert {*options, *chosen} < {*PARAMETERS}
    chosen |= {name: value for name, value in options.items() if rng.random() < 0.12}
    if rng.random() < 0.5:
        chosen |= {"learner_version": rng.randint(0, 6), "max_policy_lag": rng.randint(0, 3)}
    return chosen


def token(rng: Random) -> int:
    return rng.randint(2, 60)


def logprob(rng: Random) -> float:
    kind = rng.random()
    if kind < 0.1:
        return 0.0
    if kind < 0.15:
        return -0.0
    return float32(-rng.randint(1, 24) / 8 if kind < 0.6 else -rng.expovariate(0.7))


def _record(rng: Random, sequence_id: str, prompt: list[int], size: int) -> Json:
    age = timedelta(seconds=rng.randint(0, 7200))
    record: Json = {
        "sequence_id": sequence_id,
        "session_id": SESSION,
        "prompt_tokens": list(prompt),
        "tokens": [token(rng) for _ in range(size)],
        "logprobs": [logprob(rng) for _ in range(size)],
        "sampled_at": time_text(moment(NOW) - age),
        "record_stability_info": True,
    }
    if rng.random() < 0.5:
        record["last_used_at"] = time_text(moment(NOW) - age / 2) if rng.random() < 0.8 else None
    if rng.random() < 0.3:
        record |= {
            "temperature": rng.choice((None, 1.0, 1)),
            "top_p": 1.0,
            "top_k": rng.choice((None, 0, -1)),
        }
    if rng.random() < 0.4:
        record["policy_version"] = str(rng.randint(0, 6))
    return record


def _datum(rng: Random, loss: str, numbers: Any) -> tuple[Json, list[Json]]:
    places: list[Place] = []
    scores: list[float] = []
    logprobs: list[float] = []
    sequences: list[Json] = []
    for turn in range(rng.choice((1, 1, 2, 2, 3))):
        sequence_id = f"s:{next(numbers)}"
        observed = [token(rng) for _ in range(rng.randint(1, 6))]
        if turn == 0 and rng.random() < 0.15:
            at = rng.randint(0, len(observed))
            observed[at:at] = [IMAGE] * rng.randint(1, 3)
        prompt = [place[0] for place in places] + observed
        record = _record(rng, sequence_id, prompt, rng.choice((1, 2, 3, 4, 5, 6)))
        sequences.append(record)
        source = sequence_id
        if rng.random() < 0.15:
            source = f"{sequence_id}/sibling"
            sequences.append(_record(rng, source, prompt, 1))
        places += [(t, "prompt", source, len(places) + i) for i, t in enumerate(observed)]
        places += [(t, "sampled", sequence_id, i) for i, t in enumerate(record["tokens"])]
        advantage = rng.choice((0.0, 0.5, -0.5, 1.0, -2.25))
        scores += [0.0] * len(observed) + [advantage] * len(record["tokens"])
        logprobs += [0.0] * len(observed) + record["logprobs"]
    datum: Json = {"model_input": {"chunks": _chunks(rng, [place[0] for place in places[:-1]])}}
    targets = [0 if place[0] == IMAGE else place[0] for place in places[1:]]
    if rng.random() < 0.1:
        targets = [t if place[1] == "sampled" else 0 for t, place in zip(targets, places[1:], strict=True)]
    datum["loss_fn_inputs"] = _inputs(rng, loss, targets, logprobs[1:], scores[1:])
    if loss == "stable_reinforce" or rng.random() < 0.8:
        datum["model_input_spans"] = _spans(rng, places[:-1])
        datum["loss_fn_input_spans"] = _spans(rng, places[1:])
    if rng.random() < 0.1:
        datum |= {"datum_id": "d", "group_id": None, "metadata": {"reward": 1}}
    return datum, sequences


def _chunks(rng: Random, tokens: list[int]) -> list[Json]:
    chunks: list[Json] = []
    for i, t in enumerate(tokens):
        same = i > 0 and (t == IMAGE) == (tokens[i - 1] == IMAGE) and rng.random() > 0.05
        if t == IMAGE:
            if same:
                chunks[-1]["expected_tokens"] += 1
            else:
                image = {"type": "image", "format": "png", "data": "iVBORw0KGgo=", "expected_tokens": 1}
                chunks.append(image)
        elif same:
            chunks[-1]["tokens"].append(t)
        else:
            chunks.append({"type": "encoded_text", "tokens": [t]})
    return chunks


def _spans(rng: Random, places: list[Place]) -> list[Json]:
    spans: list[Json] = []
    for _, kind, sequence_id, position in places:
        last = spans[-1] if spans else None
        if last and (last["type"], last["sequence_id"]) == (kind, sequence_id):
            last["length"] += 1
        else:
            spans.append({"type": kind, "sequence_id": sequence_id, "offset": position, "length": 1})
    for span in spans:
        if span["offset"] == 0 and rng.random() < 0.05:
            del span["offset"]
    return spans


def tensor(rng: Random, values: list[Any], dtype: str = "float32") -> Json:
    made: Json = {"data": values, "dtype": dtype}
    if rng.random() < 0.7:
        made["shape"] = [len(values)]
    return made


def _inputs(rng: Random, loss: str, targets: list[int], logprobs: list[float], scores: list[float]) -> Json:
    if loss == "custom":
        return {
            TARGETS: tensor(rng, targets, "int64"),
            "scale": {"data": [0.5], "dtype": "float32", "shape": []},
            "pairs": {"data": [0.25] * (2 * len(targets)), "dtype": "float32", "shape": [len(targets), 2]},
        }
    if loss == "cross_entropy":
        return _weighted(rng, targets, [1.0 if score else 0.0 for score in scores])
    made = {
        TARGETS: tensor(rng, targets, "int64"),
        "logprobs": tensor(rng, logprobs),
        "advantages": tensor(rng, scores),
    }
    if loss == "gspo":
        made["sequence_ratio_mask"] = tensor(rng, [1.0] + [float(score != 0) for score in scores[1:]])
    for name in OPTIONAL.get(loss, ()):
        if rng.random() < 0.2:
            made[name] = tensor(rng, [0.75 if "low" in name else 1.25] * len(targets))
    return made


def _weighted(rng: Random, targets: list[int], weights: list[float]) -> Json:
    columns = rng.choice((0, 0, 0, 1, 2, 3))
    if not columns:
        return {TARGETS: tensor(rng, targets, "int64"), "weights": tensor(rng, weights)}
    size = [len(targets), columns]
    alternatives = [t if k == 0 else token(rng) for t in targets for k in range(columns)]
    spread = [w / columns for w in weights for _ in range(columns)]
    made: Json = {
        TARGETS: {"data": alternatives, "dtype": "int64", "shape": size},
        "weights": {"data": spread, "dtype": "float32", "shape": list(size)},
    }
    if rng.random() < 0.4:
        made["weights"] = sparse(spread, size)
    return made


def sparse(values: list[float], size: list[int]) -> Json:
    """The CSR form of a dense matrix."""
    stored = [(at // size[1], at % size[1], value) for at, value in enumerate(values) if value]
    return {
        "data": [value for _, _, value in stored],
        "dtype": "float32",
        "shape": list(size),
        "sparse_crow_indices": [sum(row < i for row, _, _ in stored) for i in range(size[0] + 1)],
        "sparse_col_indices": [column for _, column, _ in stored],
    }
