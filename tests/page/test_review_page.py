"""Tests of the page of a review: keyboard use, a lost network, and several readers."""

from __future__ import annotations

from typing import Any

from browser import Page
from flask import Flask
from page_app import DOCUMENTS, SCRIPT

ELEMENTS = "img, script:not([src]), [onerror], iframe, object"  # elements that a document could add


def progress(app: Flask) -> dict[str, Any]:
    """Return the progress of the review from the service."""
    found: dict[str, Any] = app.test_client().get("/v1/reviews/fires").get_json()["progress"]
    return found


def state(page: Page, start: str) -> bool:
    """Wait until the progress that the page shows starts with a text."""
    return bool(page.wait("return document.getElementById('state').textContent.startsWith(arguments[0])", start))


def press(page: Page, key: str) -> None:
    """Press a key at the element with the focus."""
    page.driver.switch_to.active_element.send_keys(key)


def test_a_review_by_keys_alone(page: Page, page_app: Flask) -> None:
    client = page_app.test_client()
    assert client.put("/v1/reviews/fires", json={"index": "resift-demo", "topic": "bush fires"}).status_code == 200
    total = progress(page_app)["total"]
    page.driver.get(f"{page.base}/reviews/fires")
    assert state(page, f"0 of {total} read")
    page.wait("return !document.getElementById('actions').hidden")
    first = page.text("#title")
    press(page, "y")
    assert state(page, f"1 of {total} read, 1 relevant")
    assert page.text("#title") != first
    press(page, "n")
    assert state(page, f"2 of {total} read, 1 relevant")
    press(page, "u")
    assert state(page, f"1 of {total} read, 1 relevant")
    assert page.violations() == []
    page.network(offline=True)
    press(page, "n")
    page.wait("return document.getElementById('notice').textContent.includes('stored on this device')")
    press(page, "n")
    assert progress(page_app)["read"] == 1
    judged = 3
    while not page.run("return document.getElementById('document').hidden"):  # all documents of the batch are judged
        press(page, "n")
        judged += 1
    assert judged >= 10
    page.network()
    page.wait("return !document.getElementById('document').hidden")
    assert progress(page_app)["read"] == judged
    assert state(page, f"{judged} of {total} read")
    assert page.run("return document.querySelector('#curve .line').getAttribute('d').startsWith('M0')")
    page.resize(420)
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert all("ERR_INTERNET_DISCONNECTED" in error for error in page.errors())


def test_judgements_of_a_closed_offline_tab_are_sent_by_another_tab(page: Page, page_app: Flask) -> None:
    review = {"index": "resift-demo", "topic": "bush fires"}
    total = page_app.test_client().put("/v1/reviews/tabs", json=review).get_json()["progress"]["total"]
    remaining = page.driver.current_window_handle

    def open_offline(*keys: str) -> None:
        page.driver.get(f"{page.base}/reviews/tabs")
        page.wait("return !document.getElementById('document').hidden")
        page.network(offline=True)
        for stored, key in enumerate(keys, 1):
            press(page, key)
            page.wait("return document.getElementById('notice').textContent.includes(arguments[0])", f"{stored} judg")

    page.driver.get(f"{page.base}/reviews/tabs")
    page.wait("return !document.getElementById('document').hidden")
    page.driver.switch_to.new_window("tab")
    open_offline("y", "n")  # both tabs show the same documents
    page.driver.close()
    page.driver.switch_to.window(remaining)
    press(page, "y")
    assert state(page, f"2 of {total} read, 1 relevant")
    assert all("ERR_INTERNET_DISCONNECTED" in error for error in page.errors())


def test_tags_of_a_document_are_not_shown(page: Page, page_app: Flask) -> None:
    id = next(iter(DOCUMENTS))
    review = {"index": "odd", "query": {"ids": {"values": [id]}}}
    assert page_app.test_client().put("/v1/reviews/tags", json=review).status_code == 200
    page.driver.get(f"{page.base}/reviews/tags")
    page.wait("return !document.getElementById('actions').hidden")
    shown = page.text("#title") + page.text("#text")
    assert "fire" in shown
    assert "<img" not in shown
    assert "<script" not in shown


def test_html_of_documents_topics_and_readers_is_no_element(page: Page, page_app: Flask) -> None:
    client, id = page_app.test_client(), next(iter(DOCUMENTS))
    review = {"index": "odd", "topic": f"fire {SCRIPT}", "query": {"ids": {"values": [id, "plain 1", "plain 2"]}}}
    assert client.put("/v1/reviews/html", json=review).status_code == 200
    for label, by in (("relevant", SCRIPT), ("irrelevant", "ben")):
        assert client.post("/v1/reviews/html/judgements", json={label: ["plain 1"], "by": by}).status_code == 200
    page.driver.get(f"{page.base}/reviews/html")
    page.wait("return !document.getElementById('actions').hidden")
    for key, read in (("y", 2), ("n", 3), ("u", 2)):
        assert page.run("return document.querySelectorAll(arguments[0]).length", ELEMENTS) == 0
        press(page, key)
        assert state(page, f"{read} of 3 read")
    assert page.run("return document.querySelectorAll(arguments[0]).length", ELEMENTS) == 0
    assert page.run("return document.title") != "caught"


def test_a_review_is_not_finished_by_batches_of_other_people(page: Page, page_app: Flask) -> None:
    client, ids = page_app.test_client(), list(DOCUMENTS)[:2]
    assert client.put("/v1/reviews/two", json={"index": "odd", "query": {"ids": {"values": ids}}}).status_code == 200
    client.post("/v1/reviews/two/next", json={"size": 1, "by": "anna"})
    page.driver.get(f"{page.base}/reviews/two")
    page.wait("return !document.getElementById('document').hidden")
    press(page, "n")
    page.wait("return document.getElementById('ended').innerText === 'Other readers have the remaining documents'")
    assert state(page, "1 of 2 read")
    page.one("#undo").click()
    assert state(page, "0 of 2 read")
    assert page.run("return !document.getElementById('document').hidden")


def test_a_key_is_sent_for_an_export_too(page: Page, page_app: Flask) -> None:
    client = page_app.test_client()
    review = {"index": "odd", "query": {"ids": {"values": [next(iter(DOCUMENTS))]}}}
    assert client.put("/v1/reviews/keyed", json=review).status_code == 200
    page.driver.get(f"{page.base}/reviews/keyed")
    page.wait("return !document.getElementById('document').hidden")
    page.run(
        "sessionStorage.setItem('resift-key', 'rsf_one'); const before = fetch;"
        "window.fetch = (path, options) => { window.sent = [path, options.headers]; return before(path, options); };"
    )
    page.one("[data-format=ris]").click()
    assert page.wait("return window.sent") == ["../v1/reviews/keyed/export?format=ris", {"X-Api-Key": "rsf_one"}]
    page.run("sessionStorage.removeItem('resift-key')")
