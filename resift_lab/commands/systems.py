"""Options by which evaluation commands choose the systems to evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from resift.cli.options import Command, Decorator, combine_options, json_option
from resift.cli.output import progress_bar
from resift.errors import BadInput
from resift.vectors.packaged import DEFAULT_MODEL
from resift_lab.commands.options import device_option, make_seed_option
from resift_lab.training.device import Device

if TYPE_CHECKING:
    from resift_lab.evaluation.system import System


@dataclass(frozen=True)
class SystemChoice:
    """The retrieval systems to evaluate, as chosen on the command line, and the form of the output.

    A system is an encoder, a baseline such as BM25, or a saved model.

    Attributes:
        encoder: The name of an encoder or a baseline, or None for the default encoder.
        vectors: The folder or name of the word vectors.
        model: The folder of a saved model to evaluate instead of ``encoder``, or None.
        seed: The seed of all random choices.
        as_json: Whether to print JSON instead of a table.
        compare: The name of a second system to compare with, or None.
        device: The device of transformers.
    """

    encoder: str | None
    vectors: str
    model: str | None
    seed: int
    as_json: bool
    compare: str | None = None
    device: Device = field(default_factory=Device)

    @property
    def name(self) -> str:
        """The name of the encoder or baseline to evaluate, or the folder of the saved model. "mean" if neither is set.

        Raises:
            BadInput: If both ``--encoder`` and ``--model`` are set.
        """
        if self.model and self.encoder:
            raise BadInput(
                "--model and --encoder are both set",
                value=[self.model, self.encoder],
                expected="either --model or --encoder, because a model has its own encoder",
            )
        return self.model or self.encoder or "mean"

    def system(self) -> System:
        """Build the system to evaluate: the saved model that ``--model`` names, or else the system of ``--encoder``."""
        from resift_lab.evaluation.registry import load_system
        from resift_lab.training.systems import system_builders

        return load_system(self.name, None, system_builders(self.device)) if self.model else self.build(self.name)

    def second_system(self) -> System | None:
        """Build the second system, which ``--compare`` names. Return None if this option is not set."""
        return self.build(self.compare) if self.compare else None

    def build(self, name: str) -> System:
        """Build a retrieval system by its name, with the word vectors and the seed from the command line.

        Args:
            name: The name of an encoder or a baseline, such as ``mean`` or ``lsi:100``.

        Raises:
            BadInput: If the name is unknown.
        """
        from resift_lab.evaluation.registry import build_system
        from resift_lab.training.systems import system_builders

        adapting = partial(progress_bar, "adapting")
        return build_system(name, self.vectors, self.seed, None, system_builders(self.device, adapting))

    def print_report(self, report: dict[str, Any], metrics: Sequence[str], summary: str) -> None:
        """Print a report, as JSON with ``--json`` and otherwise as a table.

        Args:
            report: A report from :mod:`resift_lab.evaluation.report`.
            metrics: The names of the metrics to show in the table.
            summary: A line to print above the table.
        """
        from resift_lab.evaluation.report import as_json, as_table

        click.echo(as_json(report) if self.as_json else f"{summary}\n\n{as_table(report, metrics)}")


def warn_unadapted(*systems: System | None) -> None:
    """Print a warning for each system whose word vectors could not be adapted to the documents.

    Such a system has an attribute ``note`` with the reason.

    Args:
        *systems: The systems. Arguments that are None, and systems without a note, are skipped.
    """
    for system in systems:
        if note := getattr(system, "note", ""):
            click.echo(f"warning: {note}; the vectors are not adapted", err=True)


def system_options(*optional: Decorator) -> Decorator:
    """Return a decorator that adds the options for choosing a :class:`SystemChoice` to a command.

    The command receives the choice as argument ``choice``.

    Args:
        *optional: Further click options that only some commands offer, such as ``--compare``. Each of them sets an
            attribute of the choice.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**options: Any) -> Any:
            names = [attribute.name for attribute in fields(SystemChoice)]
            chosen = {name: options.pop(name) for name in names if name in options}
            return command(choice=SystemChoice(**chosen), **options)

        return combine_options(*_COMMON_OPTIONS, *optional, json_option)(run)

    return decorate


_COMMON_OPTIONS = (
    click.option("--encoder", metavar="NAME", show_default="mean", help="The name of an encoder or a baseline."),
    click.option(
        "--vectors",
        default=DEFAULT_MODEL,
        show_default=True,
        metavar="DIR",
        help="A folder with word vectors, or resift-en for the word vectors that come with Resift.",
    ),
    click.option("--model", metavar="DIR", help="A folder with a saved model, instead of --encoder and --vectors."),
    make_seed_option("Seed of all random choices in training, intervals and tests."),
    device_option,
)
compare_option = click.option(
    "--compare",
    metavar="NAME|DIR",
    help="A second encoder or model. The differences from it are printed with their p values.",
)
