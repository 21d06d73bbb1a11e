"""A retriever for Haystack's pipelines, by all that the session of a run has marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from resift import library
from resift.errors import needs_extra
from resift.integrations.passages import passages
from resift.vectors.packaged import DEFAULT_MODEL

with needs_extra("haystack", "The Haystack retriever"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret


@component
class ResiftRetriever:
    """Finds the ``top_k`` best documents of an index, in a ``session``; each run may have its own.

    ``url``, ``model`` and ``sessions`` are the arguments of :func:`resift.open`, which is called at the first run. Pass
    a ``url`` with a password as a ``Secret``. ``options`` are further search options
    (:class:`resift.library.SearchOptions`); the options of a run take precedence over them.
    """

    def __init__(
        self,
        index: str,
        session: str,
        url: str | Secret = "resift.db",
        model: str = DEFAULT_MODEL,
        sessions: str | None = None,
        top_k: int = 10,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.session, self.url, self.model, self.sessions = index, session, url, model, sessions
        self.top_k, self.options = top_k, options

    @cached_property
    def index(self) -> library.Index:
        """The index, opened when it is first needed."""
        url = self.url.resolve_value() if isinstance(self.url, Secret) else self.url
        opened = library.open(url, self.model, sessions=self.sessions)
        return opened.index(self.name)

    def to_dict(self) -> dict[str, Any]:
        """The component as a pipeline's file has it."""
        names = ("session", "url", "model", "sessions", "top_k", "options")
        return dict(default_to_dict(self, index=self.name, **{name: getattr(self, name) for name in names}))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """The component that :meth:`to_dict` described."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, session: str | None = None, top_k: int | None = None, options: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """What is found, with the text of the fields that are searched; the other fields are its ``meta``."""
        asker = self.index.session(session or self.session)
        said = {**(self.options or {}), **(options or {})}
        hits = asker.search(query, self.top_k if top_k is None else top_k, **said)
        found = passages(asker, hits)
        return {"documents": [Document(id=p.id, content=p.text, meta=p.metadata, score=p.score) for p in found]}

    def mark(
        self,
        query: str,
        relevant: Iterable[Document | str] = (),
        irrelevant: Iterable[Document | str] = (),
        session: str | None = None,
        scores: Mapping[str, float] | None = None,
        explain: bool = False,
        **further: Iterable[Document | str],
    ) -> library.Explanation:
        """Mark documents or ids for a query.

        ``session`` defaults to the component's session. The other arguments are those of
        :meth:`resift.library.Session.mark`, which also documents the errors.
        """
        marked = self.index.session(session or self.session)
        return marked.mark(relevant, irrelevant, query=query, scores=scores, explain=explain, **further)
