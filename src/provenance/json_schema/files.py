"""The files of schemas/: written as a whole, and compared with what would be written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from provenance.errors import ReadError, WriteError
from provenance.formats._io import failing, replacing
from provenance.json_schema.catalogue import rule_catalogue
from provenance.json_schema.changes import Change, changes
from provenance.json_schema.conformance import vectors
from provenance.json_schema.documents import MAJOR, TYPES, bundle, dumps, openapi, schema

__all__ = ["ARROW_TYPES", "arrow_file", "breaking", "differences", "generated", "write"]

#: Types that have columns.
ARROW_TYPES: Final = ("datum", "sequence")
_BUNDLE: Final = "bundle.json"
#: What of a folder of schemas is generated; a README beside it is nobody's business.
_GENERATED: Final = ("*.json", "conformance/*.json", "arrow/*.arrows")


def generated() -> dict[str, bytes]:
    """Content of every file, by its path in the folder.

    Raises:
        MissingDependencyError: jsonschema, which says what of the vectors a schema can decide, is not there.
    """
    texts = {f"{name}.json": dumps(schema(name)) for name in TYPES}
    texts |= {
        _BUNDLE: dumps(bundle()),
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
            what would be written breaks what was valid by it.
    """
    broken = [str(change) for change in breaking(folder)] if _BUNDLE in files else []
    if broken:
        more = f"; and {len(broken) - 1} more" if broken[1:] else ""
        raise WriteError(folder, f"{broken[0]}{more}; a breaking change needs a new MAJOR of {__package__}")
    for name, content in files.items():
        path = Path(folder, name)
        with failing(WriteError, str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(str(path)) as temporary, failing(WriteError, str(path)):
            Path(temporary).write_bytes(content)


def differences(files: Mapping[str, bytes], folder: str) -> Iterator[str]:
    """What in a folder is not as it would be written, one line each."""
    root = Path(folder)
    for name, content in files.items():
        path = root / name
        if not path.is_file():
            yield f"{path}: missing"
        elif path.read_bytes() != content:
            yield f"{path}: not as generated"
    there = {path.relative_to(root).as_posix() for pattern in _GENERATED for path in root.glob(pattern)}
    yield from (f"{root / name}: not generated any more" for name in sorted(there - set(files)))
    yield from map(str, _changes(folder))


def breaking(folder: str) -> list[Change]:
    """Breaking changes from the bundle in a folder to that of today, where both have one major version."""
    return [change for change in _changes(folder) if change.breaking and _major(folder) == MAJOR]


def _changes(folder: str) -> list[Change]:
    return changes(_bundle(folder).get("$defs", {}), bundle()["$defs"]) if _bundle(folder) else []


def _major(folder: str) -> int:
    return int(str(_bundle(folder).get("$id", "::0:")).split(":")[-2])


def _bundle(folder: str) -> dict[str, Any]:
    path = Path(folder, _BUNDLE)
    with failing(ReadError, str(path)):
        found: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return found


def _lines(found: list[dict[str, Any]]) -> str:
    """A list as JSON with one element a line."""
    return "[\n" + ",\n".join(json.dumps(vector) for vector in found) + "\n]\n"
