"""The fields from which a session learns, and the text of documents in these fields."""

from __future__ import annotations

from typing import Any

import pytest

from resift.contracts.documents import IndexInfo
from resift.field_names import is_about_person
from resift.plugin.opensearch.mappings import text_sources
from resift.query.dsl import NestedField
from resift.sessions.documents import join_texts, readable_text, source_texts

TEXT, KEYWORD = {"type": "text"}, {"type": "keyword"}
PACKAGES: dict[str, Any] = {
    "name": {**KEYWORD, "fields": {"text": TEXT}},
    "pkg": {"properties": {"description": TEXT, "size": {"type": "long"}}},
    "reviews": {"type": "nested", "properties": {"comment": TEXT, "author": {"properties": {"name": TEXT}}}},
    "tags": {**TEXT, "fields": {"raw": KEYWORD}},
    "section": KEYWORD,
    "homepage": {**KEYWORD, "index": False},
    "maintainer": TEXT,
    "licence": {**TEXT, "index": False},
    "resift_vector": {"type": "binary"},
}
DOCUMENT: dict[str, Any] = {
    "section": "graphics",
    "homepage": "https://www.example.org/",
    "maintainer": "Ann Example <ann@example.org>",
    "licence": "the licence of the package",
    "tags": ["image viewer", "photo", "https://example.org/tags"],
    "pkg": {"description": "Shows pictures.", "size": 7},
    "reviews": [{"comment": "fast", "author": {"name": "Bo"}}, {"comment": ["small", "simple"]}],
    "name": "feh",
    "unmapped": "not in the mapping",
}


def sources_of(**properties: Any) -> dict[str, tuple[str, ...]]:
    return text_sources({"properties": properties})


def info_of(*mappings: dict[str, tuple[str, ...]], fields: tuple[str, ...] = ()) -> IndexInfo:
    infos = [IndexInfo(f"i{n}", fields, None, None, None, text_sources=each) for n, each in enumerate(mappings)]
    return IndexInfo.combine("i*", infos) if len(infos) > 1 else infos[0]


def learned(source: dict[str, Any], info: IndexInfo, *text_fields: str) -> list[str]:
    return join_texts(source_texts(source, info), text_fields).split("\n")


def test_text_fields_of_a_mapping_are_those_in_objects_nested_objects_and_multi_fields() -> None:
    assert sources_of(**PACKAGES) == {
        "name": ("name.text",),
        "pkg.description": ("pkg.description",),
        "reviews.comment": ("reviews.comment",),
        "reviews.author.name": ("reviews.author.name",),
        "tags": ("tags",),
        "maintainer": ("maintainer",),
    }


def test_text_fields_of_other_types_are_sources() -> None:
    assert sources_of(a={"type": "match_only_text"}, b={"type": "search_as_you_type"}, c=KEYWORD).keys() == {"a", "b"}
    chunks = {"properties": {"chunks": {"type": "nested", "properties": {"text": TEXT}}}}
    passage = {"type": "semantic", "model_id": "m"}
    assert sources_of(passage=passage, passage_semantic_info=chunks) == {"passage": ("passage",)}
    assert sources_of(passage={**passage, "semantic_info_field_name": "x"}, x=chunks) == {"passage": ("passage",)}


def test_copies_and_aliases_are_names_of_the_fields_that_fill_them() -> None:
    everything = {**TEXT, "fields": {"english": TEXT}}
    sources = sources_of(
        title={**TEXT, "copy_to": "all"},
        body={**TEXT, "copy_to": ["all", "exact"]},
        section={**KEYWORD, "copy_to": "all"},
        all=everything,
        exact=KEYWORD,
        headline={"type": "alias", "path": "title"},
    )
    assert sources == {
        "title": ("title", "all", "all.english", "headline"),
        "body": ("body", "all", "all.english"),
        "all": ("all", "all.english"),
    }
    info = info_of(sources)
    document = {"title": "Fire", "body": "Smoke", "section": "news"}
    assert learned(document, info, "all.english") == learned(document, info, "a*") == ["Fire", "Smoke"]
    assert learned(document, info, "headline") == ["Fire"]


def test_keyword_fields_are_only_learned_without_text_fields() -> None:
    copied = sources_of(section={**KEYWORD, "copy_to": "all"}, tag=KEYWORD, all=TEXT)
    assert copied == {"section": ("all",), "all": ("all",)}
    hidden = {**KEYWORD, "index": False}
    assert sources_of(section=KEYWORD, at={"properties": {"town": KEYWORD}}, url=hidden, n={"type": "long"}) == {
        "section": ("section",),
        "at.town": ("at.town",),
    }


def test_without_source_each_field_has_its_own_text() -> None:
    mapping = {"_source": {"enabled": False}, "properties": {"name": {**KEYWORD, "fields": {"text": TEXT}}}}
    assert text_sources(mapping) == {"name.text": ("name.text",)}
    assert learned({"name.text": "image viewer"}, info_of(text_sources(mapping))) == ["image viewer"]


def test_a_session_learns_from_the_text_fields_of_a_document() -> None:
    info = info_of(sources_of(**PACKAGES))
    everything = ["feh", "Shows pictures.", "fast", "small", "simple", "image viewer", "photo"]
    assert learned(DOCUMENT, info) == everything


@pytest.mark.parametrize(
    ("text_fields", "expected"),
    [
        (["name.text", "reviews.comment"], ["feh", "fast", "small", "simple"]),
        (["pkg.*"], ["Shows pictures."]),
        (["tags.raw", "tags"], ["image viewer", "photo"]),
        (["tags", "maintainer"], ["image viewer", "photo"]),
    ],
)
def test_a_session_learns_from_the_fields_that_the_query_searches(text_fields: list[str], expected: list[str]) -> None:
    assert learned(DOCUMENT, info_of(sources_of(**PACKAGES)), *text_fields) == expected


@pytest.mark.parametrize("text_fields", [["section"], ["maintainer"], ["unknown*"], ["*"]])
def test_a_query_in_no_text_field_learns_from_all(text_fields: list[str]) -> None:
    info = info_of(sources_of(**PACKAGES))
    assert learned(DOCUMENT, info, *text_fields) == learned(DOCUMENT, info)


def test_an_alias_has_the_text_fields_of_all_its_indices() -> None:
    info = info_of(sources_of(title=TEXT), sources_of(title={**KEYWORD, "fields": {"text": TEXT}}, body=TEXT))
    assert info.text_sources == {"title": ("title", "title.text"), "body": ("body",)}
    assert learned({"body": "Smoke", "title": "Fire", "kind": "news"}, info) == ["Fire", "Smoke"]


def test_other_readers_also_read_fields_about_persons() -> None:
    assert readable_text(DOCUMENT, info_of(sources_of(**PACKAGES))).split("\n") == [
        *("feh", "Bo", "Shows pictures.", "fast", "small", "simple", "image viewer", "photo"),
        "Ann Example <ann@example.org>",
    ]
    info = info_of(sources_of(**PACKAGES), fields=("pkg.description", "maintainer", "section"))
    assert readable_text(DOCUMENT, info) == "Shows pictures.\nAnn Example <ann@example.org>\ngraphics"


def test_without_a_mapping_the_strings_at_the_top_level_are_read() -> None:
    assert readable_text({"kind": "news", "title": "Fire", "a": {"b": "Smoke"}, "n": 1}, info_of({})) == "Fire\nnews"


def test_an_index_with_vectors_learns_from_the_fields_that_are_encoded() -> None:
    info = info_of(sources_of(**PACKAGES), fields=("pkg.description", "maintainer", "section"))
    assert learned(DOCUMENT, info, "tags") == ["Shows pictures.", "graphics"]


@pytest.mark.parametrize("name", ["@angular/router", "react@18.2.0", "a @ b.org", "Open www.example.org"])
def test_names_with_special_characters_are_learned(name: str) -> None:
    assert learned({"name": name}, info_of(sources_of(name=TEXT))) == [name]


@pytest.mark.parametrize("address", ["https://example.org/fire", "WWW.example.org", "ann@example.org"])
def test_addresses_are_not_learned(address: str) -> None:
    assert learned({"name": address, "text": "Smoke"}, info_of(sources_of(name=TEXT, text=TEXT))) == ["Smoke"]


def test_without_other_fields_fields_about_persons_are_learned() -> None:
    assert learned({"author": "Ann"}, info_of(sources_of(author=TEXT))) == ["Ann"]
    assert learned({"author": "Ann"}, info_of({}, fields=("author",))) == ["Ann"]


def test_without_a_mapping_the_strings_of_a_document_are_learned() -> None:
    assert learned({"text": "Smoke", "title": "Fire", "author": "Ann", "n": 1}, info_of({})) == ["Fire", "Smoke"]


@pytest.mark.parametrize(
    "name",
    [
        *("author", "authors", "author_name", "author.name", "authorNames", "book.authors.fullName", "author_email"),
        *("maintainer", "pkg.maintainers", "MAINTAINER", "maintainerEmail", "uploaders", "owner", "ownerId", "contact"),
        *("contact.phone", "e-mail", "eMail", "email", "emailAddress", "email_addresses", "first_name", "lastName"),
        *("created_by", "user", "userName", "username", "reviewer-names", "person"),
    ],
)
def test_these_fields_are_about_persons(name: str) -> None:
    assert is_about_person(name)


@pytest.mark.parametrize(
    "name",
    [
        *("title", "name", "full_name", "body", "authority", "coauthored", "author.biography", "authorNotes"),
        *("email.subject", "email_body", "contactReason", "ownership", "editorial", "user_manual", "address"),
        *("personality", "userInterface", "maintainer_scripts", "byte", "standby", "mail"),
    ],
)
def test_these_fields_are_not_about_persons(name: str) -> None:
    assert not is_about_person(name)


def test_nested_fields_of_several_indices_have_the_same_path() -> None:
    outer, inner = NestedField("a.b.text", "a"), NestedField("a.b.text", "a.b")
    title = NestedField("a.title", "a")
    infos = [
        IndexInfo(f"i{n}", (), None, None, None, nested_fields=(field, title)) for n, field in enumerate([outer, inner])
    ]
    combined = IndexInfo.combine("i*", infos)
    assert [(str(field), field.path) for field in combined.nested_fields] == [("a.title", "a")]
    own = [IndexInfo(f"i{n}", (field, title), "m", "m", 2) for n, field in enumerate([outer, inner])]
    assert [getattr(field, "path", None) for field in IndexInfo.combine("i*", own).fields] == [None, "a"]
