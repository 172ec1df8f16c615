"""The files of schemas/: written as a whole, and compared with what would be written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from provenance.errors import ReadError, WriteError
from provenance.formats._io import failing, replacing
from provenance.json_schema.catalogue import rule_catalogue
from provenance.json_schema.conformance import vectors
from provenance.json_schema.documents import TYPES, bundle, dumps, openapi, schema
from provenance.json_schema.previous import breaking

__all__ = ["ARROW_TYPES", "arrow_file", "generated", "outdated", "write"]

#: Types that have columns.
ARROW_TYPES: Final = ("datum", "sequence")


def generated() -> dict[str, bytes]:
    """Content of every file, by its path in the folder.

    Raises:
        MissingDependencyError: jsonschema, which says what of the vectors a schema can decide, is not there.
    """
    texts = {f"{name}.json": dumps(schema(name)) for name in TYPES}
    texts |= {
        "bundle.json": dumps(bundle()),
        "openapi.json": dumps(openapi()),
        "rules.json": dumps(rule_catalogue()),
    }
    texts |= {f"conformance/{code}.json": _lines(found) for code, found in vectors().items()}
    files = {name: text.encode() for name, text in texts.items()}
    return files | {f"arrow/{name}.arrows": arrow_file(name) for name in ARROW_TYPES}


def arrow_file(name: str) -> bytes:
    """The Arrow schema of a type as an IPC stream without batches, which every Arrow library can open."""
    from provenance.formats.arrow_schemas import SCHEMAS, stream_of

    return stream_of(SCHEMAS[name]())


def write(files: Mapping[str, bytes], folder: str) -> None:
    """Write files into a folder, each as a whole.

    Raises:
        WriteError: a file cannot be written; or the bundle in the folder is of the same major version, and
            the types of today break what was valid by it, whichever of them would be written.
        ReadError: the bundle in the folder is of a newer major version, or none of these schemas.
    """
    broken = [str(change) for change in breaking(folder)]
    if broken:
        more = f"; and {len(broken) - 1} more" if broken[1:] else ""
        raise WriteError(folder, f"{broken[0]}{more}; a breaking change needs a new MAJOR of {__package__}")
    for name, content in files.items():
        path = Path(folder, name)
        with failing(WriteError, str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(str(path)) as temporary, failing(WriteError, str(path)):
            Path(temporary).write_bytes(content)


def outdated(files: Mapping[str, bytes], folder: str) -> Iterator[str]:
    """Which files of a folder are not as they would be written, one line each; raises `ReadError`."""
    for name, content in files.items():
        path = Path(folder, name)
        with failing(ReadError, str(path)):
            found = path.read_bytes() if path.is_file() else None
        if found is None:
            yield f"{path}: missing"
        elif found != content:
            yield f"{path}: not as generated"


def _lines(found: list[dict[str, Any]]) -> str:
    """A list as JSON with one element a line."""
    return "[\n" + ",\n".join(json.dumps(vector) for vector in found) + "\n]\n"
