"""Sparse clauses: ``neural_sparse``, whose tokens the documents' own tokens move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resift.contracts.documents import VectorField
from resift.ranking.tokens import moved_tokens
from resift.rewriting.clauses import kind_of
from resift.rewriting.knn import Moved
from resift.rewriting.outcome import Note, Outcome
from resift.sessions.index_knowledge import FieldKnowledge

_OF_TEXTS = ("query_text", "model_id", "analyzer")


@dataclass(frozen=True)
class SparseQuery:
    """What a sparse clause asks for: the ``name`` of a field, with ``settings``, by tokens or by a text."""

    name: str
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, clause: Any) -> SparseQuery | None:
        """What a clause asks for; None of one that is no sparse clause, or malformed."""
        inner = clause["neural_sparse"] if kind_of(clause) == "neural_sparse" else {}
        settings = next(iter(inner.values()), None)
        return cls(next(iter(inner)), settings) if len(inner) == 1 and isinstance(settings, Mapping) else None

    def field(self, mapped: Mapping[str, VectorField]) -> VectorField | None:
        """The field of the documents' tokens; None of nested or unknown ones."""
        field = mapped.get(self.name)
        return field if field is not None and not field.nested and field.kind == "tokens" else None

    @property
    def given(self) -> dict[str, float] | None:
        """The tokens that it names itself."""
        tokens = self.settings.get("query_tokens")
        if not isinstance(tokens, Mapping) or not tokens:
            return None
        is_whole = all(isinstance(weight, (int, float)) for weight in tokens.values())
        return {token: float(weight) for token, weight in tokens.items()} if is_whole else None

    def text(self, field: VectorField) -> tuple[str | None, str | None, str] | None:
        """The model or the analyzer, and the text that they make tokens of."""
        text, analyzer = self.settings.get("query_text"), self.settings.get("analyzer")
        model = self.settings.get("model_id") or (None if analyzer else field.model)
        return (model, analyzer, text) if isinstance(text, str) and self.given is None else None

    def moved(self, known: FieldKnowledge) -> Moved | Note:
        """The clause with its tokens moved, or why they cannot be."""
        field = self.field(known.mapped)
        if field is None:
            return Note(Outcome.NOT_MOVED, self.name)
        documents, asked = known.tokens.get(field.name), self.text(field)
        if documents is None:
            return Note(Outcome.NO_VECTORS, self.name)
        tokens = self.given if asked is None else known.query_tokens.get(asked)
        if not tokens:
            return Note(Outcome.MODEL_UNAVAILABLE, self.name)
        rest = {name: value for name, value in self.settings.items() if name not in _OF_TEXTS}
        return Moved({"neural_sparse": {field.name: {**rest, "query_tokens": moved_tokens(tokens, *documents)}}})
