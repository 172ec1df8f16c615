"""``provenance build``: datums and sequences from the rollouts of a framework."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import click

from provenance.cli._common import moment_of, paint_for, width_of
from provenance.cli._options import MAX_LINE, Integer, complete_files

if TYPE_CHECKING:
    from provenance.integrations.rollouts._build import Built
    from provenance.reports.text import Paint

__all__ = ["build"]


def _complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    from provenance.integrations.rollouts import names

    return [name for name in names() if name.startswith(incomplete)]


def _format(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from provenance.integrations.rollouts import names

    if value not in names():
        text = f"{value!r} is none of {', '.join(map(repr, names()))}"
        raise click.BadParameter(text, ctx=ctx, param=param)
    return value


def _baseline(ctx: click.Context, param: click.Parameter, value: str) -> float | Literal["group"]:
    import math

    if value == "group":
        return "group"
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise click.BadParameter(f"{value!r} is neither 'group' nor a finite number", ctx=ctx, param=param)
    return number


@click.command()
@click.argument("rollouts", nargs=-1, required=True, shell_complete=complete_files)
@click.option(
    "--from",
    "kind",
    required=True,
    callback=_format,
    metavar="FORMAT",
    shell_complete=_complete_formats,
    help="What wrote ROLLOUTS: nemo-gym, or turns, this package's own.",
)
@click.option(
    "--datums",
    required=True,
    metavar="PATH",
    shell_complete=complete_files,
    help="File that gets the datums.",
)
@click.option(
    "--sequences",
    required=True,
    metavar="PLACE",
    shell_complete=complete_files,
    help="File that gets what was sampled, or ledger (a database) that records it.",
)
@click.option("--session", metavar="ID", help="The session that sampled.")
@click.option(
    "--sampled-at",
    callback=moment_of,
    metavar="RFC3339",
    help="When all of it was sampled.  [default: what the rollouts say]",
)
@click.option(
    "--record-stability-info",
    is_flag=True,
    help="The sampling client asked for it; stable_reinforce needs it.",
)
@click.option(
    "--baseline",
    callback=_baseline,
    default="group",
    show_default=True,
    metavar="group|NUMBER",
    help="Taken from a reward to get an advantage; group is the mean reward of a task's rollouts.",
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--max-examples",
    type=Integer(min=0),
    metavar="N",
    default=10,
    show_default=True,
    help="Faults of each kind to show; all are counted.",
)
@MAX_LINE
def build(
    *,
    rollouts: tuple[str, ...],
    kind: str,
    datums: str,
    sequences: str,
    session: str | None,
    sampled_at: datetime | None,
    record_stability_info: bool,
    baseline: float | Literal["group"],
    format_: str,
    max_examples: int,
    max_line: int,
) -> int:
    """Build datums of ROLLOUTS, files that a framework wrote while sampling.

    ROLLOUTS are paths, or patterns like 'rollouts/*.jsonl', of lines of JSON.
    What cannot be used is shown and makes the exit code 1; the rest is
    written. Check it with provenance check DATUMS --ledger SEQUENCES.
    """
    from provenance.integrations.rollouts._build import build as build_files

    built = build_files(
        rollouts,
        kind=kind,
        datums=datums,
        sequences=sequences,
        session=session,
        sampled_at=sampled_at,
        record_stability_info=record_stability_info,
        baseline=baseline,
        max_examples=max_examples,
        max_line=max_line,
    )
    if format_ == "json":
        from dataclasses import asdict

        from provenance.reports.json import dumps

        sys.stdout.write(dumps(asdict(built), indent=2) + "\n")
    else:
        lines = _lines(built, width_of(sys.stdout), paint_for(sys.stdout))
        sys.stdout.writelines(line + "\n" for line in lines)
    return int(bool(built.unusable))


def _lines(built: Built, width: int | None, paint: Paint) -> Iterator[str]:
    from provenance.reports.text import clip, count, escape, wrap

    for reason, number in built.unusable.items():
        for line in wrap(f"not used, {reason}: {number:,}", width, hang=0):
            yield paint(line, "error")
        shown = [fault for fault in built.examples if fault.reason == reason]
        for fault in shown:
            yield from wrap(escape(clip(str(fault))), width, indent=2, hang=4)
        if more := number - len(shown):
            yield f"  ... and {more:,} more"
        yield ""
    if built.equal_groups:
        text = (
            f"{built.equal_groups:,} of {count(built.groups, 'group')} have equal rewards, or one rollout: "
            "their advantages are 0"
        )
        for line in wrap(text, width, hang=0):
            yield paint(line, "warning")
        yield ""
    written = [
        count(built.rollouts, "rollout"),
        count(built.datums, "datum"),
        count(built.sequences, "sequence"),
    ]
    unused = sum(built.unusable.values())
    outcome = ", ".join([*written, f"{unused:,} not used"])
    if not built.datums:
        outcome = f"nothing could be used, nothing was written: {unused:,} not used"
    for line in wrap(outcome, width, hang=0):
        yield paint(line, "error" if unused else "good")
