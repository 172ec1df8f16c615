"""The ledger, and its own rules: SEQ007 and SEQ008."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.datum import Span
from oracle.judging import finite
from oracle.world import PARAMETERS, Finding, Json, World, float32, severity

#: A later use of a sequence changes this; a record that differs elsewhere is another one.
NOT_CONTENT = "last_used_at"


@dataclass
class Record:
    """The record that a span names: the first one under its key, and whether others contradict it."""

    row: int
    raw: Json
    foreign: bool
    """It is another session's than the one that trains."""
    conflicting: bool
    """Other records of its key say something else, so that nothing can be held against it."""
    ambiguous: bool
    """Several other sessions have the id; nothing says which of them is meant."""

    def __post_init__(self) -> None:
        self.prompt: list[int] = self.raw["prompt_tokens"]
        self.tokens: list[int] = self.raw["tokens"]
        self.logprobs = [None if v is None else float32(v) for v in self.raw["logprobs"]]

    @property
    def doubtful(self) -> bool:
        return self.conflicting or self.ambiguous

    @property
    def has_all_logprobs(self) -> bool:
        return len(self.logprobs) == len(self.tokens)

    def part(self, kind: str) -> list[int]:
        return self.prompt if kind == "prompt" else self.tokens


class Records:
    """Finds the record of an id, in the training session if that has one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_id: dict[str, dict[str, list[tuple[int, Json]]]] = {}
        for row, raw in enumerate(world.sequences or []):
            sessions = self.by_id.setdefault(raw["sequence_id"], {})
            sessions.setdefault(raw["session_id"], []).append((row, raw))
        self.seen: dict[str, Record] = {}

    def find(self, sequence_id: str) -> Record | None:
        if sequence_id in self.seen:
            return self.seen[sequence_id]
        session, sessions = self.world.session, self.by_id.get(sequence_id)
        if sessions is None:
            return None
        home = session if session in sessions else next(iter(sessions))
        (row, raw), *_ = sessions[home]
        record = Record(
            row,
            raw,
            foreign=session is not None and home != session,
            conflicting=any(_content(other) != _content(raw) for _, other in sessions[home]),
            ambiguous=session not in sessions and len(sessions) > 1,
        )
        self.seen[sequence_id] = record
        return record

    def in_range(self, span: Span) -> bool | None:
        """Whether a record has all that a span claims; None where no single record can say."""
        record = self.find(span.sequence_id)
        if record is None or record.doubtful:
            return None
        return span.offset + span.length <= len(record.part(span.kind))

    def judge(self) -> list[Finding]:
        """SEQ007 and SEQ008, for the records that were looked up."""
        found, loss = [], self.world.loss
        tolerance = {**PARAMETERS, **self.world.parameters}["tolerance"]
        for sequence_id, record in self.seen.items():
            if record.ambiguous:
                continue
            sound = record.has_all_logprobs and all(finite(v) and v <= tolerance for v in record.logprobs)
            if record.conflicting or not sound:
                code, name = ("SEQ008", "sequence_id") if record.conflicting else ("SEQ007", "logprobs")
                found.append(Finding(code, severity(code, loss), record.row, name, sequence_id=sequence_id))
        return found


def _content(raw: Json) -> Json:
    given = {name: value for name, value in raw.items() if value is not None and name != NOT_CONTENT}
    # As text, because a NaN is not itself, and with + 0.0, because -0.0 is 0.0.
    return {**given, "logprobs": repr([v if v is None else float32(v) + 0.0 for v in raw["logprobs"]])}
