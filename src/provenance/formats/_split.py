"""Files of datums as two files, good and bad: a second reading, after a check has judged every row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from provenance.errors import ReadError
from provenance.formats._io import Line, read_lines, replacing, writing
from provenance.formats._json import FOREIGN_MARKS
from provenance.formats._suffix import is_arrow

#: The field of a bad datum that says why it is one, and a column in Arrow files.
NOTE: Final = "provenance"
_NO_OBJECT: Final = frozenset(("FMT001", "FMT002"))
_SPACE: Final = re.compile(r"[ \t\r\n]*")


@dataclass(slots=True)
class Note:
    """Why a datum is bad."""

    codes: set[str] = field(default_factory=set)
    """Codes of the error rules that it breaks."""
    violations: list[str] = field(default_factory=list)
    """The first few of their messages."""


@dataclass(slots=True)
class FileNotes:
    """The bad datums of one file."""

    bad: dict[int, Note] = field(default_factory=dict)
    """Number of the datum, from 0 -> why it is bad."""
    whole: Note | None = None
    """Why all are, where the columns of an Arrow file are not those of datums."""

    def __getitem__(self, row: int) -> Note | None:
        """Why a datum is bad; None for a good one."""
        return self.whole or self.bad.get(row)


def split(
    files: Mapping[str, FileNotes],
    *,
    good: str | None,
    bad: str | None,
    max_line: int,
    confirm: Callable[[], object],
) -> None:
    """Copy the datums of files, in order, to a file of the good and one of the bad; None for no such file.

    Args:
        files: Path -> what was found; all are lines of JSON or all are Arrow, as are ``good`` and ``bad``.
        good: Takes the datums that have no note, as they are.
        bad: Takes the others, each with its note in the field, or the column, ``provenance``.
        max_line: How many bytes a line may have.
        confirm: Called when all is copied; what it raises leaves the targets as they were.

    Raises:
        ReadError: a file cannot be read, or Arrow files differ in columns.
        WriteError: a target cannot be written.
    """
    with ExitStack() as stack:
        paths = {name: stack.enter_context(replacing(name)) for name in (good, bad) if name is not None}
        if is_arrow(next(iter(files))):
            from provenance.formats import arrow_split

            arrow_split.split(files, paths, good=good, bad=bad)
        else:
            with (
                nullcontext(_nowhere) if good is None else writing(paths[good], good) as put_good,
                nullcontext(_nowhere) if bad is None else writing(paths[bad], bad) as put_bad,
            ):
                _split_lines(files, put_good, put_bad, max_line)
        confirm()


def _nowhere(_: bytes) -> None:
    pass


def _split_lines(
    files: Mapping[str, FileNotes],
    put_good: Callable[[bytes], object],
    put_bad: Callable[[bytes], object],
    max_line: int,
) -> None:
    for path, notes in files.items():
        for row, line in enumerate(read_lines(path, max_line=max_line)):
            note = notes[row]
            if note is None:
                put_good(line.data + b"\n")
            elif line.number == 1 and line.data in FOREIGN_MARKS:
                encoding = FOREIGN_MARKS[line.data]
                raise ReadError(path, f"{encoding}, which has no lines to sort: iconv -f {encoding} -t UTF-8")
            else:
                put_bad(_noted(line, row, path, note) + b"\n")


def note_fields(note: Note, path: str, row: int) -> dict[str, Any]:
    """What is written about a bad datum, for both families of files."""
    return {
        "codes": sorted(note.codes),
        "file": path.encode("utf-8", "backslashreplace").decode(),
        "row": row,
        "violations": note.violations,
    }


def _noted(line: Line, row: int, path: str, note: Note) -> bytes:
    """The line with its note as the last field of its object."""
    fields = {**note_fields(note, path, row), "line": line.number}
    if not _NO_OBJECT.isdisjoint(note.codes):
        return _member({**fields, "raw": line.data.decode("utf-8", "backslashreplace")}, b"{")
    text = line.data.rstrip()
    if NOTE.encode() in text or b"\\u" in text:
        text, raw = _without_note(text.decode())
        fields |= raw
    return _member(fields, text[:-1].rstrip()) + line.data[len(line.data.rstrip()) :]


def _member(fields: Mapping[str, Any], start: bytes) -> bytes:
    comma = b"" if start.strip() == b"{" else b","
    return start + comma + f'"{NOTE}":{json.dumps(fields, separators=(",", ":"))}}}'.encode()


def _without_note(text: str) -> tuple[bytes, dict[str, str]]:
    """An object without the note of an earlier check, and what that keeps of a line that was no object."""
    # Digits stay text: CPython refuses to convert very many.
    decoder = json.JSONDecoder(parse_int=str)
    kept: list[str] = []
    raw: dict[str, str] = {}
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        start = at
        name, at = decoder.raw_decode(text, at)
        value, at = decoder.raw_decode(text, _skip(text, _skip(text, at) + 1))
        if name != NOTE:
            kept.append(text[start:at])
        elif isinstance(value, dict) and isinstance(value.get("raw"), str):
            raw = {"raw": value["raw"]}
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return ("{" + ",".join(kept) + "}").encode(), raw


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
