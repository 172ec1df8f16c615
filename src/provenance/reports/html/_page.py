"""The page: what is on it, and the templates that it is made from."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from provenance.errors import MissingDependencyError
from provenance.report import Report, Severity
from provenance.reports._machine import verdict_under
from provenance.reports.html import _charts, _datums, _found, _overview
from provenance.reports.text import clip, count, escape, verdict

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["report_to_html"]

#: Reasons why something was not checked, each with its rules.
_REASONS: Final = 20
#: Parameters that are times.
_SECONDS: Final = frozenset({"window", "margin", "skew"})


def report_to_html(report: Report, *, fail_on: Severity = Severity.ERROR) -> str:
    """The report as one HTML page, which needs no other file and no network.

    Its size is bounded, whatever the dataset: it shows the violations that the report keeps, and, where
    ``check`` was asked to observe, the first bad datums of each rule and distributions.

    Args:
        report: what a check found.
        fail_on: the least severity that data do not pass with.

    Raises:
        MissingDependencyError: jinja2, or for distributions vl-convert-python, is not installed.
    """
    environment = _environment()
    style, script = (_source(name) for name in ("style.css", "script.js"))
    return environment.get_template("page.html").render(
        report=report,
        headline=(headline := _headline(report, fail_on))[0],
        lead=headline[1],
        facts=list(_facts(report)),
        files=(files := _found.files_of(report)),
        datums=(datums := _datums.datums_of(report, files)),
        shown=_datums.shown_of(report),
        found=_found.found_of(report, files, {datum.key: datum.anchor for datum in datums}),
        charts=_charts.charts_of(report),
        not_checked=(reasons := _found.not_checked_of(report))[:_REASONS],
        by_file=_found.by_file(report),
        more_not_checked=max(len(reasons) - _REASONS, 0),
        overview_height=_overview.HEIGHT,
        style=style,
        script=script,
        style_hash=_hash_of(style),
        script_hash=_hash_of(script),
    )


@cache  # what takes time is to compile the templates
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingDependencyError("jinja2", "html") from None
    environment = Environment(
        loader=PackageLoader("provenance.reports.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["count"] = count
    environment.filters |= {"clip": clip, "prose": _prose}
    return environment


def _printable(value: Any) -> Any:
    """What the page shows; markup and numbers as they are, text without what could steer its reader."""
    return value if hasattr(value, "__html__") or not isinstance(value, str) else escape(value)


def _prose(text: str) -> str:
    """The words of a rule, whose ``code`` is marked like this."""
    from markupsafe import Markup

    parts = text.split("``")
    marked = (Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))
    return Markup("").join(marked)


def _headline(report: Report, fail_on: Severity) -> tuple[str, str]:
    """The verdict in a word, and what it is about."""
    plain, told = verdict(report), verdict_under(report, fail_on)
    if told != plain:
        return "failed", told
    word, _, rest = plain.partition(": ")
    return word, rest


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """What the verdict depends on, beside the data."""
    contract = report.contract
    yield "contract", f"{contract['loss']}, rule set {contract['ruleset']}"
    for code, severity in contract["severity"].items():
        yield f"{code} is", str(severity)
    for name, value in contract["parameters"].items():
        yield name, f"{value:,} s" if name in _SECONDS else str(value)
    yield "session", "none given" if report.session is None else clip(report.session)
    yield "judged as of", report.now
    yield "datum-provenance", report.version


def _source(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """Lets the page's own style or script through its Content-Security-Policy, and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
