"""Fixtures for tests of pipelines: an assertion about data, generated data, and fuzzing of a check.

pytest loads this module in every run of an environment that has the package, so it imports nothing before a
fixture is asked for. The marker ``provenance`` says what is generated for a test:

    @pytest.mark.provenance(n=4, break_="SEQ003")
    def test_edited_tokens_are_refused(provenance_files):
        assert not my_check(provenance_files.datums)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from provenance.fuzz import FuzzReport
    from provenance.generate import Generated
    from provenance.ledger import MemoryLedger
    from provenance.report import Report

__all__ = [
    "ProvenanceFiles",
    "assert_valid_dataset",
    "provenance_datums",
    "provenance_files",
    "provenance_fuzz",
    "provenance_generated",
    "provenance_ledger",
    "pytest_configure",
]

_MARKER = "provenance"
_DATUMS = 16


class ProvenanceFiles(NamedTuple):
    """Where generated data were written, and when and for whom they are valid."""

    datums: Path
    sequences: Path
    session: str
    now: str
    """RFC 3339."""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(n={_DATUMS}, seed=0, break_=None, suffix='.jsonl', ...): what its fixtures generate; "
        "arguments as for provenance.generate.generate, and the suffix of files",
    )


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(_MARKER)
    if marker is None:
        return {}
    if marker.args:
        pytest.fail(f"@pytest.mark.{_MARKER} takes keywords only, got {marker.args!r}", pytrace=False)
    return dict(marker.kwargs)


@pytest.fixture
def assert_valid_dataset() -> Callable[..., Report]:
    """Return `provenance.testing.assert_valid_dataset`, which fails with the report of a dataset."""
    from provenance.testing import assert_valid_dataset as function

    return function


@pytest.fixture
def provenance_generated(request: pytest.FixtureRequest) -> Generated:
    """Return a generated dataset, with its ledger, contract, session and time, and what was broken."""
    from provenance.errors import ProvenanceError
    from provenance.generate import generate

    arguments = {"n": _DATUMS} | _marked(request)
    arguments.pop("suffix", None)
    try:
        return generate(arguments.pop("n"), **arguments)
    except (ProvenanceError, TypeError) as error:
        pytest.fail(f"@pytest.mark.{_MARKER}: {error}", pytrace=False)


@pytest.fixture
def provenance_datums(provenance_generated: Generated) -> list[dict[str, Any]]:
    """Return generated datums as JSON objects."""
    return provenance_generated.dataset.datums


@pytest.fixture
def provenance_ledger(provenance_generated: Generated) -> MemoryLedger:
    """Return a ledger of what was sampled for the generated datums."""
    from provenance.formats import table_of
    from provenance.ledger import MemoryLedger

    ledger = MemoryLedger()
    table, _ = table_of(provenance_generated.dataset.sequences or ())
    ledger.load(table)  # recording would refuse what a broken dataset has
    return ledger


@pytest.fixture
def provenance_files(
    request: pytest.FixtureRequest, provenance_generated: Generated, tmp_path: Path
) -> ProvenanceFiles:
    """Write the generated datums, and what was sampled for them, to two files."""
    suffix = _marked(request).get("suffix", ".jsonl")
    datums, sequences = (tmp_path / f"{name}{suffix}" for name in ("datums", "sequences"))
    dataset = provenance_generated.dataset
    dataset.write(datums, sequences)
    return ProvenanceFiles(datums, sequences, str(dataset.session), str(dataset.now))


@pytest.fixture
def provenance_fuzz(request: pytest.FixtureRequest) -> Callable[..., FuzzReport]:
    """Return a function of a check and its data that fuzzes the check and returns the FuzzReport.

    ``check`` is a function of a `provenance.mutations.Dataset` or a command, ``data`` by default what is
    generated for the test; options are those of `provenance.fuzz.fuzz`. ``report.assert_caught()`` fails with
    the matrix.
    """

    def run(check: Any = None, data: Any = None, **options: Any) -> FuzzReport:
        from provenance.fuzz import fuzz

        if data is None:
            data = request.getfixturevalue("provenance_generated").dataset
        return fuzz(data, against=check, **options)

    return run
