"""From any file format to any other, without a loss."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from provenance.errors import ReadError, WriteError
from provenance.formats import _json, jsonl
from provenance.formats._io import MAX_LINE, STDIN, Line, name_of, read_lines, replacing, writing
from provenance.formats._plain_arrays import row_of_arrays
from provenance.formats._problem import RecordError, RowError
from provenance.formats._suffix import is_arrow, is_request
from provenance.formats._write import writer_of


def convert(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, max_line: int = MAX_LINE
) -> int:
    """Write the datums or sampled sequences of a file as a file of another format, and return how many.

    The suffixes say what both are; ``-`` is standard input or output, in lines of JSON. Nothing is lost:
    integers are exact, floats keep their values, what is absent stays absent. From lines to lines, and from
    Arrow to Arrow, records are copied as they are. A line that becomes a row takes the documented columns,
    where CSR tensors are dense. The target takes its name when it is complete; on failure an earlier file of
    that name stays. Of a training request (``.pb``) the datums are taken; it cannot be the target, because
    datums do not say what model and loss they are for.

    Args:
        source: The file to read. Its first record, or its columns, say whether it holds datums or sequences.
        target: The file to write; may be the source.
        max_line: How many bytes a line may have.

    Raises:
        ReadError: The source cannot be read, holds no record, or one that cannot be read, or one that the
            target's format cannot hold; names the line (from 1) or the row (from 0), and the field.
        WriteError: The target cannot be written.
    """
    source, target = os.fspath(source), os.fspath(target)
    to_arrow = is_arrow(target, WriteError)
    if is_request(source):
        return _from_request(source, target, max_line)
    from_arrow = is_arrow(source)
    with contextlib.ExitStack() as stack:
        path = target if target == STDIN else stack.enter_context(replacing(target))
        if not to_arrow:
            put = sys.stdout.buffer.write if target == STDIN else stack.enter_context(writing(path, target))
            if not from_arrow:
                return _copy_lines(source, put, max_line)
            from provenance.formats import arrow_convert

            return arrow_convert.to_lines(source, put)
        if not from_arrow:
            return _lines_to_arrow(source, path, target, max_line)
        from provenance.formats import arrow_convert

        return arrow_convert.copy(source, path, target)


def _from_request(source: str, target: str, max_line: int) -> int:
    """Write the datums of a training request, whose loss and model have no place in other files."""
    from provenance.formats import tinker_request

    count = 0

    def objects() -> Iterator[Mapping[str, Any]]:
        nonlocal count
        for fields in tinker_request.read_fields(source, max_record=max_line):
            found = [fields] if isinstance(fields, RecordError) else row_of_arrays(fields)
            if isinstance(found, list):
                place = f"{found[0].field}: " if found[0].field else ""
                raise ReadError(source, f"row {count}: {place}{found[0].message}")
            yield fields  # type: ignore[misc]  # no RecordError, which is none of a row
            count += 1

    if target == STDIN:
        for fields in objects():
            sys.stdout.buffer.write(_json.dumps(fields) + b"\n")
        return count
    write = writer_of(target)
    with replacing(target) as path:
        try:
            write(objects(), path)
        except RowError as error:
            raise ReadError(source, str(error)) from None
    return count


def _copy_lines(source: str, put: Callable[[bytes], object], max_line: int) -> int:
    sequences, lines = _lines(source, max_line)
    count = 0
    for line in lines:
        with placed(source, line):
            if sequences:
                jsonl.sequence_in(line)
            else:
                found = jsonl.datum_in(line)
                if isinstance(found, list):
                    raise found[0]
        put(line.data + b"\n")
        count += 1
    return count


def _lines_to_arrow(source: str, path: str, name: str, max_line: int) -> int:
    from provenance.formats import arrow

    sequences, lines = _lines(source, max_line)
    count = 0
    current: Line

    def objects() -> Iterator[Mapping[str, Any]]:
        nonlocal count, current
        for current in lines:
            with placed(source, current):
                found = jsonl.object_in(current)
            yield found
            count += 1

    write = arrow.write_sequences if sequences else arrow.write_datums
    try:
        write(objects(), path, name=name)
    except RowError as error:
        raise ReadError(name_of(source), f"line {current.number}: {error.what}") from None
    return count


def _lines(source: str, max_line: int) -> tuple[bool, Iterator[Line]]:
    """The lines of a file, and whether they hold sampled sequences instead of datums."""
    lines = read_lines(source, max_line=max_line)
    first = next(lines, None)
    if first is None:
        raise ReadError(name_of(source), NO_RECORD)
    with placed(source, first):
        fields = jsonl.object_in(first)
        if "model_input" not in fields and "prompt_tokens" not in fields:
            raise RecordError("", NEITHER)
    return "model_input" not in fields, chain([first], lines)


@contextlib.contextmanager
def placed(source: str, line: Line) -> Iterator[None]:
    """Turn what is wrong with a line into a `ReadError` that names it."""
    try:
        yield
    except RecordError as error:
        what = f"{error.field}: {error.message}" if error.field else error.message
        raise ReadError(name_of(source), f"line {line.number}: {what}") from None


#: Why a file cannot be converted: it has no record, or the first is of neither kind.
NO_RECORD = "no record in it, expected datums or sampled sequences"
NEITHER = "neither a datum, which has a model_input, nor a sampled sequence, which has prompt_tokens"
