"""The Python library: :func:`open` connects to a search engine, and gives access to indices, searches and sessions.

The library uses the same code as the HTTP service, without a server. Documents are indexed as by ``resift index``.
Searches, marks and explanations are the same as under ``/v1/search``, ``/v1/feedback`` and ``/v1/sessions``. All
objects may be used from several threads.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from resift.client import for_event_loop
from resift.contracts.search_options import PipelineOptions
from resift.contracts.search_options import SearchOptions as SearchOptions
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import AmbiguousDocument, BadInput, EngineUnavailable, IndexNotFound
from resift.feedback.explain import title_of
from resift.feedback.judgements import collect_marks
from resift.feedback.methods import MethodName
from resift.feedback.scope import is_same_query
from resift.ingest.indexing import Indexer
from resift.ingest.tables import Added as Added
from resift.ingest.tables import Refusals, records_of, rows_in
from resift.notebook import NotebookTable, NotebookText, progress_bar
from resift.options_section import with_options, without_options
from resift.query.body import parse
from resift.query.dsl import document_text
from resift.reviews.review import Review
from resift.reviews.reviews import ReviewSettings
from resift.rewriting.options import read_options
from resift.rewriting.outcome import Outcome
from resift.schema import check_text, convert, fields_as_arguments, fields_of, read_struct
from resift.service.bodies import Search, as_body
from resift.service.config import Config
from resift.service.connect import open_engine, open_session_store
from resift.service.marks import session_summary
from resift.service.search_service import SearchService
from resift.sessions.documents import readable_text
from resift.sessions.sessions import Sessions, StoredSession, check_session_id
from resift.vectors.packaged import DEFAULT_MODEL

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger(__name__)


class Hit(dict[str, Any]):
    """A search hit: a dictionary in OpenSearch's format, with properties for its most important values."""

    @property
    def id(self) -> str:
        """The document's id."""
        return str(self["_id"])

    @property
    def score(self) -> float | None:
        """The score of the hit, or None if hits are sorted by a field. Higher scores are better."""
        return None if self["_score"] is None else float(self["_score"])

    @property
    def source(self) -> dict[str, Any]:
        """The fields of the document. Empty if the search body excludes ``_source``."""
        return dict(self.get("_source", {}))

    @property
    def because(self) -> dict[str, Any] | None:
        """The relevance judgement that changed the rank of this hit, or None if no judgement did.

        This is available only if the search was run with ``reasons``. ``index``, ``document``, ``grade`` and ``title``
        describe the judged document, ``similarity`` is its similarity to the hit, and ``moved`` is the number of ranks
        that the hit moved up. ``moved`` is negative if the hit moved down. In a search without vectors, ``similarity``
        is None, and ``words`` are expansion words that the hit shares with the judged document.
        """
        because: dict[str, Any] | None = self.get("resift", {}).get("because")
        return because

    def __repr__(self) -> str:
        return f"<Hit {self.id!r}, score {self.rounded_score}>"

    @property
    def rounded_score(self) -> str:
        """The score as text with at most four digits, such as "5.436" or "1.4e26", or "-" for a hit without a score."""
        rounded = "-" if self.score is None else f"{self.score:.4g}"
        if "e" not in rounded:
            return rounded
        # With an alpha near 1, scores are large powers of e. Two digits are sufficient.
        digits, power = f"{self.score:.1e}".split("e")
        return f"{digits}e{int(power)}"


class Hits(NotebookTable, list[Hit]):
    """A page of search hits, best first.

    Args:
        response: The response to the search, in the format of ``POST /v1/search``.
        text_fields: The text fields of the index.
        start: The number of hits before this page.

    Attributes:
        response: The whole response to the search, as a dictionary.
    """

    def __init__(self, response: dict[str, Any], text_fields: Sequence[str] = (), start: int = 0) -> None:
        super().__init__(Hit(hit) for hit in response["hits"]["hits"])
        self.response, self._fields, self._start = response, text_fields, start

    @property
    def total(self) -> int | None:
        """The number of matching documents, or None if the search body disables ``track_total_hits``."""
        total = self.response["hits"].get("total")
        return None if total is None else int(total["value"])

    @property
    def did_you_mean(self) -> str | None:
        """The query with corrected spelling, or None if no word is misspelt."""
        suggestion: str | None = self.response["resift"].get("did_you_mean")
        return suggestion

    def __repr__(self) -> str:
        lines = [
            f"{rank:3}. {hit.rounded_score:6}  {hit.id}: {title_of(document_text(hit.source, self._fields))}"
            for rank, hit in enumerate(self, self._start + 1)
        ]
        if self.did_you_mean:
            lines.insert(0, f"did you mean: {self.did_you_mean}")
        return "\n".join(lines) or "no hits"


class Explanation(NotebookText, dict[str, Any]):
    """A description of a search session, as a dictionary in the format of ``GET /v1/sessions/<id>``.

    It contains the id (``session``), the times ``created`` and ``expires``, and the number of ``steps``. A step is a
    group of marks that were made together and can be undone together. The keys ``judgements`` and ``learned`` contain
    all judgements and a summary of what was learned from them. :meth:`Session.mark` returns these two keys only if it
    is called with ``explain``.
    """

    def __repr__(self) -> str:
        if "learned" not in self:
            return f"session {self['session']}: steps {self['steps']}"
        learned = self["learned"] or {"because": []}
        lines = [f"session {self['session']}: judgements {len(learned['because'])}, steps {self['steps']}"]
        lines += [
            f"{judged['grade']:+5g}  {judged['document']}: {judged['title']} ({', '.join(judged['words'])})"
            for judged in learned["because"]
        ]
        for name, words in (("towards", "towards"), ("away from", "away"), ("also asked", "asked")):
            if learned.get(words):
                lines.append(f"{name}: {', '.join(learned[words])}")
        for name, codewords in (learned.get("mask") or {}).items():
            lines += [
                f"{name} weight: codeword {item['codeword']}, {item['weight']:.2f} ({', '.join(item['words'])})"
                for item in codewords
            ]
        return "\n".join(lines)

    def __str__(self) -> str:
        # Starts on a new line, since print() usually has hits before the explanation.
        return f"\n{self!r}"


class Library:
    """A connection to a search engine, together with an embedding model.

    A library is created by :func:`open`. It can be used as a context manager, which closes the connections at the end.

    Attributes:
        engine: The search engine.
        model: The embedding model that encodes texts.
        service: The service that runs searches. The HTTP service uses the same class.
    """

    def __init__(self, service: SearchService) -> None:
        self.service, self.engine, self.model = service, service.engine, service.model

    def index(self, name: str, fields: Sequence[str] | None = None, analyzer: str = "english") -> Index:
        """Open an index, and create it if it does not exist.

        Args:
            name: The name of the index.
            fields: The text fields, which are searched and encoded. They are required to create an index.
            analyzer: The analyzer of a new index, one of ``resift.contracts.documents.ANALYZERS``.

        Raises:
            IndexNotFound: If the index does not exist, and ``fields`` is missing.
            BadInput: If the index exists with other fields, or cannot be created with these fields.
            ModelMismatch: If the vectors in the index were made by another model.
        """
        if isinstance(fields, str):
            raise BadInput("fields is a string", value=fields, expected=f"a list of field names, [{fields!r}]")
        try:
            info = self.service.infos.get(name)
        except IndexNotFound as error:
            if fields is None:
                message = f"index {name!r} does not exist; pass its text fields to create it, such as fields=['text']"
                raise IndexNotFound(message, value=name, expected=error.expected) from None
            self.engine.create(name, list(fields), self.model, analyzer)
            info = self.service.infos.get(name)
        if fields is not None and tuple(fields) != info.fields:
            message = f"index {name!r} has the fields {list(info.fields)}, not {list(fields)}"
            raise BadInput(message, value=list(fields), expected=f"{list(info.fields)}, or no fields")
        return Index(self, name, info.fields)

    def close(self) -> None:
        """Close the connections to the search engine and to the stores."""
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Index:
    """An index of documents. It is opened by :meth:`Library.index`.

    Attributes:
        library: The library that opened the index.
        name: The name of the index.
        fields: The text fields, which are searched and encoded.
    """

    def __init__(self, library: Library, name: str, fields: tuple[str, ...]) -> None:
        self.library, self.name, self.fields = library, name, fields

    def add(self, documents: Any) -> Added:
        """Index documents, and replace existing documents with the same ids.

        Searches find the documents when this method returns. Refused documents are reported in the result. A
        ``UserWarning`` is issued if no document was indexed, or if no document has text in the index's text fields.

        Args:
            documents: The documents: an iterable of dictionaries, dataclasses, named tuples or Pydantic models, a
                pandas or polars data frame, an Arrow table or stream, or a Hugging Face data set. It can also be the
                ``pathlib.Path`` of a Parquet file, or of another file that ``resift index`` reads. A document's id is
                its ``_id`` or ``id``. In a pandas data frame, it is the data frame's index if the index has a name.
                Documents without an id get a hash of their content. NumPy values, dates, UUIDs and decimals are
                converted to JSON.

        Raises:
            BadInput: If ``documents`` is a single document, or not a supported type.
            ModelMismatch: If the index's vectors come from another model.
            EngineUnavailable: If the engine does not answer. It is safe to add all documents again.
        """
        refusals, records = Refusals(), records_of(rows_in(documents))
        indexer = Indexer(self.library.engine, self.library.model, self.name, refusals)
        total = len(documents) if isinstance(documents, Sized) else 0
        try:
            with progress_bar(f"adding to {self.name}") as show:
                report = indexer.run(
                    records, self.fields, progress=lambda done: show(done.indexed + done.refused, total)
                )
        except EngineUnavailable as error:
            again = "add the documents again when the engine is back"
            raise EngineUnavailable(error.message, value=error.value, expected=again) from error
        finally:
            self.library.service.knowledge.clear_document_cache()
        added = Added(report.indexed, sorted(refusals.refused, key=lambda refusal: refusal.position))
        if not added.indexed:
            reason = "documents is empty, or a generator that was already consumed"
            if report.refused:
                reason = f"all {report.refused} were refused, the first for: {added.refused[0].reason}"
            warnings.warn(f"no document was indexed: {reason}", stacklevel=2)
        elif report.without_text == report.indexed + report.refused:
            message = f"no document has text in {', '.join(self.fields)}: text queries cannot find the documents"
            warnings.warn(message, stacklevel=2)
        return added

    def get(self, id: str | int) -> dict[str, Any]:
        """Return the fields of a document.

        Args:
            id: The id of the document.

        Raises:
            NotFound: If the index has no document with this id.
        """
        return self.library.engine.get(self.name, str(id))[0]

    def text_of(self, source: Mapping[str, Any]) -> str:
        """Return the text of a document in the text fields of the index, with one value per line.

        In an index without vectors of Resift, these are the text fields of the mapping, without web addresses.

        Args:
            source: The fields of the document, such as :attr:`Hit.source`.
        """
        return readable_text(source, self.library.service.infos.get(self.name))

    def delete(self, ids: Iterable[str | int | Hit]) -> int:
        """Delete documents from the index.

        Args:
            ids: The ids of the documents, or search hits.

        Returns:
            The number of deleted documents. Documents that did not exist are not counted.
        """
        deleted = self.library.engine.delete(self.name, _document_ids("ids", ids))
        self.library.engine.refresh(self.name)
        self.library.service.knowledge.clear_document_cache()
        return deleted

    @fields_as_arguments(SearchOptions)
    def search(self, options: SearchOptions) -> Hits:
        """Search without relevance feedback.

        The first argument is the query: a text, a query clause or a whole search body. Pass the other fields of
        :class:`SearchOptions` as keyword arguments, for example ``index.search("forest fires", size=5)``.

        Returns:
            A page of hits, best first.

        Raises:
            BadInput: If the query is malformed, or an option is unknown or out of range.
            TextTooLong: If the query is longer than the setting ``max_text``.
            EngineError: If the engine rejects the search.
        """
        return self._search(options, None)

    search_async = for_event_loop(search)

    def session(self, id: str) -> Session:
        """Open a search session, in which marked documents improve later searches.

        A new session is stored when documents are first marked. A session expires if it is not used for the number of
        hours in the setting ``session_hours``, by default 24.

        Args:
            id: The id of the session: 1 to 128 letters, digits and ``_ . : -``.

        Raises:
            BadInput: If the id is malformed.
        """
        return Session(self, check_session_id(id))

    def review(self, id: str, topic: str = "", query: dict[str, Any] | None = None, target: float = 0.95) -> Review:
        """Open a review of documents in this index, and start it if it does not exist.

        In a review, people read and judge documents until most of the relevant documents have been found.

        Args:
            id: The id of the review.
            topic: A description of the relevant documents.
            query: A query clause that selects the documents to review. By default, all documents.
            target: The recall at which the review may stop.

        Raises:
            BadInput: If the id is malformed, or belongs to a review of another index.
        """
        settings = ReviewSettings(topic, query, self.fields, target)
        return self.library.service.reviews.begin(id, self.name, settings)

    def _search(self, options: SearchOptions, session: str | None) -> Hits:
        """Search the index.

        Args:
            options: The query and the other options of the search.
            session: The id of the session whose judgements change the ranking, or None for no session.
        """
        service = self.library.service
        if isinstance(options.query, str):
            check_text("query", options.query, service.config.max_text)
        answer = service.search(Search(**structs.asdict(options), index=self.name, session=session))
        return Hits(answer.body, service.infos.get(self.name).readable_fields, options.start)


class Session:
    """A search session, in which a user marks documents and thereby improves later searches.

    A session is opened by :meth:`Index.session`. Its judgements are stored under its id and are shared by all objects
    and processes that open a session with this id. To share sessions between machines, store them in the cluster (see
    the argument ``sessions`` of :func:`open`).

    Attributes:
        index: The index that the session searches.
        id: The id of the session.
    """

    def __init__(self, index: Index, id: str) -> None:
        self.index, self.id = index, id
        self._service = index.library.service
        self._query = ""

    @fields_as_arguments(SearchOptions)
    def search(self, options: SearchOptions) -> Hits:
        """Search with relevance feedback: the ranking follows what was learned from the marked documents.

        The first argument is the query: a text, a query clause or a whole search body. Pass the other fields of
        :class:`SearchOptions` as keyword arguments, for example ``session.search("forest fires", size=5)``.

        Returns:
            A page of hits, best first.

        Raises:
            BadInput: If the query is malformed, or an option is unknown or out of range.
            TextTooLong: If the query is longer than the setting ``max_text``.
            EngineError: If the engine rejects the search.
        """
        hits, query = self.index._search(options, self.id), options.query
        self._query = query if isinstance(query, str) else read_options(parse(as_body(query))).text or ""
        return hits

    @property
    def last_query(self) -> str:
        """The query text of the last search of this object, or "" if it has not searched yet.

        The text of a search body is the ``query`` in its section ``ext.resift``, or the text that the body searches
        for.
        """
        return self._query

    def rewrite(self, body: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Rewrite a search body so that its hits are ranked by this session's judgements.

        Any OpenSearch client can run the new search body.

        Args:
            body: Any search body. It is not modified.
            **options: Further options of ``ext.resift``, such as ``query``, ``judged`` or ``window``. The fields of
                :class:`resift.contracts.search_options.PipelineOptions` describe them.

        Returns:
            The new search body, without the section ``ext.resift``. If rewriting fails, or the index does not exist,
            ``body`` is returned without this section, and a warning is logged.

        Raises:
            BadInput: If the body is not a dictionary, or an option is unknown or has an invalid value.
        """
        names = [name for name in fields_of(PipelineOptions) if name != "session"]
        for name in options:
            if name not in names:
                raise BadInput(f"unknown option {name!r}", value=name, expected=" | ".join(names))
        read_struct(PipelineOptions, options)
        sent = with_options(body, session=self.id, **options)
        result = self._service.rewriter.rewrite_for_pipeline(self.index.name, sent)
        if result.outcome in (Outcome.FAILED, Outcome.INDEX_UNAVAILABLE):
            log.warning("searching without the session: %s", result.reason)
        elif result.has_warning:
            log.warning("the search of %r is not rewritten completely: %s", self.index.name, result.reason)
        return result.body if result.is_changed else without_options(body)

    def mark(  # noqa: PLR0913 - the fields of POST /v1/feedback
        self,
        relevant: Iterable[str | int | Hit] = (),
        irrelevant: Iterable[str | int | Hit] = (),
        clicked: Iterable[str | int | Hit] = (),
        skipped: Iterable[str | int | Hit] = (),
        neutral: Iterable[str | int | Hit] = (),
        query: str | None = None,
        scores: Mapping[str, float] | None = None,
        explain: bool = False,
    ) -> Explanation:
        """Judge documents for a query, as one step of the session.

        Clicked and skipped hits have a smaller weight than documents that are marked explicitly.

        Args:
            relevant: Relevant documents: hits, document ids, or documents of LangChain, LlamaIndex or Haystack.
            irrelevant: Documents that are not relevant.
            clicked: Hits that were opened.
            skipped: Hits above an opened hit that were not opened.
            neutral: Documents whose earlier marks are withdrawn.
            query: The query text that the marks were made for; by default the last query that this object searched.
            scores: A model's judgements by document id, from -1 (irrelevant) to 1 (relevant). The absolute value is the
                weight of the judgement.
            explain: Whether to return all judgements and what was learned from them, as :meth:`explain` does.
                This takes several requests to the engine.

        Returns:
            The session's id, times and number of steps. With ``explain``, also all ``judgements``, and what was
            ``learned``.

        Raises:
            BadInput: If nothing is marked, or a document is marked twice.
            NotFound: If a document does not exist. Nothing is stored in that case.
            AmbiguousDocument: If the index's name refers to several indices that contain this id. Pass hits of a single
                index instead of ids.
        """
        marked = {
            "relevant": relevant,
            "irrelevant": irrelevant,
            "clicked": clicked,
            "skipped": skipped,
            "neutral": neutral,
        }
        documents = {name: _as_list(name, listed) for name, listed in marked.items()}
        marks = collect_marks({name: _document_ids(name, listed) for name, listed in documents.items()}, scores)
        query = self._query if query is None else query
        if not isinstance(query, str):
            raise BadInput("query is not a text", value=query, expected="a text")
        check_text("query", query, self._service.config.max_text)
        try:
            session = self._service.marks.add(self.id, self.index.name, query, marks)
        except AmbiguousDocument:
            # The name refers to several indices that contain the id. Hits know their own index.
            all_documents = [document for listed in documents.values() for document in listed]
            indices = {document["_index"] if isinstance(document, Hit) else None for document in all_documents}
            own_index = indices.pop() if len(indices) == 1 and not scores else None
            if own_index is None:
                raise
            session = self._service.marks.add(self.id, own_index, query, marks)
        return Explanation(self._service.marks.describe_change(session) if explain else session_summary(session))

    def judge(
        self,
        hits: Iterable[Hit],
        score: Callable[[str, list[str]], Sequence[float]],
        budget: int = 10,
        explain: bool = False,
    ) -> Explanation:
        """Let a model mark the top-ranked hits of the last search.

        Hits that were already judged for the same query in this session are not marked again, but they count towards
        the budget.

        Args:
            hits: Hits of the last search.
            score: A function that takes the query and a list of document texts, and returns a number for each text,
                from -1 (irrelevant) to 1 (relevant).
            budget: Maximum number of judgements for this query.
            explain: Whether to return all judgements and what was learned from them, as for :meth:`mark`.

        Returns:
            The session, as :meth:`mark` returns it.

        Raises:
            BadInput: If ``score`` returned another number of scores, or a score out of range.
        """
        session = self._service.sessions.find(self.id)
        judgements = () if session is None else session.judgements
        judged = {judgement.document for judgement in judgements if is_same_query(judgement.query, self._query)}
        new = [hit for hit in hits if hit.id not in judged][: max(0, budget - len(judged))]
        if not new:
            return self._explanation(session, explain)
        scores = list(score(self._query, [self.index.text_of(hit.source) for hit in new]))
        if len(scores) != len(new):
            message = f"score returned {len(scores)} scores for {len(new)} texts"
            raise BadInput(message, value=scores, expected=f"{len(new)} numbers")
        marks = {hit.id: float(number) for hit, number in zip(new, scores, strict=True)}
        return self.mark(scores=marks, explain=explain)

    search_async = for_event_loop(search)
    mark_async = for_event_loop(mark)
    rewrite_async = for_event_loop(rewrite)

    def undo(self) -> Explanation:
        """Undo the last call that marked documents in this session.

        Returns:
            A description of the session after the change.

        Raises:
            SessionNotFound: If the session does not exist.
            BadInput: If the session has no marks to undo.
        """
        return Explanation(self._service.marks.describe_change(self._service.sessions.undo(self.id)))

    def forget(self) -> None:
        """Delete this session with all its judgements.

        Raises:
            SessionNotFound: If the session does not exist.
        """
        self._service.sessions.delete(self.id)

    def explain(self, feedback: MethodName | None = None) -> Explanation:
        """Return all judgements of this session, with a summary of what was learned from them.

        If no document has been marked yet, ``judgements`` is empty and ``learned`` is None.

        Args:
            feedback: The feedback method to describe, such as ``mask``. By default, it is the method of the setting
                ``feedback``.

        Raises:
            BadInput: If there is no method of this name.
        """
        method = None if feedback is None else convert("feedback", feedback, MethodName)
        return self._explanation(self._service.sessions.find(self.id), method=method)

    def _explanation(
        self, session: StoredSession | None, explain: bool = True, method: MethodName | None = None
    ) -> Explanation:
        """Describe a stored session. A session without marks is not stored, and counts as empty.

        Args:
            session: The stored session, or None if it does not exist.
            explain: Whether to include the judgements and what was learned from them.
            method: The feedback method to describe, or None for the method of the settings.
        """
        if session is None:
            empty = {"session": self.id, "created": None, "expires": None, "steps": 0}
            return Explanation(empty, judgements=[], learned=None) if explain else Explanation(empty)
        return Explanation(
            self._service.marks.describe_session(session, method=method) if explain else session_summary(session)
        )


def open(
    url: str | Path = "resift.db",
    model: str | Path | Model = DEFAULT_MODEL,
    *,
    sessions: str | Path | None = None,
    **settings: Any,
) -> Library:
    """Open an OpenSearch cluster or the embedded engine.

    A cluster receives no requests until an index is opened.

    Args:
        url: URL of a cluster (``http(s)://…``), or path of the embedded engine's file, which is created if missing.
        model: A model, the folder of a saved model, or ``resift-en``, the packaged model.
        sessions: The store of sessions: URL of a cluster, or path of a file. The default is the engine's file, or
            ``sessions.db`` if ``url`` is a cluster, as for the service and the commands.
        **settings: Further settings, such as ``alpha``, ``window`` or ``knn`` (see
            :class:`resift.service.config.Config`).

    Raises:
        BadInput: If a setting is unknown or out of range, or the file cannot be opened.
        ModelNotFound: If there is no model in the folder.
        CorruptModel: If the model's files are damaged.
        EngineUnavailable: If the file cannot be opened.
    """
    names = [name for name in fields_of(Config) if name not in ("engine", "model", "store", "index", "max_body")]
    for name in settings.keys() - set(names):
        raise BadInput(f"unknown setting {name!r}", value=name, expected=" | ".join(names))
    if not isinstance(url, (str, Path)):  # str(None) would create a file named None
        raise BadInput(f"url is {url!r}", value=url, expected="a cluster's URL or a file")
    config = Config(engine=str(url), store=str(sessions or ""), **settings)
    encoder = model if isinstance(model, Model) else load_model(model)
    engine = open_engine(config.engine)
    try:
        opened = Sessions(open_session_store(config.store, config.session_index), config.session_hours)
        return Library(SearchService(engine, encoder, opened, config))
    except BaseException:
        engine.close()
        raise


def _as_list(name: str, documents: Iterable[str | int | Hit]) -> list[str | int | Hit]:
    """Convert an argument that contains several documents to a list.

    Args:
        name: The name of the argument, for error messages.
        documents: The ids of documents, or hits.

    Raises:
        BadInput: If the argument is a single document or id.
    """
    if isinstance(documents, (str, Mapping)) or not isinstance(documents, Iterable):
        raise BadInput(f"{name} is not a list", value=documents, expected="a list of document ids or hits")
    return list(documents)


def _document_ids(name: str, documents: Iterable[str | int | Hit]) -> list[str]:
    """Return the ids of documents, which can be ids, hits, or documents of LangChain, LlamaIndex or Haystack.

    Args:
        name: The name of the argument that contains the documents, for error messages.
        documents: The documents.

    Raises:
        BadInput: If the argument is not a list, or an item has no valid id.
    """
    # The engine stores numeric ids as strings. LlamaIndex's nodes have the id in node_id.
    raw = [getattr(document, "node_id", getattr(document, "id", document)) for document in _as_list(name, documents)]
    ids = [str(id) if type(id) is int else id for id in raw]
    invalid = [id for id in ids if not isinstance(id, str) or not id]
    if invalid:
        message = f"{name} contains a value that is not a document id"
        raise BadInput(message, value=invalid[0], expected="document ids or hits")
    return list(map(str, ids))
