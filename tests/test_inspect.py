"""One datum as a strip: exact text for small ones, and what holds for every datum at every width."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from _paths import contract_of
from test_cases import CASES
from test_cli import COLOUR, call, on_terminal, run, write, write_lines

import provenance
from provenance import Severity
from provenance.formats import columns_of
from provenance.reports._lanes import cells, slots_near
from provenance.reports.find import FoundDatum, find_datum
from provenance.reports.strip import datum_to_text, line_to_text
from provenance.rules import DROP, Case, case, registry

ROLLOUTS = Path(__file__).resolve().parents[2] / "shared" / "rollouts"
EXAMPLES = [
    pytest.param(example, id=f"{code}-{kind}-{number}", marks=[pytest.mark.slow] if number else [])
    for code, rule in sorted(registry().items())
    for kind, examples in (("good", rule.good), ("bad", rule.bad))
    for number, example in enumerate(examples)
    if example.lines is None and example.datums
]
NOT_IN_A_DATUM = ("record", "dataset", "config", "file")


def find(dataset: Case, data: Any = None, **place: Any) -> FoundDatum:
    return find_datum(
        list(dataset.datums) if data is None else data,
        contract_of(dataset),
        ledger=list(dataset.sequences),
        session=dataset.session,
        now=dataset.now,
        **place,
    )


def strip(dataset: Case, **options: Any) -> str:
    found = find(dataset)
    return datum_to_text(found.columns, found.report.violations, **options)


def lane(text: str, label: str) -> list[tuple[int, str]]:
    """The cells of the first lane with a label, each with the column where it ends."""
    lines = [line for line in text.splitlines() if line.startswith(f"{label} ")]
    cells = lines[0].replace(label, " " * len(label), 1) if lines else ""
    return [(cell.end(), cell.group()) for cell in re.finditer(r"\S+", cells)]


def below(text: str, label: str, end: str | None = None) -> str:
    """The part of a strip from the lane of a label to the one before another."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(label))
    stop = next((i for i, line in enumerate(lines) if end and line.startswith(end)), None)
    return "\n".join(lines[start:stop])


def drawing(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


# --- what a strip shows ---------------------------------------------------------------------------------


def test_a_sound_datum() -> None:
    assert strip(case()) == drawing("""
        row 0: 5 positions, 4 spans, 3 loss inputs

        position         0        1        2         3        4      5
        input           11       12       13        21       22
        spans       |prompt[0:3] 's:1'------|sampled[0:2] 's:1'|
        index                     0        1         2        3      4
        target                   12       13        21       22      2
        spans             |prompt[1:3] 's:1'|sampled[0:3] 's:1'-------|
        logprobs                  0        0    -0.125   -0.375 -0.625
        advantages                0        0         1        1      1
        """)


def test_faults_are_marked_below_what_they_are_about() -> None:
    changes = {
        "loss_fn_inputs.advantages.data": [0.5, 0.0, 1.0, 1.0, 1.0],
        "loss_fn_inputs.logprobs.data.3": 0.25,
        "model_input_spans.1.sequence_id": "gone",
    }
    assert below(strip(case(changes)), "position") == drawing("""
        position         0         1       2          3        4      5
        input           11        12      13         21       22
        spans       |prompt[0:3] 's:1'------|sampled[0:2] 'gone'|
          SEQ001                             ^^^^^^^^^^^^^^^^^^^
        index                      0       1          2        3      4
        target                    12      13         21       22      2
        spans             |prompt[1:3] 's:1'|sampled[0:3] 's:1'--------|
        logprobs                   0       0     -0.125     0.25 -0.625
          VAL002                                        ^^^^^^^^
        advantages               0.5       0          1        1      1
          ADV001           ^^^^^^^^^
        """)


def test_a_narrow_strip_ends_its_blocks_where_spans_begin() -> None:
    text = strip(case(turns="multi"), width=40)
    starts = [line.split()[1] for line in text.splitlines() if line.startswith("position")]
    bands = [line.split("|")[1] for line in text.splitlines() if line.startswith("spans")]
    assert starts == ["0", "2", "4", "6"]
    assert all(re.match(r"(prompt|sampled)\[\d:\d\] 's:\d'", band) for band in bands)
    # There is room for position 2 beside the prompt, but not for all that begins there.
    wider = strip(case(turns="multi"), width=54)
    starts = [line.split()[1] for line in wider.splitlines() if line.startswith("position")]
    assert starts == ["0", "2", "6"]


def test_what_is_missing_is_said() -> None:
    text = strip(case({"loss_fn_inputs.advantages": DROP, "loss_fn_input_spans": DROP}))
    assert below(text, "logprobs") == drawing("""
        logprobs               0     0    -0.125   -0.375 -0.625
        advantages   missing
          INP001     missing-loss-input
        """)
    assert "spans        missing\n  SPN001     unpaired-spans\n" in text


def test_an_empty_datum() -> None:
    empty = {"data": [], "dtype": "int64", "shape": [0]}
    changes: dict[str, Any] = {
        "model_input.chunks": [],
        "model_input_spans": [],
        "loss_fn_input_spans": [],
        **{f"loss_fn_inputs.{name}": empty for name in ("target_tokens", "logprobs", "advantages")},
    }
    text = strip(case(changes))
    assert "  INP006     empty-datum\n" in text
    assert text.count("spans        an empty list") == 2


def test_an_empty_span_is_a_bar() -> None:
    changes = {
        "model_input.chunks.0.tokens": [11, 12, 13],
        "model_input_spans.1.length": 0,
        **{f"loss_fn_inputs.{name}.data": [0, 0, 0] for name in ("target_tokens", "logprobs", "advantages")},
        **{f"loss_fn_inputs.{name}.shape": [3] for name in ("target_tokens", "logprobs", "advantages")},
        "loss_fn_input_spans.1.length": 1,
    }
    assert below(strip(case(changes)), "spans", "index") == drawing("""
        spans       |prompt[0:3] 's:1'-----||
          SPN006                           ^
        """)


def test_spans_that_do_not_tile_are_drawn_as_far_as_they_go() -> None:
    text = strip(case({"model_input_spans.0.length": -3, "model_input_spans.1.length": 2**62}))
    assert below(text, "position", "index").splitlines()[2:] == [
        "spans      ||sampled[0:4611686018427387904] 's:1'--------------",
        "  SPN005   ^",
    ]
    assert lane(text, "position")[-1][1] == "9"


def test_chunks_that_are_no_text() -> None:
    chunks = [
        {"type": "encoded_text", "tokens": [11]},
        {"type": "image", "format": "png", "data": "iVBORw0KGgo=", "expected_tokens": 2},
        {"type": "image", "format": "png", "data": "iVBORw0KGgo="},
        {"type": "encoded_text", "tokens": [21, 22]},
    ]
    text = strip(case({"model_input.chunks": chunks}))
    assert "  chunk 2 is an image of unknown length: it takes no position here\n" in text
    assert below(text, "position", "spans") == drawing("""
        position           0        1        2         3        4      5
        chunks      |text---|image-----------||text--------------|
        input             11        .        .        21       22
          TOK003                             ^
        """)


WITHOUT_SPANS = {"model_input_spans": DROP, "loss_fn_input_spans": DROP}


def test_several_values_a_position() -> None:
    inputs = {
        "target_tokens": {"data": [12, 0, 13, 0, 21, 7, 22, 0, 2, 0], "dtype": "int64", "shape": [5, 2]},
        "weights": {"data": [0, 0, 0, 0, 1, None, 1, 0, 1, 0], "dtype": "float32", "shape": [5, 2]},
    }
    text = strip(case({**WITHOUT_SPANS, "loss_fn_inputs": inputs}, loss="cross_entropy"))
    assert "  weights: 5 rows of 2 values; shown is the first value, +n more\n" in text
    assert below(text, "target") == drawing("""
        target        12 +1 13 +1 21 +1 22 +1 2 +1
        weights        0 +1  0 +1  1 +1  1 +1 1 +1
          VAL001                  ^^^^^
        """)


def test_sparse_values() -> None:
    sparse = {"shape": [5, 3], "sparse_crow_indices": [0, 0, 2, 2, 3, 3], "sparse_col_indices": [0, 2, 1]}
    weights = {"data": [0.5, 1.0, -1e-9], "dtype": "float32", **sparse}
    changes = {**WITHOUT_SPANS, "loss_fn_inputs.weights": weights}
    assert below(strip(case(changes, loss="cross_entropy")), "weights") == drawing("""
        weights        - 0.5 +1  - -1e-09 -
        """)


def test_values_whose_shape_makes_no_sense_are_shown_in_order() -> None:
    text = strip(case({"loss_fn_inputs.logprobs.shape": [2, 3]}))
    assert "  logprobs: its shape does not fit its 5 values, which are shown in order\n" in text
    assert [cell for _, cell in lane(text, "logprobs")] == ["0", "0", "-0.125", "-0.375", "-0.625"]


def test_data_cannot_steer_the_terminal() -> None:
    hostile = "a\x1b[2J\u202e\u65e5"
    changes = {
        "model_input_spans.0.sequence_id": hostile,
        f"loss_fn_inputs.{hostile}": {"data": [1.0], "dtype": "float32", "shape": [7]},
    }
    text = strip(case(changes))
    assert all(line.isprintable() for line in text.split("\n"))
    assert [cell for _, cell in lane(text, r"a\x1b[2J\u202e\u65e5")] == ["1"]


def test_a_long_id_keeps_both_ends() -> None:
    assert "prompt[0:3] 'abcdef..uvwxyz'" in strip(
        case({"model_input_spans.0.sequence_id": "abcdefghijklmnopqrstuvwxyz"}), width=120
    )


# --- long datums ----------------------------------------------------------------------------------------


def long(**changes: Any) -> Case:
    """A prompt of 3 and 2,000 sampled tokens."""
    tokens = [5 + i % 7 for i in range(2_000)]
    inputs = {
        "target_tokens": {"data": [12, 13, *tokens], "dtype": "int64"},
        "logprobs": {"data": [0.0, 0.0, *[-0.5] * 2_000], "dtype": "float32"},
        "advantages": {"data": [0.0, 0.0, *[1.0] * 2_000], "dtype": "float32"},
    }
    return case(
        {
            "model_input.chunks.0.tokens": [11, 12, 13, *tokens[:-1]],
            "loss_fn_inputs": inputs,
            "model_input_spans.1.length": 1_999,
            "loss_fn_input_spans.1.length": 2_000,
            "sequences.0.tokens": tokens,
            "sequences.0.logprobs": [-0.5] * 2_000,
            **changes,
        }
    )


def positions(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("position ")]
    return " ".join(lines).replace("position", "").split()


def test_a_long_datum_is_shown_where_its_spans_end() -> None:
    text = strip(long())
    assert "  1,995 of 2,003 columns are not shown (--positions, --all)\n" in text
    assert positions(text) == ["0", "1", "2", "3", "4", "+1,995", "more", "2000", "2001", "2002"]


def test_a_long_datum_is_shown_where_its_faults_are() -> None:
    text = strip(long(**{"loss_fn_inputs.logprobs.data.1500": 0.5}))
    at = positions(text)
    assert {"1499", "1501", "1502", "1503"} <= set(at)
    assert (len(at), at[5:7], at[-4:]) == (17, ["+1,494", "more"], ["more", "2000", "2001", "2002"])
    assert [cell for _, cell in lane(text, "  VAL002")] == ["^^^^"]


def test_a_band_that_goes_on_is_open_and_named_again() -> None:
    text = strip(long(), positions=slice(10, 13))
    assert [line[12:] for line in text.splitlines() if line.startswith("spans")] == [
        "-sampled[0:1999] 's:1'-",
        "-sampled[0:2000] 's:1'-",
    ]


def test_no_number_of_spans_or_faults_makes_it_much_longer() -> None:
    slots = slots_near(range(0, 10_000, 10), 10_000)
    assert len(list(cells(slots))) == 122
    assert slots[-3:] == [(300, 301), (301, 302), (302, 10_000)]


def test_positions_on_request() -> None:
    assert positions(strip(long(), positions=slice(1000, 1003))) == ["1000", "1001", "1002"]
    assert positions(strip(long(), positions=slice(-2, None))) == ["2001", "2002"]
    assert positions(strip(long(), whole=True)) == [str(i) for i in range(2_003)]
    with pytest.raises(provenance.SchemaError, match="none of these positions: the datum has 0 to 2002"):
        strip(long(), positions=slice(3_000, None))


# --- every datum ----------------------------------------------------------------------------------------


def assert_fits(text: str, width: int) -> None:
    for line in text.split("\n"):
        assert len(line) <= width or " " not in line.strip()
        assert line == line.rstrip()
        assert line.isprintable()


def assert_marked(found: FoundDatum, text: str) -> None:
    """Every violation that has a place in the datum has a lane of marks, or of words."""
    marked = set(re.findall(r"^  ([A-Z]{3}\d{3}) +\S", text, re.MULTILINE))
    located = {v.code for v in found.report.violations if registry()[v.code].at not in NOT_IN_A_DATUM}
    assert marked == located


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_rules(example: Case) -> None:
    found = find(example)
    for width in (40, 200):
        text = datum_to_text(found.columns, found.report.violations, width=width)
        assert_fits(text, width)
        assert_marked(found, text)
        if found.report.valid:
            # The shift by one: a target stands where the input that it equals does.
            inputs, targets = dict(lane(text, "input")), dict(lane(text, "target"))
            assert len(set(inputs) & set(targets)) >= min(len(inputs), len(targets)) - 1


@pytest.mark.skipif(not CASES, reason="the shared cases are not here")
@pytest.mark.parametrize("name", CASES)
def test_shared_cases(name: str) -> None:
    one = CASES[name]
    data = one["datums"] if "file" not in one else str(ROLLOUTS.parent / "cases" / one["file"])
    found = find_datum(data, one["loss_fn"], ledger=one["sequences"], session=one["session"], now=one["now"])
    errors = {code for code in one["expect"]["errors"] if registry()[code].at != "config"}
    assert errors <= found.report.codes(Severity.ERROR)
    for width in (40, 200):
        text = datum_to_text(found.columns, found.report.violations, width=width)
        assert_fits(text, width)
        if found.columns.readable[0]:
            assert_marked(found, text)
        else:
            assert text.replace("\n", " ").endswith(": cannot be read")
            assert found.line is not None


@pytest.mark.skipif(not ROLLOUTS.exists(), reason="the shared rollouts are not here")
@pytest.mark.parametrize("name", ["blackjack", "multi_turn", "tictactoe"])
def test_in_real_rollouts_equal_tokens_stand_above_each_other(name: str) -> None:
    for row in range(5):
        found = find_datum(
            ROLLOUTS / f"{name}.datums.jsonl",
            ledger=ROLLOUTS / f"{name}.sequences.jsonl",
            session="sess-real",
            now="2026-11-29T12:00:00Z",
            row=row,
        )
        assert found.report.valid
        text = datum_to_text(found.columns, found.report.violations, whole=True)
        assert_fits(text, 80)
        size = int(found.columns.offsets[-1])
        seen = 0
        for block in text.split("\n\n")[1:]:
            inputs, targets = dict(lane(block, "input")), dict(lane(block, "target"))
            shared = set(inputs) & set(targets)
            assert all(inputs[column] == targets[column] for column in shared)
            seen += len(shared)
        assert seen == size - 1


# --- which datum ----------------------------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path) -> list[str]:
    """Datums of many faults, one sampled twice, and what checks them."""
    examples = [e.values[0] for e in EXAMPLES]
    datums = [datum for e in examples if e.loss == "stable_reinforce" for datum in e.datums]
    return write(tmp_path, Case(datums=datums, sequences=case().sequences))


def test_a_datum_alone_has_the_violations_that_it_has_in_its_file(mixed: list[str]) -> None:
    options = {"ledger": mixed[2], "session": mixed[4], "now": mixed[6]}
    whole = provenance.check(mixed[0], max_examples=10_000, **options)
    by_row = {row: found for (file, row), found in whole.by_datum().items() if file == mixed[0]}
    assert len(by_row) > 50
    for row in list(by_row)[::5]:
        found = find_datum(mixed[0], row=row, **options)
        here = [v for v in found.report.violations if v.location.file == mixed[0]]
        assert sorted(map(str, here)) == sorted(map(str, by_row[row]))
        assert found.report.bad_datums == any(v.severity == Severity.ERROR for v in here)
        counted = {code: n.violations for code, n in found.report.counts.items() if n.datums}
        assert sum(counted.values()) == len(here)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet", ".arrow"])
def test_the_first_bad_datum_else_the_first(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"datums{suffix}"
    changes = {f"datums.{i}.loss_fn_inputs.logprobs.data.2": 0.5 for i in (2, 3)}
    bad, good = case(changes, copies=5), case(copies=3)
    provenance.write_datums(bad.datums, path)
    assert find(bad, path).columns.row.tolist() == [2]
    assert find(bad, path, row=4).columns.row.tolist() == [4]
    provenance.write_datums(good.datums, path)
    found = find(good, path)
    assert (found.columns.row.tolist(), found.report.valid, found.report.datums) == ([0], True, 1)


def test_reading_ends_where_the_datum_is_found(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "datums.jsonl", case().datums)
    good, bad = path.read_bytes(), json.dumps(case({"loss_fn_inputs.logprobs.data.2": 0.5}).datums[0])
    path.write_bytes(bad.encode() + b"\n" + good * 4_200 + b"x" * 100_000)
    with pytest.raises(provenance.ReadError, match="line 4202 has more than 50000 bytes"):
        provenance.check(path, max_line=50_000)
    for place, row in (({}, 0), ({"line": 4}, 3)):
        assert find_datum(path, max_line=50_000, **place).columns.row.tolist() == [row]
    path.write_bytes(b"\n" + path.read_bytes())
    with pytest.raises(provenance.ReadError, match="no datum in line 1: the line is blank"):
        find_datum(path, max_line=50_000, line=1)


def test_records_of_other_datums_are_left_out() -> None:
    twice = case(copies=2)
    other = [*twice.sequences, {**twice.sequences[1], "tokens": [9, 9, 9]}]
    dataset = Case(datums=twice.datums, sequences=other)
    found = [find(dataset, row=row).report.codes() for row in (0, 1)]
    assert ["SEQ008" in codes for codes in found] == [False, True]


def test_models_are_found_too() -> None:
    datum = provenance.Datum.model_validate(case().datums[0])
    text = datum_to_text(columns_of([datum]))
    assert [cell for _, cell in lane(text, "target")] == ["12", "13", "21", "22", "2"]
    with pytest.raises(provenance.SchemaError, match="2 datums, expected one"):
        datum_to_text(columns_of([datum, datum]))


def test_a_long_line_is_shown_at_both_ends() -> None:
    text = line_to_text(b'{"a": "\x1b[2J\xff' + b"x" * 10_000 + b'"},', width=60)
    assert text.startswith(r'  {"a": "\x1b[2J\xff' + "x")
    assert "characters more ..." in text.replace("\n  ", "")
    assert text.endswith('x"},')
    assert_fits(text, 60)


# --- the command ----------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write(tmp_path, case({"datums.1.loss_fn_inputs.logprobs.data.2": 0.5}, copies=3))


def test_inspect_shows_the_strip_and_the_report(files: list[str]) -> None:
    done = call("inspect", *files)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "the first datum with an error:"
    assert done.stdout.replace("\n", " ").startswith(f"{lines[0]} {files[0]}: line 2 (row 1): 5 positions, ")
    assert "  VAL002" in done.stdout
    assert "error VAL002 positive-logprob: 1 violation in 1 datum, 1 position" in lines
    assert "invalid: 1 of 1 datum has errors" in done.stdout
    assert call("inspect", *files, "--row", "1").stdout == done.stdout.partition("\n")[2]
    assert call("inspect", *files, "--line", "2").stdout == done.stdout.partition("\n")[2]
    good = call("inspect", *files, "--row", "0").stdout
    assert good.splitlines()[-1].startswith("valid: 1 datum, 5 positions, ") or "valid: 1 datum" in good


def test_inspect_says_that_nothing_is_wrong(tmp_path: Path) -> None:
    done = call("inspect", *write(tmp_path, case(copies=3)))
    assert done.stdout.startswith("no datum has an error; the first:\n")


def test_inspect_reads_stdin(files: list[str]) -> None:
    done = run("inspect", "-", *files[1:], "--line", "2", stdin=Path(files[0]).read_bytes())
    assert done.returncode == 0
    assert done.stdout.startswith("<stdin>: line 2 (row 1): ")


def test_inspect_shows_a_line_that_it_cannot_read(files: list[str]) -> None:
    with Path(files[0]).open("a") as file:
        file.write('{"model_input": [1,\n')
    done = call("inspect", *files, "--line", "4")
    assert done.returncode == 0
    assert ': cannot be read\n\n  {"model_input": [1,\n\nerror FMT001 invalid-json: ' in done.stdout


USAGE = {
    "row past the end": (["DATA", "--row", "3"], "no row 3: the last one read is row 2"),
    "line past the end": (["DATA", "--line", "9"], "no datum in line 9: the last datum is in line 3"),
    "row and line": (["DATA", "--row", "1", "--line", "1"], "give one"),
    "negative row": (["DATA", "--row", "-1"], "-1"),
    "line 0": (["DATA", "--line", "0"], "0"),
    "no slice": (["DATA", "--positions", "3"], "'3' is not A:B"),
    "a huge slice": (["DATA", "--positions", "9" * 5_000 + ":"], "'99999"),
    "no such positions": (["DATA", "--positions", "10:20"], "the datum has 0 to 5"),
    "positions and all": (["DATA", "--positions", "1:2", "--all"], "give one"),
    "no file": (["nowhere.jsonl"], "nowhere.jsonl: no such file"),
    "no suffix": (["nowhere.txt"], "unknown suffix"),
    "unknown loss": (["DATA", "--loss", "stable_reinforced"], "stable_reinforce'"),
    "missing ledger": (["DATA", "--ledger", "nowhere.jsonl"], "nowhere.jsonl"),
    "two files": (["DIR/*.jsonl"], "2 files match this pattern"),
}


@pytest.mark.parametrize("name", USAGE)
def test_unusable_arguments_get_one_line(name: str, files: list[str]) -> None:
    arguments, named = USAGE[name]
    folder = str(Path(files[0]).parent)
    done = call("inspect", *(files[0] if a == "DATA" else a.replace("DIR", folder) for a in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]{1,1000}\n", done.stderr)
    assert named in done.stderr


def test_files_without_lines_or_datums(files: list[str], tmp_path: Path) -> None:
    table = tmp_path / "datums.parquet"
    provenance.write_datums(case().datums, table)
    assert "give --row (from 0) instead of --line" in call("inspect", table, "--line", "1").stderr
    empty = write_lines(tmp_path / "empty.jsonl", [])
    assert call("inspect", empty).stderr == f"error: {empty}: holds no datum\n"
    provenance.write_sequences(case().sequences, table)
    assert re.fullmatch(r"error: [^\n]+: no datum of it can be read: [^\n]+\n", call("inspect", table).stderr)


@pytest.mark.parametrize("columns", [20, 200])
def test_inspect_fits_its_terminal(columns: int, files: list[str]) -> None:
    code, seen = on_terminal(["inspect", *files], stream="stdout", columns=columns)
    assert code == 0
    text = COLOUR.sub("", seen)
    strip = text[text.index("position ") : text.index("error VAL002")]
    assert_fits(strip, min(max(columns, 40), 200))
    plain = call("inspect", *files).stdout
    if columns > 80:
        assert strip == plain[plain.index("position ") : plain.index("error VAL002")]
    assert re.search(r"\x1b\[3\dm[^\n]*\^\^\^", seen)
