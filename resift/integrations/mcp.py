"""An MCP server: an agent searches an index, marks what helped it, and finds better with its next search.

It keeps nothing itself. A search without a session begins one and answers its id, which all further calls name; so
conversations never mix, over whichever transport, and a session may as well be one of a search page or of the library.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import wraps
from html import unescape
from inspect import cleandoc
from typing import Annotated, Any

from resift.contracts.search_options import Judged
from resift.errors import BadInput, NotFound, ResiftError, needs_extra
from resift.feedback.explain import title
from resift.library import Hit, Index
from resift.query.dsl import document_text
from resift.reviews.review import MODEL, Review
from resift.rewriting.outcome import Outcome
from resift.version import __version__

with needs_extra("mcp", "The MCP server"):
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import ToolAnnotations
    from pydantic import Field
    from typing_extensions import NotRequired, TypedDict

_INSTRUCTIONS = """Search, tell which passages helped, search again: marks make the later searches of a session better,
without a longer query. The first search answers a session id; hand it to every later call of the same conversation."""
_MOST_HITS, _MOST_CHARACTERS, _LONGEST_VALUE = 50, 100_000, 200

SessionId = Annotated[str, Field(description="The session id that the first search answered.")]
ReviewId = Annotated[str, Field(description="The id of a review that a person began.")]
Ids = Annotated[list[str], Field(description="Ids of passages, as a search answered them.")]


class Passage(TypedDict):
    """A hit as an agent reads it.

    ``about`` are its short fields beside the text, such as a URL or a date; ``cut`` says which piece of a long text is
    here, and ``title`` how all of it begins.
    """

    id: str
    score: float | None
    text: str
    title: NotRequired[str]
    about: NotRequired[dict[str, Any]]
    cut: NotRequired[str]


class Found(TypedDict):
    """What a search found; ``learned`` says whether earlier marks of the session moved it."""

    session: str
    learned: bool
    passages: list[Passage]
    did_you_mean: NotRequired[str]
    note: NotRequired[str]


class Learned(TypedDict):
    """What a session was told and what that taught: words that searches lean towards, away from, and ask for too.

    A mark has the ``id`` and ``title`` of a passage, the ``grade`` from -1 to 1, and those ``words`` of the passage
    that say most of what it taught.
    """

    session: str
    marks: list[dict[str, Any]]
    towards: str
    away_from: str
    also_asked: str


def server(index: Index, about: str = "") -> MCPServer:
    """The MCP server over an index; ``about`` says what its documents are, for agents to know when to search it.

    Each tool takes what :mod:`resift.library` takes. What it raises reaches the agent as the tool's error, with the
    value and what was expected; none ends the server.
    """
    agent = Agent(index)
    search = f"Search the index {index.name!r}. {about}".strip() + f"\n\n{cleandoc(Agent.search.__doc__ or '')}"
    tools = [
        _tool(agent.search, "SearchIndexTool", ToolAnnotations(read_only_hint=True), search),
        _tool(agent.mark, "MarkPassagesTool", ToolAnnotations(destructive_hint=False)),
        _tool(agent.explain_session, "ExplainSessionTool", ToolAnnotations(read_only_hint=True)),
        _tool(agent.forget, "ForgetSessionTool", ToolAnnotations(destructive_hint=True)),
        _tool(agent.next_to_screen, "NextToScreenTool", ToolAnnotations(read_only_hint=True)),
        _tool(agent.screen, "ScreenTool", ToolAnnotations(destructive_hint=False)),
    ]
    return MCPServer("resift", instructions=_INSTRUCTIONS, version=__version__, tools=tools, log_level="WARNING")


def _tool(function: Callable[..., Any], title: str, annotations: ToolAnnotations, description: str = "") -> Tool:
    """A function as a tool whose errors say what is wrong: those of ours, and of arguments that it does not have.

    Its ``title`` is in the style of OpenSearch's own MCP server, whose tools agents know; its name stays as it was.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ResiftError as error:
            raise ToolError(str(error)) from error  # of any other error the agent would not be told the message

    tool = Tool.from_function(
        call, title=title, description=description or cleandoc(function.__doc__ or ""), annotations=annotations
    )
    # misspelt arguments would be left out without a word
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema()
    return tool


class Agent:
    """The tools; their docstrings and annotations are what agents are told of them."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def search(
        self,
        query: Annotated[str, Field(min_length=1, description="What is looked for, in words: a question will do.")],
        session: Annotated[
            str | None,
            Field(description="The id that the conversation's first search answered; without it one begins."),
        ] = None,
        size: Annotated[int, Field(ge=1, le=_MOST_HITS, description="How many passages.")] = 5,
        characters: Annotated[
            int, Field(ge=100, le=_MOST_CHARACTERS, description="The most characters of each passage's text.")
        ] = 2500,
        hide_marked: Annotated[
            bool, Field(description="Leave out passages that were marked in this session: they have been read.")
        ] = False,
    ) -> Found:
        """Answers the best passages with their ids, and the session's id. Hand that id to the conversation's later
        searches: they follow what was marked with `mark`, so that a short query will do."""
        name = session or f"agent-{secrets.token_hex(6)}"
        judged: Judged = "hide" if hide_marked else "keep"
        hits = self._index.session(name).search(query, size, judged=judged, highlight=True)
        said = hits.response["resift"]
        found: Found = {
            "session": name,
            "learned": bool(said.get("session")),
            "passages": [self._passage(hit, characters) for hit in hits],
        }
        if hits.did_you_mean:
            found["did_you_mean"] = hits.did_you_mean
        if "reason" in said and said["outcome"] != Outcome.NOTHING_TO_ADD.code:
            found["note"] = said["reason"]
        return found

    def mark(
        self,
        session: SessionId,
        query: Annotated[str, Field(description="The query of the search that found the passages.")],
        helpful: Ids = [],  # noqa: B006 -- a tool's defaults stand in its schema, and nobody changes them
        unhelpful: Ids = [],  # noqa: B006
        scores: Annotated[
            dict[str, Annotated[float, Field(ge=-1, le=1)]],
            Field(description="Or grades by id: -1 misleading, 0 takes a mark back, 1 just right, and between."),
        ] = {},  # noqa: B006
    ) -> Learned:
        """Tell which passages of a search helped, and which did not: the session's next searches find more like the
        ones and less like the others. Mark after each search whose passages were read; one or two marks do much.
        Answers what was learned."""
        if not (helpful or unhelpful or scores):
            raise BadInput("no passage is marked", expected="ids in helpful or unhelpful, or scores by id")
        marked = {"relevant": helpful, "irrelevant": unhelpful}
        return _learned(self._index.session(session).mark(**marked, query=query, scores=scores, explain=True))

    def explain_session(self, session: SessionId) -> Learned:
        """Tell what was marked in a session, and which words its searches lean towards and away from because of it."""
        return _learned(self._index.session(session).explain())

    def forget(self, session: SessionId) -> dict[str, Any]:
        """Delete all that is kept of a session: its marks and what they taught. For a new subject, or when asked to."""
        self._index.session(session).forget()
        return {"session": session, "forgotten": True}

    def next_to_screen(
        self,
        review: ReviewId,
        size: Annotated[int, Field(ge=1, le=_MOST_HITS, description="How many documents.")] = 10,
        characters: Annotated[int, Field(ge=100, le=_MOST_CHARACTERS, description="Of each text at most.")] = 4000,
    ) -> list[Passage]:
        """Answers the documents of a review, begun by a person, that are likeliest to be relevant and that nobody
        has judged. Judge each by `screen`."""
        found = self._review(review)
        ids = found.next(size, "agent", MODEL)
        return [{"id": id, "score": None, "text": _tidy(found.documents.text(id))[:characters]} for id in ids]

    def screen(self, review: ReviewId, relevant: Ids = [], irrelevant: Ids = []) -> dict[str, Any]:  # noqa: B006
        """Tell which documents of a review are relevant. That helps to rank, and is counted apart: a person decides of
        each document, and when the review stops."""
        found = self._review(review)
        found.judge(relevant, irrelevant, "agent", MODEL)
        return {"review": review, "by_models": found.judged_by_models()}

    def _review(self, id: str) -> Review:
        found = self._index.library.service.reviews.open(id)
        if found.first_event["index"] != self._index.name:
            raise NotFound(f"no review {id!r} of {self._index.name!r}", value=id, expected="one that was begun")
        return found

    def _passage(self, hit: Hit, characters: int) -> Passage:
        text = _tidy(document_text(hit.source, self._index.fields))
        found: Passage = {"id": hit.id, "score": None if hit.score is None else float(f"{hit.score:.4g}"), "text": text}
        about = {name: value for name, value in hit.source.items() if name not in self._index.fields and _short(value)}
        if about:
            found["about"] = about
        if len(text) > characters:
            start = _start(text, hit.get("highlight", {}), characters)
            found["text"], found["title"] = text[start : start + characters], title(text)
            found["cut"] = f"characters {start} to {start + characters} of {len(text)}"
        return found


def _tidy(text: str) -> str:
    """The text without white space that says nothing, for agents pay for each character; indents of code do."""
    lines = (line[: len(line) - len(line.lstrip())] + " ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip())


def _short(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and len(str(value)) <= _LONGEST_VALUE


def _start(text: str, highlight: dict[str, list[str]], characters: int) -> int:
    """Where the piece of a long text begins that has most of the query's words in it, a quarter of it before them."""
    fragments = [fragment for found in highlight.values() for fragment in found]
    best = max(fragments, key=_words_in, default="").strip("…")  # put there by SQLite's
    before, *marked = (_tidy(unescape(part)) for part in best.replace("</em>", "").split("<em>", 1))
    place = text.find(_tidy(unescape(best.replace("<em>", "").replace("</em>", ""))).strip())
    place += len(before) if marked else 0
    return max(0, min(place - characters // 4, len(text) - characters))


def _words_in(fragment: str) -> tuple[int, int]:
    """How many different words of a query a fragment has, and how many in all."""
    words = [part.split("</em>")[0].lower() for part in fragment.split("<em>")[1:]]
    return len(set(words)), len(words)


def _learned(session: dict[str, Any]) -> Learned:
    learned = session["learned"] or {"because": [], "towards": [], "away": [], "asked": []}
    marks = [
        {"id": one["document"], "grade": one["grade"], "title": one["title"], "words": ", ".join(one["words"])}
        for one in learned["because"]
    ]
    towards, away, asked = (", ".join(learned[name]) for name in ("towards", "away", "asked"))
    return Learned(session=session["session"], marks=marks, towards=towards, away_from=away, also_asked=asked)
