"""Training of word2vec vectors with gensim."""

from __future__ import annotations

from collections.abc import Iterable

from resift.encoders.tables import build_table
from resift.errors import BadInput, needs_extra
from resift.text import tokenize
from resift.vectors.table import WordVectors


def train_word2vec(
    texts: Iterable[str],
    dim: int = 100,
    epochs: int = 5,
    min_count: int = 5,
    weighting: str = "zipf",
    seed: int = 0,
) -> WordVectors:
    """Train word2vec vectors (skip-gram with ten negative samples) on a corpus.

    Training runs in a single thread, so that the same seed gives the same vectors.

    Args:
        texts: The texts of the corpus.
        dim: The number of dimensions.
        epochs: The number of passes over the texts.
        min_count: The minimum frequency of a word that is trained, counted over all texts.
        weighting: The name of the formula that computes word weights from frequency ranks, see
            :func:`resift.encoders.tables.weights_by_rank`.
        seed: The seed of the training.

    Returns:
        A table of the trained words, most frequent first.

    Raises:
        BadInput: If no word is frequent enough, or a number is less than 1.
        MissingExtra: If gensim is not installed.

    Source:
        Mikolov et al. 2013.
    """
    for name, value in (("dim", dim), ("epochs", epochs), ("min_count", min_count)):
        if value < 1:
            raise BadInput(f"{name} is {value}", value=value, expected="1 or more")
    with needs_extra("lab", "Training word2vec"):
        from gensim.models import Word2Vec

    sentences = [words for words in map(tokenize, texts) if words]
    if not sentences:
        raise BadInput("the corpus contains no word", expected="texts with words")
    model = Word2Vec(
        vector_size=dim,
        epochs=epochs,
        min_count=min_count,
        sg=1,
        seed=seed,
        workers=1,
        sample=1e-4,
        negative=10,
    )
    model.build_vocab(sentences)
    if not len(model.wv):
        raise BadInput(
            f"no word occurs {min_count} times",
            value=min_count,
            expected="a larger corpus, or a smaller min_count",
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    info = {"source": f"word2vec, {len(sentences)} texts, seed {seed}", "weighting": weighting}
    return build_table(model.wv.index_to_key, model.wv.vectors, weighting, info)
