"""The contract of the project that a command is run in: ``[tool.provenance]`` of its pyproject.toml."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from provenance.errors import ContractError
from provenance.models._base import shorten

__all__ = ["project_config"]

_NAME: Final = "pyproject.toml"


def project_config() -> str | None:
    """The nearest pyproject.toml that has the table, in the current folder or above it, relative to it.

    One without the table is passed over. A folder that holds ``.git`` is the last that is looked at: what
    lies above a repository is not the project's.

    Raises:
        ContractError: a file on the way is not TOML, so that nobody knows whether it has the table, or has
            something else in its place.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / _NAME
        if file.is_file() and _has_table(file):
            return os.path.relpath(file)
        if (folder / ".git").exists():
            return None
    return None


def _has_table(file: Path) -> bool:
    name = os.path.relpath(file)
    try:
        tools: Any = tomllib.loads(file.read_bytes().decode("utf-8")).get("tool", {})
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ContractError(f"{name}: not TOML: {reason}; --isolated leaves it out") from error
    if not isinstance(tools, dict) or "provenance" not in tools:
        return False
    if not isinstance(tools["provenance"], dict):
        found = shorten(tools["provenance"])
        raise ContractError(f"{name}: tool.provenance is {found}, expected a table; --isolated leaves it out")
    return True
