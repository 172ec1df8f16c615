"""Real rollouts: the datums that the official cookbook made of them, built again from their sequences."""

from __future__ import annotations

from itertools import groupby

import pytest
from test_rollouts import FOLDER, NAMES, lines

from provenance import Datum, SampledSequence, Trajectory, Turn
from provenance.builder import build_datums

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason=f"{FOLDER} is not here")


def trajectory_name(sequence_id: str) -> str:
    """The sequences of a rollout are called NAME:0, NAME:1 and so on."""
    return sequence_id.rpartition(":")[0]


@pytest.mark.parametrize("name", NAMES)
def test_datums_are_built_as_they_are(name: str) -> None:
    datums = [Datum.model_validate(datum) for datum in lines(name, "datums")]
    advantages = {
        trajectory_name(span.sequence_id): max(datum.loss_fn_inputs["advantages"].tolist(), key=abs)
        for datum in datums
        for span in datum.model_input_spans or ()
    }
    sequences = map(SampledSequence.model_validate, lines(name, "sequences"))
    built = [
        datum
        for rollout, turns in groupby(sequences, key=lambda s: trajectory_name(s.sequence_id))
        for datum in build_datums(
            Trajectory(turns=[Turn(sequence=s) for s in turns], advantage=advantages[rollout])
        )
    ]
    assert len(built) == len(datums) > 0
    for ours, theirs in zip(built, datums, strict=True):
        assert ours == theirs
