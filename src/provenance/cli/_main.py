"""The group of commands, loaded one by one, and the exit codes they share."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn, TextIO

import click
from click.shell_completion import shell_complete

from provenance._version import __version__
from provenance.cli._common import say
from provenance.errors import ProvenanceError

__all__ = ["commands", "main"]

INVALID, UNUSABLE, BUG = 1, 2, 3
INTERRUPTED, NO_READER, TERMINATED = 130, 141, 143
"""What a shell reports for a process that SIGINT, SIGPIPE or SIGTERM ended."""

#: Each is a module of this package that holds a click command of the same name.
_COMMANDS = (
    "build",
    "check",
    "completion",
    "convert",
    "demo",
    "explain",
    "fuzz",
    "generate",
    "inspect",
    "ledger",
    "rules",
    "schema",
)


class _Commands(click.Group):
    """Imports a command's module when it is asked for; what is heavy the module imports in its function."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            if ctx.resilient_parsing:  # a shell that completes what was mistyped is told nothing
                return None
            from difflib import get_close_matches

            near = get_close_matches(cmd_name, _COMMANDS, n=1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"no command is called {cmd_name!r}{meant}", ctx)
        command = getattr(importlib.import_module(f"provenance.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - narrows a type; a test runs every command
        return command


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"provenance {__version__}")
        ctx.exit()


@click.group(cls=_Commands, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    help="Tell on stderr what is done, from this level on.  [default: nothing]",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json is an object a line.",
)
@click.pass_context
def commands(ctx: click.Context, *, log_level: str | None, log_format: str) -> None:
    """Check RL training data against the contract of the loss it is for.

    Exit codes: 0 valid, 1 violations found, 2 usage or input that cannot
    be read, 3 a bug of provenance itself.
    """
    if log_level is not None:
        from provenance.cli._logs import start

        ctx.call_on_close(start(log_level, log_format))
    elif ctx.get_parameter_source("log_format") is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError("--log-format is the form of a log: give --log-level too")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    # A process whose stdout or stderr was closed by its parent has None there.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if arguments is None:
        # Otherwise what is half done would stay: temporary files, and commands that fuzz has started.
        signal.signal(signal.SIGTERM, _terminate)
    if instruction := os.environ.get("_PROVENANCE_COMPLETE"):
        sys.exit(shell_complete(commands, {}, "provenance", "_PROVENANCE_COMPLETE", instruction))
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
    sys.exit(code)


def _terminate(*_: object) -> NoReturn:
    sys.exit(TERMINATED)


def _run(arguments: list[str]) -> int:
    """Not click's own `main`: that one shows usage beside errors, and ends with 1 where it should not."""
    try:
        with commands.make_context("provenance", arguments) as context:
            code = commands.invoke(context) or 0
        sys.stdout.flush()
        return code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
        # The choices stand in the argument's name already.
        message = error.format_message().partition(". Choose from")[0].rstrip(".")
        say("error", message[:1].lower() + message[1:] + (f" (see {where} --help)" if where else ""))
    except (ProvenanceError, MemoryError) as error:
        say("error", str(error) or "not enough memory")
    except OSError as error:
        _drop_output()
        if isinstance(error, BrokenPipeError):
            return NO_READER
        place = f"{error.filename}: " if error.filename is not None else ""
        say("error", f"{place}{(error.strerror or str(error)).lower()}")
    except click.Abort:
        raise
    except Exception:  # noqa: BLE001 - whatever is left is a bug, and has an exit code of its own
        _report_bug()
        return BUG
    return UNUSABLE


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")


def _drop_output() -> None:
    """Forget what stdout did not take: the interpreter would try once more at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_bug() -> None:
    import platform
    import traceback

    traceback.print_exc()
    python = f"Python {platform.python_version()} on {platform.system()}"
    say("error", f"this is a bug in provenance: please report it with the lines above ({python})")
