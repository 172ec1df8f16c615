"""Annotations and job summaries for GitHub: escaped as its toolkit does, and bounded."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from _machine import reports
from hypothesis import given, settings
from markdown_it import MarkdownIt
from test_reports import broken, report, violation

from provenance.report import Count, Report, Severity
from provenance.reports.github import report_to_annotations, report_to_summary
from provenance.reports.text import escape, verdict
from provenance.rules import registry

ERROR, WARNING = Severity.ERROR, Severity.WARNING
MANY = settings(max_examples=40, deadline=None)


def test_annotations_name_file_line_and_rule() -> None:
    found = report(
        counts={"VAL002": Count(2, 2, 2), "VAL003": Count(1, 1, 1)},
        violations=(
            violation("VAL003", "zeros", WARNING, "50% are 0", file="p.parquet", row=3),
            violation("VAL002", "positive-logprob", ERROR, "1 > 0", file="a,b:c.jsonl", row=0, line=1),
            violation("VAL002", "positive-logprob", ERROR, "2 > 0", file="<stdin>", row=1, line=2),
        ),
    )
    error, warning = (
        f"%0A{registry()[code].summary} What to do: provenance explain {code}"
        for code in ("VAL002", "VAL003")
    )
    rule = "VAL002 positive-logprob"
    place = f"title={rule},file=a%2Cb%3Ac.jsonl,line=1::a,b:c.jsonl: line 1"
    assert report_to_annotations(found).split("\n") == [
        f"::error {place}: {rule}: 1 > 0{error}",
        f"::error title={rule}::<stdin>: line 2: {rule}: 2 > 0{error}",
        f"::warning title=VAL003 zeros,file=p.parquet::p.parquet: row 3: VAL003 zeros: 50%25 are 0{warning}",
        verdict(found),
    ]


def test_annotations_are_as_many_as_github_shows_and_of_each_rule() -> None:
    names = {"VAL001": "non-finite-value", "VAL002": "positive-logprob", "ADV001": "unsourced-advantage"}
    kept = [violation(code, name, ERROR, "no", row=i) for code, name in names.items() for i in range(20)]
    found = report(counts={code: Count(1, 1000, 1000) for code in names}, violations=tuple(kept))
    *errors, notice, _ = report_to_annotations(found).split("\n")
    assert len(errors) == 10
    assert [sum(code in line for line in errors) for code in names] == [4, 3, 3]
    assert notice == "::notice title=provenance::2,990 violations beside those that are annotated"


@pytest.mark.parametrize(
    ("file", "root", "expected"),
    [
        ("data/x.jsonl", "HERE", "data/x.jsonl"),
        ("HERE/data/x.jsonl", "HERE", "data/x.jsonl"),
        ("./data/../x.jsonl", "HERE", "x.jsonl"),
        ("data/x.jsonl", "PARENT", "work/data/x.jsonl"),
        ("/elsewhere/x.jsonl", "HERE", "/elsewhere/x.jsonl"),
        ("data/x.jsonl", None, "data/x.jsonl"),
        ("x\x1b[2J\n.jsonl", "HERE", "x\\x1b[2J\\n.jsonl"),
        ("data/x.jsonl", "LINK", "data/x.jsonl"),
        ("LINK/data/x.jsonl", "HERE", "data/x.jsonl"),
        ("data/x.jsonl", ".", "data/x.jsonl"),
        ("data/x.jsonl", "..", "work/data/x.jsonl"),
        ("data/linked.jsonl", "LINK", "data/linked.jsonl"),
    ],
)
def test_annotations_name_files_from_the_root(
    file: str, root: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    (tmp_path / "work" / "data").mkdir()
    (tmp_path / "work" / "data" / "linked.jsonl").symlink_to("/elsewhere/x.jsonl")
    folders = {"HERE": str(tmp_path / "work"), "LINK": str(tmp_path / "link"), "PARENT": str(tmp_path)}
    for name, folder in folders.items():
        file = file.replace(name, folder)
    one = violation("VAL002", "positive-logprob", ERROR, "no", file=file)
    found = report(counts={"VAL002": Count(1, 1, 1)}, violations=(one,))
    line = report_to_annotations(found, root=folders.get(root or "", root)).split("\n")[0]
    assert f",file={expected}::" in line


@MANY
@given(found=reports())
def test_annotations_take_any_text(found: Report) -> None:
    *commands, last = report_to_annotations(found).split("\n")
    assert last == verdict(found)
    assert len(commands) == len(found.violations)
    for command in commands:
        empty, properties, message = command.split("::", 2)
        assert not empty
        assert properties.split()[0] in ("error", "warning")
        assert "::" not in properties
        assert "\r" not in message


class Page(HTMLParser):
    """Tags, attributes and text of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@MANY
@given(found=reports())
def test_a_summary_is_html_of_ours_whatever_the_text(found: Report) -> None:
    summary = report_to_summary(found)
    tokens = MarkdownIt("commonmark").parse(f"what others wrote\n{summary}# and after it")
    assert [token.type for token in tokens if token.level == 0] == [
        *("paragraph_open", "paragraph_close", "html_block"),
        *("heading_open", "heading_close"),
    ]
    page = Page(summary)
    ours = {"h3", "p", "table", "tr", "th", "td", "details", "summary", "ul", "li", "code"}
    assert page.tags <= ours
    assert page.attributes <= {("align", "right")}
    assert verdict(found) in page.text
    for one in found:
        assert any(escape(one.message) in text for text in page.text)


def test_a_summary_tells_counts_examples_and_what_was_not_checked() -> None:
    page = Page(report_to_summary(broken()))
    text = "\n".join(page.text)
    assert "VAL002 positive-logprob: 14 violations in 3 datums, 17 elements" in text
    assert "part-0.parquet: row 50: logprobs[9]: VAL002 positive-logprob: 0.25 > 0.0001" in text
    assert "... and 12 more" in text
    assert " ".join(registry()["VAL002"].doc.partition("\n")[2].split()) in text
    assert "no ledger of sampled sequences given: SEQ001, SEQ002, SEQ003" in text


def test_a_summary_keeps_within_its_limit() -> None:
    whole = report_to_summary(broken())
    least = report_to_summary(broken(), limit=0)
    for limit in range(len(least), len(whole) + 1):
        assert len(report_to_summary(broken(), limit=limit).encode()) <= limit
    assert report_to_summary(broken(), limit=len(whole)) == whole
    assert "14" in least
    assert "<li><code>" not in least
