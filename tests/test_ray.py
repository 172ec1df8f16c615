"""Ray: the report of one machine, to the byte, however the dataset is cut."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _distributed import Case, case, cut, text

import provenance
from provenance.errors import ContractError, ReadError
from provenance.integrations._stretches import stretches

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

from provenance.integrations import ray as on_ray  # noqa: E402 - it needs what may be absent

pytestmark = [
    pytest.mark.slow,
    # Ray sets options of its own that it has deprecated.
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),
]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.default_hash_shuffle_parallelism = 4
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("broken"), broken=True)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("valid"), broken=False)


def local(made: Case, data: Any, ledger: Any) -> str:
    return text(provenance.check(data, ledger=ledger, **made.options))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_a_dataset_in_blocks(made: Case, rows: int) -> None:
    dataset = ray.data.from_arrow(made.cut(rows))
    report = on_ray.check(dataset, ledger=made.sequences, **made.options)
    assert text(report) == local(made, made.table, made.sequences)
    assert report.datums == len(made.table)


def test_a_dataset_that_is_computed(made: Case) -> None:
    dataset = ray.data.from_arrow(made.cut(9)).map_batches(lambda block: block, batch_format="pyarrow")
    before = dataset.context.execution_options.preserve_order
    report = on_ray.check(dataset, ledger=made.database, **made.options)
    assert text(report) == local(made, made.table, made.database)
    assert dataset.context.execution_options.preserve_order == before


def test_valid_data(valid: Case) -> None:
    report = on_ray.check(ray.data.from_arrow(valid.cut(9)), ledger=valid.sequences, **valid.options)
    assert report.valid
    assert text(report) == local(valid, valid.table, valid.sequences)


@pytest.mark.parametrize("size", [1, 3000, 2**26])
def test_files(made: Case, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "stretches", partial(stretches, size=size))
    report = on_ray.check(made.files, ledger=made.database, **made.options)
    assert text(report) == local(made, made.files, made.database)


def test_rows_with_their_sequences(made: Case) -> None:
    dataset = ray.data.from_arrow(made.cut(7))
    sequences = ray.data.from_arrow(cut(pq.read_table(made.sequences), 20))
    joined = on_ray.with_sequences(dataset, sequences, partitions=3).materialize()
    assert joined.schema().names == [*made.table.column_names, "sequences"]
    rows = pa.concat_tables(ray.get(joined.to_arrow_refs()))
    assert rows.drop_columns("sequences").cast(made.table.schema).equals(made.table.combine_chunks())
    report = on_ray.check(joined, ledger=on_ray.Joined(), **made.options)
    assert text(report) == local(made, made.table, made.ledger_without_places())


def test_good_and_bad_rows(made: Case, tmp_path: Path) -> None:
    provenance.check(made.files[0], ledger=made.sequences, write_good=tmp_path / "g.parquet", **made.options)
    dataset = ray.data.from_arrow(made.cut(7))
    dataset.context.execution_options.preserve_order = True
    options = {name: value for name, value in made.options.items() if name != "max_examples"}
    good, bad = (rows.materialize() for rows in on_ray.split(dataset, ledger=made.sequences, **options))
    assert pa.concat_tables(ray.get(good.to_arrow_refs())).equals(pq.read_table(tmp_path / "g.parquet"))
    report = provenance.check(made.table, ledger=made.sequences, **made.options)
    assert bad.count() == report.bad_datums
    assert all(row["provenance"]["codes"] for row in bad.iter_rows())


def test_an_empty_dataset(made: Case) -> None:
    dataset = ray.data.from_arrow(made.table).map_batches(lambda block: block[:0], batch_format="pyarrow")
    report = on_ray.check(dataset, ledger=made.sequences, **made.options)
    assert text(report) == local(made, [], made.sequences)


def test_an_error_in_a_worker_is_that_of_one_machine(made: Case) -> None:
    damaged = made.folder / "damaged.parquet"
    damaged.write_bytes(b"PAR1")
    with pytest.raises(ReadError) as theirs:
        on_ray.check([made.files[0], damaged], **made.options)
    with pytest.raises(ReadError) as ours:
        provenance.check([made.files[0], damaged], **made.options)
    assert str(theirs.value) == str(ours.value)


def test_rows_cannot_be_sorted_by_what_came_before(made: Case) -> None:
    contract = provenance.Contract.for_loss("stable_reinforce").with_severity({"SEQ010": "error"})
    with pytest.raises(ContractError, match="SEQ010 is an error"):
        on_ray.split(ray.data.from_arrow(made.table), contract)
