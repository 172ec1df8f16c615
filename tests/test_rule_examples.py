"""Every example of every rule on every path: alone, between valid datums, and as one of several slices.

Test ids read ``SPN003-bad-2-arrow``, so ``pytest -k SPN003`` runs one rule and ``pytest -k arrow`` one path.
"""

from __future__ import annotations

import copy
import gzip
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _paths import PATHS, check_case, found

import provenance
from provenance import SchemaError
from provenance.columns import Columns
from provenance.formats import columns_of, read_datums
from provenance.rules import Case, registry

#: Readers keep everything, so an example is refused only by a path that cannot write it down: Arrow files
#: hold int64 and float32 tensors of one or two dimensions, well-formed records, and spans of integers.
NOT_IN_ARROW = {"FMT004", "INP003", "INP004", "SPN005"}
ARROW_PATHS = ("parquet", "arrow", "stream")
#: What the SDK refuses to hold, or holds as something else, which a datum of it cannot show any more.
NOT_IN_SDK = {"FMT004", "INP003", "INP004", "SPN001", "SPN005", "TOK001", "VAL001"}
NOT_IN_A_REQUEST = {*NOT_IN_SDK, "INP006", "TOK003", "TOK004"}
QUICK_ALONE = tuple(path for path in PATHS if path != "request")
#: Paths of the quick suite for examples among others; the slow suite has all.
QUICK_AMONG_VALID = ("dicts", "jsonl", "arrow")
QUICK_SLICES = ("dicts", "arrow")
#: What is found once in a dataset, however many datums it has.
GLOBAL = {code for code, rule in registry().items() if rule.at in ("dataset", "config")}
COPIES = 3


class Example(NamedTuple):
    code: str
    bad: bool
    case: Case


EXAMPLES = {
    f"{code}-{kind}-{number}": Example(code, kind == "bad", case)
    for code, rule in sorted(registry().items())
    for kind, cases in (("good", rule.good), ("bad", rule.bad))
    for number, case in enumerate(cases, 1)
}
OF_DATUMS = [name for name, example in EXAMPLES.items() if example.case.lines is None]
OF_FILES = [name for name, example in EXAMPLES.items() if example.case.lines is not None]


def on_every_path(quick: Iterable[str] = PATHS) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("name", "path"),
        [
            pytest.param(name, path, id=f"{name}-{path}", marks=() if path in quick else pytest.mark.slow)
            for name in OF_DATUMS
            for path in PATHS
        ],
    )


Summary = tuple[list[Any], dict[str, Any], dict[str, int], int, int, Any]


def summary(report: provenance.Report) -> Summary:
    """Everything that must be the same on every path; rules that judged nothing need not be listed."""
    return (
        found(report),
        {code: count.to_dict() for code, count in report.counts.items()},
        {code: judged for code, judged in report.checked.items() if judged},
        report.datums,
        report.positions,
        report.not_checked,
    )


@cache
def reference(name: str) -> provenance.Report:
    return check_case(EXAMPLES[name].case)


def written(name: str, path: str, datums: Sequence[Mapping[str, Any]], folder: Path, codes: set[str]) -> Any:
    """The datums on a path; skips the test where the path refuses them for a reason it may have."""
    tensors = [tensor for datum in datums for tensor in datum["loss_fn_inputs"].values()]
    if path == "request" and any(tensor and tensor.get("shape") == [] for tensor in tensors):
        pytest.skip("a request does not tell a scalar from a list of one value")
    try:
        return PATHS[path](copy.deepcopy(datums), folder)
    except SchemaError as error:
        refusal = error
    code = EXAMPLES[name].code
    if path == "models":
        assert refusal.code in codes, f"{refusal.code} is not among {codes}: {refusal}"
        pytest.skip(f"refused by models: {refusal}")
    if path in ("sdk", "request"):
        refused = NOT_IN_SDK if path == "sdk" else NOT_IN_A_REQUEST
        assert refused & {code, *codes}, f"it can hold this: {refusal}"
        pytest.skip(f"not in the SDK: {refusal}")
    assert path in ARROW_PATHS, f"{path} holds everything: {refusal}"
    # One column has one dtype and one number of values a position, at least one.
    mixed = re.search(r" in a column of |: 0 dimensions", str(refusal))
    assert mixed or NOT_IN_ARROW & {code, *codes}, f"an Arrow file can hold this: {refusal}"
    assert re.match(r"row \d+: [a-z_]+", str(refusal)), f"names no row and field: {refusal}"
    pytest.skip(f"not in an Arrow file: {refusal}")


def assert_verdict(example: Example, codes: Iterable[str]) -> None:
    assert (example.code in codes) == example.bad, sorted(codes)


@on_every_path(QUICK_ALONE)
def test_example_alone(name: str, path: str, tmp_path: Path) -> None:
    example, expected = EXAMPLES[name], reference(name)
    assert_verdict(example, expected.counts)
    data = written(name, path, example.case.datums, tmp_path, expected.codes())
    assert summary(check_case(example.case, data)) == summary(expected)


# Between valid datums


def neighbours(example: Example, codes: set[str]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Two short valid datums, and their sequences, which were sampled a minute before the example's time."""
    case = example.case
    sampled_at = datetime.fromisoformat(case.now) - timedelta(minutes=1)
    # Some rules look at the whole dataset, and must find it as the example leaves it.
    reward = 0.0 if "ADV003" in codes else 1.0
    pairs = []
    for number in (1, 2):
        inputs: dict[str, Any] = {
            "target_tokens": {"data": [2, 3, 4], "dtype": "int64", "shape": [3]},
            "logprobs": {"data": [0.0, -0.5, -0.25], "dtype": "float32", "shape": [3]},
            "advantages": {"data": [0.0, reward, reward], "dtype": "float32", "shape": [3]},
        }
        if case.loss == "cross_entropy":
            inputs["weights"] = inputs.pop("advantages")
            del inputs["logprobs"]
        if case.loss == "gspo":
            inputs["sequence_ratio_mask"] = {"data": [0.0, 1.0, 1.0], "dtype": "float32", "shape": [3]}
        name = f"neighbour {number}"
        datum = {
            "model_input": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
            "loss_fn_inputs": inputs,
            "model_input_spans": [
                {"type": "prompt", "sequence_id": name, "offset": 0, "length": 2},
                {"type": "sampled", "sequence_id": name, "offset": 0, "length": 1},
            ],
            "loss_fn_input_spans": [
                {"type": "prompt", "sequence_id": name, "offset": 1, "length": 1},
                {"type": "sampled", "sequence_id": name, "offset": 0, "length": 2},
            ],
        }
        sequence = {
            "sequence_id": name,
            "session_id": case.session,
            "prompt_tokens": [1, 2],
            "tokens": [3, 4],
            "logprobs": [-0.5, -0.25],
            "sampled_at": sampled_at.isoformat(),
            "record_stability_info": True,
        }
        pairs.append((datum, sequence))
    return pairs


def shifted(violations: Iterable[tuple[Any, ...]], by: int) -> list[tuple[Any, ...]]:
    """Violations of datums that stand ``by`` rows further on; records and the dataset stay where they are."""
    moved = []
    for code, severity, row, *rest in violations:
        stays = row is None or registry()[code].at == "record"
        moved.append((code, severity, row if stays else row + by, *rest))
    return moved


@on_every_path(QUICK_AMONG_VALID)
def test_example_between_valid_datums(name: str, path: str, tmp_path: Path) -> None:
    example, alone = EXAMPLES[name], reference(name)
    (before, first), (after, second) = neighbours(example, alone.codes())
    case = example.case
    together = Case(
        datums=(before, *case.datums, after),
        sequences=(*case.sequences, first, second),
        loss=case.loss,
        config=case.config,
        parameters=case.parameters,
        session=case.session,
        now=case.now,
    )
    data = written(name, path, together.datums, tmp_path, alone.codes())
    report = check_case(together, data)
    assert_verdict(example, report.counts)
    assert found(report) == sorted(shifted(found(alone), 1), key=repr)
    assert {c: n.to_dict() for c, n in report.counts.items()} == {
        c: n.to_dict() for c, n in alone.counts.items()
    }
    assert (report.datums, report.bad_datums) == (alone.datums + 2, alone.bad_datums)


# As slices


def renamed(case: Case, suffix: str) -> Case:
    """The same case with other sequence ids."""
    datums, sequences = copy.deepcopy((case.datums, case.sequences))
    named = [
        *sequences,
        *(
            span
            for datum in datums
            for field in ("model_input_spans", "loss_fn_input_spans")
            for span in datum.get(field) or ()
        ),
    ]
    for item in named:
        if item.get("sequence_id"):
            item["sequence_id"] += suffix
    return Case(
        datums=datums,
        sequences=sequences,
        loss=case.loss,
        config=case.config,
        parameters=case.parameters,
        session=case.session,
        now=case.now,
    )


@cache
def copies(name: str) -> tuple[Case, list[provenance.Report]]:
    """Several copies of an example as one dataset, and the report on each copy alone."""
    parts = [renamed(EXAMPLES[name].case, f"#{number}") for number in range(COPIES)]
    whole = Case(
        datums=tuple(datum for part in parts for datum in part.datums),
        sequences=tuple(sequence for part in parts for sequence in part.sequences),
        loss=parts[0].loss,
        config=parts[0].config,
        parameters=parts[0].parameters,
        session=parts[0].session,
        now=parts[0].now,
    )
    return whole, [check_case(whole, list(part.datums)) for part in parts]


def columns_on(data: Any) -> Columns:
    if isinstance(data, Path):
        (columns,) = read_datums(data)
        return columns
    return columns_of(data)


def arrow_table(data: Path) -> pa.Table:
    if data.suffix == ".parquet":
        return pq.read_table(data)
    with pa.memory_map(str(data)) as file:
        return (pa.ipc.open_file if data.suffix == ".arrow" else pa.ipc.open_stream)(file).read_all()


@on_every_path(QUICK_SLICES)
def test_example_as_slices(name: str, path: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    whole, alone = copies(name)
    size = len(example.case.datums)
    data = written(name, path, whole.datums, tmp_path, alone[0].codes())
    report = check_case(whole, data)
    assert_verdict(example, report.counts)

    # Together they give what each gives alone, and what belongs to the whole dataset once.
    local = [v for i, r in enumerate(alone) for v in shifted(found(r), i * size) if v[0] not in GLOBAL]
    once = [v for v in found(alone[0]) if v[0] in GLOBAL]
    assert found(report) == sorted(local + once, key=repr)
    judged = Counter[str]()
    for part in alone:
        judged.update({code: n for code, n in part.checked.items() if code not in GLOBAL})
    assert {c: n for c, n in report.checked.items() if n and c not in GLOBAL} == {
        c: n for c, n in judged.items() if n
    }

    # A slice gives what its copy gives alone; rows of columns keep their number, rows of Arrow start anew.
    middle = COPIES // 2
    rows = np.arange(middle * size, (middle + 1) * size)
    columns = columns_on(data)
    if columns.readable.all():
        sliced = check_case(whole, columns.take(rows))
        assert found(sliced) == sorted(shifted(found(alone[middle]), middle * size), key=repr)
    if path in ARROW_PATHS:
        sliced = check_case(whole, arrow_table(data).slice(middle * size, size))
        assert summary(sliced) == summary(alone[middle])


# Files

_VALID_LINE = EXAMPLES["FMT003-good-1"].case.lines
_COMPRESSED = {
    "jsonl": lambda data: data,
    "gzip": gzip.compress,
    "zstd": lambda data: pa.compress(data, "zstd", asbytes=True),
}
_SUFFIX = {"jsonl": ".jsonl", "gzip": ".jsonl.gz", "zstd": ".jsonl.zst"}


def file_of(content: bytes, form: str, folder: Path) -> Path:
    path = folder / f"lines{_SUFFIX[form]}"
    path.write_bytes(_COMPRESSED[form](content))
    return path


@pytest.mark.parametrize(
    ("name", "form"), [pytest.param(n, f, id=f"{n}-{f}") for n in OF_FILES for f in _SUFFIX]
)
def test_example_of_a_file(name: str, form: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    plain = check_case(example.case, file_of(example.case.lines, "jsonl", tmp_path))
    report = check_case(example.case, file_of(example.case.lines, form, tmp_path))
    assert_verdict(example, report.counts)
    assert summary(report) == summary(plain)


@pytest.mark.parametrize(
    "name",
    # A byte order mark stands at the start of a file, and an empty file is not empty among others.
    [n for n in OF_FILES if EXAMPLES[n].case.lines[:1] in (b"{", b"[") and EXAMPLES[n].code != "FMT005"],
)
def test_example_of_a_line_between_valid_lines(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    alone = check_case(example.case, file_of(example.case.lines, "jsonl", tmp_path))
    report = check_case(
        example.case, file_of(_VALID_LINE + example.case.lines + _VALID_LINE, "jsonl", tmp_path)
    )
    assert_verdict(example, report.counts)
    assert found(report) == sorted(shifted(found(alone), 1), key=repr)
    assert [v.location.line for v in report] == [v.location.line + 1 for v in alone]
    assert report.datums == alone.datums + 2
