"""Readers of test collections, and the types that they return.

Labelled documents (:mod:`.labelled`), sentence pairs (:mod:`.sentence_pairs`), BEIR folders (:mod:`.collection`), some
of them with conversations (:mod:`.conversations`), and splits of a collection's queries (:mod:`.split`). Files may be
plain or gzipped. Readers guess nothing: errors name the file, the line and what was expected.
"""

from resift_lab.evaluation.data.collection import Collection, has_part, read_collection, read_judgements, with_queries
from resift_lab.evaluation.data.conversations import Turn, read_conversations
from resift_lab.evaluation.data.labelled import Classes, read_classes, read_labelled
from resift_lab.evaluation.data.sentence_pairs import SentencePairs, read_pairs
from resift_lab.evaluation.data.split import Positions, Split, block_split

__all__ = [
    "Classes",
    "Collection",
    "Positions",
    "SentencePairs",
    "Split",
    "Turn",
    "block_split",
    "has_part",
    "read_classes",
    "read_collection",
    "read_conversations",
    "read_judgements",
    "read_labelled",
    "read_pairs",
    "with_queries",
]
