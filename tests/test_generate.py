"""Generated datasets: valid, the same everywhere, and broken where that was asked for."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import call

import provenance
from provenance.generate import NOW, SESSION, generate
from provenance.loss_spec import LOSSES
from provenance.rules import registry as rules

#: Rules that no mutation breaks alone under default parameters -> what is reported besides.
ACCOMPANIED = {"SEQ012": {"SEQ006"}}
#: What a contract has to say before a rule can be broken.
PARAMETERS = {"SES005": {"learner_version": 9, "max_policy_lag": 1}}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_generated_is_valid(loss: str) -> None:
    for seed, images in ((0, False), (1, True)):
        made = generate(12, seed=seed, contract=loss, images=images)
        report = made.dataset.report()
        assert not report.counts, [str(v) for v in report]
        assert report.datums == 12
        assert (made.mutation, made.place) == (None, None)


def test_sizes_are_kept_to() -> None:
    datums = generate(100, turns=2, tokens=20).dataset.datums
    lengths = {len(datum["loss_fn_inputs"]["target_tokens"]["data"]) for datum in datums}
    spans = {len(datum["loss_fn_input_spans"]) for datum in datums}
    assert max(lengths) in (18, 19)
    assert spans == {2, 4}
    single = generate(20, turns=1, tokens=4).dataset
    assert {len(datum["model_input_spans"]) for datum in single.datums} == {2}
    assert not single.report().counts


def test_the_smallest_dataset_has_a_signal() -> None:
    for seed in range(12):
        assert not generate(1, seed=seed).dataset.report().counts


def test_a_contract_is_kept_to() -> None:
    contract = provenance.Contract.for_loss("stable_reinforce").with_parameters(
        vocab_size=7, max_tokens=9, window=3700.0, learner_version=3, max_policy_lag=0
    )
    dataset = generate(40, contract=contract).dataset
    report = dataset.report()
    assert not report.counts, [str(v) for v in report]
    assert {"TOK001", "INP009", "SES005"} <= set(report.checked)


def test_the_same_seed_gives_the_same_bytes() -> None:
    """On every machine and under every version of numpy: the digest was computed once."""
    lines = generate(30, seed=3).dataset.to_jsonl()
    assert lines == generate(30, seed=3).dataset.to_jsonl() != generate(30, seed=4).dataset.to_jsonl()
    assert (
        hashlib.sha256(lines).hexdigest()
        == "cf9b7a95ba7d5617abdd4ea3f8f9f789bea8b3106a5e139ac9a00984fb72a124"
    )


@pytest.mark.parametrize("code", rules())
def test_a_rule_is_broken_alone(code: str) -> None:
    contract = None
    if code in PARAMETERS:
        contract = provenance.Contract.for_loss("stable_reinforce").with_parameters(**PARAMETERS[code])
    for seed in range(2):
        made = generate(4, seed=seed, contract=contract, break_=code)
        assert made.mutation is not None
        assert code in made.mutation.fires
        report = made.dataset.report()
        assert set(report.counts) == {code} | ACCOMPANIED.get(code, set()), [str(v) for v in report]
        assert report.bad_datums <= 1 or made.place is None or made.place.row is None


def test_what_cannot_be_broken_is_refused() -> None:
    refusals = {
        "no rule has the code 'SEQ'": {"break_": "SEQ"},
        "SPN002 is no rule of this contract for ppo": {"break_": "SPN002", "contract": "ppo"},
        "INP008 is no rule .* for ppo; one for gspo has it": {"break_": "INP008", "contract": "ppo"},
        "SES005 cannot be broken .*: give the contract a learner_version": {"break_": "SES005"},
    }
    for message, arguments in refusals.items():
        with pytest.raises(provenance.ContractError, match=message):
            generate(3, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"), [("n", 0), ("n", True), ("seed", -1), ("seed", 2**63), ("turns", 0), ("tokens", 3)]
)
def test_sizes_are_refused_that_hold_nothing(name: str, value: int) -> None:
    with pytest.raises(provenance.SchemaError, match=f"{name} is {value!r}, expected an integer of"):
        generate(**{"n": 1, name: value})  # type: ignore[arg-type]


def test_it_needs_no_hypothesis() -> None:
    script = (
        "import sys; sys.modules['hypothesis'] = None\nfrom provenance.generate import generate; generate(2)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# Files


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow", ".arrows"])
def test_files_of_every_format_are_valid(suffix: str, tmp_path: Path) -> None:
    datums, sequences = tmp_path / f"d{suffix}", tmp_path / f"s{suffix}"
    done = call("generate", "-n", "3", "--output", datums, "--ledger", sequences)
    assert (done.returncode, done.stdout) == (0, "")
    command = done.stderr.splitlines()[-1].removeprefix("hint: provenance ").split()
    checked = call(*command)
    assert checked.returncode == 0, checked.stdout
    assert "valid: 3 datums" in checked.stdout
    before = datums.read_bytes()
    call("generate", "-n", "3", "--output", datums, "--ledger", sequences)
    assert datums.read_bytes() == before


#: A rule of each kind of circumstance; the others take the same way, and their time.
QUICK = ("CFG001", "FMT002", "INP009", "SEQ003", "SEQ012", "SES001", "SES005", "TOK003", "TOK006")


@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=[] if code in QUICK else pytest.mark.slow) for code in rules()]
)
def test_the_hint_finds_what_was_broken(code: str, tmp_path: Path) -> None:
    arguments = ["-n", "5", "--break", code.lower()]
    if code in PARAMETERS:
        config = tmp_path / "contract.toml"
        config.write_text("[parameters]\nlearner_version = 9\nmax_policy_lag = 1\n")
        arguments += ["--config", str(config)]
    datums, sequences = tmp_path / "d.jsonl", tmp_path / "s.jsonl"
    done = call("generate", *arguments, "--output", datums, "--ledger", sequences)
    assert done.returncode == 0, done.stderr
    *notes, hint = done.stderr.splitlines()
    assert f"note: {code} is broken by " in notes[1]
    checked = call(*hint.removeprefix("hint: provenance ").split(), "--format", "jsonl", "-q")
    assert checked.returncode == 1, hint
    found = {line.split('"')[3] for line in checked.stdout.splitlines()}
    assert found == {code} | ACCOMPANIED.get(code, set())


def test_the_place_is_that_of_the_violation(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    done = call("generate", "-n", "9", "--seed", "2", "--break", "VAL001", "--output", path)
    note = done.stderr.splitlines()[1]
    place = note.partition(": VAL001 is broken by ")[2].split(": ", 1)[1]
    assert place.startswith(f"{path}: line ")
    checked = call("check", path, "--session", SESSION, "--now", NOW)
    assert f"{place}: VAL001" in checked.stdout


MISUSE = {
    "ledger-is-output": (["--output", "x.jsonl", "--ledger", "./x.jsonl"], "the file of the datums"),
    "ledger-is-stdout": (["--output", "x.jsonl", "--ledger", "-"], "is no file of its own"),
    "first-year": (["--output", "x.jsonl", "--now", "0001-01-01T00:00:00Z"], "expected the year 2 or later"),
    "last-day": (
        ["--output", "x.jsonl", "--ledger", "s.jsonl", "--break", "SES004", "--now", "9999-12-31T23:59:59Z"],
        "SES004 cannot be broken in such datums",
    ),
    "database": (["--output", "x.jsonl", "--ledger", "x.db"], "would be a database"),
    "no-ledger": (["--output", "x.jsonl", "--break", "SEQ003"], "--break SEQ003 is seen with a ledger only"),
    "suffix": (["--output", "x.txt"], "unknown suffix"),
    "request": (["--output", "x.pb"], "a training request"),
    "folder": (["--output", "missing/x.jsonl"], "no such file or directory"),
    "code": (["--output", "x.jsonl", "--break", "NOPE"], "no rule has the code 'NOPE'"),
    "line": (["--output", "x.parquet", "--break", "FMT001"], "lines of JSON (.jsonl) only"),
    "arrow": (["--output", "x.parquet", "--break", "INP003"], "lines of JSON (.jsonl) hold it"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_one_line_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = MISUSE[name]
    done = call("generate", "-n", "4", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_lines_go_to_stdout() -> None:
    command = [sys.executable, "-m", "provenance", "generate", "-n", "3", "--output", "-", "-q"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == generate(3).dataset.to_jsonl()
    assert done.stderr == b""
