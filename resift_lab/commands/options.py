"""Options that only commands of the lab have."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from resift.cli.options import Decorator
from resift.cli.paths import NewFolder, ParameterType
from resift.errors import BadInput
from resift.vectors.packaged import DEFAULT_MODEL


class WholeNumber(ParameterType):
    """A whole number, ``least`` or more, that libraries written in C can hold.

    Without ``least`` the setting itself says what is too small for it.
    """

    name = "integer"

    def __init__(self, least: int = -(2**31)) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Fails for what is none, and for one that is too small or too large."""
        number: int = click.IntRange(self.least, 2**31 - 1).convert(value, param, ctx)
        return number


class Fraction(ParameterType):
    """A number from 0 to 1."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Fails for what is none, NaN, and one beyond."""
        number = float(click.FLOAT.convert(value, param, ctx))
        if not 0 <= number <= 1:  # click.FloatRange lets NaN pass
            self.fail(f"{value} is not in the range 0<=x<=1.", param, ctx)
        return number


def option_of(settings: Callable[..., Any], name: str, help: str, **attributes: Any) -> Decorator:
    """The option ``--name`` for a parameter ``name`` of ``settings``, a dataclass of settings or a function.

    The default and, unless ``type`` is among the ``attributes`` of the click option, its type are the parameter's.
    """
    default = inspect.signature(settings).parameters[name].default
    if attributes.get("type", type(default)) is int:
        attributes["type"] = WholeNumber()
    return click.option(
        f"--{name.replace('_', '-')}", name, **{"default": default, "show_default": True, "help": help, **attributes}
    )


def seeded(help: str) -> Decorator:
    """The option ``--seed``; ``help`` says what the seed is of."""
    return click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help=help)


def weighted_name(text: str) -> tuple[str, float]:
    """``NAME`` or ``NAME=WEIGHT`` as a pair; without a weight it is 1. Raises BadInput if the weight is no number."""
    name, equals, weight = text.rpartition("=")
    try:
        number = float(weight) if equals else 1.0
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{text} has no weight", value=text, expected="NAME or NAME=WEIGHT")
    return name if equals else text, number


def weighted_names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[Any]:
    """Option callback: ``NAME[=WEIGHT]`` several times, as a list of pairs."""
    return [weighted_name(text) for text in value]


def shares_of(context: Any, parameter: Any, value: str | None) -> tuple[float, ...] | None:
    """Option callback: the numbers of ``--split``."""
    if value is None:
        return None
    try:
        shares = tuple(float(part) for part in value.split(","))
    except ValueError:
        shares = ()
    if len(shares) != 3 or not all(0 <= share < math.inf for share in shares):
        raise BadInput(f"--split {value}", value=value, expected="three numbers, as 60,10,30")
    return shares


def checkpoint_beside(out: str) -> Path:
    """The file that a training into the folder ``out`` keeps its state in; the folder around it is created."""
    checkpoint = Path(f"{out.rstrip('/')}.checkpoint")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    return checkpoint


vectors_option = click.option(
    "--vectors",
    default=DEFAULT_MODEL,
    show_default=True,
    metavar="DIR",
    help="The folder of the word vectors to start from, or resift-en, the packaged ones.",
)
out_option = click.option("--out", required=True, type=NewFolder(), metavar="DIR", help="The folder to write.")
seed_option = seeded("Number that random choices start from; the same one repeats a result.")
