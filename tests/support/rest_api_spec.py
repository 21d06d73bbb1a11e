"""Load the YAML REST tests that OpenSearch and Elasticsearch publish as the Maven artefact ``rest-api-spec``.

Each file has a setup, a teardown, and named sections. All of these are lists of steps, and a ``do`` step calls one REST
API. OpenSearch describes the format in ``rest-api-spec/src/main/resources/rest-api-spec/test/README.md``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Body = dict[str, Any]

# Group, artefact, version and type. Both artefacts have the licence Apache-2.0.
OPENSEARCH = ("org.opensearch", "rest-api-spec", "3.0.0", "jar")
ELASTICSEARCH = ("org.elasticsearch", "rest-api-spec", "7.10.2", "jar")
SOURCES = {"opensearch": OPENSEARCH, "elasticsearch": ELASTICSEARCH}
# The folders whose files search. A source may lack some of the folders.
FOLDERS = (
    "search",
    "search.aggregation",
    "search.highlight",
    "search.inner_hits",
    "suggest",
    "mlt",
    "range",
    "pit",
    "msearch",
    "scroll",
)
# Keys of a ``do`` step that are about the answer or the connection. The remaining key is the API.
_MODIFIERS = {"catch", "headers", "node_selector"}
_TESTS = "rest-api-spec/test/"
_APIS = "rest-api-spec/api/"


class SpecUnavailable(RuntimeError):
    """The REST tests could not be fetched. The message says why."""


@dataclass(frozen=True)
class Call:
    """One call of a REST API, as a ``do`` step has it.

    Attributes:
        api: The name of the API, such as ``search`` or ``indices.create``.
        params: Path parts and query parameters of the URL.
        body: The request body. A list is sent as newline-delimited JSON. None if the call has no body.
        catch: The error that the test expects, or "" if the call must succeed.
    """

    api: str
    params: Mapping[str, Any]
    body: Any = None
    catch: str = ""


@dataclass(frozen=True)
class Assignment:
    """A ``set`` step, which stores parts of the last response under names: path in the response → name."""

    names: Mapping[str, str]


Step = Call | Assignment


@dataclass(frozen=True)
class SpecFile:
    """One YAML file of REST tests.

    Attributes:
        source: A key of :data:`SOURCES`.
        path: The path of the file in its artefact, such as ``search/10_source_filtering.yml``.
        setup: Steps that run before each section.
        teardown: Steps that run after each section.
        sections: The steps of each section by name. Assertions are left out.
    """

    source: str
    path: str
    setup: Sequence[Step] = ()
    teardown: Sequence[Step] = ()
    sections: Mapping[str, Sequence[Step]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The source and the path, such as ``opensearch/search/10_source_filtering.yml``."""
        return f"{self.source}/{self.path}"


def spec_files(folders: Sequence[str] = FOLDERS) -> list[SpecFile]:
    """Return the test files of the given folders, first those of OpenSearch.

    Files about mapping types, which OpenSearch does not have, are left out. So is a section of Elasticsearch that
    OpenSearch has with the same setup.

    Raises:
        SpecUnavailable: If Maven is missing, or cannot fetch the artefacts.
    """
    files: list[SpecFile] = []
    known: set[str] = set()
    for source, archive in _archives().items():
        with zipfile.ZipFile(archive) as jar:
            for path in _paths(jar, folders):
                file = _parse(source, path, jar.read(f"{_TESTS}{path}"))
                file = _without_known_sections(file, known)
                if file.sections:
                    files.append(file)
    return files


def spec_paths(folders: Sequence[str] = FOLDERS) -> list[str]:
    """Return the paths of the test files in the given folders, without reading the files.

    Raises:
        SpecUnavailable: If Maven is missing, or cannot fetch the artefacts.
    """
    paths: list[str] = []
    for archive in _archives().values():
        with zipfile.ZipFile(archive) as jar:
            paths += _paths(jar, folders)
    return list(dict.fromkeys(paths))


def search_bodies(folders: Sequence[str] = FOLDERS) -> Iterator[tuple[str, Body]]:
    """Yield every search body of the test files, with the name of its file and section.

    The bodies are those of ``search`` and ``msearch`` calls, whether the test expects an answer or an error.

    Raises:
        SpecUnavailable: If Maven is missing, or cannot fetch the artefacts.
    """
    for file in spec_files(folders):
        for section, steps in file.sections.items():
            for call in steps:
                if isinstance(call, Call):
                    for _, body in searches(call):
                        yield f"{file.name}: {section}", body


def searches(call: Call) -> Iterator[tuple[Mapping[str, Any], Body]]:
    """Yield the URL parameters and the body of each search that a call runs.

    An ``msearch`` call runs several searches, whose headers are yielded as parameters. Nothing is yielded for other
    APIs, nor for a body that is no JSON object.
    """
    if call.api == "search":
        body = {} if call.body is None else call.body
        if isinstance(body, dict):
            yield call.params, body
    elif call.api == "msearch" and isinstance(call.body, list):
        for header, body in zip(call.body[::2], call.body[1::2], strict=False):
            if isinstance(header, dict) and isinstance(body, dict):
                common = {name: value for name, value in call.params.items() if name in ("index", *_SHARED)}
                yield {**common, **header}, body


# Parameters of ``msearch`` that mean the same in ``search``.
_SHARED = ("rest_total_hits_as_int", "typed_keys", "search_type", "ccs_minimize_roundtrips")


def api_specs() -> dict[str, Body]:
    """Return OpenSearch's description of each REST API (paths, methods, parameters) by name.

    Raises:
        SpecUnavailable: If Maven is missing, or cannot fetch the artefacts.
    """
    specs: dict[str, Body] = {}
    with zipfile.ZipFile(_archives()["opensearch"]) as jar:
        for name in jar.namelist():
            if name.startswith(_APIS) and name.endswith(".json"):
                specs.update(json.loads(jar.read(name)))
    specs.pop("_common", None)
    return specs


def _archives() -> dict[str, Path]:
    """Return the archive of each source, fetched by Maven unless the cache folder has it already."""
    try:
        from node_assembly import NodeUnavailable, cache_folder, fetch, locked
    except ImportError as error:  # the module needs POSIX file locks
        raise SpecUnavailable(f"the REST tests cannot be fetched on this platform ({error})") from error
    try:
        cache = cache_folder()
        folder = cache / "rest-api-spec"
        archives = {source: folder / f"{name}-{version}.{type}" for source, (_, name, version, type) in SOURCES.items()}
        with locked(cache):
            if not all(archive.exists() for archive in archives.values()):
                folder.mkdir(exist_ok=True)
                with tempfile.TemporaryDirectory(dir=cache) as scratch:
                    for copy in fetch(list(SOURCES.values()), Path(scratch), "the REST tests of OpenSearch"):
                        shutil.copy(copy, folder / f"{copy.name}.part")
                        os.replace(folder / f"{copy.name}.part", folder / copy.name)
    except NodeUnavailable as error:
        raise SpecUnavailable(str(error)) from error
    return archives


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as OpenSearch does: dates are strings, and only ``true`` and ``false`` are booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":bool"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF")


def _paths(jar: zipfile.ZipFile, folders: Sequence[str]) -> list[str]:
    names = [name.removeprefix(_TESTS) for name in jar.namelist() if name.startswith(_TESTS)]
    names = [name for name in names if name.endswith(".yml") and not name.endswith("_with_types.yml")]
    return [name for folder in folders for name in sorted(names) if name.startswith(f"{folder}/")]


def _parse(source: str, path: str, text: bytes) -> SpecFile:
    blocks: dict[str, list[Step]] = {"setup": [], "teardown": []}
    for document in yaml.load_all(text, _Loader):
        for name, steps in (document or {}).items():
            blocks[str(name)] = list(_steps(steps or []))
    setup, teardown = blocks.pop("setup"), blocks.pop("teardown")
    return SpecFile(source, path, setup, teardown, blocks)


def _steps(steps: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    for step in steps:
        if "set" in step:
            yield Assignment({str(path): str(name) for path, name in step["set"].items()})
        if "do" in step:
            names = [name for name in step["do"] if name not in _MODIFIERS and "warnings" not in name]
            for name in names:
                arguments = dict(_as_json(step["do"][name]) or {})
                body = arguments.pop("body", None)
                arguments.pop("include_type_name", None)  # OpenSearch has no mapping types
                yield Call(name, arguments, _parsed_body(body), str(step["do"].get("catch", "")))


def _as_json(value: Any) -> Any:
    """Return a YAML value as JSON has it: the keys of objects are strings."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return value


def _parsed_body(body: Any) -> Any:
    """Return a body as JSON. A string may hold one JSON object, or one in each line."""
    if isinstance(body, list):
        return [_parsed_body(line) for line in body]
    if not isinstance(body, str):
        return body
    try:
        return json.loads(body)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in body.splitlines() if line.strip()]
    except ValueError:
        return body


def _without_known_sections(file: SpecFile, known: set[str]) -> SpecFile:
    """Return the file without sections whose steps and setup are in ``known``, and add the others to it."""
    sections = {}
    for name, steps in file.sections.items():
        key = repr((file.setup, steps))
        if key not in known:
            known.add(key)
            sections[name] = steps
    return SpecFile(file.source, file.path, file.setup, file.teardown, sections)
