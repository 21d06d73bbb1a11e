"""Tests of the choice of card fields, facets and example queries."""

from __future__ import annotations

from typing import Any

import pytest

from resift.errors import BadInput
from resift.reranker import Config
from resift.service.cards import CardFields, choose_card_fields
from resift.service.catalogue import example_queries

SHOP = [
    {
        "name": f"Lamp {number}",
        "description": "A lamp of brass with a shade of linen, for the desk or the bed. " * 3,
        "productUrl": f"https://shop.example/{number}",
        "img": f"https://shop.example/{number}.jpg",
        "brand": ["Lumen", "Halo"][number % 2],
        "sku": f"L-{number}",
        "stock": number % 3,
    }
    for number in range(12)
]
NEWS = [
    {"body": "Fire in the bush. " * 20, "teaser": f"Fire number {n}", "www": f"http://n.example/{n}"} for n in range(4)
]


@pytest.mark.parametrize(
    ("sources", "fields", "exact", "settings", "expected"),
    [
        (
            SHOP,
            ["name", "description"],
            ["productUrl", "img", "brand.keyword", "sku", "stock"],
            [],
            CardFields(
                "name", "description", "productUrl", "img", ("brand.keyword", "stock"), ("brand.keyword", "stock")
            ),
        ),
        (
            SHOP,
            ["name", "description", "brand"],
            ["brand.keyword", "sku", "stock"],
            ["link=", "image=", "facet=brand", "facet=stock", "facet=attributes.colour"],
            CardFields(
                *("name", "description", None, None),
                ("brand.keyword", "stock", "attributes.colour"),
                ("brand.keyword", "stock"),
            ),
        ),
        (NEWS, ["body", "teaser"], [], [], CardFields("teaser", "body", None, None, ())),
        (NEWS, [], ["www"], [], CardFields(None, "body", None, None, ())),
        (
            [{"id": "7", "page": {"heading": "Fire", "parts": [{"text": "Fire in the bush."}]}}],
            ["page.parts.text", "page.heading"],
            [],
            [],
            CardFields("page.heading", "page.parts.text"),
        ),
        ([{"title": "A long title of a fire", "text": "Fire"}], ["title", "text"], [], [], CardFields("title", "text")),
        (
            [{"title": "Fire", "text": "Fire in the bush.", "by": "Ann"}, {"title": None, "text": None, "by": "Bob"}],
            ["title", "by", "text"],
            [],
            [],
            CardFields("title", "text"),
        ),
        ([], ["text"], [], [], CardFields()),
        ([{"text": 5, "tags": [{"a": None}]}], ["text"], ["text"], [], CardFields()),
        (
            SHOP,
            ["name", "description"],
            ["brand", "stock"],
            ["title=sku", "image=", "link=", "facet=stock", "facet=year"],
            CardFields("sku", "description", None, None, ("stock", "year", "brand"), ("brand", "stock")),
        ),
        (
            SHOP,
            ["name", "description"],
            ["brand"],
            ["facet="],
            CardFields("name", "description", "productUrl", "img", (), ("brand", "stock")),
        ),
    ],
)
def test_card_fields_are_guessed_without_settings(
    sources: Any, fields: list[str], exact: list[str], settings: list[str], expected: CardFields
) -> None:
    assert choose_card_fields(sources, fields, exact, settings) == expected


@pytest.mark.parametrize("wrong", [["title"], ["=a"], ["heading=a"], ["title=a", "title=b"], ["Title=a"]])
def test_empty_settings_of_card_fields_are_refused(wrong: list[str]) -> None:
    with pytest.raises(BadInput, match="page_fields"):
        Config(page_fields=tuple(wrong))


def test_page_fields_in_the_environment_are_split_at_commas() -> None:
    config = Config.from_environment({"RESIFT_PAGE_FIELDS": "title=headline, facet=year,facet=section,image="})
    assert config.page_fields == ("title=headline", "facet=year", "facet=section", "image=")


DEALS = [
    {
        "name": f"Lamp {n}",
        "sku": n,
        "price": 5 * 1.2**n,
        "brand": "ABC"[n % 3],
        "added": f"20{10 + n // 3}-0{1 + n % 9}-05",
    }
    for n in range(40)
]


def test_facets_are_fields_with_few_values_and_ranges_of_numbers_and_dates() -> None:
    chosen = choose_card_fields(DEALS, ["name"], ["sku", "brand"])
    assert chosen.facets == ("brand", "price", "added")
    assert chosen.facts == ("price", "brand", "added")
    assert chosen.ranges == {
        "price": (20, 100, 400, 2000),
        "added": ("2012-01-01", "2015-01-01", "2018-01-01", "2020-01-01"),
    }
    card = chosen.card(DEALS[0], ["name"])
    assert card["facts"] == {"price": "5.0", "brand": "A", "added": "2010-01-05"}


@pytest.mark.parametrize("dimensions", [3, 16, 32])
def test_vectors_are_neither_facets_nor_facts(dimensions: int) -> None:
    vector = [0.5] * (dimensions - 1)
    sources = [{"name": f"Lamp {n}", "embedding": [n / 7, *vector], "stock": n % 3} for n in range(12)]
    chosen = choose_card_fields(sources, ["name"], [])
    assert (chosen.facets, chosen.facts) == (("stock",), ("stock",))


def test_lists_of_different_lengths_or_of_integers_are_no_vectors() -> None:
    sources = [{"sizes": [36, 37, 38 + n % 3], "prices": [9.5, 19.5, 24.5][: 1 + n % 3]} for n in range(12)]
    assert set(choose_card_fields(sources, [], []).facets) == {"sizes", "prices"}


def test_brands_are_a_facet_even_if_there_are_many() -> None:
    sources = [{"name": f"Lamp {n}", "brand": f"Maker {n % 30}", "series": f"Series {n % 30}"} for n in range(90)]
    assert choose_card_fields(sources, ["name"], ["brand", "series"]).facets == ("brand",)


def test_facets_of_the_settings_come_first_or_alone() -> None:
    guessed = {"price": (20, 100, 400, 2000), "added": ("2012-01-01", "2015-01-01", "2018-01-01", "2020-01-01")}
    chosen = choose_card_fields(DEALS, ["name"], ["sku", "brand"], ["facet=added"])
    assert (chosen.facets, chosen.ranges) == (("added", "brand", "price"), guessed)
    chosen = choose_card_fields(DEALS, ["name"], ["sku", "brand"], ["facet=added", "facet="])
    assert (chosen.facets, chosen.ranges) == (("added",), {"added": guessed["added"]})


def test_few_or_mixed_values_have_no_ranges() -> None:
    few = [{"t": "x", "n": n % 3, "m": n if n % 2 else "many"} for n in range(30)]
    assert choose_card_fields(few, ["t"], ["n", "m"]).ranges == {}


def test_ranges_of_dates_keep_their_format_and_numbers_may_be_huge() -> None:
    odd = [
        {
            "time": f"{2000 + n}-03-17 10:20:30",
            "zoned": f"{2000 + n}-03-17T10:20:30.5Z",
            "month": f"{2020 + n // 12}-{1 + n % 12:02}",
            "far": (-1) ** n * 1.7e308 / (1 + n),
        }
        for n in range(20)
    ]
    ranges = choose_card_fields([{**row, "t": "x"} for row in odd], ["t"], []).ranges
    assert ranges["time"][0] == "2004-01-01 00:00:00"
    assert ranges["zoned"][0] == "2004-01-01T00:00:00.0Z"
    assert ranges["month"][0] == "2020-05"
    assert all(isinstance(bound, float) or abs(bound) < 2**53 for bound in ranges["far"])


def test_a_card_is_cut_short() -> None:
    fields = CardFields("title", "text", "url", "image")
    source = {"title": "t" * 600, "text": "x" * 10**6, "url": "https://a.example/", "image": "http://a.example/i"}
    card = fields.card(source, ["text"])
    assert {name: len(value) for name, value in card.items()} == {"title": 500, "text": 400, "link": 18, "image": 18}
    assert fields.card({"text": ["  First line\nand more", "b"]}, []) == {
        "title": "First line",
        "text": "First line\nand more",
    }
    assert fields.card({}, ["text"]) == {"title": "", "text": ""}
    # the title is not repeated as the text
    named = {"title": "Lamp", "brand": "Halo", "text": None}
    assert fields.card(named, ["title", "brand", "text"]) == {"title": "Lamp", "text": "Halo"}
    assert fields.card({"title": "Lamp"}, ["title", "text"]) == {"title": "Lamp", "text": ""}
    assert CardFields().card({"a": 1, "b": "all that there is"}, []) == {
        "title": "all that there is",
        "text": "all that there is",
    }


@pytest.mark.parametrize(
    "url",
    [
        *(
            "javascript:alert(1)",
            " javascript:x",
            "data:text/html,x",
            "//a.example",
            "https://a b",
            "https:",
            5,
            None,
            {},
        ),
        *("https://a.example/" + "x" * 2000, "https://a.example/\nx"),
    ],
)
def test_only_web_addresses_become_links(url: Any) -> None:
    assert CardFields(link="url", image="url").card({"url": url}, []).keys() == {"title", "text"}


def test_example_queries_are_beginnings_of_documents_without_common_words() -> None:
    texts = ["東京の天気予報と明日の気温", "ข่าววันนี้"]
    assert example_queries(texts, ["", ""]) == texts
    assert example_queries(["", "12 %"], ["The of", "x <y> <b>"]) == ["x y"]
    assert example_queries([], []) == []
