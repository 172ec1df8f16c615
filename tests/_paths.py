"""The ways the same dataset reaches the engine, for tests that hold all of them to one result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import provenance
from provenance.rules import Case

Dataset = Iterable[Mapping[str, Any]]


def as_dicts(datums: Dataset, folder: Path) -> Any:
    return list(datums)


def as_models(datums: Dataset, folder: Path) -> Any:
    known = ("model_input", "loss_fn_inputs", "model_input_spans", "loss_fn_input_spans")
    return [
        provenance.Datum.model_validate({key: d[key] for key in d if key in known or key not in LABELS})
        for d in datums
    ]


def as_jsonl(datums: Dataset, folder: Path) -> Any:
    path = folder / "datums.jsonl"
    path.write_text("".join(json.dumps(d) + "\n" for d in datums), encoding="utf-8")
    return path


def _written(suffix: str) -> Callable[[Dataset, Path], Any]:
    def write(datums: Dataset, folder: Path) -> Any:
        path = folder / f"datums{suffix}"
        provenance.write_datums(datums, path)
        return path

    return write


def as_sdk(datums: Dataset, folder: Path) -> Any:
    from _sdk import sdk_datum

    return [sdk_datum(datum, LABELS) for datum in datums]


def as_request(datums: Dataset, folder: Path) -> Any:
    from provenance.integrations.tinker import write_request

    path = folder / "request.pb"
    made = as_sdk(datums, folder)
    if any(side == [] for datum in made for side in (datum.model_input_spans, datum.loss_fn_input_spans)):
        raise provenance.SchemaError("in a request an empty list of spans is none")
    write_request(made, path, model_id="s:train:0", seq_id=1, loss_fn="custom")
    return path


LABELS = ("datum_id", "group_id", "metadata", "provenance", "note")
#: Name of a path -> datums and a folder -> what ``check`` is given. A path may raise SchemaError for
#: datums that it cannot hold.
PATHS: dict[str, Callable[[Dataset, Path], Any]] = {
    "dicts": as_dicts,
    "models": as_models,
    "jsonl": as_jsonl,
    "gzip": _written(".jsonl.gz"),
    "zstd": _written(".jsonl.zst"),
    "parquet": _written(".parquet"),
    "arrow": _written(".arrow"),
    "stream": _written(".arrows"),
    "sdk": as_sdk,
    "request": as_request,
}


def contract_of(case: Case) -> provenance.Contract:
    return provenance.Contract.for_loss(case.loss).with_parameters(**case.parameters)


def check_case(case: Case, data: Any = None, **options: Any) -> provenance.Report:
    """Check a case's datums, or the same data in another form."""
    return provenance.check(
        list(case.datums) if data is None else data,
        contract_of(case),
        ledger=list(case.sequences),
        session=case.session,
        now=case.now,
        loss_config=case.config,
        **options,
    )


def found(report: provenance.Report) -> list[tuple[Any, ...]]:
    """The violations without their file, in an order of their own."""
    return sorted(
        (
            (
                v.code,
                v.severity,
                v.location.row,
                v.location.field,
                v.location.index,
                v.location.length,
                v.location.sequence_id,
                v.message,
            )
            for v in report.violations
        ),
        key=repr,
    )
