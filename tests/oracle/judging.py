"""One datum under judgement, and the questions that many rules ask of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oracle.datum import Plain, Span
from oracle.world import TARGET_SPANS, Finding, runs, severity


@dataclass
class Judge:
    """One datum that is being judged, and what was found about it so far."""

    datum: Plain
    loss: str
    parameters: dict[str, Any]
    findings: list[Finding]

    def datum_level(self, code: str, name: str) -> None:
        self.findings.append(Finding(code, severity(code, self.loss), self.datum.row, name))

    def one(self, code: str, name: str, index: int, sequence_id: str | None, length: int = 1) -> None:
        self.findings.append(
            Finding(code, severity(code, self.loss), self.datum.row, name, index, length, sequence_id)
        )

    def positions(self, code: str, name: str, failing: list[int]) -> None:
        for first, length in runs(failing):
            self.one(code, name, first, self.datum.id_at(name, first), length)

    def cells(self, code: str, name: str, failing: list[int]) -> None:
        """Stored values of a loss input: a run of positions, or in (N, K) each cell."""
        tensor = self.datum.inputs[name]
        if len(tensor.shape) < 2:
            self.positions(code, name, failing)
            return
        for first, length in runs(failing):
            cell = tensor.cells[first]
            self.findings.append(
                Finding(
                    code,
                    severity(code, self.loss),
                    self.datum.row,
                    name,
                    cell,
                    length,
                    self.datum.id_at(name, cell[0]),
                )
            )

    def found_at(self, code: str, name: str) -> set[int]:
        """The positions of this datum at which a rule was broken."""
        return {
            position
            for finding in self.findings
            if (finding.code, finding.row, finding.field) == (code, self.datum.row, name)
            for position in range(finding.index, finding.index + finding.length)
        }


def finite(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def scored(value: Any) -> bool:
    """A nonzero advantage or weight; what is no number carries no signal that could be judged."""
    return finite(value) and value != 0


def token_fits(token: Any, vocab_size: int | None) -> bool:
    return token is not None and 0 <= token < 2**31 and (vocab_size is None or token < vocab_size)


def sampled_spans(datum: Plain) -> Iterator[tuple[int, Span]]:
    """The sampled spans over the targets, each with its index."""
    if datum.spans is not None:
        yield from ((i, s) for i, s in enumerate(datum.spans[TARGET_SPANS]) if s.kind == "sampled")
