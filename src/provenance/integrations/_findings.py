"""What was found in parts of a dataset as rows of an Arrow table, which any engine can carry to the driver.

A row is one part. Nothing in it is code: who forges a row can lie about data, and do nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance import errors
from provenance.engine.keys import KeySet
from provenance.engine.part import Example, Occurrence, Part
from provenance.errors import ProvenanceError
from provenance.report import Count, FileCount, Location, Severity, Violation

_TOTALS: Final = ("datums", "positions", "bad_datums", "unjudged", "unmeasured")
_FLAGS: Final = ("ambiguous", "unknown", "conflicting", "failed_files")
_KEYS: Final = "<u8"
_PLACE: Final = ("file", "row", "line", "field", "index", "length", "sequence_id")


def _list_of(**fields: Any) -> Any:
    return pa.list_(pa.struct(list(fields.items())))


_TEXT, _NUMBER = pa.string(), pa.int64()
#: Columns of a part that is no origin.
#:
#: datums, positions, bad_datums, unjudged, unmeasured, ambiguous, unknown, conflicting, failed_files: as in
#: `Part`.
#: counts: how often each rule was broken; checked: how many elements it judged; softened: datums that failed
#: a gate which is no error; satisfied: whether a rule about the dataset holds.
#: files: JSON, file -> [datums, bad datums, code -> counts as above, codes that judged something of it].
#: seen, failing: the sequences, and the records, that rules met and that broke them: 8 bytes for each, a
#: little-endian hash, ascending.
#: occurrences: JSON, code -> [[datum, span], place, counted, bad] of the first mention of each sequence that
#: must be unique; a place is [file, row, line, field, index, length, sequence_id].
#: examples: JSON, code -> [order, name, severity, place, message] of the first violations.
#: error: JSON, [class, arguments] of the `ProvenanceError` that ended the work here; else null.
SCHEMA: Final = pa.schema(
    {
        **dict.fromkeys(_TOTALS, _NUMBER),
        **dict.fromkeys(_FLAGS, pa.bool_()),
        "counts": _list_of(code=_TEXT, datums=_NUMBER, violations=_NUMBER, elements=_NUMBER),
        "checked": _list_of(code=_TEXT, elements=_NUMBER),
        "softened": _list_of(code=_TEXT, datums=_NUMBER),
        "satisfied": _list_of(code=_TEXT, field=_TEXT, holds=pa.bool_()),
        "files": _TEXT,
        "seen": _list_of(code=_TEXT, keys=pa.binary()),
        "failing": _list_of(code=_TEXT, keys=pa.binary()),
        "occurrences": _TEXT,
        "examples": _TEXT,
        "error": _TEXT,
    }
)


def table_of(parts: Iterable[Part | ProvenanceError]) -> Any:
    """Parts, or the errors in place of them, as a record batch of a row for each."""
    rows = [_of_error(part) if isinstance(part, ProvenanceError) else _of_part(part) for part in parts]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def part_of(row: Mapping[str, Any]) -> Part:
    """The part in a row, as ``to_pylist`` gives it.

    Raises:
        ProvenanceError: the one that the row tells of.
    """
    if row["error"] is not None:
        raise _error(*json.loads(row["error"]))
    return Part(
        origin=False,
        **{name: row[name] for name in (*_TOTALS, *_FLAGS)},
        counts={c["code"]: Count(c["datums"], c["violations"], c["elements"]) for c in row["counts"]},
        checked=Counter({c["code"]: c["elements"] for c in row["checked"]}),
        softened=Counter({c["code"]: c["datums"] for c in row["softened"]}),
        satisfied={(rule["code"], rule["field"]): rule["holds"] for rule in row["satisfied"]},
        files={
            file: FileCount(datums, bad, {code: Count(*n) for code, n in counts.items()}, frozenset(judged))
            for file, (datums, bad, counts, judged) in json.loads(row["files"]).items()
        },
        seen=_sets(row["seen"]),
        failing=_sets(row["failing"]),
        occurrences={
            code: [
                Occurrence((datum, span), _location(place), counted, bad)
                for (datum, span), place, counted, bad in found
            ]
            for code, found in json.loads(row["occurrences"]).items()
        },
        examples={
            code: [_example(code, example) for example in found]
            for code, found in json.loads(row["examples"]).items()
        },
    )


def _of_part(part: Part) -> dict[str, Any]:
    occurrences = {
        code: [(found.place, _place(found.location), found.counted, found.bad) for found in kept]
        for code, kept in part.occurrences.items()
    }
    files = {
        file: (
            found.datums,
            found.bad_datums,
            {code: tuple(count.to_dict().values()) for code, count in found.counts.items()},
            sorted(found.judged),
        )
        for file, found in part.files.items()
    }
    examples = {
        code: [
            (example.place, found.name, found.severity.value, _place(found.location), found.message)
            for example in kept
            for found in [example.violation]
        ]
        for code, kept in part.examples.items()
    }
    return {
        **{name: getattr(part, name) for name in (*_TOTALS, *_FLAGS)},
        "counts": [{"code": code, **count.to_dict()} for code, count in part.counts.items()],
        "checked": [{"code": code, "elements": elements} for code, elements in part.checked.items()],
        "softened": [{"code": code, "datums": datums} for code, datums in part.softened.items()],
        "satisfied": [
            {"code": code, "field": field, "holds": holds} for (code, field), holds in part.satisfied.items()
        ],
        "files": json.dumps(files),
        "seen": _bytes(part.seen),
        "failing": _bytes(part.failing),
        # JSON in ASCII: names of files and ids may hold what is no Unicode.
        "occurrences": json.dumps(occurrences),
        "examples": json.dumps(examples),
        "error": None,
    }


def _of_error(error: ProvenanceError) -> dict[str, Any]:
    reduced: Any = error.__reduce__()
    lists = dict.fromkeys(("counts", "checked", "softened", "satisfied", "seen", "failing"), ())
    return {
        **dict.fromkeys(_TOTALS, 0),
        **dict.fromkeys(_FLAGS, False),
        **lists,
        "files": "{}",
        "occurrences": "{}",
        "examples": "{}",
        "error": json.dumps([type(error).__name__, *reduced[1]]),
    }


def _error(name: str, *arguments: str) -> ProvenanceError:
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, ProvenanceError):
        return ProvenanceError(f"{name}: {', '.join(arguments)}")
    return kind(*arguments)


def _bytes(sets: Mapping[str, KeySet]) -> list[dict[str, Any]]:
    return [{"code": code, "keys": keys.keys().astype(_KEYS).tobytes()} for code, keys in sets.items()]


def _sets(rows: Iterable[Mapping[str, Any]]) -> dict[str, KeySet]:
    return {row["code"]: KeySet(np.frombuffer(row["keys"], _KEYS).astype(np.uint64)) for row in rows}


def _place(location: Location) -> tuple[Any, ...]:
    return tuple(getattr(location, name) for name in _PLACE)


def _location(place: list[Any]) -> Location:
    fields = dict(zip(_PLACE, place, strict=True))
    if isinstance(fields["index"], list):
        fields["index"] = tuple(fields["index"])
    return Location(**fields)


def _example(code: str, example: list[Any]) -> Example:
    order, name, severity, place, message = example
    violation = Violation(
        code=code, name=name, severity=Severity(severity), location=_location(place), message=message
    )
    return Example(tuple(order), violation)
