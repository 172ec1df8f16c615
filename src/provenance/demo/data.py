"""The demo's files: a ledger of what was sampled, datums made from it, and a broken copy of some."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from provenance.builder import build_group
from provenance.demo.faults import FAULTS, FOREIGN, STALE, Fault
from provenance.demo.game import Sampler, play
from provenance.demo.ngram import NgramModel
from provenance.formats import write_datums
from provenance.ledger import Ledger, recorded_sequences
from provenance.ledger.recorder import Recorder
from provenance.models import Datum, SampledSequence, Trajectory

SESSION: Final = "demo"
_EARLIER_SESSION: Final = "demo-before-the-restart"
_SEED: Final = 7
_GROUPS: Final = 12


def sample_and_record(ledger: Ledger) -> tuple[NgramModel, list[list[Trajectory]]]:
    """Fit the model and play; the same characters each time, recorded at the time it is."""
    text = files("provenance.demo").joinpath("corpus.txt").read_text(encoding="utf-8")
    model = NgramModel(text, seed=_SEED)
    return model, play(_sampler(model, ledger), model, _GROUPS)


def build(groups: Sequence[Sequence[Trajectory]], path: Path) -> list[Datum]:
    """Datums of all rollouts, written to a file."""
    datums = [datum for group in groups for datum in build_group(group).datums]
    write_datums(datums, path)
    return datums


def break_some(model: NgramModel, ledger: Ledger, datums: Sequence[Datum], path: Path) -> list[Fault]:
    """Write datums broken in one way each; the faults, in the order of the lines."""
    scored = [datum for datum in datums if datum.loss_fn_inputs["advantages"].data.any()]
    broken: list[dict[str, Any]] = [datum.model_dump(mode="json") for datum in scored[: len(FAULTS)]]
    for fault, datum in zip(FAULTS, broken, strict=True):
        fault.change(datum)
    yesterday = datetime.now(UTC) - timedelta(hours=30)
    elsewhere = _sampler(model, ledger, session_id=_EARLIER_SESSION)
    before = _sampler(model, ledger, clock=lambda: yesterday)
    for sampler in (elsewhere, before):
        (group,) = play(sampler, model, 1)
        broken.append(build_group(group).datums[0].model_dump(mode="json"))
    write_datums(broken, path)
    return [*FAULTS, FOREIGN, STALE]


def _sampler(model: NgramModel, ledger: Ledger, *, session_id: str = SESSION, **changes: Any) -> Sampler:
    known: dict[str, Any] = {"session_id": session_id, "record_stability_info": True, "model": "6-gram"}
    recorder = Recorder(lambda prompt, n, _: model.sample(prompt, n), ledger, **known | changes)

    def sample(prompt: list[int], num_samples: int) -> list[SampledSequence]:
        samples = recorder.sample(prompt, num_samples)
        return recorded_sequences(ledger, [s.sequence_id for s in samples], session_id)

    return sample
