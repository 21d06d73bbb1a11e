"""``resift train queries``: static queries for documents whose vectors a transformer has made."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from resift.arrays import Floats
from resift.cli.options import checked_address, fields_option, json_option
from resift.cli.output import print_report, progress_bar
from resift.encoders.queries import StaticQueries
from resift.errors import BadInput
from resift.ingest.readers import Files
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.attachment import targets
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_vectors import guessed_fields, sampled_sources
from resift.plugin.operations.install import open_cluster
from resift.query.dsl import document_text
from resift.vectors.packaged import load_vectors
from resift_lab.commands.corpus_texts import CorpusTexts
from resift_lab.commands.options import out_option, vectors_option
from resift_lab.commands.saved import saved_line, saved_model
from resift_lab.commands.settings import set_option
from resift_lab.training.deployed import embed
from resift_lab.training.options import QueryOptions
from resift_lab.training.queries import EncodedDocuments, train_queries
from resift_lab.training.teachers import Teacher, endpoint_teacher, folder_teacher

DEPLOYED = "opensearch:"
_SAMPLE = 10_000  # documents of an index that are learned from, as many as a search gives


@click.command(
    "queries", epilog="Example: resift train queries --index products --field embedding --teacher DIR --out queries"
)
@click.option("--corpus", "files", multiple=True, metavar="FILE", help="Documents. May be repeated.")
@click.option("--index", metavar="INDEX", help="In place of --corpus: an index whose documents have vectors.")
@click.option("--field", metavar="NAME", help="With --index: the knn_vector field that the vectors are in.")
@click.option(
    "--teacher",
    required=True,
    metavar="DIR|URL|ID",
    help="The model that makes the documents' vectors: a sentence-transformers folder; an endpoint in OpenAI's shape, "
    "as https://host/v1, whose key RESIFT_TEACHER_KEY holds; or opensearch:ID, a model deployed in the cluster.",
)
@click.option("--teacher-model", metavar="NAME", help="The model to ask an endpoint for.")
@click.option("--prefix", default="", metavar="TEXT", help='What the teacher wants before a query, as "query: ".')
@out_option
@vectors_option
@fields_option
@set_option(QueryOptions)
@click.option(
    "--engine",
    "url",
    envvar=["OPENSEARCH_URL", "RESIFT_ENGINE"],
    show_envvar=True,
    metavar="URL",
    callback=lambda context, parameter, value: value and checked_address(context, parameter, value),
    help="The cluster of --index and of a deployed teacher.",
)
@json_option
def queries_command(out: str, as_json: bool, **asked: Any) -> None:
    """Learn queries for documents that have a transformer's vectors, so that no search needs the transformer.

    The teacher, the model that made the vectors, is given words and parts of the documents once. What it answers is
    kept in OUT.teacher, so that a training that was interrupted goes on. With --index the documents' own vectors are
    learned from too; resift attach INDEX --vectors --model OUT then searches by them.

    Part of the documents is held back to judge. If training made it worse, the words stay as the teacher sees each by
    itself. It chooses the vectors' weight in searches too, 0 where these are no better. Needs the extra
    'lab'.
    """
    started, memory = time.perf_counter(), Path(f"{out.rstrip('/')}.teacher")
    model = _learned(memory=memory, **asked)
    found = model.table.info["taught"]
    lines = _found_lines(found, time.perf_counter() - started)
    model.save(out)
    shutil.rmtree(memory, ignore_errors=True)
    print_report({**found, "model": saved_model(model, out)}, as_json, *lines, saved_line(model, out))
    if not model.alpha:
        click.echo(
            "warning: searches are no better with these vectors, which weigh nothing without a session", err=True
        )
    if found["worse"]:
        click.echo("warning: training made it worse; the teacher's vectors of single words are used", err=True)


def _learned(
    memory: Path,
    files: tuple[str, ...],
    index: str | None,
    field: str | None,
    teacher: str,
    teacher_model: str | None,
    prefix: str,
    vectors: str,
    fields: list[str] | None,
    url: str | None,
    settings: dict[str, Any],
) -> StaticQueries:
    if bool(files) == bool(index):
        found = f"--corpus and --index {index}" if index else "no documents"
        raise BadInput(found, expected="--corpus FILE, or --index INDEX")
    if (index is None) != (field is None):
        found = f"--field {field} without --index" if index is None else f"--index {index} without --field"
        raise BadInput(found, expected="both, or neither")
    options, table = QueryOptions(**settings), load_vectors(vectors)
    with ExitStack() as stack:
        engine = stack.enter_context(_opened(url)) if index or teacher.startswith(DEPLOYED) else None
        encode, name = _encoder(teacher, engine, teacher_model)
        if engine is None or index is None:
            texts, documents = list(CorpusTexts(Files(files), fields, "reading")), None
        else:
            texts, documents = _indexed(engine, index, str(field), fields)
        with progress_bar("learning", "texts") as progress:
            taught = Teacher(name, encode, memory, prefix)
            return train_queries(EncodedDocuments(texts, documents, field), taught, table, options, progress)


def _opened(url: str | None) -> AbstractContextManager[OpenSearchEngine]:
    if url is None:
        raise BadInput("no cluster", expected="--engine URL, or OPENSEARCH_URL")
    return closing(open_cluster(url))


def _encoder(
    name: str, engine: OpenSearchEngine | None, model: str | None
) -> tuple[Callable[[Sequence[str]], Floats], str]:
    """What encodes the texts of a call, and the teacher's name."""
    if name.startswith(DEPLOYED) and engine is not None:
        return partial(embed, Cluster(engine), name.removeprefix(DEPLOYED)), name
    if name.startswith(("http://", "https://")):
        address = without_credentials(name)  # which errors quote; the key is how one is let in
        return endpoint_teacher(
            address, model, os.environ.get("RESIFT_TEACHER_KEY")
        ), f"{address} {model}" if model else address
    return folder_teacher(name), str(Path(name).resolve())


def _indexed(
    engine: OpenSearchEngine, index: str, field: str, fields: Sequence[str] | None
) -> tuple[list[str], Floats]:
    """Texts of documents that an index has vectors of, some thousands drawn by chance, and these (N, D)."""
    target, *_ = targets(Cluster(engine), index)
    if target.fields.get(field) != "knn_vector":
        names = [name for name, kind in target.fields.items() if kind == "knn_vector"]
        message = f"index {index!r} has no knn_vector field {field!r}"
        raise BadInput(message, value=field, expected=", ".join(names) or "an index with vectors")
    chosen = fields or guessed_fields(target, sampled_sources(engine, target))
    if fields is None:
        click.echo(f"text fields: {', '.join(chosen)} (by some documents; --fields overrules)", err=True)
    found = engine.sample(index, _SAMPLE, list(chosen), field)
    held = [
        (document_text(hit["_source"], chosen), vector)
        for hit, vector in zip(found.hits, found.vectors, strict=True)
        if vector is not None
    ]
    if not held:
        raise BadInput(f"no document of {index!r} has a vector in {field!r}", value=field, expected="vectors to learn")
    texts, vectors = zip(*held, strict=True)
    return list(texts), np.stack(vectors)


def _found_lines(found: dict[str, Any], seconds: float) -> list[str]:
    """What was found with the documents that were held back."""
    heads = ("untrained", "trained", "teacher")
    figures = "".join(f"{found[f'mrr_{key}']:11.3f}" for key in ("before", "after", "teacher"))
    return [
        f"{found['documents']} documents, {found['texts']} texts, {found['words']} words, {seconds:.0f} s",
        f"{'':21}{''.join(f'{head:>11}' for head in heads)}   ({found['held_back']} documents held back; "
        f"p {found['p']:.4f})",
        f"{'mean reciprocal rank':21}{figures}",
        f"cosine with the teacher's own queries, less their mean: {found['cosine']:.3f}",
        f"weight of these vectors in searches (alpha) {found['alpha']:.2f}: {found['why']}",
    ]
