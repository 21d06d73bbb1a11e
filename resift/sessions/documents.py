"""Load the texts, vectors and sparse tokens of judged documents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from resift.arrays import Floats
from resift.cache import TtlCache, digest, get_or_fetch
from resift.contracts.documents import IndexInfo, VectorField
from resift.contracts.encoding import encode_documents
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import ResiftError
from resift.feedback.feedback import Feedback
from resift.feedback.field_feedback import FieldFeedback, Tokens
from resift.feedback.judgements import JudgedDocument
from resift.feedback.ridge import Background
from resift.field_names import has_title_name, is_about_person
from resift.query.dsl import document_text
from resift.query.patterns import NamePatterns
from resift.rewriting.knowledge import FieldKnowledge, JudgedTokens, RequiredData, TextToEncode

log = logging.getLogger(__name__)


class SourceText(NamedTuple):
    """The text in a field of a document's ``_source``.

    Attributes:
        names: The names by which queries search the text.
        text: The text, with one value of the field per line.
    """

    names: tuple[str, ...]
    text: str


Content = tuple[Floats, tuple[SourceText, ...]]
"""The vector, of shape (K,), and the texts of a document."""
_MAX_TEXT = 20_000  # characters of a document that are learned from
# The cache of documents' vectors and tokens.
_DOCUMENT_SECONDS = 300.0
_CACHE_BYTES = 16_000_000
_ENTRY_BYTES = 200
_TOKEN_BYTES = 100
# The cache of encoded query texts.
_TEXT_SECONDS = 3600.0
_CACHED_TEXTS = 2000
# If a model fails to encode a text, the text is not sent to the model again for some time.
_FAILURE_SECONDS = 10.0
_CACHED_FAILURES = 200


def read_documents(
    engine: Engine, model: Model, info: IndexInfo, ids: Sequence[str], headers: Headers
) -> dict[str, Content]:
    """Fetch documents from the engine, and return their vectors and texts.

    Documents without a stored vector are encoded by the model.

    Args:
        engine: The search engine.
        model: The embedding model of the vectors.
        info: The names and fields of the index.
        ids: The ids of the documents.
        headers: The caller's HTTP headers, which are passed on to the engine.

    Returns:
        A mapping from the ids of existing documents to their vectors, of shape (n_dimensions,), and texts.

    Raises:
        AmbiguousDocument: If several of the indices behind an alias contain a document with one of the ids.
        ResiftError: If the engine failed.
    """
    documents = engine.documents(info.name, ids, headers, info.vector_field)
    existing = {id: documents[id] for id in ids if id in documents}
    missing = [source for source, vector in existing.values() if vector is None]
    fields = info.fields or _paths_to_learn_from(info.text_sources)
    encoded = iter(encode_documents(model, missing, fields)[0] if missing else ())
    contents = {}
    for id, (source, stored_vector) in existing.items():
        vector = next(encoded) if stored_vector is None else np.asarray(stored_vector, np.float32)
        contents[id] = (vector, source_texts(source, info))
    return contents


def source_texts(source: Mapping[str, Any], info: IndexInfo) -> tuple[SourceText, ...]:
    """Return the texts of a judged document from which Resift can learn.

    In an index with vectors, the text fields that the model encodes are used. In other indices, all text fields of the
    mapping are used, and values that are web or e-mail addresses are left out. Fields about persons are left out if
    there are other fields: users who mark a document relevant look for the same subject, not for the same author.

    Args:
        source: The ``_source`` of the document.
        info: The names and fields of the index.

    Returns:
        The texts that are not empty. Titles come first.
    """
    if info.fields:
        fields = [name for name in info.fields if not is_about_person(name)] or info.fields
        return (SourceText((), document_text(source, fields)[:_MAX_TEXT]),)
    sources = _text_sources(source, info)
    return tuple(_texts_in_fields(source, sources, _paths_to_learn_from(sources)))


def readable_text(source: Mapping[str, Any], info: IndexInfo) -> str:
    r"""Return the text of a document for spelling corrections, related words and the reranking of hits.

    It consists of the texts of :func:`source_texts` and of texts in fields about persons, because a query can name a
    person.

    Args:
        source: The ``_source`` of the document.
        info: The names and fields of the index.

    >>> info = IndexInfo("films", (), None, None, None, text_sources={"by": ("by",), "film.title": ("film.title",)})
    >>> readable_text({"by": "Bo", "film": {"title": "Fire"}, "kind": "drama"}, info)
    'Fire\nBo'
    """
    if info.fields:
        return document_text(source, info.fields)
    sources = _text_sources(source, info)
    return "\n".join([text.text for text in _texts_in_fields(source, sources, _titles_first(sources))])


def readable_paths(source: Mapping[str, Any], info: IndexInfo) -> list[str]:
    """Return the paths of the fields whose texts :func:`readable_text` contains.

    Args:
        source: The ``_source`` of the document.
        info: The names and fields of the index.

    >>> info = IndexInfo("films", (), None, None, None, text_sources={"title": ("title",), "link": ("link",)})
    >>> readable_paths({"title": "Fire", "link": "https://films.example", "year": 1981}, info)
    ['title']
    """
    if info.fields:
        return list(info.fields)
    sources = _text_sources(source, info)
    return [path for path in sources if any(_texts_in_fields(source, sources, [path]))]


def _text_sources(source: Mapping[str, Any], info: IndexInfo) -> Mapping[str, tuple[str, ...]]:
    """Return the text fields of a document, each with the names by which queries search its text.

    If the mapping of the index is unknown, the fields with strings at the top level of the document are returned.

    Args:
        source: The ``_source`` of the document.
        info: The names and fields of the index.

    Returns:
        A mapping from the path of each field in the document to the names.
    """
    return info.text_sources or {name: (name,) for name, value in source.items() if isinstance(value, str)}


def _texts_in_fields(
    source: Mapping[str, Any], sources: Mapping[str, tuple[str, ...]], paths: Sequence[str]
) -> Iterator[SourceText]:
    """Yield the texts in some fields of a document, without addresses. Fields without a text are skipped.

    Args:
        source: The ``_source`` of the document.
        sources: For the path of each field, the names by which queries search its text.
        paths: The paths of the fields to read.
    """
    for path in paths:
        text = _without_addresses(document_text(source, [path]))
        if text.strip():
            yield SourceText(sources[path], text)


def _paths_to_learn_from(paths: Collection[str]) -> list[str]:
    """Return the paths of the text fields from which Resift learns, titles first.

    Fields about persons are left out, unless there are no other fields.

    Args:
        paths: The paths of the text fields.
    """
    return _titles_first([path for path in paths if not is_about_person(path)] or paths)


def _titles_first(paths: Collection[str]) -> list[str]:
    """Return the paths of fields in the same order, but fields with titles first."""
    return sorted(paths, key=lambda path: not has_title_name(path))


def join_texts(texts: Sequence[SourceText], text_fields: Collection[str] = ()) -> str:
    r"""Join the texts of a document from which Resift learns, preferably texts in the fields that a query searches.

    Args:
        texts: The texts of the document, from :func:`source_texts`.
        text_fields: The names or patterns of the fields that the query searches. If the document has text in any of
            them, all other texts are left out. Empty if the query searches all fields, or is unknown.

    >>> texts = [SourceText(("title", "title.english"), "Fire"), SourceText(("notes",), "Smoke")]
    >>> join_texts(texts, ["title.*"]), join_texts(texts, ["year"])
    ('Fire', 'Fire\nSmoke')
    """
    patterns = NamePatterns(text_fields)
    searched = [text for text in texts if any(map(patterns.match, text.names))]
    return "\n".join([text.text for text in searched or texts])[:_MAX_TEXT]


def _without_addresses(text: str) -> str:
    """Return a text of at most 20,000 characters, without lines that are web or e-mail addresses."""
    return "\n".join(line for line in text[:_MAX_TEXT].split("\n") if not _is_address(line.strip()))


def _is_address(text: str) -> bool:
    """Return whether a text is a web or e-mail address.

    Names of packages, such as ``@angular/router`` and ``react@18.2.0``, are no addresses.
    """
    user, _, domain = text.rpartition("@")
    is_email = bool(user) and "." in domain and not domain[0].isdigit()
    return ("://" in text or text.lower().startswith("www.") or is_email) and len(text.split()) == 1


def notes_on_unreadable_texts(documents: Sequence[JudgedDocument]) -> list[str]:
    """Return a note for the user if no judged document has a text, so that nothing can be learned from the marks.

    This happens if the index stores neither ``_source`` nor the fields themselves, for example.

    Args:
        documents: The judged documents of a session.

    Returns:
        A list with the note for the user, or an empty list.
    """
    if not documents or any(document.text.strip() for document in documents):
        return []
    return [f"nothing was learned from marked documents whose text could not be read: {len(documents)}"]


class FieldLoader:
    """Loads the vectors and sparse tokens of judged documents from an index, and encodes query texts.

    Vectors and tokens are cached for five minutes and encoded texts for an hour. Callers with different HTTP headers do
    not share cached values. Instances are thread-safe.

    Args:
        engine: The search engine.
        background: A function that returns the vectors of random documents in a given field.
    """

    def __init__(self, engine: Engine, background: Callable[[IndexInfo, Headers, str], Background]) -> None:
        self._engine, self._background = engine, background
        self._documents: TtlCache[Any] = TtlCache(_CACHE_BYTES, _DOCUMENT_SECONDS)
        self._texts: TtlCache[Any] = TtlCache(_CACHED_TEXTS, _TEXT_SECONDS)
        self._failures: TtlCache[bool] = TtlCache(_CACHED_FAILURES, _FAILURE_SECONDS)

    def clear_document_cache(self) -> None:
        """Clear the cache of documents. Call this method after documents were changed."""
        # A new cache: a thread that is reading the old documents now stores them in the old cache.
        self._documents = TtlCache(_CACHE_BYTES, _DOCUMENT_SECONDS)

    def load(
        self,
        info: IndexInfo,
        needs: RequiredData,
        feedback: Feedback,
        documents: Sequence[JudgedDocument],
        searched: Sequence[JudgedDocument],
        headers: Headers = None,
    ) -> FieldKnowledge:
        """Load the vectors and tokens of judged documents from the fields that a query searches, and learn from them.

        Fields that the engine refuses to read, and texts that it refuses to encode, are left out.

        Args:
            info: The names and fields of the index.
            needs: The fields that the query searches, and the query texts to encode.
            feedback: The part of the session's feedback that applies to the query.
            documents: All judged documents of the session. The positions in ``feedback`` refer to this list.
            searched: The judged documents that are in the searched index.
            headers: The caller's HTTP headers, or None.
        """
        searched_objects = set(map(id, searched))
        judged = {
            row: documents[position]
            for row, position in enumerate(feedback.positions)
            if id(documents[position]) in searched_objects
        }
        vectors: dict[str, FieldFeedback] = {}
        tokens: dict[str, JudgedTokens] = {}
        for field in sorted(needs.fields, key=lambda field: field.name):
            values = self._field_values(judged, field, headers)
            if not values:
                continue
            if field.has_tokens:
                grades = feedback.grades[list(values)].tolist()
                tokens[field.name] = JudgedTokens(documents=list(values.values()), grades=grades)
            else:
                lengths = np.array([np.linalg.norm(vector) for vector in values.values()])
                background = self._background(info, headers, field.name)
                vectors[field.name] = FieldFeedback(feedback.with_vectors(values, background), lengths)
        encoded = {}
        for text in needs.texts:
            result = self._encoded_text(text, headers)
            if result is not None:
                encoded[text] = result
        return FieldKnowledge(mapped=info.vector_fields, vectors=vectors, tokens=tokens, encoded=encoded)

    def _field_values(
        self, judged: Mapping[int, JudgedDocument], field: VectorField, headers: Headers
    ) -> dict[int, Any]:
        """Return a field's vectors or tokens for judged documents, from the cache or from the engine.

        Args:
            judged: The judged documents. The key of a document is its row number in the arrays of the session's
                :class:`Feedback`.
            field: The vector or token field.
            headers: The caller's HTTP headers.

        Returns:
            A mapping from row numbers to vectors or tokens, in ascending order. Documents without a value are left out.
        """
        values: dict[int, Any] = {}
        for index in dict.fromkeys(document.judgement.index for document in judged.values()):
            rows = {
                document.judgement.document: row
                for row, document in judged.items()
                if document.judgement.index == index
            }
            keys = {id: (index, id, field.name, str(headers)) for id in rows}
            fetch = partial(self._fetch, index, field, headers)
            try:
                values_by_id = get_or_fetch(self._documents, keys, fetch, _size_in_bytes)
            except ResiftError as error:
                log.warning("The field %r of judged documents cannot be read: %s", field.name, error.message)
                continue
            values |= {rows[id]: value for id, value in values_by_id.items() if len(value)}
        return dict(sorted(values.items()))

    def _fetch(self, index: str, field: VectorField, headers: Headers, ids: Sequence[str]) -> dict[str, Any]:
        """Read a field's vectors or tokens from the engine.

        Args:
            index: The name of the index.
            field: The vector or token field.
            headers: The caller's HTTP headers.
            ids: The ids of the documents.

        Returns:
            The vector or tokens of each document, by document id. The value is empty if a document has no vector or
            tokens.
        """
        values: Mapping[str, Any]
        if field.has_tokens:
            values = self._fetch_tokens(index, ids, field.name, headers)
        else:
            values = self._engine.field_vectors(index, ids, field.name, headers)
        return {id: values.get(id, ()) for id in ids}

    def _fetch_tokens(self, index: str, ids: Sequence[str], field: str, headers: Headers) -> dict[str, Tokens]:
        """Read sparse tokens from the engine.

        Args:
            index: The name of the index.
            ids: The ids of the documents.
            field: The name of the field with the tokens.
            headers: The caller's HTTP headers.

        Returns:
            For each document, by id, a mapping from its tokens to their weights.
        """
        tokens_by_id: dict[str, Tokens] = {}
        for id, values in self._engine.field_values(index, ids, field, headers).items():
            tokens = {}
            for value in values:
                if isinstance(value, Mapping):
                    tokens.update({token: float(weight) for token, weight in value.items()})
            tokens_by_id[id] = tokens
        return tokens_by_id

    def _encoded_text(self, text: TextToEncode, headers: Headers) -> Any:
        """Return the vector or sparse tokens of a query text, from the cache or from the engine.

        Args:
            text: The text, with the model or analyzer that encodes it.
            headers: The caller's HTTP headers.

        Returns:
            A vector, a mapping from tokens to weights, or None if the text cannot be encoded.
        """
        key = (digest(repr(text)), str(headers))
        cached = self._texts.get(key)
        if cached is not None or self._failures.get(key):
            return cached
        with self._texts.loading(key):
            cached = self._texts.get(key)
            return self._fetch_encoded(text, headers, key) if cached is None and not self._failures.get(key) else cached

    def _fetch_encoded(self, text: TextToEncode, headers: Headers, key: Hashable) -> Any:
        """Let a model or an analyzer of the engine encode a query text, and cache the result or the failure.

        Args:
            text: The text, with the model or analyzer that encodes it.
            headers: The caller's HTTP headers.
            key: The key of the text in the caches.

        Returns:
            A vector, a mapping from tokens to weights, or None if the text cannot be encoded.
        """
        try:
            if text.as_tokens:
                encoded: Any = self._engine.query_tokens(text.text, text.model, text.analyzer, headers)
            else:
                encoded = self._engine.embed(text.model or "", text.text, headers)
        except ResiftError as error:
            log.warning("A query text was not encoded: %s", error.message)
            self._failures.put(key, True)
            return None
        return None if encoded is None else self._texts.put(key, encoded)


def _size_in_bytes(value: Any) -> int:
    """Return the approximate size of a vector, or of the sparse tokens of a document, in the cache."""
    return _ENTRY_BYTES + (value.nbytes if isinstance(value, np.ndarray) else _TOKEN_BYTES * len(value))
