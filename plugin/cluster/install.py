"""``resift install``, ``uninstall`` and ``status``: what a cluster is told, brought about, taken back and checked."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from resift.encoders.model import Model
from resift.errors import BadInput, EngineError, NotFound
from resift.plugin.cluster.resources import PIPELINES, REMOTE, SCRIPTS, Cluster, Stamp, render, text_of
from resift.plugin.cluster.settings import SWITCHES, TRUSTED, ClusterSettings
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import mappings
from resift.version import __version__

_PLUGINS = ("opensearch-knn", "opensearch-ml", "opensearch-neural-search")
_DEPLOY_SECONDS = 60


@dataclass(frozen=True)
class StatusRow:
    """One line of the status: a resource's kind and name, its state, and how to mend it ('' where nothing is due)."""

    kind: str
    name: str
    state: str
    mend: str = ""


@dataclass(frozen=True)
class Resource:
    """A resource: how its stamp is found, how it is made and removed."""

    kind: str
    name: str
    wanted: Stamp
    find: Callable[[], str | None]
    make: Callable[[], None]
    remove: Callable[[], None]

    def state(self) -> str:
        """missing | foreign | other model | other version | changed | not deployed | ok."""
        found = self.find()
        if found is None:
            return "missing"
        if found == "not deployed":
            return found
        stamp = Stamp.read(found)
        if stamp is None:
            return "foreign"
        if stamp.model != self.wanted.model:
            return f"other model {stamp.model}"
        if stamp.version != self.wanted.version:
            return f"other version {stamp.version}"
        return "ok" if stamp.content == self.wanted.content else "changed"


class Installer:
    """Everything under one ``name`` in a cluster, for one model and one reranker at ``url``."""

    def __init__(
        self, engine: OpenSearchEngine, model: Model, fields: Sequence[str], url: str, name: str = "resift"
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise BadInput(f"{url!r} is not a reranker's address", value=url, expected="http://HOST:PORT")
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
            raise BadInput(
                f"{name!r} cannot name an installation", value=name, expected="lower-case letters, digits, -"
            )
        self.engine, self.model, self.name, self.url = engine, model, name, url.rstrip("/")
        self.cluster = Cluster(engine)
        self.settings = ClusterSettings(self.cluster, self.url)
        self.values: dict[str, Any] = {
            "name": name,
            "version": __version__,
            "model": model.hash,
            "url": self.url,
            "fields": list(fields),
            "gather_text": text_of("gather_text.painless"),
            "code_vector": text_of("code_vector.painless"),
            "mappings": mappings(fields, model),
            **{f"{kind}_id": f"({name}-{kind})" for kind in REMOTE},
        }

    @cached_property
    def missing_plugins(self) -> list[str]:
        """Plugins that the pipelines need and the cluster lacks."""
        return sorted(set(_PLUGINS) - self.cluster.plugins())

    def pieces(self) -> Iterator[Resource]:
        """All resources, in the order in which they are made; those after a remote model hold its id."""
        yield from map(self._script, SCRIPTS)
        yield self._template()
        if not self.missing_plugins:
            yield from map(self._remote, REMOTE)
            yield self._pipeline("ingest pipeline", "ingest", "/_ingest/pipeline")
            for kind in PIPELINES:
                yield self._pipeline("search pipeline", kind, "/_search/pipeline")

    def status(self) -> list[StatusRow]:
        """What is there, missing, of another version or model, and how to mend it; a line a resource."""
        mend = "resift install"
        due = self._due_settings()
        settings = () if self.missing_plugins else (*SWITCHES, TRUSTED)
        rows = [StatusRow("setting", name, *(("not set", mend) if name in due else ("ok", ""))) for name in settings]
        for piece in self.pieces():
            state = piece.state()
            advice = {"ok": "", "foreign": "not made by Resift: choose another --name"}.get(state, mend)
            rows.append(StatusRow(piece.kind, piece.name, state, advice))
        rows += [
            StatusRow("plugin", name, "missing", f"bin/opensearch-plugin install {name}")
            for name in self.missing_plugins
        ]
        return [self._reranker(), *rows, *self._indices()]

    def _reranker(self) -> StatusRow:
        """The reranker as this machine sees it; the cluster may reach it where this machine does not."""
        try:
            with urlopen(f"{self.url}/healthz", timeout=3) as answer:
                model = json.load(answer)["model_hash"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            return StatusRow("reranker", self.url, "no answer here", f"resift serve ({error})")
        if model != self.model.hash:
            return StatusRow("reranker", self.url, f"other model {model}", "resift serve --model ...")
        return StatusRow("reranker", self.url, "ok")

    def _indices(self) -> list[StatusRow]:
        found = self.cluster.request("GET", "/*,-.*/_mapping")
        rows = []
        for index, entry in sorted(found.items()):
            meta = entry["mappings"].get("_meta", {}).get("resift")
            if meta is not None:
                same = meta["model"] == self.model.hash
                mend = "" if same else f"use model {meta['model']}, or index the documents again"
                rows.append(StatusRow("index", index, "ok" if same else f"other model {meta['model']}", mend))
        return rows

    def install(self, dry_run: bool = False) -> list[str]:
        """Make what is missing or different; the steps taken (with ``dry_run``: that would be taken)."""
        steps = []
        due = self._due_settings()
        self.values["settings_before"] = self.settings.remember(self._settings_before(), due)
        for name, value in due.items():
            change = f"append {value[-1]} to {name}" if name == TRUSTED else f"set {name} to {value}"
            steps.append(f"{change} (cluster setting)")
        if due and not dry_run:
            self.cluster.set(due)
        for piece in self.pieces():
            state = piece.state()
            if state == "foreign":
                raise EngineError(
                    f"{piece.kind} {piece.name} exists and is not Resift's",
                    status=409,
                    value=piece.name,
                    expected="another --name",
                )
            if state == "ok" and not (due and piece.kind == "index template"):
                continue
            steps.append(
                f"create {piece.kind} {piece.name}"
                if state == "missing"
                else f"replace {piece.kind} {piece.name} ({state})"
            )
            if not dry_run:
                piece.make()
        return steps

    def uninstall(self, dry_run: bool = False) -> list[str]:
        """Remove what :meth:`install` made, and nothing else; the steps taken (or that would be)."""
        self._refuse_if_used()
        before = self._settings_before()
        steps = []
        for piece in reversed(list(self.pieces())):
            if piece.state() in ("missing", "foreign"):
                continue
            steps.append(f"remove {piece.kind} {piece.name}")
            if not dry_run:
                piece.remove()
        back = self.settings.back(before)
        steps += [
            f"reset setting {name} to {'its default' if value is None else value}" for name, value in back.items()
        ]
        if back and not dry_run:
            self.cluster.set(back)
        return steps

    def _script(self, script: str) -> Resource:
        name, path = (
            f"{self.name}-{script.replace('_', '-')}",
            f"/_scripts/{self.name}-{script.replace('_', '-')}",
        )
        source = text_of(f"{script}.painless")
        stamp = Stamp(__version__, "any", hashlib.sha256(source.encode()).hexdigest()[:12])
        body = {"script": {"lang": "painless", "source": f"// {stamp}\n{source}"}}
        return Resource(
            "stored script",
            name,
            stamp,
            find=lambda: (self.cluster.find(path, "script") or {}).get("source"),
            make=lambda: self.cluster.request("PUT", path, body),
            remove=lambda: self.cluster.request("DELETE", path),
        )

    def _refuse_if_used(self) -> None:
        """Indices whose default pipeline went away would refuse every write or search."""
        names = "index.default_pipeline,index.final_pipeline,index.search.default_pipeline"
        found = self.cluster.request("GET", f"/*,-.*/_settings/{names}", flat_settings="true")
        ours = {f"{self.name}-{which}" for which in ("ingest", *PIPELINES)}
        for index, entry in found.items():
            for setting, value in entry["settings"].items():
                if value in ours:
                    raise EngineError(
                        f"{setting} of index {index} is {value}", status=409, value=index, expected="unset it first"
                    )

    def _due_settings(self) -> dict[str, Any]:
        return {} if self.missing_plugins else self.settings.due()

    def _settings_before(self) -> dict[str, Any]:
        return dict((self._read_template() or {}).get("_meta", {}).get("settings_before") or {})

    def _read_template(self) -> dict[str, Any] | None:
        found = self.cluster.find(f"/_index_template/{self.name}", "index_templates")
        template: dict[str, Any] | None = found[0]["index_template"] if found else None
        return template

    def _template(self) -> Resource:
        path = f"/_index_template/{self.name}"

        def find() -> str | None:
            template = self._read_template()
            return None if template is None else template.get("_meta", {}).get("resift", "")

        return Resource(
            "index template",
            self.name,
            render("index-template", self.values)[1],
            find=find,
            make=lambda: self.cluster.request("PUT", path, render("index-template", self.values)[0]),
            remove=lambda: self.cluster.request("DELETE", path),
        )

    def _pipeline(self, kind: str, which: str, path: str) -> Resource:
        name = f"{self.name}-{which}"

        def find() -> str | None:
            found = self.cluster.find(f"{path}/{name}", name)
            return None if found is None else found.get("description", "")

        body, stamp = render(f"{which}-pipeline", self.values)
        return Resource(
            kind,
            name,
            stamp,
            find=find,
            make=lambda: self.cluster.request("PUT", f"{path}/{name}", body),
            remove=lambda: self.cluster.request("DELETE", f"{path}/{name}"),
        )

    def _remote(self, which: str) -> Resource:
        name = f"{self.name}-{which}"
        body, stamp = render(f"connector-{which}", self.values)
        models = self.cluster.named("models", name)
        if models:
            self.values[f"{which}_id"] = models[0][0]

        def find() -> str | None:
            found = self.cluster.named("models", name)
            if not found:
                return "not deployed" if self.cluster.named("connectors", name) else None
            current = found[0][1]
            ours = Stamp.read(current.get("description")) == stamp
            return (
                "not deployed" if ours and current.get("model_state") != "DEPLOYED" else current.get("description", "")
            )

        def make() -> None:
            remove()
            groups = self.cluster.named("model_groups", self.name)
            group = (
                groups[0][0]
                if groups
                else self.cluster.request(
                    "POST",
                    "/_plugins/_ml/model_groups/_register",
                    {"name": self.name, "description": str(stamp)},
                )["model_group_id"]
            )
            connector = self.cluster.request("POST", "/_plugins/_ml/connectors/_create", body)["connector_id"]
            register = {
                "name": name,
                "function_name": "remote",
                "description": str(stamp),
                "connector_id": connector,
                "model_group_id": group,
            }
            answer = self.cluster.request("POST", "/_plugins/_ml/models/_register", register, deploy="true")
            self.values[f"{which}_id"] = answer["model_id"]
            self._await_deployed(answer["model_id"], name)

        def remove() -> None:
            for model, source in self.cluster.named("models", name):
                if Stamp.read(source.get("description")):
                    self.cluster.request("POST", f"/_plugins/_ml/models/{model}/_undeploy")
                    self.cluster.request("DELETE", f"/_plugins/_ml/models/{model}")
            for connector, source in self.cluster.named("connectors", name):
                if Stamp.read(source.get("description")):
                    self.cluster.request("DELETE", f"/_plugins/_ml/connectors/{connector}")
            if not any(self.cluster.named("models", f"{self.name}-{other}") for other in REMOTE):
                for group, source in self.cluster.named("model_groups", self.name):
                    if Stamp.read(source.get("description")):
                        self.cluster.request("DELETE", f"/_plugins/_ml/model_groups/{group}")

        return Resource("remote model", name, stamp, find, make, remove)

    def _await_deployed(self, model: str, name: str) -> None:
        deadline = time.monotonic() + _DEPLOY_SECONDS
        state = "unknown"
        while time.monotonic() < deadline:
            try:
                state = self.cluster.request("GET", f"/_plugins/_ml/models/{model}")["model_state"]
            except NotFound:
                state = "not registered yet"
            if state == "DEPLOYED":
                return
            if state == "DEPLOY_FAILED":
                break
            time.sleep(0.2)
        raise EngineError(
            f"remote model {name} was not deployed: {state}",
            value=state,
            expected="DEPLOYED: see the nodes' logs",
        )
