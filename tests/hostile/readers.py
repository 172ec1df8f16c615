"""Each reader of the package with a maker of hostile files for it, and what it must make of one."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import provenance
from hostile import contracts, corpus, databases, judging, messages, tables, trees
from hostile.damage import damaged
from hostile.judging import Reading, WrongVerdictError
from provenance import Contract, ContractError, ProvenanceError

CASES = corpus.CASES


@dataclass(frozen=True)
class Reader:
    """A kind of file."""

    suffix: str
    make: Callable[[int, Random], bytes]
    """Number of a case of the corpus and randomness -> the content of a file."""
    read: Callable[[Path, int, Random], str]
    """A file -> what came of it in a word; raises whatever should not have happened."""


# --- what is made


def _lines(records: Callable[[int], Any]) -> Callable[[int, Random], bytes]:
    return lambda number, rng: trees.lines(list(records(number)), rng)


def _packed(records: Callable[[int], Any], codec: str) -> Callable[[int, Random], bytes]:
    def make(number: int, rng: Random) -> bytes:
        plain = trees.lines(list(records(number)), rng)
        cuts = sorted(rng.randrange(len(plain) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
        parts = [plain[a:b] for a, b in zip([0, *cuts], [*cuts, len(plain)], strict=True)]
        data = b"".join(_compressed(part, codec) for part in parts)
        return damaged(data, rng) if rng.random() < 0.6 else data

    return make


def _compressed(data: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(data, 1, mtime=0)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def _datums(number: int) -> Any:
    return CASES[number].datums


def _sequences(number: int) -> Any:
    return CASES[number].sequences


def _parquet(file: Callable[[int, str], bytes]) -> Callable[[int, Random], bytes]:
    return lambda number, rng: tables.hostile_parquet(tables.table_of(file(number, ".parquet")), rng)


def _ipc(file: Callable[[int, str], bytes], *, stream: bool) -> Callable[[int, Random], bytes]:
    return lambda number, rng: tables.hostile_ipc(
        tables.table_of(file(number, ".parquet")), rng, stream=stream
    )


def _any_sequences(number: int, rng: Random) -> bytes:
    if rng.random() < 0.4:
        return tables.hostile_parquet(tables.table_of(corpus.sequences_file(number, ".parquet")), rng)
    table = tables.table_of(corpus.sequences_file(number, ".parquet"))
    return tables.hostile_ipc(table, rng, stream=rng.random() < 0.5)


def _request(number: int, rng: Random) -> bytes:
    other = corpus.request_file(rng.randrange(len(CASES)))
    return messages.hostile_request(corpus.request_file(number), other, rng)


def _rollouts(number: int) -> list[Any]:
    turns = [{"sequence": dict(sequence), "reward": 1.0} for sequence in CASES[number].sequences]
    items = [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "x"}],
            "prompt_token_ids": sequence["prompt_tokens"],
            "generation_token_ids": sequence["tokens"],
            "generation_log_probs": sequence["logprobs"],
        }
        for sequence in CASES[number].sequences
    ]
    turns = [{"sequence": turn["sequence"]} for turn in turns]
    response = {"id": "r", "created_at": 1767348000.0, "model": "m", "output": items}
    request = {"input": [{"role": "user", "content": "x"}], "temperature": 1.0}
    nemo = {"responses_create_params": request, "response": response, "reward": 1.0}
    if number % 2:
        return [nemo, nemo | {"reward": 0.0}]
    return [
        {"turns": turns, "reward": 1.0, "group_id": "g"},
        {"turns": turns, "reward": 0.0, "group_id": "g"},
    ]


# --- what is read


def _as_datums(reading: Reading, family: tuple[str, ...]) -> Callable[[Path, int, Random], str]:
    """Check a file; now and then sort and convert it too, which must not change the verdict."""

    def read(path: Path, number: int, rng: Random) -> str:
        case = CASES[number]
        verdict, report = judging.judged_datums(reading, path, case)
        if rng.random() < 0.3:
            _convert(
                path,
                case,
                verdict,
                path.with_name(f"converted{rng.choice(('.jsonl', '.parquet', '.arrow'))}"),
            )
        if family and report is not None and rng.random() < 0.3:
            _sort(path, case, report, rng.choice(family))
        return verdict

    return read


def _convert(path: Path, case: Any, verdict: str, target: Path) -> None:
    try:
        provenance.convert(path, target)
    except ProvenanceError as error:
        judging._refuse_no_memory(error)
        if target.exists():
            raise WrongVerdictError("half of a conversion") from None
        return
    again = judging.check_case(case, target).valid
    target.unlink()
    if verdict == "valid" and not again:
        raise WrongVerdictError(f"valid, but not as {target.suffix}")
    if verdict != "valid" and again:
        raise WrongVerdictError(f"{verdict}, but valid as {target.suffix}")


def _sort(path: Path, case: Any, report: Any, suffix: str) -> None:
    good, bad = path.with_name(f"good{suffix}"), path.with_name(f"bad{suffix}")
    good.unlink(missing_ok=True)
    bad.unlink(missing_ok=True)
    try:
        judging.check_case(case, path, write_good=good, write_bad=bad)
    except ProvenanceError as error:
        judging._refuse_no_memory(error)
        if good.exists() or bad.exists():
            raise WrongVerdictError("half of a split") from None
        return
    kept = judging.check_case(case, good, allow_empty=True)
    wrong = [v for v in kept.violations if v.severity == "error" and v.location.row is not None]
    if wrong:
        raise WrongVerdictError(f"among the good: {wrong[0]}")
    if kept.datums + report.bad_datums < report.datums:
        raise WrongVerdictError(f"{report.datums} datums, {report.bad_datums} bad and {kept.datums} good")


def _as_ledger(reading: Reading) -> Callable[[Path, int, Random], str]:
    def read(path: Path, number: int, rng: Random) -> str:
        verdict = judging.judged_ledger(reading, path, CASES[number])
        if path.suffix != ".db" and rng.random() < 0.2:
            target = path.with_name(f"converted{rng.choice(('.jsonl', '.arrows'))}")
            try:
                provenance.convert(path, target)
            except ProvenanceError as error:
                judging._refuse_no_memory(error)
            target.unlink(missing_ok=True)
        return verdict

    return read


def _read_database(path: Path, number: int, rng: Random) -> str:
    from provenance.ledger.sql import SqlLedger

    verdict = judging.judged_ledger(judging.database_sequences, path, CASES[number])
    if rng.random() < 0.3:
        try:
            with SqlLedger(path, read_only=True) as ledger:
                ledger.stats(), ledger.sessions(), list(ledger.tables())
        except ProvenanceError as error:
            judging._refuse_no_memory(error)
    return verdict


def _read_contract(path: Path, number: int, rng: Random) -> str:
    (path.with_name("other.toml")).write_text(contracts.OTHER)
    name = rng.choice(("hostile.toml", "pyproject.toml"))
    own = path.rename(path.with_name(name))
    try:
        contract = Contract.load(own)
    except ContractError:
        return "refused"
    finally:
        own.rename(path)
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    table = table["tool"]["provenance"] if name == "pyproject.toml" else table
    for key, value in table.get("parameters", {}).items():
        if getattr(contract.parameters, key) != value:
            raise WrongVerdictError(f"{key} is {getattr(contract.parameters, key)!r}, not {value!r}")
    for key, value in table.get("severity", {}).items():
        if len(key) == 6 and str(contract.severities.get(key, "off")) != value:
            raise WrongVerdictError(f"{key} is not {value}")
    again = path.with_name("again.toml")
    again.write_text(contract.to_toml(), encoding="utf-8")
    if Contract.load(again).to_dict() != contract.to_dict():
        raise WrongVerdictError("another contract when it was written and read")
    provenance.check(list(CASES[0].datums), contract, ledger=list(CASES[0].sequences), session="s")
    return "valid"


def _read_rollouts(path: Path, number: int, rng: Random) -> str:
    targets = {name: path.with_name(f"{name}.jsonl") for name in ("datums", "sequences")}
    for target in targets.values():
        target.unlink(missing_ok=True)
    kind = "nemo-gym" if number % 2 else "turns"
    claims = {"session": "s", "record_stability_info": True} if kind == "nemo-gym" else {}
    try:
        built = provenance.build(path, kind=kind, **targets, **claims)
    except ProvenanceError:
        return "refused"
    if not built.datums:
        return "nothing"
    report = provenance.check(
        targets["datums"], ledger=targets["sequences"], now=built_at(targets["sequences"])
    )
    # What the rollout says of its rewards and sequences is not the builder's to mend.
    wrong = [
        v for v in report.violations if v.severity == "error" and v.code[:3] in ("FMT", "INP", "SPN", "TOK")
    ]
    if wrong:
        raise WrongVerdictError(f"built: {wrong[0]}")
    return "built"


def built_at(sequences: Path) -> str:
    return max(json.loads(line)["sampled_at"] for line in sequences.read_bytes().splitlines())


_LINES = (".jsonl",)
_ARROW = (".parquet", ".arrow", ".arrows")
READERS: dict[str, Reader] = {
    "jsonl": Reader(".jsonl", _lines(_datums), _as_datums(judging.plain_lines, _LINES)),
    "gzip": Reader(".jsonl.gz", _packed(_datums, "gzip"), _as_datums(judging.gzip_lines, _LINES)),
    "zstd": Reader(".jsonl.zst", _packed(_datums, "zstd"), _as_datums(judging.zstd_lines, _LINES)),
    "parquet": Reader(".parquet", _parquet(corpus.datums_file), _as_datums(judging.arrow_datums, _ARROW)),
    "arrow": Reader(
        ".arrow", _ipc(corpus.datums_file, stream=False), _as_datums(judging.arrow_datums, _ARROW)
    ),
    "stream": Reader(
        ".arrows", _ipc(corpus.datums_file, stream=True), _as_datums(judging.arrow_datums, _ARROW)
    ),
    "request": Reader(".pb", _request, _as_datums(judging.request_datums, ())),
    "ledger-lines": Reader(".jsonl", _lines(_sequences), _as_ledger(judging.plain_lines)),
    "ledger-arrow": Reader(".parquet", _any_sequences, _as_ledger(judging.arrow_sequences)),
    "database": Reader(
        ".db",
        lambda number, rng: databases.hostile_database(corpus.database_file(number), rng),
        _read_database,
    ),
    "contract": Reader(".toml", lambda number, rng: contracts.hostile_contract(rng), _read_contract),
    "rollouts": Reader(".jsonl", _lines(_rollouts), _read_rollouts),
}
