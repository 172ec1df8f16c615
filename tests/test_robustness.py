"""Data, options and files that nobody meant to write: one clear error or finding each, never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from _paths import check_case

import provenance
from provenance.rules import DROP, case

NOT_THERE = {"model_input_spans": DROP, "loss_fn_input_spans": DROP}
HUGE = 10**400


def codes(report: provenance.Report) -> set[str]:
    return report.codes()


# A datum is judged as if it were alone


def test_a_stray_input_of_another_datum_hides_nothing() -> None:
    wrong = case({**NOT_THERE, "loss_fn_inputs.target_tokens.data.3": 99}, loss="cross_entropy").datums[0]
    stray = json.loads(json.dumps(case(NOT_THERE, loss="cross_entropy").datums[0]))
    stray["loss_fn_inputs"]["advantages"] = {"data": [0.0] * 5, "dtype": "float32"}
    report = provenance.check([wrong, stray], "cross_entropy")
    assert {(v.code, v.location.row) for v in report.violations} == {("TOK006", 0), ("INP002", 1)}


def test_a_record_without_text_is_judged_alike_beside_an_image() -> None:
    text = case({"sequences.0.prompt_tokens.1": -1})
    image = case(
        {
            "model_input.chunks": [
                {"type": "encoded_text", "tokens": [11]},
                {"type": "image", "format": "png", "data": "iVBORw0KGgo=", "expected_tokens": 1},
                {"type": "encoded_text", "tokens": [13, 21, 22]},
            ],
            "loss_fn_inputs.target_tokens.data.0": 0,
        }
    )
    alone = check_case(text)
    beside = check_case(text, [*text.datums, *image.datums])
    of_first = {v.code for v in beside.violations if v.location.row == 0}
    assert codes(alone) == of_first == {"SEQ003"}


def test_values_stored_side_by_side_are_two_violations_where_they_are_apart() -> None:
    sparse = {
        "data": [float("nan"), float("nan")],
        "dtype": "float32",
        "shape": [5, 2],
        "sparse_crow_indices": [0, 1, 1, 1, 1, 2],
        "sparse_col_indices": [0, 1],
    }
    report = check_case(case({"loss_fn_inputs.weights": sparse}, loss="cross_entropy"))
    found = [v.location.index for v in report.violations if v.code == "VAL001"]
    assert found == [(0, 0), (4, 1)]


def test_a_schema_fault_is_reported_once_for_a_chunked_table() -> None:
    table = pa.table({"model_input_tokens": pa.chunked_array([["a"], ["b"]])})
    assert [v.code for v in provenance.check(table).violations].count("FMT004") == 1


@pytest.mark.parametrize(
    "change", [{"record_stability_info": False}, {"logprobs": [-0.1]}, {"temperature": 0.5}]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_conflicting_records_are_reported_whichever_comes_first(
    change: dict[str, Any], reverse: bool
) -> None:
    example = case()
    records = [dict(example.sequences[0]), {**example.sequences[0], **change}]
    report = provenance.check(
        list(example.datums),
        ledger=records[::-1] if reverse else records,
        session=example.session,
        now=example.now,
    )
    assert codes(report) == {"SEQ008"}


# Values


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"model_input.chunks.0.tokens.0": "\ud800"}, "FMT004"),
        ({"loss_fn_inputs.logprobs.data.0": "\ud800"}, "FMT004"),
        ({"model_input": np.array([1, 2])}, "FMT004"),
        ({"model_input.chunks": range(3)}, "FMT004"),
        ({"model_input.chunks.0.type": np.array([1])}, "FMT004"),
        ({"loss_fn_inputs": np.array([1])}, "FMT004"),
        ({"loss_fn_inputs.logprobs": np.array([1.0])}, "FMT004"),
        ({"model_input_spans.0": np.array([1])}, "FMT004"),
        ({"loss_fn_inputs.logprobs.data": {1.0, 2.0}}, "FMT004"),
    ],
)
def test_odd_objects_are_findings(changes: dict[str, Any], code: str) -> None:
    assert codes(check_case(case(changes))) == {code}


def test_a_key_that_cannot_be_printed_is_a_finding() -> None:
    datum = {**case().datums[0], 10**5000: 1}
    assert codes(provenance.check([datum])) >= {"FMT004"}


def test_a_line_with_half_a_surrogate_pair_leaves_the_others_alone(tmp_path: Path) -> None:
    good = json.dumps(case().datums[0])
    path = tmp_path / "data.jsonl"
    path.write_text(good.replace("[11, 12", '["\\ud800", 12', 1) + "\n" + good + "\n")
    report = provenance.check(path)
    assert (report.datums, report.bad_datums) == (2, 1)


@pytest.mark.parametrize("value", ["x", None, [2], HUGE, float("nan")])
def test_an_option_of_the_wrong_type_is_one_finding(value: object) -> None:
    report = check_case(case(loss="ppo", config={"clip_high_threshold": value}))
    assert codes(report) == {"CFG001"}


def test_a_policy_version_of_any_length_has_no_distance() -> None:
    example = case(
        {"sequences.0.policy_version": "4" * 400}, parameters={"learner_version": 7, "max_policy_lag": 2}
    )
    assert codes(check_case(example)) == set()


@pytest.mark.parametrize("window", [2**62, 1e18])
def test_a_window_may_be_longer_than_time(window: float) -> None:
    assert codes(check_case(case(parameters={"window": window}))) == set()


# Arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"session": ""},
        {"session": []},
        {"now": 5},
        {"now": "9999-12-31T23:59:59-14:00"},
        {"now": "0001-01-01T00:00:00+14:00"},
        {"loss_config": [[]]},
        {"contract": 5},
    ],
)
def test_arguments_that_are_none(arguments: dict[str, Any]) -> None:
    with pytest.raises(provenance.ContractError):
        provenance.check([], **arguments)


@pytest.mark.parametrize("parameter", [{"tolerance": HUGE}, {"window": 1e300}, {"max_tokens": 0}])
def test_parameters_beyond_reason(parameter: dict[str, Any]) -> None:
    with pytest.raises(provenance.ContractError):
        provenance.Contract.for_loss("ppo").with_parameters(**parameter)


@pytest.mark.parametrize("path", ["a\0b.jsonl", "a" * 5000 + ".jsonl"])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(provenance.ReadError):
        provenance.check(path)


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000, "ruleset = " + "1" * 5001, 'extends = "x/\\u0000.toml"']
)
def test_contract_files_that_are_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "contract.toml"
    path.write_text(text)
    with pytest.raises(provenance.ContractError, match=r"contract\.toml"):
        provenance.Contract.load(path)


class Forgetful(provenance.MemoryLedger):
    def lookup(self, ids: Any, session: Any) -> Any:
        return None


def test_a_ledger_that_answers_nothing_is_named() -> None:
    with pytest.raises(provenance.LedgerError, match="Forgetful"):
        provenance.check(list(case().datums), ledger=Forgetful())


# Files given twice, swapped or missing


def test_a_file_named_by_two_patterns_is_read_once(tmp_path: Path) -> None:
    provenance.write_datums(case().datums, tmp_path / "d.jsonl")
    report = provenance.check([tmp_path / "d*.jsonl", tmp_path / "d.jsonl"])
    assert report.datums == 1


def test_swapped_files_are_recognised(tmp_path: Path) -> None:
    example = case()
    provenance.write_datums(example.datums, tmp_path / "d.jsonl")
    provenance.write_sequences(example.sequences, tmp_path / "s.jsonl")
    report = provenance.check(tmp_path / "s.jsonl", ledger=tmp_path / "d.jsonl")
    messages = [v.message for v in report.violations if v.code == "FMT004"]
    assert messages == [
        "a datum, expected a sampled sequence: are data and ledger swapped?",
        "a sampled sequence, expected a datum: is this the ledger's file?",
    ]


CLOSED = "import os, sys; os.close(0); os.execv(sys.argv[1], sys.argv[1:])"


def test_a_closed_standard_input_is_unreadable_input() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSED, sys.executable, "-m", "provenance", "check", "-"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: <stdin>: ")
    assert "Traceback" not in done.stderr
