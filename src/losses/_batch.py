"""Who may train, and how learner logprobs line up with a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from losses._checks import require_floats
from losses.errors import LossError
from provenance.batch import ValidatedBatch, sampled_tensor

#: Logprobs of the positions of a batch: flat (T,), padded (B, L), or one (N_i,) for each datum.
Logprobs = Tensor | Sequence[Tensor]


def require_validated(batch: object, loss: str) -> None:
    """Refuse what ``provenance.validate`` did not check against all of the loss's error rules.

    Raises:
        LossError: ``batch`` is no ValidatedBatch, or its contract was another loss's or a weaker one.
    """
    # A batch that somebody made by other means than the engine has no contract.
    contract = getattr(batch, "contract", None) if type(batch) is ValidatedBatch else None
    remedy = f"provenance.validate(datums, contract={loss!r}, ledger=..., session=...)"
    if contract is None:
        kind = type(batch).__name__
        raise LossError(f"batch is a {kind}, expected a ValidatedBatch, which comes from {remedy}")
    if contract.loss.name != loss:
        raise LossError(
            f"batch was validated for {contract.loss.name!r}, expected {loss!r}: validate it with {remedy}"
        )
    if weakened := contract.weakened():
        raise LossError(
            f"batch was validated under a contract that weakens {', '.join(weakened)}, expected every error "
            f"rule of {loss} at its default or stricter: validate it with {remedy}"
        )


def flatten(batch: ValidatedBatch, logprobs: Logprobs, name: str) -> Tensor:
    """Logprobs of every position as one (T,) tensor of float32 (float64 if given), with its gradient.

    Raises:
        LossError: a shape that is not the batch's, or numbers that are no floats.
    """
    lengths = np.diff(batch.cu_seqlens)
    if isinstance(logprobs, Tensor):
        flat = _unpadded(logprobs, lengths, name)
    elif isinstance(logprobs, (list, tuple)) and all(isinstance(row, Tensor) for row in logprobs):
        flat = _joined(logprobs, lengths, name)
    else:
        raise LossError(
            f"{name} is a {type(logprobs).__name__}, expected a tensor (T,) or (B, L), or a list of "
            "tensors (N_i,), one for each datum"
        )
    require_floats(name, flat)
    return flat.to(torch.promote_types(flat.dtype, torch.float32))


def _unpadded(logprobs: Tensor, lengths: npt.NDArray[np.int64], name: str) -> Tensor:
    total, longest = int(lengths.sum()), int(lengths.max(initial=0))
    shape = tuple(logprobs.shape)
    if shape == (total,):
        return logprobs
    if shape != (len(lengths), longest):
        raise LossError(
            f"{name} has shape {shape}, expected ({total},), one for each position of the batch, or "
            f"({len(lengths)}, {longest}), a row for each datum, padded on the right to the longest"
        )
    flat = logprobs.reshape(-1)
    if len(flat) == total:
        return flat
    first = np.cumsum(lengths) - lengths
    index = np.arange(total) + np.repeat(np.arange(len(lengths)) * longest - first, lengths)
    return flat.index_select(0, torch.from_numpy(index).to(flat.device))


def _joined(rows: Sequence[Tensor], lengths: npt.NDArray[np.int64], name: str) -> Tensor:
    if len(rows) != len(lengths):
        raise LossError(f"{name} has {len(rows)} tensors, expected {len(lengths)}, one for each datum")
    for datum, (row, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
        if tuple(row.shape) != (length,):
            raise LossError(
                f"{name}[{datum}] has shape {tuple(row.shape)}, expected ({length},), one for each position"
            )
    return torch.cat(list(rows))


def log_ratio_of(batch: ValidatedBatch, logprobs: Tensor) -> Tensor:
    """The log r = p - q of the sampled positions (S,), from logprobs of all positions (T,)."""
    # Taking S first keeps what lies outside from every later step: a NaN times a mask would stay a NaN.
    positions = sampled_tensor(batch, "positions", logprobs.device)
    return logprobs.index_select(0, positions) - sampled_tensor(batch, "logprobs", logprobs.device)


def place_of(batch: ValidatedBatch, token: int) -> str:
    """Where a sampled token is, given its number among all sampled tokens of the batch."""
    ends = np.cumsum(batch.sequence_lengths)
    sequence = int(np.searchsorted(ends, token, side="right"))
    token -= int(ends[sequence] - batch.sequence_lengths[sequence])
    position = int(batch.sequence_starts[sequence]) + token
    datum = int(np.searchsorted(batch.cu_seqlens, position, side="right")) - 1
    return (
        f"datum {datum}: position {position - int(batch.cu_seqlens[datum])} "
        f"(token {token} of sequence {batch.sequence_ids[sequence]!r})"
    )
