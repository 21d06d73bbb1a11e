"""The command group ``resift train``, with the trainings on labelled documents."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.cli.lazy import LazyGroup
from resift.cli.options import combine_options
from resift.cli.output import progress_bar
from resift.encoders.bags import check_bag_field
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.encoders.tables import quantize_table
from resift.errors import needs_extra
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift_lab.commands.options import checkpoint_path, out_option, seed_option, setting_option, vectors_option
from resift_lab.commands.saved import saved_model_line
from resift_lab.commands.settings import set_option
from resift_lab.evaluation.data import read_labelled_texts
from resift_lab.training.options import BagOptions, ClassOptions, RnBofOptions, RoBoewOptions
from resift_lab.training.progress import Progress

_COMMANDS = {
    "self": "resift_lab.commands.train_self:self_command",
    "queries": "resift_lab.commands.train_queries:queries_command",
    "reranker": "resift_lab.commands.train_judged:reranker_command",
    "emboost": "resift_lab.commands.train_judged:emboost_command",
    "word2doc": "resift_lab.commands.word2doc:train_command",
}


@click.group(
    cls=LazyGroup, locations=_COMMANDS, epilog="Example: resift train self --corpus corpus.jsonl --out own-model"
)
def train() -> None:
    """Train encoders and rerankers on your own documents.

    To continue an interrupted training, run the same command again. The commands 'ro-boew', 'rn-bof' and 'word2doc'
    save their state in the file OUT.checkpoint, where OUT is the value of --out. The command 'queries' saves the
    vectors of the teacher (the model to learn from) in OUT.teacher.

    Needs the extra 'lab'.
    """


labelled_options = combine_options(
    click.option(
        "--train",
        "file",
        required=True,
        metavar="FILE",
        help="A file of JSON lines, plain or gzip, with the fields 'text' and 'label'. A label is the name of a class, "
        "or an object of classes with weights.",
    ),
    out_option,
    vectors_option,
    seed_option,
)


@train.command("ro-boew", epilog="Example: resift train ro-boew --train labelled.jsonl --out own-model")
@setting_option(RoBoewOptions, "codewords", "Number of codewords.")
@set_option(RoBoewOptions, "codewords", "seed")
@labelled_options
def ro_boew(settings: dict[str, Any], codewords: int, seed: int, **files: Any) -> None:
    """Train a bag of embedded words (RO-BoEW) on labelled documents.

    The vector of a text has as many dimensions as there are codewords. The model is written only if documents with the
    same label are closer to each other than with untrained vectors. Otherwise the exit status is 3.
    """
    _train_labelled(RoBoewOptions(codewords=codewords, seed=seed, **settings), **files)


@train.command("rn-bof", epilog="Example: resift train rn-bof --train labelled.jsonl --size 32 --out own-model")
@setting_option(RnBofOptions, "size", "Number of dimensions of a document's vector.")
@click.option(
    "--bags",
    is_eager=True,
    metavar="FIELD",
    help="Encode the bags of vectors in this field, such as the patches of images, instead of texts. A bag is a list "
    "of vectors, or a list of such lists: one list for each region of the document.",
)
@set_option(RnBofOptions, "size", "seed", alternative=("--bags", BagOptions))
@labelled_options
def rn_bof(settings: dict[str, Any], size: int, bags: str | None, seed: int, file: str, out: str, vectors: str) -> None:
    """Train a neural bag of features (RN-BoF), a model that encodes texts or bags of vectors, on labelled documents.

    The vectors of the documents may have any number of dimensions. The model is written only if documents with the same
    label are closer to each other than with untrained vectors. Otherwise the exit status is 3.

    A training on bags does not use --vectors, and starts again if it was interrupted.
    """
    if bags is None:
        _train_labelled(RnBofOptions(size=size, seed=seed, **settings), file, out, vectors)
    else:
        _train_bags(BagOptions(size=size, seed=seed, **settings), file, out, bags)


@train.command("classes", epilog="Example: resift train classes --train labelled.jsonl --model adapted --out own-model")
@click.option(
    "--train",
    "file",
    required=True,
    metavar="FILE",
    help="A file of JSON lines, plain or gzip, with the fields 'text' and 'label'.",
)
@click.option(
    "--model",
    metavar="DIR",
    default=DEFAULT_MODEL,
    show_default=True,
    help="A model that averages word vectors, such as 'resift train self' writes.",
)
@out_option
@set_option(ClassOptions, "seed")
@seed_option
def classes(settings: dict[str, Any], file: str, model: str, out: str, seed: int) -> None:
    """Train an encoder of class probabilities on few labelled documents.

    The vector of a text contains the probability of each class. A linear classifier of words and a linear classifier of
    the vectors of --model are combined. Adapt this model to all documents before, with 'resift train self': a few
    labels are then enough. The model is written only if documents with the same label are closer to each other than
    with the vectors of --model. Otherwise the exit status is 3.
    """
    with needs_extra("lab", "training"):
        from resift_lab.training.classes import train_classes

    texts, labels = read_labelled_texts(file)
    encoder, options = load_model(model), ClassOptions(seed=seed, **settings)
    _train_and_save(lambda progress: train_classes(texts, labels, encoder, options, progress), True, out)


def _train_labelled(options: RoBoewOptions, file: str, out: str, vectors: str) -> None:
    """Train an encoder of texts on a file of labelled documents, and save it.

    Args:
        options: The settings of the training.
        file: The path of the file with the documents and their labels.
        out: The folder to save the model in.
        vectors: The name or folder of the word vectors to start from.
    """
    with needs_extra("lab", "training"):
        from resift_lab.training.supervised import train_on_labels

    texts, labels = read_labelled_texts(file)
    checkpoint = checkpoint_path(out)

    def training(progress: Progress) -> tuple[Model, dict[str, Any]]:
        model, summary = train_on_labels(texts, labels, load_vectors(vectors), options, progress, checkpoint)
        model.table = quantize_table(model.table)
        return model, summary

    _train_and_save(training, options.validation > 0, out, checkpoint)


def _train_bags(options: BagOptions, file: str, out: str, field: str) -> None:
    """Train an encoder of bags of vectors on a file of labelled documents, and save it.

    A bag is the list of vectors of a document, for example of the patches of an image.

    Args:
        options: The settings of the training.
        file: The path of the file with the documents and their labels.
        out: The folder to save the model in.
        field: The name of the field of a document that contains its bag.
    """
    with needs_extra("lab", "training"):
        from resift_lab.training.bags import read_labelled_bags, train_bags

    check_bag_field(field)
    bags, labels = read_labelled_bags(file, field)
    _train_and_save(lambda progress: train_bags(bags, labels, field, options, progress), options.validation > 0, out)


def _train_and_save(
    training: Callable[[Progress], tuple[Model, dict[str, Any]]],
    validates: bool,
    out: str,
    checkpoint: Path | None = None,
) -> None:
    """Run a training, print its result, and save the model if training improved it.

    If training did not improve the model, nothing is saved, and the command exits with status 3.

    Args:
        training: A function that trains a model, and returns it with a summary of the training. Its argument is called
            with the progress.
        validates: Whether documents should be held out to evaluate the training.
        out: The folder to save the model in.
        checkpoint: The file with the state of the training, which is removed in the end.
    """
    started = time.perf_counter()
    with progress_bar("training") as progress:
        model, summary = training(progress)
    saved = _save_if_better(model, summary, out, time.perf_counter() - started)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    _warn_and_exit(summary, validates, out, saved)


def _save_if_better(model: Model, summary: dict[str, Any], out: str, seconds: float) -> bool:
    """Print the result of a training, and save the model unless it is no better than untrained vectors.

    Args:
        model: The trained model.
        summary: The summary of the training.
        out: The folder to save the model in.
        seconds: The duration of the training.

    Returns:
        Whether the model was saved.
    """
    lines = _summary_lines(summary, seconds)
    # "better" is None if no document was held out for evaluation. The model is saved in this case, too.
    save = summary["better"] is not False
    if save:
        model.save(out)
        lines.append(saved_model_line(model, out))
    click.echo("\n".join(lines))
    return save


def _warn_and_exit(summary: dict[str, Any], validates: bool, out: str, saved: bool) -> None:
    """Print warnings about a finished training, and exit with status 3 if the model was not saved.

    A warning is printed if the training could not be evaluated, and if the model was not saved.

    Args:
        summary: The summary of the training.
        validates: Whether documents should be held out to evaluate the training.
        out: The folder of the model.
        saved: Whether the model was saved.
    """
    if validates and summary["better"] is None:
        click.echo("warning: no class has two documents, so none was held out to evaluate the training", err=True)
    if not saved:
        click.echo(f"warning: no better than without training; nothing was written to {out}", err=True)
        sys.exit(PROBLEMS_FOUND)


def _summary_lines(summary: dict[str, Any], seconds: float) -> list[str]:
    counts = [f"{summary['documents']} documents of {summary['classes']} classes"]
    counts += [f"{summary[name]} {name}" for name in ("words", "regions") if name in summary]
    counts += [f"{summary['epochs']} epochs"] if "epochs" in summary else []
    lines = [f"{', '.join(counts)}, {seconds:.0f} s"]
    if "temperature" in summary:
        lines.append(f"weight of the vectors {summary['weight']:g}, temperature {summary['temperature']:g}")
    if summary["map11"]:
        how = " held out from a first training" if "epochs" in summary else ", each held out from a training"
        lines.append(f"mAP of {summary['held_out']} documents{how}:")
        lines += [f"  {name:10}{100 * value:6.2f}" for name, value in summary["map11"].items()]
    return lines
