"""``resift train``: encoders learned from labelled documents. Other trainings join the group in ``main``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resift.vectors.packaged import DEFAULT, load_vectors

if TYPE_CHECKING:
    from resift.training.boew import RoBoewOptions
from resift.cli.options import bar_of, import_torch

Command = Callable[..., Any]


@click.group()
def train() -> None:
    """Train encoders on documents of your own. Needs the extra 'train'."""


def labelled(command: Command) -> Command:
    """The options that every training with labels has."""
    for option in reversed(
        (
            click.option(
                "--train",
                "file",
                required=True,
                metavar="FILE",
                help='JSON lines, plain or .gz: "text" and "label", a class or an object of classes and weights.',
            ),
            click.option("--out", required=True, metavar="DIR", help="The model's folder."),
            click.option("--vectors", default=DEFAULT, show_default=True, metavar="DIR", help="Word vectors to start."),
            click.option("--codewords", default=64, show_default=True),
            click.option("--sigma", default=0.5, show_default=True, help="Width of a codeword at the start."),
            click.option(
                "--fuzziness",
                type=float,
                help="Of the clusters; smaller is harder.  [default: 0.1; untied 0.05, or euclidean 0.01]",
            ),
            click.option(
                "--entropy", type=click.Choice(["spherical", "euclidean"]), default="spherical", show_default=True
            ),
            click.option(
                "--tied/--untied",
                default=True,
                show_default=True,
                help="Say which cluster is whose class's, or only that clusters be pure, as in the paper.",
            ),
            click.option("--epochs", default=10, show_default=True, help="Passes over the documents, at most."),
            click.option("--batch", default=100, show_default=True, help="Documents a step."),
            click.option("--rate", default=0.01, show_default=True, help="Learning rate at the start."),
            click.option("--min-count", default=2, show_default=True, help="Words of fewer documents stay untrained."),
            click.option("--validation", default=0.1, show_default=True, help="Part of the documents held back."),
            click.option("--patience", default=3, show_default=True, help="Epochs without gain before it stops."),
            click.option("--seed", default=0, show_default=True),
            click.option("--resume", is_flag=True, help="Go on from DIR.checkpoint, if there is one."),
        )
    ):
        command = option(command)
    return command


@train.command("ro-boew")
@labelled
def ro_boew(file: str, out: str, vectors: str, resume: bool, **settings: Any) -> None:
    """Learn a bag of embedded words: as many dimensions as codewords."""
    import_torch()
    from resift.training.boew import RoBoewOptions

    _train(file, out, vectors, resume, RoBoewOptions(**settings))


@train.command("rn-bof")
@labelled
@click.option("--size", default=16, show_default=True, help="Dimensions of a vector.")
@click.option("--segments", default=1, show_default=True, help="Consecutive parts of a text, pooled separately.")
def rn_bof(file: str, out: str, vectors: str, resume: bool, **settings: Any) -> None:
    """Learn a neural bag of features: vectors of any size, whatever the number of codewords."""
    import_torch()
    from resift.training.rnbof import RnBofOptions

    _train(file, out, vectors, resume, RnBofOptions(**settings))


def _train(file: str, out: str, vectors: str, resume: bool, options: RoBoewOptions) -> None:
    from resift.evaluation.data import read_labelled
    from resift.training.supervised import train as run

    started = time.perf_counter()
    texts, labels = read_labelled(file)
    checkpoint = Path(f"{out.rstrip('/')}.checkpoint")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with bar_of("training") as progress:
        model, found = run(texts, labels, load_vectors(vectors), options, progress, checkpoint, resume)
    model.table = model.table.quantized()
    click.echo(
        f"{found['documents']} documents of {found['classes']} classes, {found['words']} words, "
        f"{found['epochs']} epochs, {time.perf_counter() - started:.0f} s"
    )
    if found["map11"]:
        click.echo(f"mAP of {found['held_back']} documents held back from a first training:")
        for name, value in found["map11"].items():
            click.echo(f"  {name:10}{100 * value:6.2f}")
    if found["better"] is False:
        click.echo(f"warning: no better than without training; nothing was written to {out}", err=True)
        checkpoint.unlink(missing_ok=True)
        sys.exit(3)
    model.save(out)
    checkpoint.unlink(missing_ok=True)
    click.echo(f"{model.name}, {model.dim} dimensions, hash {model.hash}, in {out}")
