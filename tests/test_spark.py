"""Spark: the report of one machine, to the byte, however the dataset is cut."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _distributed import Case, case, text

import provenance
from provenance.errors import ContractError, ReadError
from provenance.integrations._stretches import stretches

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java: apt-get install default-jre-headless", allow_module_level=True)

from pyspark.sql import DataFrame, SparkSession

from provenance.integrations import spark as on_spark

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    # Spark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    local = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
        "spark.log.level": "OFF",
    }
    session = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("broken"), broken=True)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("valid"), broken=False)


def local(made: Case, data: Any, ledger: Any) -> str:
    return text(provenance.check(data, ledger=ledger, **made.options))


def frame_of(spark: SparkSession, table: pa.Table, stretches: int) -> DataFrame:
    """A table in neighbouring stretches, in two partitions each."""
    size = -(-len(table) // stretches)
    frames = [spark.createDataFrame(table.slice(n * size, size)) for n in range(stretches)]
    return reduce(DataFrame.union, frames)


@pytest.mark.parametrize("stretches", [1, 3])
def test_a_frame_in_partitions(spark: SparkSession, made: Case, stretches: int) -> None:
    frame = frame_of(spark, made.table, stretches)
    assert frame.rdd.getNumPartitions() == 2 * stretches
    report = on_spark.check(frame, ledger=made.sequences, **made.options)
    assert text(report) == local(made, made.table, made.sequences)
    assert report.datums == len(made.table)


def test_valid_data(spark: SparkSession, valid: Case) -> None:
    report = on_spark.check(frame_of(spark, valid.table, 2), ledger=valid.database, **valid.options)
    assert report.valid
    assert text(report) == local(valid, valid.table, valid.database)


@pytest.mark.parametrize("size", [1, 3000, 2**26])
def test_files(spark: SparkSession, made: Case, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "stretches", partial(stretches, size=size))
    report = on_spark.check(made.files, ledger=made.database, **made.options)
    assert text(report) == local(made, made.files, made.database)


def test_rows_with_their_sequences(spark: SparkSession, made: Case) -> None:
    frame = frame_of(spark, made.table, 3)
    joined = on_spark.with_sequences(frame, spark.read.parquet(made.sequences)).persist()
    assert joined.columns == [*made.table.column_names, "sequences"]
    assert joined.drop("sequences").toArrow().to_pylist() == made.table.to_pylist()
    report = on_spark.check(joined, ledger=on_spark.Joined(), **made.options)
    assert text(report) == local(made, made.table, made.ledger_without_places())


def test_good_and_bad_rows(spark: SparkSession, made: Case, tmp_path: Path) -> None:
    provenance.check(made.files[0], ledger=made.sequences, write_good=tmp_path / "g.parquet", **made.options)
    options = {name: value for name, value in made.options.items() if name != "max_examples"}
    good, bad = on_spark.split(frame_of(spark, made.table, 3), ledger=made.sequences, **options)
    assert good.toArrow().to_pylist() == pq.read_table(tmp_path / "g.parquet").to_pylist()
    report = provenance.check(made.table, ledger=made.sequences, **made.options)
    notes = [row["provenance"] for row in bad.toArrow().to_pylist()]
    assert len(notes) == report.bad_datums
    assert all(note["codes"] and note["violations"] for note in notes)


def test_an_empty_frame(spark: SparkSession, made: Case) -> None:
    report = on_spark.check(frame_of(spark, made.table, 2).limit(0), ledger=made.sequences, **made.options)
    assert text(report) == local(made, [], made.sequences)


def test_columns_that_are_no_datums(spark: SparkSession, made: Case) -> None:
    table = made.table.rename_columns({"target_tokens": "targets"}).append_column(
        "note", pa.array(["x"] * len(made.table))
    )
    report = on_spark.check(frame_of(spark, table, 3), ledger=made.sequences, **made.options)
    assert text(report) == local(made, table, made.sequences)


def test_an_error_in_a_worker_is_that_of_one_machine(spark: SparkSession, made: Case) -> None:
    damaged = made.folder / "damaged.parquet"
    damaged.write_bytes(b"PAR1")
    with pytest.raises(ReadError) as theirs:
        on_spark.check([made.files[0], damaged], **made.options)
    with pytest.raises(ReadError) as ours:
        provenance.check([made.files[0], damaged], **made.options)
    assert str(theirs.value) == str(ours.value)


def test_rows_cannot_be_sorted_by_what_came_before(spark: SparkSession, made: Case) -> None:
    contract = provenance.Contract.for_loss("stable_reinforce").with_severity({"SEQ010": "error"})
    with pytest.raises(ContractError, match="SEQ010 is an error"):
        on_spark.split(frame_of(spark, made.table, 1), contract)
