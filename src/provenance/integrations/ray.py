"""Ray Data: a check of a dataset where its blocks are, with the report of one machine.

Needs the extra ``ray``.

Raises:
    MissingDependencyError: Ray Data is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from provenance.contract import Contract
from provenance.engine.verbs import EXAMPLES
from provenance.errors import MissingDependencyError
from provenance.integrations._stretches import Stretch, stretches
from provenance.integrations._work import SEQUENCES, Joined, Plan, Work, files_of, refuse_unique
from provenance.ledger import Ledger
from provenance.report import Report

try:
    import ray
    import ray.data

    from provenance.integrations import _ray_join
except ImportError as error:
    if error.name != "ray":
        raise
    raise MissingDependencyError("ray", "ray") from None

__all__ = ["Joined", "check", "split", "with_sequences"]


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
    """Check a dataset with Ray: the report is that of `provenance.check`, to the byte.

    ``data`` is paths, as for `provenance.check`, which each worker can open; or a Ray Dataset whose columns
    are those of Arrow files. Its rows are numbered in its order, as those of one table.

    ``ledger`` is what `provenance.check` takes, or `Joined` where each row carries its sequences. Each worker
    opens a database itself; any other ledger is put into the object store once. The other arguments are those
    of `provenance.check`.

    Raises:
        ProvenanceError: what `provenance.check` raises; and a `SchemaError` for a ledger that cannot be sent.
    """
    plan = Plan(
        contract,
        ledger=ledger,
        share=_put,
        session=session,
        now=now,
        loss_config=loss_config,
        max_examples=max_examples,
        allow_empty=allow_empty,
    )
    if isinstance(data, ray.data.Dataset):
        return _report(plan, _mapped(data, _in_rows, work=plan.work), one_table=True)
    tasks = stretches(files_of(data, ledger))
    numbers = ray.data.range(len(tasks), override_num_blocks=len(tasks))
    return _report(plan, _mapped(numbers, _in_files, work=plan.work, tasks=tasks), one_table=False)


def split(
    dataset: ray.data.Dataset,
    contract: Contract | str = "stable_reinforce",
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
) -> tuple[ray.data.Dataset, ray.data.Dataset]:
    """The rows without an error, as they are, and the rows with one.

    Bad rows have a last column ``provenance``: ``codes`` of the errors and the first ``violations``, as
    ``provenance.check(..., write_bad=...)`` writes it, but for ``file`` and ``row``, which are null. Both
    datasets are lazy, in the order of the dataset where Ray preserves it, and judge it when consumed.

    Arguments are those of `check`; rules about the dataset as a whole make no row bad.

    Raises:
        ContractError: by this contract a row may be bad because of others.
        ProvenanceError: what `check` raises before it looks at the dataset.
    """
    refuse_unique(contract)
    work = Plan(contract, ledger=ledger, share=_put, session=session, now=now).work
    return _mapped(dataset, _good, work=work), _mapped(dataset, _bad, work=work)


def with_sequences(
    dataset: ray.data.Dataset, sequences: ray.data.Dataset, *, column: str = SEQUENCES, partitions: int = 32
) -> ray.data.Dataset:
    """The rows in their order, each with the records of all ids that its spans name, for `Joined`.

    The dataset is materialized at once, and the rest when it is consumed.

    Args:
        dataset: a Ray Dataset whose columns are those of Arrow files.
        sequences: one whose columns are those of files of sequences.
        column: the name of the new column, a list of structs.
        partitions: in how many the sequences are joined, and the rows; each must fit into a worker's memory.
    """
    joined: ray.data.Dataset = _ray_join.with_sequences(dataset, sequences, column, partitions)
    return joined


def _in_rows(block: Any, work: Work) -> Any:
    return pa.Table.from_batches([work.rows(block)])


def _in_files(block: Any, work: Work, tasks: list[list[Stretch]]) -> Any:
    chosen = [stretch for number in block.column("id").to_pylist() for stretch in tasks[number]]
    return pa.Table.from_batches([work.files(chosen)])


def _good(block: Any, work: Work) -> Any:
    return work.good(block)


def _bad(block: Any, work: Work) -> Any:
    return work.bad(block)


def _mapped(dataset: Any, function: Callable[..., Any], **arguments: Any) -> Any:
    """The dataset that a function makes of each block, without a copy."""
    return dataset.map_batches(
        function, batch_format="pyarrow", batch_size=None, zero_copy_batch=True, fn_kwargs=arguments
    )


def _report(plan: Plan, findings: Any, *, one_table: bool) -> Report:
    # Closed also where the report ends early, with an error.
    with closing(_rows(findings)) as rows:
        return plan.report(rows, one_table=one_table)


def _rows(findings: Any) -> Generator[Mapping[str, Any], None, None]:
    """The rows of findings in the order of the dataset, as they are found."""
    with _ray_join.in_order(findings):
        for block in findings.iter_batches(batch_format="pyarrow", batch_size=None):
            yield from block.to_pylist()


def _put(ledger: Ledger) -> Callable[[], Ledger]:
    return partial(_got, ray.put(ledger))


@lru_cache(maxsize=1)
def _got(reference: Any) -> Any:
    """What was put into the object store; a worker keeps what it got last, for its next block."""
    return ray.get(reference)
