"""What a notebook shows of a datum, of spans and of a report: well-formed, bounded, and text only."""

from __future__ import annotations

import time
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import provenance
from provenance import Datum, ModelInput, PromptProvenanceSpan, SampledProvenanceSpan
from provenance.generate import generate
from provenance.models import EncodedTextChunk, ImageChunk

HOSTILE = (
    "</td></table><script>alert(1)</script><img src=x onerror='alert(2)'>\u202e\x1b\x00&lt;" + "x" * 10_000
)
TAGS = {"b", "code", "div", "i", "span", "table", "td", "th", "tr"}


def datum(sequence_id: str = "s:1", **inputs: object) -> Datum:
    """A prompt of three tokens, and three that were sampled."""
    prompt, sampled = PromptProvenanceSpan, SampledProvenanceSpan
    return Datum(
        model_input=ModelInput.from_ints([11, 12, 13, 14, 15]),
        loss_fn_inputs={"target_tokens": [12, 13, 14, 15, 16], "logprobs": [0, 0, -0.5, -0.25, -1], **inputs},
        model_input_spans=[
            prompt(sequence_id=sequence_id, length=3),
            sampled(sequence_id=sequence_id, length=2),
        ],
        loss_fn_input_spans=[
            prompt(sequence_id=sequence_id, offset=1, length=2),
            sampled(sequence_id=sequence_id, length=3),
        ],
    )


def shown(item: object) -> ET.Element:
    """The fragment, which is XML too, after what holds for every one was asserted."""
    text = item._repr_html_()
    root = ET.fromstring(text)
    assert {element.tag for element in root.iter()} <= TAGS
    assert {name for element in root.iter() for name in element.attrib} <= {"style", "scope", "colspan"}
    assert text.isprintable()
    return root


def words(element: ET.Element) -> str:
    return "".join(element.itertext())


def rows(root: ET.Element) -> dict[str, list[str]]:
    """Label -> the text of each column; a cell that spans several is in each of them."""
    found = {}
    for row in root.iter("tr"):
        label, *cells = row
        found[words(label)] = [words(c) for c in cells for _ in range(int(c.get("colspan", "1")))]
    return found


def test_targets_stand_below_the_inputs_that_they_are() -> None:
    assert rows(shown(datum())) == {
        "position": ["0", "1", "2", "3", "4", "5"],
        "input spans": ["prompt s:1[0:3]"] * 3 + ["sampled s:1[0:2]"] * 2 + [""],
        "input": ["11", "12", "13", "14", "15", ""],
        "target spans": [""] + ["prompt s:1[1:3]"] * 2 + ["sampled s:1[0:3]"] * 3,
        "target_tokens": ["", "12", "13", "14", "15", "16"],
        "logprobs": ["", "0", "0", "-0.5", "-0.25", "-1"],
    }


def test_what_is_no_row_of_numbers_is_named() -> None:
    two = provenance.TensorData(data=[[1.0, 2.0]] * 5, dtype="float32")
    root = shown(datum(pairs=two))
    assert words(root).startswith(
        "Datum: 5 positions, 4 spans; loss inputs: target_tokens int64[5], logprobs float32[5], "
        "pairs float32[5x2]"
    )
    assert "pairs" not in rows(root)


def test_an_image_is_named_and_one_of_unknown_length_is_said_to_be() -> None:
    text = EncodedTextChunk(tokens=[5, 6])
    image = ImageChunk(data=b"x", format="png", expected_tokens=2)
    known = shown(Datum(model_input=ModelInput(chunks=[image, text])))
    assert rows(known)["input"] == ["image", "image", "5", "6"]
    image = ImageChunk(data=b"x", format="png")
    unknown = shown(Datum(model_input=ModelInput(chunks=[image, text])))
    assert words(unknown) == "Datum: unknown length, no spans; loss inputs: none"
    assert words(shown(Datum(model_input=ModelInput.empty()))).startswith("Datum: 0 positions")


def test_of_a_long_datum_the_edges_of_spans_are_shown() -> None:
    n, cut = 1000, 700
    prompt, sampled = PromptProvenanceSpan, SampledProvenanceSpan
    long = Datum(
        model_input=ModelInput.from_ints(np.arange(n)), loss_fn_inputs={"target_tokens": np.arange(1, n + 1)}
    ).with_provenance(
        [prompt(sequence_id="s", length=cut), sampled(sequence_id="s", length=n - cut)],
        [prompt(sequence_id="s", offset=1, length=cut - 1), sampled(sequence_id="s", length=n - cut + 1)],
    )
    lanes = rows(shown(long))
    assert lanes["position"] == ["0", "1", "…", "698", "699", "700", "701", "…", "999", "1,000"]
    assert lanes["input"] == ["0", "1", "…", "698", "699", "700", "701", "…", "999", ""]
    assert lanes["target_tokens"] == ["", "1", "…", "698", "699", "700", "701", "…", "999", "1000"]
    assert lanes["target spans"] == [""] + ["prompt s[1:700]"] * 4 + ["sampled s[0:301]"] * 5


@pytest.mark.parametrize("kind", ["prompt", "sampled"])
def test_a_span_says_what_it_is(kind: str) -> None:
    made = {"prompt": PromptProvenanceSpan, "sampled": SampledProvenanceSpan}[kind]
    of = "the prompt of " if kind == "prompt" else ""
    span = made(sequence_id="s:7", offset=5, length=1)
    assert words(shown(span)) == f"{kind} [5:6] of {of}'s:7', 1 position"
    assert repr(span).startswith(type(span).__name__)


def test_a_report_tells_verdict_rules_and_what_was_not_checked() -> None:
    made = generate(16, seed=3, break_="SEQ003").dataset
    root = shown(made.report())
    text = words(root)
    assert text.startswith("invalid: 1 of 16 datums has errors, 1 error of 1 rule")
    assert "not checked: " in text
    assert "no learner_version given" in text
    head, row = root.iter("tr")
    assert [words(c) for c in head] == ["rule", "severity", "violations", "datums", "the first"]
    (violation,) = made.report()
    assert [words(c) for c in row] == ["SEQ003 input-token-mismatch", "error", "1", "1", str(violation)]


def test_a_valid_report_has_no_table() -> None:
    root = shown(generate(4, seed=3).dataset.report())
    assert words(root).startswith("valid: 4 datums")
    assert root.find(".//table") is None


def test_what_hostile_names_hold_stays_text() -> None:
    for item in (datum(HOSTILE, **{HOSTILE: [1.0] * 5}), datum(HOSTILE).model_input_spans[1]):
        text = words(shown(item))
        assert "</td></table><" in text
        assert len(text) < 2_000
    assert "<script>alert(1)</script>" in words(shown(datum(HOSTILE).model_input_spans[0]))
    report = provenance.check([datum(HOSTILE)], session=HOSTILE, ledger=[], now="2026-01-02T12:00:00Z")
    text = words(shown(report))
    assert "<script>" in text
    assert "\\u202e" in text.replace("\\\\", "\\")


def test_what_is_unprintable_is_made_visible() -> None:
    name = "a\u202e\x1b\x00b"
    text = words(shown(datum(name, **{name: [1.0] * 5})))
    assert text.count("a\\u202e\\x1b\\x00b[0:3]") == 2  # a prompt and a sampled span start so
    assert "a\\u202e\\x1b\\x00b float32[5]" in text


def test_the_size_is_bounded() -> None:
    n = 1_000_000
    spans = [SampledProvenanceSpan(sequence_id=str(i), length=40) for i in range(n // 40)]
    names = {f"name-{i}": np.zeros(n, np.float32) for i in range(20)}
    long = Datum(
        model_input=ModelInput.from_ints(np.zeros(n, np.int64)),
        loss_fn_inputs={"target_tokens": np.zeros(n, np.int64), **names},
    ).with_provenance(spans, spans)
    start = time.process_time()
    text = long._repr_html_()
    assert time.process_time() - start < 2
    assert len(text) < 50_000
    assert "9 more" in text
    broken = [{"model_input": {"chunks": []}, "loss_fn_inputs": {}, "extra": 1} for _ in range(5_000)]
    report = provenance.check(broken, max_examples=5_000)
    assert len(report.violations) == 5_000
    assert "... and 4,997 more" in words(shown(report))
    assert len(report._repr_html_()) < 50_000


@pytest.mark.slow
def test_a_real_notebook_shows_them(tmp_path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    nbconvert = pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    make = "import provenance\nfrom provenance.generate import generate\nmade = generate(2, seed=3).dataset"
    cells = [
        f"{make}\ndatum = provenance.Datum.model_validate(made.datums[0])\ndatum",
        "datum.model_input_spans[0]",
        "made.report()",
        "[datum]",
    ]
    v4 = nbformat.v4
    book = v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python", "language": "python"}
    nbclient.NotebookClient(book, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    first, span, report, plain = (cell.outputs[0].data for cell in book.cells)
    made = generate(2, seed=3).dataset
    assert first["text/html"] == Datum.model_validate(made.datums[0])._repr_html_()
    assert first["text/plain"].startswith("Datum(model_input=")
    assert span["text/html"].startswith("<span>")
    assert report["text/html"] == made.report()._repr_html_()
    assert report["text/plain"].startswith("<Report: valid")
    assert "text/html" not in plain
    page, _ = nbconvert.HTMLExporter().from_notebook_node(book)
    assert report["text/html"].replace("&#x27;", "'") in page
