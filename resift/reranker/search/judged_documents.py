"""The documents that a session judged, as their indices hold them now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import AmbiguousDocument, IndexNotFound, IndexNotServed, ModelMismatch
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import document_text
from resift.ranking.judgements import JudgedDocument, Judgement
from resift.cache import TtlCache
from resift.reranker.search.hits import vectors_of
from resift.sessions.sessions import Session

_SECONDS, _BYTES = 300.0, 16_000_000
_OTHER_BYTES = 600  # of an entry, beside its vector and its text
_MAX_TEXT = 20_000
Headers = Mapping[str, str] | None
Content = tuple[Floats, str]


class JudgedDocuments:
    """Fetches judged documents' vectors and texts, and remembers them for five minutes.

    ``info`` gives an index's fields for a caller's headers, and raises ModelMismatch for an index of another model.
    """

    def __init__(self, engine: Engine, model: Model, info: Callable[[str, Headers], IndexInfo]) -> None:
        self.engine, self.model, self.info = engine, model, info
        self._contents: TtlCache[Content] = TtlCache(_BYTES, _SECONDS)

    def forget(self) -> None:
        """Fetch all documents anew: some have changed."""
        self._contents.clear()

    def of(self, session: Session | None, headers: Headers = None) -> list[JudgedDocument]:
        """The session's effective judgements with their documents.

        Left out are documents that are gone or that the caller may not read, those whose ids another index has by now,
        and indices that are gone, are not served or hold vectors of another model.
        """
        return [] if session is None else self.of_judgements(session.effective_judgements, headers)

    def of_judgements(self, judgements: Sequence[Judgement], headers: Headers = None) -> list[JudgedDocument]:
        """Judgements with their documents, as :meth:`of` gives them."""
        contents = self._contents_of(judgements, headers)
        return [
            JudgedDocument(judgement, *contents[judgement.index, judgement.document])
            for judgement in judgements
            if (judgement.index, judgement.document) in contents
        ]

    def shown(self, session: Session, headers: Headers) -> list[Judgement]:
        """The session's judgements that may be shown: to a caller with rights of its own those of documents that it may
        read."""
        if headers is None:
            return list(session.judgements)
        contents = self._contents_of(session.judgements, headers)
        return [one for one in session.judgements if (one.index, one.document) in contents]

    def _contents_of(self, judgements: Sequence[Judgement], headers: Headers) -> dict[tuple[str, str], Content]:
        contents: dict[tuple[str, str], Content] = {}
        for index in dict.fromkeys(judgement.index for judgement in judgements):
            ids = list(dict.fromkeys(judgement.document for judgement in judgements if judgement.index == index))
            contents |= {(index, id): content for id, content in self._known_or_fetched(index, ids, headers).items()}
        return contents

    def _known_or_fetched(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        remembered = {id: self._contents.get((index, id, str(headers))) for id in ids}
        known = {id: content for id, content in remembered.items() if content is not None}
        unknown = [id for id in ids if id not in known]
        if not unknown:
            return known
        try:
            return known | self.fetch(index, unknown, headers)
        except AmbiguousDocument:
            half = len(unknown) // 2
            parts = (unknown[:half], unknown[half:]) if half else ()
            return known | {
                id: one for part in parts for id, one in self._known_or_fetched(index, part, headers).items()
            }
        except (IndexNotFound, IndexNotServed, ModelMismatch):
            # all or none: what is still remembered of an index that is gone would be forgotten within minutes
            return {}

    def fetch(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Vector (K,) and text of each of these documents that exists.

        Raises IndexNotFound, IndexNotServed, ModelMismatch, AmbiguousDocument, and what the engine raises.
        """
        info = self.info(index, headers)
        documents = self.engine.documents(index, ids, headers, info.searched)
        existing = [id for id in ids if id in documents]
        texts = [document_text(documents[id][0], info.fields) for id in existing]
        stored = [documents[id][1] for id in existing]
        vectors = vectors_of(self.model, stored, lambda rows: [texts[row] for row in rows])
        caller, contents = str(headers), dict[str, Content]()
        for id, vector, text in zip(existing, vectors, texts, strict=True):
            content: Content = (vector, text[:_MAX_TEXT])
            size = vector.nbytes + sys.getsizeof(content[1]) + len(caller) + _OTHER_BYTES
            # headers are part of the key: callers with rights of their own may read other documents
            contents[id] = self._contents.put((index, id, caller), content, size)
        return contents
