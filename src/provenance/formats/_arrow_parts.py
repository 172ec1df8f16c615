"""One Arrow file of batches whose columns grow: what was written before is widened when all are known."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from provenance.columns import CHUNK_KINDS, TEXT
from provenance.errors import ReadError, WriteError
from provenance.formats._arrow_files import ArrowFile, failing
from provenance.formats._arrow_layout import is_json, list_array
from provenance.formats._arrow_schema import INPUT, INPUT_TOKENS
from provenance.formats._arrow_sink import Sink
from provenance.formats._json import dumps


class Parts:
    """A file that takes batches of a growing schema; each schema gets a file of its own until the end.

    Nearly always there is one schema, and the first file is the result. Else all are copied once, however
    often the columns have grown.
    """

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name
        self._paths: list[str] = []
        self._schema: Any = None
        self._sink = ExitStack()
        self._files = ExitStack()
        """Removes the files beside the result."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._files:
            self._sink.__exit__(kind, error, trace)

    def write(self, batch: Any) -> None:
        """Add a batch, whose schema is that of the batches before or a wider one."""
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._open(batch.schema)
        self._writer.write(batch)

    def finish(self, schema: Any) -> None:
        """Complete the file, with the columns that the last batch has had."""
        if not self._paths:
            self._open(schema)
        self._sink.close()
        if len(self._paths) > 1:
            self._join(schema)

    def _open(self, schema: Any) -> None:
        self._sink.close()
        path = self._beside(len(self._paths)) if self._paths else self._path
        self._writer = self._sink.enter_context(Sink(path, self._name, schema))
        self._paths.append(path)
        self._schema = schema

    def _beside(self, number: int) -> str:
        path = f"{self._path}.{number}"
        self._files.callback(Path(path).unlink, missing_ok=True)
        return path

    def _join(self, schema: Any) -> None:
        whole = self._beside(0)
        with Sink(whole, self._name, schema) as sink:
            for path in self._paths:
                with failing(ReadError, self._name), ArrowFile(path) as file:
                    for batch in file.all_columns():
                        sink.write(_widened(batch, schema))
        with failing(WriteError, self._name):
            Path(whole).replace(self._path)


def _widened(batch: Any, schema: Any) -> Any:
    """Return the batch with the columns of a wider layout."""
    columns = []
    for field in schema:
        if is_json(field):
            columns.append(_as_json(batch, field))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        elif field.name == INPUT:
            columns.append(_as_chunks(batch.column(INPUT_TOKENS), field.type.value_type).cast(field.type))
        else:
            columns.append(pa.nulls(len(batch), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_json(batch: Any, field: Any) -> Any:
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    given = batch.column(field.name)
    if is_json(batch.schema.field(field.name)):
        return given
    return pa.array([None if v is None else dumps(v).decode() for v in given.to_pylist()], field.type)


def _as_chunks(tokens: Any, chunk: Any) -> Any:
    """Return lists of tokens as lists of one text chunk."""
    n = len(tokens)
    fields = {
        "type": pa.array([CHUNK_KINDS[TEXT]] * n, pa.string()),
        "tokens": tokens.cast(chunk.field("tokens").type),
    }
    arrays = [fields.get(field.name, pa.nulls(n, field.type)) for field in chunk]
    # The length of text is that of its tokens, which `Layout` states too.
    arrays[chunk.get_field_index("length")] = tokens.value_lengths()
    return list_array(pa.StructArray.from_arrays(arrays, fields=list(chunk)), [1] * n)
