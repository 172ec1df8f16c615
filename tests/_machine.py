"""Reports for the tests of formats for machines: of real files, of many rules, and with hostile text."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from test_report_files import CIRCUMSTANCES
from test_reports import report, violation

import provenance
from provenance import Contract
from provenance.report import Count, FileCount, NotChecked, Report, Severity, Violation
from provenance.rules import case, registry

ERROR, WARNING = Severity.ERROR, Severity.WARNING
_NAMES: Final = ["a b%,:;.jsonl", "é/ü.jsonl", "a:b", "'\"<&>", "]]>", "]](x)", "\n::error::x", "\udcff"]
_HTML: Final = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "]]>", "&amp;"]
_TEXTS: Final = [*_HTML, "\u202e", "\x1b[2J", "\0", "\ud800", "\ufffe", "\n::x::", "##[x]", "[a](b)", "{0}"]

#: What files may be called, and what ids and messages may hold.
NAMES = st.binary(min_size=1, max_size=12).map(os.fsdecode) | st.sampled_from(_NAMES)
TEXTS = st.text(st.characters(), max_size=20) | st.sampled_from(_TEXTS)


def checked(paths: list[str], contract: Contract | str = "stable_reinforce") -> Report:
    """What is found in the files of `test_report_files.write`."""
    return provenance.check(paths, contract, ledger=list(case().sequences), **CIRCUMSTANCES)


def silenced(paths: list[str]) -> Report:
    """Of one rule alone, which the errors of others keep from some datums."""
    return checked(paths, Contract.for_loss("stable_reinforce").select(["VAL001"]))


def everything(folder: Path, *, broken: bool) -> Report:
    """The report of a file for each rule: with its bad examples, or with its good ones."""
    paths = []
    for code, rule in sorted(registry().items()):
        path = folder / f"{code} {rule.name}.jsonl"
        cases = [case for case in (rule.bad if broken else rule.good) if case.loss == "stable_reinforce"]
        lines = [json.dumps(datum) for case in cases for datum in case.datums]
        lines += [case.lines.decode("utf-8", "replace") for case in cases if case.lines is not None]
        path.write_text("".join(f"{line}\n" for line in lines if line.strip()))
        paths.append(str(path))
    provenance.write_datums(case(copies=3).datums, folder / "sound.parquet")
    return provenance.check(
        [*paths, folder / "sound.parquet"], ledger=list(case().sequences), **CIRCUMSTANCES
    )


def made_of(violations: list[Violation], files: list[str], **changes: Any) -> Report:
    """A report of these violations, with counts that agree with them."""
    counts = {v.code: Count(0, 0, 0) for v in violations}
    in_files = {file: FileCount(1, 0, {}, frozenset({"VAL002"})) for file in files}
    for v in violations:
        counts[v.code].add(Count(1, 1, 1))
        if v.location.file is not None:
            in_files[v.location.file].counts.setdefault(v.code, Count()).add(Count(1, 1, 1))
    contract = provenance.Contract.for_loss("stable_reinforce").to_dict()
    given = {"violations": tuple(violations), "counts": counts, "files": in_files, "contract": contract}
    return report(**given, **changes)


def hostile() -> Report:
    """A report in which every text is one of the worst."""
    kept = [
        violation(
            "VAL002", "positive-logprob", ERROR, text, file=file, line=1 + i, field=text, sequence_id=text
        )
        for i, (file, text) in enumerate(product(_NAMES, _TEXTS))
    ]
    unchecked = tuple(NotChecked("VAL001", text) for text in _TEXTS)
    return made_of(kept, _NAMES, session=_TEXTS[0], not_checked=unchecked)


@st.composite
def reports(draw: Any) -> Report:
    """Reports whose names, ids and messages may hold anything."""
    files = draw(st.lists(NAMES, max_size=3, unique=True))
    violations = [
        violation(
            *draw(st.sampled_from([("VAL002", "positive-logprob", ERROR), ("VAL003", "zeros", WARNING)])),
            draw(TEXTS),
            file=draw(st.sampled_from([None, *files])),
            row=draw(st.none() | st.integers(0, 2**63)),
            line=draw(st.none() | st.integers(1, 2**31 - 1)),
            field=draw(st.none() | TEXTS),
            index=draw(st.none() | st.integers(0, 9) | st.tuples(st.integers(0, 9), st.integers(0, 9))),
            length=draw(st.none() | st.integers(1, 9)),
            sequence_id=draw(st.none() | TEXTS),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    unchecked = tuple(NotChecked("VAL001", draw(TEXTS)) for _ in range(draw(st.integers(0, 2))))
    return made_of(violations, files, session=draw(st.none() | TEXTS), not_checked=unchecked)
