"""What a hostile file holds by another reading than ours, and whether our verdict fits it.

The other readings are Python's json, pyarrow after its full validation, the official SDK's protobuf classes
and Python's sqlite3. A file that is called valid must be valid in them, and by the oracle of the tests.
"""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _paths import check_case
from oracle import judge
from oracle.world import World

import provenance
from provenance import ProvenanceError, Report
from provenance.rules import Case

Record = dict[str, Any]
#: A file -> its records; raises any of ``UNREADABLE`` where it does not hold any such.
Reading = Callable[[Path], list[Any]]
UNREADABLE = (
    *(
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        ArithmeticError,
        RecursionError,
        MemoryError,
        EOFError,
    ),
    *(OSError, pa.ArrowException, sqlite3.Error),
)
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class UnknownError(Exception):
    """The other reading cannot tell what is right."""


class WrongVerdictError(AssertionError):
    """Our reading and another one disagree about a file."""


def other_reading(reading: Reading, path: Path) -> list[Any] | None:
    """The records of a file, None where it is not sound."""
    try:
        return reading(path)
    except UNREADABLE:
        return None


# --- other readings


def lines_of(data: bytes) -> list[Any]:
    """Objects of lines of JSON, by Python's own parser."""
    if data.startswith(_MARKS):
        raise ValueError("another encoding")
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [_object(json.loads(line.decode(), object_pairs_hook=_once)) for line in lines if line.strip()]


def _once(pairs: list[tuple[str, Any]]) -> Record:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _object(value: Any) -> Record:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def plain_lines(path: Path) -> list[Any]:
    return lines_of(path.read_bytes())


def gzip_lines(path: Path) -> list[Any]:
    return lines_of(gzip.decompress(path.read_bytes()))


def zstd_lines(path: Path) -> list[Any]:
    with pa.input_stream(str(path), compression="zstd") as stream:
        return lines_of(stream.read())


def arrow_table(path: Path) -> Any:
    """The table of a Parquet or IPC file, after pyarrow has looked at every value."""
    data = path.read_bytes()
    if data[:4] == b"PAR1":
        file = pq.ParquetFile(pa.BufferReader(data))
        # What no rule is about is not decoded.
        names = [name for name in file.schema_arrow.names if name not in _LABELS]
        table = file.read(names, use_threads=False)
    else:
        opened = pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream
        table = opened(data).read_all()
    table.validate(full=True)
    return table


def arrow_datums(path: Path) -> list[Any]:
    table = arrow_table(path)
    if len(set(table.schema.names)) < table.num_columns:
        raise ValueError("a column twice")
    return [_datum(row, table.schema) for row in table.to_pylist()]


_LABELS = ("datum_id", "group_id", "metadata", "provenance")
_SPANS = ("model_input_spans", "loss_fn_input_spans")


def _datum(row: Record, schema: Any) -> Record:
    for label in _LABELS:
        row.pop(label, None)
    found: Record = {name: row.pop(name) for name in _SPANS if name in row}
    if "model_input_tokens" in row:
        chunks = [{"type": "encoded_text", "tokens": row.pop("model_input_tokens")}]
    else:
        chunks = [_chunk(chunk) for chunk in row.pop("model_input")]
    inputs = {}
    for name, data in row.items():
        if data is not None:
            kind = schema.field(name).type
            while hasattr(kind, "value_type"):
                kind = kind.value_type
            dtype = "int64" if pa.types.is_integer(kind) else "float32"
            if pa.types.is_null(kind):
                dtype = "int64" if name == "target_tokens" else "float32"
            inputs[name] = {"data": data, "dtype": dtype} | _flat(data)
    return {"model_input": {"chunks": chunks}, "loss_fn_inputs": inputs, **found}


def _flat(data: list[Any]) -> Record:
    """Rows of one width as flat data with a shape, as JSON has them."""
    if not any(isinstance(row, list) for row in data):
        return {}
    widths = {len(row) if isinstance(row, list) else -1 for row in data}
    if len(widths) > 1 or -1 in widths:
        raise ValueError("rows of several widths")
    return {"data": [value for row in data for value in row], "shape": [len(data), *widths]}


def _chunk(chunk: Record) -> Record:
    fields = {name: value for name, value in chunk.items() if value is not None}
    length = fields.pop("length", None)
    if fields["type"] == "encoded_text":
        if length not in (None, len(fields["tokens"])):
            raise ValueError("a length that is not that of the tokens")
        return {"type": "encoded_text", "tokens": fields["tokens"]}
    if "data" in fields:
        fields["data"] = base64.b64encode(fields["data"]).decode()
    return fields if length is None else {**fields, "expected_tokens": length}


def arrow_sequences(path: Path) -> list[Any]:
    table = arrow_table(path)
    if len(set(table.schema.names)) < table.num_columns:
        raise ValueError("a column twice")
    for name in ("sampled_at", "last_used_at"):  # they are in UTC, whatever they are shown in
        kind = table.schema.field(name).type if name in table.schema.names else None
        if kind is not None and pa.types.is_timestamp(kind) and kind.tz:
            column = table[name].cast(pa.timestamp(kind.unit, "UTC"))
            table = table.set_column(table.schema.names.index(name), name, column)
    return [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


def request_datums(path: Path) -> list[Any]:
    """The datums of a request, by the SDK's message classes."""
    from google.protobuf.message import DecodeError
    from tinker.proto import tinker_public_pb2 as pb

    try:
        message = pb.ForwardBackwardRequest.FromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError("no message") from error
    return [_message_datum(datum) for datum in message.data]


def _message_datum(datum: Any) -> Record:
    chunks = []
    for chunk in datum.model_input:
        kind = chunk.WhichOneof("chunk")
        held = getattr(chunk, kind) if kind else None
        if kind == "encoded_text":
            chunks.append({"type": kind, "tokens": np.frombuffer(held.tokens, "<i4").tolist()})
        elif kind == "image":
            expected = held.expected_tokens if held.HasField("expected_tokens") else None
            chunks.append(
                {
                    "type": kind,
                    "data": base64.b64encode(held.data).decode(),
                    "format": held.format,
                    "expected_tokens": expected,
                }
            )
        else:
            raise ValueError("no chunk that the corpus has")
    found: Record = {"model_input": {"chunks": chunks}, "loss_fn_inputs": {}}
    for name, tensor in datum.loss_fn_inputs.items():
        if tensor.WhichOneof("encoding") != "dense" or tensor.dtype not in (1, 2):
            raise ValueError("no tensor that the corpus has")
        values = np.frombuffer(tensor.dense, "<f4" if tensor.dtype == 1 else "<i8").tolist()
        dtype = "float32" if tensor.dtype == 1 else "int64"
        shape = list(tensor.shape) or None
        found["loss_fn_inputs"][name] = {"data": values, "dtype": dtype, "shape": shape}
    for side in ("model_input_spans", "loss_fn_input_spans"):
        spans = getattr(datum, side)
        if spans:
            found[side] = [_message_span(span) for span in spans]
    return found


def _message_span(span: Any) -> Record:
    kind = span.WhichOneof("span")
    held = getattr(span, kind)
    return {
        "type": kind.removesuffix("_tokens"),
        "sequence_id": held.sequence_id,
        "offset": held.offset,
        "length": held.length,
    }


#: What a check asks for.
_LEDGER_COLUMNS = (
    *("sequence_id", "session_id", "prompt", "prompt_length", "sampled_at", "last_used_at"),
    *("record_stability_info", "model", "policy_version", "stop_reason", "temperature", "top_p", "top_k"),
    *("seed", "packed_tokens", "logprobs"),
)


def database_sequences(path: Path) -> list[Any]:
    """The sequences of a ledger, row by row, by SQL of our own."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda text: text.decode(errors="surrogateescape")
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if not {"provenance_sequences", "provenance_prompt_blocks"} <= {row[0] for row in tables}:
            raise ValueError("no ledger")
        blocks = {r["key"]: r for r in connection.execute("SELECT * FROM provenance_prompt_blocks LIMIT 999")}
        if not _is_whole(connection):
            raise UnknownError  # an index and its table may differ, and either may be asked
        most = "max(prompt_length) OVER (PARTITION BY prompt) AS most"
        columns = ", ".join(_LEDGER_COLUMNS)
        rows = connection.execute(f"SELECT {columns}, {most} FROM provenance_sequences LIMIT 999").fetchall()
        if any(row["most"] != row["prompt_length"] for row in rows):
            raise UnknownError  # of two rows with one prompt, either may say how long it is
    found = []
    for row in rows:
        if not isinstance(row["sequence_id"], str):
            continue  # nothing can name it
        with suppress(*UNREADABLE):  # nothing may name it
            found.append(_sequence(dict(row), blocks))
    return found


def _is_whole(connection: sqlite3.Connection) -> bool:
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok")
    except (sqlite3.Error, UnicodeDecodeError):
        return False


def _sequence(row: Record, blocks: Record) -> Record:
    prompt: list[int] = []
    key, left = row["prompt"], row["most"]
    while key is not None:
        count = (left - 1) % 128 + 1
        prompt[:0] = _packed(blocks[key]["packed_tokens"], count)
        key, left = blocks[key]["parent"], left - count
    if left:
        raise ValueError("not as many tokens as the row says")
    stability = row["record_stability_info"]
    if stability not in (0, 1):
        raise ValueError("no bool")
    found = {
        "prompt_tokens": prompt,
        "tokens": _packed(row["packed_tokens"], len(row["logprobs"]) // 4),
        "logprobs": np.frombuffer(row["logprobs"], "<f4").tolist(),
        "record_stability_info": bool(stability),
    }
    for name in ("sampled_at", "last_used_at"):
        if row[name] is not None:
            found[name] = np.datetime64(row[name], "us").item().isoformat() + "Z"
    for name in ("sequence_id", "session_id", *_LEDGER_COLUMNS[7:14]):
        if row[name] is not None:
            found[name] = row[name]
    return found


def _packed(data: bytes, count: int) -> list[int]:
    """Ids of one width, two's complement."""
    width = len(data) // max(count, 1)
    if width * count != len(data) or (count and not 1 <= width <= 4):
        raise ValueError("no whole number of bytes for an id")
    return [
        int.from_bytes(data[i : i + width], "little", signed=True) for i in range(0, len(data), max(width, 1))
    ]


# --- verdicts


def judged_datums(reading: Reading, path: Path, case: Case, **options: Any) -> tuple[str, Report | None]:
    """Check a file of datums: ``refused``, ``valid`` or ``invalid``, and held against the other reading."""
    try:
        report = check_case(case, path, max_examples=1000, **options)
    except ProvenanceError as error:
        _refuse_no_memory(error)
        return "refused", None
    datums = other_reading(reading, path)
    if report.valid and datums is None:
        raise WrongVerdictError(f"valid, but not sound by {reading.__name__}")
    # Of lines both readings are of JSON, so all that is found must be the same.
    alike = report.valid or reading in (plain_lines, gzip_lines, zstd_lines)
    if datums is not None and alike:
        _agree(report, check_case(case, datums, max_examples=1000), reading)
    if report.valid:
        _ask_the_oracle(replace(case, datums=tuple(datums or ())))
    return ("valid" if report.valid else "invalid"), report


def judged_ledger(reading: Reading, path: Path, case: Case) -> str:
    """Check valid datums against a ledger in a file."""
    contract = provenance.Contract.for_loss(case.loss).with_parameters(**case.parameters)
    options = {"session": case.session, "now": case.now, "loss_config": case.config}
    try:
        report = provenance.check(list(case.datums), contract, ledger=path, **options)
    except ProvenanceError as error:
        _refuse_no_memory(error)
        return "refused"
    if not any(datum.get("loss_fn_input_spans") for datum in case.datums):
        return "unasked"  # and what is not asked for is not looked at
    try:
        sequences = other_reading(reading, path)
    except UnknownError:
        return "unknown"
    if report.valid and sequences is None:
        raise WrongVerdictError(f"valid, but not sound by {reading.__name__}")
    if report.valid and sequences is not None:
        if reading is database_sequences:
            sequences = _asked_for(sequences, case)
        expected = provenance.check(list(case.datums), contract, ledger=sequences, **options)
        if not expected.valid:
            raise WrongVerdictError(f"valid, but by {reading.__name__} {errors_of(expected)}")
    return "valid" if report.valid else "invalid"


def _asked_for(sequences: list[Record], case: Case) -> list[Record]:
    """Those that datums of a case name, and of several sessions the case's own."""
    spans = [span for datum in case.datums for side in _SPANS for span in datum.get(side) or ()]
    named = {span["sequence_id"] for span in spans}
    own = {s["sequence_id"] for s in sequences if s["session_id"] == case.session}
    asked = [s for s in sequences if s["sequence_id"] in named]
    return [s for s in asked if s["session_id"] == case.session or s["sequence_id"] not in own]


def errors_of(report: Report) -> set[tuple[Any, ...]]:
    """The errors of a report without their words, which name a file or do not."""
    return {
        (v.code, v.location.row, v.location.field, v.location.index, v.location.length)
        for v in report.violations
        if v.severity == "error"
    }


def _agree(report: Report, expected: Report, reading: Reading) -> None:
    ours, theirs = errors_of(report), errors_of(expected)
    if ours != theirs:
        alone = [sorted(found, key=repr) for found in (ours - theirs, theirs - ours)]
        raise WrongVerdictError(f"the file's alone {alone[0]}, {reading.__name__}'s alone {alone[1]}")


def _ask_the_oracle(case: Case) -> None:
    if any("group_id" in datum for datum in case.datums):  # which it takes for a string
        return
    world = World(
        datums=[dict(datum) for datum in case.datums],
        sequences=[dict(sequence) for sequence in case.sequences],
        session=case.session,
        now=case.now,
        loss=case.loss,
        config=dict(case.config),
        parameters=dict(case.parameters),
    )
    errors = [finding for finding in judge(world) if finding.severity == "error"]
    if errors:
        raise WrongVerdictError(f"valid, but by the oracle {errors[:3]}")


def _refuse_no_memory(error: ProvenanceError) -> None:
    """A refusal for want of memory is a want of a limit, on a machine that has more of it."""
    if any(word in str(error) for word in ("alloc", "out of memory", "not enough memory")):
        raise MemoryError(str(error)) from error
