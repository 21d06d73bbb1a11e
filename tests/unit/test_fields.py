"""Tests of guessing text fields in common data layouts."""

from __future__ import annotations

from typing import Any

import pytest

from resift.errors import BadInput
from resift.ingest.fields import SAMPLE, guess_fields, read_sample
from resift.ingest.readers import Record

LONG = "It rained all day, and nobody came to the market."


@pytest.mark.parametrize(
    ("documents", "fields"),
    [
        (
            [{"sku": "A-1", "name": "Lamp", "description": LONG, "url": "https://a.b/c", "price": "4.50"}],
            "name description",
        ),
        ([{"description": LONG, "name": "Lamp"}], "name description"),
        ([{"text": "fire"}, {"title": "war", "text": "gun"}], "title text"),
        (
            [{"記事ID": "n1", "見出し": "東京で大雪", "本文": "東京では朝から雪が降っています。", "分類": "社会"}],
            "見出し 本文",
        ),
        ([{"id": "1", "ข้อความ": "วันนี้อากาศดีมากเราจะไปเที่ยวทะเล"}], "ข้อความ"),
        (
            [{"Subject": "Re: chip", "From": "a@b.c", "Date": "Mon, 05 Jan 2024 12:00:00 GMT", "Body": LONG}],
            "Subject Body",
        ),
        ([{"body": {"en": LONG, "de": LONG}, "meta": {"title": "Rain", "id": "x1"}}], "meta.title body.en body.de"),
        (
            [{"paragraphs": [LONG, LONG], "tags": ["wet", "cold"], "uuid": "a3f2c9d0-1b2c-4d5e-8f90-112233445566"}],
            "paragraphs",
        ),
        ([{"story": f"{LONG} {n}", "section": "Home and Garden"} for n in range(9)], "story"),
        ([{"title": "Same title", "text": f"{LONG} {n}"} for n in range(9)], "title text"),
        ([{"word": "fire"}, {"word": "tea"}], "word"),
        (
            [{"Artikelnr": "001", "Bezeichnung": "Laterne", "Beschreibung": "Für den Garten", "Preis": "4,99"}],
            "Bezeichnung Beschreibung",
        ),
        (
            [{"author": {"name": "Ann Lee"}, "body": {"text": LONG}, "headline": "Rain"}],
            "headline author.name body.text",
        ),
        ([{"page": {"parts": [{"text": LONG, "n": [1]}, {"text": LONG}]}, "ids": [["a1"]]}], "page.parts.text"),
        ([{"post_title": "Rain again", "x": LONG}, {"x": LONG}], "post_title x"),
        ([{"path": "/usr/share/doc", "file": "C:\\doc\\a.txt", "mail": "a@b.c", "note": LONG}], "note"),
    ],
)
def test_text_fields_are_guessed_from_documents(documents: list[dict[str, Any]], fields: str) -> None:
    assert guess_fields(documents) == fields.split()


@pytest.mark.parametrize(
    "documents", [[], [{}], [{"n": 1}], [{"date": "2024-01-05", "price": "3.50", "code": "X_17"}], [{"text": "  "}]]
)
def test_documents_without_texts_are_refused(documents: list[dict[str, Any]]) -> None:
    with pytest.raises(BadInput, match="no field contains text") as caught:
        guess_fields(documents)
    assert "--fields" in str(caught.value.expected)


def test_sampling_loses_no_record() -> None:
    records = [Record("-", line, str(line), {}) for line in range(SAMPLE + 5)]
    head, again = read_sample(iter(records))
    assert (head, list(again)) == (records[:SAMPLE], records)
