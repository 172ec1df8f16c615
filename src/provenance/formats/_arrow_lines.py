"""Record batches as lines of JSON. The batches were read as columns before, which has found no fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from provenance.columns import CHUNK_KINDS, DMEL, IMAGE, INT64, TEXT, Ints
from provenance.formats._arrow_arrays import (
    Lists,
    field_of,
    is_list,
    joined,
    lists_of,
    texts,
    validity,
)
from provenance.formats._arrow_layout import is_json
from provenance.formats._arrow_schema import INPUT, INPUT_SPANS, INPUT_TOKENS, STRUCTURE, TARGET_SPANS
from provenance.formats._arrow_tensors import declared, matrices
from provenance.formats._arrow_text import (
    joined_numbers,
    json_texts,
    label_texts,
    list_texts,
    nulled,
    number_texts,
    quoted,
    real_texts,
)
from provenance.formats._datums import LABELS
from provenance.formats._json import dumps
from provenance.formats._problem import RowError
from provenance.models.chunks import tensor_length
from provenance.sequences import ABSENT, SequenceTable, rfc3339

_Words = list[str | None]


def datum_lines(batch: Any) -> list[str]:
    """Return datums as lines of JSON.

    Raises:
        RowError: for a row that JSON cannot hold.
    """
    columns = {name: joined(batch.column(name)) for name in batch.schema.names}
    fields: dict[str, _Words] = {}
    for name in LABELS:
        if name in columns:
            plain = name in ("datum_id", "group_id") and not is_json(batch.schema.field(name))
            fields[name] = label_texts(columns[name]) if plain else json_texts(columns[name], name)
    fields["model_input"] = _model_inputs(columns)
    inputs = {name: _tensors(name, column) for name, column in columns.items() if name not in STRUCTURE}
    fields["loss_fn_inputs"] = [*_objects(inputs, len(batch))]
    for name in (INPUT_SPANS, TARGET_SPANS):
        if name in columns:
            fields[name] = _spans(columns[name])
    return _objects(fields, len(batch))


def sequence_lines(batch: Any, table: SequenceTable) -> list[str]:
    """Return sampled sequences, a batch that was read as the table, as lines of JSON; errors as above."""
    columns = {name: joined(batch.column(name)) for name in batch.schema.names}
    fields: dict[str, _Words] = {}
    for name in ("sequence_id", "session_id"):
        fields[name] = [dumps(word).decode() for word in getattr(table, name)]
    for name in ("prompt_tokens", "tokens", "logprobs"):
        fields[name] = list_texts(columns[name])
    for name in ("sampled_at", "last_used_at"):
        fields[name] = _times(getattr(table, name))
    fields["record_stability_info"] = ["true" if flag else "false" for flag in table.record_stability_info]
    for name in ("model", "policy_version", "stop_reason"):
        fields[name] = [None if word is None else dumps(word).decode() for word in getattr(table, name)]
    for name in ("temperature", "top_p", "top_k", "seed"):
        if name in columns:
            fields[name] = real_texts(columns[name])
    return _objects(fields, len(batch))


def _objects(fields: Mapping[str, Iterable[str | None]], n: int) -> list[str]:
    """Objects of the fields, without those that are None."""
    keys = [f"{dumps(name).decode()}:" for name in fields]
    if not keys:
        return ["{}"] * n
    return [
        "{" + ",".join([key + word for key, word in zip(keys, words, strict=True) if word is not None]) + "}"
        for words in zip(*fields.values(), strict=True)
    ]


def _grouped(offsets: Ints, words: list[str]) -> list[str]:
    """Arrays of the words of each row."""
    bounds = offsets.tolist()
    return [f"[{','.join(words[a:b])}]" for a, b in pairwise(bounds)]


def _times(moments: Ints) -> _Words:
    return [None if moment == ABSENT else f'"{rfc3339(moment)}"' for moment in moments.tolist()]


def _tensors(name: str, column: Any) -> _Words:
    lists = lists_of(column)
    lengths = lists.lengths.tolist()
    elements = lists.elements
    if not is_list(elements.type):
        data = joined_numbers(lists.offsets, number_texts(elements))
        shapes = [str(length) for length in lengths]
    else:
        width, sound, offsets, elements, exists = matrices(lists)
        if not sound.all():
            raise RowError(int(sound.argmin()), name, "rows of different lengths, or a null for a row")
        data = joined_numbers(offsets, number_texts(elements, exists))
        shapes = [f"{rows},{k}" for rows, k in zip(lengths, width.tolist(), strict=True)]
    dtype = "int64" if declared(name, elements.type) == INT64 else "float32"
    words = [
        f'{{"data":[{values}],"dtype":"{dtype}","shape":[{shape}]}}'
        for values, shape in zip(data, shapes, strict=True)
    ]
    return nulled(words, lists.present)


def _spans(column: Any) -> _Words:
    lists = lists_of(column)
    struct = lists.elements
    exists = validity(struct)
    kind, name = (quoted(texts(field_of(struct, field), exists)) for field in ("type", "sequence_id"))
    start, length = (real_texts(field_of(struct, field)) for field in ("offset", "length"))
    words = [
        f'{{"type":{k},"sequence_id":{i},"offset":{a or 0},"length":{"null" if n is None else n}}}'
        for k, i, a, n in zip(kind, name, start, length, strict=True)
    ]
    if exists is not None:
        words = [word if there else "null" for word, there in zip(words, exists.tolist(), strict=True)]
    return nulled(_grouped(lists.offsets, words), lists.present)


def _model_inputs(columns: Mapping[str, Any]) -> _Words:
    if INPUT_TOKENS in columns:
        tokens = list_texts(columns[INPUT_TOKENS])
        return [f'{{"chunks":[{{"type":"encoded_text","tokens":{ids}}}]}}' for ids in tokens]
    lists = lists_of(columns[INPUT])
    return [f'{{"chunks":{chunks}}}' for chunks in _grouped(lists.offsets, _chunks(lists))]


def _chunks(lists: Lists) -> list[str]:
    struct = lists.elements
    found = texts(field_of(struct, "type"))
    kinds = [found.word(i) for i in range(len(struct))]
    is_text = np.array([kind == CHUNK_KINDS[TEXT] for kind in kinds], np.bool_)
    tokens = lists_of(field_of(struct, "tokens"), is_text)
    ids = joined_numbers(tokens.offsets, number_texts(tokens.elements))
    words = [f'{{"type":"encoded_text","tokens":[{numbers}]}}' for numbers in ids]
    for i in np.flatnonzero(~is_text).tolist():
        words[i] = _other_chunk(struct[i].as_py(), i, lists)
    return words


def _other_chunk(chunk: Mapping[str, Any], number: int, lists: Lists) -> str:
    kind, length = chunk["type"], chunk.get("length")
    fields: dict[str, Any] = {"type": kind}
    if kind == CHUNK_KINDS[DMEL]:
        fields["dmel"] = chunk["data"]
        stated = tensor_length(chunk["data"])
        if length is not None and length != stated:
            row = int(np.searchsorted(lists.offsets, number, "right")) - 1
            path = f"{INPUT}.chunks[{number - int(lists.offsets[row])}].length"
            raise RowError(row, path, f"{length}, but the header of the tensor says {stated}")
        return dumps(fields).decode()
    content = "data" if kind == CHUNK_KINDS[IMAGE] else "location"
    fields |= {content: chunk[content], "format": chunk["format"]}
    if length is not None:
        fields["expected_tokens"] = length
    return dumps(fields).decode()
