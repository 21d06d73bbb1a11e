"""The Python library: ``resift.open`` joins an engine and a model, and gives indices, searches and sessions.

It does what the HTTP service does, by the same code and without a server: documents are read, checked and encoded as by
``resift index``, and searched, marked and explained as under ``/v1/search``, ``/v1/feedback`` and ``/v1/sessions``.
Every object may be used from several threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from resift.client import for_event_loop, with_ext_of, with_options
from resift.contracts.search_options import SearchOptions as SearchOptions
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import AmbiguousDocument, BadInput, EngineUnavailable, IndexNotFound
from resift.feedback.explain import title_of
from resift.feedback.judgements import collect_marks
from resift.ingest.indexing import Indexer
from resift.ingest.tables import Added as Added
from resift.ingest.tables import Refusals, records_of, rows_in
from resift.notebook import HitTable, Shown, shown_progress
from resift.query.dsl import document_text
from resift.reviews.review import Review
from resift.rewriting.request import find_text
from resift.schema import check_text, fields_as_arguments, fields_of
from resift.service.bodies import Search
from resift.service.config import Config
from resift.service.connect import open_engine, open_session_store
from resift.service.search_service import SearchService, session_summary
from resift.sessions.sessions import Sessions, StoredSession, check_id
from resift.vectors.packaged import DEFAULT_MODEL

if TYPE_CHECKING:
    from typing_extensions import Self


class Hit(dict[str, Any]):
    """A hit: the dictionary that the service answers with, and short names for what is mostly wanted of it."""

    @property
    def id(self) -> str:
        """The document's id."""
        return str(self["_id"])

    @property
    def score(self) -> float | None:
        """The score, the higher the better; None where hits are sorted by something else."""
        return None if self["_score"] is None else float(self["_score"])

    @property
    def source(self) -> dict[str, Any]:
        """The document's fields; empty where the search body left them out."""
        return dict(self.get("_source", {}))

    @property
    def because(self) -> dict[str, Any] | None:
        """The judgement that moved this hit, and by how much, of a search with ``reasons``; None where none did."""
        because: dict[str, Any] | None = self.get("resift", {}).get("because")
        return because

    def __repr__(self) -> str:
        return f"<Hit {self.id!r}, score {self.rounded_score}>"

    @property
    def rounded_score(self) -> str:
        """The score in at most four digits, such as 5.436 or 1.4e26; - for a hit that has none."""
        rounded = "-" if self.score is None else f"{self.score:.4g}"
        if "e" not in rounded:
            return rounded
        # with an alpha near 1 scores are powers of e beyond all that needs to be read
        digits, power = f"{self.score:.1e}".split("e")
        return f"{digits}e{int(power)}"


class Hits(HitTable, list[Hit]):
    """A page of hits, best first. ``response`` is the whole answer, as ``POST /v1/search`` would give it."""

    def __init__(self, response: dict[str, Any], text_fields: Sequence[str] = (), start: int = 0) -> None:
        super().__init__(Hit(hit) for hit in response["hits"]["hits"])
        self.response, self._fields, self._start = response, text_fields, start

    @property
    def total(self) -> int | None:
        """How many documents match; None where the search body asked not to count them."""
        total = self.response["hits"].get("total")
        return None if total is None else int(total["value"])

    @property
    def did_you_mean(self) -> str | None:
        """The query with its misspelt words as they were probably meant; None where nothing seems misspelt."""
        meant: str | None = self.response["resift"].get("did_you_mean")
        return meant

    def __repr__(self) -> str:
        lines = [
            f"{rank:3}. {hit.rounded_score:6}  {hit.id}: {title_of(document_text(hit.source, self._fields))}"
            for rank, hit in enumerate(self, self._start + 1)
        ]
        meant = [f"did you mean: {self.did_you_mean}"] if self.did_you_mean else []
        return "\n".join([*meant, *lines]) or "no hits"


class Explanation(Shown, dict[str, Any]):
    """A session: its id, times, number of steps, and its ``judgements`` and what they taught (``learned``).

    It has the keys of ``GET /v1/sessions/<id>``. :meth:`Session.mark` leaves out ``judgements`` and ``learned`` unless
    called with ``explain``.
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
        return "\n".join(lines)

    def __str__(self) -> str:
        # starts a line of its own, since it is mostly printed behind hits
        return f"\n{self!r}"


class Library:
    """An engine and a model that work together; :func:`open` makes one, and ``with`` closes it at the end.

    ``engine``, ``model`` and ``service`` are its parts: search engine, encoder, and what answers HTTP requests, too.
    """

    def __init__(self, service: SearchService) -> None:
        self.service, self.engine, self.model = service, service.engine, service.model

    def index(self, name: str, fields: Sequence[str] | None = None, analyzer: str = "english") -> Index:
        """An index by its name; made if there is none and ``fields`` says which fields are searched and encoded.

        ``analyzer``, one of ``resift.contracts.documents.ANALYZERS``, is that of a new index. Raises IndexNotFound if
        there is no such index and no fields are given, BadInput if it exists with other fields or cannot be made of
        these, and ModelMismatch if its vectors are another model's.
        """
        if isinstance(fields, str):
            raise BadInput("fields is a string", value=fields, expected=f"a list of field names, [{fields!r}]")
        try:
            info = self.service.info(name)
        except IndexNotFound as error:
            if fields is None:
                message = f"no index {name!r}; name its text fields to make it, such as fields=['text']"
                raise IndexNotFound(message, value=name, expected=error.expected) from None
            self.engine.create(name, list(fields), self.model, analyzer)
            info = self.service.info(name)
        if fields is not None and tuple(fields) != info.fields:
            message = f"index {name!r} has the fields {list(info.fields)}, not {list(fields)}"
            raise BadInput(message, value=list(fields), expected=f"{list(info.fields)}, or no fields")
        return Index(self, name, info.fields)

    def close(self) -> None:
        """Let go of the engine's and the sessions' connections."""
        self.service.sessions.store.close()
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Index:
    """An index of documents; :meth:`Library.index` gives it. ``fields`` are those that are searched and encoded."""

    def __init__(self, library: Library, name: str, fields: tuple[str, ...]) -> None:
        self.library, self.name, self.fields = library, name, fields

    def add(self, documents: Any) -> Added:
        """Index documents, or replace those of the same ids; searches find them when this returns.

        ``documents`` is an iterable of dictionaries, dataclasses, named tuples or Pydantic models; a pandas or polars
        frame; an Arrow table or stream; a Hugging Face data set; or the ``pathlib.Path`` of a Parquet file or of one
        that ``resift index`` reads. Values of numpy, dates, UUIDs and decimals become what JSON has for them.

        A document's id is its ``_id`` or ``id``, that of a pandas frame its index if this has a name, or else a hash of
        its content. Those that are refused are in the answer; a UserWarning says so if none is indexed or has a text.
        Raises BadInput if ``documents`` is a single document or holds none, ModelMismatch if the index's vectors are
        another model's, and EngineUnavailable if the engine does not come back: then it is safe to add all again.
        """
        refusals, records = Refusals(), records_of(rows_in(documents))
        indexer = Indexer(self.library.engine, self.library.model, self.name, refusals)
        total = len(documents) if isinstance(documents, Sized) else 0
        try:
            with shown_progress(f"adding to {self.name}") as tell:
                report = indexer.run(records, self.fields, progress=lambda done: tell(done.indexed + done.dead, total))
        except EngineUnavailable as error:
            again = "add the documents again when the engine is back"
            raise EngineUnavailable(error.message, value=error.value, expected=again) from error
        finally:
            self.library.service.knowledge.forget()
        added = Added(report.indexed, sorted(refusals.refused, key=lambda one: one.position))
        if not added.indexed:
            first = f"all {report.dead} were refused, the first for: {added.refused[0].reason}" if report.dead else ""
            message = first or "documents is empty, or a generator that was read before"
            warnings.warn(f"no document was indexed: {message}", stacklevel=2)
        elif report.without_text == report.indexed + report.dead:
            warnings.warn(f"no document has a text in {', '.join(self.fields)}: no words find them", stacklevel=2)
        return added

    def get(self, id: str | int) -> dict[str, Any]:
        """A document's fields. Raises NotFound if there is none of that id."""
        return self.library.engine.get(self.name, str(id))[0]

    def delete(self, ids: Iterable[str | int | Hit]) -> int:
        """Delete the documents with these ids; how many of them there were."""
        deleted = self.library.engine.delete(self.name, _ids("ids", ids))
        self.library.engine.refresh(self.name)
        self.library.service.knowledge.forget()
        return deleted

    @fields_as_arguments(SearchOptions)
    def search(self, options: SearchOptions) -> Hits:
        """The best ``size`` hits for a query text, a query clause or a search body, without any session.

        Raises BadInput for a malformed query, an unknown option or one out of its range, TextTooLong for a query beyond
        the configured ``max_text``, and EngineError where the engine refuses the search.
        """
        return self._search(options, None)

    search_async = for_event_loop(search)

    def session(self, id: str) -> Session:
        """A person's session, 1 to 128 letters, digits and ``_ . : -``. Raises BadInput for another id.

        It begins with its first marks and ends when it was not used for ``session_hours``, a day by default.
        """
        return Session(self, check_id(id))

    def review(self, id: str, topic: str = "", query: dict[str, Any] | None = None, target: float = 0.95) -> Review:
        """A review of this index, or of what a ``query`` finds, for a ``topic`` in words; begun unless it was already.

        It may stop at the recall ``target``. Raises BadInput for an id that is none, or a review of another index."""
        return self.library.service.reviews.begin(id, self.name, topic, query, self.fields, target=target)

    def _search(self, options: SearchOptions, session: str | None) -> Hits:
        service = self.library.service
        if isinstance(options.query, str):
            check_text("query", options.query, service.config.max_text)
        answer = service.search(Search(**structs.asdict(options), index=self.name, session=session))
        return Hits(answer.body, self.fields, options.start)


class Session:
    """One person's searches of an index and what they marked; :meth:`Index.session` gives it.

    Judgements are kept under the session's id, so another object or process that opens the same session goes on with
    it; on several machines, with ``sessions`` the cluster's URL.
    """

    def __init__(self, index: Index, id: str) -> None:
        self.index, self.id = index, id
        self._service = index.library.service
        self._query = ""

    @fields_as_arguments(SearchOptions)
    def search(self, options: SearchOptions) -> Hits:
        """The best hits as :meth:`Index.search` finds them, by all that this session has marked so far."""
        hits, query = self.index._search(options, self.id), options.query
        self._query = query if isinstance(query, str) else find_text(query.get("query", query))
        return hits

    def rewrite(self, body: dict[str, Any], **options: Any) -> dict[str, Any]:
        """The search body with what this session knows in it, for a client of your own to send to OpenSearch.

        ``options`` are what else ``ext.ml_inference`` may say. Where something fails, the body comes back as it was.
        Raises BadInput for a body that is not a dictionary, and IndexNotFound.
        """
        sent = with_options(body, session=self.id, **options)
        rewritten = self._service.rewrite_for_pipeline(self.index.name, sent)[0]
        return body if rewritten is sent else with_ext_of(rewritten, body)

    def mark(
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

        A click and a skipped hit count less than an explicit mark.

        Args:
            relevant: Relevant documents: hits, document ids, or documents of LangChain, LlamaIndex or Haystack.
            irrelevant: Documents that are not relevant.
            clicked: Hits that were opened.
            skipped: Hits above an opened hit that were not opened.
            neutral: Documents whose earlier marks are withdrawn.
            query: The query text that the marks were made for; by default the last query that this object searched.
            scores: Document id → a model's judgement, from -1 (irrelevant) to 1 (relevant). Its absolute value is
                the judgement's weight.
            explain: Whether to return all judgements of the session and what they taught, as :meth:`explain` does.
                This takes several requests to the engine.

        Returns:
            The session's id, times and number of steps; with ``explain`` also ``judgements`` and ``learned``.

        Raises:
            BadInput: Nothing is marked, or a document is marked twice.
            NotFound: The index has no such document. Nothing is stored in that case.
            AmbiguousDocument: The index's name refers to several indices that contain this id. Pass hits of a single
                index instead of ids.
        """
        marked = {"relevant": relevant, "irrelevant": irrelevant, "clicked": clicked, "skipped": skipped}
        given = {name: _listed(name, documents) for name, documents in {**marked, "neutral": neutral}.items()}
        marks = collect_marks({name: _ids(name, documents) for name, documents in given.items()}, scores)
        query = self._query if query is None else query
        if not isinstance(query, str):
            raise BadInput("query is not a text", value=query, expected="a text")
        check_text("query", query, self._service.config.max_text)
        try:
            session = self._service.feedback(self.id, self.index.name, query, marks)
        except AmbiguousDocument:
            # of several indices under one name; hits say which of them they come from
            homes = {one["_index"] if isinstance(one, Hit) else None for listed in given.values() for one in listed}
            home = homes.pop() if len(homes) == 1 and not scores else None
            if home is None:
                raise
            session = self._service.feedback(self.id, home, query, marks)
        return self._explanation(session, explain)

    def judge(
        self,
        hits: Iterable[Hit],
        score: Callable[[str, list[str]], Sequence[float]],
        budget: int = 10,
        explain: bool = False,
    ) -> Explanation:
        """Let a model mark the first hits of the last search.

        Hits that the session has already judged for the same query are skipped, and count towards the budget.

        Args:
            hits: Hits of the last search.
            score: A function that takes the query and a list of document texts, and returns a number for each text,
                from -1 (irrelevant) to 1 (relevant).
            budget: Maximum number of judgements for this query.
            explain: As for :meth:`mark`.

        Returns:
            The session, as :meth:`mark` returns it.

        Raises:
            BadInput: ``score`` returned another number of scores, or a score out of range.
        """
        session = self._service.sessions.find(self.id)
        judgements = () if session is None else session.judgements
        known = {judgement.document for judgement in judgements if judgement.query == self._query}
        asked = [hit for hit in hits if hit.id not in known][: max(0, budget - len(known))]
        if not asked:
            return self._explanation(session, explain)
        scores = list(score(self._query, [document_text(hit.source, self.index.fields) for hit in asked]))
        if len(scores) != len(asked):
            message = f"{len(scores)} scores of {len(asked)} texts"
            raise BadInput(message, value=scores, expected=f"{len(asked)} numbers")
        marks = {hit.id: float(number) for hit, number in zip(asked, scores, strict=True)}
        return self.mark(scores=marks, explain=explain)

    search_async = for_event_loop(search)
    mark_async = for_event_loop(mark)
    rewrite_async = for_event_loop(rewrite)

    def undo(self) -> Explanation:
        """Take back the last step of marks.

        Raises:
            SessionNotFound: The session does not exist.
            BadInput: The session has no steps.
        """
        return self._explanation(self._service.sessions.undo(self.id))

    def forget(self) -> None:
        """Delete all that is kept of this session. Raises SessionNotFound if nothing is."""
        self._service.sessions.delete(self.id)

    def explain(self) -> Explanation:
        """Return all judgements of this session and what they taught; empty if nothing was marked yet."""
        return self._explanation(self._service.sessions.find(self.id))

    def _explanation(self, session: StoredSession | None, explain: bool = True) -> Explanation:
        if session is None:
            empty = {"session": self.id, "created": None, "expires": None, "steps": 0}
            return Explanation(empty, judgements=[], learned=None) if explain else Explanation(empty)
        return Explanation(self._service.describe(session) if explain else session_summary(session))


def open(
    url: str | Path = "resift.db",
    model: str | Path | Model = DEFAULT_MODEL,
    *,
    sessions: str | Path | None = None,
    **settings: Any,
) -> Library:
    """An OpenSearch cluster, by its URL ``http(s)://…``, or the embedded engine, by its file, which is made if missing.

    ``model`` is a saved model's folder, ``resift-en``, or a model. ``sessions`` is where sessions are kept, a URL or a
    file: by default, as for the service and the commands, the engine's file, or ``sessions.db`` for a cluster.
    ``settings`` are further fields of :class:`resift.service.config.Config`: ``alpha``, ``window``, ``knn``, …

    Raises BadInput for an unknown setting or one out of its range, ModelNotFound and CorruptModel for a model that is
    none, and EngineUnavailable or BadInput for a file that cannot be opened. A cluster is first asked when an index is.
    """
    names = [name for name in fields_of(Config) if name not in ("engine", "model", "store", "index", "max_body")]
    for name in settings.keys() - set(names):
        raise BadInput(f"unknown setting {name!r}", value=name, expected=" | ".join(names))
    if not isinstance(url, (str, Path)):  # of None, as of a variable that is not set, a file would be made
        raise BadInput(f"url is {url!r}", value=url, expected="a cluster's URL or a file")
    config = Config(engine=str(url), store=str(sessions or ""), **settings)
    encoder = model if isinstance(model, Model) else load_model(model)
    engine = open_engine(config.engine)
    try:
        kept = Sessions(open_session_store(config.store, config.session_index), config.session_hours)
        return Library(SearchService(engine, encoder, kept, config))
    except BaseException:
        engine.close()
        raise


def _listed(name: str, given: Iterable[str | int | Hit]) -> list[str | int | Hit]:
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise BadInput(f"{name} is not a list", value=given, expected="a list of document ids or hits")
    return list(given)


def _ids(name: str, given: Iterable[str | int | Hit]) -> list[str]:
    # a document's own id may be a number, which the engine keeps as a text; LlamaIndex's documents have a node_id
    known = [getattr(one, "node_id", getattr(one, "id", one)) for one in _listed(name, given)]
    ids = [str(id) if type(id) is int else id for id in known]
    if wrong := [id for id in ids if not isinstance(id, str) or not id]:
        raise BadInput(f"{name} holds what is not a document id", value=wrong[0], expected="document ids or hits")
    return list(map(str, ids))
