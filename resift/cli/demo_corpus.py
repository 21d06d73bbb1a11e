"""The demonstration's packaged corpus: passages, and conversations whose questions people judged passages for.

It is taken from MTRAG (IBM, Apache-2.0); ``resift/data/demo/NOTICE`` says what was changed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from importlib.resources import files

from resift.ingest.readers import Files, Record


@dataclass(frozen=True)
class Question:
    """A question of a conversation, how the conversation began, and the ids of the relevant passages.

    ``relevant`` holds every passage that people judged relevant to this question or to another one of the same
    conversation: somebody who asks the question is after them all.
    """

    text: str
    opening: str
    relevant: frozenset[str]


def corpus_file() -> str:
    """The path of the packaged passages, JSON lines with ``_id``, ``title`` and ``text``."""
    return _path("corpus.jsonl.gz")


def load_questions() -> list[Question]:
    """All packaged questions, one conversation after another, each in the order in which it was held."""
    conversations = defaultdict(list)
    for record in Files([_path("questions.jsonl.gz")]):
        assert isinstance(record, Record)
        conversations[record.source["conversation"]].append(record.source)
    questions = []
    for turns in conversations.values():
        relevant = frozenset(passage for turn in turns for passage, mark in turn["marks"].items() if mark > 0)
        questions += [Question(turn["text"], turns[0]["text"], relevant) for turn in turns]
    return questions


def _path(name: str) -> str:
    return str(files("resift") / "data" / "demo" / name)
