"""``provenance completion``: the scripts with which a shell completes commands, options, codes and files."""

from __future__ import annotations

import sys

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

__all__ = ["completion"]

_SHELLS = {
    "bash": (BashComplete, "~/.bashrc", 'eval "$(provenance completion bash)"'),
    "zsh": (ZshComplete, "~/.zshrc, after compinit", 'eval "$(provenance completion zsh)"'),
    "fish": (FishComplete, "~/.config/fish/config.fish", "provenance completion fish | source"),
}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the script that makes a shell complete this command.

    Its last line says where it goes.
    """
    kind, file, line = _SHELLS[shell]
    program = kind(ctx.find_root().command, {}, "provenance", "_PROVENANCE_COMPLETE")
    # Not `source()`: that of bash runs bash first to look at its version.
    script = program.source_template % program.source_vars()
    # Last, because zsh loads a file as a completion only if that starts with #compdef.
    sys.stdout.write(f"{script.strip()}\n# To install, put this line into {file}: {line}\n")
