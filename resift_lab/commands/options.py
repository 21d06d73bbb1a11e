"""Command-line options that only commands of the laboratory have."""

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
from resift_lab.training.device import DEVICES, Device


class WholeNumber(ParameterType):
    """The click type of options whose value is a 32-bit integer.

    Larger integers are rejected, because some libraries written in C do not accept them.

    Args:
        minimum: The smallest valid number. The default accepts any 32-bit integer.
    """

    name = "integer"

    def __init__(self, minimum: int = -(2**31)) -> None:
        self.minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert the value of an option to an integer.

        Fail with an error message if the value is not an integer, below the minimum, or larger than 32 bits.
        """
        number: int = click.IntRange(self.minimum, 2**31 - 1).convert(value, param, ctx)
        return number


class Fraction(ParameterType):
    """The click type of options whose value is a number from 0 to 1."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert the value of an option to a number. Fail if it is not a number from 0 to 1."""
        number = float(click.FLOAT.convert(value, param, ctx))
        if not 0 <= number <= 1:  # click.FloatRange lets NaN pass
            self.fail(f"{value} is not in the range 0<=x<=1.", param, ctx)
        return number


def setting_option(settings: Callable[..., Any], name: str, help: str, **attributes: Any) -> Decorator:
    """Create a click option for a parameter of a function or dataclass, with the parameter's default.

    Args:
        settings: The function or dataclass with a parameter for the setting.
        name: The name of this parameter, which is also the name of the option.
        help: The help text of the option.
        **attributes: Further attributes of the click option. If ``type`` is missing, the option has the type of the
            default.
    """
    default = inspect.signature(settings).parameters[name].default
    if attributes.get("type", type(default)) is int:
        attributes["type"] = WholeNumber()
    return click.option(
        f"--{name.replace('_', '-')}", name, **{"default": default, "show_default": True, "help": help, **attributes}
    )


def make_seed_option(help: str) -> Decorator:
    """Create the click option ``--seed``, which accepts integers from 0 to 2**32 - 1. The default is 0.

    Args:
        help: The help text of the option.
    """
    return click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help=help)


def parse_weighted_name(text: str) -> tuple[str, float]:
    """Parse the value of an option that takes a name with an optional weight: ``NAME`` or ``NAME=WEIGHT``.

    Args:
        text: The text to parse.

    Returns:
        The name and the weight. Without ``=WEIGHT``, the weight is 1.

    Raises:
        BadInput: If the weight is not a finite number.
    """
    name, equals, weight = text.rpartition("=")
    try:
        number = float(weight) if equals else 1.0
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"the weight in {text} is not a number", value=text, expected="NAME or NAME=WEIGHT")
    return name if equals else text, number


def parse_weighted_names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[Any]:
    """Parse every value of a click option of the form ``NAME`` or ``NAME=WEIGHT``.

    This is a click callback. ``context`` and ``parameter`` are required by click and not used.

    Args:
        context: The context of the command.
        parameter: The option.
        value: The values from the command line.

    Returns:
        Pairs of a name and its weight, which is 1 if the value contains no weight.
    """
    return [parse_weighted_name(text) for text in value]


def parse_shares(context: Any, parameter: Any, value: str | None) -> tuple[float, ...] | None:
    """Parse the value of ``--split``: three numbers, separated by commas.

    This is a click callback. ``context`` and ``parameter`` are required by click and not used.

    Args:
        context: The context of the command.
        parameter: The option.
        value: The value from the command line, such as ``60,10,30``, or None.

    Returns:
        The shares of training, validation and test queries, or None if the option is not set.

    Raises:
        BadInput: If the value does not consist of three finite numbers that are at least 0.
    """
    if value is None:
        return None
    try:
        shares = tuple(float(part) for part in value.split(","))
    except ValueError:
        shares = ()
    if len(shares) != 3 or not all(0 <= share < math.inf for share in shares):
        raise BadInput(f"--split is {value}", value=value, expected="three numbers, for example 60,10,30")
    return shares


def checkpoint_path(out: str) -> Path:
    """Return the path of the checkpoint file of a training run, and create its parent folder.

    Args:
        out: The folder that the training run writes its result to.

    Returns:
        The path ``OUT.checkpoint``, next to the folder.
    """
    checkpoint = Path(f"{out.rstrip('/')}.checkpoint")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    return checkpoint


def _device(context: click.Context, parameter: click.Parameter, value: str) -> Device:
    """Return the device of ``--device``. When the command ends, print how fast texts were encoded on the device.

    This is a click callback. ``parameter`` is required by click and not used.

    Args:
        context: The context of the command.
        parameter: The option.
        value: The name of the device.

    Raises:
        MissingExtra: If the name is ``cuda`` and torch is not installed.
        BadInput: If the name is ``cuda`` and torch finds no GPU.
    """
    device = Device(value)

    def report() -> None:
        if device.texts:
            click.echo(device, err=True)

    context.call_on_close(report)
    return device


device_option = click.option(
    "--device",
    type=click.Choice(DEVICES),
    default="auto",
    show_default=True,
    callback=_device,
    help="Where transformers run: cpu, cuda (a GPU), or auto, which uses a GPU if there is one.",
)
vectors_option = click.option(
    "--vectors",
    default=DEFAULT_MODEL,
    show_default=True,
    metavar="DIR",
    help="A folder with the word vectors to start from, or resift-en for the word vectors that come with Resift.",
)
out_option = click.option("--out", required=True, type=NewFolder(), metavar="DIR", help="The folder to write.")
seed_option = make_seed_option("Seed of all random choices. The same seed gives the same result.")
