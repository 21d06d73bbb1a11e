"""Fixtures: the search page with the demonstration's documents, and with difficult documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Driver, Page, served
from flask import Flask

from resift import Model
from resift.cli.demo import INDEX
from resift.cli.transcript import corpus_file
from resift.embedded.engine import SqliteEngine
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files, Record
from resift.reranker import Config, create_app

QUESTION = "How much is the filing fee?"
ODD = "odd"
SCRIPT = "<img src=x onerror=\"document.title='caught'\"><script>document.title='caught'</script>&lt;b&gt; </em> <em>"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
DOCUMENTS = {
    f"html {SCRIPT}": {
        "title": f"fire {SCRIPT}",
        "text": f"fire {SCRIPT} " * 3,
        "url": "javascript:alert(1)",
        "kind": SCRIPT,
    },
    "long title": {"title": "fire " + "title " * 82, "text": "fire in a document with a long title", "kind": "long"},
    "one word": {"title": "W" * 500, "text": f"fire {'x' * 5000}", "kind": "long"},
    "megabyte": {"title": "A megabyte", "text": "fire " + "in the bush " * 83_000, "kind": "long"},
    "rtl": {"title": "حريق في الغابة قرب المدينة", "text": "fire حريق كبير في الغابة قرب المدينة", "kind": "حريق"},
    "cjk": {
        "title": "東京の山火事",
        "text": "fire 東京の近くの山で火事が発生しました。消防隊が消火活動を行っています。",
        "kind": "火事",
    },
    "linked": {
        "title": "A link and an image",
        "text": "fire with both",
        "url": "https://a.example/x",
        "image": "https://a.example/i.png",
        "kind": "link",
    },
    "bare": {"text": "fire without a title"},
    **{f"plain {n}": {"title": f"Plain {n}", "text": f"fire number {n}", "kind": "plain"} for n in range(8)},
}


@pytest.fixture(scope="session")
def page_app(packaged: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """Return an application with both indices, on the embedded engine."""
    folder = tmp_path_factory.mktemp("page")
    engine = SqliteEngine(str(folder / "engine.db"))
    dead = DeadLetters(folder / "dead.jsonl")
    Indexer(engine, packaged, INDEX, dead).run(Files([corpus_file()]), ["title", "text"])
    odd = [Record("odd", at, id, source) for at, (id, source) in enumerate(DOCUMENTS.items())]
    assert Indexer(engine, packaged, ODD, dead).run(odd, ["title", "text"]).refused == 0
    config = Config(engine=engine.path, store=str(folder / "sessions.db"), index=INDEX, page_fields=("facet=kind",))
    yield create_app(config, engine=engine, model=packaged)
    engine.close()


@pytest.fixture(scope="session")
def page_address(page_app: Flask) -> Iterator[str]:
    """Serve the application, and return its URL."""
    with served(page_app) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def page(driver: Driver, page_address: str) -> Iterator[Page]:
    """Return the page in a window of usual size and light colours. Errors in the browser's console fail the test."""
    page = Page(driver, page_address)
    page.errors()
    page.resize(1440, 1000)
    page.colours("light")
    yield page
    page.usual()
    # The browser logs an error for the image of a document, which does not exist.
    assert [error for error in page.errors() if "https://a.example/i.png" not in error] == []
