"""``resift train self``: adapt word vectors to documents without labels, alone or before indexing them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from resift.cli.failures import NOT_RIGHT
from resift.cli.options import (
    fields_option,
    json_option,
    out_option,
    seed_option,
    vectors_option,
)
from resift.cli.output import print_report, progress_bar, saved_line, saved_model
from resift.cli.text_fields import CorpusTexts
from resift.encoders.model import Model
from resift.encoders.registry import build_model
from resift.ingest.readers import Files
from resift.lab.commands.settings import set_option
from resift.lab.training.options import AdaptOptions
from resift.lab.training.self_supervised import adapt
from resift.vectors.packaged import DEFAULT, load_vectors
from resift.vectors.table import WordVectors

_FEW_JUDGES = 20


@click.command("self", epilog="Example: resift train self --corpus corpus.jsonl --out own-model")
@click.option("--corpus", "files", required=True, multiple=True, metavar="FILE", help="Documents. May be repeated.")
@out_option
@vectors_option
@fields_option
@set_option(AdaptOptions, "seed")
@seed_option
@json_option
def self_command(
    files: tuple[str, ...],
    out: str,
    vectors: str,
    fields: list[str] | None,
    as_json: bool,
    seed: int,
    settings: dict[str, Any],
) -> None:
    """Adapt word vectors and their weights to your own documents; no labels are needed.

    A higher temperature suits broader subjects; with codewords=K a BoEW model is made.

    Part of the documents is held back to judge the result. If it is no better than the untrained vectors, nothing is
    written and the exit status is 3. Needs the extra 'adapt'.
    """
    source, options = Files(files), AdaptOptions(seed=seed, **settings)
    started = time.perf_counter()
    model = _adapted(list(CorpusTexts(source, fields, "reading")), load_vectors(vectors), options)
    found, better = model.table.info["adapted"], _is_better(model)
    saved = saved_model(model, out) if better else None
    lines = _found_lines(found, time.perf_counter() - started)
    if better:
        model.save(out)
        lines.append(saved_line(model, out))
    print_report({**found, "model": saved}, as_json, *lines)
    _warn(found)
    if not better:
        click.echo(f"warning: no better than the untrained vectors; nothing was written to {out}", err=True)
        sys.exit(NOT_RIGHT)


def adapt_files(files: Files, fields: Sequence[str], out: str | Path, vectors: str = DEFAULT) -> Model:
    """A model adapted to the documents of ``files`` and saved in the folder ``out``, for ``resift index --adapt``.

    If it is no better than the untrained vectors, a warning is printed and the untrained model is saved instead, so
    that ``out`` always holds the model to index with. ``files`` can be read again afterwards.
    """
    table = load_vectors(vectors)
    model = adapt_texts(list(CorpusTexts(files, fields, "reading")), table) or build_model("mean", table)
    # indexing reads the files again, and its progress bar starts from here
    files.position = 0
    model.save(out)
    return model


def adapt_texts(texts: Sequence[str], vectors: WordVectors) -> Model | None:
    """A model adapted to ``texts``; None, after a warning, if it is no better than the untrained ``vectors``."""
    started = time.perf_counter()
    model = _adapted(texts, vectors, AdaptOptions())
    found = model.table.info["adapted"]
    click.echo("\n".join(_found_lines(found, time.perf_counter() - started)), err=True)
    _warn(found)
    if _is_better(model):
        return model
    click.echo("warning: adapting made nothing better; the untrained vectors are used", err=True)
    return None


def _adapted(texts: Sequence[str], vectors: WordVectors, options: AdaptOptions) -> Model:
    with progress_bar("adapting") as progress:
        return adapt(texts, vectors, options, progress)


def _found_lines(found: dict[str, Any], seconds: float) -> list[str]:
    """What was found with the documents that were held back."""
    lines = [
        f"{found['documents']} documents, {found['words']} words, {seconds:.0f} s",
        f"{'':21}untrained  adapted   ({found['held_back']} documents held back; p {found['p']:.4f})",
    ]
    for name, key in (("mean reciprocal rank", "mrr"), ("found first", "accuracy")):
        lines.append(f"{name:21}{found[f'{key}_before']:9.3f}{found[f'{key}_after']:9.3f}")
    return lines


def _warn(found: dict[str, Any]) -> None:
    """Say where the documents that judge cannot tell whether, or how much, is gained."""
    if not found["better"]:
        return
    judges = f"{found['held_back']} documents"
    if found["p"] >= 0.05:
        click.echo(f"warning: the gain may be chance (p {found['p']:.2f}): {judges} are too few to tell", err=True)
    elif found["held_back"] < _FEW_JUDGES:
        click.echo(f"warning: {judges} are too few to tell how much was gained; train on more documents", err=True)


def _is_better(model: Model) -> bool:
    return bool(model.table.info["adapted"]["better"])
