"""Training requests as the SDK would send them, written to a file or taken as bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from provenance.errors import SchemaError, WriteError
from provenance.formats._io import failing, replacing
from provenance.integrations.tinker._convert import to_tinker
from provenance.integrations.tinker._version import VERSION, types
from provenance.models import Datum

__all__ = ["request_bytes", "write_request"]


def request_bytes(
    datums: Iterable[types.Datum | Datum],
    *,
    model_id: str,
    seq_id: int,
    loss_fn: types.LossFnType,
    loss_fn_config: Mapping[str, float | str] | None = None,
    forward_only: bool = False,
) -> bytes:
    """Return the protobuf ``ForwardBackwardRequest`` of datums, encoded by the SDK itself.

    Args:
        datums: the SDK's or ours.
        model_id: the model that is trained, ``{session_id}:train:{n}``.
        seq_id: number of the request among those of its model, from 1.
        loss_fn: name of the loss.
        loss_fn_config: options of the loss.
        forward_only: ask for no gradients.

    Raises:
        SchemaError: the SDK cannot encode it: a token of 2^31 or more, an image that is only pointed to.
    """
    from tinker.proto.request_conv import forward_backward_request_to_proto

    theirs = [to_tinker(datum) if isinstance(datum, Datum) else datum for datum in datums]
    content = types.ForwardBackwardInput(data=theirs, loss_fn=loss_fn, loss_fn_config=loss_fn_config)
    request = types.ForwardBackwardRequest(forward_backward_input=content, model_id=model_id, seq_id=seq_id)
    try:
        message = forward_backward_request_to_proto(request)
    except (OverflowError, TypeError, ValueError) as error:
        raise SchemaError(f"tinker {VERSION} cannot encode the request: {error}") from error
    message.forward_only = forward_only
    data: bytes = message.SerializeToString()
    return data


def write_request(
    datums: Iterable[types.Datum | Datum],
    path: str | os.PathLike[str],
    *,
    model_id: str,
    seq_id: int,
    loss_fn: types.LossFnType,
    loss_fn_config: Mapping[str, float | str] | None = None,
    forward_only: bool = False,
) -> None:
    """Write a training request to a file, which `check`, `inspect` and `convert` read by its suffix ``.pb``.

    Arguments are those of `request_bytes`. The file takes its name when it is complete.

    Raises:
        SchemaError: as for `request_bytes`.
        WriteError: the file cannot be written.
    """
    data = request_bytes(
        datums,
        model_id=model_id,
        seq_id=seq_id,
        loss_fn=loss_fn,
        loss_fn_config=loss_fn_config,
        forward_only=forward_only,
    )
    name = os.fspath(path)
    with replacing(name) as temporary, failing(WriteError, name):
        Path(temporary).write_bytes(data)
