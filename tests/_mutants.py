"""Mutants of the rules: a body, a helper or the maker of a message with one small piece changed.

A mutant dies by the examples of the rules that use the changed function: one of them gives another report.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import pytest
from _paths import contract_of, found

from provenance import Report, check
from provenance.rules import Case, Rule, _rule

FAMILIES: Final = (
    "advantages",
    "config",
    "identity",
    "inputs",
    "sequences",
    "session",
    "spans",
    "tokens",
    "values",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file of rules with one change in one function."""

    family: str
    function: str
    change: str
    """What was there, and what is there now."""
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.family}.{self.function}: {self.change}"


def mutants(family: str) -> Iterator[Mutant]:
    """All mutants of a file of rules."""
    tree = _tree(family)
    for number, function in enumerate(tree.body):
        if not isinstance(function, ast.FunctionDef):
            continue
        seen = Counter[str]()
        for path, node in _code_of(function):
            for replacement in _replacements(node):
                changed = copy.deepcopy(function)
                _put(changed, path, replacement)
                # A number or a text alone says little: what it stands in is shown.
                shown = path if isinstance(node, ast.stmt | ast.operator) else _expression(function, path)
                change = f"{_text(_at(function, shown))} -> {_text(_at(changed, shown))}"
                seen[change] += 1
                if seen[change] > 1:
                    change += f" (no. {seen[change]})"
                body = [*tree.body[:number], changed, *tree.body[number + 1 :]]
                yield Mutant(family, function.name, change, ast.Module(body, []))


def survives(mutant: Mutant) -> bool:
    """Whether no example of the rules that use the changed function tells the mutant from the original."""
    expected, users = _expected(mutant.family), _users(mutant.family)[mutant.function]
    code = compile(ast.fix_missing_locations(mutant.tree), str(mutant), "exec")
    others = {name: rule for name, rule in _rule.registry().items() if name not in expected}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_rule, "_registry", others)  # the mutant declares its own
        exec(code, {"__name__": str(mutant)})
        return all(_outcome(look) == outcome for name in users for look, outcome in expected[name])


# What the examples say

Look = Callable[[], Report]
Outcome = Any
"""A report as far as examples compare it, or the type of the exception that a body raised."""


@cache
def _expected(family: str) -> dict[str, list[tuple[Look, Outcome]]]:
    """For each rule of a file the ways to look at its examples, and what is seen as the rules are."""
    module = f"provenance.rules.{family}"
    return {
        code: [(look, _outcome(look)) for case in (*rule.bad, *rule.good) for look in _looks(rule, case)]
        for code, rule in _rule.registry().items()
        if rule.judge is not None and rule.judge.__module__ == module
    }


def _looks(rule: Rule, case: Case) -> Iterator[Look]:
    """Ways to look at an example: as it is; without the ledger, if the rule can do without; and alone."""
    whole = {"session": case.session, "now": case.now, "loss_config": case.config, "ledger": case.sequences}
    contract = contract_of(case)
    yield partial(check, case.datums, contract, **whole)
    if "ledger" not in rule.needs:
        yield partial(check, case.datums, contract, **{**whole, "ledger": None})
    if rule.given:
        alone = contract.with_severity(dict.fromkeys(rule.given, "off"))
        yield partial(check, case.datums, alone, **whole)


def _outcome(look: Look) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            report = look()
        except Exception as error:  # noqa: BLE001 - a mutant may raise anything
            return type(error)
    return found(report), {code: n for code, n in report.checked.items() if n}


@cache
def _users(family: str) -> dict[str, list[str]]:
    """The codes of the rules that use each function of a file: as body, for messages, or through others."""
    functions = {f.name: f for f in _tree(family).body if isinstance(f, ast.FunctionDef)}
    calls = {
        name: {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} & functions.keys()
        for name, function in functions.items()
    }
    rules = {
        rule.judge.__name__: code for code, rule in _rule.registry().items() if code in _expected(family)
    }
    users: dict[str, list[str]] = {name: [] for name in functions}
    for name, code in rules.items():
        reached, todo = set(), [name]
        while todo:
            function = todo.pop()
            if function not in reached:
                reached.add(function)
                users[function].append(code)
                todo += calls[function]
    return users


# Code and places in it

Path = tuple[str | int, ...]


def _tree(family: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(f"provenance.rules.{family}")))


def _code_of(function: ast.FunctionDef) -> Iterator[tuple[Path, ast.AST]]:
    """The nodes of a body, and of what a rule declares beside it, each with the way to it."""
    for i, decorator in enumerate(function.decorator_list):
        for k, keyword in enumerate(getattr(decorator, "keywords", ())):
            way: Path = ("decorator_list", i, "keywords", k, "value")
            if keyword.arg == "detail":
                yield from _nodes(keyword.value, way)
            elif keyword.arg == "given":  # each code may be left out
                yield way, keyword.value
    for i, statement in enumerate(function.body):
        if i or ast.get_docstring(function) is None:
            yield from _nodes(statement, ("body", i))


def _nodes(value: Any, path: Path) -> Iterator[tuple[Path, ast.AST]]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _nodes(item, (*path, i))
    elif isinstance(value, ast.AST):
        yield path, value
        for name, child in ast.iter_fields(value):
            # `strict` of zip is an assertion, which no input can fail.
            if name != "annotation" and not (isinstance(value, ast.keyword) and value.arg == "strict"):
                yield from _nodes(child, (*path, name))


def _at(root: Any, path: Path) -> Any:
    for step in path:
        root = root[step] if isinstance(step, int) else getattr(root, step)
    return root


def _put(root: Any, path: Path, value: Any) -> None:
    *way, last = path
    place = _at(root, tuple(way))
    if isinstance(last, int):
        place[last] = value
    else:
        setattr(place, last, value)


def _expression(function: ast.FunctionDef, path: Path) -> Path:
    """The way to what is shown of a change: at least an operation, a call or a subscript."""
    shown = path
    while isinstance(_at(function, shown), _SMALL):
        shown = shown[:-1]
    return shown


_SMALL: Final = (ast.Constant, ast.UnaryOp, ast.Slice, ast.Tuple, list)


def _text(node: Any) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    if isinstance(node, ast.For):
        return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
    return " ".join(ast.unparse(node).split())


# What can be changed

_SWAPS: Final[dict[type[ast.AST], tuple[type[ast.AST], ...]]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
}
_OPPOSITES: Final = {"min": "max", "any": "all", "minimum": "maximum"}
_OTHER_NAME: Final = _OPPOSITES | {b: a for a, b in _OPPOSITES.items()}


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What is put in a node's place, one at a time."""
    match node:
        case ast.Compare(left, [*operators], comparators):
            for i, operator in enumerate(operators):
                for other in _SWAPS[type(operator)]:
                    yield ast.Compare(left, [*operators[:i], other(), *operators[i + 1 :]], comparators)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(_SWAPS[type(operator)][0](), values)
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.BinOp(left, operator, right):
            for other in _SWAPS.get(type(operator), ()):
                yield ast.BinOp(left, other(), right)
            if isinstance(operator, ast.BitAnd | ast.BitOr):
                yield left
                yield right
        case ast.UnaryOp(ast.Not() | ast.Invert() | ast.USub(), operand):
            yield operand
        case ast.IfExp(_, body, orelse):
            yield body
            yield orelse
        case ast.If(_, body, orelse):
            yield ast.If(ast.Constant(True), body, orelse)
            yield ast.If(ast.Constant(False), body, orelse)
        case ast.AugAssign(target, operator, value):
            for other in _SWAPS.get(type(operator), ()):
                yield ast.AugAssign(target, other(), value)
            yield ast.Pass()
        case ast.Assign([ast.Subscript()]) | ast.Expr() | ast.For():
            yield ast.Pass()
        case ast.comprehension(target, values, [_, *_]):
            yield ast.comprehension(target, values, [], 0)
        case ast.Tuple(elements, ast.Load()):
            for i in range(len(elements)):
                yield ast.Tuple([*elements[:i], *elements[i + 1 :]], ast.Load())
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(str(value)):
            yield ast.Constant("" if value else "text")
        case ast.Name(name, context) if name in _OTHER_NAME:
            yield ast.Name(_OTHER_NAME[name], context)
        case ast.Attribute(value, name, context) if name in _OTHER_NAME:
            yield ast.Attribute(value, _OTHER_NAME[name], context)
        case ast.Call(ast.Name("Verdict") as verdict, [valid, _]):
            yield ast.Call(verdict, [valid], [])
