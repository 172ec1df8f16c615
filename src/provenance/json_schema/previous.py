"""What a folder of schemas held before: which of its files are gone from today's, and what changed since."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from provenance.errors import ReadError
from provenance.formats._io import failing
from provenance.json_schema._nodes import well_formed
from provenance.json_schema.changes import Change, changes, column_changes
from provenance.json_schema.documents import MAJOR, TYPES, bundle
from provenance.rules import registry

__all__ = ["breaking", "since", "stale"]

_ID: Final = re.compile(r"urn:datum-provenance:schema:([0-9]{1,9}):(.+)")
_VECTORS: Final = re.compile(r"[A-Z]{3}\d{3}\.json")


def since(folder: str) -> list[Change]:
    """What changed since the files in a folder were written; nothing where there is no bundle.

    Raises:
        ReadError: the bundle is of a newer major version, or none of these schemas; or a file cannot be read.
    """
    previous = _bundle(folder)
    if previous is None:
        return []
    found = changes(previous["$defs"], bundle()["$defs"])
    found += [Change(path.stem, "type removed", breaking=True) for path in _gone_types(folder)]
    return [*found, *_columns(folder)]


def breaking(folder: str) -> list[Change]:
    """Breaking changes from the files in a folder to those of today, where both have one major version.

    Raises:
        ReadError: as `since`.
    """
    previous = _bundle(folder)
    if previous is None or _major(previous) != MAJOR:
        return []
    return [change for change in since(folder) if change.breaking]


def stale(folder: str) -> list[Path]:
    """Files in a folder that this package wrote once and writes no more; other people's files are not."""
    vectors = Path(folder, "conformance").glob("*.json")
    gone = (path for path in vectors if _VECTORS.fullmatch(path.name) and path.stem not in registry())
    return sorted(chain(_gone_types(folder), gone, _gone_columns(folder)))


def _gone_types(folder: str) -> Iterator[Path]:
    for path in sorted(Path(folder).glob("*.json")):
        if path.stem not in (*TYPES, "bundle") and _names_itself(path):
            yield path


def _names_itself(path: Path) -> bool:
    """Whether a file has the id of a type that is called as the file is."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):  # whatever it is, it was not written here
        return False
    found = _ID.fullmatch(str(document.get("$id"))) if isinstance(document, dict) else None
    return found is not None and found[2] == path.stem


def _gone_columns(folder: str) -> Iterator[Path]:
    from provenance.formats.arrow_schemas import SCHEMAS

    return (path for path in sorted(Path(folder, "arrow").glob("*.arrows")) if path.stem not in SCHEMAS)


def _columns(folder: str) -> Iterator[Change]:
    from provenance.formats.arrow_schemas import SCHEMAS, column_types, schema_in

    for path in _gone_columns(folder):
        yield Change(f"arrow/{path.stem}", "type removed", breaking=True)
    for name, schema in SCHEMAS.items():
        path = Path(folder, "arrow", f"{name}.arrows")
        if path.is_file():
            before, after = column_types(schema_in(str(path))), column_types(schema())
            yield from column_changes(f"arrow/{name}", before, after)


def _bundle(folder: str) -> dict[str, Any] | None:
    path = Path(folder, "bundle.json")
    with failing(ReadError, str(path)):
        content = path.read_bytes() if path.is_file() else None
    if content is None:
        return None
    try:
        with failing(ReadError, str(path)):
            found: Any = json.loads(content)
    except RecursionError:
        found = None
    if not _is_bundle(found):
        raise ReadError(str(path), "is no bundle of these schemas; choose another folder, or move it away")
    if _major(found) > MAJOR:
        text = f"is of version {_major(found)}, which is newer than {MAJOR}: update datum-provenance"
        raise ReadError(str(path), text)
    bundled: dict[str, Any] = found
    return bundled


def _is_bundle(found: Any) -> bool:
    match found:
        case {"$id": str(name), "$defs": dict(definitions)}:
            matched = _ID.fullmatch(name)
            own = matched is not None and matched[2] == "bundle"
            return own and all(map(well_formed, definitions.values()))
    return False


def _major(document: dict[str, Any]) -> int:
    found = _ID.fullmatch(document["$id"])
    return int(found[1]) if found else 0
