"""``provenance generate``: datums for tests, valid or broken in one way."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from provenance.cli._common import moment_of, say
from provenance.cli._options import LOSS, Integer, complete_files, complete_rules, configured, contract_of

if TYPE_CHECKING:
    from provenance.generate import Generated

__all__ = ["generate"]


@click.command()
@click.option("-n", "number", type=Integer(min=1), required=True, metavar="N", help="How many datums.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Chooses all that varies.")
@click.option(
    "--output",
    required=True,
    metavar="PATH",
    shell_complete=complete_files,
    help="File that gets the datums; - is JSONL on stdout.",
)
@click.option(
    "--ledger", metavar="PATH", shell_complete=complete_files, help="File that gets what was sampled."
)
@click.option(
    "--break",
    "code",
    metavar="CODE",
    shell_complete=complete_rules,
    help="Break this rule, once, and no other where that can be.",
)
@LOSS
@configured
@click.option(
    "--turns",
    type=Integer(min=1),
    default=3,
    show_default=True,
    metavar="N",
    help="At most, of a datum.",
)
@click.option(
    "--tokens",
    type=Integer(min=4),
    default=96,
    show_default=True,
    metavar="N",
    help="At most, of a datum, about.",
)
@click.option("--images", is_flag=True, help="Each datum starts with an image.")
@click.option("--session", metavar="ID", help="The session that sampled.  [default: session-1]")
@click.option(
    "--now",
    callback=moment_of,
    metavar="RFC3339",
    help="When the data are valid.  [default: 2026-01-02T12:00:00Z]",
)
@click.option("--no-progress", "-q", "quiet", is_flag=True, help="No notes.")
def generate(
    *,
    number: int,
    seed: int,
    output: str,
    ledger: str | None,
    code: str | None,
    loss: str | None,
    config: str | None,
    turns: int,
    tokens: int,
    images: bool,
    session: str | None,
    now: datetime | None,
    quiet: bool,
) -> int:
    """Make datums for tests, and the record of what was sampled for them.

    The names' endings tell the formats, as for convert. The same seed makes
    the same data. How to check them is said on stderr, and with --break also
    what was broken, and where.
    """
    if ledger == "-":
        raise click.UsageError(f"--ledger {ledger!r} is no file of its own: name another")

    from provenance.ledger.place import is_database

    if ledger is not None and is_database(ledger):
        raise click.UsageError(
            f"--ledger {ledger!r} would be a database: name a file, such as sequences.jsonl, for provenance "
            "ledger import"
        )
    from provenance import generate as library

    upper = None if code is None else code.upper()
    contract = None if loss is None and config is None else contract_of(loss, config)
    _refuse_unseen(upper, ledger)
    made = library.generate(
        number,
        seed=seed,
        contract=contract,
        break_=upper,
        turns=turns,
        tokens=tokens,
        images=images,
        session=library.SESSION if session is None else session,
        now=library.NOW if now is None else now,
    )
    made.dataset.write(None if output == "-" else output, ledger)
    if output == "-":
        sys.stdout.buffer.write(made.dataset.to_jsonl())
    if not quiet:
        _tell(made, upper, output, ledger, config)
    return 0


def _refuse_unseen(code: str | None, ledger: str | None) -> None:
    """What only the ledger shows is not broken without one."""
    from provenance.rules import registry

    rule = registry().get(code or "")
    if ledger is None and rule is not None and "ledger" in rule.needs:
        raise click.UsageError(f"--break {code} is seen with a ledger only: name a file for it with --ledger")


def _tell(made: Generated, code: str | None, output: str, ledger: str | None, config: str | None) -> None:
    from provenance.formats import is_arrow
    from provenance.reports.text import count

    dataset = made.dataset
    sequences = f", {count(len(dataset.sequences or ()), 'sequence')} to {ledger}" if ledger else ""
    say("note", f"{count(len(dataset.datums), 'datum')} written to {output}{sequences}")
    if made.mutation is not None and made.place is not None:
        place, line = made.place, None
        if place.row is not None and not is_arrow(output):
            line = place.row + 1
        where = place.location(file=None if place.row is None else output, line=line)
        sequence = f" (sequence {place.sequence_id!r})" if place.sequence_id is not None else ""
        say("note", f"{code} is broken by {made.mutation.name}: {str(where) or 'the dataset'}{sequence}")
        others = [other for other in sorted(dataset.report(max_examples=0).counts) if other != code]
        if others:
            say("note", f"also reported: {', '.join(others)}")
    say("hint", shlex.join(["provenance", "check", *_check_arguments(made, code, output, ledger, config)]))


def _check_arguments(
    made: Generated, code: str | None, output: str, ledger: str | None, config: str | None
) -> Iterator[str]:
    """Arguments of the check that finds what was broken, and nothing else."""
    dataset = made.dataset
    yield output
    if ledger is not None:
        yield from ("--ledger", ledger)
    if config is not None:
        yield from ("--config", config)
    elif dataset.contract.loss.name != "stable_reinforce":
        yield from ("--loss", dataset.contract.loss.name)
    yield from ("--session", str(dataset.session), "--now", str(dataset.now))
    if made.mutation is not None and dataset.contract.parameters.max_tokens is not None:
        yield from ("--max-tokens", str(dataset.contract.parameters.max_tokens))
    if code is not None and dataset.contract.severities[code] == "warning":
        yield from ("--fail-on", "warning")
    for key, value in dataset.loss_config.items():
        yield from ("--loss-config", f"{key}={json.dumps(value)}")
