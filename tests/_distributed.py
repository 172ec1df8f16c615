"""Datasets for the tests of distributed engines, valid and broken, with their ledger in each form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import provenance
from provenance.formats import table_of
from provenance.generate import generate
from provenance.ledger import MemoryLedger
from provenance.ledger.sql import SqlLedger
from provenance.mutations import Dataset, apply

#: Faults of every level: of tokens, values, spans, sequences, records and the dataset.
FAULTS = (
    "advantages-shifted",
    "advantage-residue",
    "record-lost",
    "recorded-logprobs-cut",
    "sampled-with-a-temperature",
    "sampled-in-another-session",
    "datum-repeated",
    "datum-repeated",
    "stale-by-a-second",
)
SPANS = ("model_input_spans", "loss_fn_input_spans")


@dataclass(frozen=True)
class Case:
    """A dataset on disk, and what a check of it is given."""

    dataset: Dataset
    folder: Path

    @property
    def options(self) -> dict[str, Any]:
        made = self.dataset
        return {
            "contract": made.contract,
            "session": made.session,
            "now": made.now,
            "max_examples": 4,
        }

    @property
    def table(self) -> pa.Table:
        return pq.read_table(self.folder / "a.parquet")

    @property
    def files(self) -> list[str]:
        """All of it twice: in row groups of three datums, and as lines."""
        return [str(self.folder / "a.parquet"), str(self.folder / "b.jsonl")]

    @property
    def sequences(self) -> str:
        return str(self.folder / "sequences.parquet")

    def ledger_without_places(self) -> MemoryLedger:
        """The sequences as they are in rows: nothing says in which file they were."""
        table, faults = table_of(self.dataset.sequences)
        assert not faults
        ledger = MemoryLedger()
        ledger.load(replace(table, row=np.full(len(table), -1)))
        return ledger

    @property
    def database(self) -> str:
        return str(self.folder / "sequences.db")

    def cut(self, rows: int) -> list[pa.Table]:
        return cut(self.table, rows)

    def with_sequences(self) -> pa.Table:
        """The rows, each with the records of the ids that it names."""
        records = pq.read_table(self.sequences)
        by_id: dict[str, list[Any]] = {}
        for record in records.to_pylist():
            by_id.setdefault(record["sequence_id"], []).append(record)
        table = self.table
        lists = [
            [
                record
                for name in dict.fromkeys(span["sequence_id"] for side in SPANS for span in row[side] or ())
                for record in by_id.get(name, ())
            ]
            for row in table.select(list(SPANS)).to_pylist()
        ]
        return table.append_column("sequences", pa.array(lists, pa.list_(pa.struct(list(records.schema)))))


def case(folder: Path, *, broken: bool, n: int = 40) -> Case:
    dataset = generate(n, seed=3, turns=2, tokens=12).dataset
    if broken:
        applied = apply(dataset, FAULTS, 7)
        assert len(applied) == len(FAULTS)
    whole = folder / "whole.parquet"
    dataset.write(whole, folder / "sequences.parquet")
    pq.write_table(pq.read_table(whole), folder / "a.parquet", row_group_size=3)
    dataset.write(folder / "b.jsonl")
    with SqlLedger(folder / "sequences.db") as ledger:
        ledger.record(map(provenance.SampledSequence.model_validate, filter(_consistent, dataset.sequences)))
    return Case(dataset, folder)


def cut(table: pa.Table, rows: int) -> list[pa.Table]:
    return [table.slice(start, rows) for start in range(0, len(table), rows)]


def _consistent(sequence: Mapping[str, Any]) -> bool:
    """A database refuses to record others."""
    return len(sequence["tokens"]) == len(sequence["logprobs"])


def text(report: provenance.Report) -> str:
    files = {
        file: (found.datums, found.bad_datums, repr(sorted(found.counts.items())), sorted(found.judged))
        for file, found in report.files.items()
    }
    return json.dumps([report.to_dict(), files], indent=1)
