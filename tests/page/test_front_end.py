"""Tests of resift.js in docs/examples/front-end.html, which is served from another origin than the service."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import Driver, Page, served
from flask import Flask
from page_app import QUESTION

from resift.cli.demo import INDEX
from resift.reranker import Config, create_app

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = (DOCS / "examples" / "front-end.html").read_text("utf-8")
SCRIPT = Path(__file__).parents[2] / "resift" / "reranker" / "static" / "resift.js"
TEMPLATE = "http://127.0.0.1:8080"
HITS = "return document.querySelectorAll('li').length"
Open = Callable[..., Page]


@pytest.fixture
def open_page(driver: Driver, page_app: Flask, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens the example page at its own origin, with parts of its text replaced."""
    service = page_app.extensions["resift"]
    host = Flask("host")
    text = {"page": ""}
    host.add_url_rule("/", view_func=lambda: text["page"])
    host.add_url_rule("/favicon.ico", "icon", lambda: ("", 204))  # browsers request it at any time
    with served(host) as other:
        origin = f"http://127.0.0.1:{other.server_port}"
        config = Config(engine=service.config.engine, store=str(tmp_path / "s.db"), cors=(origin,))
        allowing = create_app(config, engine=service.engine, model=service.model)
        with served(allowing) as allowed, served(page_app) as refused:
            ports = {"allowed": allowed.server_port, "refused": refused.server_port, "away": 9}

            def open_one(reranker: str = "allowed", *replaced: tuple[str, str]) -> Page:
                # A busy machine answers late.
                patient = EXAMPLE.replace(' data-index="', ' data-timeout="60000" data-index="')
                text["page"] = patient
                for old, new in replaced:
                    assert old in text["page"]
                    text["page"] = text["page"].replace(old, new)
                text["page"] = text["page"].replace(TEMPLATE, f"http://127.0.0.1:{ports[reranker]}")
                driver.get(f"{origin}/")
                driver.execute_script("sessionStorage.clear()")  # type: ignore[no-untyped-call]
                driver.get(f"{origin}/")
                page = Page(driver, origin)
                page.errors()
                page.run(
                    "window.thrown = []; for (const kind of ['error', 'unhandledrejection'])"
                    " window.addEventListener(kind, (event) => thrown.push(String(event.message || event.reason)))"
                )
                page.app = allowing  # type: ignore[attr-defined]
                return page

            yield open_one


def judged(page: Page) -> dict[str, float]:
    """Return the judgements of the page's session: document → grade."""
    session = page.run("return Resift.session")
    answer = page.app.test_client().get(f"/v1/sessions/{session}").get_json()  # type: ignore[attr-defined]
    return {one["document"]: one["grade"] for one in answer.get("judgements", ()) if one["counts"]}


def test_the_script_is_small_and_served(page_app: Flask) -> None:
    answer = page_app.test_client().get("/resift.js")
    assert (answer.status_code, answer.mimetype) == (200, "text/javascript")
    assert answer.text == SCRIPT.read_text("utf-8")
    code = re.sub(r"^\s*(//.*|/\*(?:.|\n)*?\*/)[ \t]*\n", "", answer.text, flags=re.MULTILINE)
    assert len(code.encode()) <= 5 * 1024
    assert "import" not in answer.text.split()


def test_what_the_example_names_is_what_the_demo_serves() -> None:
    assert f'src="{TEMPLATE}/resift.js" data-index="{INDEX}"' in EXAMPLE
    assert QUESTION in EXAMPLE
    assert len(re.findall("examples/front-end.html", (DOCS / "front-end.md").read_text("utf-8"))) >= 1


def test_search_mark_click_and_forget(open_page: Open) -> None:
    page = open_page()
    page.one("form button").click()
    page.wait(f"{HITS} === 5")
    first = page.texts("li a")
    session = page.run("return Resift.session")
    page.one("li:nth-child(3) button").click()
    page.wait("return document.querySelector('li:nth-child(3) button').ariaPressed === 'true'")
    page.run("return Resift.search(arguments[0])", QUESTION)  # search() waits for the mark
    assert list(judged(page).values()) == [1.0]
    page.one("form button").click()
    page.wait("return document.querySelector('li a').textContent !== arguments[0]", first[0])
    assert page.texts("li a")[0] == first[2]  # the marked document is first
    page.run("document.querySelectorAll('li a')[2].click()")
    page.wait("return location.hash.length > 1")
    page.run("return Resift.search('fee')")  # waits for the mark of the click
    assert sorted(judged(page).values()) == [-0.25, 0.5, 1.0]  # a mark replaces the judgement as skipped
    page.driver.refresh()
    assert page.run("return Resift.session") == session
    taken_back = page.run(
        "return Resift.search(arguments[0]).then((found) => Resift.mark(found.hits.hits[0]._id, 'neutral'))", QUESTION
    )
    assert 1.0 not in judged(page).values()
    assert taken_back["session"] == session
    page.one("#forget").click()
    page.wait("return Resift.session !== arguments[0]", session)
    assert judged(page) == {}
    assert page.run("return window.thrown || []") == []
    assert page.errors() == []


def test_a_plain_search_follows_the_same_session(open_page: Open) -> None:
    page = open_page()
    ext = page.run("return Resift.ext('fire')")
    assert ext == {"resift": {"query": "fire", "session": page.run("return Resift.session")}}


def test_ids_may_be_numbers(open_page: Open) -> None:
    page = open_page()
    fetch = "async (_, asked) => { sent.push(JSON.parse(asked.body)); throw new Error() }"
    page.run(f"window.sent = []; window.fetch = {fetch}")
    page.run("return Resift.mark(7).then(() => Resift.clicked(8))")
    assert page.run("return sent.map((one) => [one.relevant, one.clicked])") == [[["7"], None], [None, ["8"]]]


RECORD = """
window.sent = [];
window.fetch = async (path, {body, keepalive}) => {
  const asked = JSON.parse(body);
  sent.push({...asked, keepalive});
  if (!path.endsWith("search")) return Response.json({});
  const start = asked.from ?? asked.query.from ?? 0, count = asked.size ?? 10;
  await new Promise((done) => setTimeout(done, asked.query === "slow" ? 300 : 0));
  const hits = Array.from({length: count}, (_, at) => ({_index: at % 2 ? "odd" : "even", _id: String(start + at)}));
  return Response.json({hits: {hits}});
};
"""


def sent(page: Page, script: str) -> dict[str, object]:
    """Run a script in a page that records requests instead of sending them, and return the last recorded body."""
    page.run(f"return (async () => {{ {script} }})()")
    return dict(page.run("return sent.at(-1)"))


def test_hits_above_a_click_count_against(open_page: Open) -> None:
    page = open_page()
    page.run(RECORD)
    marks = sent(
        page, "await Resift.search('fire', {size: 50}); await Resift.clicked('40'); await Resift.clicked('44')"
    )
    # Only the ten nearest hits of the same index are skipped. Marks name this index, since the alias has several
    # documents with the id.
    assert marks["skipped"] == [str(n) for n in range(22, 44, 2) if n != 40]
    assert (marks["clicked"], marks["index"], marks["query"]) == (["44"], INDEX, "fire")
    more = "await Resift.search('fire', {size: 4}); await Resift.search('fire', {size: 4, from: 4});"
    assert sent(page, f"{more} await Resift.clicked('4')")["skipped"] == ["0", "2"]
    assert sent(page, f"{more} await Resift.search('x', {{from: 4}}); await Resift.clicked('4')")["skipped"] == []
    assert sent(page, f"{more} await Resift.search('x', {{size: 0}}); await Resift.clicked('2')")["query"] == "fire"


def test_marks_are_under_the_name_that_was_searched(open_page: Open) -> None:
    page = open_page()
    page.run(RECORD)
    assert sent(page, "await Resift.search('fire', {index: 'news'}); await Resift.mark('1')")["index"] == "news"
    assert sent(page, "await Resift.mark('99')")["index"] == INDEX
    refuse = """
    const answer = fetch, error = {code: 'ambiguous_document', message: 'several'};
    fetch = async (path, asked) => {
      const found = await answer(path, asked), refused = path.endsWith('feedback') && sent.at(-1).index === 'news';
      return refused ? Response.json({error}, {status: 400}) : found;
    };
    """
    again = sent(page, f"{refuse} await Resift.search('fire', {{index: 'news'}}); await Resift.clicked('3')")
    assert (again["index"], again["clicked"], again["skipped"]) == ("odd", ["3"], ["1"])
    assert page.run("return Resift.error") is None


def test_clicks_belong_to_the_latest_search(open_page: Open) -> None:
    page = open_page()
    page.run(RECORD)
    both = "await Promise.all([Resift.search('slow'), Resift.search('fire')]); await Resift.clicked('0')"
    assert sent(page, both)["query"] == "fire"
    body = "{query: {match: {text: 'x'}}, sort: ['year'], ext: Resift.ext('wood')}"
    assert sent(page, f"await Resift.search({body}); await Resift.mark('0')")["query"] == "wood"
    assert sent(page, "await Resift.search({match_all: {}}); await Resift.mark('0')")["query"] == ""
    assert sent(page, "await Resift.search('fire'); Resift.ext('wood'); await Resift.clicked('4')") == {
        **{"index": INDEX, "session": page.run("return Resift.session"), "query": "wood", "keepalive": True},
        **{"clicked": ["4"], "skipped": []},  # the hits of a plain search are unknown
    }
    assert page.run("return Resift.search(null).then((found) => found !== undefined)")


def test_pending_events_are_sent_when_the_page_is_left(open_page: Open) -> None:
    page = open_page()
    page.run(RECORD)
    page.run("fetch = (path, {body}) => { sent.push(JSON.parse(body)); return new Promise(() => undefined); }")
    page.run("Resift.mark('1'); Resift.clicked('2'); for (const _ of '12') dispatchEvent(new Event('pagehide'))")
    page.wait("return sent.length === 2")
    assert page.run("return sent.map((one) => one.relevant || one.clicked)") == [["1"], ["2"]]


def test_a_session_without_marks_is_forgotten_without_an_error(open_page: Open) -> None:
    page = open_page()
    session = page.run("return Resift.session")
    page.run("return Resift.forget()")
    assert page.run("return Resift.error") is None
    assert page.run("return Resift.session") != session
    page.errors()  # the browser logs the status 404


@pytest.mark.parametrize("tag", ['<script type="module" src=', "<script defer src="])
def test_the_script_may_be_loaded_in_other_ways(open_page: Open, tag: str) -> None:
    page = open_page("allowed", ("<script src=", tag), ("/resift.js", "/resift.js?v=1/2"))
    page.wait("return window.Resift")
    page.one("form button").click()
    page.wait(f"{HITS} === 5")


def test_loading_the_script_twice_has_no_effect(open_page: Open) -> None:
    tag = f'<script src="{TEMPLATE}/resift.js" data-index="{INDEX}"></script>'
    page = open_page("allowed", ("</ol>", "</ol><script>window.before = 1</script>"))
    assert tag in EXAMPLE
    page.run(
        "window.first = Resift; const copy = document.createElement('script'); copy.src ="
        " document.querySelector('script[src]').src; copy.onload = () => { window.twice = true; };"
        " document.body.append(copy)"
    )
    page.wait("return window.twice && window.first === Resift")


@pytest.mark.parametrize(
    ("reranker", "script"),
    [
        ("refused", "Resift.index"),  # the page's origin is not in RESIFT_CORS
        ("allowed", "Resift.timeout = 0.001"),
        ("allowed", "Resift.index = 'nothing-of-that-name'"),
        ("allowed", "window.fetch = async () => new Response('<html>a proxy is unhappy</html>', {status: 502})"),
        ("allowed", "window.fetch = () => { throw new TypeError('blocked'); }"),
    ],
)
def test_a_failing_request_does_not_break_the_page(open_page: Open, reranker: str, script: str) -> None:
    page = open_page(reranker)
    page.run(script)
    page.one("form button").click()
    page.wait("return document.querySelector('[role=status]').textContent.includes('own search')")
    found = page.run("return Promise.all([Resift.clicked('1'), Resift.mark('1'), Resift.search('x')])")
    assert found == [None, None, None]
    assert page.run("return Resift.error instanceof Error")
    page.run("return Resift.forget()")
    assert page.run("return window.thrown") == []


def test_a_reranker_that_is_away(open_page: Open) -> None:
    page = open_page("away")
    page.one("form button").click()
    page.wait("return document.querySelector('[role=status]').textContent.includes('own search')")
    page.one("#forget").click()
    assert page.run("return window.thrown") == []


def with_policy(directives: str) -> tuple[str, str]:
    """Return a replacement that adds a Content-Security-Policy to the page. Its own script and style stay allowed."""
    directives = directives.replace("'self'", "'self' 'unsafe-inline'").replace("https://search.example", TEMPLATE)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {directives}"
    return "<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{policy}">'


def test_the_documented_security_policy_allows_the_script(open_page: Open) -> None:
    documented = re.search("^Content-Security-Policy: (.*)$", (DOCS / "front-end.md").read_text("utf-8"), re.MULTILINE)
    assert documented is not None
    page = open_page("allowed", with_policy(documented[1]))
    page.one("form button").click()
    page.wait(f"{HITS} === 5")
    assert page.run("return window.thrown") == []
    assert page.errors() == []


@pytest.mark.parametrize("blocked", ["script-src", "connect-src"])
def test_a_page_works_if_its_security_policy_blocks_resift(open_page: Open, blocked: str) -> None:
    allowed = {"script-src": "'self' https://search.example", "connect-src": "'self' https://search.example"}
    directives = "; ".join(f"{name} {sources}" for name, sources in {**allowed, blocked: "'self'"}.items())
    page = open_page("allowed", with_policy(directives))
    assert page.run("return Boolean(window.Resift)") == (blocked == "connect-src")
    page.one("form button").click()
    page.wait("return document.querySelector('[role=status]').textContent.includes('own search')")
    assert page.run("return window.Resift?.clicked('1').then((answer) => answer)") is None
    page.one("#forget").click()
    assert page.run("return window.thrown") == []
    page.errors()  # the browser logs what it blocked


def test_a_browser_that_keeps_nothing(open_page: Open) -> None:
    blocked = "Object.defineProperty(window, 'sessionStorage', {get() { throw new Error('blocked'); }})"
    page = open_page("allowed")
    page.run(blocked)
    session = page.run("return Resift.session")
    assert re.fullmatch("[0-9a-f]{32}", session)
    assert page.run("return Resift.session") == session
