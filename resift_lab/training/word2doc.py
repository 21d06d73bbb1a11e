"""Train word2doc: titles and keywords of documents as queries, by negative sampling that spares the context.

Two keywords a document are held back (:mod:`resift_lab.training.word2doc_pairs`): one chooses the weight, one
judges, clean and with typos of several kinds. In training a query has a typo half of the time. Its context is what the
hashed retriever finds for it, in an order drawn anew (the mean does not know it). Ten documents that are not in the
context are pushed down for each that is pulled up.
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
from resift.errors import BadInput
from resift.spelling import Speller
from resift.vectors.table import WordVectors
from resift_lab.corpus import count_documents
from resift_lab.training.checkpoint import Checkpoint, inputs_digest, network_state, restore_network
from resift_lab.training.options import Word2DocOptions
from resift_lab.training.progress import Progress
from resift_lab.training.word2doc_pairs import TrainingPairs, training_pairs
from resift_lab.training.word2doc_report import BATCH, judge
from resift_lab.word2doc.keywords import NOISES, with_noise
from resift_lab.word2doc.model import CONTEXT, QueryView, Word2Doc
from resift_lab.word2doc.retriever import HashedRetriever

RETRIEVER_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_MAX_CHOOSING = 2000


def train(
    ids: Sequence[str],
    titles: Sequence[str],
    bodies: Sequence[str],
    vectors: WordVectors,
    options: Word2DocOptions,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> tuple[Word2Doc, dict[str, Any]]:
    """The trained model for the documents of ``ids``, and its report (see ``word2doc_report.judge``).

    ``titles`` and ``bodies`` are the documents' texts; ``vectors`` see the words of the queries. ``progress`` is called
    with the numbers of pairs seen and of all. The file ``checkpoint``, if one is given, holds the state after every
    epoch, from which the same training goes on to the same result; the caller removes it.

    Raises BadInput for fewer documents than context and negatives together, if no document has keywords, or if the
    checkpoint is damaged.
    """
    needed = CONTEXT + options.negatives + 1
    if len(ids) < needed:
        raise BadInput(
            f"{len(ids)} documents, with {options.negatives} negatives that are not among {CONTEXT} context documents",
            value=len(ids),
            expected=f"{needed} or more, or fewer negatives",
        )
    pairs = training_pairs(titles, bodies, options.keywords, options.seed)
    if not pairs.queries or not pairs.judging:
        raise BadInput("the documents have no keywords to learn from and to hold back", expected="longer texts")
    texts = [f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]
    _, frequency = count_documents(texts)
    retriever, view, speller = HashedRetriever.build(texts), QueryView(vectors), Speller(dict(frequency.most_common()))
    examples = _examples(pairs, retriever, view, speller, options)
    saved = Checkpoint(checkpoint, inputs_digest(texts, vectors, options))
    network = _trained(examples, len(ids), options, saved, progress)
    report = {"options": asdict(options), "documents": len(ids), "pairs": len(pairs.queries)}
    model = Word2Doc(ids, view, retriever, speller, network.layers(), info=report)
    model.retriever_weight = _best_retriever_weight(model, pairs.choosing, options.seed)
    model.info["held_back"] = pairs.judging
    model.info["collection"] = texts_digest(texts)
    return model, judge(model, options.seed)


@dataclass(frozen=True)
class _Examples:
    """What the network learns from: ``inputs`` (n, D), queries as it sees them, and positions of documents.

    ``targets`` (n,) are the queries' own documents, ``context`` (n, 10) those that the retriever finds; there the
    number of documents stands for none.
    """

    inputs: Floats
    context: NDArray[np.int64]
    targets: NDArray[np.int64]


def _examples(
    pairs: TrainingPairs, retriever: HashedRetriever, view: QueryView, speller: Speller, options: Word2DocOptions
) -> _Examples:
    """Every pair ``rounds`` times, each time with a typo of its own, or none, and read as the corpus spells it."""
    rng = np.random.default_rng(options.seed)
    written = (
        with_noise(query, NOISES[int(rng.integers(len(NOISES)))] if rng.random() < 0.5 else "clean", rng)
        for _ in range(options.rounds)
        for query in pairs.queries
    )
    queries = [" ".join(speller.correct(query)) for query in written]
    context = np.full((len(queries), CONTEXT), retriever.documents, np.int64)
    for row, query in zip(context, queries, strict=True):
        best = retriever.best(query, CONTEXT)
        row[: len(best)] = best
    targets = np.tile(np.array(pairs.documents, np.int64), options.rounds)
    return _Examples(view.encode(queries), context, targets)


class _Network(torch.nn.Module):  # type: ignore[misc]
    """The network of :mod:`resift_lab.word2doc.model`; embedding ``documents`` stands for no document and stays 0."""

    def __init__(self, width: int, documents: int, options: Word2DocOptions) -> None:
        super().__init__()
        size = options.hidden
        self.query = torch.nn.Linear(width, size)
        self.embeddings = torch.nn.Embedding(documents + 1, size, padding_idx=documents, sparse=True)
        self.hidden = torch.nn.Linear(size, size)
        self.output = torch.nn.Embedding(documents, size, sparse=True)
        self.output_bias = torch.nn.Embedding(documents, 1, sparse=True)
        torch.nn.init.normal_(self.output.weight, std=0.05)
        torch.nn.init.zeros_(self.output_bias.weight)
        self.drop = torch.nn.Dropout(options.dropout)

    def forward(self, queries: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Hidden vectors (n, H) of queries (n, D) and their context (n, 10)."""
        joined = (self.drop(self.query(queries)) + self.drop(self.embeddings(context)).sum(1)) / (1 + CONTEXT)
        return self.drop(torch.relu(self.hidden(joined)))

    def scores(self, hidden: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        """Scores (n, m) of m documents for each hidden vector."""
        return (self.output(documents) * hidden[:, None]).sum(2) + self.output_bias(documents)[:, :, 0]

    def optimizers(self, rate: float) -> list[torch.optim.Optimizer]:
        """Adam for the layers, and a sparse Adam for what each document has of its own."""
        dense = [*self.query.parameters(), *self.hidden.parameters()]
        sparse = [self.embeddings.weight, self.output.weight, self.output_bias.weight]
        return [torch.optim.Adam(dense, lr=rate), torch.optim.SparseAdam(sparse, lr=rate)]

    def layers(self) -> dict[str, NDArray[Any]]:
        """The layers as :class:`resift_lab.word2doc.model.Word2Doc` takes them."""
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


def _trained(
    examples: _Examples, documents: int, options: Word2DocOptions, saved: Checkpoint, progress: Progress | None
) -> _Network:
    """The network after all epochs, from its start or from a checkpoint."""
    torch.manual_seed(options.seed)
    network = _Network(examples.inputs.shape[1], documents, options)
    optimizers = network.optimizers(options.rate)
    if saved.state:
        restore_network(saved.state, network, optimizers)
    for epoch in range(saved.state.get("epochs", 0), options.epochs):
        _train_epoch(network, optimizers, examples, documents, options, epoch, progress)
        saved.save({"epochs": epoch + 1, **network_state(network, optimizers)})
    return network


def _train_epoch(
    network: _Network,
    optimizers: Sequence[torch.optim.Optimizer],
    examples: _Examples,
    documents: int,
    options: Word2DocOptions,
    epoch: int,
    progress: Progress | None,
) -> None:
    rng = np.random.default_rng([options.seed, epoch])
    # dropout's chance depends on the epoch alone, so that a resumed run draws the same
    torch.manual_seed(options.seed * 1009 + epoch)
    network.train()
    order = rng.permutation(len(examples.targets))
    for start in range(0, len(order), options.batch):
        batch = order[start : start + options.batch]
        context = rng.permuted(examples.context[batch], axis=1)
        negatives = sample_negatives(rng, context, examples.targets[batch], options.negatives, documents)
        chosen = torch.from_numpy(np.concatenate([examples.targets[batch, None], negatives], axis=1))
        scores = network.scores(network(torch.from_numpy(examples.inputs[batch]), torch.from_numpy(context)), chosen)
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
    """Documents drawn for each query (n, ``count``), none of them its target or in its ``context`` (n, 10)."""
    spared = np.concatenate([context, targets[:, None]], axis=1)
    drawn = rng.integers(documents, size=(len(targets), count))
    while (bad := (drawn[:, :, None] == spared[:, None, :]).any(axis=2)).any():
        drawn[bad] = rng.integers(documents, size=int(bad.sum()))
    return drawn


def _best_retriever_weight(model: Word2Doc, choosing: dict[str, int], seed: int) -> float:
    """The weight of the retriever's scores with which most of the queries, each with a typo or none, are answered."""
    rng = np.random.default_rng([seed, len(NOISES)])
    keywords = list(choosing)[:_MAX_CHOOSING]
    queries = [with_noise(keyword, NOISES[number % len(NOISES)], rng) for number, keyword in enumerate(keywords)]
    answers = [choosing[keyword] for keyword in keywords]
    right = np.zeros(len(RETRIEVER_WEIGHTS))
    for start in range(0, len(queries), BATCH):
        network, retrieved = model.parts(queries[start : start + BATCH])
        for row, weight in enumerate(RETRIEVER_WEIGHTS):
            right[row] += (np.argmax(network + weight * retrieved, axis=1) == answers[start : start + BATCH]).sum()
    return RETRIEVER_WEIGHTS[int(np.argmax(right))]


def texts_digest(texts: Sequence[str]) -> str:
    """16 hexadecimal digits that identify a collection's texts in their order."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:16]
