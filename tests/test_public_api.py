"""The names of the package, and what importing it costs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import provenance

HEAVY = ("pyarrow", "torch", "hypothesis", "rich", "sqlalchemy", "tinker", "click")


def test_all_is_sorted_and_has_no_name_twice() -> None:
    assert provenance.__all__ == sorted(set(provenance.__all__))


@pytest.mark.parametrize("name", [name for name in provenance.__all__ if name != "__version__"])
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(provenance, name)
    assert value.__name__ == name
    assert value.__doc__


def test_the_version_is_a_version() -> None:
    assert "__version__" in provenance.__all__
    assert re.match(r"\d+\.\d+", provenance.__version__)


def test_dir_and_star_give_the_public_names() -> None:
    assert dir(provenance) == provenance.__all__
    names: dict[str, object] = {}
    exec("from provenance import *", names)
    assert set(provenance.__all__) <= set(names)


@pytest.mark.parametrize("name", ["nothing", "Datums", "_blank"])
def test_other_names_do_not_exist(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'provenance' has no attribute '{name}'"):
        getattr(provenance, name)


def test_errors_have_one_root() -> None:
    errors = [getattr(provenance, name) for name in provenance.__all__ if name.endswith("Error")]
    assert len(errors) == 8
    assert all(issubclass(error, provenance.ProvenanceError) for error in errors)


def imported_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True
        ).stdout.split()
    )


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not {*HEAVY, "numpy", "pydantic"} & imported_by("import provenance")


def test_checking_dicts_loads_nothing_heavy() -> None:
    loaded = imported_by("import provenance; provenance.check([], allow_empty=True, ledger=[])")
    assert "provenance.engine" in loaded
    assert not {*HEAVY} & loaded
