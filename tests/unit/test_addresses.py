"""Addresses: a cluster or a file is told apart, what is neither is refused, and no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resift.cli.main import main
from resift.errors import BadInput, ResiftError
from resift.plugin.addresses import is_cluster, parse_nodes, without_credentials
from resift.service.connect import open_engine, open_session_store

FILES = [
    "resift.db",
    "news",
    "./data/news:1",
    "C:\\data\\news",
    "./localhost:9301",
    "/tmp/a@b:1",
    "a.b.sqlite",
    "~/x",
    "news.2024.db",
]
CLUSTERS = {
    "http://localhost:9301": [("http", "localhost", 9301)],
    " http://a:1 , https://b,http://c/ ": [("http", "a", 1), ("https", "b", 443), ("http", "c", 9200)],
    "HTTPS://[::1]:9200": [("https", "::1", 9200)],
    "http://anna:p%40s%2Cs@a:1": [("http", "a", 1)],
}
NEITHER = {
    "localhost:9301": "http://localhost:9301",
    "localhost:9301/": "http://localhost:9301",
    "admin:secret@localhost:9301": "http://localhost:9301",
    "admin:se/cret@es:9200": "http://es:9200",
    "a:9200, b:9200": "http://a:9200,http://b:9200",
    "127.0.0.1": "http://127.0.0.1",
    "[::1]:9200": "http://[::1]:9200",
    "localhost": "http://localhost",
    "search.example.com": "http://search.example.com",
    "http://": "http://HOST:PORT",
    "http:localhost": "http://HOST:PORT",
    "http://a:9200,b:9200": "http://HOST:PORT",
    "http://[": "http://HOST:PORT",
    "http://a:99999": "http://HOST:PORT",
    "http://admin:secret@a:port": "http://HOST:PORT",
    "http://admin:secret/1@a:9200": "http://HOST:PORT",
    "http://admin:1/secret@a:9200": "http://HOST:PORT",
    "http://a:9200?x=1": "http://HOST:PORT",
    "ftp://a": "http://HOST:PORT",
    "": "http://HOST:PORT",
    " , ": "http://HOST:PORT",
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("address", FILES)
def test_file_addresses_are_not_clusters(address: str) -> None:
    assert not is_cluster(address)


def test_an_existing_file_may_have_the_form_of_an_address(here: Path) -> None:
    (here / "localhost:9301").touch()
    assert not is_cluster("localhost:9301")


@pytest.mark.parametrize("address", CLUSTERS)
def test_cluster_addresses_are_split_into_nodes(address: str) -> None:
    assert is_cluster(address)
    assert [(node.scheme, node.host, node.port) for node in parse_nodes(address)] == CLUSTERS[address]


@pytest.mark.parametrize("address", NEITHER)
@pytest.mark.parametrize("opened", [open_engine, lambda address: open_session_store(address, "sessions")])
def test_other_addresses_are_refused_without_creating_a_file(here: Path, address: str, opened: object) -> None:
    with pytest.raises(BadInput) as caught:
        opened(address)  # type: ignore[operator]
    assert str(caught.value.expected).startswith(NEITHER[address])
    assert "secret" not in str(caught.value.to_dict())
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("command", [["doctor"], ["indices"], ["serve"], ["sessions", "purge", "--store"]])
@pytest.mark.parametrize(
    "address", ["admin:secret@localhost:9301", "http://admin:secret@127.0.0.1:1", "http://admin:sec/secret@a:x"]
)
def test_no_command_prints_a_password(here: Path, command: list[str], address: str) -> None:
    flags = [] if command[-1] == "--store" else ["--engine"]
    if command == ["serve"] and address.endswith(":1"):
        return  # it would serve: the cluster is asked later
    result = CliRunner().invoke(main, [*command, *flags, address])
    assert result.exit_code, result.output
    assert isinstance(result.exception, SystemExit)
    assert "secret" not in result.output
    assert not [path for path in here.rglob("*") if "secret" in path.name]


def refusal_message(address: str) -> str:
    """Return the error that refuses an address as text, or "" if the address is accepted."""
    try:
        is_cluster(address)
    except ResiftError as error:
        return str(error.to_dict())
    return ""


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(TEXT, TEXT, st.sampled_from(["http://{}:{}@a:1", "{}:{}@a:1", "http://b:2,http://{}:{}@a:1"]))
@example(":", "0", "{}:{}@a:1")
@settings(deadline=None)
def test_passwords_with_any_characters_are_hidden(user: str, password: str, form: str) -> None:
    secret = f"begin{password}end"
    address = form.format(user.replace(",", "").strip() or "u", secret)
    shown = without_credentials(address)
    assert "begin" not in shown or shown.startswith(("/", ".", "~", "\\"))
    assert "begin" not in refusal_message(address)


def test_an_engine_in_memory_is_refused() -> None:
    # of which a second thread, or the next search after an error, would find nothing
    with pytest.raises(BadInput, match="cannot be kept in memory only"):
        open_engine(":memory:")
