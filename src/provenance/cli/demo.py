"""``provenance demo``: the whole story on data that it makes itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from provenance.cli._common import paint_for, width_of

if TYPE_CHECKING:
    from provenance.demo.faults import Fault
    from provenance.demo.ngram import NgramModel
    from provenance.models import Trajectory
    from provenance.report import Report
    from provenance.reports.text import Role

__all__ = ["demo"]

_LEDGER, _DATUMS, _BROKEN = "ledger.db", "datums.jsonl", "broken.jsonl"
#: Tells that the files of a folder are a demo's, and may be replaced by another's.
_MARK: Final = ".provenance-demo"
_OURS: Final = frozenset({_MARK, _DATUMS, _BROKEN, *(_LEDGER + end for end in ("", "-wal", "-shm"))})
#: Logprobs that are shown of a sample.
_SHOWN: Final = 4
_HANG: Final = 12


@click.command()
@click.argument("folder", default="provenance-demo")
def demo(*, folder: str) -> None:
    """Sample, record, build, check, and break a small dataset.

    A character model that comes with the package plays a word game; what it samples is recorded in a ledger,
    made into datums, and checked. Then some datums are broken the way pipelines break them. All files go to
    FOLDER and stay there to be looked at.
    """
    from provenance import engine
    from provenance.demo import data
    from provenance.ledger.sql import SqlLedger
    from provenance.reports.text import count, verdict

    place = _emptied(folder)
    ledger_file, datums_file, broken_file = (str(place / name) for name in (_LEDGER, _DATUMS, _BROKEN))
    with SqlLedger(ledger_file) as ledger:
        model, groups = data.sample_and_record(ledger)
        rollouts = [rollout for group in groups for rollout in group]
        turns = sum(len(rollout.turns) for rollout in rollouts)
        _step("sample", f"{count(turns, 'sequence')} of a word game, from a small character model")
        _show_game(model, rollouts[0])
        _step("record", f"each sequence as it was sampled, in {ledger_file}")
        datums = data.build(groups, place / _DATUMS)
        _step("build", f"{count(len(datums), 'datum')} of {len(rollouts[0].turns)} turns, in {datums_file}")
        options = ["--ledger", ledger_file, "--session", data.SESSION]
        report = engine.check(datums_file, ledger=ledger, session=data.SESSION)
        _step("check", verdict(report), "good" if report.valid else "error")
        _command(["check", datums_file, *options])
        faults = data.break_some(model, ledger, datums, place / _BROKEN)
        _step("break", f"{count(len(faults), 'datum')}, each the way a pipeline does, in {broken_file}")
        report = engine.check(broken_file, ledger=ledger, session=data.SESSION)
        _step("check", verdict(report), "good" if report.valid else "error")
        _command(["check", broken_file, *options])
    _show_faults(faults, report)
    _say("")
    _say("next", role="title")
    _next("see it on its tokens", ["inspect", broken_file, "--line", "2", *options])
    _next("what a rule means", ["explain", "SEQ003"])
    _next("part good from bad", ["check", broken_file, *options, "--write-good", "good.jsonl"])
    _next("check your own data", ["check", "DATUMS", "--ledger", "SEQUENCES", "--session", "ID"])


def _emptied(folder: str) -> Path:
    """The folder, without the files of an earlier demo; one that holds anything else is left alone."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    entries = {entry.name for entry in place.iterdir()}
    foreign = sorted(entries - _OURS if _MARK in entries else entries)
    if foreign:
        raise click.UsageError(f"{folder} holds {foreign[0]!r}, which is not the demo's: name another folder")
    for name in entries - {_MARK}:
        (place / name).unlink()
    (place / _MARK).touch()
    return place


def _say(text: str, *, indent: int = 0, hang: int = 2, role: Role | None = None) -> None:
    from provenance.reports.text import wrap

    paint = paint_for(sys.stdout)
    for line in wrap(text, width_of(sys.stdout), indent=indent, hang=hang) or [""]:
        click.echo(line if role is None else paint(line, role))


def _step(verb: str, text: str, role: Role = "title") -> None:
    _say(f"{verb:<{_HANG - 2}}  {text}", hang=_HANG, role=role)


def _command(arguments: Sequence[str]) -> None:
    _say_whole(f"$ {shlex.join(['provenance', *arguments])}", indent=_HANG)


def _next(why: str, arguments: Sequence[str]) -> None:
    _say(why, indent=2)
    _say_whole(shlex.join(["provenance", *arguments]), indent=6)


def _say_whole(command: str, *, indent: int) -> None:
    """A line that may be copied from the screen: not broken, however narrow that is."""
    from provenance.reports.text import escape

    click.echo(" " * indent + paint_for(sys.stdout)(escape(command), "hint"))


def _show_game(model: NgramModel, rollout: Trajectory) -> None:
    seen = 0
    for turn in rollout.turns:
        prompt, tokens = turn.sequence.prompt_tokens.tolist(), turn.sequence.tokens.tolist()
        asked, answer = model.decode(prompt[seen:]).strip(), model.decode(tokens).strip()
        logprobs = " ".join(f"{logprob:.3f}" for logprob in turn.sequence.logprobs[:_SHOWN])
        _say(f"{asked} {answer}   (logprobs {logprobs} ...)", indent=_HANG)
        seen = len(prompt) + len(tokens)


def _show_faults(faults: Sequence[Fault], report: Report) -> None:
    from provenance.report import Severity
    from provenance.reports.text import escape

    for line, fault in enumerate(faults, 1):
        _say(f"line {line}: {fault.happened}", indent=2, role="title")
        for violation in (v for v in report.violations if v.location.line == line):
            # Without the name of the file and the line, which stand above.
            text = escape(str(violation).split(f"line {line}: ", 1)[1])
            _say(text, indent=6, role="error" if violation.severity == Severity.ERROR else "warning")
            break
