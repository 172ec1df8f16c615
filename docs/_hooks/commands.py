"""mkdocs hook: the reference of the command line, made of the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from provenance.cli import commands

PAGE = "reference/commands.md"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the page."""
    files.append(File.generated(config, PAGE, content="\n".join(_page()) + "\n"))


def _page() -> Iterator[str]:
    yield from ("# Command line", "")
    top = click.Context(commands, info_name="provenance", **commands.context_settings)
    yield from _prose(commands.help)
    yield from ("", "`python -m provenance` is the same program.", "")
    for context in _below(top):
        yield from _section(context)


def _below(context: click.Context) -> Iterator[click.Context]:
    """The contexts of all commands of a group, groups within it before their commands."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield inner
        if isinstance(command, click.Group):
            yield from _below(inner)


def _section(context: click.Context) -> Iterator[str]:
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## {context.command_path}", "", "```text", f"{context.command_path} {usage}", "```", "")
    yield from _prose(command.help)
    yield ""
    for option in command.get_params(context):
        if isinstance(option, click.Option) and (record := option.get_help_record(context)):
            names, words = record
            yield from (", ".join(f"`{name}`" for name in names.split(", ")), f":   {_text(words)}", "")


def _prose(text: str | None) -> Iterator[str]:
    """The paragraphs of a help text; those that click must not wrap keep their lines."""
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from ("```text", paragraph.removeprefix("\b\n"), "```", "")
        else:
            yield from (_text(paragraph), "")


def _text(text: str) -> str:
    """Text that markdown shows as it is, with options as code."""
    escaped = re.sub(r"([*_<>|\[\]])", r"\\\1", text)
    return re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", escaped)
