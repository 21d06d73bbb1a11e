"""Measure sessions in an index without vectors, where a session only adds expansion words to lexical searches.

    RESIFT_DATA=… python benchmarks/lexical_sessions.py [COLLECTION...] [--boost title=3]         # quality
    RESIFT_DATA=… python benchmarks/lexical_sessions.py cost [--documents 20000] [--rounds 9]     # search times

$RESIFT_DATA contains collections in BEIR's layout. OPENSEARCH_URL is the address of a cluster. By default the benchmark
starts a node. The indices resift-benchmark-lexical-COLLECTION have the text fields of the collection (analyzer
``english``), which a ``multi_match`` query searches.

Quality: the first k hits of the search without a session are marked by the judgements of the collection, and the same
search runs in a session with these marks. Values are nDCG@10 x 100 over queries with another relevant document. Marked
documents are removed from the ranking and from the ideal ranking. Three searches are compared:

- without a session,
- with the session's words in the query (as in a scroll),
- with the words in a rescore stage.

For ``chorus`` and ``dl19-pool``, which have shallow pools, only hits with a judgement are marked and counted
(condensed ranking: Sakai 2007).

With ``--boost``, the query searches a field with a boost, as in ``title^3``.

Cost: the time of a search with a body that ``/v1/rewrite`` returns, divided by the time with the original body. The
bodies are sent to the engine in turns. The documents are pieces of newsgroup messages (:mod:`scale_data`), and five
hits are marked for each query.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from hybrid import residual
from opensearchpy import OpenSearch, helpers
from scale_data import short_documents
from speed_cluster import Client, opensearch_url
from speed_search import QUERIES
from speed_timing import Spread, seconds

from resift.reranker import Config, create_app
from resift_lab.evaluation.data import read_collection

COLLECTIONS = ("cranfield", "cisi", "medline", "vaswani", "cacm", "csfcube", "dl19-pool", "chorus")
CONDENSED = ("chorus", "dl19-pool")
MARKS, DEPTH = (1, 2, 5, 10), 100
COST_MARKS, WARM = 5, 2
Body = dict[str, Any]
Source = dict[str, str]


class Searched:
    """An index without vectors, and a Resift service.

    Args:
        url: Address of the cluster.
        name: End of the name of the index.
        documents: The ids and text fields of the documents. They are indexed if the index does not exist.
        store: Path of the session store.
        boosts: The boosts of fields by name. Other fields have the boost 1.
    """

    def __init__(
        self,
        url: str,
        name: str,
        documents: Iterable[tuple[str, Source]],
        store: str,
        boosts: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.index, self.client = f"resift-benchmark-lexical-{name}", OpenSearch(url, timeout=60)
        if not self.client.indices.exists(index=self.index):
            self._fill(documents)
        properties = self.client.indices.get_mapping(index=self.index)[self.index]["mappings"]["properties"]
        self.fields = [f"{name}^{boosts[name]:g}" if name in boosts else name for name in sorted(properties)]
        self.reranker = create_app(Config(engine=url, store=store)).test_client()

    def _fill(self, documents: Iterable[tuple[str, Source]]) -> None:
        template = {"text": {"match_mapping_type": "string", "mapping": {"type": "text", "analyzer": "english"}}}
        body = {
            "settings": {"number_of_shards": 1, "number_of_replicas": 0},
            "mappings": {"dynamic_templates": [template]},
        }
        self.client.indices.create(index=self.index, body=body)
        lines = ({"_index": self.index, "_id": id, **source} for id, source in documents)
        helpers.bulk(self.client, lines, chunk_size=2000)
        self.client.indices.forcemerge(index=self.index, max_num_segments=1, request_timeout=600)
        self.client.indices.refresh(index=self.index)

    def body(self, text: str, size: int = DEPTH) -> Body:
        """Return the body of a search for a text."""
        return {"query": {"multi_match": {"query": text, "fields": self.fields}}, "size": size, "_source": False}

    def hits(self, body: Body) -> list[str]:
        """Run a search and return the ids of its hits, best first."""
        return [hit["_id"] for hit in self.client.search(index=self.index, body=body)["hits"]["hits"]]

    def in_session(self, body: Body, text: str, marks: dict[str, list[str]]) -> list[Body]:
        """Mark documents in a new session, and return the search rewritten for this session.

        Returns:
            The body with the session's words in the query, and the body with the words in a rescore stage.
        """
        session, bodies = uuid.uuid4().hex, []
        self._post("feedback", session=session, index=self.index, query=text, **marks)
        for scroll in (True, False):
            options = {"query": text, "session": session, "scroll": scroll}
            answer = self._post("rewrite", index=self.index, body={**body, "ext": {"resift": options}})
            bodies.append({name: value for name, value in answer["body"].items() if name != "ext"})
        return bodies

    def _post(self, path: str, **body: Any) -> Any:
        answer = self.reranker.post(f"/v1/{path}", json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"/v1/{path}: {answer.status_code} {answer.get_data(as_text=True)[:300]}")
        return answer.get_json()


def text_fields(folder: Path) -> list[tuple[str, Source]]:
    """Return the ids and the text fields of a collection's documents."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    names = [name for name in documents[0] if name != "_id" and any(document.get(name) for document in documents)]
    return [(document["_id"], {name: document.get(name, "") for name in names}) for document in documents]


def marks_of(hits: Sequence[str], grades: dict[str, float]) -> dict[str, list[str]]:
    """Return the relevant and the irrelevant hits."""
    relevant = [id for id in hits if grades.get(id, 0) > 0]
    return {"relevant": relevant, "irrelevant": [id for id in hits if id not in relevant]}


def print_quality(url: str, name: str, store: str, boosts: Mapping[str, float]) -> None:
    """Print a row of a table: nDCG of a collection without a session and in a session, for each number of marks."""
    folder = Path(os.environ["RESIFT_DATA"]) / name
    collection, condensed = read_collection(folder), name in CONDENSED
    searched = Searched(url, name, text_fields(folder), store, boosts)
    figures: dict[int, list[list[float]]] = {count: [] for count in MARKS}
    for text, positions in zip(collection.queries, collection.grades, strict=True):
        grades = {collection.document_ids[row]: grade for row, grade in positions.items()}
        plain = searched.hits(searched.body(text))
        for count, values in figures.items():
            marked = [id for id in plain if id in grades or not condensed][:count]
            before = residual(plain, grades, marked, condensed)
            if marked and not np.isnan(before):
                bodies = searched.in_session(searched.body(text), text, marks_of(marked, grades))
                after = [residual(searched.hits(body), grades, marked, condensed) for body in bodies]
                values.append([before, *after])
    cells = (np.mean(values, axis=0) for values in figures.values())
    print(f"| {name} |", " | ".join("{:.2f} → {:.2f}, {:.2f}".format(*cell) for cell in cells), "|", flush=True)


def print_cost(url: str, count: int, rounds: int, store: str) -> None:
    """Print the ratio of the time of rewritten searches to the time of the original searches, in the engine."""
    documents = (
        (str(number), {"title": title, "text": text}) for number, (title, text) in enumerate(short_documents(count))
    )
    searched, client = Searched(url, f"short-{count}", documents, store), Client(url)
    bodies = []
    for text in QUERIES:
        body = searched.body(text)
        hits = searched.hits(body)[:COST_MARKS]
        bodies.append([body, *searched.in_session(body, text, {"relevant": hits[:3], "irrelevant": hits[3:]})])
    path, times = f"/{searched.index}/_search", np.zeros((WARM + rounds, len(bodies), 3))
    order = random.Random(0)
    for turn in range(WARM + rounds):
        for query, ways in enumerate(bodies):
            for way in order.sample(range(3), 3):  # in turns, so that other load on the machine affects all alike
                times[turn, query, way] = 1000 * seconds(client.post, path, ways[way])
    medians = np.median(times[WARM:], axis=1)
    fastest = times[WARM:].min(axis=0).mean(axis=0)
    print(f"{count} documents: a search takes {np.median(medians[:, 0]):.2f} ms, its fastest {fastest[0]:.2f} ms")
    for way, name in ((1, "words in the query"), (2, "words in a rescore stage")):
        ratio = Spread.of(list(medians[:, way] / medians[:, 0]))
        print(
            f"{name}: {ratio.median:.2f} times that ({ratio.low:.2f} to {ratio.high:.2f}); the fastest of each query "
            f"{fastest[way] / fastest[0]:.2f} times that"
        )


def main() -> None:
    """Run the part that the arguments select."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=COLLECTIONS, help="collections, or cost")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--boost", action="append", default=[], metavar="FIELD=BOOST", help="the boost of a field")
    options = parser.parse_args()
    boosts = {name: float(boost) for name, _, boost in (item.partition("=") for item in options.boost)}
    with tempfile.TemporaryDirectory() as folder:
        url, store = opensearch_url(), f"{folder}/sessions.db"
        if options.names == ["cost"]:
            print_cost(url, options.documents, options.rounds, store)
            return
        print("| nDCG@10 × 100 |", " | ".join(f"{count} marks" for count in MARKS), "|\n|" + "---|" * (1 + len(MARKS)))
        for name in options.names:
            print_quality(url, name, store, boosts)


if __name__ == "__main__":
    main()
