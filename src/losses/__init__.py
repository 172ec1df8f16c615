"""Losses that train on validated batches only, and the diagnostics of their runs.

Raises:
    MissingDependencyError: torch is not installed.
"""

from provenance.errors import MissingDependencyError

try:
    from losses import diagnostics
except ImportError as error:
    if error.name != "torch":
        raise
    raise MissingDependencyError("torch", "losses") from None
from losses.errors import LossError
from losses.stable_reinforce import LossOutput, stable_reinforce
from losses.token_logprobs import token_logprobs, token_logprobs_from_logits

__all__ = [
    "LossError",
    "LossOutput",
    "diagnostics",
    "stable_reinforce",
    "token_logprobs",
    "token_logprobs_from_logits",
]
