"""The datums of a file of any format as JSON objects, for programs that change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provenance.errors import ReadError
from provenance.formats import _json, jsonl
from provenance.formats._convert import placed
from provenance.formats._io import MAX_LINE, read_lines
from provenance.formats._problem import RecordError
from provenance.formats._suffix import is_arrow, is_request


def read_objects(path: str, *, max_line: int = MAX_LINE) -> Iterator[tuple[dict[str, Any], int | None]]:
    """Read datums one after the other, each as the object that a line of JSON would hold, with its line.

    Numbers are as they are written; nothing else about a line of JSON is checked. The line, from 1, is None
    where the file has no lines.

    Raises:
        ReadError: the file cannot be read, or a datum in it; `convert` says of which kinds they are.
    """
    if is_request(path):
        from provenance.formats import tinker_request

        for row, fields in enumerate(tinker_request.read_fields(path, max_record=max_line)):
            if isinstance(fields, RecordError):
                raise ReadError(path, f"row {row}: {fields}")
            yield _json.parse(_json.dumps(fields)), None
    elif is_arrow(path):
        from provenance.formats import arrow_convert

        for text in arrow_convert.lines_of(path):
            yield _json.parse(text.encode()), None
    else:
        for line in read_lines(path, max_line=max_line):
            with placed(path, line):
                found = jsonl.object_in(line)
            yield found, line.number
