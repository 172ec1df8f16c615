"""``provenance ledger`` as its users meet it."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from _ledgers import HOUR, NOON, postgresql, sequence

import provenance
from provenance import SqlLedger, formats
from provenance.cli import main
from provenance.rules import case
from provenance.sequences import SequenceTable, table_of_models


def call(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command that runs in this process."""
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        pytest.raises(SystemExit) as end,
    ):
        main(["ledger", *map(str, arguments)])
    gc.collect()  # a connection that was left open would warn
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def make(path: str | Path, *sequences: Any) -> None:
    with SqlLedger(path) as ledger:
        ledger.record(sequences)


def rows_of(tables: Iterable[SequenceTable]) -> list[tuple[Any, ...]]:
    names = ("sampled_at", "last_used_at", "record_stability_info", "model", "policy_version", "stop_reason")
    names = (*names, "temperature", "top_p", "top_k", "seed")
    return sorted(
        (
            t.session_id[i],
            t.sequence_id[i],
            t.prompt(i).tobytes(),
            t.tokens(i).tobytes(),
            t.sampled_logprobs(i).tobytes(),
            *(str(getattr(t, name)[i]) for name in names),
        )
        for t in tables
        for i in range(len(t))
    )


FULL = sequence(
    "full",
    "t",
    prompt_tokens=[-1, 2**31 - 1] * 200,
    logprobs=[-0.1, -1e-30],
    last_used_at=NOON + HOUR,
    model="m",
    policy_version=3,
    stop_reason="stop",
    temperature=0.1,
    top_p=1 / 3,
    top_k=5,
    seed=2**62 + 1,
)
GIVEN = [sequence("a"), sequence("b", record_stability_info=False, tokens=[], logprobs=[]), FULL]


# import and export


def test_import_creates_a_ledger_and_counts_repeats(folder: Path) -> None:
    provenance.write_sequences(GIVEN, "s.jsonl")
    provenance.write_sequences([*GIVEN[:1], sequence("c")], "s.parquet")
    assert call("import", "x.db", "s.*") == (0, "4 new sequences, 1 repeat\n", "")
    assert call("import", "x.db", "s.jsonl") == (0, "0 new sequences, 3 repeats\n", "")
    assert call("import", "y.db", "x.db", "s.parquet") == (0, "4 new sequences, 2 repeats\n", "")
    with SqlLedger("y.db") as ledger:
        assert rows_of(ledger.tables()) == rows_of([table_of_models([*GIVEN, sequence("c")])])
    assert names() == ["s.jsonl", "s.parquet", "x.db", "y.db"]


def test_import_from_stdin(folder: Path) -> None:
    provenance.write_sequences(GIVEN, "s.jsonl")
    command = [sys.executable, "-m", "provenance", "ledger", "import", "x.db", "-"]
    with Path("s.jsonl").open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 new sequences, 0 repeats\n", "")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".json.zst", ".parquet", ".arrow", ".arrows"])
def test_what_is_exported_reads_back_the_same(folder: Path, suffix: str) -> None:
    make("x.db", *GIVEN)
    assert call("export", "x.db", f"out{suffix}") == (0, "3 sequences\n", "")
    assert rows_of(t for t, _ in formats.read_sequences(f"out{suffix}")) == rows_of([table_of_models(GIVEN)])
    assert call("export", "x.db", f"out{suffix}", "--session", "t")[:2] == (0, "1 sequence\n")
    assert rows_of(t for t, _ in formats.read_sequences(f"out{suffix}")) == rows_of([table_of_models([FULL])])
    assert call("import", "y.db", f"out{suffix}")[:2] == (0, "1 new sequence, 0 repeats\n")


LINE = json.loads(sequence("odd").model_dump_json())
FAULTY = {
    "tokens": ({**LINE, "tokens": [1, -5]}, "s.jsonl: line 3: tokens[1]: -5 is not a token id in [0, 2^31)"),
    "no time": ({**LINE, "sampled_at": "yesterday"}, "s.jsonl: line 3: sampled_at: 'yesterday' is not"),
    "datum": ({"model_input": {}}, "s.jsonl: line 3: a datum, expected a sampled sequence"),
    "uneven": ({**LINE, "logprobs": [-1.0]}, "of session 's' (s.jsonl, line 3) has not as many logprobs"),
    "null": ({**LINE, "logprobs": [-1.0, None]}, "(s.jsonl, line 3) has a logprob that is null"),
    "NUL": ({**LINE, "model": "a\0"}, r"(s.jsonl, line 3) has a model 'a\x00' with a NUL"),
    "conflict": (
        {**LINE, "sequence_id": "a", "seed": 1},
        "'a' of session 's' (s.jsonl, line 3) is recorded alr",
    ),
}


@pytest.mark.parametrize("there", [True, False], ids=["into a ledger", "into a new one"])
@pytest.mark.parametrize("name", FAULTY)
def test_import_refuses_faulty_records_and_leaves_the_ledger_as_it_was(
    folder: Path, name: str, there: bool
) -> None:
    record, message = FAULTY[name]
    good = json.loads(sequence("a").model_dump_json())
    Path("s.jsonl").write_text("\n".join([json.dumps(good), "", json.dumps(record), json.dumps(LINE)]))
    provenance.write_sequences([sequence("first")], "first.jsonl")
    if there:
        make("x.db", sequence("old"))
    code, out, err = call("import", "x.db", "first.jsonl", "s.jsonl")
    assert (code, out) == (2, "")
    assert message in err
    assert err.splitlines()[-1].endswith("nothing was recorded")
    assert ".tmp" not in err
    assert names() == ["first.jsonl", "s.jsonl"] + ["x.db"] * there
    if there:
        with SqlLedger("x.db") as ledger:
            assert [i for t in ledger.tables() for i in t.sequence_id] == ["old"]


def test_import_names_the_first_faults_and_counts_all(folder: Path) -> None:
    Path("a.jsonl").write_text("[]\n" * 30)
    Path("b.jsonl").write_text("{}\n" + json.dumps(LINE))
    code, _, err = call("import", "x.db", "a.jsonl", "b.jsonl")
    lines = err.splitlines()
    assert code == 2
    assert len(lines) == 21
    assert lines[19].startswith("error: a.jsonl: line 20: ")
    assert lines[20] == "error: 31 of 32 records cannot be read; nothing was recorded"


# stats


def test_stats_tell_what_was_used_more_than_once(folder: Path) -> None:
    make("x.db", *GIVEN)
    with SqlLedger("x.db") as ledger:
        ledger.renew(["a"], "s", NOON + HOUR)
        ledger.renew(["a"], "s", NOON + HOUR)
    code, out, err = call("stats", "x.db")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("3 sequences of 2 sessions, 2 prompts in 5 blocks, 0.0 MB")
    assert out.splitlines()[2:6] == [
        "session 's'",
        "  2 sequences, 1 with stability info, 2 sampled tokens",
        "  used: 1 never, 0 once, 1 more than once",
        "  sampled since 2026-01-02T12:00:00Z, last use 2026-01-02T13:00:00Z",
    ]
    found = json.loads(call("stats", "x.db", "--format", "json")[1])
    assert found["sessions"][0] == {
        "session_id": "s",
        "sequences": 2,
        "recorded": 1,
        "sampled_tokens": 2,
        "unused": 1,
        "used_once": 0,
        "used_again": 1,
        "first_sampled_at": "2026-01-02T12:00:00Z",
        "last_use": "2026-01-02T13:00:00Z",
    }
    assert (found["sequences"], found["used_again"], found["prompt_blocks"]) == (3, 1, 5)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_text_fits_the_terminal(folder: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make("x.db", *GIVEN, sequence("x", "evil \x1b[31m"))
    monkeypatch.setattr("provenance.cli.ledger.width_of", lambda stream: width)
    for arguments in (["stats", "x.db"], ["expiring", "x.db", "--now", "2026-01-03T11:30:00Z"]):
        code, out, _ = call(*arguments)
        assert code == 0
        assert max(map(len, out.splitlines())) <= width
        assert "\x1b" not in out
        assert r"\x1b[31m" in out


# expiring, renew, prune


def test_expiring_lists_what_is_about_to(folder: Path) -> None:
    make(
        "x.db",
        sequence("soon", sampled_at=NOON),
        sequence("sooner", "t", sampled_at=NOON - HOUR / 2),
        sequence("expired", sampled_at=NOON - 2 * HOUR),
        sequence("later", sampled_at=NOON + HOUR),
        sequence("used", sampled_at=NOON - 2 * HOUR, last_used_at=NOON + 2 * HOUR),
        sequence("not for training", record_stability_info=False),
    )
    at = ("--now", "2026-01-03T11:15:00Z")
    assert call("expiring", "x.db", *at)[1].splitlines() == [
        "2026-01-03T11:30:00Z  'sooner' of session 't'",
        "2026-01-03T12:00:00Z  'soon' of session 's'",
        "2 sequences to expire by 2026-01-03T12:15:00Z, 1 expired before",
    ]
    found = json.loads(
        call("expiring", "x.db", *at, "--session", "s", "--within", "2h", "--format", "json")[1]
    )
    assert [entry["sequence_id"] for entry in found["expiring"]] == ["soon", "later"]
    assert found["expiring"][0]["expires_at"] == "2026-01-03T12:00:00Z"
    assert found["expired"] == 1
    out = call(
        "expiring", "x.db", "--now", "2026-01-02T13:30:00+00:00", "--window", "90m", "--within", "30m"
    )[1]
    assert out.splitlines()[0] == "2026-01-02T13:30:00Z  'soon' of session 's'"
    assert call("expiring", "x.db")[1].endswith("5 expired before\n")


def test_renew_by_ids_and_by_datums(folder: Path) -> None:
    example = case(turns="multi")
    sequences = [provenance.SampledSequence.model_validate(s) for s in example.sequences]
    other = sequence("other", sequences[0].session_id)
    make("x.db", *sequences, other)
    provenance.write_datums(example.datums, "d.jsonl")
    ids = {
        span["sequence_id"]
        for datum in example.datums
        for span in datum["loss_fn_input_spans"]
        if span["type"] == "sampled"
    }
    at = ("--at", "2030-01-01T00:00:00Z")
    session = ("--session", other.session_id)
    assert call("renew", "x.db", *session, "--from", "d.jsonl", *at) == (
        0,
        f"{len(ids)} sequences renewed\n",
        "",
    )
    with SqlLedger("x.db") as ledger:
        assert {i for i, _, used in ledger.last_uses(NOON + 10**6 * HOUR) if used.year == 2030} == ids
        assert {i for i in (*ids, "other") if ledger.uses(i, other.session_id)} == ids
    assert call("renew", "x.db", *session, "other", *ids) == (0, f"{len(ids) + 1} sequences renewed\n", "")
    with SqlLedger("x.db") as ledger:
        assert ledger.stats().used_again == len(ids)


def test_prune_before_a_time_or_an_age(folder: Path) -> None:
    make(
        "x.db",
        sequence("a"),
        sequence("b", sampled_at=NOON - HOUR),
        sequence("c", sampled_at="2999-01-01T00:00:00Z"),
    )
    assert call("prune", "x.db", "--before", "2026-01-02T12:00:00Z") == (0, "1 sequence forgotten\n", "")
    assert call("prune", "x.db", "--older-than", "48h") == (0, "1 sequence forgotten\n", "")
    assert call("prune", "x.db", "--older-than", "0s") == (0, "0 sequences forgotten\n", "")


def test_check_with_a_ledger_that_was_imported(folder: Path) -> None:
    example = case()
    provenance.write_datums(example.datums, "d.jsonl")
    provenance.write_sequences(example.sequences, "s.jsonl")
    assert call("import", "x.db", "s.jsonl")[0] == 0
    options = ["--session", example.session, "--now", str(example.now), "-q"]

    def check(*arguments: str) -> tuple[int, str]:
        with (
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as err,
            pytest.raises(SystemExit) as e,
        ):
            main(["check", *arguments, *options])
        return int(e.value.code or 0), out.getvalue() + err.getvalue()

    assert check("d.jsonl", "--ledger", "x.db") == check("d.jsonl", "--ledger", "s.jsonl")
    assert check("d.jsonl", "--ledger", "x.db")[0] == 0
    assert check("x.db") == (
        2,
        "error: x.db: a ledger, expected a file of datums: is it meant for --ledger?\n",
    )
    assert check("d.jsonl", "--ledger", "x.db", "--ledger", "s.jsonl")[0] == 2
    assert names() == ["d.jsonl", "s.jsonl", "x.db"]


# misuse


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing command"),
        (["imports"], "no such command 'imports'"),
        (["import", "x.db"], "missing argument 'FILES...'"),
        (["import", "x.db", "nothing.jsonl"], "nothing.jsonl: no such file or directory"),
        (["import", "x.db", "no*.jsonl"], "no*.jsonl: no file matches this pattern"),
        (["import", "new.txt", "s.jsonl"], "new.txt: unknown suffix, a new ledger's name ends in one of .db"),
        (["import", "s.jsonl", "s.jsonl"], "s.jsonl: no SQLite database, so no ledger"),
        (["import", "no/folder/x.db", "s.jsonl"], "no/folder/x.db: no such file or directory"),
        (["export", "missing.db", "o.jsonl"], "missing.db: no such file; a ledger is made"),
        (["export", "x.db", "o.txt"], "o.txt: unknown suffix"),
        (["export", "x.db", "no/folder/o.jsonl"], "no/folder/o.jsonl: no such file or directory"),
        (["export", "x.db", "o.jsonl", "--session", "u"], "no session is called 'u'; there is 's', 't'"),
        (["stats", "s.jsonl"], "s.jsonl: no SQLite database, so no ledger"),
        (["stats", "mysql://h/x"], "'mysql' is not supported"),
        (["expiring", "x.db", "--within", "1"], "'1' is no time such as 30m, 24h or 7d"),
        (["expiring", "x.db", "--window", "-1h"], "'-1h' is no time"),
        (["expiring", "x.db", "--window", "999999999d"], "outside of the years 1 to 9999|no time"),
        (["expiring", "x.db", "--now", "2026-01-02"], "not an RFC 3339 time"),
        (["expiring", "x.db", "--session", "S"], "no session is called 'S'"),
        (["renew", "x.db", "a"], "missing option '--session'"),
        (["renew", "x.db", "--session", "s"], "expected either IDS or --from DATUMS"),
        (
            ["renew", "x.db", "--session", "s", "a", "--from", "d.jsonl"],
            "expected either IDS or --from DATUMS",
        ),
        (
            ["renew", "x.db", "--session", "s", "zz"],
            "'zz' of session 's' is not recorded; nothing was renewed",
        ),
        (["renew", "x.db", "--session", "u", "a"], "no session is called 'u'"),
        (["renew", "x.db", "--session", "s", "--from", "s.jsonl"], "s.jsonl: line 1: "),
        (["renew", "x.db", "--session", "s", "--from", "x.db"], "x.db: a ledger, and not of rows"),
        (["renew", "missing.db", "--session", "s", "a"], "missing.db: no such file"),
        (["renew", "x.db", "--session", "s", "a", "--at", "9999-12-31T23:59:59-14:00"], "years 1 to 9999"),
        (["expiring", "x.db", "--now", "9999-12-31T23:59:59-14:00", "--within", "0s"], "years 1 to 9999"),
        (["expiring", "x.db", "--now", "0001-01-01T00:00:00Z"], "years 1 to 9999"),
        (["export", "x.db", "-"], "-: is no file; name one"),
        (["prune", "x.db"], "expected either --before or --older-than"),
        (["prune", "x.db", "--before", "2026-01-02T12:00:00Z", "--older-than", "1h"], "not both"),
        (["prune", "x.db", "--older-than", "999999999h"], "outside of the years 1 to 9999"),
        (["prune", "missing.db", "--older-than", "1h"], "missing.db: no such file"),
    ],
)
def test_misuse_gets_one_line_and_changes_nothing(folder: Path, arguments: list[str], message: str) -> None:
    make("x.db", sequence("a"), sequence("b", "t"))
    provenance.write_sequences([sequence("a")], "s.jsonl")
    before = (names(), Path("x.db").read_bytes())
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert any(part in err for part in message.split("|")), err
    assert (names(), Path("x.db").read_bytes()) == before


def test_import_beside_what_is_left_of_another_ledger(folder: Path) -> None:
    provenance.write_sequences([sequence("a")], "s.jsonl")
    Path("x.db-wal").write_bytes(b"pages of a ledger that was removed")
    code, _, err = call("import", "x.db", "s.jsonl")
    assert code == 2
    assert "x.db-wal: left over from a ledger that is gone; remove it" in err
    assert names() == ["s.jsonl", "x.db-wal"]


@pytest.mark.parametrize("mebibytes", [1, 2, 3])
def test_import_onto_a_disk_that_is_too_small(folder: Path, mebibytes: int) -> None:
    text = range(100_000)
    provenance.write_sequences([sequence(f"{i}", prompt_tokens=text[i:]) for i in range(5)], "s.parquet")
    script = (
        f"mkdir disk && mount -t tmpfs -o size={mebibytes}m none disk || exit 77\n"
        f"{sys.executable} -m provenance ledger import disk/x.db s.parquet\n"
        "code=$?; ls -A disk; exit $code"
    )
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file systems of one's own here")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr.startswith("error: disk/x.db: the disk")
    assert done.stderr.count("disk/x.db") == done.stderr.count("\n") == 1
    assert done.stdout == ""


# --- passwords ------------------------------------------------------------------------------------------

ADDRESSES = [
    "postgresql://bob:s3cret@127.0.0.1:1/x",
    "postgresql://bob:s3cret@s3cret@127.0.0.1:1/x",
    "postgresql://bob:s3cret/s3cret s3cret@127.0.0.1:1/x",
    "postgresql://bob:s3cret@127.0.0.1:port/x",
    "postgresql://127.0.0.1:1/x?user=bob&PASSWORD=s3cret&sslpassword=s3cret",
    "mysql://bob:s3cret@host/x?password=s3cret",
]
COMMANDS = {
    "check": ["check", "d.jsonl", "--ledger", "ADDRESS"],
    "check with two": ["check", "d.jsonl", "--ledger", "s.jsonl", "--ledger", "ADDRESS"],
    "check as data": ["check", "ADDRESS"],
    "report to it": ["check", "d.jsonl", "--output", "ADDRESS"],
    "convert": ["convert", "ADDRESS", "ADDRESS"],
    "inspect": ["inspect", "d.jsonl", "--ledger", "ADDRESS"],
    "import": ["ledger", "import", "ADDRESS", "s.jsonl"],
    "import from": ["ledger", "import", "x.db", "ADDRESS"],
    "stats": ["--log-level", "debug", "ledger", "stats", "ADDRESS"],
    "misuse": ["ledger", "stats", "x.db", "ADDRESS"],
    "fuzz": ["fuzz", "d.jsonl", "--ledger", "s.jsonl", "--against", "false {} 'ADDRESS'"],
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_error_tells_a_password(name: str, address: str, folder: Path) -> None:
    provenance.write_datums(case().datums, "d.jsonl")
    provenance.write_sequences(case().sequences, "s.jsonl")
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        pytest.raises(SystemExit) as end,
    ):
        main([word.replace("ADDRESS", address) for word in COMMANDS[name]])
    assert end.value.code == 2
    assert "error: " in err.getvalue()
    assert "s3cret" not in out.getvalue() + err.getvalue()


@pytest.mark.slow
def test_no_report_tells_a_password(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "provenance")
    server = postgresql().replace("postgres@", "postgres:s3cret@") + "&password=s3cret"
    provenance.write_datums(case({"loss_fn_inputs.logprobs.data.2": 0.5}).datums, "d.jsonl")
    provenance.write_sequences(case().sequences, "s.jsonl")
    assert call("import", server, "s.jsonl")[0] == 0
    for format_ in ("text", "json", "jsonl", "junit", "github", "sarif", "html"):
        with (
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as err,
            pytest.raises(SystemExit),
        ):
            main(["check", "d.jsonl", "--ledger", server, "--format", format_])
        assert "VAL002" in out.getvalue()
        assert "s3cret" not in out.getvalue() + err.getvalue() + caplog.text
        assert format_ != "text" or "--ledger 'postgresql://postgres:***@/" in out.getvalue()
