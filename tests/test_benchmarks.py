"""The benchmarks of `check` run on small data, print what their page explains, and hold peers to account."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import pytest

import provenance

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"
if not FOLDER.exists():
    pytest.skip("benchmarks/ is not there", allow_module_level=True)

from benchmarks import _peers  # noqa: E402 - it may not be there

STATED = ("ADV001", "SEQ003", "SEQ010", "SES002", "SPN009")


def ours(data: str, sequences: str, session: str, now: datetime) -> dict[str, int]:
    """The check itself, as a peer that states a few rules."""
    counts = provenance.check(data, ledger=sequences, session=session, now=now).counts
    return {code: counts[code].violations if code in counts else 0 for code in STATED}


def by_row(data: str, sequences: str, session: str, now: datetime) -> None:
    if ours(data, sequences, session, now)["SEQ003"]:
        raise ValueError("some token is another")


def fussy(data: str, sequences: str, session: str, now: datetime) -> None:
    raise ValueError("no data are good enough")


def changed(change: Mapping[str, int]) -> _peers.Check:
    return lambda *files: ours(*files) | change


@pytest.mark.slow
def test_a_peer_is_credited_with_the_rules_whose_faults_it_finds() -> None:
    enforced = _peers.covered({"ours": ours, "by row": by_row})
    assert enforced == {"ours": set(STATED), "by row": {"SEQ003"}}


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        pytest.param(changed({"SEQ003": 0}), "peer misses ['SEQ003'] where the data are ", id="misses"),
        pytest.param(
            changed({"SEQ003": 1}), "peer reports ['SEQ003'] where the data are 'clean'", id="reports"
        ),
        pytest.param(fussy, "peer fails where the data are 'clean': no data are good enough", id="raises"),
        pytest.param(
            changed({"CFG001": 0}), "peer states ['CFG001'], and no file here breaks them", id="boasts"
        ),
    ],
)
@pytest.mark.slow
def test_a_peer_that_claims_too_much_ends_the_benchmark(check: _peers.Check, complaint: str) -> None:
    with pytest.raises(SystemExit, match=f"^{re.escape(complaint)}"):
        _peers.covered({"peer": check})


def test_a_peer_that_is_not_installed_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "benchmarks._peer_duckdb", raising=False)
    with pytest.raises(SystemExit, match=r"^'duckdb' is not installed: run pip install .*requirements\.txt$"):
        _peers.peer("duckdb")


def test_the_page_names_each_benchmark() -> None:
    named = re.findall(r"^\| `(\w+)\.py`", (ROOT / "docs" / "benchmarks.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


# --- on small data -------------------------------------------------------------------------------


def printed(script: str, *arguments: str) -> str:
    """What a benchmark prints; on data so small it may miss its targets."""
    done = subprocess.run(
        [sys.executable, FOLDER / script, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) in ((0, ""), (1, "")), done.stderr
    assert done.returncode == int(": missed" in done.stdout)
    return done.stdout


def figures(pattern: str) -> Callable[[str], list[tuple[str, ...]]]:
    """All lines of a kind, each by what is in its groups; NUMBER stands for a positive number."""
    number = r"(?![0.]+(?![\d.]))[\d.]+(?:e[+-]\d+)?"
    return re.compile(f"^{pattern.replace('NUMBER', number)}$", re.MULTILINE).findall


costs = figures(r"(\S.*?) +[\d.]+ +[\d.]+ +NUMBER +NUMBER")
peers = figures(r"(\w+) +NUMBERx +NUMBERx +NUMBERx")
targets = figures(r"(?: *)(\S.*): NUMBER(?:x| MB)   target [<>]= NUMBER(?:x| MB): (?:met|missed)")
rules = figures(r"  (\w+) [\d.]+: (\d+), .*")


@pytest.mark.slow
def test_check_parquet_proves_its_peers_and_prints_ratios(tmp_path: Path) -> None:
    for name in ("dataframely", "duckdb", "polars", "tinker"):
        pytest.importorskip(name)
    small = ("--datums", "40", "--tokens", "20000", "--repeats", "1", "--dir", str(tmp_path))
    output = printed("check_parquet.py", *small)
    stated = {name: int(count) for name, count in rules(output)}
    assert stated == {"polars": 40, "dataframely": 38, "duckdb": 40, "pydantic": 38, "tinker": 6}
    columnar = ["polars", "dataframely", "duckdb"]
    assert costs(output) == ["read", "read-1-thread", "check", *columnar, "pydantic", "tinker"]
    assert peers(output) == columnar
    assert targets(output) == [
        "check / reading, CPU",
        "check / reading, wall",
        "peak RSS of check",
        "pydantic / check, CPU per datum",
        "SDK / check, CPU per datum",
    ]


@pytest.mark.slow
def test_the_page_is_measured_beside_the_check(tmp_path: Path) -> None:
    output = printed("report_html.py", "--tokens", "20000", "--repeats", "1", "--dir", str(tmp_path))
    assert costs(output) == ["check", "observe", "page"]
    violations = re.search(r"([\d,]+) violations", output)
    assert violations is not None
    # Every second input token at least, each by itself.
    assert int(violations[1].replace(",", "")) > 10_000
    assert targets(output)[:2] == ["RSS, page / check", "size of the page"]


@pytest.mark.slow
def test_growth_counts_what_is_broken_and_prints_ratios(tmp_path: Path) -> None:
    output = printed("growth.py", "--sizes", "0.01,0.02", "--repeats", "1", "--dir", str(tmp_path))
    sizes = ("0.01M", "0.02M")
    assert costs(output) == [f"{size}, {what}" for size in sizes for what in ("clean", "broken", "ledger")]
    assert "of the broken ones all counts exact" in output
    assert targets(output) == [
        "RSS, broken / clean",
        "CPU per token / that of the smallest",
        "RSS, broken / clean",
    ]
