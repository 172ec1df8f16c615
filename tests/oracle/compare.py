"""The package and the oracle side by side, and what only one of them finds."""

from __future__ import annotations

import provenance
from oracle import judge
from oracle.shrink import shown, shrunk
from oracle.world import Finding, World

Difference = tuple[tuple[Finding, ...], tuple[Finding, ...]]
"""What the package alone finds, and what the oracle alone finds."""


def engine_findings(world: World) -> list[Finding]:
    contract = provenance.Contract.for_loss(world.loss).with_parameters(**world.parameters)
    report = provenance.check(
        world.datums,
        contract,
        ledger=world.sequences,
        session=world.session,
        now=world.now,
        loss_config=world.config,
        max_examples=10**9,
    )
    assert sum(count.violations for count in report.counts.values()) == len(report.violations)
    return [
        Finding(
            violation.code,
            violation.severity.value,
            violation.location.row,
            violation.location.field,
            violation.location.index,
            violation.location.length,
            violation.location.sequence_id,
        )
        for violation in report.violations
    ]


def difference(world: World) -> Difference:
    """What is found once and not twice."""
    engine, oracle = _once(engine_findings(world)), _once(judge(world))
    # Of several wrong types in a datum one is enough, and a list may be named for what it holds.
    named = {(f.row, f.field or "") for f in engine if f.code == "FMT004"}
    agreed = {
        f for f in oracle if f.code == "FMT004" for row, path in named if f.row == row and _path(f, path)
    }
    rows = {f.row for f in agreed}
    engine = {f for f in engine if f.code != "FMT004" or f.row not in rows}
    oracle = {f for f in oracle if f.code != "FMT004" or f.row not in rows}
    return tuple(sorted(engine - oracle, key=repr)), tuple(sorted(oracle - engine, key=repr))


def _path(finding: Finding, path: str) -> bool:
    return (finding.field or "").startswith(path)


def _once(findings: list[Finding]) -> set[Finding]:
    found = set(findings)
    assert len(found) == len(findings), "one finding twice"
    return found


def assert_agreement(world: World, name: str) -> None:
    """Fails with the smallest world that shows a disagreement.

    A warning or an exception of the package is one too; it passes through as it is.
    """
    found = difference(world)
    if not any(found):
        return
    codes = {(side, finding.code) for side in (0, 1) for finding in found[side]}
    wanted = min(codes)

    def still(candidate: World) -> bool:
        return any(finding.code == wanted[1] for finding in difference(candidate)[wanted[0]])

    small = shrunk(world, still)
    package, oracle = difference(small)
    lines = [
        f"{name}: {len(found[0])} findings of the package alone, {len(found[1])} of the oracle alone",
        shown(small),
    ]
    lines += [f"package alone: {tuple(finding)}" for finding in package]
    lines += [f"oracle alone: {tuple(finding)}" for finding in oracle]
    raise AssertionError("\n".join(lines))
