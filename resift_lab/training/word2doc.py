"""Training of word2doc with titles and keywords of documents as queries.

Word2doc is a network that predicts which document a query refers to (:mod:`resift.encoders.word2doc`). Its inputs are
the words of the query, and the context: the documents that a TF-IDF retriever returns for the query. The scores of the
network and of the retriever are added up.

Two keywords of each document are held out (:mod:`resift_lab.training.word2doc_pairs`). The first keyword is used to
choose the weight of the retriever's scores. The second is used to evaluate the model, without and with several kinds of
typing errors.

Half of the training queries have a typing error. The order of the context documents is shuffled before each epoch, as
in the thesis, although the network uses the mean of their embeddings, which does not depend on the order. The loss is
negative sampling: for each query it raises the score of the right document and lowers the scores of ten documents that
are not in the context.

Source:
    word2doc (thesis, 2018), sections 2.2.1 and 4.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.hashed_retriever import HashedRetriever
from resift.encoders.tables import replace_rows
from resift.encoders.word2doc import CONTEXT, QueryEncoder, Word2Doc, text_keys
from resift.errors import BadInput
from resift.spelling import Speller
from resift.vectors.table import WordVectors
from resift.vectors.weights import beta_from_alpha
from resift_lab.corpus import count_documents
from resift_lab.training.checkpoint import Checkpoint, inputs_digest, network_state, restore_network
from resift_lab.training.options import Word2DocOptions
from resift_lab.training.progress import Progress
from resift_lab.training.word2doc_pairs import TrainingPairs, training_pairs
from resift_lab.training.word2doc_report import BATCH, evaluate, index_scores
from resift_lab.word2doc.documents import TitledTexts
from resift_lab.word2doc.keywords import NOISES, with_typing_error
from resift_lab.word2doc.retriever import build_retriever

# Weights of the retriever's scores to choose from.
RETRIEVER_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
# Weights of the similarity in searches of an index to choose from.
ALPHAS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.97)
# Maximum number of keywords that are used to choose a weight.
_MAX_CHOOSING = 2000


def train_word2doc(
    documents: TitledTexts,
    vectors: WordVectors,
    options: Word2DocOptions,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> tuple[Word2Doc, dict[str, Any]]:
    """Train word2doc, a model that predicts which document a query refers to, and evaluate it.

    Args:
        documents: The documents with their titles.
        vectors: The word vectors for the words of queries.
        options: The settings of the training.
        progress: A function that is called with the number of processed examples and the total number.
        checkpoint: A file in which the state is saved after each epoch. If it exists, the training continues from it,
            with the same result as an uninterrupted training. The caller removes the file.

    Returns:
        The trained model, and its evaluation by :func:`resift_lab.training.word2doc_report.evaluate`.

    Raises:
        BadInput: If there are too few documents for the number of negatives, no document has keywords, or the
            checkpoint is damaged.
    """
    ids, needed = documents.ids, CONTEXT + options.negatives + 1
    if len(ids) < needed:
        raise BadInput(
            f"{len(ids)} documents are too few to draw {options.negatives} negatives besides the context",
            value=len(ids),
            expected=f"{needed} documents or more, or fewer negatives",
        )
    pairs = training_pairs(documents.titles, documents.bodies, options.keywords, options.seed)
    if not pairs.queries or not pairs.test_keywords:
        raise BadInput("the documents have no keywords to train on and to hold out", expected="longer texts")
    texts = [f"{title}\n{body}" for title, body in zip(documents.titles, documents.bodies, strict=True)]
    _, frequency = count_documents(texts)
    retriever = build_retriever(texts)
    query_encoder = QueryEncoder(vectors)
    speller = Speller(dict(frequency.most_common()))
    examples = _make_examples(pairs, retriever, query_encoder, speller, options)
    saved = Checkpoint(checkpoint, inputs_digest(texts, vectors, options))
    network = _train_network(examples, len(ids), options, saved, progress)
    report = {"options": asdict(options), "documents": len(ids), "pairs": len(pairs.queries)}
    layers = network.layers()
    parts: dict[str, Any] = {
        "query_encoder": query_encoder,
        "retriever": retriever,
        "speller": speller,
        "layers": layers,
        "keys": text_keys(texts),
    }
    model = Word2Doc(ids=ids, **parts)
    retriever_weight, alpha = _choose_weights(model, pairs.validation_keywords, options.seed)
    why = {"why": f"word2doc, accuracy of {min(len(pairs.validation_keywords), _MAX_CHOOSING)} held-out keywords"}
    parts["query_encoder"] = QueryEncoder(
        replace_rows(vectors, vectors.matrix, scales=vectors.scales, info=_with_reason(vectors, why))
    )
    report |= {"held_out": pairs.test_keywords, "collection": texts_digest(texts)}
    model = Word2Doc(ids=ids, **parts, retriever_weight=retriever_weight, alpha=alpha, info=report)
    return model, evaluate(model, options.seed)


def _with_reason(vectors: WordVectors, why: dict[str, str]) -> dict[str, Any]:
    """Return the metadata (``info``) of word vectors, with an entry that explains the weight of the similarity.

    The entry shows that a training on the documents has chosen the weight. Indexing then does not choose another.

    Args:
        vectors: The word vectors.
        why: The reason.
    """
    return {**(vectors.info or {}), "adapted": why}


@dataclass(frozen=True)
class _Examples:
    """The n training examples of word2doc, a network that predicts the document that a query refers to.

    Attributes:
        inputs: The vectors of the queries with D dimensions, shape (n, D).
        context: The positions of the context documents, which the retriever returns for the query, shape (n, 10). If
            there are fewer than ten, the rest of the row is filled with the total number of documents.
        targets: The position of the correct document of each query, shape (n,).
    """

    inputs: Floats
    context: NDArray[np.int64]
    targets: NDArray[np.int64]


def _make_examples(
    pairs: TrainingPairs,
    retriever: HashedRetriever,
    query_encoder: QueryEncoder,
    speller: Speller,
    options: Word2DocOptions,
) -> _Examples:
    """Make ``options.rounds`` training examples from each pair of a query and its document.

    Half of the queries get a random typing error, which the speller then tries to correct.

    Args:
        pairs: The queries, each with its document.
        retriever: The retriever, whose best documents for a query are an input of the network.
        query_encoder: The encoder of queries as inputs of the network.
        speller: The speller, which corrects typing errors.
        options: The settings of the training.
    """
    rng = np.random.default_rng(options.seed)
    queries = []
    for _ in range(options.rounds):
        for query in pairs.queries:
            kind = NOISES[int(rng.integers(len(NOISES)))] if rng.random() < 0.5 else "clean"
            queries.append(" ".join(speller.correct(with_typing_error(query, kind, rng))))
    context = np.full((len(queries), CONTEXT), retriever.n_documents, np.int64)
    for row, query in zip(context, queries, strict=True):
        best = retriever.best_documents(query, CONTEXT)
        row[: len(best)] = best
    targets = np.tile(np.array(pairs.documents, np.int64), options.rounds)
    return _Examples(inputs=query_encoder.encode(queries), context=context, targets=targets)


class _Network(torch.nn.Module):  # type: ignore[misc]
    """The network of :mod:`resift.encoders.word2doc`, in PyTorch. It predicts the document that a query refers to.

    An input of the network is the context of a query: ten documents that a simple retriever returns for the query. Each
    document has an embedding. If the retriever returns fewer than ten documents, a zero embedding takes the free
    places.

    Args:
        width: The number of dimensions of a query's vector.
        documents: The number of documents.
        options: The settings of the training.
    """

    def __init__(self, width: int, documents: int, options: Word2DocOptions) -> None:
        super().__init__()
        size = options.hidden
        self.documents = documents
        self.query = torch.nn.Linear(width, size)
        self.embeddings = torch.nn.Embedding(documents + 1, size, padding_idx=documents, sparse=True)
        self.hidden = torch.nn.Linear(size, size)
        self.output = torch.nn.Embedding(documents, size, sparse=True)
        self.output_bias = torch.nn.Embedding(documents, 1, sparse=True)
        torch.nn.init.normal_(self.output.weight, std=0.05)
        torch.nn.init.zeros_(self.output_bias.weight)
        self.drop = torch.nn.Dropout(options.dropout)

    def forward(self, queries: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Compute the hidden vectors of queries, from which :meth:`scores` computes the scores of documents.

        Args:
            queries: The vectors of n queries with D dimensions, shape (n, D).
            context: The positions of their context documents, shape (n, 10).

        Returns:
            Hidden vectors of shape (n, H) for H hidden units.
        """
        joined = (self.drop(self.query(queries)) + self.drop(self.embeddings(context)).sum(1)) / (1 + CONTEXT)
        return self.drop(torch.relu(self.hidden(joined)))

    def scores(self, hidden: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        """Score m documents for each of n queries.

        Args:
            hidden: The hidden vectors of the queries with H hidden units, shape (n, H).
            documents: The positions of the documents to score for each query, shape (n, m).

        Returns:
            Scores of shape (n, m).
        """
        return (self.output(documents) * hidden[:, None]).sum(2) + self.output_bias(documents)[:, :, 0]

    def optimizers(self, rate: float) -> list[torch.optim.Optimizer]:
        """Create the optimisers of the network.

        Adam trains the layers. Sparse Adam trains the arrays that have a row for each document, because a training step
        changes only a few of these rows.

        Args:
            rate: The learning rate.
        """
        dense = [*self.query.parameters(), *self.hidden.parameters()]
        sparse = [self.embeddings.weight, self.output.weight, self.output_bias.weight]
        return [torch.optim.Adam(dense, lr=rate), torch.optim.SparseAdam(sparse, lr=rate)]

    def layers(self) -> dict[str, NDArray[Any]]:
        """Return the trained arrays by name, as :class:`resift.encoders.word2doc.Word2Doc` expects them."""
        state = {name: value.detach().numpy() for name, value in self.state_dict().items()}
        return {
            "query": np.ascontiguousarray(state["query.weight"].T),
            "query_bias": state["query.bias"],
            "embeddings": state["embeddings.weight"][:-1].astype(np.float16),
            "hidden": np.ascontiguousarray(state["hidden.weight"].T),
            "hidden_bias": state["hidden.bias"],
            "output": state["output.weight"].astype(np.float16),
            "output_bias": state["output_bias.weight"][:, 0],
        }


def _train_network(
    examples: _Examples, documents: int, options: Word2DocOptions, saved: Checkpoint, progress: Progress | None
) -> _Network:
    """Train a network that predicts the document that a query refers to.

    Args:
        examples: The training examples.
        documents: Number of documents. Each document is a class that the network can predict.
        options: The settings of the training.
        saved: The checkpoint. If it contains a state, training continues from this state.
        progress: Function that is called with the number of processed examples and the total number, or None.

    Returns:
        The trained network.
    """
    torch.manual_seed(options.seed)
    network = _Network(examples.inputs.shape[1], documents, options)
    optimizers = network.optimizers(options.rate)
    if saved.state:
        restore_network(saved.state, network, optimizers)
    for epoch in range(saved.state.get("epochs", 0), options.epochs):
        _train_epoch(network, optimizers, examples, options, epoch, progress)
        saved.save({"epochs": epoch + 1, **network_state(network, optimizers)})
    return network


def _train_epoch(
    network: _Network,
    optimizers: Sequence[torch.optim.Optimizer],
    examples: _Examples,
    options: Word2DocOptions,
    epoch: int,
    progress: Progress | None,
) -> None:
    rng = np.random.default_rng([options.seed, epoch])
    # The random numbers of dropout depend only on seed and epoch, so that a resumed training draws the same numbers.
    torch.manual_seed(options.seed * 1009 + epoch)
    network.train()
    order = rng.permutation(len(examples.targets))
    for start in range(0, len(order), options.batch):
        batch = order[start : start + options.batch]
        context = rng.permuted(examples.context[batch], axis=1)
        negatives = sample_negatives(rng, context, examples.targets[batch], options.negatives, network.documents)
        candidates = torch.from_numpy(np.concatenate([examples.targets[batch, None], negatives], axis=1))
        hidden = network(torch.from_numpy(examples.inputs[batch]), torch.from_numpy(context))
        scores = network.scores(hidden, candidates)
        signs = torch.ones_like(scores)
        signs[:, 1:] = -1
        loss = -torch.nn.functional.logsigmoid(scores * signs).sum(1).mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if progress:
            progress(epoch * len(order) + start + len(batch), options.epochs * len(order))


def sample_negatives(
    rng: np.random.Generator,
    context: NDArray[np.int64],
    targets: NDArray[np.int64],
    count: int,
    documents: int,
) -> NDArray[np.int64]:
    """Draw random wrong documents for each of n queries, which serve as negative examples.

    The correct document of the query and its context documents are never drawn.

    Args:
        rng: The source of random numbers.
        context: The positions of the context documents of each query, shape (n, 10).
        targets: The position of the correct document of each query, shape (n,).
        count: The number of documents to draw for each query.
        documents: The total number of documents.

    Returns:
        The positions of the drawn documents, shape (n, ``count``).

    Source:
        word2doc (thesis, 2018), section 2.2.1, "Negative Sampling".
    """
    excluded = np.concatenate([context, targets[:, None]], axis=1)
    drawn = rng.integers(documents, size=(len(targets), count))
    while (invalid := (drawn[:, :, None] == excluded[:, None, :]).any(axis=2)).any():
        drawn[invalid] = rng.integers(documents, size=int(invalid.sum()))
    return drawn


def _choose_weights(model: Word2Doc, validation_keywords: dict[str, int], seed: int) -> tuple[float, float]:
    """Choose two weights of a word2doc model, so that as many queries as possible rank their document first.

    The queries are keywords that were not used in training, some of them with typing errors. The first weight is the
    weight of the retriever's scores relative to the network's. The second, alpha, is for searches of an index.

    In searches of an index, the engine scores the words of a query without correcting them, and the scores are
    multiplied by exp(beta · similarity). Here the retriever takes the place of the engine, and all documents without a
    word of the query get the smallest score.

    Args:
        model: The word2doc model.
        validation_keywords: The queries, each with the position of its document.
        seed: The seed of the typing errors.

    Returns:
        The weight of the retriever's scores, and alpha.
    """
    rng = np.random.default_rng([seed, len(NOISES)])
    keywords = list(validation_keywords)[:_MAX_CHOOSING]
    queries = [with_typing_error(keyword, NOISES[number % len(NOISES)], rng) for number, keyword in enumerate(keywords)]
    answers = [validation_keywords[keyword] for keyword in keywords]
    correct, correct_on_index = np.zeros(len(RETRIEVER_WEIGHTS)), np.zeros(len(ALPHAS))
    for start in range(0, len(queries), BATCH):
        batch, right = queries[start : start + BATCH], answers[start : start + BATCH]
        network, retrieved = model.separate_scores(batch)
        for row, weight in enumerate(RETRIEVER_WEIGHTS):
            correct[row] += (np.argmax(network + weight * retrieved, axis=1) == right).sum()
        similarities, words = model.similarities(batch), np.stack([model.retriever.scores(query) for query in batch])
        for row, alpha in enumerate(ALPHAS):
            scores = index_scores(words, similarities, beta_from_alpha(alpha))
            correct_on_index[row] += (np.argmax(scores, axis=1) == right).sum()
    return RETRIEVER_WEIGHTS[int(np.argmax(correct))], ALPHAS[int(np.argmax(correct_on_index))]


def texts_digest(texts: Sequence[str]) -> str:
    """Return a hash of a list of texts, which is stored with a model to show on which documents it was trained.

    Args:
        texts: The texts. Their order matters.

    Returns:
        16 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:16]
