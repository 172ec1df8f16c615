"""Where a rule asks for another loss, or other sizes, than most rules do, so that it can be broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Rule -> a loss whose contract has it.
LOSS_FOR: Final[Mapping[str, str]] = {
    "CFG003": "ppo",
    "INP008": "gspo",
    "TOK006": "importance_sampling",
}
#: Rule -> what differs of the shapes of its datums: sizes as (least, most), and what there is.
SHAPE_FOR: Final[Mapping[str, Mapping[str, Any]]] = {
    "SPN010": {"unanswered": True, "prompt": (6, 10)},
    "TOK003": {"images": (1, 3)},
    "TOK004": {"images": (1, 3)},
    "TOK006": {"spans": False},
    "VAL003": {"completion": (32, 40)},
}
