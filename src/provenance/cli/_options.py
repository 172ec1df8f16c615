"""Options that several commands share, and what a shell offers to complete them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from provenance.cli._common import moment_of, say

if TYPE_CHECKING:
    from provenance.contract import Contract

__all__ = [
    "ISOLATED",
    "LEDGER",
    "LOSS",
    "MAX_LINE",
    "MAX_TOKENS",
    "NOW",
    "SESSION",
    "VOCAB_SIZE",
    "Integer",
    "Number",
    "changed_contract_of",
    "checked_by",
    "complete_codes",
    "complete_files",
    "complete_losses",
    "complete_rules",
    "configured",
    "contract_of",
]


class Integer(click.IntRange):
    """An integer within bounds, which click calls an integer range when it refuses one."""

    name = "integer"


class Number(click.FloatRange):
    """A number within bounds, which click calls a float range when it refuses one."""

    name = "number"


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Leave it to the shell, which knows the files."""
    return [CompletionItem(incomplete, type="file")]


def complete_losses(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    """Names of losses."""
    from provenance.loss_spec import LOSSES

    return [name for name in LOSSES if name.startswith(incomplete)]


def complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Codes and names of rules."""
    from provenance.rules import registry

    rules = sorted(registry().values(), key=lambda rule: rule.code)
    codes = [CompletionItem(rule.code, help=rule.name) for rule in rules]
    names = [CompletionItem(rule.name, help=rule.code) for rule in rules]
    # Names on request only: they would bury the codes.
    offered = [*codes, *names] if incomplete else codes
    return [item for item in offered if item.value.lower().startswith(incomplete.lower())]


def complete_codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Families and codes of rules, the last of several after a comma."""
    from provenance.rules import registry

    before, comma, last = incomplete.rpartition(",")
    rules = sorted(registry().values(), key=lambda rule: rule.code)
    families = {rule.code[:3]: "the whole family" for rule in rules}
    offered = families | {rule.code: rule.name for rule in rules}
    return [
        CompletionItem(before + comma + code, help=text)
        for code, text in offered.items()
        if code.startswith(last.upper())
    ]


LEDGER = click.option(
    "--ledger",
    multiple=True,
    metavar="SEQUENCES",
    shell_complete=complete_files,
    help="Ledger (a database), or a file of sampled sequences; the latter is repeatable.",
)
LOSS = click.option(
    "--loss",
    metavar="LOSS",
    shell_complete=complete_losses,
    help="The loss to train with.  [default: stable_reinforce]",
)
SESSION = click.option(
    "--session", metavar="ID", help="The training session; without it SES001 is not checked."
)
NOW = click.option(
    "--now",
    callback=moment_of,
    metavar="RFC3339",
    help="The time to judge expiry at.  [default: the clock's]",
)
ISOLATED: Final = "provenance.isolated"
"""Of a click context's ``meta``: whether --isolated was given."""
#: Rules and parameters that a note names.
_NAMED: Final = 6


def _note_isolated(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001 - click's signature
    ctx.meta[ISOLATED] = value


def _config_of(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001 - click's signature
    """The file that is named, else the project's own."""
    if ctx.resilient_parsing:  # a shell that completes
        return value
    if not ctx.meta[ISOLATED]:
        from provenance.cli._project import project_config

        return project_config() if value is None else value
    if value is not None:
        raise click.UsageError("--config names a contract file, and --isolated leaves out all: give one")
    return None


_CONFIG = (
    click.option(
        "--config",
        metavar="TOML",
        callback=_config_of,
        shell_complete=complete_files,
        help="A contract file: rules, severities, parameters.  [default: [tool.provenance] of the nearest "
        "pyproject.toml]",
    ),
    click.option(
        "--isolated",
        is_flag=True,
        is_eager=True,  # --config asks for it
        expose_value=False,
        callback=_note_isolated,
        help="Leave out the pyproject.toml.",
    ),
)

_SELECT = click.option(
    "--select",
    multiple=True,
    metavar="CODES",
    shell_complete=complete_codes,
    help="Only these rules or families (SPN,SEQ003).",
)
_IGNORE = click.option(
    "--ignore",
    multiple=True,
    metavar="CODES",
    shell_complete=complete_codes,
    help="Not these rules or families.",
)
VOCAB_SIZE = click.option(
    "--vocab-size", type=Integer(min=1), metavar="N", help="Token ids must be below it."
)
MAX_TOKENS = click.option("--max-tokens", type=Integer(min=1), metavar="N", help="Datums must not be longer.")
_LOSS_CONFIG = click.option(
    "--loss-config", multiple=True, metavar="KEY=JSON", help="Configuration of the loss; repeatable."
)

# The readers' own limit, which is not imported for --help.
MAX_LINE = click.option(
    "--max-line",
    type=Integer(min=1),
    default=64 << 20,
    show_default=True,
    metavar="BYTES",
    help="Longest line to read.",
)


_Command = TypeVar("_Command", bound=Callable[..., Any])


def configured(command: _Command) -> _Command:
    """Add --config, by default the file of the project, and --isolated, which leaves that out."""
    for option in reversed(_CONFIG):
        command = option(command)
    return command


def checked_by(command: _Command) -> _Command:
    """Add the options that say what data are held against: ledger, contract, session, time."""
    options = (
        LEDGER,
        LOSS,
        SESSION,
        NOW,
        *_CONFIG,
        _SELECT,
        _IGNORE,
        VOCAB_SIZE,
        MAX_TOKENS,
        _LOSS_CONFIG,
    )
    for option in reversed(options):
        command = option(command)
    return command


def contract_of(loss: str | None, config: str | None) -> Contract:
    """The contract that the options --loss and --config name, or the project's."""
    from provenance.contract import Contract

    if config is None:
        return Contract.for_loss(loss or "stable_reinforce")
    context = click.get_current_context()
    found = context.get_parameter_source("config") is click.core.ParameterSource.DEFAULT
    contract = Contract.load(config, loss=loss or "stable_reinforce")
    if loss not in (None, contract.loss.name):
        remedy = ": --isolated leaves it out" if found else ""
        raise click.UsageError(
            f"loss {loss!r} contradicts {config}, which is for {contract.loss.name!r}{remedy}"
        )
    if found and not context.params["quiet"]:
        say("note", f"the contract is that of {config}{_weakness(contract)}; --isolated leaves it out")
    return contract


def _weakness(contract: Contract) -> str:
    """What lets pass more than the default contract of the loss."""
    names = contract.weakened()
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f", laxer than the default in {', '.join(names[:_NAMED])}{more}" if names else ""


def changed_contract_of(
    loss: str | None,
    config: str | None,
    select: Sequence[str],
    ignore: Sequence[str],
    parameters: Mapping[str, int | None],
) -> Contract:
    """The contract that `contract_of` gives, with the rules and parameters that other options ask for."""
    contract = contract_of(loss, config)
    given = {name: value for name, value in parameters.items() if value is not None}
    if given:
        contract = contract.with_parameters(**given)
    if select:
        contract = contract.select(select)
    if ignore:
        contract = contract.ignore(ignore)
    if not contract.severities:
        raise click.UsageError("--select and --ignore leave no rule of this contract to check")
    return contract
