"""FMT: what makes a file unreadable as datums. The readers of ``provenance.formats`` find these."""

from __future__ import annotations

from provenance.rules._examples import DROP, case
from provenance.rules._rule import rule

_LINE = (
    b'{"model_input": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]}, "loss_fn_inputs": {'
    b'"target_tokens": {"data": [2, 3], "dtype": "int64"}, "weights": {"data": [0, 1], "dtype": "float32"}}}'
)


def _lines(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@rule(
    "FMT001",
    at="file",
    over=("",),
    gate=True,
    custom=True,
    message="{problem}",
    evidence="ours",
    good=[case(lines=_lines(_LINE, b"", _LINE), loss="cross_entropy")],
    bad=[
        case(lines=_lines(_LINE + b","), loss="cross_entropy"),
        case(lines=_lines(_LINE[:-9]), loss="cross_entropy"),
        case(lines=_lines(b"[]"), loss="cross_entropy"),
    ],
)
def invalid_json() -> None:
    """A line is not one JSON object.

    A process that was killed leaves half a line behind; two writers on one file interleave theirs; a
    hand-made export ends its lines in commas. Each non-blank line must be one complete object. Write to a
    temporary file and rename it, and export with a JSON library. Evidence: ours.
    """


@rule(
    "FMT002",
    at="file",
    over=("",),
    gate=True,
    custom=True,
    message="{problem}",
    evidence="ours",
    good=[case(lines=b"\xef\xbb\xbf" + _lines(_LINE), loss="cross_entropy")],
    bad=[
        case(lines=_lines(_LINE.replace(b"encoded_text", b"encoded\xff_text")), loss="cross_entropy"),
        case(lines=_lines(_LINE).decode().encode("utf-16"), loss="cross_entropy"),
    ],
)
def not_utf8() -> None:
    """A line is not UTF-8 text.

    JSON is exchanged as UTF-8. Files written with another encoding (UTF-16 from a spreadsheet, Latin-1
    from an old tool) or cut in the middle of a character cannot be decoded. A byte order mark is fine.
    Re-encode the file with ``iconv -t UTF-8``. Evidence: ours.
    """


@rule(
    "FMT003",
    at="file",
    over=("",),
    gate=True,
    custom=True,
    message="{problem}",
    evidence="ours",
    good=[case(lines=_lines(_LINE), loss="cross_entropy")],
    bad=[
        case(lines=_lines(_LINE[:-1] + b', "loss_fn_inputs": {}}'), loss="cross_entropy"),
        case(
            lines=_lines(_LINE.replace(b'"dtype": "int64"', b'"dtype": "int64", "dtype": "int64"')),
            loss="cross_entropy",
        ),
    ],
)
def duplicate_key() -> None:
    """An object names a key twice.

    Readers disagree on which value counts: most keep the last, some the first, a few refuse. So what one
    program checked is not what another trains on. It happens when text is merged instead of objects.
    Write each key once. Evidence: ours (RFC 8259 leaves open what a reader does).
    """


@rule(
    "FMT004",
    at="file",
    over=("",),
    gate=True,
    custom=True,
    message="{problem}",
    evidence="documented",
    good=[
        case({"datum_id": "episode-7", "metadata": {"reward": 1}}),
        case({"provenance": {"codes": ["VAL002"]}}),
    ],
    bad=[
        case({"model_input.chunks.0.tokens.1": 1.5}),
        case({"loss_fn_inputs.logprobs.data.2": "-0.125"}),
        case({"loss_fn_inputs.logprobs.dtype": DROP}),
        case({"model_input": DROP}),
        case({"loss_fn_input": {}}),
    ],
)
def wrong_type() -> None:
    """A field has the wrong type, is missing, or is not known.

    The official client refuses unknown fields and wrong types, or, worse, converts them silently: 2.7 as
    a token id becomes 2. Text ids, misspelt fields and missing required fields end up here,
    named by their path. ``datum_id``, ``group_id`` and ``metadata`` may stand beside the documented fields,
    and so may ``provenance``, in which ``--write-bad`` says why a datum is bad. In Arrow and Parquet a
    column of the wrong type is reported once for the file, and none of its rows is looked at. Evidence:
    documented (the official client refuses unknown fields).
    """


@rule(
    "FMT005",
    at="dataset",
    over=("",),
    custom=True,
    message="no datum in the dataset",
    evidence="ours",
    good=[case()],
    bad=[case(lines=b"\n\n")],
)
def empty_dataset() -> None:
    """The dataset holds no datum.

    An empty file mostly means that an earlier step failed or that a path is wrong, and a check that
    passes on it would hide that. Where an empty dataset is expected, say so with ``--allow-empty``
    (``allow_empty=True``). Evidence: ours.
    """
