"""What a report says of each file, against checks of that file alone."""

from __future__ import annotations

import pickle
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import provenance
from provenance.engine.parts import CheckInParts
from provenance.formats.arrow import row_groups
from provenance.integrations._findings import part_of, table_of
from provenance.report import FileCount, Report
from provenance.rules import case
from provenance.rules._examples import NOW, SESSION

CIRCUMSTANCES: dict[str, Any] = {"session": SESSION, "now": NOW}
#: Sound, with faults, with a line that is no JSON, without a shape, and empty.
FILES = ("sound", "faulty", "unreadable", "shapeless", "empty")


def damaged(copies: int, **changes: Any) -> list[dict[str, Any]]:
    tensors = {
        f"loss_fn_inputs.{name}": {"data": data, "dtype": "float32", "shape": [len(data)]}
        for name, data in changes.items()
    }
    return list(case(tensors).datums) * copies


def write(folder: Path, suffix: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    positive = damaged(2, logprobs=[0.5, 0.0, -0.125, 0.5, 0.5])
    nan = damaged(1, advantages=[0.0, 0.0, 1.0, float("nan"), 1.0])
    short = damaged(3, logprobs=[0.0])
    contents = {
        "sound": damaged(2),
        "faulty": [*positive, *damaged(1), *nan],
        "unreadable": damaged(1),
        "shapeless": short,
        "empty": [],
    }
    paths = []
    for name in FILES:
        path = folder / f"{name}{suffix}"
        provenance.write_datums(contents[name], path)
        if name == "unreadable" and suffix == ".jsonl":
            path.write_text(path.read_text() + "{\n")
        paths.append(str(path))
    return paths


def numbers(found: FileCount) -> dict[str, Any]:
    counts = {code: count.to_dict() for code, count in sorted(found.counts.items())}
    return {"datums": found.datums, "bad": found.bad_datums, "counts": counts, "judged": found.judged}


def by_file(report: Report) -> dict[str, Any]:
    return {file: numbers(found) for file, found in report.files.items()}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_each_file_has_what_a_check_of_it_alone_finds(suffix: str, tmp_path: Path) -> None:
    paths = write(tmp_path, suffix)
    sequences = list(case().sequences)
    # The same sequences in every datum: what is unique is no matter of one file.
    contract = provenance.Contract.for_loss("stable_reinforce").ignore(["SEQ010", "ADV003", "FMT005"])
    whole = provenance.check(paths, contract, ledger=sequences, **CIRCUMSTANCES)
    assert whole.files
    for path in paths:
        alone = provenance.check(path, contract, ledger=sequences, **CIRCUMSTANCES)
        found = whole.files.get(path, FileCount())
        assert (found.datums, found.bad_datums) == (alone.datums, alone.bad_datums)
        assert found.counts == alone.counts
        judged = {code for code, elements in alone.checked.items() if elements}
        assert found.judged == judged
    assert sum(found.bad_datums for found in whole.files.values()) == whole.bad_datums > 0


def test_files_are_in_their_order_and_add_up(tmp_path: Path) -> None:
    paths = write(tmp_path, ".jsonl")
    report = provenance.check(paths, ledger=list(case().sequences), **CIRCUMSTANCES)
    assert list(report.files) == [path for path in paths if "empty" not in path]
    for code, count in report.counts.items():
        found = [files.counts[code] for files in report.files.values() if code in files.counts]
        assert sum(one.violations for one in found) == count.violations
        assert sum(one.datums for one in found) == count.datums
    assert "VAL001" not in report.files[paths[3]].judged
    assert "INP005" in report.files[paths[3]].judged


def test_records_and_memory_are_in_no_file() -> None:
    (sequence,) = case().sequences[:1]
    conflict = {**sequence, "tokens": [t + 1 for t in sequence["tokens"]]}
    report = provenance.check(list(case().datums), ledger=[*case().sequences, conflict], **CIRCUMSTANCES)
    assert report.counts["SEQ008"].violations == 1
    assert report.files == {}


def test_a_conflict_of_records_is_in_no_file(tmp_path: Path) -> None:
    (path, *_) = write(tmp_path, ".jsonl")
    (sequence,) = case().sequences[:1]
    conflict = {**sequence, "tokens": [t + 1 for t in sequence["tokens"]]}
    report = provenance.check(path, ledger=[*case().sequences, conflict], **CIRCUMSTANCES)
    assert report.counts["SEQ008"].violations == 1
    assert "SEQ008" not in report.files[path].counts


@pytest.mark.parametrize("strict", [False, True])
def test_parts_give_the_files_of_the_whole(strict: bool, tmp_path: Path) -> None:
    paths = write(tmp_path, ".jsonl")
    contract = provenance.Contract.for_loss("stable_reinforce")
    if strict:  # so that a repetition of another file makes a datum bad
        contract = contract.with_severity({"SEQ010": "error"})
    sequences = list(case().sequences)
    whole = provenance.check(paths, contract, ledger=sequences, **CIRCUMSTANCES)
    assert whole.counts["SEQ010"].violations == 6
    checker = CheckInParts(contract, ledger=True, **CIRCUMSTANCES)
    start, ledger = checker.start(sequences)
    parts = [checker.look(path, ledger) for path in paths]
    assert by_file(checker.report(start, parts)) == by_file(whole)
    sent = [part_of(row) for row in table_of(pickle.loads(pickle.dumps(parts))).to_pylist()]
    tail = reduce(checker.join, sent[1:])
    assert by_file(checker.report(start, [sent[0], tail])) == by_file(whole)


def test_stretches_of_a_file_give_the_numbers_of_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "datums.parquet")
    provenance.write_datums(damaged(6, logprobs=[0.5, 0.0, -0.125, 0.5, 0.5]), path)
    whole = provenance.check(path, ledger=list(case().sequences), **CIRCUMSTANCES)
    assert whole.files[path].counts["VAL002"].violations == 12
    checker = CheckInParts("stable_reinforce", ledger=True, **CIRCUMSTANCES)
    start, ledger = checker.start(list(case().sequences))
    ((columns,),) = (piece.read() for piece in row_groups(path))
    parts = [checker.look(columns.take(np.arange(first, first + 2)), ledger) for first in (0, 2, 4)]
    assert by_file(checker.report(start, parts)) == by_file(whole)


def test_a_file_without_the_columns_is_shown_also_behind_as_many_faults_as_are_kept(tmp_path: Path) -> None:
    lines, table = tmp_path / "a.jsonl", tmp_path / "b.parquet"
    lines.write_text('{"model_input": 3, "loss_fn_inputs": {}}\n' * 5)
    pq.write_table(pa.table({"x": [1, 2]}), table)
    paths = [str(lines), str(table)]
    report = provenance.check(paths, "ppo", max_examples=3, **CIRCUMSTANCES)
    wrong = [violation.location for violation in report.violations if violation.code == "FMT004"]
    missing, unknown, first = [(at.file, at.row) for at in wrong]
    assert missing == unknown == (paths[1], None)
    assert first == (paths[0], 0)
    checking = CheckInParts("ppo", ledger=False, max_examples=3, **CIRCUMSTANCES)
    start, ledger = checking.start(None)
    parts = [checking.look([path], ledger) for path in paths]
    assert checking.report(start, parts).to_dict() == report.to_dict()
