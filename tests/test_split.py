"""`write_good` and `write_bad`: every datum lands in one of two files, as it was, and says why."""

from __future__ import annotations

import copy
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _paths import check_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cli import call, run

import provenance
from provenance import ReadError, SchemaError, Severity, WriteError
from provenance.rules import case
from provenance.rules._examples import NOW, SESSION

ROWS = 6
VALID = case(copies=ROWS)


def _positive(datum: dict[str, Any]) -> dict[str, Any]:
    datum["loss_fn_inputs"]["logprobs"]["data"][3:] = [0.5, 0.5]
    return datum


def _unsourced(datum: dict[str, Any]) -> dict[str, Any]:
    datum["loss_fn_inputs"]["advantages"]["data"] = [1.0] * 5
    datum["loss_fn_inputs"]["logprobs"]["data"][4] = 0.5
    return datum


def _large(datum: dict[str, Any]) -> dict[str, Any]:
    datum["loss_fn_inputs"]["advantages"]["data"][3] = 1000.0
    return datum


def _short(datum: dict[str, Any]) -> dict[str, Any]:
    datum["loss_fn_inputs"]["advantages"] = {"data": [0.0], "dtype": "float32"}
    return datum


def _unpaired(datum: dict[str, Any]) -> dict[str, Any]:
    del datum["model_input_spans"]
    return datum


def _labelled(datum: dict[str, Any]) -> dict[str, Any]:
    return {"datum_id": "x", "metadata": {"provenance": ['"', "\\u"]}, **datum}


#: What may be done to a datum -> the codes of the errors that it then has.
CHANGES: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], set[str]]] = {
    "none": (lambda datum: datum, set()),
    "labelled": (_labelled, set()),
    "warning": (_large, set()),
    "positive": (_positive, {"VAL002"}),
    "unsourced": (_unsourced, {"ADV001", "VAL002"}),
    "short": (_short, {"INP005"}),
    "unpaired": (_unpaired, {"SPN001"}),
}
#: Lines -> their codes, and those of the line that stands for them in a bad file.
TEXTS: dict[bytes, tuple[set[str], set[str]]] = {
    b'{"a": 1': ({"FMT001"}, {"FMT004"}),
    b"[1, 2]": ({"FMT001"}, {"FMT004"}),
    b'"\xff\\"': ({"FMT002"}, {"FMT004"}),
    b"{}": ({"FMT004"}, {"FMT004"}),
    b'{ "a": 1, "a": 2 } ': ({"FMT003"}, {"FMT003"}),
    b'{"provenance": {"raw": "x", "provenance": 1}, "\\u0070rovenance" : {}}': ({"FMT003"}, {"FMT004"}),
    b'{"a": {"provenance": 1}, "provenance": 2 }': ({"FMT004"}, {"FMT004"}),
}


def changed(names: list[str]) -> list[dict[str, Any]]:
    datums = copy.deepcopy(VALID.datums)
    return [CHANGES[name][0](dict(datum)) for name, datum in zip(names, datums, strict=False)]


def check(data: Any, **options: Any) -> provenance.Report:
    return check_case(VALID, data, **options)


def codes_by_row(report: provenance.Report) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for violation in report:
        if violation.severity == Severity.ERROR and violation.location.row is not None:
            found.setdefault(violation.location.row, set()).add(violation.code)
    return found


def read(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def notes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["provenance"] for line in read(path).splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of lines: the second datum and the fourth are bad."""
    lines = [json.dumps(datum) for datum in changed(["none", "positive", "warning", "unsourced"])]
    (tmp_path / "a.jsonl").write_text("\n".join(lines[:3]) + "\n")
    (tmp_path / "b.jsonl").write_text(lines[3])
    return tmp_path


# --- lines ------------------------------------------------------------------------------------------------

row = st.sampled_from([*CHANGES, *TEXTS])
ending = st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n \t\r\n"])


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(st.lists(st.tuples(row, ending), max_size=ROWS), min_size=1, max_size=2),
    suffixes=st.tuples(*[st.sampled_from([".jsonl", ".jsonl.gz"])] * 4),
    cut=st.booleans(),
)
def test_lines_are_parted(
    files: list[list[tuple[Any, bytes]]],
    suffixes: tuple[str, ...],
    cut: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    good, bad = folder / f"good{suffixes[2]}", folder / f"bad{suffixes[3]}"
    paths, expected_good, expected_bad = [], b"", []
    for number, (rows, suffix) in enumerate(zip(files, suffixes, strict=False)):
        path = folder / f"{number}{suffix}"
        paths.append(path)
        datums = iter(changed([name if isinstance(name, str) else "none" for name, _ in rows]))
        content = b""
        for place, (name, end) in enumerate(rows):
            datum = json.dumps(next(datums)).encode()
            text = datum if isinstance(name, str) else name
            line = content.count(b"\n") + 1
            last = cut and place == len(rows) - 1
            content += text if last else text + end
            stored = text if last else (text + end).split(b"\n")[0]
            codes, after = (CHANGES[name][1],) * 2 if isinstance(name, str) else TEXTS[name]
            if codes:
                expected_bad.append((path, place, line, text, stored, codes, after))
            else:
                expected_good += stored + b"\n"
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    report = check(paths, write_good=good, write_bad=bad, allow_empty=True)
    assert names(folder) == sorted([*(path.name for path in paths), good.name, bad.name])
    assert report.bad_datums == len(expected_bad)
    assert read(good) == expected_good
    assert check(good, allow_empty=True).valid
    found = read(bad).split(b"\n")
    assert found.pop() == b""
    for line, (path, place, number, text, stored, codes, _) in zip(found, expected_bad, strict=True):
        note = json.loads(line)["provenance"]
        assert set(note["codes"]) == codes
        assert (note["file"], note["row"], note["line"]) == (str(path), place, number)
        assert 1 <= len(note["violations"]) <= 5
        assert all(any(code in message for code in codes) for message in note["violations"])
        if codes <= {"FMT001", "FMT002"}:
            assert note["raw"] == stored.decode("utf-8", "backslashreplace")
        elif text not in TEXTS:
            spliced = f', "provenance": {json.dumps(note)}'
            assert json.loads(line) == json.loads(text[:-1] + spliced.encode()[0:] + b"}")
            assert line.startswith(text[:-1] + b',"provenance":')
            assert line.endswith(b"}" + stored[len(stored.rstrip()) :])
    again = codes_by_row(check(bad, allow_empty=True, max_examples=1000))
    assert again == {i: after for i, (*_, after) in enumerate(expected_bad)}


def test_a_repaired_file_is_checked_as_it_is(folder: Path) -> None:
    check(folder / "*.jsonl", write_bad=folder / "bad.json")
    bad = [json.loads(line) for line in (folder / "bad.json").read_text().splitlines()]
    assert [list(datum)[-1] for datum in bad] == ["provenance"] * 2
    assert [datum["provenance"]["violations"] for datum in bad] == [
        [
            "logprobs[3:5]: VAL002 positive-logprob: 0.5 > 0.0001 (sampled span 1 of sequence 's:1/1')",
        ],
        [
            (
                "advantages[0:2]: ADV001 unsourced-advantage: advantage 1.0 on a token that was not sampled "
                "(prompt span 0 of sequence 's:1/3')"
            ),
            "logprobs[4]: VAL002 positive-logprob: 0.5 > 0.0001 (sampled span 1 of sequence 's:1/3')",
        ],
    ]
    for datum, number in zip(bad, (1, 3), strict=True):
        datum["loss_fn_inputs"] = VALID.datums[number]["loss_fn_inputs"]
    (folder / "mended.jsonl").write_text("".join(json.dumps(datum) + "\n" for datum in bad))
    assert check(folder / "mended.jsonl").valid
    assert check(bad).valid
    provenance.convert(folder / "mended.jsonl", folder / "mended.parquet")
    assert check(folder / "mended.parquet").valid


def test_what_a_line_was_is_kept_over_several_checks(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_bytes(b'{"half\\u0020": \xff\n')
    for i in range(3):
        check(tmp_path / f"{i}.jsonl", write_bad=tmp_path / f"{i + 1}.jsonl")
    (note,) = notes(tmp_path / "3.jsonl")
    assert note["raw"] == '{"half\\u0020": \\xff'
    assert note["codes"] == ["FMT004"]
    assert json.loads((tmp_path / "3.jsonl").read_text()).keys() == {"provenance"}


def test_messages_are_few_and_short(tmp_path: Path) -> None:
    n = 5000
    datum = changed(["none"])[0]
    datum["loss_fn_inputs"]["weights"] = {"data": ["x" * 1000] * n, "dtype": "float32"}
    other = changed(["none"])[0]
    other["loss_fn_inputs"]["logprobs"]["data"] = [0.5, 0.0, 0.5, 0.0, 0.5]
    other["loss_fn_inputs"]["advantages"]["data"] = [float("nan"), 0, float("nan"), 0, float("nan")]
    other["loss_fn_inputs"] |= {"y" * 500: {"data": [1.0] * 5, "dtype": "float32"}}
    (tmp_path / "a.jsonl").write_text(json.dumps(datum) + "\n" + json.dumps(other) + "\n")
    check(tmp_path / "a.jsonl", write_bad=tmp_path / "bad.jsonl")
    first, second = notes(tmp_path / "bad.jsonl")
    assert first["codes"] == ["FMT004"]
    assert len(second["violations"]) == 5
    assert set(second["codes"]) == {"INP002", "VAL001", "VAL002"}
    assert all(len(message) <= 300 for note in (first, second) for message in note["violations"])


# --- Arrow ------------------------------------------------------------------------------------------------

SUFFIXES = (".parquet", ".arrow", ".arrows")


def table_of(folder: Path, datums: list[dict[str, Any]]) -> pa.Table:
    provenance.write_datums(datums, folder / "table.parquet")
    table = pq.ParquetFile(folder / "table.parquet").read()
    (folder / "table.parquet").unlink()
    extra = pa.array([[float(i)] * 5 for i in range(len(table))], pa.list_view(pa.float64()))
    table = table.select([name for name in table.column_names if name != "metadata"])
    return table.append_column("metadata", extra).replace_schema_metadata({"of": "the caller"})


def write_table(table: pa.Table, path: Path, rows: int = 2) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
        return
    opened = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with opened(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def read_table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()
    with pa.OSFile(str(path)) as source:
        reader = pa.ipc.open_file(source) if path.suffix == ".arrow" else pa.ipc.open_stream(source)
        return reader.read_all()


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.sampled_from(list(CHANGES)), min_size=1, max_size=ROWS),
    cut=st.integers(0, ROWS),
    suffixes=st.tuples(*[st.sampled_from(SUFFIXES)] * 4),
)
def test_rows_are_parted(
    rows: list[str], cut: int, suffixes: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    table = table_of(folder, changed(rows))
    paths = [folder / f"{number}{suffix}" for number, suffix in enumerate(suffixes[:2])]
    good, bad = folder / f"good{suffixes[2]}", folder / f"bad{suffixes[3]}"
    write_table(table.slice(0, cut), paths[0])
    write_table(table.slice(cut), paths[1])
    report = check(paths, write_good=good, write_bad=bad)
    expected = [CHANGES[name][1] for name in rows]
    assert names(folder) == sorted(path.name for path in (*paths, good, bad))
    assert report.bad_datums == sum(map(bool, expected))
    found = read_table(good)
    assert found.schema.equals(read_table(paths[0]).schema)
    assert found.schema.metadata[b"of"] == b"the caller"
    assert found.to_pylist() == [
        row for row, codes in zip(table.to_pylist(), expected, strict=True) if not codes
    ]
    assert check(good, allow_empty=True).valid
    noted = read_table(bad)
    assert noted.drop_columns(["provenance"]).to_pylist() == [
        row for row, codes in zip(table.to_pylist(), expected, strict=True) if codes
    ]
    written = noted.column("provenance").to_pylist()
    numbers = [number for number, codes in enumerate(expected) if codes]
    for note, number in zip(written, numbers, strict=True):
        assert set(note["codes"]) == expected[number]
        assert note["file"] == str(paths[number >= cut])
        assert note["row"] == (number - cut if number >= cut else number)
        assert note["violations"]
    again = check(bad, allow_empty=True, max_examples=1000, write_bad=folder / "again.parquet")
    assert codes_by_row(again) == {i: set(note["codes"]) for i, note in enumerate(written)}
    assert read_table(folder / "again.parquet").schema.names == noted.schema.names


def test_rows_between_bad_ones_stay_in_large_batches(tmp_path: Path) -> None:
    datums = changed(["none", "positive"]) * 500
    write_table(table_of(tmp_path, datums), tmp_path / "a.arrow", 1000)
    check(tmp_path / "a.arrow", write_good=tmp_path / "g.arrow", write_bad=tmp_path / "b.arrow")
    for name in ("g.arrow", "b.arrow"):
        with pa.OSFile(str(tmp_path / name)) as source:
            assert pa.ipc.open_file(source).num_record_batches == 1


def test_all_rows_of_wrong_columns_are_bad(tmp_path: Path) -> None:
    table = table_of(tmp_path, changed(["none", "none"])).append_column("weights", pa.array(["x", "y"]))
    write_table(table, tmp_path / "a.parquet")
    report = check(tmp_path / "a.parquet", write_good=tmp_path / "g.arrow", write_bad=tmp_path / "b.arrow")
    assert not report.valid
    assert read_table(tmp_path / "g.arrow").num_rows == 0
    (first, second) = read_table(tmp_path / "b.arrow").column("provenance").to_pylist()
    assert first["codes"] == second["codes"] == ["FMT004"]
    assert first["violations"] == [
        "weights: FMT004 wrong-type: type string, expected list of numbers, or of lists of numbers"
    ]
    assert (first["row"], second["row"]) == (0, 1)


def test_files_of_other_columns_are_not_joined(tmp_path: Path) -> None:
    table = table_of(tmp_path, changed(["none", "none"]))
    others = {
        "fewer": (table.drop_columns(["metadata"]), "has the column nothing where"),
        "another type": (
            table.set_column(
                table.column_names.index("logprobs"),
                "logprobs",
                table["logprobs"].cast(pa.list_(pa.float64())),
            ),
            "has the column 'logprobs' of list<element: double> where",
        ),
    }
    write_table(table, tmp_path / "a.parquet")
    for other, message in others.values():
        write_table(other, tmp_path / "b.parquet")
        with pytest.raises(ReadError, match=message) as caught:
            check([tmp_path / "a.parquet", tmp_path / "b.parquet"], write_good=tmp_path / "g.parquet")
        assert caught.value.file == str(tmp_path / "b.parquet")
        assert "sort the files one by one" in str(caught.value)
        assert names(tmp_path) == ["a.parquet", "b.parquet"]


# --- refusals and failures --------------------------------------------------------------------------------


def refused(folder: Path, kind: type[Exception], message: str, data: Any, **options: Any) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(kind, match=message) as caught:
        check(data, **options)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_what_cannot_be_sorted_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    a, b = folder / "a.jsonl", folder / "b.jsonl"
    pq.write_table(table_of(folder, changed(["none"])), folder / "c.parquet")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    (folder / "link.jsonl").symlink_to("a.jsonl")
    twice = "can be read once only, and sorting reads twice: save it to a file first"
    itself = "is read or written as something else too"
    refused(folder, ReadError, f"<stdin>: {twice}", "-", write_good="g.jsonl")
    refused(folder, ReadError, twice, folder / "pipe.jsonl", write_bad="g.jsonl")
    refused(
        folder, SchemaError, "cannot sort a list into good and bad", list(VALID.datums), write_bad="g.jsonl"
    )
    refused(folder, SchemaError, "cannot sort a Table", read_table(folder / "c.parquet"), write_bad="g.arrow")
    for good, bad in (("a.jsonl", None), (None, "./link.jsonl"), ("g.jsonl", folder / "g.jsonl")):
        refused(folder, WriteError, itself, [a, b], write_good=good, write_bad=bad)
    refused(folder, WriteError, "<stdout>: is where the report goes", a, write_good="-")
    refused(
        folder, WriteError, "Arrow, and .* is lines of JSON.*provenance convert", a, write_good="g.parquet"
    )
    refused(
        folder, WriteError, "lines of JSON.*provenance convert", folder / "c.parquet", write_bad="g.jsonl"
    )
    refused(
        folder,
        ReadError,
        "c.parquet: is Arrow.*provenance convert",
        [a, folder / "c.parquet"],
        write_bad="g.jsonl",
    )
    refused(folder, ReadError, "no such file or directory", [a, "missing.jsonl"], write_good="g.jsonl")
    refused(folder, WriteError, "no such file or directory", a, write_good="g.jsonl", write_bad="no/b.jsonl")
    refused(folder, WriteError, "a directory", a, write_good="g.jsonl", write_bad="folder.jsonl")
    refused(folder, WriteError, "unknown suffix", a, write_good="g.csv")


def test_the_ledger_is_not_written_over(folder: Path) -> None:
    ledger = folder / "ledger.jsonl"
    ledger.write_text("".join(json.dumps(sequence) + "\n" for sequence in VALID.sequences))
    with pytest.raises(WriteError, match=r"ledger\.jsonl: is read or written as something else too"):
        provenance.check(folder / "a.jsonl", ledger=ledger, session=SESSION, now=NOW, write_bad=ledger)


def test_other_encodings_have_no_lines_to_sort(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes("{}\n".encode("utf-16"))
    refused(
        tmp_path,
        ReadError,
        "UTF-16, which has no lines to sort: iconv",
        tmp_path / "a.jsonl",
        write_good=tmp_path / "g.jsonl",
    )


def _appended(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n{}\n")


def _rewritten(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"0", b"1"))


@pytest.mark.parametrize("change", [_appended, _rewritten, Path.unlink])
@pytest.mark.parametrize("suffix", [".jsonl", ".arrows"])
def test_an_input_that_changes_meanwhile_is_noticed(
    change: Callable[[Path], None], suffix: str, folder: Path
) -> None:
    path = folder / f"c{suffix}"
    provenance.convert(folder / "a.jsonl", path)
    violations = provenance.iter_violations(
        path, ledger=VALID.sequences, session=SESSION, now=NOW, write_good=folder / f"g{suffix}"
    )
    assert next(violations).code == "VAL002"
    change(path)
    with pytest.raises(ReadError) as caught:
        list(violations)
    assert caught.value.file == str(path)
    if change is _appended:
        assert "changed since it was checked: check it again" in str(caught.value)
    assert not (folder / f"g{suffix}").exists()
    assert not [name for name in names(folder) if name.endswith(".tmp")]


def test_violations_that_stream_write_the_files_at_the_end(folder: Path) -> None:
    good, bad = folder / "g.jsonl", folder / "b.jsonl.zst"
    violations = provenance.iter_violations(
        folder / "a.jsonl",
        ledger=VALID.sequences,
        session=SESSION,
        now=NOW,
        write_good=good,
        write_bad=bad,
    )
    assert next(violations).code == "VAL002"
    assert not good.exists()
    assert [violation.code for violation in violations] == ["ADV004"]
    assert len(good.read_bytes().splitlines()) == 2
    assert bad.exists()


def test_one_target_is_enough_and_an_earlier_file_is_replaced(folder: Path) -> None:
    target = folder / "g.jsonl"
    target.write_text("an earlier file")
    target.chmod(0o640)
    check(folder / "a.jsonl", write_good=target)
    lines = (folder / "a.jsonl").read_text().splitlines(keepends=True)
    assert target.read_text() == lines[0] + lines[2]
    assert target.stat().st_mode & 0o777 == 0o640
    assert names(folder) == ["a.jsonl", "b.jsonl", "g.jsonl"]


# --- the command ------------------------------------------------------------------------------------------


@pytest.fixture
def arguments(folder: Path) -> list[str]:
    ledger = folder / "ledger.jsonl"
    ledger.write_text("".join(json.dumps(sequence) + "\n" for sequence in VALID.sequences))
    return ["--ledger", str(ledger), "--session", SESSION, "--now", NOW]


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_the_command_sorts(form: str, folder: Path, arguments: list[str]) -> None:
    data = [folder / "a.jsonl", folder / "b.jsonl"]
    targets = ["--write-good", folder / "g.jsonl", "--write-bad", folder / "bad.jsonl"]
    done = call("check", *data, *arguments, "--format", form, *targets)
    assert done.returncode == 1
    assert len((folder / "g.jsonl").read_text().splitlines()) == 2
    assert [note["codes"] for note in notes(folder / "bad.jsonl")] == [["VAL002"], ["ADV001", "VAL002"]]
    done = call("check", folder / "g.jsonl", *arguments)
    assert done.returncode == 0


def test_the_command_refuses_in_one_line(folder: Path, arguments: list[str]) -> None:
    done = run("check", "-", *arguments, "--write-good", folder / "g.jsonl", stdin=b"{}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: <stdin>: can be read once only, and sorting reads twice: save it to a file first\n"
    )
    same = ["--output", folder / "g.jsonl", "--write-good", folder / "g.jsonl"]
    done = call("check", folder / "a.jsonl", *arguments, *same)
    assert done.returncode == 2
    assert "is read or written as something else too" in done.stderr
    assert "g.jsonl" not in names(folder)
