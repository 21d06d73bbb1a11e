"""Files with small data for the commands of documentation pages."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from resift import WordVectors
from resift.cli.transcript import corpus_file
from resift.text import tokenize
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors

TOPICS = 15
TOPIC_WORDS = 10  # number of words of a topic
CITIES = (
    "athens baghdad beijing berlin boston cairo chicago dallas delhi denver dublin geneva havana houston jakarta lagos "
    "lima lisbon london madrid manila moscow nairobi oslo paris tokyo"
)
# Words of the queries, and the words that the documents use instead.
SYNONYMS = {
    "car": "automobile",
    "cash": "money",
    "doctor": "physician",
    "film": "movie",
    "forest": "woodland",
    "garden": "orchard",
    "house": "residence",
    "illness": "disease",
    "kid": "child",
    "king": "monarch",
    "kitchen": "cookery",
    "lawyer": "attorney",
    "road": "street",
    "salary": "wage",
    "sea": "ocean",
    "ship": "vessel",
    "soldier": "warrior",
    "teacher": "instructor",
    "thief": "burglar",
    "war": "conflict",
}
OTHER_WORDS = (
    "apple bridge butter desert engine harbour horse iron island justice letter machine market mountain music paper "
    "planet poetry river school spider violin window winter"
)


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write records as lines of JSON."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def write_collection(folder: Path, records: list[dict[str, Any]], queries: list[dict[str, Any]]) -> None:
    """Write documents, queries and their relevant documents in BEIR's layout."""
    folder.mkdir()
    write_lines(folder / "corpus.jsonl", [{"_id": record["id"], **record} for record in records])
    write_lines(folder / "queries.jsonl", [{"_id": query["_id"], "text": query["text"]} for query in queries])
    judged = [f"{query['_id']}\t{id}\t1\n" for query in queries for id in query["relevant"]]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged), "utf-8")


def topic_documents(count: int) -> list[dict[str, Any]]:
    """Return documents with six words of their topic and three other words. Each label has five topics.

    The words of a topic are drawn at random from the passages of the demonstration, so they have a common meaning only
    in these documents.
    """
    with gzip.open(corpus_file(), "rt", encoding="utf-8") as handle:
        texts = [json.loads(line)["text"] for line in handle]
    words = sorted({word for text in texts for word in text.lower().split() if re.fullmatch("[a-z]{5,}", word)})
    rng = random.Random(3)
    rng.shuffle(words)
    made = []
    for number in range(count):
        start = TOPIC_WORDS * (number % TOPICS)
        drawn = rng.sample(words[start : start + TOPIC_WORDS], 6) + rng.sample(words[-60:], 3)
        rng.shuffle(drawn)
        label = "abc"[number % TOPICS % 3]
        made.append({"id": str(number), "title": " ".join(drawn[:2]), "text": " ".join(drawn), "label": label})
    return made


def synonym_questions() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return 104 documents, and two queries for each of them with the relevant document.

    Four documents are about the same city. They name it once, twice, three times and four times, so that BM25 prefers
    the fourth document for each query. A query contains the city, a synonym of a word of its document, and four words
    of other documents. Comparing word with word finds the synonym, and training learns to ignore the other words.
    Full stops separate the texts into keywords of two words, which word2doc learns from.
    """
    rng, others = random.Random(1), OTHER_WORDS.split()
    records, queries = [], []
    for city in CITIES.split():
        for place, (asked, written) in enumerate(rng.sample(list(SYNONYMS.items()), 4)):
            id = str(len(records))
            words = [city] * (1 + place) + [written] + rng.sample(others, 4)
            rng.shuffle(words)
            keywords = [" ".join(words[start : start + 2]) for start in range(0, len(words), 2)]
            records.append({"id": id, "title": keywords[0], "text": ". ".join(keywords)})
            for _ in range(2):
                text = " ".join([city, asked, *rng.sample(others, 4)])
                queries.append({"_id": f"q{len(queries)}", "text": text, "relevant": [id]})
    return records, queries


def save_vectors(folder: Path, texts: Iterable[str]) -> WordVectors:
    """Save the packaged vectors of the words of texts, which train and load faster than all packaged vectors."""
    packaged = load_vectors(DEFAULT_MODEL)
    words = sorted({word for text in texts for word in tokenize(text) if packaged.index[word] >= 0})
    ids = [packaged.index[word] for word in words]
    table = WordVectors(words, packaged.rows()[ids], packaged.weights[ids])
    table.save(folder)
    return table
