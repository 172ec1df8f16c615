"""``provenance ledger``: what was sampled, in a database."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from provenance.cli._common import moment_of, paint_for, width_of
from provenance.cli._options import MAX_LINE, complete_files

if TYPE_CHECKING:
    from provenance.ledger.sql import SqlLedger
    from provenance.ledger.stats import LedgerStats
    from provenance.reports.text import Paint

__all__ = ["ledger"]

#: Sessions that a message names.
_NAMED = 5
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    if value is None:
        return None
    parts = re.fullmatch(r"(\d{1,9})([smhd])", value, re.ASCII)
    if parts is None:
        raise click.BadParameter(f"{value!r} is no time such as 30m, 24h or 7d", ctx=ctx, param=param)
    return timedelta(**{_UNITS[parts[2]]: int(parts[1])})


_LEDGER = click.argument("place", metavar="LEDGER", shell_complete=complete_files)
_FORMAT = click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@click.group(no_args_is_help=False)
def ledger() -> None:
    """Keep what was sampled in a database that many processes share.

    LEDGER is a SQLite file (.db, .sqlite, .sqlite3) or an address such as
    postgresql://user@host/name. Check data against it with
    provenance check DATA --ledger LEDGER.
    """


@ledger.command("import")
@_LEDGER
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@MAX_LINE
def import_(*, place: str, files: tuple[str, ...], max_line: int) -> None:
    """Record the sequences of FILES, all or none.

    FILES are files of sampled sequences, patterns, other ledgers, or - for
    JSONL on stdin. Sequences that LEDGER holds already must be the same. A
    ledger that does not exist is created. Of another ledger the times come
    along, but not the number of uses, which files do not hold.
    """
    from provenance.cli._ledger_files import import_files
    from provenance.reports.text import count

    new, repeats = import_files(place, list(files), max_line=max_line)
    click.echo(f"{count(new, 'new sequence')}, {count(repeats, 'repeat')}")


@ledger.command()
@_LEDGER
@click.argument("file", shell_complete=complete_files)
@click.option("--session", metavar="ID", help="Only the sequences of this session.")
def export(*, place: str, file: str, session: str | None) -> None:
    """Write the sequences of LEDGER to FILE: JSONL, Parquet or Arrow, as its name says."""
    from provenance.cli._ledger_files import export_file
    from provenance.reports.text import count

    with _open(place) as opened:
        _require(opened, session)
        written = export_file(opened, file, session)
    click.echo(count(written, "sequence"))


@ledger.command()
@_LEDGER
@_FORMAT
def stats(*, place: str, format_: str) -> None:
    """Say what LEDGER holds, session by session, and what was used more than once."""
    from dataclasses import asdict

    from provenance.reports.json import dumps

    with _open(place) as opened:
        found = opened.stats()
    if format_ == "json":
        sessions = [
            asdict(session)
            | {"first_sampled_at": _rfc3339(session.first_sampled_at), "last_use": _rfc3339(session.last_use)}
            for session in found.sessions
        ]
        totals = {"sequences": found.sequences, "used_again": found.used_again}
        sys.stdout.write(dumps(asdict(found) | totals | {"sessions": sessions}, indent=2) + "\n")
    else:
        lines = _stats_lines(found, width_of(sys.stdout), paint_for(sys.stdout))
        sys.stdout.writelines(line + "\n" for line in lines)


def _rfc3339(moment: datetime) -> str:
    """The time in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _stats_lines(found: LedgerStats, width: int | None, paint: Paint) -> Iterator[str]:
    from provenance.reports.text import count, escape, wrap

    size = f"{found.stored_bytes / 1e6:,.1f} MB"
    prompts = f"{count(found.prompts, 'prompt')} in {count(found.prompt_blocks, 'block')}"
    total = f"{count(found.sequences, 'sequence')} of {count(len(found.sessions), 'session')}"
    yield from wrap(f"{total}, {prompts}, {size}", width)
    for session in found.sessions:
        yield ""
        for line in wrap(f"session {escape(repr(session.session_id))}", width):
            yield paint(line, "title")
        held = [
            count(session.sequences, "sequence"),
            f"{session.recorded:,} with stability info",
            count(session.sampled_tokens, "sampled token"),
        ]
        used = [f"used: {session.unused:,} never", f"{session.used_once:,} once"]
        again = f"{session.used_again:,} more than once"
        times = f"sampled since {_rfc3339(session.first_sampled_at)}, last use {_rfc3339(session.last_use)}"
        for text in (", ".join(held), ", ".join([*used, again]), times):
            for line in wrap(text, width, indent=2, hang=2):
                yield line.replace(again, paint(again, "warning")) if session.used_again else line


@ledger.command()
@_LEDGER
@click.option("--within", callback=_duration, default="1h", show_default=True, metavar="TIME")
@click.option("--window", callback=_duration, default="24h", show_default=True, metavar="TIME")
@click.option("--now", callback=moment_of, metavar="RFC3339", help="[default: the clock's]")
@click.option("--session", metavar="ID", help="Only the sequences of this session.")
@_FORMAT
def expiring(
    *,
    place: str,
    within: timedelta,
    window: timedelta,
    now: datetime | None,
    session: str | None,
    format_: str,
) -> None:
    """List the sequences that soon are too old to train on, the oldest first.

    A sequence that was recorded for training (with stability info) expires
    when it was neither sampled nor used for longer than --window.
    """
    from provenance.reports.json import dumps
    from provenance.reports.text import count, escape, wrap

    moment = now or datetime.now(UTC)
    oldest, before, until = _shifted(moment, -window, within - window, within)
    expired = 0
    soon: list[dict[str, str]] = []
    with _open(place) as opened:
        _require(opened, session)
        for sequence_id, session_id, last_use in opened.last_uses(before, session):
            if last_use < oldest:
                expired += 1
                continue
            times = {"last_use": _rfc3339(last_use), "expires_at": _rfc3339(last_use + window)}
            soon.append({"sequence_id": sequence_id, "session_id": session_id, **times})
    if format_ == "json":
        found = {"now": _rfc3339(moment), "expired": expired, "expiring": soon}
        sys.stdout.write(dumps(found, indent=2) + "\n")
        return
    lines = [
        escape(f"{entry['expires_at']}  {entry['sequence_id']!r} of session {entry['session_id']!r}")
        for entry in soon
    ]
    lines.append(f"{count(len(soon), 'sequence')} to expire by {_rfc3339(until)}, {expired:,} expired before")
    width = width_of(sys.stdout)
    sys.stdout.writelines(part + "\n" for line in lines for part in wrap(line, width))


@ledger.command()
@_LEDGER
@click.argument("ids", nargs=-1)
@click.option("--session", metavar="ID", required=True, help="The session that sampled them.")
@click.option(
    "--from",
    "data",
    metavar="DATUMS",
    shell_complete=complete_files,
    help="All sequences that the datums of this file train on.",
)
@click.option("--at", callback=moment_of, metavar="RFC3339", help="When they were used.  [default: now]")
def renew(*, place: str, ids: tuple[str, ...], session: str, data: str | None, at: datetime | None) -> None:
    """Note that a training request used sequences, which restarts their day.

    Name them by IDS, or by the file of datums that was sent.
    """
    from provenance.cli._ledger_files import trained_on
    from provenance.reports.text import count

    if bool(ids) == (data is not None):
        raise click.UsageError("expected either IDS or --from DATUMS")
    named = list(ids) if data is None else trained_on(data)
    with _open(place, writing=True) as opened:
        _require(opened, session)
        renewed = opened.renew(named, session, at or datetime.now(UTC))
    click.echo(f"{count(renewed, 'sequence')} renewed")


@ledger.command()
@_LEDGER
@click.option("--before", callback=moment_of, metavar="RFC3339", help="What was last used before this time.")
@click.option("--older-than", callback=_duration, metavar="TIME", help="... before so long ago, such as 48h.")
def prune(*, place: str, before: datetime | None, older_than: timedelta | None) -> None:
    """Forget sequences that were neither sampled nor used for long."""
    from provenance.reports.text import count

    if before is None:
        if older_than is None:
            raise click.UsageError("expected either --before or --older-than")
        (before,) = _shifted(datetime.now(UTC), -older_than)
    elif older_than is not None:
        raise click.UsageError("expected either --before or --older-than, not both")
    with _open(place, writing=True) as opened:
        pruned = opened.prune(before)
    click.echo(f"{count(pruned, 'sequence')} forgotten")


@ledger.command()
@_LEDGER
def upgrade(*, place: str) -> None:
    """Bring a ledger that an older version made up to date.

    In place and in one transaction; other commands that write do so too. Back it up before: there is no
    way back.
    """
    with _open(place, writing=True) as opened:
        count = opened.stats().sequences
    click.echo(f"up to date, with {count} sequence{'s' * (count != 1)}")


def _open(place: str, *, writing: bool = False) -> SqlLedger:
    from provenance.ledger.sql import SqlLedger

    return SqlLedger(place, create=False, read_only=not writing)


def _require(opened: SqlLedger, session: str | None) -> None:
    """Refuse a session that the ledger does not know: it is more likely mistyped than empty."""
    if session is None or session in (there := opened.sessions()):
        return
    named = ", ".join(map(repr, there[:_NAMED])) or "none"
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    raise click.UsageError(f"no session is called {session!r}; there is {named}{more}")


def _shifted(moment: datetime, *shifts: timedelta) -> list[datetime]:
    try:
        return [moment + shift for shift in shifts]
    except OverflowError:
        raise click.UsageError("these times lie outside of the years 1 to 9999") from None
