"""The commands ``resift vectors`` and ``resift model``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np

from resift.cli.options import fields_option
from resift.cli.output import progress_bar
from resift.encoders.builders import build_model
from resift.encoders.model import MODEL_FILE
from resift.encoders.registry import load_model
from resift.encoders.tables import plain_mean_table, quantize_table
from resift.errors import BadInput
from resift.ingest.readers import Files
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift.vectors.table import WordVectors
from resift_lab.commands.corpus_texts import CorpusTexts
from resift_lab.commands.options import (
    WholeNumber,
    device_option,
    out_option,
    parse_weighted_name,
    parse_weighted_names,
    setting_option,
    vectors_option,
)
from resift_lab.commands.saved import saved_model_line
from resift_lab.commands.settings import set_option
from resift_lab.corpus import DocumentFrequencies
from resift_lab.training.device import Device
from resift_lab.training.distill import DistillOptions, distill, layer_vectors, read_words
from resift_lab.training.pairs import PairOptions, read_pairs, train_on_pairs
from resift_lab.training.refine import RefineOptions, draw_sentences, refine
from resift_lab.training.transformer import Transformer
from resift_lab.training.word2vec import train_word2vec
from resift_lab.vectors.convert import convert
from resift_lab.vectors.mixture import AGGREGATES, mix_vectors
from resift_lab.vectors.model2vec import write_model2vec

# Maximum number of words to distil, and of sentences for refinement and for training on pairs. The packaged table
# resift-en was made with the same limits.
_DISTILLED = 60_000
_SENTENCES = 100_000


@click.group(epilog="Example: resift vectors train corpus.jsonl --out own-vectors")
def vectors() -> None:
    """Train, convert, distil, mix, refine or export word vectors."""


def _document_frequencies(files: tuple[str, ...]) -> DocumentFrequencies | None:
    """Count in how many documents each word occurs.

    Args:
        files: The paths of files of documents.

    Returns:
        The document frequencies, or None if there are no files.
    """
    return DocumentFrequencies.from_texts(CorpusTexts(Files(files), None, "reading")) if files else None


def _save(table: WordVectors, out: str) -> None:
    table.save(out)
    click.echo(f"{len(table)} words of {table.dim} dimensions in {out}")


@vectors.command("train", epilog="Example: resift vectors train corpus.jsonl --set dim=100 --out own-vectors")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@fields_option
@set_option(train_word2vec)
@out_option
def train_command(files: tuple[str, ...], fields: list[str] | None, out: str, settings: dict[str, Any]) -> None:
    """Train word2vec on the texts of the documents in FILE.

    If you have few documents, use 'resift train self' instead, which adapts existing word vectors.

    Needs the extra 'lab'.
    """
    texts = CorpusTexts(Files(files), fields, "reading")
    _save(train_word2vec(texts, **settings), out)


@vectors.command("convert", epilog="Example: resift vectors convert glove.txt --limit 50000 --out glove")
@click.argument("file", metavar="FILE|DIR")
@setting_option(convert, "limit", "Read only the first words of the file, up to this number.", type=WholeNumber(1))
@click.option(
    "--corpus",
    "files",
    multiple=True,
    metavar="FILE",
    help="A file of documents whose words are added. May be repeated.",
)
@out_option
def convert_command(file: str, limit: int | None, files: tuple[str, ...], out: str) -> None:
    """Convert a file of word vectors, or the folder of a static model, to a table of word vectors.

    The argument is a FILE in the format of word2vec, GloVe or fastText, or the folder (DIR) of a static embedding
    model: a model of model2vec, or a sentence-transformers model with a StaticEmbedding. The vectors of a static model
    belong to word pieces.

    With --corpus, every word of the documents gets a vector: from fastText's subwords, which only its .bin format
    contains, or from the pieces of the word. Words that are a single piece in DIR always get a vector.

    Needs the extra 'lab'.
    """
    corpus = _document_frequencies(files)
    words = [word for word, _ in corpus.frequency.most_common()] if corpus else ()
    _save(convert(file, limit=limit, extra_words=words), out)


@vectors.command("export", epilog="Example: resift vectors export adapted --out static-model")
@click.argument("source", metavar="DIR")
@out_option
def export_command(source: str, out: str) -> None:
    """Export word vectors as a folder of model2vec, which sentence-transformers can also read.

    DIR is a folder with word vectors or with a model of the kind 'mean'. The name resift-en stands for the word vectors
    that come with Resift. Needs the extra 'lab'.
    """
    is_model = source == DEFAULT_MODEL or Path(source, MODEL_FILE).is_file()
    table = plain_mean_table(load_model(source)) if is_model else load_vectors(source)
    write_model2vec(table, out)
    click.echo(f"{len(table)} words of {table.dim} dimensions for model2vec in {out}")


@vectors.command("distill", epilog="Example: resift vectors distill MODEL --words words.txt --out distilled")
@click.argument("folder")
@click.option("--words", metavar="FILE", help="A file with a word on each line, most frequent first.")
@click.option(
    "--corpus",
    "files",
    multiple=True,
    metavar="FILE",
    help="A file of documents whose words are used. May be repeated.",
)
@setting_option(DistillOptions, "dim", "Number of dimensions of the word vectors.", type=WholeNumber(1))
@device_option
@out_option
def distill_command(
    folder: str,
    words: str | None,
    files: tuple[str, ...],
    device: Device,
    out: str,
    **settings: Any,
) -> None:
    """Distil word vectors from the sentence-transformers model in FOLDER. Needs the extra 'lab'.

    The model encodes each word separately. The words come from the documents of --corpus, most frequent first, and then
    from the list of --words. They may be in any language that the model knows. At most 60,000 words are used.
    """
    if words is None and not files:
        raise BadInput("distilling needs words", expected="--words, --corpus or both")
    corpus = _document_frequencies(files)
    corpus_words = [word for word, _ in corpus.frequency.most_common()] if corpus else []
    listed_words = [] if words is None else read_words(words)
    options, model = DistillOptions(limit=_DISTILLED, **settings), Transformer(folder, device)
    with progress_bar("distilling") as progress:
        table = distill(model, chain(corpus_words, listed_words), options, progress)
    _save(quantize_table(table), out)


def _parse_spelling(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, float] | None:
    """Parse the value of ``--spelling``, which adds vectors that are computed from the spelling of words.

    The value has the form ``DIM`` or ``DIM=WEIGHT``. This function is a click callback. ``context`` and ``parameter``
    are required by click and not used.

    Args:
        context: The context of the command.
        parameter: The option.
        value: The value from the command line, or None.

    Returns:
        The number of dimensions and the weight, or None if the option is not set.

    Raises:
        BadInput: If the value has another form.
    """
    if value is None:
        return None
    dim, weight = parse_weighted_name(value)
    if not dim.isdecimal():
        raise BadInput(f"--spelling is {value}", value=value, expected="DIM or DIM=WEIGHT")
    return int(dim), weight


@vectors.command("mix", epilog="Example: resift vectors mix resift-en=1 own-vectors=0.5 --out mixed")
@click.argument("sources", nargs=-1, required=True, metavar="DIR[@LAYER][=WEIGHT]...", callback=parse_weighted_names)
@click.option(
    "--corpus",
    "files",
    multiple=True,
    metavar="FILE",
    help="A file of documents, whose inverse document frequencies become the weights of words. May be repeated.",
)
@click.option("--words", metavar="FILE", help="A file with a word on each line, for vectors of hidden layers.")
@setting_option(
    mix_vectors,
    "aggregate",
    "How to combine the vectors of a word. 'sum' and 'average' need equal numbers of dimensions.",
    type=click.Choice(AGGREGATES),
)
@click.option(
    "--spelling",
    metavar="DIM[=WEIGHT]",
    callback=_parse_spelling,
    help="Add DIM dimensions that are computed from character n-grams, so that every word of the corpus has a vector.",
)
@device_option
@out_option
def mix_command(
    sources: list[tuple[str, float]],
    files: tuple[str, ...],
    words: str | None,
    aggregate: str,
    spelling: tuple[int, float] | None,
    device: Device,
    out: str,
) -> None:
    """Combine tables of word vectors, or hidden layers of a transformer, into a single table.

    The new vector of a word is the concatenation, sum or average of its vectors in all tables (EmBoost, Cakaloglu et
    al. 2022).

    DIR is a folder with word vectors. The name resift-en stands for the word vectors that come with Resift.
    DIR@LAYER is a hidden layer of the transformer in a sentence-transformers folder: 0 for its token embeddings, 1 for
    its first layer, -1 for its last. It reads the words of --corpus and --words one by one. WEIGHT scales the vectors
    of a table, and is 1 by default. Hidden layers and --spelling need the extra 'lab'.
    """
    corpus = _document_frequencies(files)
    corpus_words = [word for word, _ in corpus.frequency.most_common()] if corpus else []
    listed = [*corpus_words, *(() if words is None else read_words(words))]
    tables = _source_tables([name for name, _ in sources], listed, device)
    _save(mix_vectors(tables, [weight for _, weight in sources], aggregate, corpus, spelling), out)


def _source_tables(names: Sequence[str], words: Sequence[str], device: Device) -> list[WordVectors]:
    """Load the sources of a mixture. The layers of a transformer are computed in a single pass over the words.

    Args:
        names: The name of each source: a folder of word vectors, ``resift-en``, or ``DIR@LAYER``.
        words: The words for which the layers of transformers are computed.
        device: The device of transformers.

    Returns:
        The table of each source.

    Raises:
        BadInput: If there are no words for the layers of a transformer.
    """
    layers = [_parse_layer(name) for name in names]
    by_folder: dict[str, dict[int, WordVectors]] = {}
    for folder in dict.fromkeys(layer[0] for layer in layers if layer):
        if not words:
            raise BadInput(f"the layers of {folder} need words", value=folder, expected="--corpus, --words or both")
        numbers = list(dict.fromkeys(layer[1] for layer in layers if layer and layer[0] == folder))
        model = Transformer(folder, device)
        with progress_bar("reading words") as progress:
            tables = layer_vectors(model, words, numbers, progress)
            by_folder[folder] = dict(zip(numbers, tables, strict=True))
    return [
        load_vectors(name) if layer is None else by_folder[layer[0]][layer[1]]
        for name, layer in zip(names, layers, strict=True)
    ]


def _parse_layer(name: str) -> tuple[str, int] | None:
    """Parse ``DIR@LAYER``. Return the folder and the number of the layer, or None for other names."""
    folder, at, layer = name.rpartition("@")
    return (folder, int(layer)) if at and re.fullmatch(r"-?\d{1,4}", layer) else None


@vectors.command("refine", epilog="Example: resift vectors refine MODEL corpus.jsonl --out refined")
@click.argument("folder")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@vectors_option
@fields_option
@device_option
@out_option
def refine_command(
    folder: str,
    files: tuple[str, ...],
    vectors: str,
    fields: list[str] | None,
    device: Device,
    out: str,
) -> None:
    """Train word vectors to imitate the sentence vectors of the sentence-transformers model in FOLDER.

    Vectors and weights of words are trained so that the weighted mean of a sentence's words is close to the model's
    vector of the sentence. Up to 100,000 sentences are drawn from the documents in FILE. If there are several files,
    the same number is drawn from each file, unless a file has fewer sentences. Needs the extra 'lab'.
    """
    texts = [CorpusTexts(Files([file]), fields) for file in files]
    start, model = load_vectors(vectors), Transformer(folder, device)
    with progress_bar("refining") as progress:
        table = refine(start, model, texts, RefineOptions(limit=_SENTENCES), progress)
    _save(quantize_table(table), out)


@vectors.command("pairs", epilog="Example: resift vectors pairs questions.jsonl --out trained")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@vectors_option
@click.option("--teacher", metavar="DIR", help="Folder of a sentence-transformers model to learn from.")
@click.option(
    "--sentences",
    "sentence_files",
    multiple=True,
    metavar="FILE",
    help="A file of documents whose sentences keep their vectors (default: the documents of FILE). May be repeated.",
)
@set_option(PairOptions)
@device_option
@out_option
def pairs_command(
    files: tuple[str, ...],
    vectors: str,
    teacher: str | None,
    sentence_files: tuple[str, ...],
    device: Device,
    out: str,
    settings: dict[str, Any],
) -> None:
    """Train word vectors for retrieval on pairs of a query and a document that answers it.

    Each line of a FILE contains a pair: {"query": "...", "document": "..."}, for example a title and its text, or a
    question and its answer. Each FILE is a source of its own: a query learns to find its document among the documents
    of the same source. Up to 100,000 sentences of --sentences stay close to their vectors before the training, so that
    comparisons of sentences hardly suffer.

    With --teacher, words of the pairs that have no vector get one if they occur in at least 'min_count' texts and, if
    there are several FILEs, in two of them. The vectors of queries and of the beginnings of documents also move towards
    the teacher's vectors, with the weight 'passage_weight'. Needs the extra 'lab'.
    """
    options = PairOptions(**settings)
    sources = [read_pairs(file) for file in files]
    texts: list[Iterable[str]] = [CorpusTexts(Files([file]), None) for file in sentence_files]
    texts = texts or [[document for _, document in source] for source in sources]
    anchors = draw_sentences(texts, _SENTENCES, np.random.default_rng(options.seed)) if options.sentence_weight else []
    start, model = load_vectors(vectors), None if teacher is None else Transformer(teacher, device)
    with progress_bar("training on pairs") as progress:
        table = train_on_pairs(start, sources, anchors, options, model, progress)
    _save(quantize_table(table), out)


@click.command("model", epilog="Example: resift model boew:64 --out boew")
@click.argument("encoder")
@vectors_option
@out_option
def build(encoder: str, vectors: str, out: str) -> None:
    """Create a model from word vectors without training.

    ENCODER is 'mean' (weighted mean of word vectors), 'sfbow' or 'sfbow:UNIVERSE' (static fuzzy bag of words), or
    'boew:K' or 'boew:K,SIGMA' (bag of embedded words with K codewords of the width SIGMA).
    """
    model = build_model(encoder, load_vectors(vectors))
    model.save(out)
    click.echo(saved_model_line(model, out))
