"""The page of a report, read without a browser; tests/test_html_browser.py opens it in one."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pages import Element, grid, parse

import provenance
from provenance.engine import observe
from provenance.observations import Histogram, Observations
from provenance.report import Report, Severity
from provenance.reports.html import _page
from provenance.reports.text import escape
from provenance.rules import Case, case, registry
from provenance.rules._examples import DROP, TWO_TARGETS

RULES = registry()
MULTI = next(case for case in RULES["SPN009"].good if len(case.datums[0]["model_input_spans"]) > 2)
HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202eevil\u202c\u2066",
    "nul\x00esc\x1b[31m",
    "long" * 2500,
)


def check(case: Case, folder: Path, **given: Any) -> Report:
    """An example of a rule, checked as files."""
    datums, ledger = folder / "datums.jsonl", folder / "sequences.jsonl"
    lines = (json.dumps(datum) + "\n" for datum in case.datums)
    datums.write_bytes(case.lines if case.lines is not None else "".join(lines).encode())
    ledger.write_text("".join(json.dumps(sequence) + "\n" for sequence in case.sequences), encoding="utf-8")
    known: dict[str, Any] = {
        "ledger": ledger,
        "session": case.session,
        "now": case.now,
        "loss_config": dict(case.config),
        "observe": True,
    }
    contract = provenance.Contract.for_loss(case.loss).with_parameters(**case.parameters)
    return provenance.check(datums, contract, **known | given)


def without_charts(report: Report) -> Report:
    assert report.observations is not None
    return replace(report, observations=replace(report.observations, histograms={}))


def broken(path: str, value: Any, case: Case = MULTI) -> Case:
    """A case with one value of its first datum changed."""
    datums = json.loads(json.dumps(case.datums))
    *way, last = path.split(".")
    place = datums[0]
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    return replace(case, datums=datums)


def is_sound(page: Element) -> None:
    """The page is one that asks for nothing, runs nothing but its own, and whose links lead somewhere."""
    ids = [e.attributes["id"] for e in page if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    for element in page:
        assert not [name for name in element.attributes if name.startswith("on") or name == "style"]
        assert element.name not in ("img", "iframe", "object", "embed", "base", "foreignobject")
        assert not {"src", "srcset", "action", "formaction", "xlink:href"} & set(element.attributes)
        if (href := element.attributes.get("href")) is not None:
            assert href == "data:," or (href[0] == "#" and href[1:] in ids), href
        for reference in ("aria-labelledby", "aria-describedby", "for"):
            assert element.attributes.get(reference, ids[0]) in ids
    policy = next(e.attributes["content"] for e in page.all("meta") if "http-equiv" in e.attributes)
    for name in ("style", "script"):
        source = "".join(str(part) for part in page.one(name).children)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")


@pytest.mark.parametrize("code", sorted(RULES))
def test_every_rule_is_named_explained_and_located(code: str, tmp_path: Path) -> None:
    for number, example in enumerate(RULES[code].bad):
        folder = tmp_path / str(number)
        folder.mkdir()
        report = without_charts(check(example, folder, allow_empty=code != "FMT005"))
        page = parse(report.to_html())
        is_sound(page)
        rule = page.one("article", anchor=code)
        assert RULES[code].name in rule.one("h3").text
        assert RULES[code].summary.replace("``", "") in rule.text
        why = " ".join(RULES[code].doc.replace("``", "").split())
        assert why.endswith(f"{rule.one(of='why').text} {rule.all(of='hint')[0].text}")
        found = [violation for violation in report if violation.code == code]
        examples = rule.all("li", of="example")
        assert [e.one(of="message").text.split(" (sequence ")[0] for e in examples] == [
            " ".join(escape(v.message).split()).split(" (sequence ")[0] for v in found
        ]
        for violation, shown in zip(found, examples, strict=True):
            element = str(replace(violation.location, file=None, row=None, line=None))
            assert escape(element) in shown.text
        for table in page.all("table", of="map"):
            grid(table)


def test_each_example_leads_to_its_datum(tmp_path: Path) -> None:
    report = without_charts(check(broken("loss_fn_inputs.logprobs.data.3", 0.5), tmp_path))
    page = parse(report.to_html())
    link = next(e for e in page.one("article", anchor="VAL002").all("a"))
    datum = page.one("article", anchor=link.attributes["href"][1:])
    assert "datums.jsonl: line 1" in datum.one("h3").text
    assert "VAL002 logprobs[3]: 0.5" in datum.one("ul", of="faults").text


def test_the_map_shows_each_token_under_its_span_and_the_shift(tmp_path: Path) -> None:
    case = broken("loss_fn_inputs.logprobs.data.3", 0.5)
    page = parse(without_charts(check(case, tmp_path)).to_html())
    heads, rows = grid(page.one("table", of="map"))
    datum = case.datums[0]
    tokens = [token for chunk in datum["model_input"]["chunks"] for token in chunk["tokens"]]
    targets = datum["loss_fn_inputs"]["target_tokens"]["data"]
    assert heads == [str(i) for i in range(len(tokens) + 1)]
    assert [cell.text for cell in rows["input"]] == [*map(str, tokens), ""]
    assert [cell.text for cell in rows["target"]] == ["", *map(str, targets)]
    for field, title, value_row, shift in (
        ("model_input_spans", "input spans", "input", 0),
        ("loss_fn_input_spans", "target spans", "target", 1),
    ):
        names: dict[str, str] = {}
        position = shift
        for span in datum[field]:
            for at in range(position, position + span["length"]):
                assert span["type"] in rows[title][at].classes
                assert span["type"] in rows[value_row][at].classes
                letter, kind, place = rows[title][at].text.split()
                assert names.setdefault(span["sequence_id"], letter) == letter
                assert (kind, place) == (span["type"], f"{span['offset']}:{span['offset'] + span['length']}")
            position += span["length"]
        assert len(set(names.values())) == len(names) > 1
    # The logprob of target 3 stands at position 4, and so does its mark.
    assert rows["logprobs"][4].text == "0.5"
    assert "error" in rows["logprobs"][4].classes
    assert [bool(cell.text) for cell in rows["VAL002"]] == [i == 4 for i in range(len(heads))]


def test_the_bars_show_the_whole_datum(tmp_path: Path) -> None:
    case = broken("loss_fn_inputs.logprobs.data.3", 0.5)
    page = parse(without_charts(check(case, tmp_path)).to_html())
    picture = page.one("article", of="datum").one("svg")
    spans = case.datums[0]["model_input_spans"]
    sampled = sum(span["length"] for span in spans if span["type"] == "sampled")
    width = sum(span["length"] for span in spans) + 1
    assert picture.attributes["viewbox"] == f"0 0 {width} 36"
    drawn = [p for p in picture.all("path", of="sampled") if re.match(r"M\d+ 0h", p.attributes["d"])]
    prompts = [n for p in picture.all("path", of="prompt") for n in re.findall(r"v(\d+)", p.attributes["d"])]
    assert set(prompts) == {"5"}
    lengths = [int(n) for p in drawn for n in re.findall(r"M\d+ 0h(\d+)v10", p.attributes["d"])]
    assert sum(lengths) == sampled
    assert picture.one("path", of="error").attributes["d"] == "M4 24h1v8h-1z"
    words = picture.attributes["aria-label"]
    assert f"input: {sum(s['length'] for s in spans) - sampled} prompt, {sampled} sampled" in words


def test_a_long_datum_is_shown_near_its_faults(tmp_path: Path) -> None:
    size, fault = 5_000, 3_333
    logprobs = [0.0] + [-1.0] * (size - 1)
    logprobs[fault] = 0.5

    def spans(start: int, sampled: int) -> list[dict[str, Any]]:
        return [
            {"type": "prompt", "sequence_id": "s:1", "offset": start, "length": 2 - start},
            {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": sampled},
        ]

    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": list(range(size))}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": list(range(1, size + 1)), "dtype": "int64", "shape": [size]},
            "logprobs": {"data": logprobs, "dtype": "float32", "shape": [size]},
            "advantages": {"data": [0.0] + [1.0] * (size - 1), "dtype": "float32", "shape": [size]},
        },
        "model_input_spans": spans(0, size - 2),
        "loss_fn_input_spans": spans(1, size - 1),
    }
    page = parse(without_charts(provenance.check([datum], observe=True)).to_html())
    heads, rows = grid(page.one("table", of="map"))
    column = heads.index(str(fault + 1))
    assert rows["logprobs"][column].text == "0.5"
    counted = sum(int(head[1:].replace(",", "")) for head in heads if head.startswith("+"))
    assert f"{counted:,} of {size + 1:,} positions are only counted" in page.one("article", of="datum").text
    assert counted + len([head for head in heads if not head.startswith("+")]) == size + 1


def long_datum(size: int = 1_000, **inputs: list[float]) -> dict[str, Any]:
    """A datum of importance_sampling without spans, of which every second logprob is positive."""
    values: dict[str, list[float]] = {"logprobs": [-1.0, 1.0] * (size // 2), "advantages": [1.0] * size}
    tensors = {
        name: {"data": data, "dtype": "float32", "shape": [size]} for name, data in (values | inputs).items()
    }
    tensors["target_tokens"] = {"data": list(range(1, size + 1)), "dtype": "int64", "shape": [size]}
    return {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": list(range(size))}]},
        "loss_fn_inputs": tensors,
    }


def page_of(*datums: dict[str, Any]) -> Element:
    """Without distributions, which take long to draw."""
    return parse(without_charts(provenance.check(datums, "importance_sampling", observe=True)).to_html())


def ticks(datum: Element) -> list[int]:
    """Where the overview has one, of 480 steps."""
    return [int(start) for start in re.findall(r"M(\d+)", datum.one("path", of="error").attributes["d"])]


def test_every_fault_is_marked_and_counted() -> None:
    datum = page_of(long_datum()).one("article", of="datum")
    assert "488 more violations, not listed" in datum.text
    assert "places are marked" not in datum.text
    assert ticks(datum) == list(range(480))
    heads, rows = grid(datum.one("table", of="map"))
    assert {"0", "1000"} < set(heads)  # both ends are shown
    faulty = [head.startswith("+") or int(head) in range(2, 1001, 2) for head in heads]
    assert [bool(cell.text) for cell in rows["VAL002"]] == faulty
    framed = ["error" in cell.classes for cell in rows["logprobs"]]
    shown = [not head.startswith("+") for head in heads]
    assert framed == [a and b for a, b in zip(faulty, shown, strict=True)]
    assert sum(framed) > 30


def test_what_is_not_marked_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "_PLACES", 100)
    datum = page_of(long_datum()).one("article", of="datum")
    assert "of VAL002 the first 100 of 500 places are marked" in datum.text
    assert "488 more violations, not listed" in datum.text
    assert max(ticks(datum)) == 201 * 480 // 1001  # of the last that is marked


def test_a_rule_broken_everywhere_leaves_room_for_the_others() -> None:
    datum = page_of(long_datum(advantages=[1.0] * 900 + [1e6] + [1.0] * 99))
    heads, rows = grid(datum.one("table", of="map"))
    column = heads.index("901")
    assert rows["ADV004"][column].text
    assert "warning" in rows["advantages"][column].classes


def test_a_fault_of_a_whole_field_is_a_note(tmp_path: Path) -> None:
    report = check(case({"loss_fn_inputs.advantages": DROP}), tmp_path)
    _, rows = grid(parse(without_charts(report).to_html()).one("table", of="map"))
    assert rows["advantages"][0].text == "missing"
    assert rows["INP001"][0].text == "missing-loss-input"


def test_a_fault_beyond_the_positions_is_marked_at_the_last(tmp_path: Path) -> None:
    spans = list(MULTI.datums[0]["model_input_spans"])
    spans += [{**spans[0], "length": 50}, {**spans[0], "offset": -1}]
    page = parse(without_charts(check(broken("model_input_spans", spans), tmp_path)).to_html())
    heads, rows = grid(page.one("table", of="map"))
    assert [head for head, cell in zip(heads, rows["SPN005"], strict=True) if cell.text] == [heads[-1]]


def test_a_fault_in_rows_and_columns_is_marked_at_its_row(tmp_path: Path) -> None:
    changes = {**TWO_TARGETS, "loss_fn_inputs.weights.data.7": None}
    report = without_charts(check(case(changes, loss="cross_entropy"), tmp_path))
    heads, rows = grid(parse(report.to_html()).one("table", of="map"))
    # Element 7 is (3, 1), and target 3 stands at position 4.
    assert [head for head, cell in zip(heads, rows["VAL001"], strict=True) if cell.text] == ["4"]


def test_how_many_bad_datums_are_shown() -> None:
    long, short = long_datum(200_002), long_datum(10)
    passed_over = "1 passed over: longer than 200,000 positions, or no room on this page."
    for datums, words in (
        ([short] * 3, ""),
        ([short] * 1_000, "3 of 1,000 datums with violations are shown: of each rule the first 3"),
        ([long, *[short] * 9], "3 of 10 datums with violations are shown: of each rule the first 3"),
        ([long], "0 of 1 datum with violations are shown: of each rule the first 3"),
    ):
        page = page_of(*datums)
        section = page.one("section", anchor="datums").text
        assert words in section
        assert ("with violations" in section) == bool(words)
        assert (passed_over in section) == (long in datums)
        assert "No datum has a violation" not in section
        assert len(page.all("article", of="datum")) == (3 if short in datums else 0)


def test_warnings_that_fail_are_the_verdict() -> None:
    warned = provenance.check([long_datum(logprobs=[-1.0] * 1_000, advantages=[1e6] * 1_000)], "ppo")
    assert warned.valid
    assert warned.warnings == 1
    refused = "1 warning, which fail_on='warning' does not let pass; valid: 1 datum, "
    for fail_on, word, style, lead in (
        (Severity.ERROR, "valid", "good", "1 datum, 1,000 positions, "),
        (Severity.WARNING, "failed", "error", refused),
    ):
        page = parse(warned.to_html(fail_on=fail_on))
        assert page.one("title").text == f"{word}: provenance report"
        assert page.one(of="verdict").text == word
        assert style in page.one(of="verdict").classes
        assert page.one(of="lead").text.startswith(lead)
    for data, word in (([long_datum()], "invalid"), ([], "valid")):
        report = provenance.check(data, "importance_sampling", allow_empty=True)
        assert parse(report.to_html(fail_on=Severity.WARNING)).one(of="verdict").text == word


def test_spans_without_a_position_are_told(tmp_path: Path) -> None:
    spans = [*MULTI.datums[0]["model_input_spans"]]
    spans.append({**spans[-1], "offset": 0, "length": 0})
    page = parse(without_charts(check(broken("model_input_spans", spans), tmp_path)).to_html())
    assert "1 span of model_input_spans without a position" in page.one("article", of="datum").text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_comes_from_data_stays_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / f"{text[:40].replace('/', '_').replace(chr(0), '0')}.jsonl"
    datum = broken("model_input_spans.0.sequence_id", text).datums[0]
    datum["loss_fn_inputs"][text] = {"data": [1.0], "dtype": text, "shape": [1]}
    path.write_text(json.dumps(datum) + "\n", encoding="utf-8")
    contract = provenance.Contract.for_loss("stable_reinforce")
    report = provenance.check(path, contract, session=text, ledger=[], observe=True)
    report = replace(without_charts(report), contract=report.contract | {"parameters": {"note": text}})
    html = report.to_html()
    page = parse(html)
    is_sound(page)
    assert len(page.all("script")) == 1
    shown = " ".join(escape(text[:600]).split())
    assert shown in page.one(of="facts").text
    assert shown[:40] in page.one("article", anchor="INP002").text
    outside = html.replace(page.one("script").text, "")
    assert all(character.isprintable() or character == "\n" for character in outside)
    assert all(len(element.text) < 1_500 for element in page.all("p") + page.all("li", of="example"))
    assert len(html) < 300_000


def test_a_datum_with_many_inputs_has_a_bounded_table() -> None:
    datum = broken("loss_fn_inputs.logprobs.data.3", 0.5).datums[0]
    size = len(datum["loss_fn_inputs"]["logprobs"]["data"])
    for number in range(60):
        datum["loss_fn_inputs"][f"more-{number}"] = {
            "data": [0.5] * size,
            "dtype": "float32",
            "shape": [size],
        }
    page = parse(without_charts(provenance.check([datum], observe=True)).to_html())
    article = page.one("article", of="datum")
    rows = article.one("table", of="map").all("tr")[1:]
    assert len(rows) == 24
    left_out = re.search(r"(\d+) more rows, not listed", article.text)
    assert left_out is not None
    assert int(left_out[1]) > 60 - len(rows)


def test_a_page_can_be_encoded_whatever_is_in_it() -> None:
    page = provenance.check(MULTI.datums, session="lone \udcff").to_html()
    assert "lone \\udcff" in page
    page.encode()


def test_faults_without_a_position_are_marked(tmp_path: Path) -> None:
    """An empty chunk stands between positions, or behind the last."""
    tokens = MULTI.datums[0]["model_input"]["chunks"][0]["tokens"]
    for cut in (3, len(tokens)):
        parts = (tokens[:cut], [], tokens[cut:])
        chunks = [{"type": "encoded_text", "tokens": part} for part in parts if part or part is parts[1]]
        page = parse(without_charts(check(broken("model_input.chunks", chunks), tmp_path)).to_html())
        heads, rows = grid(page.one("table", of="map"))
        marked = [head for head, cell in zip(heads, rows["TOK002"], strict=True) if cell.text]
        assert marked == [str(cut)]
        assert [cell.text for cell in rows["chunks"]][:cut] == ["0 text"] * cut


HISTOGRAM = Histogram(
    edges=np.array([-20.0, -5, -1, -0.1, 0, 0.5]),
    counts=np.array([1, 0, 20, 3000, 4]),
    below=7,
    above=2,
    unusable=5,
)


def with_histograms(found: Mapping[str, Histogram], **contract: Any) -> Report:
    report = provenance.check(
        MULTI.datums, provenance.Contract.for_loss("stable_reinforce").with_parameters(**contract)
    )
    return replace(report, observations=Observations(histograms=found, datums=(), omitted=0, bad_datums=0))


def test_a_distribution_is_drawn_and_told() -> None:
    page = parse(with_histograms({"logprobs": HISTOGRAM}).to_html())
    is_sound(page)
    figure = page.all("figure")[0]
    assert figure.one("h3").text == "Logprobs"
    said = figure.one("figcaption").text
    # 3,034 usable values, and the middle one is number 1,517 in order: 28 lie below -0.1.
    assert said == (
        "3,034 given logprobs of sampled targets; median -0.1 to 0 nats; 7 below -20, not drawn; "
        "2 0.5 or more, not drawn; 5 NaN or infinite, not drawn."
    )
    picture = next(e for e in figure.all("div") if e.attributes.get("role") == "img")
    assert picture.attributes["aria-label"] == f"Logprobs: {said[:-1]}"
    bars = figure.one("g", of="bars_marks").all("path")
    assert len(bars) == 4
    numbers = [[cell.text for cell in row.all("td")] for row in figure.one("table").all("tr")[1:]]
    assert numbers == [["-20 to -5", "1"], ["-1 to -0.1", "20"], ["-0.1 to 0", "3,000"], ["0 to 0.5", "4"]]
    labels = [e.text for group in figure.all("g", of="role-axis-label") for e in group.all("text")]
    assert labels == ["-20", "-5", "-1", "-0.1", "0", "0", "1", "10", "100", "1,000"]


def test_zeros_have_a_bin_of_their_own() -> None:
    edges = np.array([-1.0, 0, 2.0**-149])
    seen = Histogram(edges=edges, counts=np.array([1, 5]), below=0, above=2, unusable=0)
    figure = parse(with_histograms({"logprobs": seen}).to_html()).all("figure")[0]
    assert figure.one("figcaption").text == (
        "8 given logprobs of sampled targets; median exactly 0 nats; 2 above 0, not drawn."
    )
    assert "exactly 0 5" in " ".join(cell.text for cell in figure.all("td"))
    label = next(text for text in figure.all("text") if text.text == "0")
    assert label.attributes["transform"].startswith("translate(330,")  # the middle of the second of two bins


@pytest.mark.parametrize(
    ("counts", "below", "above", "median"),
    [
        ([0, 0, 0, 0, 0], 3, 0, "median below -20 nats"),
        ([0, 0, 0, 0, 0], 0, 3, "median 0.5 or more nats"),
        ([2, 0, 0, 0, 1], 0, 0, "median -20 to -5 nats"),
        ([2, 0, 0, 0, 3], 0, 0, "median 0 to 0.5 nats"),
    ],
)
def test_the_median_is_where_half_of_the_values_lie(
    counts: list[int], below: int, above: int, median: str
) -> None:
    seen = replace(HISTOGRAM, counts=np.array(counts), below=below, above=above, unusable=0)
    assert median in parse(with_histograms({"logprobs": seen}).to_html()).all("figcaption")[0].text


def test_ages_have_the_window_of_the_contract() -> None:
    ages = Histogram(
        edges=np.array([0.0, 12, 24, 48]) * 3600, counts=np.array([5, 1, 1]), below=0, above=0, unusable=0
    )
    for window, place, said in ((86400.0, 2.0, "24"), (43200.0, 1.0, "12"), (3600.0, 1 / 12, "1")):
        figure = parse(with_histograms({"ages": ages}, window=window).to_html()).all("figure")[-1]
        assert f"the dashed line is the contract's window, {said} hours" in figure.text
        line = figure.one("g", of="window_marks").one("line")
        moved = re.match(r"translate\(([\d.]+),", line.attributes["transform"])
        assert moved is not None
        assert float(moved[1]) == pytest.approx(place / 3 * 440, abs=0.6)


def test_what_nothing_was_seen_of_is_told() -> None:
    page = parse(with_histograms({}).to_html())
    captions = [caption.text for caption in page.all("figcaption")]
    assert len(captions) == 5
    assert all(caption.startswith("Nothing to draw: ") for caption in captions)
    assert not page.all("svg")


def test_without_observations_the_page_says_how_to_get_them(tmp_path: Path) -> None:
    report = check(broken("loss_fn_inputs.logprobs.data.3", 0.5), tmp_path, observe=False)
    page = parse(report.to_html())
    is_sound(page)
    assert "observe=True" in page.one("section", anchor="datums").text
    assert not page.all("figure")
    assert f"provenance inspect {tmp_path}/datums.jsonl --line 1" in page.one("article", anchor="VAL002").text


def test_valid_data_and_what_was_not_checked() -> None:
    report = provenance.check(MULTI.datums, observe=False)
    page = parse(report.to_html())
    assert page.one(of="verdict").text == "valid"
    reasons = page.one("section", anchor="not-checked")
    for entry in report.not_checked:
        assert entry.reason in reasons.text
        assert entry.code in reasons.text


def only(*codes: str) -> provenance.Contract:
    contract = provenance.Contract.for_loss("stable_reinforce")
    return contract.with_severity({code: "off" for code in contract.severities if code not in codes})


def test_what_had_nothing_to_judge_is_told() -> None:
    known: dict[str, Any] = {"ledger": list(MULTI.sequences), "session": MULTI.session, "now": MULTI.now}
    nothing = "there is nothing here that these rules judge"
    for data, codes, idle in (
        ([], ("SEQ003",), "SEQ003"),
        (list(MULTI.datums), ("SEQ003", "CFG001", "VAL003"), "CFG001, VAL003"),
        (list(MULTI.datums), ("SEQ003",), ""),
    ):
        report = provenance.check(data, only(*codes), allow_empty=True, **known)
        section = parse(report.to_html()).one("section", anchor="not-checked").text
        assert (f"{nothing}{idle}" in section) == bool(idle)
        assert ("Every rule of the contract was judged." in section) == (not idle)


def test_what_was_broken_had_something_to_judge(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text("nonsense\n", encoding="utf-8")
    report = provenance.check([], ledger=tmp_path / "broken.jsonl", allow_empty=True)
    assert report.codes() == {"FMT001"}
    assert "FMT001" not in parse(report.to_html()).one("section", anchor="not-checked").text


def test_ages_are_of_pairs_of_datum_and_sequence(tmp_path: Path) -> None:
    report = check(replace(MULTI, datums=[*MULTI.datums] * 10), tmp_path)
    assert (
        "20 pairs of a datum and a sequence that it names; " in parse(report.to_html()).all("figure")[-1].text
    )


def test_examples_are_counted_beyond_those_that_are_shown(tmp_path: Path) -> None:
    case = broken("loss_fn_inputs.logprobs.data.3", 0.5)
    case = replace(case, datums=[*case.datums] * 30)
    page = parse(without_charts(check(case, tmp_path)).to_html())
    rule = page.one("article", anchor="VAL002")
    assert len(rule.all("li", of="example")) == 20
    assert rule.one("details").one("summary").text == "15 more examples"
    assert "10 more are counted, not shown" in rule.text


def test_files_are_listed_the_worst_first(tmp_path: Path) -> None:
    for name, value in (("a.jsonl", -0.5), ("b.jsonl", 0.5)):
        lines = json.dumps(broken("loss_fn_inputs.logprobs.data.3", value).datums[0]) + "\n"
        (tmp_path / name).write_text(lines, encoding="utf-8")
    report = provenance.check([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert report.errors
    rows = parse(report.to_html()).one("details", of="files").all("tr")[1:]
    assert [[cell.text for cell in row.all() if cell.name in ("th", "td")] for row in rows] == [
        [str(tmp_path / "b.jsonl"), "1", "1", str(len(report.violations))],
        [str(tmp_path / "a.jsonl"), "1", "0", "0"],
    ]


@pytest.mark.slow
def test_the_page_depends_on_the_report_alone() -> None:
    program = (
        "from dataclasses import replace\n"
        "from test_html import HISTOGRAM, with_histograms\n"
        "report = replace(with_histograms({'logprobs': HISTOGRAM}), now='2026-01-02T12:00:00Z')\n"
        "print(report.to_html())"
    )
    pages = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(pages) == 1


@pytest.mark.parametrize("module", ["jinja2", "vl_convert"])
def test_a_missing_library_is_named_with_the_command(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = with_histograms({"logprobs": HISTOGRAM})
    _page._environment.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(provenance.MissingDependencyError, match=r"pip install 'datum-provenance\[html\]'"):
        report.to_html()


def test_nothing_of_it_is_loaded_before_it_is_asked_for() -> None:
    program = "import sys, provenance.reports.html; print({'jinja2', 'vl_convert'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
