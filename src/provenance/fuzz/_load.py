"""What is to be broken: the first datums of some data, and what was sampled for them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from provenance.contract import Contract
from provenance.engine.arguments import moment_of
from provenance.engine.sources import ledger_of, paths_of
from provenance.errors import LedgerError, ReadError, SchemaError
from provenance.formats import is_arrow, is_request
from provenance.formats._records import read_objects
from provenance.ledger import Ledger
from provenance.ledger.place import is_database
from provenance.ledger.recorded import record_object
from provenance.models import Datum
from provenance.mutations import Dataset
from provenance.mutations._dataset import Json
from provenance.mutations._ledger import spans_of
from provenance.report import Location
from provenance.sequences import rfc3339


class _Origin(NamedTuple):
    """Where a datum was read."""

    file: str | None
    row: int
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbroken:
    """A dataset before it is broken."""

    dataset: Dataset
    origins: list[_Origin]
    """Of each datum."""
    more: bool
    """There are more datums than were taken."""
    name: str
    """Of a file of datums in the format that the data have."""
    ledger_name: str
    """Of a file of sequences in the format that the ledger has, or in lines."""
    lines: bool
    """The data are lines of JSON, and single lines can be broken."""

    def located(self, place: Location) -> Location:
        """A place in the dataset, by the file and row that a person knows."""
        if place.row is None or place.row >= len(self.origins):  # a datum that was added has a row alone
            return place
        origin = self.origins[place.row]
        return replace(place, file=origin.file, row=origin.row, line=origin.line)


def load(
    data: Any,
    contract: Contract | str | None,
    *,
    limit: int,
    max_line: int,
    ledger: Any,
    session: str | None,
    now: datetime | str | None,
    loss_config: Mapping[str, Any] | None,
) -> Unbroken:
    """Read the first datums, and the records that they name.

    Raises:
        ReadError, LedgerError: a file or the ledger cannot be read.
        SchemaError: ``data`` is nothing that can be broken, or a Dataset that says the rest itself.
        ContractError: the contract or the time cannot be used.
    """
    if isinstance(data, Dataset):
        _refuse_twice(contract=contract, ledger=ledger, session=session, now=now, loss_config=loss_config)
        found = data.copy()
        more = len(found.datums) > limit
        del found.datums[limit:]
        origins = [_Origin(None, row, None) for row in range(len(found.datums))]
        found.now = rfc3339(moment_of(found.now))
        return Unbroken(dataset=found, origins=origins, more=more, lines=False, **_names(None, None))
    chosen = Contract.of("stable_reinforce" if contract is None else contract)
    time = rfc3339(moment_of(now))
    paths = paths_of(data)
    read = _objects(data) if paths is None else _in_files(paths, max_line)
    taken = list(islice(read, limit + 1))
    dataset = Dataset(
        datums=[datum for datum, _ in taken[:limit]],
        contract=chosen,
        session=session,
        now=time,
        loss_config=dict(loss_config or {}),
    )
    source, faults = ledger_of(ledger, max_line=max_line)
    for path, _, fault in faults:
        raise ReadError(path, f"row {fault.row}: {fault.field}: {fault.message}")
    if source is not None:
        dataset.sequences = _records(dataset, source, session)
    return Unbroken(
        dataset=dataset,
        origins=[origin for _, origin in taken[:limit]],
        more=len(taken) > limit,
        lines=paths is not None and not any(is_request(path) or is_arrow(path) for path in paths),
        **_names(paths, ledger),
    )


def _refuse_twice(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise SchemaError(f"{name} is given, and the dataset says its own: leave it out")


def _in_files(paths: list[str], max_line: int) -> Iterator[tuple[Json, _Origin]]:
    for path in paths:
        for row, (datum, line) in enumerate(read_objects(path, max_line=max_line)):
            yield datum, _Origin(path, row, line)


def _objects(data: Any) -> Iterator[tuple[Json, _Origin]]:
    if isinstance(data, str | bytes | Mapping | Datum) or not isinstance(data, Iterable):
        raise SchemaError(f"cannot break a {type(data).__name__}: give paths, a list of datums, or a Dataset")
    for row, datum in enumerate(data):
        plain = datum.model_dump(mode="json") if isinstance(datum, Datum) else datum
        if not isinstance(plain, dict):
            raise SchemaError(f"data[{row}] is a {type(datum).__name__}, expected a Datum or a dict")
        yield plain, _Origin(None, row, None)


def _records(dataset: Dataset, ledger: Ledger, session: str | None) -> list[Json]:
    """The records of all sequences that the datums name, without those that are not there."""
    ids = list(dict.fromkeys(span["sequence_id"] for _, span in spans_of(dataset)))
    table = ledger.lookup(ids, session)
    for name, several, conflicting in zip(ids, table.ambiguous, table.conflicting, strict=True):
        if several and session is None:
            raise LedgerError(f"{name!r} is recorded in several sessions: give the training session")
        if conflicting:
            raise LedgerError(f"{name!r} is recorded with several contents (SEQ008): fuzz valid data")
    return [_plain(record_object(table, i)) for i in range(len(table)) if table.known[i]]


def _plain(record: Mapping[str, Any]) -> Json:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in record.items()}


def _names(paths: list[str] | None, ledger: Any) -> dict[str, str]:
    """Names for files in the formats that the data and the ledger have, else in lines of JSON."""
    name, ledger_name = "datums.jsonl", "sequences.jsonl"
    if paths and paths[0] != "-":
        name = PurePath(paths[0]).name
    sources = [path for path in paths_of(ledger) or () if path != "-" and not is_database(path)]
    if sources:
        ledger_name = PurePath(os.fspath(sources[0])).name
    return {"name": name, "ledger_name": ledger_name}
