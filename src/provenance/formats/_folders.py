"""A folder that stands for the Parquet files in it."""

from __future__ import annotations

import os


def parquet_files(folder: str) -> list[str]:
    """The Parquet files in a folder at any depth, sorted by path; none of a path that is no folder.

    Names that start with ``_`` or ``.`` are passed over: writers keep there what is no data, or not yet.
    """
    if not os.path.isdir(folder):  # noqa: PTH112 - says no of what is no path, where Path raises
        return []
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_data(name)]
        found += [os.path.join(place, name) for name in files if _is_data(name) and _is_parquet(name)]  # noqa: PTH118 - names as given
    return sorted(found)


def _is_data(name: str) -> bool:
    return not name.startswith(("_", "."))


def _is_parquet(name: str) -> bool:
    return name.lower().endswith(".parquet")
