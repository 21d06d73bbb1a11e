"""``resift encode``: documents as a matrix of vectors, for tools of one's own."""

from __future__ import annotations

import sys

import click
import numpy as np

from resift.cli.failures import NOT_RIGHT
from resift.cli.lab.corpus_texts import CorpusTexts
from resift.cli.options import fields_option, format_option, json_option, model_option
from resift.cli.output import print_report
from resift.cli.paths import NewFile
from resift.encoders.registry import load_model
from resift.files import replaced
from resift.ingest.readers import Files


@click.command(epilog="Example: resift encode corpus.jsonl --out vectors.npy")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--out", required=True, type=NewFile(), metavar="FILE.npy", help="File to write the float32 matrix to.")
@fields_option
@format_option
@model_option
@json_option
def encode(
    files: tuple[str, ...],
    out: str,
    fields: list[str] | None,
    format_: str | None,
    model: str,
    as_json: bool,
) -> None:
    """Encode documents into a NumPy file, a row for each document.

    The exit status is 3 if lines held no document: they have no row.
    """
    encoder = load_model(model)
    texts = CorpusTexts(Files(files, format_), fields, "encoding")
    matrix = np.concatenate([np.zeros((0, encoder.dim), np.float32), *encoder.encode_batches(texts)])
    with replaced(out) as file:
        np.save(file, matrix)
    report = {"vectors": len(matrix), "dim": encoder.dim, "file": out, "left_out": texts.left_out}
    print_report(report, as_json, f"{len(matrix)} vectors of {encoder.dim} dimensions in {out}")
    if texts.left_out:
        sys.exit(NOT_RIGHT)
