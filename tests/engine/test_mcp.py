"""Tests of the MCP server with the client of the same package, over standard input and output, HTTP, and in memory."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent
from ports import free_port
from tcp_proxy import Proxy
from test_library import DOCUMENTS

import resift
from resift import Model
from resift.contracts.documents import Document
from resift.errors import BadInput
from resift.integrations.mcp import create_server, read_template
from resift.library import Index
from resift.plugin.opensearch.engine import OpenSearchEngine

LONG = (
    "Rivers and their names. " * 100
    + "A soldier of the army fires a gun in the war.  \n\n\t Again. "
    + "More names. " * 100
)


SEVEN = [*DOCUMENTS, {"_id": "long", "text": LONG, "url": "http://names.example", "notes": "n" * 300}]


@pytest.fixture
def news(tmp_path: Path, model: Model) -> Iterator[Index]:
    """Return a folder with an index of seven documents and its model."""
    model.save(tmp_path / "model")
    with resift.open(tmp_path / "news.db", tmp_path / "model") as library:
        index = library.index("news", fields=["text"])
        index.add(SEVEN)
        yield index


@pytest.fixture
def either(engine_url: str, index: str, model: Model, session_index: str) -> Iterator[Index]:
    """Return an index of both kinds of engines."""
    with resift.open(engine_url, model, sessions=engine_url, session_index=session_index) as library:
        found = library.index(index, fields=["text"])
        found.add(SEVEN)
        yield found


@pytest.fixture
def command(news: Index, tmp_path: Path) -> list[str]:
    """Return the arguments of Python's interpreter that start the server."""
    where = ["--engine", str(tmp_path / "news.db"), "--model", str(tmp_path / "model")]
    return ["-m", "resift", "mcp", "news", "--about", "Reports on fires.", *where]


def asked(served: Any, scenario: Callable[[Client], Awaitable[None]]) -> None:
    """Run a scenario with a client of a server."""

    async def run() -> None:
        async with Client(served) as client:
            await scenario(client)

    asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool, and check that its text equals its structured output."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content


def text_of(result: CallToolResult) -> str:
    """Return the text of a tool's output."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def an_agent_learns(client: Client) -> None:
    """Search, mark, search again, explain, and delete the session."""
    first = await call(client, "search", query="fire", size=4)
    begun = [one["id"] for one in first["passages"]]
    session = first["session"]
    assert (first["learned"], len(begun)) == (False, 4)
    learned = await call(client, "mark", session=session, query="fire", helpful=["tree"], unhelpful=["army"])
    assert {one["id"]: one["grade"] for one in learned["marks"]} == {"tree": 1, "army": -1}
    assert await call(client, "explain_session", session=session) == learned
    second = await call(client, "search", query="fire", size=4, session=session)
    assert (second["session"], second["learned"]) == (session, True)
    after = [one["id"] for one in second["passages"]]
    assert after.index("bush") < begun.index("bush") or begun.index("bush") == 0
    assert after != begun
    hidden = await call(client, "search", query="fire", size=4, session=session, hide_marked=True)
    assert not {"tree", "army"} & {one["id"] for one in hidden["passages"]}
    assert await call(client, "forget", session=session) == {"session": session, "forgotten": True}
    again = await call(client, "search", query="fire", size=4, session=session)
    assert (again["learned"], [one["id"] for one in again["passages"]]) == (False, begun)


def test_an_agent_over_standard_input_and_output(command: list[str]) -> None:
    asked(StdioServerParameters(command=sys.executable, args=command), an_agent_learns)


def test_an_agent_over_http(command: list[str]) -> None:
    port = free_port()
    served = subprocess.Popen([sys.executable, *command, "--http", str(port)], stderr=subprocess.PIPE)
    try:
        while served.poll() is None:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        asked(f"http://127.0.0.1:{port}/mcp", an_agent_learns)
    finally:
        served.send_signal(signal.SIGTERM)
        served.communicate()


def test_an_agent_screens_a_review_of_its_index(news: Index) -> None:
    other = news.library.index("other", fields=["text"])
    other.add([{"id": "x", "text": "fire"}])
    other.review("elsewhere")
    review = news.review("r")

    async def scenario(client: Client) -> None:
        found = await client.call_tool("next_to_screen", {"review": "r", "size": 2})
        first, second = (one["id"] for one in found.structured_content["result"])
        screened = await call(client, "screen", review="r", relevant=[first], irrelevant=[second])
        assert screened == {"review": "r", "by_models": 2}
        for tool, ids in (("next_to_screen", {}), ("screen", {"relevant": ["x"]})):
            refused = await client.call_tool(tool, {"review": "elsewhere", **ids})
            assert refused.is_error
            assert "index 'news' has no review 'elsewhere'" in text_of(refused)

    asked(create_server(news.name, lambda: news), scenario)
    assert review.progress().read == 0


def test_tools_say_what_they_are_for(news: Index) -> None:
    async def scenario(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {"search", "mark", "explain_session", "forget", "next_to_screen", "screen"}
        assert {tool.title for tool in tools.values()} == {  # in the style of opensearch-mcp-server-py
            *("SearchIndexTool", "MarkPassagesTool", "ExplainSessionTool", "ForgetSessionTool"),
            *("NextToScreenTool", "ScreenTool"),
        }
        assert (tools["search"].description or "").startswith(
            "Search the index 'news'. Reports on fires.\n\nReturn the"
        )
        for tool in tools.values():
            assert all("description" in argument for argument in tool.input_schema["properties"].values())
            assert tool.input_schema["additionalProperties"] is False
        reads = {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint}
        assert reads == {"search", "explain_session", "next_to_screen"}

    asked(create_server(news.name, lambda: news, "Reports on fires."), scenario)


def test_conversations_do_not_mix(news: Index) -> None:
    async def scenario(client: Client) -> None:
        one, other = [(await call(client, "search", query="fire"))["session"] for _ in range(2)]
        assert one != other
        await call(client, "mark", session=one, query="fire", scores={"bush": 0.75, "war": -0.5})
        assert [mark["grade"] for mark in (await call(client, "explain_session", session=one))["marks"]] == [0.75, -0.5]
        assert (await call(client, "explain_session", session=other))["marks"] == []
        # the library can continue the session
        assert news.session(one).undo()["steps"] == 0

    asked(create_server(news.name, lambda: news), scenario)


def test_an_agent_on_either_engine(either: Index) -> None:
    asked(create_server(either.name, lambda: either), an_agent_learns)


def test_a_long_passage_is_cut_around_its_matches(either: Index) -> None:
    async def scenario(client: Client) -> None:
        found = (await call(client, "search", query="soldier gun", characters=120))["passages"]
        long = next(one for one in found if one["id"] == "long")
        assert "A soldier of the army fires a gun in the war." in long["text"]
        assert len(long["text"]) == 120
        assert (long["title"][:10], long["about"]) == ("Rivers and", {"url": "http://names.example"})
        assert long["cut"].startswith("characters 23")
        whole = (await call(client, "search", query="soldier gun", characters=10_000))["passages"]
        text = next(one["text"] for one in whole if one["id"] == "long")
        assert "war.\n\t Again. More" in text
        assert all("cut" not in one for one in whole)

    asked(create_server(either.name, lambda: either), scenario)


def test_the_piece_of_a_long_passage_has_most_different_words(either: Index) -> None:
    either.add([{"_id": "longer", "text": f"The gun, that gun, and a gun. {LONG}"}])

    async def scenario(client: Client) -> None:
        found = (await call(client, "search", query="soldier gun", characters=120, size=50))["passages"]
        longer = next(one for one in found if one["id"] == "longer")
        assert "A soldier of the army fires a gun in the war." in longer["text"]

    asked(create_server(either.name, lambda: either), scenario)


def test_code_keeps_its_indents(either: Index) -> None:
    code = "def put(fire):\n    if fire:\n\n        return  water  \n    \n"
    code += "# more\n" * 400 + "class Hydrant:\n    valve  = 'gun'\n    hose = 1\n"
    either.add([{"_id": "code", "text": code}])

    async def scenario(client: Client) -> None:
        async def text(query: str) -> str:
            found = (await call(client, "search", query=query, size=7, characters=200))["passages"]
            return str(next(one["text"] for one in found if one["id"] == "code"))

        assert (await text("water")).startswith("def put(fire):\n    if fire:\n        return water\n# more")
        assert (await text("hydrant valve")).endswith("\nclass Hydrant:\n    valve = 'gun'\n    hose = 1")

    asked(create_server(either.name, lambda: either), scenario)


def test_a_search_without_hits_has_no_note(news: Index) -> None:
    async def scenario(client: Client) -> None:
        found = await call(client, "search", query="qqzz")
        assert (found["passages"], found.keys()) == ([], {"session", "learned", "passages"})

    asked(create_server(news.name, lambda: news), scenario)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("forget", {}, ["session is missing"]),
        ("mark", {}, ["session is missing; query is missing"]),
        ("search", {}, ["Error executing tool search: query is missing"]),
        (
            "search",
            {"query": "x", "sise": 3},
            ["unknown argument 'sise' with the value 3 (expected query | session | size |"],
        ),
        (
            "search",
            {"query": "x", "size": 99, "characters": "y"},
            ["size is 99 (expected less than or equal to 50); characters is 'y' (expected a valid integer, "],
        ),
        (
            "search",
            {"query": "x", "size": 60, "characters": 60},
            ["size is 60 (expected less than or equal to 50); characters is 60 (expected greater than or equal to 100"],
        ),
        (
            "search",
            {"query": "x", "filter": {"n": None, "url": 2.5}},
            [
                "filter.n is None (expected a valid string or a valid integer or a valid boolean or a valid list); ",
                "filter.url is 2.5 (expected a valid string or a valid integer or a valid boolean or a valid list)",
            ],
        ),
        ("search", {"query": "x", "filter": '{"n": null}'}, ["filter.n is None (expected a valid string or"]),
        ("search", {"query": ""}, ["query is '' (expected a text with at least 1 character)"]),
        (
            "search",
            {"query": "x", "filter": {"kind": "a"}},
            ["field 'kind' cannot be filtered by exact values (expected n | url)"],
        ),
        ("search", {"query": "x", "filter": {"n": {"gt": 3}}}, ["filter.n is {'gt': 3} (expected a valid string or a"]),
        (
            "search",
            {"query": "x", "session": "a b"},
            ["session id 'a b' (expected 1 to 128 letters, digits and _ . : -"],
        ),
        (
            "mark",
            {"session": "a", "query": "x"},
            ["no passage is marked (expected ids in helpful or unhelpful, or sco"],
        ),
        (
            "mark",
            {"session": "a", "query": "x", "helpful": ["gone"]},
            ["no document 'gone' in 'news' (expected ids of h"],
        ),
        (
            "mark",
            {"session": "a", "query": "x", "helpful": ["war"], "unhelpful": ["war"]},
            ["'war' has two different marks"],
        ),
        (
            "mark",
            {"session": "a", "query": "x", "scores": {"war": 3}},
            ["scores.war is 3 (expected less than or equal to 1)"],
        ),
        (
            "mark",
            {"session": "a", "query": "x", "scores": {"war": 3, "fire": 3}},
            ["scores.war is 3 (expected less than or equal to 1); scores.fire is 3 (expected less than or equal to 1)"],
        ),
        ("forget", {"session": "nobody"}, ["no session 'nobody' (expected a session with marks"]),
        ("read", {}, ["Unknown tool: read"]),
    ],
)
def test_wrong_arguments_are_the_tool_s_errors(
    news: Index, tool: str, arguments: dict[str, Any], said: list[str]
) -> None:
    async def scenario(client: Client) -> None:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        assert not [part for part in said if part not in text_of(result)], text_of(result)
        assert (await call(client, "search", query="fire"))["passages"]

    asked(create_server(news.name, lambda: news), scenario)


def test_a_filter_selects_exact_values(either: Index) -> None:
    async def scenario(client: Client) -> None:
        async def ids(**filter: Any) -> set[str]:
            found = (await call(client, "search", query="fire", size=50, filter=filter))["passages"]
            return {one["id"] for one in found}

        assert await ids(n=3) == {"tree"}
        assert await ids(n=[3, 4]) == {"tree", "army"}
        assert await ids(n=[3, 4], url="http://names.example") == set()

    asked(create_server(either.name, lambda: either), scenario)


def test_a_template_makes_the_search_body(news: Index, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    clauses = [{"match": {"text": "$query"}}, {"term": {"n": 6}}]
    file.write_text(json.dumps({"size": 1, "query": {"bool": {"should": clauses}}}))

    async def scenario(client: Client) -> None:
        async def ids(**arguments: Any) -> list[str]:
            found = await call(client, "search", query="army", **arguments)
            return [one["id"] for one in found["passages"]]

        assert set(await ids()) == {"army", "long", "rain"}
        session = (await call(client, "search", query="army"))["session"]
        await call(client, "mark", session=session, query="army", helpful=["rain"])
        learned = await call(client, "search", query="army", session=session, filter={"n": [4, 6]})
        assert (learned["learned"], [one["id"] for one in learned["passages"]]) == (True, ["rain", "army"])

    asked(create_server(news.name, lambda: news, body=read_template(file)), scenario)
    for text, reason in (("{", "is not JSON"), ("[]", "does not contain"), ('{"size": 3}', "does not contain")):
        file.write_text(text)
        with pytest.raises(BadInput, match=reason):
            read_template(file)


def test_the_server_starts_before_the_engine(
    opensearch_url: str, cluster: OpenSearchEngine, model: Model, tmp_path: Path
) -> None:
    name, proxy = f"resift-mcp-{uuid.uuid4().hex[:8]}", Proxy(opensearch_url)
    cluster.create(name, ["text"], model)
    cluster.bulk(name, [Document("bush", {"text": "bush fire"}, model.encode_one("bush fire"))])
    cluster.refresh(name)
    proxy.kill()
    where = ["--engine", proxy.url, "--model", str(model.save(tmp_path / "model"))]
    command = ["-m", "resift", "mcp", name, *where, "--store", str(tmp_path / "sessions.db")]

    async def scenario(client: Client) -> None:
        refused = await client.call_tool("search", {"query": "fire"})
        assert refused.is_error
        assert "Error executing tool search: no answer from OpenSearch" in text_of(refused)
        proxy.start()
        assert [one["id"] for one in (await call(client, "search", query="fire"))["passages"]] == ["bush"]

    try:
        asked(StdioServerParameters(command=sys.executable, args=command), scenario)
    finally:
        proxy.kill()
        cluster.drop(name)


def test_a_store_that_cannot_be_opened_is_named_with_its_option(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").mkdir()
    command = [sys.executable, "-m", "resift", "mcp", "news", "--engine", "http://127.0.0.1:1"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 2
    assert f"Error: the file of the sessions, {tmp_path / 'sessions.db'}, cannot be used" in ran.stderr
    assert "  expected: --store (or RESIFT_STORE) with a file in a folder that can be written" in ran.stderr


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = "import sys; sys.modules['mcp'] = None; import resift.cli.main as main; main.main(['mcp', 'news'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (1, "Error: The MCP server needs mcp: pip install 'resift[mcp]'\n")
