"""Train word2doc: titles and keywords of documents as queries, by negative sampling that spares the context.

Pairs of a query and its document come from titles and from RAKE keywords of titles and bodies. Two keywords a document
are held back, unseen: one chooses the retriever's part, one judges, clean and with slips of several kinds. In training
a query has a slip half of the time. Its context is what the hashed retriever finds for it, in an order drawn anew (the
mean does not know it). Ten documents that are not in the context are pushed down for each that is pulled up.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.evaluation.significance import paired_randomization
from resift.ranking.spelling import Speller
from resift.training.options import Word2DocOptions
from resift.vectors.table import WordVectors
from resift.word2doc.keywords import NOISES, noisy, rake
from resift.word2doc.model import CONTEXT, QueryView, Word2Doc
from resift.word2doc.retriever import HashedRetriever

Progress = Callable[[int, int], None]
MIXES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_FIRST, _MOST, _BLOCK = 2, 2000, 250


@dataclass(frozen=True)
class TrainingPairs:
    """Queries and their documents' places: to learn from, and unseen ones, to choose with and to judge with."""

    queries: list[str]
    documents: list[int]
    choosing: dict[str, int]
    judging: dict[str, int]


def training_pairs(titles: Sequence[str], bodies: Sequence[str], keywords: int, seed: int = 0) -> TrainingPairs:
    """Training pairs and two held-back keywords a document, one to choose with and one to judge with.

    A document's keywords are RAKE's best two of its first sentence and its best of the whole, as many as ``keywords``
    all together; its title is a query too. A keyword that stands for several documents is not held back, and no
    query that is learnt is the held-back one of any document.
    """
    found = []
    for title, body in zip(titles, bodies, strict=True):
        first, _, rest = body.partition(". ")
        lists = [rake(first, _FIRST), rake(rest or body), rake(title)]
        found.append(list(dict.fromkeys(keyword for each in lists for keyword in each))[:keywords])
    owners: dict[str, set[int]] = {}
    for place, each in enumerate(found):
        for keyword in each:
            owners.setdefault(keyword, set()).add(place)
    rng = np.random.default_rng(seed)
    held: tuple[dict[str, int], dict[str, int]] = {}, {}
    for place, each in enumerate(found):
        title = titles[place].lower()
        alone = [one for one in each if len(owners[one]) == 1 and one != title]
        drawn = rng.permutation(len(alone))[:2] if len(each) > 2 else ()
        for unseen, number in zip(held, drawn, strict=False):
            unseen[alone[number]] = place
    learnt = TrainingPairs([], [], *held)
    for place, (title, each) in enumerate(zip(titles, found, strict=True)):
        for query in [*([title] if title.strip() else []), *each]:
            if query.lower() not in held[0] and query.lower() not in held[1]:
                learnt.queries.append(query)
                learnt.documents.append(place)
    return learnt


class _Network(torch.nn.Module):  # type: ignore[misc]
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
        joined = (self.drop(self.query(queries)) + self.drop(self.embeddings(context)).sum(1)) / (1 + CONTEXT)
        return self.drop(torch.relu(self.hidden(joined)))

    def scores(self, hidden: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        return (self.output(documents) * hidden[:, None]).sum(2) + self.output_bias(documents)[:, :, 0]


def train(
    ids: Sequence[str],
    titles: Sequence[str],
    bodies: Sequence[str],
    vectors: WordVectors,
    options: Word2DocOptions,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> tuple[Word2Doc, dict[str, Any]]:
    """The trained model and its report (see :func:`judge`), for documents of ``ids``.

    After every epoch the state goes into the file ``checkpoint``, if one is given, and ``resume`` goes on from it to
    the same result; the caller removes it. Raises BadInput for fewer documents than context and negatives together,
    and where no document has keywords.
    """
    least = CONTEXT + options.negatives + 1
    if len(ids) < least:
        raise BadInput(
            f"{len(ids)} documents, with {options.negatives} negatives that are not among {CONTEXT} context documents",
            value=len(ids),
            expected=f"{least} or more, or fewer negatives",
        )
    texts = [f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]
    found = training_pairs(titles, bodies, options.keywords, options.seed)
    if not found.queries or not found.judging:
        raise BadInput("the documents have no keywords to learn from and to hold back", expected="longer texts")
    retriever, view, speller = HashedRetriever.build(texts), QueryView(vectors), Speller.from_texts(texts)
    rng = np.random.default_rng(options.seed)
    slipped = (
        noisy(query, NOISES[int(rng.integers(len(NOISES)))] if rng.random() < 0.5 else "clean", rng)
        for _ in range(options.rounds)
        for query in found.queries
    )
    queries = [" ".join(speller.correct(query)) for query in slipped]
    targets = np.tile(np.array(found.documents, np.int64), options.rounds)
    inputs = view.encode(queries)
    context = np.full((len(queries), CONTEXT), len(ids), np.int64)
    for row, query in enumerate(queries):
        best = retriever.best(query, CONTEXT)
        context[row, : len(best)] = best
    torch.manual_seed(options.seed)
    network = _Network(view.dim, len(ids), options)
    dense = [p for name, p in network.named_parameters() if name.split(".")[0] in ("query", "hidden")]
    lazy = [network.embeddings.weight, network.output.weight, network.output_bias.weight]
    optimizers = [torch.optim.Adam(dense, lr=options.rate), torch.optim.SparseAdam(lazy, lr=options.rate)]
    saved = _Checkpoint(checkpoint, _digest(texts, vectors, options), resume)
    begin = saved.restore(network, optimizers)
    for epoch in range(begin, options.epochs):
        _epoch(network, optimizers, (inputs, context, targets), options, epoch, len(ids), progress)
        saved.write(epoch + 1, network, optimizers)
    report = {"options": asdict(options), "documents": len(ids), "pairs": len(found.queries)}
    model = Word2Doc(ids, view, retriever, speller, _layers(network), info=report)
    model.mix = _mixed(model, found.choosing, options.seed)
    model.info["held_back"] = found.judging
    model.info["collection"] = digest_of(texts)
    return model, judge(model, options.seed)


def _mixed(model: Word2Doc, choosing: dict[str, int], seed: int) -> float:
    """The weight of the retriever's scores with which most of the queries, each with a slip or none, are answered."""
    rng = np.random.default_rng([seed, len(NOISES)])
    chosen = list(choosing)[:_MOST]
    asked = [noisy(query, NOISES[number % len(NOISES)], rng) for number, query in enumerate(chosen)]
    answers = [choosing[query] for query in chosen]
    right = np.zeros(len(MIXES))
    for start in range(0, len(asked), _BLOCK):
        network, retrieved = model.parts(asked[start : start + _BLOCK])
        for row, mix in enumerate(MIXES):
            right[row] += (np.argmax(network + mix * retrieved, axis=1) == answers[start : start + _BLOCK]).sum()
    return MIXES[int(np.argmax(right))]


def _epoch(
    network: _Network,
    optimizers: Sequence[Any],
    data: tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]],
    options: Word2DocOptions,
    epoch: int,
    documents: int,
    progress: Progress | None,
) -> None:
    inputs, context, targets = data
    rng = np.random.default_rng([options.seed, epoch])
    torch.manual_seed(options.seed * 1009 + epoch)
    network.train()
    order = rng.permutation(len(targets))
    for start in range(0, len(order), options.batch):
        batch = order[start : start + options.batch]
        shuffled = rng.permuted(context[batch], axis=1)
        negatives = sampled(rng, shuffled, targets[batch], options.negatives, documents)
        chosen = torch.from_numpy(np.concatenate([targets[batch, None], negatives], axis=1))
        scores = network.scores(network(torch.from_numpy(inputs[batch]), torch.from_numpy(shuffled)), chosen)
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


def sampled(
    rng: np.random.Generator,
    context: NDArray[np.int64],
    targets: NDArray[np.int64],
    count: int,
    documents: int,
) -> NDArray[np.int64]:
    """Documents drawn for each query (n, ``count``), none of them its target or in its ``context`` (n, 10)."""
    spared = np.concatenate([context, targets[:, None]], axis=1)
    found = rng.integers(documents, size=(len(targets), count))
    while (bad := (found[:, :, None] == spared[:, None, :]).any(axis=2)).any():
        found[bad] = rng.integers(documents, size=int(bad.sum()))
    return found


def judge(model: Word2Doc, seed: int = 0) -> dict[str, Any]:
    """Accuracy at 1 and 10 of the held-back keywords: word2doc, the retriever alone, and two of word2doc's own parts.

    ``read`` is the retriever given the words as the speller reads them, ``network`` word2doc without the retriever's
    scores. ``kinds``: the same by the slip that was put into them, with wins and losses (queries that only word2doc,
    or only the retriever, answers first); ``noisy``: over all slips; ``ratio`` of the accuracies at 1 there, ``p`` of
    the paired test.
    """
    queries, answers = (list(each) for each in (model.info["held_back"], model.info["held_back"].values()))
    kinds: dict[str, dict[str, float]] = {}
    slipped: list[dict[str, NDArray[np.int64]]] = []
    for number, kind in enumerate(NOISES):
        rng = np.random.default_rng([seed, number])
        asked = [noisy(query, kind, rng) for query in queries]
        ranks = _ranks(model, asked, answers)
        ranks["retriever"] = _retrieved(model.retriever, asked, answers)
        ranks["read"] = _retrieved(model.retriever, [" ".join(model.speller.correct(q)) for q in asked], answers)
        kinds[kind] = _compared(ranks)
        if kind != "clean":
            slipped.append(ranks)
    joined = {name: np.concatenate([ranks[name] for ranks in slipped]) for name in slipped[0]}
    over = _compared(joined)
    over["ratio"] = over["word2doc@1"] / max(over["retriever@1"], 1e-9)
    first = [(joined[name] == 1).astype(np.float64) for name in ("word2doc", "retriever")]
    over["p"] = paired_randomization(first[0], first[1], np.random.default_rng(seed))
    return {"queries": len(queries), "documents": len(model.ids), "kinds": kinds, "noisy": over}


def _compared(ranks: dict[str, NDArray[np.int64]]) -> dict[str, float]:
    found = {f"{name}@{k}": float((each <= k).mean()) for k in (1, 10) for name, each in ranks.items()}
    ours, theirs = ranks["word2doc"] == 1, ranks["retriever"] == 1
    return {**found, "wins": int((ours & ~theirs).sum()), "losses": int((theirs & ~ours).sum())}


def _ranks(model: Word2Doc, queries: Sequence[str], answers: Sequence[int]) -> dict[str, NDArray[np.int64]]:
    found: dict[str, list[NDArray[np.int64]]] = {"word2doc": [], "network": []}
    for start in range(0, len(queries), _BLOCK):
        network, retrieved = model.parts(queries[start : start + _BLOCK])
        for name, scores in (("word2doc", network + model.mix * retrieved), ("network", network)):
            own = scores[np.arange(len(scores)), answers[start : start + _BLOCK]][:, None]
            found[name].append((scores > own).sum(axis=1) + 1)
    return {name: np.concatenate(each) for name, each in found.items()}


def _retrieved(retriever: HashedRetriever, queries: Sequence[str], answers: Sequence[int]) -> NDArray[np.int64]:
    found = []
    for query, answer in zip(queries, answers, strict=True):
        place = np.flatnonzero(retriever.best(query, 10) == answer)
        found.append(int(place[0]) + 1 if len(place) else 11)
    return np.array(found)


def _layers(network: _Network) -> dict[str, NDArray[Any]]:
    state = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    return {
        "query": np.ascontiguousarray(state["query.weight"].T),
        "query_bias": state["query.bias"],
        "embeddings": state["embeddings.weight"][:-1].astype(np.float16),
        "hidden": np.ascontiguousarray(state["hidden.weight"].T),
        "hidden_bias": state["hidden.bias"],
        "output": state["output.weight"].astype(np.float16),
        "output_bias": state["output_bias.weight"][:, 0],
    }


def digest_of(texts: Sequence[str]) -> str:
    """A mark of a collection's texts in their order."""
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()[:16]


def _digest(texts: Sequence[str], vectors: WordVectors, options: Word2DocOptions) -> str:
    return f"{digest_of(texts)} {len(vectors)} {json.dumps(asdict(options))}"


class _Checkpoint:
    """A file with the state after each epoch; without a path it does nothing."""

    def __init__(self, path: str | Path | None, inputs: str, resume: bool) -> None:
        self.path, self.inputs, self.state = Path(path) if path else None, inputs, dict[str, Any]()
        if self.path and resume and self.path.exists():
            try:
                self.state = torch.load(self.path, weights_only=True)
            except Exception as error:  # torch raises nearly anything on a damaged file
                raise BadInput(f"{path}: {error}", value=str(path), expected="a checkpoint") from error
            if self.state.get("inputs") != inputs:
                raise BadInput(
                    f"{path} is of other documents or options", value=str(path), expected="the same as before"
                )

    def restore(self, network: _Network, optimizers: Sequence[Any]) -> int:
        """Epochs that are done."""
        if not self.state:
            return 0
        network.load_state_dict(self.state["network"])
        for optimizer, state in zip(optimizers, self.state["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        return int(self.state["epochs"])

    def write(self, epochs: int, network: _Network, optimizers: Sequence[Any]) -> None:
        """Replace the file at once."""
        if self.path:
            fresh = self.path.with_name(self.path.name + ".new")
            state = {"inputs": self.inputs, "epochs": epochs, "network": network.state_dict()}
            torch.save({**state, "optimizers": [each.state_dict() for each in optimizers]}, fresh)
            os.replace(fresh, self.path)
