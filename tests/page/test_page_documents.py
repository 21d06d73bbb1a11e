"""Tests of the search page with difficult documents: HTML, long texts, many scripts, links and images."""

from __future__ import annotations

from browser import Page
from flask import Flask
from page_app import DOCUMENTS, SCRIPT
from service_app import wait_for_sample


def card(name: str) -> str:
    """Return the selector of a document's card in the right column."""
    return f"#right .card[data-id={name!r}]"


PLAIN = {
    "<p class='x'>Soft <b>shoes</b>, for <i>runners</i>.</p><p>Two</p>": "Soft shoes, for runners. Two",
    "a < b and c > d, List<String>, resift index <file>": "a < b and c > d, List<String>, resift index <file>",
    "AT&amp;T &#39;x&#x27; &lt;b&gt; caf&eacute;": "AT&T 'x' <b> caf&eacute;",
    'class="x">Cut</a> off <a href="http': "Cut off",
    "<style>p { color: red }</style>One<br/>two<!-- three -->": "One two",
}


def test_tags_are_not_shown(page: Page) -> None:
    page.open()
    script = "import('./static/dom.js').then(({ plain }) => done(given.map(plain)))"
    found = page.run_async(f"const [given, done] = arguments; {script}", list(PLAIN))
    assert [" ".join(text.split()) for text in found] == list(PLAIN.values())
    shown = "done(highlighted(given).map((one) => one.outerHTML ?? one))"
    code = f"import('./static/dom.js').then(({{ highlighted }}) => {shown})"
    escaped = (
        "&lt;a href=&quot;<em>fire</em>.html&quot;&gt;bush <em>fire</em>&lt;&#x2F;a&gt; &lt;<em>b</em>&gt;x 3 &lt; 4"
    )
    found = page.run_async(f"const [given, done] = arguments; {code}", escaped)
    assert found == ["bush ", "<mark>fire</mark>", " x 3 < 4"]


def test_long_texts_of_markup_are_cleaned_in_linear_time(page: Page) -> None:
    """A function that takes quadratic time would exceed the browser's time limit for scripts."""
    page.open()
    body = "const text = piece.repeat(size / piece.length); plain(text); highlighted(text)"
    script = f"import('./static/dom.js').then(({{ plain, highlighted }}) => {{ {body}; done('done') }})"
    for piece in ('="', "<a ", "<em>", "\ue000", "<!--", "&lt;"):
        assert page.run_async(f"const [piece, size, done] = arguments; {script}", piece, 600_000) == "done"


def test_html_in_any_field_is_no_element(page: Page) -> None:
    page.open(q=f"fire {SCRIPT}", index="odd", drawer=1)
    title = page.run("return document.querySelector(arguments[0]).textContent", "#right .card h3")
    assert title.split() == ["fire", "<b>"]  # a tag that is part of the text
    page.click("#right .card .thumb").click("#right .card .read")
    assert f"{SCRIPT[:60]}…" in page.texts(".facet button span[dir]")
    assert page.run("return document.title") != "caught"
    assert (
        page.run("return document.querySelectorAll('img:not(.picture img), script:not([src]), b, [onerror]').length")
        == 0
    )
    assert page.run("return [...document.links].filter((one) => one.protocol === 'javascript:').length") == 0
    assert page.run("return document.querySelectorAll('#right .card:first-child a').length") == 0
    assert not page.run("try { document.body.innerHTML = '<b>'; return true } catch { return false }")
    assert any("TrustedHTML" in error for error in page.errors())


def test_scripts_in_suggestions_are_texts(page: Page, page_app: Flask) -> None:
    path = "/v1/indices/odd/suggestions?q=fire"
    while not page_app.test_client().get(path).get_json()["suggestions"]:
        wait_for_sample()
    page.open(index="odd")
    page.one("#query").send_keys("fire")
    page.wait("return [...document.querySelectorAll('#completions option')].some((one) => one.value.includes('<b>'))")
    page.open(q=f"fire {SCRIPT} documnt", index="odd")
    assert page.text("#suggestion button") == f"fire {SCRIPT} document"
    page.click("#suggestion button").click("#home")
    assert f"fire {SCRIPT} document" in page.texts("#recent .pill")
    assert not page.run("return document.querySelector('main img, main b, main script, datalist img, datalist b')")
    assert page.run("return document.title") == "Resift"


def test_a_long_title_is_cut_where_it_is_shown_and_nowhere_else(page: Page) -> None:
    page.open(q="long title", index="odd")
    for name, title in (("long title", DOCUMENTS["long title"]["title"][:500].strip()), ("one word", "W" * 500)):
        if not page.all(card(name)):
            page.open(q="fire", index="odd", filter="kind:long")
        heading = page.one(f"{card(name)} h3")
        assert heading.get_attribute("textContent") == title
        assert heading.size["height"] < 60
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_a_mark_is_called_as_its_card(page: Page) -> None:
    page.open(q="long title", index="odd", drawer=1).click(f"{card('long title')} .thumb")
    title = page.texts(f"{card('long title')} h3")[0]
    (name,) = page.texts("#marks .what")
    assert name == f"{title[:200].strip()}…"  # not cut like the first line of a text


def test_a_document_of_a_megabyte_is_a_card_until_it_is_read(page: Page) -> None:
    page.open(q="fire", index="odd", filter="kind:long")
    snippets = page.texts("#right .snippet")
    assert max(map(len, snippets)) < 500
    assert (
        int(page.run("return performance.getEntriesByType('resource').reduce((s, r) => s + r.decodedBodySize, 0)"))
        < 300_000
    )
    page.click(f"{card('megabyte')} .read")
    whole = page.one(f"{card('megabyte')} .whole")
    assert len(whole.get_attribute("textContent") or "") > 990_000
    assert whole.size["height"] < 400
    assert page.driver.switch_to.active_element == whole
    page.click(f"{card('megabyte')} .read")
    assert not page.all(".whole")


def test_the_texts_are_read_and_not_all_that_a_document_holds(page: Page) -> None:
    page.open(q="both", index="odd").click(f"{card('linked')} .read")
    assert page.text(f"{card('linked')} .whole") == "fire with both"


def test_nothing_sticks_out_of_the_narrowest_window(page: Page) -> None:
    page.resize(320, 640)
    page.open(q="fire", index="odd").click("#right .card .thumb")
    right = "Math.round(one.getBoundingClientRect().right)"
    cards = page.run(f"return [...document.querySelectorAll('#right .card')].map((one) => {right})")
    inside = page.run(f"return [...document.querySelectorAll('#right .card *')].map((one) => {right})")
    assert max(inside) < min(cards)


def test_scripts_from_right_to_left_and_without_spaces(page: Page) -> None:
    page.open(q="حريق في الغابة", index="odd")
    heading = page.one(f"{card('rtl')} h3")
    assert page.run("return getComputedStyle(arguments[0]).direction", heading) == "rtl"
    assert page.run("return getComputedStyle(document.getElementById('query')).direction") == "rtl"
    assert page.all(f"{card('rtl')} mark")
    page.open(q="山火事", index="odd")
    assert page.text(f"{card('cjk')} h3") == "東京の山火事"
    assert page.all(f"{card('cjk')} mark")


def test_links_and_images_must_have_web_addresses(page: Page) -> None:
    page.open(q="link", index="odd")
    link = page.one(f"{card('linked')} h3 a")
    assert link.get_attribute("href") == "https://a.example/x"
    assert link.get_attribute("rel") == "noopener noreferrer"
    assert (
        page.run("return document.querySelector(arguments[0]).referrerPolicy", f"{card('linked')} img") == "no-referrer"
    )
    page.wait(
        "return document.querySelector(arguments[0]).hidden", f"{card('linked')} .picture"
    )  # the image cannot be loaded
    page.click(f"{card('linked')} .thumb")
    assert not page.one(f"{card('linked')} .picture").is_displayed()
    page.errors()


def test_facets_narrow_hits_down(page: Page) -> None:
    page.open(q="fire", index="odd")
    counts = dict(zip(page.texts(".facet button span[dir]"), page.texts(".facet .hint:not(p)"), strict=True))
    assert counts["plain"] == "8"
    assert page.one("#facets").rect["x"] + page.one("#facets").rect["width"] < page.one("#found").rect["x"]
    page.run("[...document.querySelectorAll('.facet button')].find((b) => b.textContent.startsWith('plain')).click()")
    page.settle()
    assert page.text("#total") == "8 documents"
    assert "filter=kind%3Aplain" in page.driver.current_url
    page.click("#chosen button")
    assert page.text("#total") == "16 documents"
    page.resize(390, 844)
    page.open(q="fire", index="odd")
    assert not page.all(".facet")  # facets are counted when they are opened
    page.click("#facets summary").wait("return document.querySelectorAll('.facet button').length > 3")
