"""The loader of OpenSearch's YAML REST tests."""

from __future__ import annotations

import json

import pytest
from opensearch_fixture import required
from rest_api_spec import Assignment, Call, SpecFile, SpecUnavailable, api_specs, search_bodies, spec_files


@pytest.fixture(scope="module")
def files() -> dict[str, SpecFile]:
    """The test files by name."""
    try:
        return {file.name: file for file in spec_files()}
    except SpecUnavailable as error:
        if required():
            raise
        pytest.skip(str(error))


def test_files_of_both_sources_are_loaded(files: dict[str, SpecFile]) -> None:
    counts = {source: sum(name.startswith(source) for name in files) for source in ("opensearch", "elasticsearch")}
    assert counts["opensearch"] > 100
    assert counts["elasticsearch"] > 10


def test_a_file_has_steps_with_bodies_as_json(files: dict[str, SpecFile]) -> None:
    file = files["opensearch/pit/10_basic.yml"]
    steps = file.sections["Create PIT, Search with PIT ID and Delete"]
    assert steps[0] == Call("indices.create", {"index": "test_pit"})
    assert Assignment({"pit_id": "pit_id"}) in steps
    search = next(step for step in steps if isinstance(step, Call) and step.api == "search")
    assert search.body == {"query": {"match_all": {}}, "pit": {"id": "$pit_id"}}
    assert search.params == {"rest_total_hits_as_int": True, "size": 1, "sort": "foo"}


@pytest.mark.usefixtures("files")
def test_every_search_body_is_a_json_object() -> None:
    bodies = [body for _, body in search_bodies()]
    assert len(bodies) > 1000
    for body in bodies:
        assert json.loads(json.dumps(body)) == body


@pytest.mark.usefixtures("files")
def test_the_apis_of_all_calls_are_described(files: dict[str, SpecFile]) -> None:
    apis = api_specs()
    steps = [step for file in files.values() for steps in (file.setup, *file.sections.values()) for step in steps]
    assert {step.api for step in steps if isinstance(step, Call)} <= set(apis)
