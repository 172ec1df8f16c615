"""A Parquet file, Arrow IPC file or Arrow IPC stream that takes record batches."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from provenance.errors import SchemaError, WriteError
from provenance.formats._arrow_files import failing
from provenance.formats._arrow_limits import refuse_no_width

_PARQUET: Final = (".parquet",)
_IPC_FILE: Final = (".arrow", ".feather", ".ipc")
_IPC_STREAM: Final = (".arrows",)
# Batches wait for a row group of a size that readers like.
_ROW_GROUP_BYTES: Final = 2**25


class Sink:
    """A file that takes record batches. What the caller's own data raise is not an error of the file."""

    def __init__(self, path: str, name: str, schema: Any) -> None:
        """Open ``path`` as the container that the suffix of ``name`` tells.

        Raises:
            SchemaError: The suffix tells none.
            WriteError: The file cannot be written, here and in the methods.
        """
        suffix = PurePath(name).suffix.lower()
        known = (*_PARQUET, *_IPC_FILE, *_IPC_STREAM)
        if suffix not in known:
            raise SchemaError(
                f"{name!r}: an Arrow file's name ends in {', '.join(known[:-1])} or {known[-1]}"
            )
        self._name = name
        self._waiting: list[Any] = []
        self._bytes = 0
        self._row_group_bytes = _ROW_GROUP_BYTES if suffix in _PARQUET else 0
        with failing(WriteError, name), ExitStack() as stack:
            file = stack.enter_context(pa.OSFile(path, "wb"))
            self._writer = stack.enter_context(_writer(suffix, file, schema))
            self._stack = stack.pop_all()

    def write(self, batch: Any) -> None:
        """Add a batch, which has the sink's schema."""
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._row_group_bytes:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            with failing(WriteError, self._name):
                self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            with suppress(OSError, pa.ArrowException):  # closing writes, which may fail once more
                self._stack.close()
            return
        with failing(WriteError, self._name), self._stack:
            self._flush()


def _writer(suffix: str, file: Any, schema: Any) -> Any:
    if suffix in _PARQUET:
        refuse_no_width(schema)
        return pq.ParquetWriter(file, schema, compression="zstd")
    # Not compressed: who wants IPC wants to use the bytes as they lie there.
    return pa.ipc.new_file(file, schema) if suffix in _IPC_FILE else pa.ipc.new_stream(file, schema)
