"""A bar on stderr while a check runs, for people who watch."""

from __future__ import annotations

import sys
import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Self

from provenance.reports.text import count, escape

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from provenance.engine import Progress

__all__ = ["ProgressBar"]

#: A check shorter than this, in seconds, shows no bar (and does not wait for rich to load).
_PATIENCE: Final = 0.5
#: Columns of a terminal below which there is room for the bar alone.
_NARROW: Final = 80


class ProgressBar:
    """Called with the engine's progress; opens the bar when the check turns out to take a while."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far the check has come."""
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE:
                return
            self._bar = _open()
        found = f"{count(progress.datums, 'datum')}, {count(progress.violations, 'violation')}"
        name = escape(PurePath(progress.file).name)
        if not self._bar.task_ids:
            self._bar.add_task(name, total=progress.bytes_total, completed=progress.bytes_read, found=found)
            self._bar.start()
            return
        self._bar.update(
            self._bar.task_ids[0],
            description=name,
            total=progress.bytes_total,
            completed=progress.bytes_read,
            found=found,
        )


def _open() -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(file=sys.stderr)
    found = TextColumn("{task.fields[found]}", markup=False)
    columns: list[ProgressColumn] = [BarColumn(bar_width=None), TaskProgressColumn()]
    if console.width >= _NARROW:
        name = TextColumn("{task.description}", markup=False)
        columns = [name, *columns, DownloadColumn(), found, TimeRemainingColumn(compact=True)]
    return Progress(*columns, console=console, transient=True)
