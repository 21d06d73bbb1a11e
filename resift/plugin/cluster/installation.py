"""What a cluster remembers of an installation, in its index template, and who manages the cluster.

Of one that others manage no settings are asked, and its connectors get the reranker's key in another way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from resift.contracts.documents import ModelDescription
from resift.errors import BadInput, UnsupportedCluster
from resift.plugin.cluster.templates import Stamp
from resift.query.dsl import VECTOR_FIELD

if TYPE_CHECKING:
    from resift.plugin.cluster.client import Cluster

NAME, FIELDS, SERVICE_URL = "resift", ("title", "text"), "http://127.0.0.1:8080"  # where nothing else is said
PROVIDERS = ("aws", "other")
SECRET = "resift_api_key"  # the key of the key within the secret
_ARNS = {
    "--key": (r"arn:aws[\w-]*:secretsmanager:[\w-]+:\d{12}:secret:.+", "the secret that holds the reranker's key"),
    "--role": (r"arn:aws[\w-]*:iam::\d{12}:role/.+", "the role by which the domain reads that secret"),
}
_BACKEND = "resift.rewrite() in your backend, which needs nothing in the cluster"


@dataclass(frozen=True)
class Managed:
    """A cluster whose ``_cluster/settings`` are its provider's, and neither read nor written.

    For ``provider`` "aws" (Amazon OpenSearch Service), ``secret`` is the ARN of the secret in Secrets Manager that
    holds the reranker's API key, and ``role`` that of the IAM role by which the domain reads it. Raises BadInput for
    what is not such an ARN, or not for this provider.
    """

    provider: str
    secret: str | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        if self.provider != "aws":
            return
        for option, value in {"--key": self.secret or "", "--role": self.role or ""}.items():
            pattern, what = _ARNS[option]
            if not re.fullmatch(pattern, value):
                # a key that somebody gave instead is not quoted
                told = (
                    f"{option} {value} is not the ARN" if value.startswith("arn:") else f"{option} is needed: the ARN"
                )
                expected = f"arn:aws:{'secretsmanager' if option == '--key' else 'iam'}:…"
                raise BadInput(f"{told} of {what}", value=value if value.startswith("arn:") else "", expected=expected)

    @property
    def credential(self) -> dict[str, str] | None:
        """What a connector has for its credential; None where it is the key itself."""
        return {"secretArn": str(self.secret), "roleArn": str(self.role)} if self.provider == "aws" else None

    def check_reranker(self, url: str) -> None:
        """Raise BadInput for an address of the reranker that such a cluster does not call."""
        if self.provider == "aws" and urlsplit(url).scheme != "https":
            expected = "--service https://…, with a certificate that the domain trusts"
            raise BadInput(f"Amazon's domains only call HTTPS, not {url}", value=url, expected=expected)

    def to_dict(self) -> dict[str, str]:
        """What an index template records."""
        return {name: value for name, value in vars(self).items() if value is not None}


def check_unmanaged(hosts: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise BadInput for one of Amazon's domains, by its ``hosts``, where nobody said that it is one.

    Raises UnsupportedCluster for OpenSearch Serverless, which has no processors that call a model.
    """
    if environment.get("OPENSEARCH_AWS_SERVICE") == "aoss":
        raise UnsupportedCluster("OpenSearch Serverless calls no reranker", value="aoss", expected=_BACKEND)
    if environment.get("OPENSEARCH_AWS_REGION") or any(re.search(r"\.amazonaws\.com(\.cn)?$", one) for one in hosts):
        expected = f"resift install --managed aws --key ARN --role ARN --service https://…; or {_BACKEND}"
        raise BadInput("Amazon manages this cluster's settings", value="aws", expected=expected)


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
        return Installation(name, model, tuple(index["fields"]), meta["service"], read_managed(meta))
    except (KeyError, TypeError):
        return None


def read_managed(values: Mapping[str, Any]) -> Managed | None:
    """What the ``_meta`` of an index template records, or its values; None where settings are the operator's own."""
    return Managed(**values["managed"]) if values.get("managed") else None
