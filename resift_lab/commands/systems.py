"""The systems that a command line names, for every command that measures some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from resift.cli.options import Command, Decorator, combine_options, json_option
from resift.cli.output import progress_bar
from resift.errors import BadInput
from resift.vectors.packaged import DEFAULT_MODEL
from resift_lab.commands.options import seeded

if TYPE_CHECKING:
    from resift_lab.evaluation.system import System


@dataclass(frozen=True)
class SystemChoice:
    """The systems that the command line names, and how the result is printed."""

    encoder: str | None
    vectors: str
    model: str | None
    seed: int
    as_json: bool
    compare: str | None = None

    @property
    def name(self) -> str:
        """The first system's name. Raises BadInput if --encoder and --model both name one."""
        if self.model and self.encoder:
            raise BadInput(
                "--model and --encoder", value=[self.model, self.encoder], expected="one of them: a model has its own"
            )
        return self.model or self.encoder or "mean"

    def system(self) -> System:
        """Return the first system."""
        from resift_lab.evaluation.registry import load_system
        from resift_lab.training.systems import LEARNERS

        return load_system(self.name, None, LEARNERS) if self.model else self.named(self.name)

    def other(self) -> System | None:
        """The system of --compare, if there is one."""
        return self.named(self.compare) if self.compare else None

    def named(self, name: str) -> System:
        """Any system by its name, with the same word vectors and seed."""
        from resift_lab.evaluation.registry import build_system
        from resift_lab.training.systems import LEARNERS, Adapted

        adapting = partial(progress_bar, "adapting")
        learners = {**LEARNERS, "adapted": lambda source, _: Adapted(source.table(), source.seed, adapting)}
        return build_system(name, self.vectors, self.seed, None, learners)

    def print_report(self, report: dict[str, Any], metrics: Sequence[str], summary: str) -> None:
        """Print a report as --json wants it, or as a summary and a table of ``metrics``."""
        from resift_lab.evaluation.report import as_json, as_table

        click.echo(as_json(report) if self.as_json else f"{summary}\n\n{as_table(report, metrics)}")


def warn_unadapted(*systems: System | None) -> None:
    """Warn of fitted systems that have not been adapted as they should be."""
    for system in systems:
        if note := getattr(system, "note", ""):
            click.echo(f"warning: {note}; the vectors are not adapted", err=True)


def system_options(*others: Decorator) -> Decorator:
    """The options of :class:`SystemChoice`, which the command gets as ``choice``; ``others`` that not every one has."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathered(**asked: Any) -> Any:
            named = {field.name: asked.pop(field.name) for field in fields(SystemChoice) if field.name in asked}
            return command(choice=SystemChoice(**named), **asked)

        return combine_options(*_OWN, *others, json_option)(gathered)

    return decorate


_OWN = (
    click.option("--encoder", metavar="NAME", show_default="mean", help="An encoder or baseline."),
    click.option(
        "--vectors",
        default=DEFAULT_MODEL,
        show_default=True,
        metavar="DIR",
        help="The folder of the word vectors, or resift-en, the packaged ones.",
    ),
    click.option("--model", metavar="DIR", help="The folder of a saved model, in place of --encoder and --vectors."),
    seeded("Number that random choices start from, in training, intervals and tests."),
)
compare_option = click.option(
    "--compare", metavar="NAME|DIR", help="A second encoder or model; prints differences and their p."
)
