"""Spark: a check of a DataFrame where its partitions are, with the report of one machine.

Needs the extra ``spark``, and Java as Spark does.

Raises:
    MissingDependencyError: pyspark is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final

from provenance.contract import Contract
from provenance.engine.verbs import EXAMPLES
from provenance.errors import MissingDependencyError
from provenance.formats.arrow_batch import noted_schema
from provenance.integrations._findings import SCHEMA
from provenance.integrations._stretches import Stretch, stretches
from provenance.integrations._work import SEQUENCES, Joined, Plan, Work, files_of, refuse_unique
from provenance.ledger import Ledger
from provenance.report import Report

try:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession, functions
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
except ImportError as error:
    if error.name != "pyspark":
        raise
    raise MissingDependencyError("pyspark", "spark") from None

__all__ = ["Joined", "check", "split", "with_sequences"]

_ROW: Final = "provenance: row"
_ID: Final = "sequence_id"
_FIRST: Final = (_ID, "session_id", "sampled_at")
_SPANS: Final = ("model_input_spans", "loss_fn_input_spans")


def check(
    data: Any,
    contract: Contract | str = "stable_reinforce",
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
    loss_config: Mapping[str, Any] | None = None,
    max_examples: int = EXAMPLES,
    allow_empty: bool = False,
) -> Report:
    """Check a dataset with Spark: the report is that of `provenance.check`, to the byte.

    ``data`` is paths, as for `provenance.check`, which each worker can open; or a DataFrame whose columns are
    those of Arrow files. Its rows are numbered partition by partition, as ``collect`` gives them.

    ``ledger`` is what `provenance.check` takes, or `Joined` where each row carries its sequences. Each worker
    opens a database itself; any other ledger is broadcast. The other arguments are those of
    `provenance.check`.

    Raises:
        ProvenanceError: what `provenance.check` raises; and a `SchemaError` for a ledger that cannot be sent.
    """
    session_of_spark = (
        data.sparkSession if isinstance(data, DataFrame) else SparkSession.builder.getOrCreate()
    )
    plan = Plan(
        contract,
        ledger=ledger,
        share=partial(_broadcast, session_of_spark),
        session=session,
        now=now,
        loss_config=loss_config,
        max_examples=max_examples,
        allow_empty=allow_empty,
    )
    if isinstance(data, DataFrame):
        return _report(plan, _mapped(data, plan.work.rows, SCHEMA), one_table=True)
    tasks = stretches(files_of(data, ledger))
    numbers = session_of_spark.range(0, len(tasks), 1, len(tasks))
    return _report(plan, _mapped(numbers, partial(_in_files, plan.work, tasks), SCHEMA), one_table=False)


def split(
    frame: DataFrame,
    contract: Contract | str = "stable_reinforce",
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
) -> tuple[DataFrame, DataFrame]:
    """The rows without an error, as they are, and the rows with one.

    Bad rows have a last column ``provenance``: ``codes`` of the errors and the first ``violations``, as
    ``provenance.check(..., write_bad=...)`` writes it, but for ``file`` and ``row``, which are null. Both
    DataFrames are lazy, have the rows in their order, and judge them when they are consumed.

    Arguments are those of `check`; rules about the dataset as a whole make no row bad.

    Raises:
        ContractError: by this contract a row may be bad because of others.
        ProvenanceError: what `check` raises before it looks at the rows.
    """
    refuse_unique(contract)
    share = partial(_broadcast, frame.sparkSession)
    work = Plan(contract, ledger=ledger, share=share, session=session, now=now).work
    columns = to_arrow_schema(frame.schema)
    return _mapped(frame, work.good, columns), _mapped(frame, work.bad, noted_schema(columns))


def with_sequences(frame: DataFrame, sequences: DataFrame, *, column: str = SEQUENCES) -> DataFrame:
    """The rows in their order, each with the records of all ids that its spans name, for `Joined`.

    The DataFrame is read more than once, so that it must be the same each time; ``checkpoint`` sees to that.

    Args:
        frame: a DataFrame whose columns are those of Arrow files.
        sequences: one whose columns are those of files of sequences.
        column: the name of the new column, a list of structs.
    """
    numbered = frame.drop(column).withColumn(_ROW, functions.monotonically_increasing_id())
    none = functions.array().cast("array<string>")
    ids = [
        functions.coalesce(functions.col(f"{name}.{_ID}"), none) for name in _SPANS if name in frame.columns
    ]
    named = numbered.select(
        _ROW, functions.explode(functions.array_distinct(functions.concat(none, *ids))).alias(_ID)
    )
    # Those that records are told apart by come first: the order must not depend on the shuffle.
    fields = sorted(sequences.columns, key=lambda name: name not in _FIRST)
    records = sequences.select(_ID, functions.struct(*fields).alias(column))
    lists = (
        named.join(records, _ID)
        .groupBy(_ROW)
        .agg(functions.sort_array(functions.collect_list(column)).alias(column))
    )
    return numbered.join(lists, _ROW, "left").orderBy(_ROW).drop(_ROW)


def _in_files(work: Work, tasks: list[list[Stretch]], numbers: Any) -> Any:
    chosen = [stretch for number in numbers.column("id").to_pylist() for stretch in tasks[number]]
    return work.files(chosen)


def _mapped(frame: DataFrame, function: Callable[[Any], Any], schema: Any) -> DataFrame:
    """The DataFrame that a function makes of each record batch."""
    return frame.mapInArrow(partial(_each, function), from_arrow_schema(schema))


def _each(function: Callable[[Any], Any], batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield function(batch)


def _report(plan: Plan, findings: DataFrame, *, one_table: bool) -> Report:
    # Closed also where the report ends early, with an error.
    with closing(_rows(findings)) as rows:
        return plan.report(rows, one_table=one_table)


def _rows(findings: DataFrame) -> Generator[Mapping[str, Any], None, None]:
    """The rows of findings in the order of the dataset; one partition of them at a time is on the driver."""
    # Found by all workers first: toLocalIterator has Spark work on one partition after the other.
    findings.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        findings.count()
        for row in findings.toLocalIterator(prefetchPartitions=True):
            yield row.asDict(recursive=True)
    finally:
        findings.unpersist()


def _broadcast(session: SparkSession, ledger: Ledger) -> Callable[[], Ledger]:
    return partial(attrgetter("value"), session.sparkContext.broadcast(ledger))
