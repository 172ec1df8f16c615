"""Contracts: which rules apply, how much each weighs, and with which parameters."""

from __future__ import annotations

import difflib
import json
import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args, get_type_hints

from provenance.errors import ContractError
from provenance.loss_spec import LOSSES, LossSpec
from provenance.models._base import shorten
from provenance.report import Severity
from provenance.rules import RULESET, Parameters, Rule, registry

LARGEST: Final = 2**62
#: Parameters under which nothing could be valid if they were 0.
AT_LEAST_ONE: Final = ("vocab_size", "max_tokens")
_DEFAULT_LOSS: Final = "stable_reinforce"
#: Bytes that a contract file may have, and files that may extend each other.
_MOST_BYTES: Final = 1 << 20
_MOST_FILES: Final = 16
_KEYS: Final = ("extends", "ruleset", "severity", "parameters", "inputs")
PARAMETER_TYPES: Final = {
    name: get_args(hint) or (hint,) for name, hint in get_type_hints(Parameters).items()
}


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The rules of one loss, with a user's own severities and parameters.

    A contract is immutable; the ``with_`` methods return a changed copy. Start from ``Contract.for_loss``.
    """

    loss: LossSpec
    overrides: Mapping[str, Severity]
    """Severities that differ from the loss's defaults, by code."""
    parameters: Parameters
    ruleset: int = RULESET
    """Version of the rule set the contract was written for: rules that came later are warnings."""

    def __post_init__(self) -> None:
        # A batch carries its contract, and a loss believes it: nobody may loosen it in between.
        object.__setattr__(self, "overrides", MappingProxyType(dict(self.overrides)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.loss, dict(self.overrides), self.parameters, self.ruleset)

    @classmethod
    def for_loss(cls, name: str, *, inputs: Mapping[str, Any] | None = None) -> Contract:
        """The default contract of a loss.

        Args:
            name: one of Tinker's losses.
            inputs: for ``custom``, the declared inputs: name -> rank, or {"rank": 0|1|2, "dtype": ...}.

        Raises:
            ContractError: there is no such loss, or the declaration is wrong.
        """
        if name not in LOSSES:
            raise ContractError(f"no loss is called {shorten(name)}{_nearest(name, LOSSES)}")
        spec = LOSSES[name]
        if inputs is not None:
            spec = _declared(spec, inputs)
        return cls(loss=spec, overrides={}, parameters=Parameters())

    @classmethod
    def of(cls, contract: Contract | str) -> Contract:
        """A contract as it is, or the one of the loss of that name."""
        if isinstance(contract, Contract):
            return contract
        if not isinstance(contract, str):
            raise ContractError(f"contract is {contract!r}, expected a Contract or the name of a loss")
        return _of_name(contract, len(registry()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, loss: str = _DEFAULT_LOSS) -> Contract:
        """Read a contract from a TOML file, or from ``[tool.provenance]`` of a pyproject.toml.

        Keys: ``extends`` (a loss, or another contract file beside this one), ``ruleset``, and the tables
        ``severity``, ``parameters`` and, for custom losses, ``inputs``. A file that extends nothing is a
        contract of ``loss``.

        Raises:
            ContractError: the file cannot be read, or something in it is unknown.
        """
        return _load(Path(path), (), loss)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the contract as TOML, complete enough that ``load`` gives an equal one."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(self.to_toml(), encoding="utf-8")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def to_toml(self) -> str:
        """The contract as TOML text."""
        lines = [f'extends = "{self.loss.name}"', f"ruleset = {self.ruleset}"]
        if self.loss.name == "custom" and self.loss.declared:
            lines += ["", "[inputs]"]
            for name in self.loss.required:
                dtype = "int64" if name in self.loss.int64 else "float32"
                lines += [
                    "",
                    f"[inputs.{_quoted(name)}]",
                    f'dtype = "{dtype}"',
                    f"rank = {self.loss.ranks_of(name)[0]}",
                ]
        if self.overrides:
            lines += [
                "",
                "[severity]",
                *(f'{code} = "{s.value}"' for code, s in sorted(self.overrides.items())),
            ]
        if changed := self.parameters.changed():
            lines += ["", "[parameters]", *(f"{name} = {value!r}" for name, value in changed.items())]
        return "\n".join(lines) + "\n"

    def with_severity(self, severities: Mapping[str, str | Severity]) -> Contract:
        """A copy in which rules weigh differently; a key may be a code or a family such as ``"SES"``.

        Raises:
            ContractError: an unknown code or severity.
        """
        overrides = dict(self.overrides)
        for key, value in severities.items():
            if value not in list(Severity):
                raise ContractError(f"severity of {key} is {shorten(value)}, expected error, warning or off")
            for code in expand_codes([key]):
                overrides[code] = Severity(value)
        defaults = {code: self._default(rule) for code, rule in registry().items()}
        return replace(self, overrides={c: s for c, s in overrides.items() if s != defaults[c]})

    def with_parameters(self, **parameters: Any) -> Contract:
        """A copy with other parameters.

        Raises:
            ContractError: an unknown parameter, or a value that it cannot have.
        """
        for name, value in parameters.items():
            _check_parameter(name, value)
        return replace(self, parameters=replace(self.parameters, **parameters))

    def select(self, codes: Iterable[str]) -> Contract:
        """A copy with no other rules than these codes or families."""
        kept = expand_codes(codes)
        return self.with_severity({code: "off" for code in registry() if code not in kept})

    def ignore(self, codes: Iterable[str]) -> Contract:
        """A copy without these codes or families."""
        return self.with_severity(dict.fromkeys(expand_codes(codes), "off"))

    @cached_property
    def severities(self) -> Mapping[str, Severity]:
        """Severity of every rule that is not off, by code."""
        found = {code: self.severity_of(rule) for code, rule in registry().items()}
        return MappingProxyType({c: severity for c, severity in found.items() if severity != Severity.OFF})

    def severity_of(self, rule: Rule) -> Severity:
        """How much a rule weighs in this contract."""
        return self.overrides.get(rule.code, self._default(rule))

    def _default(self, rule: Rule) -> Severity:
        severity = rule.severity_for(self.loss)
        return Severity.WARNING if severity == Severity.ERROR and rule.since > self.ruleset else severity

    def weakened(self) -> tuple[str, ...]:
        """What admits more than the loss's default contract: error rules softened or loosened."""
        errors = [c for c, rule in registry().items() if rule.severity_for(self.loss) == Severity.ERROR]
        softened = [code for code in errors if self.severity_of(registry()[code]) != Severity.ERROR]
        loosened = self.parameters.loosened()
        return (*softened, *(name for name, codes in loosened.items() if set(codes) & set(errors)))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that reports carry."""
        return {
            "loss": self.loss.name,
            "ruleset": self.ruleset,
            "severity": {code: s.value for code, s in sorted(self.overrides.items())},
            "parameters": self.parameters.changed(),
        }


def _restored(
    loss: LossSpec, overrides: dict[str, Severity], parameters: Parameters, ruleset: int
) -> Contract:
    return Contract(loss=loss, overrides=overrides, parameters=parameters, ruleset=ruleset)


@lru_cache(maxsize=16)
def _of_name(name: str, rules: int) -> Contract:
    """A loss's contract, kept with its severities for as long as there are that many rules."""
    del rules
    return Contract.for_loss(name)


def expand_codes(names: Iterable[str]) -> list[str]:
    """Codes from codes and families, in the order given.

    Raises:
        ContractError: a name is neither.
    """
    codes: list[str] = []
    for name in names:
        found = [code for code in sorted(registry()) if name and code.startswith(name.upper())]
        if not found or len(name) not in (3, 6):
            known = [*registry(), *{rule.family for rule in registry().values()}]
            hint = _nearest(name.upper(), known)
            raise ContractError(f"no rule is called {shorten(name)}{hint}; 'provenance rules' lists them")
        codes += found
    return codes


def _quoted(key: str) -> str:
    """A TOML key that may hold anything; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


def _nearest(name: str, known: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f", did you mean {matches[0]!r}?" if matches else f"; known are {', '.join(known)}"


def _check_parameter(name: str, value: Any) -> None:
    if name not in PARAMETER_TYPES:
        raise ContractError(f"no parameter is called {shorten(name)}{_nearest(name, PARAMETER_TYPES)}")
    allowed = PARAMETER_TYPES[name]
    optional, number = type(None) in allowed, "an integer" if int in allowed else "a number"
    if value is None and optional:
        return
    fits = isinstance(value, int) or (float in allowed and isinstance(value, float) and math.isfinite(value))
    least = 1 if name in AT_LEAST_ONE else 0
    if isinstance(value, bool) or not fits or not least <= value <= LARGEST:
        shown = "too large" if fits and value > LARGEST else shorten(value)
        raise ContractError(f"parameter {name} is {shown}, expected {number} of {least} or more")


def _declared(spec: LossSpec, inputs: Mapping[str, Any]) -> LossSpec:
    if spec.name != "custom":
        raise ContractError(f"inputs can be declared for the custom loss only, {spec.name} has its own")
    ranks: dict[str, tuple[int, ...]] = {}
    int64 = set()
    for name, declaration in inputs.items():
        table = declaration if isinstance(declaration, Mapping) else {"rank": declaration}
        rank, dtype = table.get("rank", 1), table.get("dtype", "int64" if name in spec.int64 else "float32")
        if isinstance(rank, bool) or rank not in (0, 1, 2) or set(table) - {"rank", "dtype"}:
            raise ContractError(
                f"input {name}: expected rank 0, 1 or 2 and a dtype, got {shorten(declaration)}"
            )
        if dtype not in ("int64", "float32"):
            raise ContractError(f"input {name}: dtype is {shorten(dtype)}, expected int64 or float32")
        ranks[name] = (rank,)
        if dtype == "int64":
            int64.add(name)
    return replace(spec, required=tuple(inputs), ranks=ranks, int64=frozenset(int64), declared=True)


def _load(path: Path, above: tuple[Path, ...], loss: str) -> Contract:
    with _naming(path):
        table = {"extends": loss, **_table_of(path)}
        parent = _parent_of(table, path, above)
    inherited = None if parent is None else _load(parent, (*above, path), loss)
    with _naming(path):
        return _applied(table, inherited)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the file in front of what is wrong in it."""
    try:
        yield
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from error


def _table_of(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ContractError(f"more than {_MOST_BYTES} bytes, the limit for a contract file")
        table: Any = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise ContractError(error.strerror or str(error)) from error
    except RecursionError as error:
        raise ContractError("not TOML: nested too deeply") from error
    except ValueError as error:  # no UTF-8, no TOML, a number of thousands of digits, no path
        raise ContractError(f"not TOML: {error}") from error
    if path.name == "pyproject.toml":
        tools = table.get("tool")
        table = tools.get("provenance") if isinstance(tools, dict) else None
        if table is None:
            raise ContractError("no [tool.provenance] table")
        if not isinstance(table, dict):
            raise ContractError(f"tool.provenance is {shorten(table)}, expected a table")
    for key, value in table.items():
        if key not in _KEYS:
            raise ContractError(f"unknown key {shorten(key)}{_nearest(key, _KEYS)}")
        if key in ("severity", "parameters", "inputs") and not isinstance(value, dict):
            raise ContractError(f"{key} is {shorten(value)}, expected a table")
    found: Mapping[str, Any] = table
    return found


def _parent_of(table: Mapping[str, Any], path: Path, above: tuple[Path, ...]) -> Path | None:
    """The contract file that this one extends; None where it extends a loss."""
    base = table["extends"]
    if not isinstance(base, str):
        raise ContractError(f"extends is {shorten(base)}, expected the name of a loss or a contract file")
    if base in LOSSES:
        return None
    parent = path.parent / base
    if "\0" in base or (not base.endswith(".toml") and not parent.exists()):
        raise ContractError(
            f"extends neither a loss nor a contract file: {shorten(base)}{_nearest(base, LOSSES)}"
        )
    if parent.resolve() in {file.resolve() for file in (*above, path)}:
        raise ContractError(f"extends itself through {base}")
    if len(above) + 2 > _MOST_FILES:
        raise ContractError(
            f"extends {base}, and is the last of {_MOST_FILES} files, the limit for such a chain"
        )
    return parent


def _applied(table: Mapping[str, Any], inherited: Contract | None) -> Contract:
    inputs = table.get("inputs")
    if inherited is None:
        contract = Contract.for_loss(table["extends"], inputs=inputs)
    elif inputs is None:
        contract = inherited
    else:
        contract = replace(inherited, loss=_declared(inherited.loss, inputs))
    pinned = table.get("ruleset", contract.ruleset)
    if isinstance(pinned, bool) or not isinstance(pinned, int) or not 1 <= pinned <= RULESET:
        raise ContractError(
            f"ruleset is {shorten(pinned)}, this version of the package has rule sets 1 to {RULESET}; "
            "upgrade datum-provenance or lower it"
        )
    return (
        replace(contract, ruleset=pinned)
        .with_severity(table.get("severity", {}))
        .with_parameters(**table.get("parameters", {}))
    )
