"""``provenance schema``: the types as JSON Schema, OpenAPI or Arrow."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from provenance.cli._common import say
from provenance.cli._options import complete_files

__all__ = ["schema"]

#: The folder that --check looks at.
_FOLDER = "schemas"


def _complete_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    from provenance.json_schema.documents import TYPES

    return [name for name in TYPES if name.startswith(incomplete)]


def _folder(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value in ("", "-"):
        text = f"{value!r} is no folder; leave the option out to print"
        raise click.BadParameter(text, ctx=ctx, param=param)
    return value


@click.command()
@click.argument("type_", metavar="[TYPE]", required=False, shell_complete=_complete_types)
@click.option(
    "--profile",
    type=click.Choice(["plain", "openapi"]),
    default="plain",
    show_default=True,
    help="openapi gives a document of components, with discriminators and formats.",
)
@click.option("--format", "format_", type=click.Choice(["json", "arrow"]), default="json", show_default=True)
@click.option(
    "--output",
    metavar="DIR",
    callback=_folder,
    shell_complete=complete_files,
    help="Write files: that of TYPE, or all that there are.",
)
@click.option(
    "--check",
    "compare",
    is_flag=True,
    help=f"Compare the files in --output ({_FOLDER}) with what would be written.",
)
def schema(*, type_: str | None, profile: str, format_: str, output: str | None, compare: bool) -> int:
    """Print the schema of TYPE, or of all types.

    With --output and no TYPE it writes all files: schemas, the OpenAPI
    document, Arrow schemas, the rules as data, and conformance vectors.
    --check makes the exit code 1 where these are not up to date, and
    names type and field of what changed.
    """
    chosen = [name for name, given in (("TYPE", type_), ("--profile openapi", profile != "plain")) if given]
    chosen += ["--format arrow"] if format_ == "arrow" else []
    if format_ == "arrow" and profile != "plain":
        raise click.UsageError("--profile is for JSON, not for --format arrow")
    if compare:
        if chosen:
            raise click.UsageError(f"--check looks at all files, leave out {' and '.join(chosen)}")
        return _check(output or _FOLDER)
    from provenance.json_schema import files

    if output is not None and not chosen:
        _write(files.generated(), output)
    elif format_ == "arrow":
        _arrow(type_, output)
    else:
        _json(type_, profile, output)
    return 0


def _write(content: Mapping[str, bytes], folder: str) -> None:
    from provenance.json_schema import files
    from provenance.reports.text import count

    files.write(content, folder)
    say("note", f"{count(len(content), 'file')} written to {folder}")


def _json(type_: str | None, profile: str, output: str | None) -> None:
    from provenance.json_schema import documents

    if profile == "openapi":
        text, name = documents.dumps(documents.openapi(type_)), f"{type_}.openapi" if type_ else "openapi"
    elif type_ is None:
        text, name = documents.dumps(documents.bundle()), "bundle"
    else:
        text, name = documents.dumps(documents.schema(type_)), type_
    if output is None:
        sys.stdout.write(text)
    else:
        _write({f"{name}.json": text.encode()}, output)


def _arrow(type_: str | None, output: str | None) -> None:
    from provenance.formats.arrow_schemas import SCHEMAS
    from provenance.json_schema import files

    if type_ is not None and type_ not in SCHEMAS:
        raise click.UsageError(f"no type with columns is called {type_!r}; known are {', '.join(SCHEMAS)}")
    names = [type_] if type_ is not None else list(SCHEMAS)
    if output is not None:
        _write({f"{name}.arrows": files.arrow_file(name) for name in names}, output)
        return
    for name in names:
        # Not pyarrow's own text, which cuts long types and repeats what is nested.
        heading = [f"# {name}"] if type_ is None else []
        lines = [*heading, *(f"{field.name}: {field.type}" for field in SCHEMAS[name]())]
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _check(folder: str) -> int:
    from provenance.json_schema import files, previous
    from provenance.reports.text import escape

    outdated = list(files.outdated(files.generated(), folder))
    stale = [f"{path}: not generated any more, remove it" for path in previous.stale(folder)]
    found = [*outdated, *stale, *map(str, previous.since(folder))]
    sys.stdout.writelines(f"{escape(line)}\n" for line in found)
    if previous.breaking(folder):
        say("hint", "a breaking change needs a new MAJOR in src/provenance/json_schema/documents.py first")
    if outdated:
        say("hint", f"run 'provenance schema --output {folder}' to bring the files up to date")
    return int(bool(found))
