"""A bar on stderr while a check runs, or the steps of something else, for people who watch."""

from __future__ import annotations

import sys
import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Self

from provenance.reports.text import count, escape

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from provenance.engine import Progress

__all__ = ["ProgressBar", "StepBar"]

#: A check shorter than this, in seconds, shows no bar (and does not wait for rich to load).
_PATIENCE: Final = 0.5
#: Columns of a terminal below which there is room for the bar alone.
_NARROW: Final = 80


class _Patient:
    """A bar that opens when what it shows turns out to take a while."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _show(self, name: str, completed: int, total: int | None, found: str | None = None) -> None:
        """Show how far it has come: of bytes, beside what was found in them, or of steps."""
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE:
                return
            self._bar = _open(in_bytes=found is not None)
        if not self._bar.task_ids:
            self._bar.add_task(name, total=total, completed=completed, found=found)
            self._bar.start()
            return
        self._bar.update(
            self._bar.task_ids[0], description=name, total=total, completed=completed, found=found
        )


class ProgressBar(_Patient):
    """Called with the engine's progress."""

    def __call__(self, progress: Progress) -> None:
        """Show how far the check has come."""
        found = f"{count(progress.datums, 'datum')}, {count(progress.violations, 'violation')}"
        name = escape(PurePath(progress.file).name)
        self._show(name, progress.bytes_read, progress.bytes_total, found)


class StepBar(_Patient):
    """Called with the number of steps that are done, that of all, and the name of the next."""

    def __call__(self, done: int, total: int, name: str) -> None:
        """Show how far the work has come."""
        self._show(name, done, total)


def _open(*, in_bytes: bool) -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(file=sys.stderr)
    columns: list[ProgressColumn] = [BarColumn(bar_width=None), TaskProgressColumn()]
    if console.width >= _NARROW:
        name = TextColumn("{task.description}", markup=False)
        found = TextColumn("{task.fields[found]}", markup=False)
        sizes: list[ProgressColumn] = [DownloadColumn(), found] if in_bytes else [MofNCompleteColumn()]
        columns = [name, *columns, *sizes, TimeRemainingColumn(compact=True)]
    return Progress(*columns, console=console, transient=True)
