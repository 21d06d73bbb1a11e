"""The option ``--set NAME=VALUE`` for settings of a training run or an evaluation."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection
from typing import Any, get_args, get_type_hints

import click

from resift.cli.options import Decorator
from resift.errors import BadInput

_BOOLEANS = {"true": True, "false": False}
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def set_option(
    owner: Callable[..., Any], *excluded: str, alternative: tuple[str, Callable[..., Any]] | None = None
) -> Decorator:
    """Create the click option ``--set NAME=VALUE``, which sets parameters of a function or dataclass.

    The option may be repeated. The command receives a dictionary of the parsed values as argument ``settings``.
    Parameters without a default cannot be set.

    Args:
        owner: The function or dataclass.
        *excluded: Names of parameters that cannot be set, because the command has separate options for them.
        alternative: An option such as ``--bags``, and the function or dataclass whose parameters are set if the command
            line contains this option. The option must be eager, so that it is parsed first.
    """
    defaults = _defaults(owner, excluded)

    def parse(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
        chosen, chosen_defaults = owner, defaults
        if alternative and context.params.get(alternative[0].lstrip("-")) is not None:
            chosen, chosen_defaults = alternative[1], _defaults(alternative[1], excluded)
        hints = get_type_hints(chosen)
        return dict(_parse_setting(text, chosen_defaults, hints) for text in texts)

    listed = _listed(defaults)
    if alternative:
        listed += f". With {alternative[0]}: {_listed(_defaults(alternative[1], excluded))}"
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=parse,
        help=f"Change a setting. Settings and their defaults: {listed}. May be repeated.",
    )


def _defaults(owner: Callable[..., Any], excluded: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a function or dataclass that can be set on the command line, with their defaults.

    Args:
        owner: The function or dataclass.
        excluded: Names of parameters to leave out.
    """
    return {
        name: parameter.default
        for name, parameter in inspect.signature(owner).parameters.items()
        if name not in excluded and isinstance(parameter.default, (int, float, str, type(None)))
    }


def _listed(defaults: dict[str, Any]) -> str:
    return ", ".join(name if default is None else f"{name}={default}" for name, default in defaults.items())


def _parse_setting(text: str, defaults: dict[str, Any], hints: dict[str, Any]) -> tuple[str, Any]:
    """Parse a setting of the form ``NAME=VALUE``, and convert the value to the type of the setting.

    Args:
        text: The text to parse.
        defaults: The known settings with their defaults.
        hints: The type of each setting.

    Returns:
        The name and the converted value.

    Raises:
        BadInput: If the name is unknown, or the value cannot be converted to the type of the setting.
    """
    name, equals, value = text.partition("=")
    if name not in defaults or not equals:
        raise BadInput(
            f"invalid setting {text}", value=text, expected=f"NAME=VALUE with a NAME of {', '.join(defaults)}"
        )
    types = get_args(hints[name]) or (hints[name],)
    kind = next(candidate for candidate in types if candidate is not type(None))
    try:
        number = _BOOLEANS[value.lower()] if kind is bool else kind(value)
    except (KeyError, ValueError, OverflowError):
        number = math.nan
    if (isinstance(number, float) and not math.isfinite(number)) or (kind is int and abs(number) >= 2**31):
        raise BadInput(f"invalid value in {text}", value=text, expected=_EXPECTED[kind])
    return name, number
