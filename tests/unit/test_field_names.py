"""Names of fields mean the same to all parts of Resift that guess what a field contains."""

from __future__ import annotations

import pytest

from resift.field_names import TITLE_NAMES
from resift.ingest.fields import guess_fields
from resift.query.dsl import document_text
from resift.service.cards import title_field


@pytest.mark.parametrize("name", TITLE_NAMES)
def test_titles_of_all_languages_are_titles_everywhere(name: str) -> None:
    document = {"about": "A lamp of brass and glass for the table.", name: "Lamp of brass"}
    assert guess_fields([document]) == [name, "about"]
    assert document_text(document, []).startswith("Lamp of brass\n")
    assert title_field(["about", f"meta.{name.capitalize()}"]) == f"meta.{name.capitalize()}"


def test_a_title_is_preferred_to_a_name() -> None:
    assert title_field(["file_name", "titre"]) == "titre"
