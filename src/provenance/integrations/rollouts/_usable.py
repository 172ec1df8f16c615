"""Which rollouts of many files can be trained on, and where their advantages come from."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from provenance.builder import group_advantages, untrained_turns
from provenance.errors import ReadError
from provenance.integrations.rollouts._formats import Claims, Unusable
from provenance.integrations.rollouts._read import Rollout, read
from provenance.models import Trajectory

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
    seen |= dict.fromkeys(keys, f"{rollout.file}: line {rollout.line}")
    return None


def takes_baseline(trajectory: Trajectory) -> bool:
    """Tell whether the advantage comes from the reward; else the rollout carries its own."""
    own = bool(trajectory.turns) and all(turn.advantage is not None for turn in trajectory.turns)
    return trajectory.advantage is None and not own


class Advantages:
    """Advantages of rollouts: ``add`` sees each once, then ``give`` each once more, in the same order.

    Only the rewards are held. A group lies in one file: frameworks number the tasks of each file from 0.
    """

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        self._rewards: dict[_Key, array[float]] = {}
        self._given: dict[_Key, Iterator[float]] = {}
        self.groups = 0
        self.equal_groups = 0

    def add(self, rollout: Rollout) -> None:
        """Take the reward of a rollout into the mean of its group."""
        reward, group = rollout.trajectory.reward, rollout.trajectory.group_id
        if self._baseline == "group" and takes_baseline(rollout.trajectory):
            assert reward is not None and group is not None  # noqa: S101, PT018 - `usable` lets no other pass
            self._rewards.setdefault((rollout.file, group), array("d")).append(reward)

    def settle(self) -> None:
        """Compute the advantages of the groups, which are complete now."""
        self.groups = len(self._rewards)
        for key, rewards in self._rewards.items():
            advantages = group_advantages(rewards.tolist())
            self.equal_groups += not advantages.any()
            self._given[key] = iter(advantages.tolist())
        self._rewards.clear()

    def give(self, rollout: Rollout) -> Trajectory:
        """Return the trajectory with its advantage.

        Raises:
            SchemaError: float32 cannot hold it.
            ReadError: the rollout was not there when rewards were added.
        """
        trajectory = rollout.trajectory
        if not takes_baseline(trajectory):
            return trajectory
        assert trajectory.reward is not None  # noqa: S101 - `usable` lets no other pass
        if self._baseline == "group":
            advantage = next(self._given.get((rollout.file, trajectory.group_id or ""), iter(())), None)
            if advantage is None:
                raise ReadError(rollout.file, "changed while it was read: build again")
        else:
            advantage = trajectory.reward - self._baseline
        return trajectory.model_copy(update={"advantage": advantage})
