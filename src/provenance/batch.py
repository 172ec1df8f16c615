"""ValidatedBatch: datums that passed a contract, packed for a loss."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Never, NoReturn, Self, final

import numpy as np

from provenance.columns import Array, Ints, Mask
from provenance.contract import Contract
from provenance.errors import MissingDependencyError

if TYPE_CHECKING:
    import torch


def frozen(array: Array) -> Array:
    """A copy that nobody can write to: its memory is an immutable bytes object."""
    # Longer than the data: Python shares the bytes objects of length 1 among all who have an equal one.
    memory = array.tobytes() + b"\0\0"
    copy: Array = np.frombuffer(memory, array.dtype, count=array.size).reshape(array.shape)
    return copy


def _frozen_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return frozen(value)
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(array) for key, array in value.items()})
    return value


@final
class ValidatedBatch:
    """A batch that ``provenance.validate`` found to keep its contract.

    ``n`` datums are packed one after the other into ``p`` positions. Arrays are copies that cannot be written
    to. A batch is made by the engine alone, cannot be changed, and is not pickled: whoever receives one knows
    that this process validated it.
    """

    __slots__ = (
        "_contract",
        "_cu_seqlens",
        "_inputs",
        "_now",
        "_policy_versions",
        "_read_by_losses",
        "_sampled",
        "_sequence_ids",
        "_sequence_lengths",
        "_sequence_starts",
        "_session",
        "_tensors",
        "_tokens",
    )
    _contract: Contract
    _cu_seqlens: Ints
    _inputs: Mapping[str, Array]
    _now: int
    _policy_versions: tuple[str | None, ...]
    _read_by_losses: Mapping[str, Array]
    """The positions of S, and the inputs there: never handed out, since torch writes to read-only arrays."""
    _sampled: Mask
    _sequence_ids: tuple[str, ...]
    _sequence_lengths: Ints
    _sequence_starts: Ints
    _session: str | None
    _tensors: Mapping[str, torch.Tensor]
    _tokens: Array

    if TYPE_CHECKING:

        def __new__(cls, made_by_the_engine: Never) -> Self:
            """Refuse."""

    else:

        def __new__(cls, *_args, **_kwargs):
            """Refuse: only the engine makes batches."""
            raise TypeError(
                "a ValidatedBatch comes from provenance.validate(datums, contract=..., ledger=...)"
            )

    def __init_subclass__(cls) -> None:
        raise TypeError("ValidatedBatch cannot be subclassed: a subclass could hold what nobody validated")

    @classmethod
    def _pack(cls, **values: Any) -> ValidatedBatch:
        batch = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(batch, f"_{name}", _frozen_value(value))
        inputs = {name: array[batch._sampled] for name, array in batch._inputs.items()}
        read = _frozen_value({"positions": np.flatnonzero(batch._sampled), **inputs})
        object.__setattr__(batch, "_read_by_losses", read)
        object.__setattr__(batch, "_tensors", MappingProxyType({}))
        return batch

    def __len__(self) -> int:
        """Number of datums, n."""
        return len(self._cu_seqlens) - 1

    @property
    def contract(self) -> Contract:
        """The contract that was kept."""
        return self._contract

    @property
    def session(self) -> str | None:
        """The training session the datums were validated for."""
        return self._session

    @property
    def now(self) -> int:
        """The time they were validated at, microseconds since 1970 UTC."""
        return self._now

    @property
    def tokens(self) -> Array:
        """(p,) int32: input token ids, -1 where the position is no text."""
        return self._tokens

    @property
    def cu_seqlens(self) -> Ints:
        """(n + 1,) int64: where each datum's positions start."""
        return self._cu_seqlens

    @property
    def inputs(self) -> Mapping[str, Array]:
        """The loss inputs, (p,), or (p, K) for (N, K) ones: int64 for target_tokens, else float32."""
        return self._inputs

    @property
    def sampled(self) -> Mask:
        """(p,) bool: the position lies under a target-side sampled span."""
        return self._sampled

    @property
    def sequence_ids(self) -> tuple[str, ...]:
        """Ids of the sampled target spans, in order of position; q of them."""
        return self._sequence_ids

    @property
    def sequence_starts(self) -> Ints:
        """(q,) int64: the position at which each sampled target span starts."""
        return self._sequence_starts

    @property
    def sequence_lengths(self) -> Ints:
        """(q,) int64: positions of each sampled target span."""
        return self._sequence_lengths

    @property
    def policy_versions(self) -> tuple[str | None, ...]:
        """The weights that sampled each sampled target span, None where that is not recorded; q of them."""
        return self._policy_versions

    def to(self, device: torch.device | str) -> ValidatedBatch:
        """The same batch with what a loss reads, its inputs at the sampled positions, on a torch device.

        A loss copies that at each call otherwise. The tensors are the batch's own: tensors cannot be made
        read-only, so nothing hands them out, and the arrays stay the numpy arrays they were.

        Raises:
            MissingDependencyError: torch is not installed.
            RuntimeError: torch knows no such device.
        """
        try:
            import torch
        except ImportError:
            raise MissingDependencyError("torch", "losses") from None
        tensors = {name: torch.tensor(array, device=device) for name, array in self._read_by_losses.items()}
        moved = object.__new__(ValidatedBatch)
        for name in self.__slots__:
            object.__setattr__(moved, name, getattr(self, name))
        object.__setattr__(moved, "_tensors", MappingProxyType(tensors))
        return moved

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a ValidatedBatch cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a ValidatedBatch cannot be changed: {name}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a ValidatedBatch is not pickled; send the datums and validate them where they are used"
        )

    def __repr__(self) -> str:
        return (
            f"<ValidatedBatch of {len(self)} datum{'s' * (len(self) != 1)}, {len(self._tokens)} positions, "
            f"{self._contract.loss.name}, session {self._session!r}>"
        )


def sampled_tensor(batch: ValidatedBatch, name: str, device: torch.device) -> torch.Tensor:
    """A loss input at the sampled positions, or these ``positions`` (int64), for a loss to read.

    It is the batch's own tensor where ``to`` put one on the device, so a loss must neither write to it nor
    return it.
    """
    import torch

    held = batch._tensors.get(name)
    if held is not None and held.device == device:
        return held
    return torch.tensor(batch._read_by_losses[name], device=device)
