"""Which rollouts of many files can be trained on, and where their advantages come from."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Literal, TypeAlias

from provenance.builder import group_advantages, refuse_unbuildable, untrained_turns
from provenance.errors import ReadError, SchemaError
from provenance.integrations.rollouts._formats import Claims, Unusable
from provenance.integrations.rollouts._read import Rollout, read
from provenance.models import Trajectory
from provenance.models._base import schema_error

Baseline: TypeAlias = float | Literal["group"]
_Key: TypeAlias = tuple[str, str]


def usable(
    paths: Sequence[str], kind: str, claims: Claims, baseline: Baseline, *, max_line: int
) -> Iterator[Rollout | Unusable]:
    """Yield the rollouts of files that can be trained on, and what cannot; the same at every call.

    Raises:
        ReadError: as `read`.
    """
    seen: dict[_Key, str] = {}
    for path in paths:
        for found in read(path, kind, claims, max_line=max_line):
            if isinstance(found, Unusable):
                yield found
                continue
            fault = _fault(found, seen, baseline)
            if fault is not None:
                yield replace(fault, file=path, line=found.line)
                continue
            if not found.trajectory.turns:
                yield Unusable("no turn", "turns is []", file=path, line=found.line)
            for i in untrained_turns(found.trajectory):
                detail = "nothing was sampled, or for an empty prompt"
                yield Unusable("nothing to train on", detail, f"turns[{i}]", path, found.line)
            yield found


def _fault(rollout: Rollout, seen: dict[_Key, str], baseline: Baseline) -> Unusable | None:
    trajectory = rollout.trajectory
    keys = [(turn.sequence.session_id, turn.sequence.sequence_id) for turn in trajectory.turns]
    for i, key in enumerate(keys):
        if key in seen or key in keys[:i]:
            before = seen.get(key, "earlier in this rollout")
            return Unusable("repeat", f"sequence {key[1]!r} was read already, {before}")
    if takes_baseline(trajectory):
        if trajectory.reward is None:
            return Unusable("no reward", "it has no advantage either")
        if baseline == "group" and trajectory.group_id is None:
            return Unusable(
                "no group", "the baseline is the mean reward of a group: give a number instead (--baseline)"
            )
    try:
        refuse_unbuildable(_with_advantage(trajectory, baseline))
    except SchemaError as error:
        return Unusable("cannot be built", str(error))
    seen |= dict.fromkeys(keys, f"{rollout.file}: line {rollout.line}")
    return None


def _with_advantage(trajectory: Trajectory, baseline: Baseline) -> Trajectory:
    """Return a rollout as it is built, but for the mean of its group, which is not known yet."""
    if not takes_baseline(trajectory):
        return trajectory
    assert trajectory.reward is not None  # noqa: S101 - `_fault` lets no other pass
    advantage = 0.0 if baseline == "group" else trajectory.reward - baseline
    return Trajectory(turns=trajectory.turns, advantage=advantage)  # refuses what float32 cannot hold


def takes_baseline(trajectory: Trajectory) -> bool:
    """Tell whether an advantage comes from the reward; else the turns that are trained on carry their own."""
    untrained = untrained_turns(trajectory)
    return trajectory.advantage is None and any(
        turn.advantage is None for i, turn in enumerate(trajectory.turns) if i not in untrained
    )


class Advantages:
    """Advantages of rollouts: ``add`` sees each once, then ``give`` each once more, in the same order.

    Only the rewards are held. A group lies in one file: frameworks number the tasks of each file from 0.
    """

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        self._rewards: dict[_Key, array[float]] = {}
        self._compared: set[_Key] = set()
        self._given: dict[_Key, Iterator[float]] = {}
        self.groups = 0
        self.equal_groups = 0

    def add(self, rollout: Rollout) -> None:
        """Take the reward of a rollout into the mean of its group, also where it has its own advantage."""
        key = self._group(rollout)
        if key is None:
            return
        assert rollout.trajectory.reward is not None  # noqa: S101 - `_group` has looked
        self._rewards.setdefault(key, array("d")).append(rollout.trajectory.reward)
        if takes_baseline(rollout.trajectory):
            self._compared.add(key)

    def settle(self) -> None:
        """Compute the advantages of the groups, which are complete now."""
        for key in self._rewards.keys() & self._compared:
            try:
                advantages = group_advantages(self._rewards[key].tolist())
            except SchemaError:
                self._given[key] = repeat(math.nan)
                continue
            self.groups += 1
            self.equal_groups += not advantages.any()
            self._given[key] = iter(advantages.tolist())
        self._rewards.clear()

    def give(self, rollout: Rollout) -> Trajectory:
        """Return the trajectory with its advantage.

        Raises:
            SchemaError: float32 cannot hold the advantages of its group.
            ReadError: the rollout was not there when rewards were added.
        """
        trajectory, key = rollout.trajectory, self._group(rollout)
        given = None if key is None else next(self._given.get(key, iter(())), None)
        if self._baseline != "group" or not takes_baseline(trajectory):
            return _with_advantage(trajectory, self._baseline)
        if given is None:
            raise ReadError(rollout.file, "changed while it was read: build again")
        if math.isnan(given):
            text = "the rewards of its group are further from their mean than float32 can hold"
            raise schema_error("VAL001", f"{trajectory.reward!r}, and {text}", path="reward")
        return trajectory.model_copy(update={"advantage": given})

    def _group(self, rollout: Rollout) -> _Key | None:
        """The group in whose mean the rollout's reward counts."""
        reward, group = rollout.trajectory.reward, rollout.trajectory.group_id
        if self._baseline != "group" or reward is None or group is None:
            return None
        return rollout.file, group
