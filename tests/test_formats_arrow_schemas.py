"""Columns of the wrong type: one fault of the file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _arrow import CHUNK, CONTAINERS, only, table, write

import provenance
from provenance.formats import arrow
from provenance.rules import case

WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "string": ({"name": pa.array(["a", "b", "c"])}, "name", "string"),
    "scalar": ({"reward": pa.array([1.0, 2.0, 3.0])}, "reward", "double"),
    "strings": ({"words": pa.array([["a"], [], []])}, "words", "string>, expected list of numbers"),
    "bools": ({"mask": pa.array([[True], [], []])}, "mask", "bool>, expected list of numbers"),
    "structs": ({"mask": pa.array([[{"a": 1}], [], []])}, "mask", "struct"),
    "cube": ({"mask": pa.array([[[[1.0]]], [], []])}, "mask", "list"),
    "tokens": (
        {"model_input_tokens": pa.array([[1.0], [], []])},
        "model_input_tokens",
        "double>, expected list of integers",
    ),
    "no-input": ({"model_input_tokens": None}, "model_input", "missing"),
    "two-inputs": ({"model_input": pa.nulls(3, pa.list_(CHUNK))}, "model_input", "model_input_tokens too"),
    "spans": ({"model_input_spans": pa.array(["a", "b", "c"])}, "model_input_spans", "string"),
    "span-field": (
        {
            "model_input_spans": pa.array(
                [[{"type": "prompt", "sequence_id": "a", "length": 1, "start": 1}], [], []]
            )
        },
        "model_input_spans.start",
        "unknown field",
    ),
    "span-type": (
        {"model_input_spans": pa.array([[{"type": "prompt", "sequence_id": "a", "length": 1.5}], [], []])},
        "model_input_spans.length",
        "double, expected integer",
    ),
    "span-missing": (
        {"model_input_spans": pa.array([[{"type": "prompt", "length": 1}], [], []])},
        "model_input_spans.sequence_id",
        "missing",
    ),
    "chunk-field": (
        {"model_input_tokens": None, "model_input": pa.array([[{"type": "image", "dmel": "x"}], [], []])},
        "model_input.dmel",
        "unknown field",
    ),
    "chunk-type": (
        {
            "model_input_tokens": None,
            "model_input": pa.array([[{"type": "encoded_text", "tokens": "x"}], [], []]),
        },
        "model_input.tokens",
        "string, expected list of integers",
    ),
    "time": ({"day": pa.array([dt.date(2026, 1, 1)] * 3)}, "day", "date32"),
}


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_columns_are_one_fault_of_the_file(name: str, suffix: str, tmp_path: Path) -> None:
    changes, field, message = WRONG[name]
    path = write(table(**changes), tmp_path / f"data{suffix}")
    read: list[int] = []
    batch = only(arrow.read_datums(path, on_bytes=read.append))
    assert len(batch) == 0
    assert batch.file == path
    assert [(f.code, f.row, f.field) for f in batch.faults] == [("FMT004", None, field)]
    assert message in batch.faults[0].message
    assert sum(read) == Path(path).stat().st_size
    assert [f.field for f in arrow.columns_of_batch(table(**changes)).faults] == [field]


def test_columns_of_one_name() -> None:
    data = table()
    data = data.append_column("logprobs", data["logprobs"])
    (fault,) = arrow.columns_of_batch(data).faults
    assert (fault.code, fault.field, fault.message) == ("FMT003", "logprobs", "2 columns of this name")


def test_data_and_ledger_that_are_swapped_are_one_fault(tmp_path: Path) -> None:
    provenance.write_datums(list(case().datums), tmp_path / "d.parquet")
    provenance.write_sequences(list(case().sequences), tmp_path / "s.parquet")
    report = provenance.check(tmp_path / "s.parquet", ledger=tmp_path / "d.parquet")
    assert report.codes() == {"FMT004"}
    messages = [violation.message for violation in report]
    assert messages == [
        "datums, expected sampled sequences: are data and ledger swapped?",
        "sampled sequences, expected datums: is this the ledger's file?",
    ]


def test_a_file_that_one_column_spoils_is_not_called_empty(tmp_path: Path) -> None:
    provenance.write_datums(list(case().datums), tmp_path / "d.parquet")
    table = pq.read_table(tmp_path / "d.parquet")
    pq.write_table(table.append_column("reward", pa.array([0.5] * len(table))), tmp_path / "d.parquet")
    assert provenance.check(tmp_path / "d.parquet").codes() == {"FMT004"}
