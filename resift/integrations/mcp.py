"""An MCP server: agents search an index and mark passages that helped, which improves their next searches.

The server has no state of its own. A search without a session starts a new session and returns its id, which the agent
passes to later calls. Conversations are therefore never mixed, with any transport, and a session can also be shared
with the search page or the library.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from html import unescape
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from resift.contracts.search_options import Judged
from resift.errors import BadInput, NotFound, ResiftError, needs_extra, shorten
from resift.feedback.explain import title_of
from resift.integrations.passages import MakeBody, metadata_of, own_body
from resift.library import Hit, Index
from resift.reviews.review import MODEL, Review
from resift.rewriting.outcome import Outcome
from resift.version import __version__

with needs_extra("mcp", "The MCP server"):
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import ToolAnnotations
    from pydantic import Field, ValidationError
    from typing_extensions import NotRequired, TypedDict

_INSTRUCTIONS = """Search, mark the passages that helped, and search again: marks improve later searches of a session,
without a longer query. The first search returns a session id. Pass it to every later call of the same conversation."""
_MAX_HITS = 50
_MAX_CHARACTERS = 100_000
_MAX_NAMED_FIELDS = 50
_QUERY_PLACEHOLDER = "$query"
_MAX_VALUE_LENGTH = 200
"""Maximum number of characters of a field's value that is returned with a passage. Longer values are left out."""

SessionId = Annotated[str, Field(description="The session id that the first search returned.")]
ReviewId = Annotated[str, Field(description="The id of a review that a person started.")]
FilterValue = str | int | bool
Filter = Annotated[
    dict[str, FilterValue | list[FilterValue]],
    Field(description="Exact values by field, such as {'year': 2001}. Passages must have one of the listed values."),
]
Ids = Annotated[list[str], Field(description="Ids of passages that a search returned.")]


class PassageOutput(TypedDict):
    """A search hit in the output of an MCP tool.

    Attributes:
        id: The id of the document.
        score: The score of the hit.
        text: The text of the document, or an excerpt.
        title: The beginning of the document, if ``text`` is an excerpt.
        about: Other fields with short values, for example a URL or a date.
        cut: Where ``text`` was cut out of a long document, for example "characters 200 to 1200 of 5000". Missing if
            ``text`` is the whole document.
    """

    id: str
    score: float | None
    text: str
    title: NotRequired[str]
    about: NotRequired[dict[str, Any]]
    cut: NotRequired[str]


class SearchOutput(TypedDict):
    """The output of the MCP tool that searches an index.

    Attributes:
        session: The id of the session.
        learned: Whether earlier marks in the session changed the ranking.
        passages: The hits, best first.
        did_you_mean: The corrected query, if the query contains misspelt words.
        note: A description of a part of the search that had to be left out, with the reason.
    """

    session: str
    learned: bool
    passages: list[PassageOutput]
    did_you_mean: NotRequired[str]
    note: NotRequired[str]


class SessionOutput(TypedDict):
    """The passages that were marked in a session, and the words that were learned from them.

    Attributes:
        session: The id of the session.
        marks: For each marked passage, its ``id``, its ``title``, its ``grade`` from -1 to 1, and the ``words`` of the
            passage that had the largest effect on later searches.
        towards: Words of the learned topics, separated by commas. Later searches rank documents on these topics higher.
        away_from: Words of the topics whose documents later searches rank lower, separated by commas.
        also_asked: Words that are added to the queries of later searches, separated by commas.
    """

    session: str
    marks: list[dict[str, Any]]
    towards: str
    away_from: str
    also_asked: str


def read_template(file: Path) -> MakeBody:
    """Read a JSON file with the template of a search body. The query replaces each string ``$query``.

    Args:
        file: The file.

    Returns:
        A function that returns the search body for a query.

    Raises:
        BadInput: If the file is not a JSON object, or does not contain the string ``$query``.
    """
    try:
        template = json.loads(file.read_bytes())
    except ValueError as error:
        raise BadInput(f"{file} is not JSON: {error}", value=str(file), expected="a search body as JSON") from error
    if not isinstance(template, dict) or _fill_template(template, "") == template:
        expected = f'a search body in which "{_QUERY_PLACEHOLDER}" stands for the query'
        raise BadInput(f'{file} does not contain "{_QUERY_PLACEHOLDER}"', value=str(file), expected=expected)
    return lambda query: dict(_fill_template(template, query))


def _fill_template(template: Any, query: str) -> Any:
    """Return a copy of a JSON value in which the query replaces each string that equals the placeholder."""
    if isinstance(template, dict):
        return {name: _fill_template(value, query) for name, value in template.items()}
    if isinstance(template, list):
        return [_fill_template(value, query) for value in template]
    return query if template == _QUERY_PLACEHOLDER else template


def create_server(
    name: str, open_index: Callable[[], Index], about: str = "", body: MakeBody | None = None
) -> MCPServer:
    """Create an MCP server with which AI agents can search an index.

    Errors of :mod:`resift.library` are returned to the agent as tool errors, with the invalid value and the expected
    value.

    Args:
        name: The name of the index.
        open_index: A function that returns the index. Each call of a tool calls it, so that the server can start before
            the engine.
        about: A description of the documents. Agents read it to decide when to search the index.
        body: A function that makes the search body of a query. By default, Resift searches for the text.
    """
    agent = AgentTools(open_index, body)
    search = f"Search the index {name!r}. {about}".strip() + f"\n\n{cleandoc(AgentTools.search.__doc__ or '')}"
    tools = [
        _create_tool(agent.search, "SearchIndexTool", ToolAnnotations(read_only_hint=True), search),
        _create_tool(agent.mark, "MarkPassagesTool", ToolAnnotations(destructive_hint=False)),
        _create_tool(agent.explain_session, "ExplainSessionTool", ToolAnnotations(read_only_hint=True)),
        _create_tool(agent.forget, "ForgetSessionTool", ToolAnnotations(destructive_hint=True)),
        _create_tool(agent.next_to_screen, "NextToScreenTool", ToolAnnotations(read_only_hint=True)),
        _create_tool(agent.screen, "ScreenTool", ToolAnnotations(destructive_hint=False)),
    ]
    return MCPServer("resift", instructions=_INSTRUCTIONS, version=__version__, tools=tools, log_level="WARNING")


def _create_tool(function: Callable[..., Any], title: str, annotations: ToolAnnotations, description: str = "") -> Tool:
    """Create an MCP tool that calls a function.

    Messages of Resift's errors are passed on to the agent. Unknown arguments are rejected.

    Args:
        function: The function. Its name becomes the name of the tool.
        title: The title of the tool, such as "SearchIndexTool".
        annotations: Hints for clients, for example that the tool does not change data.
        description: The description of the tool. By default, the docstring of the function.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ResiftError as error:
            raise ToolError(str(error)) from error  # agents see the messages of ToolErrors only

    tool = _Tool.from_function(
        call, title=title, description=description or cleandoc(function.__doc__ or ""), annotations=annotations
    )
    # By default, misspelt arguments would be ignored.
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema()
    return tool


class _Tool(Tool):
    """An MCP tool whose messages about invalid arguments name the value and the expected values."""

    async def run(self, arguments: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Run the tool.

        Raises:
            ToolError: If an argument is invalid, or the tool fails.
        """
        try:
            return await super().run(arguments, *args, **kwargs)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            names = " | ".join(self.parameters["properties"])
            problems = [dict(problem) for problem in error.__cause__.errors()]
            # Some clients send lists and objects as strings of JSON. The errors are about the parsed values.
            parsed = self.fn_metadata.pre_parse_json(arguments)
            descriptions = "; ".join(_describe_problems(problems, parsed, names))
            raise ToolError(f"Error executing tool {self.name}: {descriptions}") from error.__cause__


def _describe_problems(problems: Sequence[dict[str, Any]], arguments: dict[str, Any], names: str) -> Iterator[str]:
    """Describe the errors that Pydantic found in the arguments of a tool.

    Args:
        problems: The errors, from ``ValidationError.errors()``. A value that may have several types has an error for
            each type. These errors get a common description.
        arguments: The arguments of the tool.
        names: The names of the tool's arguments.

    >>> problem = {"type": "int_type", "loc": ("size",), "input": [], "msg": "Input should be a valid integer"}
    >>> list(_describe_problems([problem], {"size": []}, "query | size"))
    ['size is [] (expected a valid integer)']
    """
    for path, group in groupby(problems, lambda problem: _path_of_value(problem, arguments)):
        first, *more = group
        value = shorten(repr(first["input"]))
        expected = " or ".join(_expected_value(problem["msg"]) for problem in (first, *more))
        if first["type"] == "missing":
            yield f"{path} is missing"
        elif first["type"] == "extra_forbidden":
            yield f"unknown argument {path!r} with the value {value} (expected {names})"
        else:
            yield f"{path} is {value} (expected {expected})"


def _path_of_value(problem: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return the path of an invalid or missing value, such as "filter.year".

    Args:
        problem: An error from ``ValidationError.errors()``. Its ``loc`` can also contain names of types.
        arguments: The arguments of the tool.

    >>> _path_of_value({"type": "int_type", "loc": ("filter", "year", "int")}, {"filter": {"year": None}})
    'filter.year'
    """
    if problem["type"] == "missing":
        return ".".join(map(str, problem["loc"]))
    path, value = [], arguments
    for key in problem["loc"]:
        if (isinstance(value, dict) and key in value) or (isinstance(value, list) and isinstance(key, int)):
            path.append(str(key))
            value = value[key]
    return ".".join(path)


def _expected_value(message: str) -> str:
    """Return the expected value that a message of Pydantic contains, such as "a valid integer"."""
    expected = message.replace("Input should be ", "", 1).replace("String should have ", "a text with ", 1)
    return expected.split(", got ", 1)[0]


class AgentTools:
    """The tools that the MCP server offers to AI agents. The methods' docstrings describe the tools to the agents.

    Args:
        open_index: A function that returns the index to search.
        body: A function that makes the search body of a query, or None if Resift searches for the text.
    """

    def __init__(self, open_index: Callable[[], Index], body: MakeBody | None) -> None:
        self._open_index, self._body = open_index, body

    @property
    def _index(self) -> Index:
        return self._open_index()

    def search(
        self,
        query: Annotated[str, Field(min_length=1, description="The search query: words or a question.")],
        session: Annotated[
            str | None,
            Field(description="The id that the conversation's first search returned. Omit it to start a session."),
        ] = None,
        size: Annotated[int, Field(ge=1, le=_MAX_HITS, description="Maximum number of passages.")] = 5,
        characters: Annotated[
            int, Field(ge=100, le=_MAX_CHARACTERS, description="Maximum length of each passage's text.")
        ] = 2500,
        hide_marked: Annotated[
            bool, Field(description="Whether to leave out passages that were already marked in this session.")
        ] = False,
        filter: Filter = {},  # noqa: B006 -- the default is part of the tool's schema, and is never mutated
    ) -> SearchOutput:
        """Return the best passages with their ids, and the id of the search session.

        Pass the session id to later searches of the conversation. Their ranking takes into account which passages were
        marked with `mark`, so a short query is sufficient.
        """
        name = session or f"agent-{secrets.token_hex(6)}"
        judged: Judged = "hide" if hide_marked else "keep"
        index = self._index
        condition = _filter_clause(index, filter)
        text_or_body = query if self._body is None else own_body(self._body, query, size)
        hits = index.session(name).search(text_or_body, size, judged=judged, highlight=True, filter=condition)
        report = hits.response["resift"]
        output: SearchOutput = {
            "session": name,
            "learned": bool(report.get("session")),
            "passages": [self._passage(hit, characters) for hit in hits],
        }
        if hits.did_you_mean:
            output["did_you_mean"] = hits.did_you_mean
        if "reason" in report and report["outcome"] != Outcome.NOTHING_TO_ADD.code:
            output["note"] = report["reason"]
        return output

    def mark(
        self,
        session: SessionId,
        query: Annotated[str, Field(description="The query of the search that returned the passages.")],
        helpful: Ids = [],  # noqa: B006 -- the default is part of the tool's schema, and is never mutated
        unhelpful: Ids = [],  # noqa: B006
        scores: Annotated[
            dict[str, Annotated[float, Field(ge=-1, le=1)]],
            Field(description="Grades by id, from -1 (misleading) to 1 (helpful). 0 withdraws a mark."),
        ] = {},  # noqa: B006
    ) -> SessionOutput:
        """Mark passages of a search as helpful or unhelpful, and return what was learned from the marks.

        The next searches of the session return more passages that resemble helpful passages, and fewer that resemble
        unhelpful passages. Mark passages after each search whose results you have read. One or two marks have a large
        effect.
        """
        if not (helpful or unhelpful or scores):
            raise BadInput("no passage is marked", expected="ids in helpful or unhelpful, or scores by id")
        marked = {"relevant": helpful, "irrelevant": unhelpful}
        return _session_output(self._index.session(session).mark(**marked, query=query, scores=scores, explain=True))

    def explain_session(self, session: SessionId) -> SessionOutput:
        """Return the marked passages of a session, and the words that its later searches prefer and avoid."""
        return _session_output(self._index.session(session).explain())

    def forget(self, session: SessionId) -> dict[str, Any]:
        """Delete a session with all its marks.

        Use this tool when the user changes the subject or asks for it.
        """
        self._index.session(session).forget()
        return {"session": session, "forgotten": True}

    def next_to_screen(
        self,
        review: ReviewId,
        size: Annotated[int, Field(ge=1, le=_MAX_HITS, description="Maximum number of documents.")] = 10,
        characters: Annotated[
            int, Field(ge=100, le=_MAX_CHARACTERS, description="Maximum length of each text.")
        ] = 4000,
    ) -> list[PassageOutput]:
        """Return unread documents of a review that are most likely relevant, so that you can judge them with `screen`.

        A person must have started the review.
        """
        opened = self._review(review)
        ids = opened.next(size, "agent", MODEL)
        return [
            {"id": id, "score": None, "text": _compact_white_space(opened.documents.text(id))[:characters]}
            for id in ids
        ]

    def screen(self, review: ReviewId, relevant: Ids = [], irrelevant: Ids = []) -> dict[str, Any]:  # noqa: B006
        """Judge documents of a review as relevant or irrelevant.

        These judgements improve the ranking, but do not count as the judgements of a person. A person still judges each
        document, and decides when the review stops. Returns the review's id, and as `by_models` the number of documents
        that models have judged.
        """
        opened = self._review(review)
        opened.judge(relevant, irrelevant, "agent", MODEL)
        return {"review": review, "by_models": opened.judged_by_models()}

    def _review(self, id: str) -> Review:
        review = self._index.library.service.reviews.open(id)
        if review.first_event["index"] != self._index.name:
            message = f"index {self._index.name!r} has no review {id!r}"
            raise NotFound(message, value=id, expected="the id of a review of this index")
        return review

    def _passage(self, hit: Hit, characters: int) -> PassageOutput:
        text = _compact_white_space(self._index.text_of(hit.source))
        score = None if hit.score is None else float(f"{hit.score:.4g}")
        passage: PassageOutput = {"id": hit.id, "score": score, "text": text}
        info = self._index.library.service.infos.get(self._index.name)
        about = {name: value for name, value in metadata_of(hit.source, info).items() if _is_short(value)}
        if about:
            passage["about"] = about
        if len(text) > characters:
            start = _excerpt_start(text, hit.get("highlight", {}), characters)
            passage["text"], passage["title"] = text[start : start + characters], title_of(text)
            passage["cut"] = f"characters {start} to {start + characters} of {len(text)}"
        return passage


def _filter_clause(index: Index, filter: dict[str, FilterValue | list[FilterValue]]) -> dict[str, Any] | None:
    """Return the query clause for exact values of fields, or None if there are no conditions.

    A text field is matched by a multi-field such as ``kind.keyword``.

    Args:
        index: The index.
        filter: For each field, the value or the values that a document must have.

    Raises:
        BadInput: If a field does not exist, or its values cannot be matched exactly.
    """
    if not filter:
        return None
    exact = index.library.engine.exact_fields(index.name)
    clauses = []
    for name, values in filter.items():
        matched = next((field for field in exact if field == name or field.startswith(f"{name}.")), None)
        if matched is None:
            expected = " | ".join(exact[:_MAX_NAMED_FIELDS]) or "no filter, because no field has exact values"
            raise BadInput(f"field {name!r} cannot be filtered by exact values", value=name, expected=expected)
        clauses.append({"terms": {matched: values if isinstance(values, list) else [values]}})
    return {"bool": {"filter": clauses}}


def _compact_white_space(text: str) -> str:
    """Remove redundant white space and empty lines from a text, but keep the indentation of lines.

    Shorter texts cost the agent fewer tokens. Indentation is kept because it has a meaning in code.
    """
    lines = (line[: len(line) - len(line.lstrip())] + " ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip())


def _is_short(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and len(str(value)) <= _MAX_VALUE_LENGTH


def _excerpt_start(text: str, highlight: dict[str, list[str]], characters: int) -> int:
    """Choose where the excerpt of a long document starts, so that the excerpt shows the words of the query.

    The first query word of the best fragment is placed about a quarter of the way into the excerpt. The best fragment
    contains the most query words.

    Args:
        text: The whole text of the document.
        highlight: The highlighted fragments of the text, by field.
        characters: The length of the excerpt.

    Returns:
        The position of the first character of the excerpt.
    """
    fragments = [fragment for field_fragments in highlight.values() for fragment in field_fragments]
    best = max(fragments, key=_highlighted_words, default="").strip("…")  # SQLite adds the ellipses
    before, *marked = (_compact_white_space(unescape(part)) for part in best.replace("</em>", "").split("<em>", 1))
    position = text.find(_compact_white_space(unescape(best.replace("<em>", "").replace("</em>", ""))).strip())
    position += len(before) if marked else 0
    return max(0, min(position - characters // 4, len(text) - characters))


def _highlighted_words(fragment: str) -> tuple[int, int]:
    """Count the words of the query in a highlighted fragment of HTML, where they are enclosed in ``<em>`` tags.

    Returns:
        The number of distinct highlighted words, and the number of all highlighted words.
    """
    words = [part.split("</em>")[0].lower() for part in fragment.split("<em>")[1:]]
    return len(set(words)), len(words)


def _session_output(session: dict[str, Any]) -> SessionOutput:
    learned = session["learned"] or {"because": [], "towards": [], "away": [], "asked": []}
    marks = [
        {
            "id": judged["document"],
            "grade": judged["grade"],
            "title": judged["title"],
            "words": ", ".join(judged["words"]),
        }
        for judged in learned["because"]
    ]
    towards, away, also_asked = (", ".join(learned[name]) for name in ("towards", "away", "asked"))
    return SessionOutput(
        session=session["session"], marks=marks, towards=towards, away_from=away, also_asked=also_asked
    )
