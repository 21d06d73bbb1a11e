"""Installations, as the cluster records them in index templates, and clusters that a provider manages.

Resift neither reads nor writes the settings of a managed cluster. On Amazon OpenSearch Service, connectors get the
service's API key from AWS Secrets Manager.
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

# Defaults of a new installation.
DEFAULT_NAME = "resift"
DEFAULT_FIELDS = ("title", "text")
DEFAULT_SERVICE_URL = "http://127.0.0.1:8080"
PROVIDERS = ("aws", "other")
SECRET = "resift_api_key"  # the name of the API key within the secret
_ARNS = {
    "--key": (
        r"arn:aws[\w-]*:secretsmanager:[\w-]+:\d{12}:secret:.+",
        "the secret that contains the service's API key",
    ),
    "--role": (r"arn:aws[\w-]*:iam::\d{12}:role/.+", "the role by which the domain reads the secret"),
}
_BACKEND = "resift.rewrite() in your backend, which needs nothing in the cluster"


@dataclass(frozen=True)
class Managed:
    """A cluster whose ``_cluster/settings`` belong to a provider.

    Attributes:
        provider: ``aws`` for Amazon OpenSearch Service, ``other`` for any other provider.
        secret: For ``aws``, the ARN of the secret in Secrets Manager that contains the service's API key.
        role: For ``aws``, the ARN of the IAM role by which the domain reads the secret.

    Raises:
        BadInput: If ``secret`` or ``role`` is missing for ``aws``, or is not the ARN of a secret or role.
    """

    provider: str
    secret: str | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        if self.provider != "aws":
            return
        for option, value in {"--key": self.secret or "", "--role": self.role or ""}.items():
            pattern, description = _ARNS[option]
            if re.fullmatch(pattern, value):
                continue
            expected = f"arn:aws:{'secretsmanager' if option == '--key' else 'iam'}:…"
            if value.startswith("arn:"):
                message = f"{option} {value} is not the ARN of {description}"
                raise BadInput(message, value=value, expected=expected)
            # The value is not quoted, because it may be the API key itself.
            raise BadInput(f"{option} must be the ARN of {description}", value="", expected=expected)

    @property
    def credential(self) -> dict[str, str] | None:
        """The credential of a connector that reads the key from a secret, or None if it contains the key itself."""
        return {"secretArn": str(self.secret), "roleArn": str(self.role)} if self.provider == "aws" else None

    def check_service_url(self, url: str) -> None:
        """Raise BadInput if the cluster cannot call a service at this URL."""
        if self.provider == "aws" and urlsplit(url).scheme != "https":
            expected = "--service https://…, with a certificate that the domain trusts"
            raise BadInput(f"domains of Amazon call only HTTPS, not {url}", value=url, expected=expected)

    def to_dict(self) -> dict[str, str]:
        """Return the JSON object that the index template records."""
        return {name: value for name, value in vars(self).items() if value is not None}


def check_unmanaged(hosts: Sequence[str], environment: Mapping[str, str]) -> None:
    """Check that an installation without ``managed`` is not on a cluster of Amazon.

    Args:
        hosts: Host names of the nodes.
        environment: Environment variables.

    Raises:
        BadInput: If the cluster is a domain of Amazon OpenSearch Service.
        UnsupportedCluster: If it is OpenSearch Serverless, which has no processors that call a model.
    """
    if environment.get("OPENSEARCH_AWS_SERVICE") == "aoss":
        message = "OpenSearch Serverless cannot call the service"
        raise UnsupportedCluster(message, value="aoss", expected=_BACKEND)
    if environment.get("OPENSEARCH_AWS_REGION") or any(re.search(r"\.amazonaws\.com(\.cn)?$", host) for host in hosts):
        expected = f"resift install --managed aws --key ARN --role ARN --service https://…; or {_BACKEND}"
        raise BadInput("Amazon manages the settings of this cluster", value="aws", expected=expected)


@dataclass(frozen=True)
class InstalledModel:
    """The description of an installation's model, whose folder may be on another machine.

    Attributes:
        name: Name of the model.
        hash: Hash of the model.
        dim: Number of dimensions of its vectors.
        space_type: k-NN space of its vectors.
    """

    name: str
    hash: str
    dim: int
    space_type: str


@dataclass(frozen=True)
class Installation:
    """An installation of Resift in a cluster.

    Attributes:
        name: Name of the installation, which is the prefix of the names of its resources.
        model: The model.
        fields: The text fields that are encoded.
        url: The service's URL.
        managed: The provider of the cluster, or None if its operator manages it.
    """

    name: str
    model: ModelDescription
    fields: tuple[str, ...]
    url: str
    managed: Managed | None = None

    def differences(self, other: Installation) -> list[str]:
        """Return the changes that turn this installation into ``other``, each in English."""
        changes = []
        for label, old, new in [
            ("model", _model_label(self.model), _model_label(other.model)),
            ("fields", ",".join(self.fields), ",".join(other.fields)),
            ("service's address", self.url, other.url),
        ]:
            if old != new:
                changes.append(f"change the {label} from {old} to {new}")
        return changes


def _model_label(model: ModelDescription) -> str:
    return f"{model.name} ({model.hash})"


def find_installations(cluster: Cluster) -> dict[str, Installation]:
    """Return the installations in a cluster, by name.

    Raises:
        EngineUnavailable: If no node answers.
        EngineError: If the cluster refuses the request.
    """
    response = cluster.request("GET", "/_index_template")
    templates = ((entry["name"], entry["index_template"]) for entry in response["index_templates"])
    parsed = (_read_installation(name, template) for name, template in templates)
    return {installation.name: installation for installation in parsed if installation is not None}


def _read_installation(name: str, template: dict[str, Any]) -> Installation | None:
    """Return the installation in an index template.

    Returns None if Resift did not create the template, or if somebody has edited it.
    """
    meta = template.get("_meta") or {}
    if Stamp.read(meta.get("resift")) is None:
        return None
    try:
        mappings = template["template"]["mappings"]
        index, vector = mappings["_meta"]["resift"], mappings["properties"][VECTOR_FIELD]
        model = InstalledModel(
            name=index["model_name"],
            hash=index["model"],
            dim=index["dim"],
            space_type=vector["method"]["space_type"],
        )
        return Installation(name, model, tuple(index["fields"]), meta["service"], read_managed(meta))
    except (KeyError, TypeError):
        return None


def read_managed(values: Mapping[str, Any]) -> Managed | None:
    """Return the provider that is recorded under ``managed``, or None if the operator manages the cluster.

    Args:
        values: The ``_meta`` of an index template, or the values from which the template is rendered.
    """
    return Managed(**values["managed"]) if values.get("managed") else None
