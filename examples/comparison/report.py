"""Tables and plots of the runs that are there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from examples.comparison.arms import ARMS
from examples.comparison.measures import Record, cell, paired

PAGES: Final = Path(__file__).parents[2] / "docs" / "comparison"
KL: Final = (0.0, 0.01, 0.05)
LAGS: Final = (0, 8, 32)
HEADLINE_RATE: Final = 2e-3

Cells = Mapping[tuple[Any, ...], list[Record]]


def report(records: Sequence[Record]) -> None:
    """Write tables.md and the plots to docs/comparison, and print the tables."""
    records = [record for record in records if record["steps"] == 200 and record["clip_norm"] is None]
    full = [record for record in records if record["learning_rate"] == HEADLINE_RATE]
    gentle = [record for record in records if record["learning_rate"] != HEADLINE_RATE]
    plain = _cells((r for r in full if r["mismatch"] == "none"), "arm", "kl_coeff", "lag")
    mismatched = _cells((r for r in full if r["mismatch"] != "none"), "mismatch", "silent", "arm", "kl_coeff")
    pages = [
        *_matrix(plain),
        *_grid("Headline grid", plain),
        *_effects(plain),
        *_mismatches(mismatched, plain),
    ]
    pages += _grid("Gentle grid", _cells(gentle, "arm", "kl_coeff", "lag"))
    PAGES.mkdir(parents=True, exist_ok=True)
    text = "\n".join(pages) + "\n"
    (PAGES / "tables.md").write_text(text, encoding="utf-8")
    print(text)
    plot_accuracy(plain)
    plot_k3(plain)


def _cells(records: Iterable[Record], *names: str) -> Cells:
    cells: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        cells[tuple(record[name] for name in names)].append(record)
    return cells


def _head(*names: str) -> list[str]:
    return [_row(*names), _row(*("---" for _ in names))]


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _matrix(cells: Cells) -> list[str]:
    """The headline grid in short: a line for each lag and arm, a column for each coefficient."""
    lines = ["## Headline grid in short: mean final accuracy (lowest to highest), collapsed runs", ""]
    lines += _head("lag", "arm", *(f"KL {kl_coeff}" for kl_coeff in KL))
    for lag in LAGS:
        for arm in ARMS:
            found = [cells.get((arm, kl_coeff, lag), []) for kl_coeff in KL]
            if any(found):
                lines.append(_row(lag, arm, *map(_short, found)))
    return [*lines, ""]


def _short(records: Sequence[Record]) -> str:
    if not records:
        return ""
    found = cell(records)
    span = f"{found['final']:.2f} ({found['lowest']:.2f} to {found['highest']:.2f})"
    return f"{span}, {found['collapsed']}/{found['runs']}" if found["collapsed"] else span


def _grid(title: str, cells: Cells) -> list[str]:
    left = ["lag", "KL", "arm", "runs", "final accuracy", "range", "collapsed", "95 %"]
    lines = [f"## {title}", "", *_head(*left, "truncated", "largest ratio", "least ESS", "k3 peak/median")]
    for lag in LAGS:
        for kl_coeff in KL:
            for arm in ARMS:
                records = cells.get((arm, kl_coeff, lag))
                if records:
                    lines.append(_row(lag, kl_coeff, arm, _figures(records)))
    return [*lines, ""]


def _figures(records: Sequence[Record]) -> str:
    found = cell(records)
    low, high = found["interval"]
    return " | ".join(
        [
            str(found["runs"]),
            f"{found['final']:.2f}",
            f"{found['lowest']:.2f}-{found['highest']:.2f}",
            f"{found['collapsed']}/{found['runs']}",
            f"{low:.2f}-{high:.2f}",
            f"{found['truncated']:.2%}",
            f"{found['ratio_max']:.3g}",
            f"{found['ess_min']:.3f}",
            f"{found['k3_peak_over_median']:.3g}",
        ]
    )


def _effects(cells: Cells) -> list[str]:
    """Paired differences: cap 4 against each other arm, and each coefficient against none."""
    lines = ["## Headline grid: paired differences of final accuracy", ""]
    lines += _head("lag", "KL", "compared", "seeds", "mean", "range")
    for lag in LAGS:
        for kl_coeff in KL:
            ours = cells.get(("token_is cap 4", kl_coeff, lag), [])
            for arm in (arm for arm in ARMS if arm != "token_is cap 4"):
                theirs = cells.get((arm, kl_coeff, lag), [])
                lines += _difference((lag, kl_coeff, f"cap 4 - {arm}"), paired(ours, theirs))
        for arm in ARMS:
            none = cells.get((arm, 0.0, lag), [])
            for kl_coeff in KL[1:]:
                some = cells.get((arm, kl_coeff, lag), [])
                lines += _difference((lag, kl_coeff, f"{arm}: KL {kl_coeff} - KL 0"), paired(some, none))
    return [*lines, ""]


def _difference(what: Sequence[object], differences: Sequence[float]) -> list[str]:
    if not differences:
        return []
    span = f"{min(differences):+.2f} to {max(differences):+.2f}"
    return [_row(*what, len(differences), f"{mean(differences):+.2f}", span)]


def _mismatches(cells: Cells, plain: Cells) -> list[str]:
    """The cells of the mismatch grid, then its paired differences."""
    left = ["mismatch", "recorded", "arm", "KL", "runs", "final accuracy", "range", "collapsed"]
    lines = ["## Mismatch grid, lag 8", "", *_head(*left, "truncated", "k3, median")]
    compared = ["", "## Mismatch grid: paired differences of final accuracy", ""]
    compared += _head("mismatch", "KL", "compared", "seeds", "mean", "range")
    for (mismatch, silent, arm, kl_coeff), records in sorted(cells.items()):
        found = cell(records)
        k3 = median([value for values in _series(records, "k3:mean") for value in values] or [nan])
        recorded = "silently" if silent else "honestly"
        figures = (
            f"{found['runs']} | {found['final']:.2f} | {found['lowest']:.2f}-{found['highest']:.2f} "
            f"| {found['collapsed']}/{found['runs']} | {found['truncated']:.2%} | {k3:.2g}"
        )
        lines.append(_row(mismatch, recorded, arm, kl_coeff, figures))
        others = {f"{arm}, {recorded} - no mismatch": plain.get((arm, kl_coeff, 8), [])}
        if not silent:
            others[f"{arm}: honestly - silently"] = cells.get((mismatch, True, arm, kl_coeff), [])
        if arm == "token_is cap 4":
            others[f"cap 4 - token_is, {recorded}"] = cells.get((mismatch, silent, "token_is", kl_coeff), [])
        for what, theirs in others.items():
            compared += _difference((mismatch, kl_coeff, what), paired(records, theirs))
    return [*lines, *compared, ""]


def plot_accuracy(cells: Cells) -> None:
    """Accuracy over steps: a panel for each lag and coefficient, a line for each arm."""
    _panels(cells, "accuracies", "accuracy", "accuracy.svg")


def plot_k3(cells: Cells) -> None:
    """k3 over steps, on a logarithmic scale."""
    _panels(cells, "k3:mean", "k3", "k3.svg", logarithmic=True)


def _panels(cells: Cells, name: str, label: str, file: str, *, logarithmic: bool = False) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "comparison"  # the same runs give the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(LAGS), len(KL), figsize=(12, 9), sharex=True, sharey=True)
    for row, lag in zip(axes, LAGS, strict=True):
        for axis, kl_coeff in zip(row, KL, strict=True):
            for arm in ARMS:
                _curve(axis, arm, _series(cells.get((arm, kl_coeff, lag), []), name))
            axis.set_title(f"lag {lag}, KL {kl_coeff}", fontsize=9)
            if logarithmic:
                axis.set_yscale("log")
    drawn = [axis.get_legend_handles_labels() for axis in axes.flat]
    lines = {label: line for handles in drawn for line, label in zip(*handles, strict=True)}
    if lines:
        figure.legend(lines.values(), lines.keys(), fontsize=7)
    figure.supxlabel("step")
    figure.supylabel(label)
    figure.tight_layout()
    figure.savefig(PAGES / file, metadata={"Date": None})
    plt.close(figure)


def _series(records: Sequence[Record], name: str) -> list[list[float]]:
    return [record[name] if name in record else record["metrics"].get(name, []) for record in records]


def _curve(axis: Any, arm: str, series: Sequence[Sequence[float]]) -> None:
    length = max(map(len, series), default=0)
    if not length:
        return
    steps = [10 * i for i in range(length)]
    # A run whose loss was not finite has ended, and the others go on.
    at = [[values[i] for values in series if i < len(values)] for i in range(length)]
    (line,) = axis.plot(steps, [mean(values) for values in at], label=arm, linewidth=1)
    axis.fill_between(
        steps,
        [min(values) for values in at],
        [max(values) for values in at],
        color=line.get_color(),
        alpha=0.1,
    )
