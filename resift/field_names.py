"""Guess from the name of a field what it contains: titles, longer texts, or names of persons."""

from __future__ import annotations

import re

# Words for titles come before words for names, because a field such as ``file_name`` may contain other names.
TITLE_NAMES = (
    *("title", "titel", "titre", "título", "titulo", "titolo", "タイトル", "標題", "标题", "제목"),
    *("headline", "heading", "見出し"),
    *("name", "naam", "nazwa", "nom", "nombre", "nome", "bezeichnung", "название"),
    *("subject", "caption"),
)
"""Words in the names of fields that contain titles, most likely first."""
BODY_NAMES = (
    *("text", "body", "content", "contents", "description", "abstract", "summary", "message", "question", "answer"),
    *("beschreibung", "beschrijving", "descripción", "descripcion", "descrição", "descricao", "descrizione", "opis"),
    *("описание", "本文", "内容"),
)
"""Words in the names of fields that contain longer texts."""
_TITLES = frozenset(TITLE_NAMES)
# A field is about a person if the last word of its name, apart from _DETAILS, is in _PERSONS.
_PERSONS = frozenset(
    [
        *("assignee", "author", "by", "byline", "contact", "contributor", "creator", "customer", "editor", "email"),
        *("employee", "firstname", "lastname", "maintainer", "owner", "packager", "person", "recipient", "reporter"),
        *("reviewer", "sender", "submitter", "surname", "translator", "uploader", "user", "username"),
    ]
)
_DETAILS = frozenset(
    ["address", "addresses", "display", "first", "full", "given", "id", "last", "login", "mail", "name", "phone"]
)
_PERSON_NAMES = frozenset([*((which, "name") for which in ("first", "family", "given", "last")), ("e", "mail")])
_WORDS_OF_NAME = re.compile(r"[A-Z]+(?![^\W\dA-Z_])|[A-Z]?[^\W\dA-Z_]+")


def words_of_name(name: str) -> list[str]:
    """Split the name of a field into its words, in lower case.

    >>> words_of_name("coverImage"), words_of_name("meta.HTMLTitle_2")
    (['cover', 'image'], ['meta', 'html', 'title'])
    """
    return [word.lower() for word in _WORDS_OF_NAME.findall(name)]


def has_title_name(name: str) -> bool:
    """Return whether the name of a field is a word for titles. Only the last part of a dotted name counts.

    >>> [has_title_name(name) for name in ("meta.Title", "titre", "title_id")]
    [True, True, False]
    """
    return name.rpartition(".")[2].lower() in _TITLES


def is_about_person(name: str) -> bool:
    """Return whether a field contains names or addresses of persons, according to the words of its name.

    Args:
        name: The name of the field. Words can be separated by punctuation or by upper case.

    >>> [is_about_person(name) for name in ("author", "editor.fullName", "maintainer_email", "email.subject", "users")]
    [True, True, True, False, True]
    """
    words = words_of_name(name)
    words = [word if word in _PERSONS or word in _DETAILS else word.removesuffix("s") for word in words]
    if tuple(words[-2:]) in _PERSON_NAMES:
        return True
    while words and words[-1] in _DETAILS:
        words.pop()
    return bool(words) and words[-1] in _PERSONS
