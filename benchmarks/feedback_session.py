"""Print a session on 20 Newsgroups: ``RESIFT_DATA=… python benchmarks/feedback_session.py [QUERY] [GROUP]``.

Indexes the train split with the embedded engine, searches, marks three hits by their newsgroup, and searches again. The
second list of hits omits the marked hits.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resift import Model, load_model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.reranker import Config, create_app
from resift.service.connect import open_engine
from resift_lab.evaluation.data import LabelledDocuments, read_labelled_documents

Hit = dict[str, Any]


def index_documents(engine: Engine, model: Model, documents: LabelledDocuments) -> None:
    """Write the documents and their vectors to the index ``news``."""
    engine.create("news", ["text"], model)
    for start in range(0, len(documents.ids), 1000):
        part = slice(start, start + 1000)
        texts = documents.texts[part]
        rows = zip(documents.ids[part], texts, model.encode(texts), strict=True)
        engine.bulk("news", [Document(id, {"text": text}, vector) for id, text, vector in rows])
    engine.refresh("news")


def choose_marks(hits: Sequence[Hit], relevant_ids: set[str]) -> dict[str, list[str]]:
    """Return the ids of the first relevant hit and of the first two irrelevant hits."""
    relevant = [hit["_id"] for hit in hits if hit["_id"] in relevant_ids]
    irrelevant = [hit["_id"] for hit in hits if hit["_id"] not in relevant_ids]
    return {"relevant": relevant[:1], "irrelevant": irrelevant[:2]}


def show(hits: Sequence[Hit], groups: dict[str, str], group: str) -> None:
    """Print ranks, newsgroups and subjects of hits. Hits of ``group`` have a ✓."""
    for rank, hit in enumerate(hits, 1):
        subject = re.search(r"^Subject: (.*)$", hit["_source"]["text"], re.MULTILINE)
        tick = "✓" if groups[hit["_id"]] == group else "·"
        print(f"  {rank:2}. {tick} {groups[hit['_id']]:25} {(subject[1] if subject else '')[:60]}")


def main(query: str = "chip", group: str = "sci.crypt") -> None:
    """Print a session in which the user searches for messages of ``group``."""
    documents = read_labelled_documents(Path(os.environ["RESIFT_DATA"]) / "20ng.train.jsonl.gz")
    groups = dict(zip(documents.ids, documents.labels, strict=True))
    model, folder = load_model(), tempfile.TemporaryDirectory()
    engine = open_engine(f"{folder.name}/news.db")
    index_documents(engine, model, documents)
    client = create_app(Config(store=f"{folder.name}/sessions.db"), engine=engine, model=model).test_client()

    def post(path: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = client.post(f"/v1/{path}", json={"index": "news", "query": query, **body}).get_json()
        return answer

    before = post("search", size=10)["hits"]["hits"]
    print(f'"{query}", {len(groups)} documents')
    show(before, groups, group)
    marks = choose_marks(before, {id for id, label in groups.items() if label == group})
    learned = post("feedback", session="anna", explain=True, **marks)["learned"]
    print(f"\nthree marks: relevant {marks['relevant']}, irrelevant {marks['irrelevant']}")
    print(f"towards: {', '.join(learned['towards'])}; expansion words: {', '.join(learned['asked'])}")
    marked = {*marks["relevant"], *marks["irrelevant"]}
    after = [hit for hit in post("search", session="anna", size=13)["hits"]["hits"] if hit["_id"] not in marked]
    print("\nthe same search in the session, without the marked hits")
    show(after[:10], groups, group)


if __name__ == "__main__":
    main(*sys.argv[1:3])
