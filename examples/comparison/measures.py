"""What a run, and a cell of runs, is judged by; the definitions stand in README.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, median
from typing import Any, Final

#: Quantile of the normal distribution for 95 %.
_Z: Final = 1.959963984540054
_LAST: Final = 3

Record = dict[str, Any]


def final_accuracy(record: Record) -> float:
    """Mean of the last three evaluations; 0 for a run whose loss was not finite."""
    return mean(record["accuracies"][-_LAST:]) if record["finite"] else 0.0


def collapsed(record: Record) -> bool:
    """Below half of its own best and below the start, or without a finite loss."""
    final = final_accuracy(record)
    worse = final < max(record["accuracies"]) / 2 and final < record["accuracies"][0]
    return worse or not record["finite"]


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927)."""
    share, z2 = successes / trials, _Z * _Z
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def cell(records: Sequence[Record]) -> dict[str, Any]:
    """The figures of runs that differ in their seed alone."""
    finals = [final_accuracy(record) for record in records]
    fallen = sum(map(collapsed, records))
    return {
        "runs": len(records),
        "final": mean(finals),
        "lowest": min(finals),
        "highest": max(finals),
        "collapsed": fallen,
        "interval": wilson(fallen, len(records)),
        "truncated": mean(record["truncated"] for record in records),
        "ratio_max": max(record["ratio_max"] for record in records),
        "k3_peak_over_median": median(record["k3_peak_over_median"] for record in records),
        "ess_min": min(record["ess_min"] for record in records),
    }


def paired(records: Sequence[Record], others: Sequence[Record]) -> list[float]:
    """Differences of final accuracy, run by run of the same seed."""
    theirs = {record["seed"]: final_accuracy(record) for record in others}
    return [final_accuracy(record) - theirs[record["seed"]] for record in records if record["seed"] in theirs]
