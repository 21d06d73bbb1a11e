"""Word2vec on a corpus of your own, by gensim."""

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
    """Word2vec vectors (skip-gram with ten negatives, Mikolov et al. 2013) of any corpus, (V, ``dim``), by gensim.

    Words that occur less often than ``min_count`` get no row. Training runs in one thread, so that a seed gives the
    same vectors again. Raises BadInput if no word is left or a number is out of its range, and MissingExtra without
    gensim.
    """
    for name, value in (("dim", dim), ("epochs", epochs), ("min_count", min_count)):
        if value < 1:
            raise BadInput(f"{name} is {value}", value=value, expected="1 or more")
    with needs_extra("lab", "Training word2vec"):
        from gensim.models import Word2Vec

    sentences = [words for words in map(tokenize, texts) if words]
    if not sentences:
        raise BadInput("the corpus holds no word", expected="texts")
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
            f"no word occurs {min_count} times", value=min_count, expected="a larger corpus or smaller count"
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    info = {"source": f"word2vec, {len(sentences)} texts, seed {seed}", "weighting": weighting}
    return build_table(model.wv.index_to_key, model.wv.vectors, weighting, info)
