"""Tests of errors and other exceptional states of the search page, including checks by axe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from browser import Page, served
from flask import Flask
from page_app import QUESTION
from ports import free_port
from selenium.webdriver.common.keys import Keys
from service_app import wait_for_sample

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app
from resift.reranker.access.keys import KeyFile

KEY = "rsf_" + "k" * 43
STATES = {
    "start": {},
    "results": {"q": QUESTION},
    "session": {"q": QUESTION, "drawer": 1, "session": "axe", "left": "hybrid"},
    "facets": {"q": "fire", "index": "odd", "drawer": 1, "filter": "kind:plain"},
    "nothing": {"q": "zzzz qqqq"},
    "error": {"q": QUESTION, "index": "none"},
}

LOOKS = {"light": tuple(STATES), "dark": ("session", "error"), "phone": ("start", "session")}


@pytest.fixture
def marked(page_app: Flask) -> None:
    """Create the session ``axe`` with two marks."""
    client = page_app.test_client()
    found = client.post("/v1/search", json={"index": "resift-demo", "query": QUESTION}).get_json()["hits"]["hits"]
    marks = {"relevant": [found[0]["_id"]], "irrelevant": [found[1]["_id"]]}
    client.post("/v1/feedback", json={"session": "axe", "index": "resift-demo", "query": QUESTION, **marks})


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(("look", "states"), LOOKS.items())
def test_axe_finds_no_fault(page: Page, look: str, states: Sequence[str]) -> None:
    page.colours("dark" if look == "dark" else "light")
    if look == "phone":
        page.resize(390, 844)
    for name in states:
        page.open(**STATES[name])
        if name == "session":
            page.wait("return document.querySelectorAll('#right .why').length === 10")
        assert page.violations() == [], name
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), name
    page.errors()  # from the missing index


def test_a_search_without_hits_shows_a_message(page: Page) -> None:
    page.open(q="zzzz qqqq")
    assert page.text("#message h2") == "Nothing found"
    page.click("#message .pill")
    assert page.all("#right .card")
    assert not page.one("#message").is_displayed()


def test_filters_that_leave_nothing_can_be_taken_away(page: Page) -> None:
    page.open(q="fire", index="odd", filter="kind:none of these")
    assert page.text("#message p") == "No document of odd with kind: none of these contains these words."
    page.click("#message button")
    assert page.text("#total") == "16 documents"


def test_a_link_to_a_session_of_another_key_starts_a_new_session(page: Page, page_app: Flask, tmp_path: Path) -> None:
    service = page_app.extensions["resift"]
    file = KeyFile(str(tmp_path / "keys.jsonl"))
    anna, bob = (file.create(name, ["search", "feedback"]) for name in ("anna", "bob"))
    reader = file.create("reader", ["search"])
    config = Config(engine=service.config.engine, store=str(tmp_path / "s.db"), keys=str(file.path))
    give = "sessionStorage.setItem('resift-key', arguments[0])"
    with served(create_app(config, engine=service.engine, model=service.model)) as server:
        shared = Page(page.driver, f"http://127.0.0.1:{server.server_port}")
        shared.driver.get(f"{shared.base}/healthz")
        shared.run(give, anna)
        shared.open(q="fire", index="odd").click("#right .card .thumb")
        link = shared.driver.current_url
        shared.run(give, bob)
        shared.driver.get(link)
        shared.settle().click("#right .card:nth-child(2) .thumb")
        assert "somebody else’s" in shared.text("#toast")
        shared.click("#right .card:nth-child(3) .thumb")
        assert shared.text("#toggle") == "Session · 2 marks"
        assert shared.driver.current_url != link
        assert not shared.one("#offer").is_displayed()  # the same browser started the session of the link
        shared.run(give, anna)
        shared.driver.get(link)
        assert shared.settle().text("#toggle") == "Session · 1 mark"
        shared.run(give, reader)
        shared.driver.get(link)
        shared.settle().click("#right .card:nth-child(2) .thumb")
        assert shared.text("#toast").startswith("This key may search, but not mark.")
        assert not shared.all(".thumb[aria-pressed=true]")
        shared.click("#toast button")
        assert shared.one("#key").is_displayed()
        shared.run("sessionStorage.clear()")
    page.errors()


CHOSEN = "chosen-by-somebody-else"


def judged(page_app: Flask, session: str) -> list[str]:
    """Return the documents that are judged in a session."""
    answer = page_app.test_client().get(f"/v1/sessions/{session}").get_json()
    return [one["document"] for one in answer.get("judgements", ())]


def test_the_page_asks_before_it_uses_the_session_of_a_link(page: Page, page_app: Flask) -> None:
    page.run("localStorage.removeItem('resift-sessions')")
    page.open(q="fire", index="odd", session=CHOSEN)
    assert "was not started in this browser" in page.text("#offer")
    page.click("#right .card .thumb")
    session = page.driver.current_url.partition("session=")[2].partition("&")[0]
    assert session != CHOSEN
    assert len(judged(page_app, session)) == 1
    assert judged(page_app, CHOSEN) == []

    page.open(q="fire", index="odd", session=CHOSEN).click("#decline")
    assert not page.one("#offer").is_displayed()
    assert "session=" not in page.driver.current_url

    page.open(q="fire", index="odd", session=CHOSEN).click("#adopt").settle()
    assert not page.one("#offer").is_displayed()
    assert f"session={CHOSEN}" in page.driver.current_url
    page.click("#right .card .thumb")
    assert len(judged(page_app, CHOSEN)) == 1
    page.open(q="fire", index="odd", session=CHOSEN)  # the browser remembers that the session was adopted
    assert not page.one("#offer").is_displayed()
    assert page.text("#toggle") == "Session · 1 mark"
    page.errors()  # the browser logs that the session did not exist before its first mark


@pytest.mark.parametrize("button", ["Undo", "Forget all"])
def test_a_session_that_is_over_is_no_error(page: Page, page_app: Flask, button: str) -> None:
    page.open(q="fire", index="odd", drawer=1).click("#right .card .thumb")
    session = page.driver.current_url.partition("session=")[2].partition("&")[0]
    assert page_app.test_client().delete(f"/v1/sessions/{session}").get_json()["deleted"]
    find = "[...document.querySelectorAll('#tools button')].find((one) => one.textContent === arguments[0])"
    page.run(f"{find}.click()", button)
    page.wait("return document.querySelector('#toggle').textContent === 'Session'")
    assert "has expired, or was deleted" in page.text("#toast")
    assert page.settle().one("#right .card").is_displayed()
    assert not page.one("#message").is_displayed()
    page.errors()


def test_a_page_after_the_last_page_shows_a_message(page: Page) -> None:
    page.open(q="fire", index="odd", page=7)
    assert page.text("#message").splitlines()[0] == "There is no page 7"
    assert "16 documents" in page.text("#message")
    page.click("#message button")
    assert page.one("#right .card .rank").text == "1"
    page.driver.back()
    page.wait("return document.querySelector('#message h2').textContent === 'There is no page 7'")


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)  # beyond the last page of the index
def test_pages_end_where_the_api_does(page: Page, engine: Engine, index: str, model: Model, tmp_path: Path) -> None:
    engine.create(index, ["text"], model)
    for start in range(0, 10_500, 1_500):
        some = [Document(str(n), {"text": f"fire {n}"}) for n in range(start, start + 1_500)]
        assert engine.bulk(index, some) == []
    engine.refresh(index)
    app = create_app(Config(store=str(tmp_path / "s.db"), index=index), engine=engine, model=model)
    with served(app) as server:
        deep = Page(page.driver, f"http://127.0.0.1:{server.server_port}").open(
            q="fire", page=999, drawer=1, left="bm25"
        )
        for number, said in ((999, "Page 999"), (1000, "Page 1000, the last that can be shown")):
            assert (deep.text("#page-number"), deep.text("#message")) == (said, "")
            assert deep.texts("#right .card .rank") == [str(n) for n in range(number * 10 - 9, number * 10 + 1)]
            assert set(deep.texts("#right .card .moved > [aria-hidden]")) == {"="}
            assert deep.one("#next").is_enabled() is (number == 999)
            deep.click("#right .card .thumb[title=relevant]")
            if number == 999:
                deep.click("#next")
        assert deep.text("#toggle") == "Session · 2 marks"
        assert deep.click("#previous").text("#page-number") == "Page 999"


def test_a_browser_that_keeps_nothing_shows_hits(page: Page) -> None:
    blocked = "Object.defineProperty(window, 'sessionStorage', {get() { throw new Error('blocked'); }})"
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": blocked})  # type: ignore[no-untyped-call]
    try:
        page.open(q="fire", index="odd").click("#right .card .thumb")
        assert page.text("#toggle") == "Session · 1 mark"
        assert page.run("return import('./static/api.js').then((api) => api.ownKey('rsf_x') === 'rsf_x')")
    finally:
        page.emulate("Page.removeScriptToEvaluateOnNewDocument", added)


def test_a_misspelt_query_is_mended(page: Page, page_app: Flask) -> None:
    def suggestion() -> str | None:
        answer = page_app.test_client().post("/v1/search", json={"index": "resift-demo", "query": "attorny", "size": 1})
        wait_for_sample()
        found: str | None = answer.get_json()["resift"].get("did_you_mean")
        return found

    # Words are sampled in the background, one index at a time.
    assert (suggestion() or suggestion() or suggestion()) == "attorney"
    page.open(q="attorny")
    page.click("#suggestion button")
    assert page.one("#query").get_attribute("value") == "attorney"
    assert not page.one("#suggestion").is_displayed()


def test_an_error_says_what_was_wrong_and_its_code(page: Page) -> None:
    page.open(q="fire", index="none")
    assert page.text("#message h2") == "That did not work"
    assert "no index 'none'" in page.text("#message")
    assert "index_not_found" in page.text("#message")
    page.run("const s = document.getElementById('index'); s.value = 'odd'; s.dispatchEvent(new Event('change'))")
    assert page.settle().text("#total") == "16 documents"
    page.errors()


WATCHED = """
window.seen = [];
const look = () => seen.push({
  progress: !document.getElementById('progress').hidden,
  waiting: document.body.classList.contains('waiting'),
  busy: document.getElementById('results').getAttribute('aria-busy'),
  pressed: document.querySelectorAll('#right .thumb[aria-pressed=true]').length,
  cards: document.querySelectorAll('#right .card').length,
});
new MutationObserver(look).observe(document, {subtree: true, attributes: true, childList: true});
"""


def test_a_slow_network_shows_that_something_is_under_way(page: Page) -> None:
    page.open()
    page.run(WATCHED)
    page.network(latency=100)
    page.search(QUESTION)
    seen = page.run("const found = seen; window.seen = []; return found")
    assert any(one["progress"] and one["waiting"] and not one["cards"] for one in seen)
    assert not seen[-1]["progress"]
    assert seen[-1]["cards"] == 10
    page.click("#right .card:nth-child(2) .thumb")
    # The click is shown at once. The old hits stay until the new ones are there.
    seen = page.run("return seen")
    assert any(one["pressed"] == 1 and one["busy"] == "true" for one in seen)
    assert {one["cards"] for one in seen} <= {10, 9, 11}
    assert not any(one["waiting"] for one in seen)
    assert page.text("#toggle") == "Session · 1 mark"


def test_a_search_that_takes_long_says_so_and_is_stopped(page: Page) -> None:
    page.open()
    page.network(latency=60_000)
    page.run("document.querySelector('#examples button').click()")
    page.wait("return !document.getElementById('slow').hidden")
    page.click("#stop")
    assert page.text("#message h2") == "Stopped"
    page.network()
    assert page.click("#message button").all("#right .card")


NETWORK = """
const soon = window.fetch;
window.fetch = async (path, how) => {
  if (path === 'PATH') await new Promise((done) => { window.proceed = done; });
  const fails = { error: { code: 'engine_unavailable', message: 'the engine is away' } };
  return path === 'PATH' && FAILS ? Response.json(fails, { status: 503 }) : soon(path, how);
};
"""


@contextmanager
def late(page: Page, path: str, fails: bool = False) -> Iterator[None]:
    """Delay the response to a request for a path until :func:`proceed` is called. With ``fails``, it is an error."""
    source = NETWORK.replace("PATH", path).replace("FAILS", str(fails).lower())
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        page.emulate("Page.removeScriptToEvaluateOnNewDocument", added)


def proceed(page: Page) -> None:
    """Wait until a request is delayed by :func:`late`, and end the delay."""
    page.wait("return Boolean(window.proceed)")
    page.run("proceed()")


def test_indices_that_are_listed_late_are_listed(page: Page) -> None:
    with late(page, "v1/indices"):
        page.open(q=QUESTION)
        assert page.all("#right .card")
        assert page.texts("#index option") == ["resift-demo (447)"]
        proceed(page)
        page.wait("return document.getElementById('index').length === 2")
        assert page.texts("#index option") == ["odd (16)", "resift-demo (447)"]


def test_hits_stay_where_indices_cannot_be_listed(page: Page) -> None:
    with late(page, "v1/indices", fails=True):
        page.open(q=QUESTION)
        proceed(page)
        page.run_async("setTimeout(arguments[0], 500)")
        assert page.all("#right .card")
        assert not page.one("#message").is_displayed()
        page.driver.get(page.base)
        proceed(page)
        page.settle()
        assert page.wait("return document.querySelector('#message h2')?.innerText") == "That did not work"


def test_a_search_sent_while_a_mark_is_noted_has_arrows_of_its_own(page: Page) -> None:
    arrows = "#right .card .moved"
    with late(page, "v1/feedback"):
        page.open(q="court", compare=1)
        page.run("document.querySelector('#right .thumb').click()")
        page.one("#query").clear()
        page.one("#query").send_keys("filing fee" + Keys.ENTER)
        proceed(page)
        shown = page.settle().texts(arrows)
    assert len(shown) == 10
    page.driver.refresh()
    assert page.settle().texts(arrows) == shown


def test_a_newer_search_ends_an_older_one(page: Page) -> None:
    page.open(q="court")
    page.network(latency=300)
    page.run(
        "document.getElementById('query').value = 'first words'; document.getElementById('form').requestSubmit();"
        "document.getElementById('query').value = 'fee'; document.getElementById('form').requestSubmit()"
    )
    page.settle()
    assert page.run("return document.title") == "fee – Resift"
    assert "fee" in page.text("#right .card mark").lower()


def test_the_page_outlives_its_server(page: Page, page_app: Flask) -> None:
    with ExitStack() as stack:
        port = free_port()  # another program cannot take this port while the server is away
        stack.enter_context(served(page_app, port))
        page = Page(page.driver, f"http://127.0.0.1:{port}").open(q=QUESTION)
        before = page.texts("#right .card h3")
        stack.close()
        page.click("#right .card:nth-child(3) .thumb")
        assert "does not answer" in page.text("#offline")
        assert page.texts("#right .card h3") == before
        assert page.violations() == []
        stack.enter_context(served(page_app, port))
        page.wait("return document.getElementById('offline').hidden")
        page.settle()
        page.click("#right .card:nth-child(3) .thumb")
        assert page.text("#toggle") == "Session · 1 mark"
    page.errors()


@pytest.fixture
def locked(page: Page, packaged: Model, tmp_path: Path) -> Iterator[Page]:
    """Open a page of a service with an API key and without an index."""
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    app = create_app(
        Config(engine=engine.path, store=str(tmp_path / "s.db"), api_key=KEY), engine=engine, model=packaged
    )
    with served(app) as server:
        yield Page(page.driver, f"http://127.0.0.1:{server.server_port}")
    engine.close()


@pytest.mark.parametrize(
    "engine_url", ["opensearch"], indirect=True
)  # the embedded engine has no indices without vectors
def test_an_index_without_vectors_says_so_where_it_matters(
    page: Page, engine: OpenSearchEngine, index: str, packaged: Model, tmp_path: Path
) -> None:
    for n, text in enumerate(("bush fire with smoke", "fire of the army with a gun", "smoke over the valley")):
        engine.client.index(
            index=index, body={"title": f"Report {n}", "text": text}, id=str(n), params={"refresh": "true"}
        )
    app = create_app(Config(store=str(tmp_path / "s.db"), index=index), engine=engine, model=packaged)
    with served(app) as server:
        bare = Page(page.driver, f"http://127.0.0.1:{server.server_port}").open(q="fire", drawer=1)
        assert not bare.one("#bare").is_displayed()
        bare.click("#right .card[data-id='0'] .thumb")
        assert bare.one("#bare").is_displayed()
        assert bare.run("return document.getElementById('index').value") == index
        assert "smoke" in bare.texts("#words .pill [dir]")
        assert bare.texts("#right .card[data-id='2'] .why") == ["More like Report 0: report, smoke"]
        bare.click("#compare")
        assert bare.texts("#left-method option") == ["As the engine ranks: BM25", "Your session"]
        assert bare.open(q="zzzz").text("#message p").endswith("only these words match. Try others.")
        assert bare.violations() == []


def test_the_page_asks_for_a_key_and_an_index(locked: Page) -> None:
    locked.driver.get(locked.base)
    locked.wait("return document.getElementById('dialog').open")
    assert locked.violations() == []
    locked.keys("wrong" + Keys.ENTER)
    locked.wait("return document.getElementById('dialog').open && document.getElementById('key').value === ''")
    locked.one("#key").send_keys(KEY + Keys.ENTER)
    locked.settle()
    assert "resift index docs.jsonl" in locked.text("#message")
    assert locked.run("return sessionStorage.getItem('resift-key')") == KEY
    locked.run("sessionStorage.clear()")
    locked.errors()
