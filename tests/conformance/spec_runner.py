"""Run OpenSearch's YAML REST tests on a cluster, and hand each of their searches to a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from answers import Answer
from rest_api_spec import Assignment, Call, SpecFile, Step, api_specs, searches
from three_ways import OpenSearchClient, Search, value_at

# APIs that leave documents, mappings and settings as they are, so that a file's indices can be used again.
_READING = {
    "clear_scroll",
    "cluster.get_settings",
    "cluster.health",
    "count",
    "create_pit",
    "delete_all_pits",
    "delete_pit",
    "explain",
    "get_all_pits",
    "indices.forcemerge",
    "indices.get_mapping",
    "indices.refresh",
    "indices.stats",
    "indices.validate_query",
    "msearch",
    "scroll",
    "search",
}
# What ``q`` of a URL search may be accompanied by, and the name in a ``query_string`` clause.
_QUERY_STRING = {
    "q": "query",
    "df": "default_field",
    "analyzer": "analyzer",
    "analyze_wildcard": "analyze_wildcard",
    "default_operator": "default_operator",
    "lenient": "lenient",
}
_EVERYTHING = ("", "_all", "*")


class SpecRunner:
    """Runs files of REST tests on a cluster. Assertions and expected errors of the tests are not checked.

    Args:
        cluster: The cluster that the tests write to. Other indices are left alone.
        search: Called with the section's name, the number of the search in its section, and each search.
        renewed: Called when the cluster's documents or indices have changed.

    Attributes:
        failures: The steps of setups and teardowns that failed.
    """

    def __init__(
        self,
        cluster: OpenSearchClient,
        search: Callable[[str, int, Search], None],
        renewed: Callable[[], None],
    ) -> None:
        self.cluster = cluster
        self._search = search
        self._renewed = renewed
        self.failures: list[str] = []
        self._specs = api_specs()
        self._stash: dict[str, Any] = {}
        self._points_in_time: dict[str, str] = {}
        self._settings: dict[str, None] = {}
        self._is_set_up = False
        self._existing: set[str] = set()
        self._created: set[str] = set()

    def run(self, file: SpecFile) -> None:
        """Run all sections of a file.

        The setup runs again only after a section that changed something.

        Raises:
            RuntimeError: The tests would write to an index that exists already.
        """
        self._existing = set(self._indices())
        try:
            self._sections(file)
        finally:
            if self._is_set_up:
                self._clean(file)

    def _sections(self, file: SpecFile) -> None:
        for name, steps in file.sections.items():
            if not self._is_set_up:
                self._is_set_up = True
                self._steps(file.setup)
                self._renewed()
            self._stash.clear()
            self._steps(steps, name)
            if any(isinstance(step, Call) and step.api not in _READING for step in steps):
                self._clean(file)

    def _clean(self, file: SpecFile) -> None:
        """Run the teardown, and remove indices, points in time and cluster settings that the tests created."""
        self._is_set_up = False
        self._steps(file.teardown)
        if self._points_in_time:
            self.cluster.request("DELETE", "_search/point_in_time", {"pit_id": list(self._points_in_time)})
            self._points_in_time.clear()
        if self._created:
            names = quote(",".join(sorted(self._created)), safe=",")
            self.cluster.request("DELETE", names, ignore_unavailable=True)
            self._created.clear()
        if self._settings:
            self.cluster.request(
                "PUT", "_cluster/settings", {"transient": self._settings, "persistent": self._settings}
            )
            self._settings.clear()

    def _indices(self) -> list[str]:
        """Return the names of all indices but hidden and system indices."""
        answer = self.cluster.request("GET", "_cat/indices", format="json", h="index", expand_wildcards="open,closed")
        return [index["index"] for index in answer.body["items"] if not index["index"].startswith(".")]

    def _steps(self, steps: Sequence[Step], section: str = "") -> None:
        """Run steps, and hand their searches over if they belong to a section."""
        answer, number, has_changed = Answer(200, {}), 0, False
        for step in steps:
            if isinstance(step, Assignment):
                for path, name in step.names.items():
                    self._stash[name] = _at(answer.body, path)
                continue
            call = Call(step.api, self._filled(step.params), self._filled(step.body), step.catch)
            if section:
                for params, body in searches(call):
                    if has_changed:
                        self._renewed()
                        has_changed = False
                    number += 1
                    self._search(section, number, self._prepared(params, body))
            if call.api in ("search", "msearch") and not _has_assignment(steps, step):
                continue  # nothing reads the answer
            answer = self._call(call)
            if not section and answer.status >= 400:
                self.failures.append(f"{call.api} {dict(call.params)}: {answer.status} {answer.body.get('error')}")
            has_changed |= call.api not in _READING

    def _call(self, call: Call) -> Answer:
        """Send a call as its API is described."""
        if call.api == "cluster.health" and "index" not in call.params and self._created:
            # The tests expect a cluster of their own. An index of another test may be yellow for its whole life.
            indices = ",".join(sorted(self._created))
            call = Call(call.api, {**call.params, "index": indices}, call.body, call.catch)
        spec = self._specs[call.api]
        paths = [path for path in spec["url"]["paths"] if set(path.get("parts", {})) <= set(call.params)]
        path = max(paths, key=lambda one: len(one.get("parts", {})))
        parts = {name: call.params[name] for name in path.get("parts", {})}
        url = re.sub(r"\{(\w+)\}", lambda match: quote(_text(parts[match[1]]), safe=",*"), path["path"])
        params = {name: value for name, value in call.params.items() if name not in (*parts, "filter_path", "ignore")}
        methods = path["methods"]
        method = "POST" if "POST" in methods and call.body is not None else methods[0]
        if call.api == "index":
            method = "PUT" if "id" in parts else "POST"
        self._created |= self._written(call)
        answer = self.cluster.request(method, url, call.body, **params)
        if call.api == "create_pit" and "pit_id" in answer.body:
            self._points_in_time[answer.body["pit_id"]] = _text(parts["index"])
        if call.api == "cluster.put_settings":
            changed = [settings for settings in call.body.values() if isinstance(settings, dict)]
            self._settings |= dict.fromkeys(name for settings in changed for name in _setting_names(settings))
        return answer

    def _written(self, call: Call) -> set[str]:
        """Return the names of the indices that a call creates or writes to."""
        names: set[str] = set()
        if call.api in ("indices.create", "index", "create", "update"):
            names.add(_text(call.params["index"]))
        if call.api == "bulk":
            actions = [line for line in call.body if isinstance(line, dict) and len(line) == 1]
            headers = [header for line in actions for header in line.values() if isinstance(header, dict)]
            names |= {header["_index"] for header in headers if "_index" in header}
            names |= {_text(call.params["index"])} if "index" in call.params else set()
        if names & self._existing:
            raise RuntimeError(f"the REST tests would write to an index that exists already: {names & self._existing}")
        return names

    def _prepared(self, params: Mapping[str, Any], body: dict[str, Any]) -> Search:
        """Return a search of a call, with the query, page and order of its URL in the body.

        OpenSearch hands them to a search pipeline in the body, too.
        """
        index = _text(params.get("index", ""))
        left_out = ("index", "type", "filter_path", "ignore", *_QUERY_STRING, "from", "size", "sort")
        body = dict(body)
        if "q" in params:
            names = {inner: params[name] for name, inner in _QUERY_STRING.items() if name in params}
            body["query"] = {"query_string": names}
        for name in ("from", "size"):
            if isinstance(params.get(name), int):
                body[name] = params[name]
        if "sort" in params:
            parts = [part.rpartition(":") for part in _text(params["sort"]).split(",")]
            body["sort"] = [{field: {"order": order}} if field else order for field, _, order in parts]
        point = body.get("pit", {}).get("id") if isinstance(body.get("pit"), dict) else None
        rewrite_index = self._points_in_time.get(str(point), "") or index
        if rewrite_index in _EVERYTHING:
            rewrite_index = ",".join(self._indices())
        kept = {name: value for name, value in params.items() if name not in left_out}
        return Search(index, body, kept, rewrite_index)

    def _filled(self, value: Any) -> Any:
        """Return a value of a step with the stored values in place of their names, such as ``$scroll_id``."""
        if isinstance(value, dict):
            return {name: self._filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        match = re.fullmatch(r"\$\{?(\w+)\}?", value) if isinstance(value, str) else None
        return self._stash.get(match[1], value) if match else value


def _has_assignment(steps: Sequence[Step], step: Step) -> bool:
    position = steps.index(step) + 1
    return position < len(steps) and isinstance(steps[position], Assignment)


def _at(body: Any, path: str) -> Any:
    """Return the value at a path such as ``hits.hits.0._id``, or None if there is none."""
    return value_at(body, [int(step) if step.isdigit() else step for step in path.split(".")])


def _setting_names(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for name, value in settings.items():
        names += _setting_names(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]
    return names


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)
