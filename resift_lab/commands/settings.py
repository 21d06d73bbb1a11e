"""``--set NAME=VALUE``: settings of a training or a measurement, each of the type that its default or its owner has."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import click

from resift.cli.options import Decorator
from resift.errors import BadInput

_BOOLEANS = {"true": True, "false": False}
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def set_option(owner: Callable[..., Any], *others: str) -> Decorator:
    """The option ``--set`` for the parameters of ``owner`` that have a default, a dataclass of settings or a function.

    The command gets those that were set as ``settings``. ``others`` are parameters that it has other options for.
    """
    known = {
        name: parameter.default
        for name, parameter in inspect.signature(owner).parameters.items()
        if name not in others and isinstance(parameter.default, (int, float, str, type(None)))
    }

    def parse(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
        hints = get_type_hints(owner)
        return dict(_setting(text, known, hints) for text in given)

    shown = ", ".join(name if default is None else f"{name}={default}" for name, default in known.items())
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=parse,
        help=f"Set one of: {shown}. May be repeated.",
    )


def _setting(text: str, known: dict[str, Any], hints: dict[str, Any]) -> tuple[str, Any]:
    """``NAME=VALUE`` as the name and a value of its type. Raises BadInput for other names and other values."""
    name, equals, value = text.partition("=")
    if name not in known or not equals:
        raise BadInput(f"--set {text}", value=text, expected=f"NAME=VALUE, NAME one of {', '.join(known)}")
    kind = next(one for one in (get_args(hints[name]) or (hints[name],)) if one is not type(None))
    try:
        number = _BOOLEANS[value.lower()] if kind is bool else kind(value)
    except (KeyError, ValueError, OverflowError):
        number = math.nan
    if (isinstance(number, float) and not math.isfinite(number)) or (kind is int and abs(number) >= 2**31):
        raise BadInput(f"--set {text}", value=text, expected=_EXPECTED[kind])
    return name, number
