"""What a cluster remembers of an installation: the flags that it was made with, in the index template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resift.contracts.documents import ModelDescription
from resift.contracts.query_dsl import VECTOR_FIELD
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.managed import Managed, read_managed
from resift.plugin.cluster.templates import Stamp


@dataclass(frozen=True)
class InstalledModel:
    """What is known in the cluster of the model of an installation, whose folder may be on another machine."""

    name: str
    hash: str
    dim: int
    space_type: str


@dataclass(frozen=True)
class Installation:
    """One installation: its name, its model, the fields that are encoded, the reranker's address, and who manages the
    cluster if that is somebody else."""

    name: str
    model: ModelDescription
    fields: tuple[str, ...]
    url: str
    managed: Managed | None = None

    def differences(self, other: Installation) -> list[str]:
        """What is to change so that this becomes ``other``, a phrase each."""
        pairs = {
            "model": [f"{one.model.name} ({one.model.hash})" for one in (self, other)],
            "fields": [",".join(one.fields) for one in (self, other)],
            "reranker's address": [one.url for one in (self, other)],
        }
        return [f"change the {what} from {old} to {new}" for what, (old, new) in pairs.items() if old != new]


def installations(cluster: Cluster) -> dict[str, Installation]:
    """The installations of a cluster by their names. Raises EngineUnavailable and EngineError."""
    answer = cluster.request("GET", "/_index_template")
    found = [_installation(entry["name"], entry["index_template"]) for entry in answer["index_templates"]]
    return {one.name: one for one in found if one is not None}


def _installation(name: str, template: dict[str, Any]) -> Installation | None:
    """The installation that an index template belongs to; None if it is not one of ours, or was changed by hand."""
    meta = template.get("_meta") or {}
    if Stamp.read(meta.get("resift")) is None:
        return None
    try:
        mappings = template["template"]["mappings"]
        index, vector = mappings["_meta"]["resift"], mappings["properties"][VECTOR_FIELD]
        model = InstalledModel(index["model_name"], index["model"], index["dim"], vector["method"]["space_type"])
        return Installation(name, model, tuple(index["fields"]), meta["reranker"], read_managed(meta))
    except (KeyError, TypeError):
        return None
