"""A session on 20 Newsgroups, told: ``RESIFT_DATA=… python benchmarks/feedback_session.py [QUERY] [GROUP]``.

Indexes the training part by the embedded engine, searches, marks the first three hits by their group, and searches
again. The second list leaves out the marked hits.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from resift import load_model
from resift.evaluation.data import read_classes
from resift.plugin.connect import open_engine
from resift.plugin.documents import Document
from resift.reranker import Config, create_app


def main(query: str = "chip", group: str = "sci.crypt") -> None:
    """Print the transcript; a hit of ``group`` is what the person is after (✓)."""
    found = read_classes(Path(os.environ["RESIFT_DATA"]) / "20ng.train.jsonl.gz")
    model, folder = load_model(), tempfile.TemporaryDirectory()
    engine = open_engine(f"{folder.name}/news.db")
    engine.create("news", ["text"], model)
    groups = dict(zip(found.ids, found.labels, strict=True))
    for start in range(0, len(found.ids), 1000):
        part = slice(start, start + 1000)
        rows = zip(found.ids[part], found.texts[part], model.encode(found.texts[part]), strict=True)
        engine.bulk("news", [Document(id, {"text": text}, vector) for id, text, vector in rows])
    engine.refresh("news")
    client = create_app(Config(store=f"{folder.name}/sessions.db"), engine=engine, model=model).test_client()

    def asked(path: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = client.post(f"/v1/{path}", json={"index": "news", "query": query, **body}).get_json()
        return answer

    def show(hits: list[dict[str, Any]]) -> None:
        for rank, hit in enumerate(hits, 1):
            subject = re.search(r"^Subject: (.*)$", hit["_source"]["text"], re.MULTILINE)
            mark = "✓" if groups[hit["_id"]] == group else "·"
            print(f"  {rank:2}. {mark} {groups[hit['_id']]:25} {(subject[1] if subject else '')[:60]}")

    before = asked("search", size=10)["hits"]["hits"]
    print(f'"{query}", {len(groups)} documents')
    show(before)
    kinds: dict[str, list[str]] = {"relevant": [], "irrelevant": []}
    for hit in before:
        kind = "relevant" if groups[hit["_id"]] == group else "irrelevant"
        if len(kinds[kind]) < (1 if kind == "relevant" else 2):
            kinds[kind].append(hit["_id"])
    answer = asked("feedback", session="anna", **kinds)
    print(f"\nthree marks: relevant {kinds['relevant']}, irrelevant {kinds['irrelevant']}")
    print(f"towards: {', '.join(answer['learned']['towards'])}; asked for too: {', '.join(answer['learned']['asked'])}")
    marked = {*kinds["relevant"], *kinds["irrelevant"]}
    after = [hit for hit in asked("search", session="anna", size=13)["hits"]["hits"] if hit["_id"] not in marked]
    print("\nthe same search in the session, without the marked hits")
    show(after[:10])


if __name__ == "__main__":
    main(*sys.argv[1:3])
