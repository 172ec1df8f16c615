"""What tensors and options may be."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from losses.errors import LossError
from provenance.loss_spec import is_finite

#: What converts to float32 as it is; 8 bits and less come with scales that a loss does not know.
FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def is_count(value: object) -> bool:
    """An int of 1 or more, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def require_floats(name: str, tensor: Tensor) -> None:
    """Refuse what is no float of 16 bits or more.

    Raises:
        LossError: names the dtype.
    """
    if tensor.dtype not in FLOATS:
        raise LossError(f"{name} has dtype {tensor.dtype}, expected float16, bfloat16, float32 or float64")


def log_of_cap(ratio_cap: float | None) -> float:
    """Upper bound of log r that a cap on r stands for; infinity for None.

    Raises:
        LossError: the cap is no finite number of 1 or more; a lower one would cut tokens on policy.
    """
    if ratio_cap is None:
        return math.inf
    if not is_finite(ratio_cap) or ratio_cap < 1:
        raise LossError(
            f"ratio_cap is {ratio_cap!r}, expected a finite ratio >= 1, or None; "
            "an epsilon of 0.28 is a cap of 1.28"
        )
    return math.log(ratio_cap)
