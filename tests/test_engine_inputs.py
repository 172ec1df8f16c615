"""Which loss inputs a contract looks at: rules declare what they read, and the rest stays unread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import provenance
from provenance.columns import TARGETS, Columns, Tensor
from provenance.engine import evaluate as evaluation
from provenance.engine.plan import plan_of
from provenance.formats import columns_of
from provenance.rules import Batch, Case, Rule, case, registry
from provenance.rules._examples import WITHOUT_SPANS

PROVENANCE_ONLY = {code for code in registry() if code[:3] in ("SPN", "SES")} | {"SEQ001", "SEQ002"}
PROVENANCE_ONLY -= {"SPN004"}  # which holds the spans against the targets


class Noted(dict[str, Tensor]):
    """Loss inputs that note which of them are asked for."""

    def __init__(self, inputs: Any) -> None:
        super().__init__(inputs)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


@contextmanager
def noted(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> Iterator[set[str]]:
    """The inputs that a rule's body asks for, in whatever is checked meanwhile."""
    asked: set[str] = set()
    judge = evaluation._judge

    def noting(batch: Batch, judged: Rule, field: str, excluded: Any) -> Any:
        if judged.code == rule.code and judged.judge is not None:
            inputs = Noted(batch.columns.inputs)
            fresh = Batch(
                replace(batch.columns, inputs=inputs),
                batch.loss,
                batch.parameters,
                config=batch.config,
                sequences=batch.sequences,
                session=batch.session,
                now=batch.now,
            )
            judged.judge(fresh, field)
            asked.update(inputs.asked)
        return judge(batch, judged, field, excluded)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_judge", noting)
        yield asked


def check(of: Case, data: Any = None, contract: Any = None) -> provenance.Report:
    return provenance.check(
        list(of.datums) if data is None else data,
        contract or of.loss,
        ledger=list(of.sequences),
        session=of.session,
        now=of.now,
        loss_config=of.config,
    )


@pytest.mark.parametrize("code", [code for code, rule in registry().items() if rule.judge is not None])
def test_rules_declare_what_they_read(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = registry()[code]
    with noted(monkeypatch, rule) as asked:
        for example in (*rule.good, *rule.bad):
            if example.lines is None:
                check(example)
    if rule.inputs is not None:
        assert asked <= rule.inputs


def only(loss: str, codes: set[str]) -> provenance.Contract:
    contract = provenance.Contract.for_loss(loss)
    return contract.with_severity({code: "off" for code in contract.severities if code not in codes})


def test_a_contract_about_spans_reads_no_tensor(tmp_path: Path) -> None:
    contract = only("stable_reinforce", PROVENANCE_ONLY)
    assert plan_of(contract, ledger=True, session=True).inputs == frozenset()
    assert plan_of(only("ppo", {"VAL002", "TOK006"}), ledger=False, session=False).inputs == frozenset(
        {TARGETS, "logprobs", "advantages", "weights"}
    )
    assert plan_of(provenance.Contract.for_loss("ppo"), ledger=True, session=True).inputs is None

    path = tmp_path / "data.parquet"
    good = case()
    provenance.write_datums(good.datums, path)
    expected = check(good, path, contract).to_dict()
    assert expected["valid"]
    assert expected["checked"]["SPN003"] == 1
    assert check(good, None, contract).to_dict() == expected

    # The tensors cannot be read at all any more: their pages are noise.
    content = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(0)
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema.partition(".")[0] in good.datums[0]["loss_fn_inputs"]:
            start = column.dictionary_page_offset or column.data_page_offset
            content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    assert check(good, path, contract).to_dict() == expected
    with pytest.raises(provenance.ReadError):
        check(good, path)


def cases() -> list[Any]:
    found = []
    for code in sorted(PROVENANCE_ONLY):
        rule = registry()[code]
        examples = [example for example in (*rule.good, *rule.bad) if example.lines is None]
        found += [pytest.param(code, example, id=f"{code}-{n}") for n, example in enumerate(examples)]
    return found


@pytest.mark.parametrize(("code", "example"), cases())
def test_left_out_inputs_change_no_other_verdict(code: str, example: Case) -> None:
    """Where the loss inputs are as long as the input, rules about spans say the same without them."""
    whole = columns_of(list(example.datums))
    if not all(_as_long(whole, tensor) for tensor in whole.inputs.values()) or TARGETS not in whole.inputs:
        pytest.skip("the loss inputs are broken themselves")
    codes = {c for c in PROVENANCE_ONLY if c in provenance.Contract.for_loss(example.loss).severities}
    alone = check(example, None, only(example.loss, codes))
    among = check(example, None, only(example.loss, codes | {"INP001", "INP003", "INP004", "INP005"}))
    mine = [violation for violation in among if violation.code in codes]
    assert list(alone) == mine
    assert {c: alone.checked.get(c) for c in codes} == {c: among.checked.get(c) for c in codes}


def _as_long(columns: Columns, tensor: Tensor) -> bool:
    lengths = columns.offsets[1:] - columns.offsets[:-1]
    return bool((tensor.present & tensor.sound & (tensor.rows == lengths) & (tensor.rank == 1)).all())


def test_what_is_validated_is_packed_whole() -> None:
    batch = provenance.validate(
        list(case().datums),
        only("stable_reinforce", PROVENANCE_ONLY),
        ledger=list(case().sequences),
        session=case().session,
        now=case().now,
    )
    assert {"target_tokens", "logprobs", "advantages"} <= set(batch.inputs)


def test_images_of_unknown_length_count_where_the_length_is_all_that_is_asked() -> None:
    image = {"type": "image", "format": "png", "data": "iVBORw0KGgo="}
    of = case({"model_input.chunks": [image], **WITHOUT_SPANS}, loss="ppo")
    contract = only("ppo", {"INP009"}).with_parameters(max_tokens=4)
    assert [violation.message for violation in check(of, None, contract)] == ["5 positions, at most 4"]


def test_spans_that_do_not_tile_are_not_looked_at_further() -> None:
    """Without the targets, the positions say what the target spans have to cover; the gate itself is off."""
    example = case({"loss_fn_input_spans.1.length": 2})
    report = check(example, None, only("stable_reinforce", {"SPN009", "SPN010", "SES002"}))
    assert report.checked.get("SPN009", 0) == 0
    assert any(reason.code == "SPN004" for reason in report.not_checked)
