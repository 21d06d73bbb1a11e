"""Readers of test collections, and the types that they return.

- :mod:`.labelled` reads labelled documents.
- :mod:`.sentence_pairs` reads sentence pairs with human scores.
- :mod:`.collection` reads folders in BEIR's layout (documents, queries and relevance judgements), and
  :mod:`.conversations` reads such folders with conversations.
- :mod:`.split` divides the queries of a collection into training, validation and test queries.

Files may be plain or gzipped. Malformed files raise an error, which names the file, the line and the expected content.
"""

from resift_lab.evaluation.data.collection import Collection, has_part, read_collection, read_judgements, with_queries
from resift_lab.evaluation.data.conversations import Turn, read_conversations
from resift_lab.evaluation.data.labelled import LabelledDocuments, read_labelled_documents, read_labelled_texts
from resift_lab.evaluation.data.sentence_pairs import SentencePairs, read_sentence_pairs
from resift_lab.evaluation.data.split import Positions, Split, block_split

__all__ = [
    "Collection",
    "LabelledDocuments",
    "Positions",
    "SentencePairs",
    "Split",
    "Turn",
    "block_split",
    "has_part",
    "read_collection",
    "read_conversations",
    "read_judgements",
    "read_labelled_documents",
    "read_labelled_texts",
    "read_sentence_pairs",
    "with_queries",
]
