"""The command ``resift train queries``."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from resift.cli.options import checked_address, fields_option, json_option
from resift.cli.output import print_report, progress_bar
from resift.encoders.queries import StaticQueries
from resift.errors import BadInput
from resift.ingest.readers import Files
from resift.plugin.addresses import without_credentials
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.target_index import find_targets
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.index_plan import guess_text_fields, sample_sources
from resift.plugin.operations.install import open_cluster
from resift.query.dsl import document_text
from resift.vectors.packaged import load_vectors
from resift_lab.commands.corpus_texts import CorpusTexts
from resift_lab.commands.options import device_option, out_option, vectors_option
from resift_lab.commands.saved import describe_saved_model, saved_model_line
from resift_lab.commands.settings import set_option
from resift_lab.training.deployed import embed_texts
from resift_lab.training.device import Device
from resift_lab.training.options import QueryOptions
from resift_lab.training.queries import EncodedDocuments, train_queries
from resift_lab.training.teachers import CALL, GPU_CALL, Encode, Teacher, endpoint_teacher, folder_teacher

# Prefix of a --teacher that is deployed in the cluster.
DEPLOYED = "opensearch:"
# Number of documents of an index to train on. A search cannot return more.
_SAMPLE = 10_000


@click.command(
    "queries", epilog="Example: resift train queries --index products --field embedding --teacher DIR --out queries"
)
@click.option("--corpus", "files", multiple=True, metavar="FILE", help="A file of documents. May be repeated.")
@click.option("--index", metavar="INDEX", help="An index whose documents have vectors, instead of --corpus.")
@click.option("--field", metavar="NAME", help="The knn_vector field with the vectors of the documents of --index.")
@click.option(
    "--teacher",
    required=True,
    metavar="DIR|URL|ID",
    help="The model that encodes the documents: the folder of a sentence-transformers model; the base URL of an "
    "endpoint in the format of OpenAI's API, for example https://host/v1, with its key in RESIFT_TEACHER_KEY; or "
    "opensearch:ID, a model that is deployed in the cluster.",
)
@click.option("--teacher-model", metavar="NAME", help="The name of the model, if the endpoint has several.")
@click.option(
    "--prefix",
    default="",
    metavar="TEXT",
    help="A text that the teacher expects before each query, for example 'query: '.",
)
@out_option
@vectors_option
@fields_option
@set_option(QueryOptions)
@device_option
@click.option(
    "--engine",
    "url",
    envvar=["OPENSEARCH_URL", "RESIFT_ENGINE"],
    show_envvar=True,
    metavar="URL",
    callback=lambda context, parameter, value: value and checked_address(context, parameter, value),
    help="The cluster with --index or with the deployed teacher.",
)
@json_option
def queries_command(out: str, as_json: bool, **options: Any) -> None:
    """Train static queries for documents that have a transformer's vectors, so that searches need no transformer.

    Static queries are word vectors, whose weighted mean is the vector of a query. They are trained to imitate the
    teacher, the transformer that encoded the documents. The teacher encodes words and passages of the documents once.
    Its vectors are cached in OUT.teacher, so that an interrupted training can continue. With --index, the documents'
    own vectors are used as well. Then 'resift attach INDEX --vectors --model OUT' lets searches use the trained model.

    A part of the documents is held out for evaluation. If training makes the result worse, the teacher's vectors of
    single words are used unchanged. The held-out documents also choose the weight of the vectors in searches, which is
    0 if searches with the vectors are not better. Needs the extra 'lab'.
    """
    started, cache = time.perf_counter(), Path(f"{out.rstrip('/')}.teacher")
    model = _train(_QueryTrainingOptions(**options), cache)
    evaluation = model.table.info["taught"]
    lines = _report_lines(evaluation, time.perf_counter() - started)
    model.save(out)
    shutil.rmtree(cache, ignore_errors=True)
    print_report(
        {**evaluation, "model": describe_saved_model(model, out)}, as_json, *lines, saved_model_line(model, out)
    )
    if not model.alpha:
        click.echo(
            "warning: searches are no better with these vectors, so their weight without a session is 0", err=True
        )
    if evaluation["worse"]:
        click.echo("warning: training made the result worse; the teacher's vectors of single words are used", err=True)


@dataclass(frozen=True)
class _QueryTrainingOptions:
    """The options of ``resift train queries``: the documents, the teacher model and the settings of the training."""

    files: tuple[str, ...]
    index: str | None
    field: str | None
    teacher: str
    teacher_model: str | None
    prefix: str
    vectors: str
    fields: list[str] | None
    url: str | None
    device: Device
    settings: dict[str, Any]

    def check(self) -> None:
        """Check that the user named the source of the documents: files, or an index and its vector field.

        Raises:
            BadInput: If neither files nor an index are set, if both are set, or if only one of the options ``--index``
                and ``--field`` is set.
        """
        if bool(self.files) == bool(self.index):
            problem = f"--corpus and --index {self.index} are both set" if self.index else "there are no documents"
            raise BadInput(problem, expected="--corpus FILE, or --index INDEX")
        if (self.index is None) != (self.field is None):
            problem = f"--field {self.field} is set without --index"
            if self.index is not None:
                problem = f"--index {self.index} is set without --field"
            raise BadInput(problem, expected="both --index and --field, or neither")


def _train(options: _QueryTrainingOptions, cache: Path) -> StaticQueries:
    """Open the teacher, read the documents, and train static queries: word vectors that imitate the teacher.

    Args:
        options: The options of ``resift train queries``.
        cache: The folder in which the teacher's vectors are stored, so that an interrupted training can continue.

    Returns:
        The trained model.
    """
    options.check()
    settings, table = QueryOptions(**options.settings), load_vectors(options.vectors)
    with ExitStack() as stack:
        needs_cluster = options.index is not None or options.teacher.startswith(DEPLOYED)
        engine = stack.enter_context(_opened(options.url)) if needs_cluster else None
        teacher = _open_teacher(options, engine, cache)
        if engine is None or options.index is None:
            texts = list(CorpusTexts(Files(options.files), options.fields, "reading"))
            documents = EncodedDocuments(texts)
        else:
            documents = _read_index(engine, options.index, str(options.field), options.fields)
        with progress_bar("learning", "texts") as progress:
            return train_queries(documents, teacher, table, settings, progress)


def _opened(url: str | None) -> AbstractContextManager[OpenSearchEngine]:
    if url is None:
        raise BadInput("no cluster is set", expected="--engine URL, or OPENSEARCH_URL")
    return closing(open_cluster(url))


def _open_teacher(options: _QueryTrainingOptions, engine: OpenSearchEngine | None, cache: Path) -> Teacher:
    """Open the teacher, the model whose vectors are imitated. Its name contains no credentials.

    Args:
        options: The options of ``resift train queries``. The teacher is the folder of a model, the URL of an endpoint,
            or ``opensearch:ID`` for a model that is deployed in a cluster.
        engine: The cluster, or None if the teacher is not deployed in a cluster.
        cache: The folder in which the teacher's vectors are stored.
    """
    name, model, call = options.teacher, options.teacher_model, CALL
    if name.startswith(DEPLOYED) and engine is not None:
        encode: Encode = partial(embed_texts, Cluster(engine), name.removeprefix(DEPLOYED))
    elif name.startswith(("http://", "https://")):
        # Errors quote the address, so it must not contain credentials. The endpoint is authenticated by the key.
        address = without_credentials(name)
        encode = endpoint_teacher(address, model, os.environ.get("RESIFT_TEACHER_KEY"))
        name = f"{address} {model}" if model else address
    else:
        encode, name = folder_teacher(name, options.device), str(Path(name).resolve())
        call = GPU_CALL if options.device.is_gpu else CALL
    return Teacher(name, encode, cache, options.prefix, call)


def _read_index(engine: OpenSearchEngine, index: str, field: str, fields: Sequence[str] | None) -> EncodedDocuments:
    """Read a random sample of documents with their vectors from an index.

    Args:
        engine: The cluster.
        index: The name of the index.
        field: The ``knn_vector`` field with the vectors.
        fields: The names of the text fields. If None, they are guessed from some documents and printed.

    Returns:
        The texts and vectors of the documents in the sample that have a vector.

    Raises:
        BadInput: If ``field`` is not a ``knn_vector`` field, or no document has a vector in it.
    """
    target, *_ = find_targets(Cluster(engine), index)
    if target.field_types.get(field) != "knn_vector":
        names = [name for name, kind in target.field_types.items() if kind == "knn_vector"]
        message = f"index {index!r} has no knn_vector field {field!r}"
        raise BadInput(message, value=field, expected=", ".join(names) or "an index with vectors")
    chosen = fields or guess_text_fields(target, sample_sources(engine, target))
    if fields is None:
        click.echo(f"text fields: {', '.join(chosen)} (by some documents; --fields overrules)", err=True)
    sample = engine.sample(index, _SAMPLE, list(chosen), field)
    texts, vectors = [], []
    for hit, vector in zip(sample.hits, sample.vectors, strict=True):
        if vector is not None:
            texts.append(document_text(hit["_source"], chosen))
            vectors.append(vector)
    if not texts:
        raise BadInput(
            f"no document of {index!r} has a vector in {field!r}", value=field, expected="a field with vectors"
        )
    return EncodedDocuments(texts, np.stack(vectors), field)


def _report_lines(evaluation: dict[str, Any], seconds: float) -> list[str]:
    """Describe the result of a training run in lines of text.

    Args:
        evaluation: The evaluation that training has stored in the model, as ``model.table.info["taught"]``.
        seconds: The duration of the training.
    """
    heads = ("untrained", "trained", "teacher")
    values = "".join(f"{evaluation[f'mrr_{key}']:11.3f}" for key in ("before", "after", "teacher"))
    held_out = f"({evaluation['held_out']} documents held out; p {evaluation['p']:.4f})"
    return [
        f"{evaluation['documents']} documents, {evaluation['texts']} texts, {evaluation['words']} words, "
        f"{seconds:.0f} s",
        f"{'':21}{''.join(f'{head:>11}' for head in heads)}   {held_out}",
        f"{'mean reciprocal rank':21}{values}",
        f"cosine with the teacher's queries, after subtracting the mean: {evaluation['cosine']:.3f}",
        f"weight of these vectors in searches (alpha) {evaluation['alpha']:.2f}: {evaluation['why']}",
    ]
