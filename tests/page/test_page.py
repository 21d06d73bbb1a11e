"""Tests of the search page: searching, marking, comparing, the drawer and the address."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from browser import Page
from flask import Flask
from page_app import QUESTION
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from service_app import wait_for_sample

RIGHT = "#right .card"
STATIC = Path(__file__).parents[2] / "resift" / "reranker" / "static"
# Lines of scripts and style sheets that contain only a comment.
COMMENTS = re.compile(r"^\s*(//.*|/\*(?:.|\n)*?\*/)[ \t]*\n", re.MULTILINE)


def address(page: Page) -> dict[str, str]:
    """Return the parameters in the page's address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.driver.current_url).query).items()}


def titles(page: Page, side: str = "right") -> list[str]:
    """Return the titles of a column's hits."""
    return page.texts(f"#{side} .card h3")


def keys(page: Page, side: str = "right") -> list[str]:
    """Return the ids of a column's hits."""
    return list(
        page.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.dataset.id)", f"#{side} .card")
    )


def arrows(page: Page) -> list[str]:
    """Return the visible texts of the arrows."""
    return page.texts(f"{RIGHT} .moved > [aria-hidden]")


def mark(page: Page, rank: int, name: str = "relevant") -> None:
    """Click the thumb of a hit."""
    page.click(f"{RIGHT}:nth-child({rank}) .thumb[title='{name}']")


def shown(page: Page) -> dict[str, object]:
    """Return the state of the page, as shown."""
    parts = ("#query", "#left", "#right", "#drawer", "#total", "#chosen", "#page-number")
    # times differ
    return {part: re.sub(r"[\d.]+ m?s", "", page.text(part)) for part in parts if page.one(part).is_displayed()}


def test_the_start_has_a_box_and_queries_that_work(page: Page) -> None:
    page.open()
    assert page.text(".lead") == "Search, mark two hits, and watch the ranking move."
    page.wait("return document.getElementById('index').length > 1")
    assert page.texts("#index option") == ["odd (16)", "resift-demo (447)"]
    assert page.run("return document.activeElement.id") == "query"
    examples = page.texts("#examples button")
    assert len(examples) == 3
    page.click("#examples button:nth-child(2)")
    assert titles(page)
    assert address(page) == {"index": "resift-demo", "q": examples[1]}
    page.search("court").search(examples[1])
    page.click("#home")
    assert page.texts("#recent .pill")[:2] == [examples[1], "court"]
    page.click("#clear")
    assert not page.one("#recent").is_displayed()
    assert page.run("return localStorage.getItem('resift-recent')") == ""


def test_the_page_is_small_and_stands_still(page: Page) -> None:
    page.open(q=QUESTION)
    sizes = "performance.getEntriesByType('resource').filter((one) => /\\.(js|css)$/.test(one.name))"
    names = page.run(f"return {sizes}.map((entry) => new URL(entry.name).pathname)")
    assert len(names) >= 8
    code = [COMMENTS.sub("", (STATIC / Path(name).name).read_text("utf-8")) for name in names]
    assert sum(len(text.encode()) for text in code) < 56_000
    # Modules are preloaded, so that none waits for a module that imports it.
    listed = "[...document.querySelectorAll('link[rel=modulepreload], script[src]')].map((one) => one.href || one.src)"
    assert sorted(page.run(f"return {listed}")) == sorted(
        page.run(f"return {sizes}.map((one) => one.name).filter((one) => one.endsWith('.js'))")
    )
    moved = page.run(
        "const seen = new PerformanceObserver(() => undefined); seen.observe({type: 'layout-shift', buffered: true});"
        "return seen.takeRecords().flatMap((one) => one.sources.map(({node}) => node?.id || node?.className))"
    )
    assert moved == []


def test_marks_move_the_session_and_nothing_else(page: Page) -> None:
    page.open(q=QUESTION, compare=1)
    assert page.text("#note") == "nothing marked yet, so both are the same"
    engine = titles(page, "left")
    before = titles(page)
    mark(page, 1)
    mark(page, 5, "not relevant")
    assert "only lowers similar hits" in page.text("#toast")
    assert titles(page, "left") == engine
    assert titles(page) != before
    assert page.text("#note") == ""
    assert page.text("#toggle") == "Session · 2 marks"
    pressed = page.all(f"{RIGHT} .thumb[aria-pressed=true]")
    assert [button.get_attribute("title") for button in pressed].count("relevant") == 1
    mark(
        page,
        1 + [button.get_attribute("title") for button in page.all(f"{RIGHT} .thumb[title=relevant]")].index("relevant"),
    )


def test_reading_a_document_does_not_mark_it(page: Page) -> None:
    page.open(q=QUESTION).click(f"{RIGHT} .read")
    assert page.one(f"{RIGHT} .whole").is_displayed()
    assert page.text("#toggle") == "Session"
    assert "session" not in address(page)


def test_words_of_the_index_are_suggested_while_one_types(page: Page, page_app: Flask) -> None:
    path = "/v1/indices/resift-demo/suggestions?q=filing+fe"
    while not page_app.test_client().get(path).get_json()["suggestions"]:
        wait_for_sample()
    page.open()
    page.one("#query").send_keys("filing fe")
    page.wait("return [...document.querySelectorAll('#completions option')].some((o) => o.value === 'filing fees')")


def test_arrows_lines_and_ranks_agree(page: Page) -> None:
    page.open(q=QUESTION, compare=1)
    mark(page, 1)
    left = {key: rank for rank, key in enumerate(keys(page, "left"), 1)}
    for rank, (key, arrow) in enumerate(zip(keys(page, "right"), arrows(page), strict=True), 1):
        if key in left:
            moved = left[key] - rank
            assert arrow == ("=" if not moved else f"▲ {moved}" if moved > 0 else f"▼ {-moved}")
        else:
            assert arrow == "new" or int(arrow.removeprefix("▲ ")) > 10 - rank
    assert len(page.all("#lines path")) == len(left.keys() & set(keys(page, "right")))
    went = page.texts("#left .moved")
    assert {text for text in went if text.startswith("now ")} >= {"now further down"}


def test_any_two_methods_are_compared_and_both_are_named(page: Page) -> None:
    page.open(q=QUESTION).click("#compare")
    assert address(page)["compare"] == "1"
    assert page.text("#left-method") == page.text("#left-method").strip()
    labels = page.texts("#left-method option")
    assert labels == ["As the engine ranks: BM25", "Hybrid: words and meaning", "Your session"]
    mark(page, 1)
    session = titles(page)
    page.run("const s = document.getElementById('left-method'); s.value = 'bm25'; s.dispatchEvent(new Event('change'))")
    page.settle()
    assert address(page)["left"] == "bm25"
    page.open(q=QUESTION, left="session", right="hybrid", session=address(page)["session"])
    assert titles(page, "left") == session
    page.open(q=QUESTION, left="bm25", right="bm25")
    assert set(arrows(page)) == {"="}


def test_the_focus_follows_the_document_that_was_marked(page: Page) -> None:
    page.open(q=QUESTION)
    button = page.one(f"{RIGHT}:nth-child(5) .thumb")
    button.click()
    page.settle()
    assert page.driver.switch_to.active_element == button
    assert (
        titles(page).index(page.run("return arguments[0].closest('.card').querySelector('h3').textContent", button))
        >= 0
    )


def test_everything_is_done_with_the_keyboard(page: Page) -> None:
    page.open()
    page.keys(QUESTION + Keys.ENTER)
    page.keys("j", "j")
    focused = page.driver.switch_to.active_element
    assert focused == page.one(f"{RIGHT}:nth-child(2)")
    page.keys("k", "k")
    assert page.driver.switch_to.active_element == page.one(f"{RIGHT}:nth-child(1)")
    page.keys("j", "y")
    assert focused.find_element(By.CSS_SELECTOR, ".thumb").get_attribute("aria-pressed") == "true"
    assert page.driver.switch_to.active_element == focused
    page.keys("y")  # the same key takes the mark back
    assert page.text("#toggle") == "Session"
    page.keys("u")
    assert focused.find_element(By.CSS_SELECTOR, ".thumb").get_attribute("aria-pressed") == "true"
    title = focused.find_element(By.CSS_SELECTOR, "h3").text
    page.keys("n")
    assert title not in titles(page)  # behind all other hits, so the hit in its place has the focus
    assert "card" in str(page.driver.switch_to.active_element.get_attribute("class"))
    page.keys(Keys.ESCAPE)
    page.keys("/")
    assert page.run("return document.activeElement.id") == "query"
    page.keys(Keys.TAB, Keys.TAB, Keys.TAB)
    for _ in range(12):
        if page.run("return document.activeElement.id") == "toggle":
            break
        page.keys(Keys.TAB)
    page.keys(Keys.ENTER)
    assert page.one("#drawer").is_displayed()
    page.keys(Keys.ESCAPE)
    assert not page.one("#drawer").is_displayed()
    assert page.run("return document.activeElement.id") == "toggle"


def test_one_column_is_shown_until_two_are_compared(page: Page) -> None:
    page.open(q=QUESTION)
    assert not page.one("#left").is_displayed()
    assert not any(page.texts("#right .why"))
    mark(page, 3)
    assert page.one("#drawer").is_displayed()  # the window is wide enough for the shelf
    assert len(page.click("#compare").all("#left .card")) == 10
    assert not page.click("#compare").one("#left").is_displayed()
    for width in (1440, 390):
        page.resize(width, 900)
        sizes = page.run(
            "return [...document.querySelectorAll('#right .thumb')].map((b) => [b.offsetWidth, b.offsetHeight])"
        )
        assert min(map(min, sizes)) >= 44


def test_what_a_screen_reader_says_of_a_search_a_mark_and_its_undo(page: Page) -> None:
    page.open().search(QUESTION)
    roles = page.run("return [...document.querySelectorAll('#status, #toast')].map((one) => one.role)")
    assert (page.text("#status"), roles) == ("254 documents, page 1", ["status", "status"])
    thumb, title = page.one(f"{RIGHT} .thumb"), titles(page)[0]
    assert (thumb.aria_role, thumb.accessible_name) == ("button", f"relevant: {title}")
    page.keys("j", "y")
    assert thumb.get_attribute("aria-pressed") == "true"
    assert page.text("#toast").startswith("Marked as relevant.")
    shelf = page.one("#drawer")
    assert (shelf.aria_role, shelf.accessible_name) == ("complementary", "What you are looking for")
    page.keys("u")
    assert (thumb.get_attribute("aria-pressed"), page.text("#toast")) == ("false", "Undone.")


def test_a_mark_is_undone_from_its_toast(page: Page) -> None:
    before = titles(page.open(q=QUESTION))
    mark(page, 5)
    assert page.text("#toast").split("\n")[0].startswith("Marked as relevant.")
    assert titles(page) != before
    page.click("#toast button")
    assert (page.text("#toggle"), titles(page)) == ("Session", before)
    mark(page, 5)
    page.click("#marks button").click("#toast button")
    assert page.text("#toggle") == "Session · 1 mark"


def test_the_toast_covers_neither_facets_nor_the_shelf_and_ends_with_its_page(page: Page) -> None:
    def covers(selector: str) -> bool:
        """Return whether the toast overlaps an element."""
        code = (
            "const [a, b] = ['#toast', arguments[0]].map((one) => document.querySelector(one).getBoundingClientRect());"
            "return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom"
        )
        return bool(page.run(code, selector))

    # The message for an irrelevant mark is the longest.
    page.open(q="fire", index="odd").click("#right .card:nth-child(2) .thumb[title='not relevant']")
    assert page.one("#toast").is_displayed()
    assert page.one("#facets").is_displayed()
    assert not covers("#facets")
    assert page.one("#drawer").is_displayed()
    assert not covers("#drawer")
    page.resize(390, 844)
    page.open(q="fire", index="odd").click("#right .card:nth-child(2) .thumb").click("#toggle")
    assert page.one("#toast").is_displayed()
    assert not covers("#drawer")
    page.click("#close").click("#next").click("#right .card .thumb")
    page.driver.back()
    page.wait("return !document.getElementById('toast').classList.contains('shown')")
    assert not page.settle().one("#toast").is_displayed()


def test_a_copied_link_does_not_contain_the_session(page: Page) -> None:
    page.emulate("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.open(q="fire", index="odd", filter="kind:plain")
    assert not page.one("#tools").is_displayed()
    page.click("#right .card .thumb").click("#copy")
    assert page.wait("return document.getElementById('toast').textContent.startsWith('Copied')")
    link = page.run_async("navigator.clipboard.readText().then(arguments[0])")
    assert link == f"{page.base}/?index=odd&q=fire&filter=kind%3Aplain"
    assert "session" in address(page)
    page.driver.get(link)
    assert page.settle().text("#toggle") == "Session"


def test_words_of_titles_are_shown_first_and_others_on_request(page: Page) -> None:
    page.open(q=QUESTION).click(f"{RIGHT} .thumb")
    spoken = " ".join(titles(page)).lower()
    first = page.texts("#words > .pills [dir]")
    others = page.texts("#more .pill [dir]")
    assert first
    assert others
    assert all(word in spoken for word in first)
    assert not page.one("#more .pill").is_displayed()
    assert page.click("#more summary").one("#more .pill").is_displayed()
    assert all(len(word) > 1 for word in [*first, *others])


def test_words_of_the_query_are_not_listed(page: Page) -> None:
    lists = (
        "const [asked, query, done] = arguments;"
        "import('/static/state.js')"
        ".then(({ sayableFirst }) => done(sayableFirst({ asked }, query)), (error) => done(String(error)));"
    )
    page.open()
    assert page.run_async(lists, ["fire", "smoke", "art"], "Fire? cartoon") == [["smoke", "art"], []]
    assert page.run_async(lists, ["京", "海"], "東京") == [["海"], []]
    page.open(q="fire", index="odd").click("#right .card .thumb")
    (word, *_) = page.texts("#drawer .pill [dir]")
    page.open(**{**address(page), "q": word, "drawer": 1})
    words = page.texts("#drawer .pill [dir]")
    assert words
    assert word not in words


def test_words_are_left_out(page: Page) -> None:
    page.open(q=QUESTION)
    mark(page, 1)
    mark(page, 5)
    both = titles(page)
    words = page.texts("#drawer .pill [dir]")
    for word in words:
        page.run(
            "[...document.querySelectorAll('#drawer .pill')].find((one) => one.title.endsWith(arguments[0])).click()",
            f": {word}",
        )
        page.settle()
    assert page.texts("#drawer .pill.out [dir]") == words
    assert page.texts("#drawer .pill [dir]") == words
    assert titles(page) != both
    assert page.run("return new URLSearchParams(location.search).getAll('without')") == words
    page.click("#drawer .pill.out")
    assert page.texts("#drawer .pill.out [dir]") == words[1:]


def test_the_drawer_says_what_the_session_knows(page: Page) -> None:
    page.open(q=QUESTION, drawer=1)
    assert "Nothing marked yet. Give a hit a thumb up or down" in page.text("#drawer")
    mark(page, 1)
    mark(page, 5)
    assert len(page.all("#marks li")) == 2
    assert page.texts("#drawer .pill")
    page.click("#marks li button")
    assert len(page.all("#marks li")) == 1
    page.click("#tools button")  # undo
    assert len(page.all("#marks li")) == 2


def test_reload_back_and_a_shared_link_show_the_same(page: Page) -> None:
    page.open(q=QUESTION, drawer=1)
    mark(page, 3)
    first, link = shown(page), page.driver.current_url
    page.driver.refresh()
    assert shown(page.settle()) == first
    page.click("#next")
    second = shown(page)
    assert (second["#page-number"], address(page)["page"]) == ("Page 2", "2")
    page.search("small claims court")
    third = shown(page)
    page.driver.back()
    page.wait("return document.getElementById('page-number').textContent === 'Page 2'")
    assert shown(page.settle()) == second
    page.driver.back()
    page.wait("return document.getElementById('page-number').textContent === 'Page 1'")
    assert shown(page.settle()) == first
    page.driver.forward()
    page.driver.forward()
    page.wait("return document.getElementById('query').value === 'small claims court'")
    assert shown(page.settle()) == third
    page.driver.switch_to.new_window("tab")
    page.driver.get(link)
    assert shown(page.settle()) == first
    page.driver.close()
    page.driver.switch_to.window(page.driver.window_handles[0])
    page.click("#home")
    assert page.one("#welcome").is_displayed()
    assert not page.all(RIGHT)


def test_an_address_that_makes_no_sense_is_taken_as_far_as_it_does(page: Page) -> None:
    page.open(q=QUESTION, page="-3", left="nonsense", session="no id/", filter=["nothing", ":x"])
    assert page.text("#page-number") == "Page 1"
    assert page.text("#total") == "254 documents"
