"""Tests that all interfaces accept, refuse and document the same values, as declared once.

The interfaces are HTTP, Python, ``ext.resift`` in search bodies, environment variables and the command line.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Struct
from openapi_document import SPEC

import resift
from resift import Model
from resift.cli.main import main
from resift.contracts.documents import Document
from resift.contracts.search_options import PipelineOptions, RewritingOptions, SearchOptions, SearchRequest
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, ResiftError
from resift.feedback.judgements import GRADES
from resift.library import Index, Library, Session
from resift.plugin.opensearch.client import ClientSettings
from resift.query.body import parse
from resift.reranker import Config, create_app
from resift.reranker.request_bodies import FeedbackRequest
from resift.rewriting.options import read_options
from resift.schema import as_sentence, fields_of, read_struct, schema_of

ROOT = Path(__file__).parents[2]
SCHEMAS = SPEC["components"]["schemas"]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Iterator[Flask]:
    """Return the service with an index of a single document."""
    folder = tmp_path_factory.mktemp("schema")
    config = Config(engine=str(folder / "engine.db"), store=str(folder / "sessions.db"))
    engine = SqliteEngine(config.engine)
    engine.create("docs", ["text"], model)
    assert engine.bulk("docs", [Document("1", {"text": "fire"}, model.encode(["fire"])[0])]) == []
    yield create_app(config, engine=engine, model=model)
    engine.close()


@pytest.fixture(scope="module")
def client(app: Flask) -> FlaskClient:
    """Return a test client of the service."""
    return app.test_client()


@pytest.fixture(scope="module")
def index(app: Flask) -> Index:
    """Return the index of the service as an object of the Python library."""
    return Library(app.extensions["resift"]).index("docs")


def load_reference() -> Any:
    """Import docs/reference.py, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["http.md", "settings.md", "codes.md"])
def test_the_committed_tables_are_current(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert load_reference().page_with_tables(text) == text, "run python docs/reference.py"


def test_the_page_of_commands_lists_their_options() -> None:
    page = load_reference().options()
    for heading in ("## resift index ", "## resift sessions forget", "## resift eval retrieval "):
        assert heading in page
    assert "| <code>--analyzer " in page
    assert "<code>--engine sqlite&#124;opensearch&#124;URL</code>" in page


def test_the_committed_openapi_document_is_current() -> None:
    reference = load_reference()
    assert reference.OPENAPI.read_text("utf-8") == reference.openapi(), "run python docs/reference.py"


def test_every_search_option_is_in_all_interfaces() -> None:
    documented = (ROOT / "docs" / "http.md").read_text("utf-8")
    table = documented.partition("<!-- docs/reference.py: SearchRequest -->")[2].partition("\n\n")[0]
    arguments = inspect.signature(Index.search).parameters
    assert list(SCHEMAS["SearchRequest"]["properties"]) == list(fields_of(SearchRequest))
    for name, field in fields_of(SearchRequest).items():
        schema = SCHEMAS["SearchRequest"]["properties"][name]
        assert f"| `{name}` | " in table
        assert schema["description"], name
        if name not in ("index", "session"):  # the Python library has objects in their place
            default = inspect.Parameter.empty if field.required else field.default
            assert name in ("facets", "without") or arguments[field.name].default == default
    assert list(arguments) == ["self", *(field.name for field in fields_of(SearchOptions).values())]
    assert inspect.signature(Session.search).parameters == arguments


def test_options_in_search_bodies_mean_the_same_as_in_search_requests() -> None:
    prose = (ROOT / "docs" / "http.md").read_text("utf-8").partition("`ext.resift` may have")[2][:400]
    for name, field in fields_of(PipelineOptions).items():
        assert f"`{name}`" in prose
        if name in fields_of(RewritingOptions):
            assert field == fields_of(SearchRequest)[name]


def test_marks_have_the_same_names_in_http_and_python() -> None:
    arguments = set(inspect.signature(Session.mark).parameters) - {"self"}
    assert arguments == set(fields_of(FeedbackRequest)) - {"session", "index"}
    assert arguments > set(GRADES)


OPTIONS = st.sampled_from([name for name in fields_of(SearchRequest) if name not in ("index", "query", "session")])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 1100) | st.integers(9_990, 10_010),
    st.floats(-0.5, 1.5),
    st.sampled_from([1e300, 2.0, "", "keep", "demote", "hide", "auto", "vectors", "card", "none", "source", "10"]),
    st.lists(st.sampled_from(["text", "", 3]), max_size=11),
    st.sampled_from([{}, {"match_all": {}}, [], [[]]]),
)


@given(OPTIONS, VALUES)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("size", 0)
@example("alpha", 1)
@example("knn", True)
@example("facets", ["text"] * 11)
def test_all_interfaces_accept_and_refuse_the_same_values(
    client: FlaskClient, index: Index, name: str, value: Any
) -> None:
    field = fields_of(SearchRequest)[name]
    body = {"index": "docs", "query": "fire", name: value}
    http_error = client.post("/v1/search", json=body).get_json().get("error", {})
    python_error = error_of(lambda: index.search("fire", **{field.name: value}))
    for key in ("code", "value", "expected"):
        assert python_error.get(key) == http_error.get(key)
    assert python_error == {} or field.name in python_error["message"] or name in python_error["message"]
    if name in fields_of(RewritingOptions):
        assert error_of(lambda: read_options(parse({"ext": {"ml_inference": {name: value}}}))) == python_error
        schema = schema_of(field.type)
        is_valid = value is None or any(map(partial(fits, value), (schema, *schema.get("anyOf", ()))))
        assert (python_error == {}) == is_valid


def error_of(call: Callable[[], Any]) -> dict[str, Any]:
    """Return the error that a call raises, as JSON, or an empty dictionary if it raises none."""
    try:
        call()
    except ResiftError as error:
        as_json: dict[str, Any] = error.to_dict()
        return as_json
    return {}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether jsonschema accepts a value for a schema without ``anyOf``."""
    return (
        "anyOf" not in schema
        and Draft202012Validator(schema).is_valid(value)
        and (schema.get("type") != "integer" or isinstance(value, int))
    )


NUMBERS = [
    (kind, name, schema)
    for kind in (Config, ClientSettings)
    for name, field in fields_of(kind).items()
    for part in (schema_of(field.type), *schema_of(field.type).get("anyOf", ()))
    if (schema := part).get("type") in ("integer", "number")
]


@pytest.mark.parametrize(("kind", "name", "schema"), NUMBERS, ids=lambda value: value if isinstance(value, str) else "")
def test_environment_variables_are_checked_against_their_ranges(
    kind: type[Struct], name: str, schema: dict[str, Any]
) -> None:
    from resift.schema import from_environment

    variable = f"RESIFT_{name.upper()}"
    for value in (schema["minimum"], schema["maximum"]):
        assert getattr(from_environment(kind, {variable: f"{value:.20g}"}), name) == value
    for wrong in (schema["minimum"] - 1, schema["maximum"] + 1):
        with pytest.raises(BadInput, match=f"{variable} is ") as caught:
            from_environment(kind, {variable: f"{wrong:.20g}"})
        assert "to" in str(caught.value.expected)
    with pytest.raises(BadInput, match=f"{variable} is 'many'"):
        from_environment(kind, {variable: "many"})


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and its subcommands, with their full names."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, f"{path} {name}")


@pytest.mark.parametrize(
    ("command", "kind", "name"),
    [
        ("resift search", SearchRequest, "size"),
        ("resift search", SearchRequest, "knn"),
        ("resift search", SearchRequest, "session"),
        ("resift serve", Config, "engine"),
        ("resift serve", Config, "model"),
    ],
)
def test_command_line_options_follow_the_declarations(command: str, kind: type[Struct], name: str) -> None:
    params = dict(commands(main, "resift"))[command].params
    (option,) = (param for param in params if isinstance(param, click.Option) and param.name == name)
    field = fields_of(kind)[name]
    schema = schema_of(field.type)
    assert (option.default, option.help) == (field.default, as_sentence(schema["description"]))
    for part in (schema, *schema.get("anyOf", ())):
        if "minimum" in part:
            assert isinstance(option.type, click.IntRange)
            assert (option.type.min, option.type.max) == (part["minimum"], part["maximum"])


def test_errors_name_invalid_values_inside_lists_and_objects() -> None:
    with pytest.raises(BadInput, match=r"facets\[1\] is 3") as caught:
        read_struct(SearchRequest, {"index": "docs", "query": "fire", "facets": ["a", 3]})
    assert (caught.value.value, caught.value.expected) == (3, "a name")
    with pytest.raises(BadInput, match="scores is ") as caught:
        read_struct(FeedbackRequest, {"session": "anna", "index": "docs", "scores": {"1": 2}})
    assert caught.value.expected == "numbers from -1 to 1 by document id"


def test_search_methods_have_the_signature_of_the_declaration() -> None:
    parameters = inspect.signature(resift.Index.search).parameters
    assert list(parameters)[:4] == ["self", "query", "size", "window"]
    assert (parameters["size"].annotation, parameters["size"].default) == (int, 10)
    assert parameters["window"].kind is inspect.Parameter.KEYWORD_ONLY
    assert json.dumps(SCHEMAS)  # references and defaults are JSON
