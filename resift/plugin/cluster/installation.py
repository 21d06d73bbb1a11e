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
class ManagedCluster:
    """A cluster whose settings are managed by a provider, such as Amazon, so that Resift does not change them.

    Attributes:
        provider: ``aws`` for Amazon OpenSearch Service, ``other`` for any other provider.
        secret: For ``aws``, the ARN of the secret in AWS Secrets Manager that contains the API key of the service.
        role: For ``aws``, the ARN of the IAM role that the domain assumes to read the secret.

    Raises:
        BadInput: If ``secret`` or ``role`` is missing or invalid for ``aws``.
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
        """The credential of a connector on AWS: the secret with the API key, and the role that may read it.

        None for other providers, whose connectors contain the API key itself.
        """
        return {"secretArn": str(self.secret), "roleArn": str(self.role)} if self.provider == "aws" else None

    def check_service_url(self, url: str) -> None:
        """Raise BadInput if the managed cluster cannot call a service at this URL. Amazon requires HTTPS."""
        if self.provider == "aws" and urlsplit(url).scheme != "https":
            expected = "--service https://…, with a certificate that the domain trusts"
            raise BadInput(f"domains of Amazon call only HTTPS, not {url}", value=url, expected=expected)

    def to_dict(self) -> dict[str, str]:
        """Return the provider, the secret and the role as a JSON object.

        The object is stored in the index template that describes the installation.
        """
        return {name: value for name, value in vars(self).items() if value is not None}


def check_unmanaged(hosts: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise an error if AWS manages the cluster, but the user did not pass ``--managed aws``.

    Args:
        hosts: The host names of the nodes. Names that end in ``amazonaws.com`` belong to AWS.
        environment: The environment variables. ``OPENSEARCH_AWS_SERVICE`` and ``OPENSEARCH_AWS_REGION`` also identify
            AWS.

    Raises:
        BadInput: If the cluster is a domain of Amazon OpenSearch Service.
        UnsupportedCluster: If the cluster is Amazon OpenSearch Serverless, which cannot call a service.
    """
    if environment.get("OPENSEARCH_AWS_SERVICE") == "aoss":
        message = "OpenSearch Serverless cannot call the service"
        raise UnsupportedCluster(message, value="aoss", expected=_BACKEND)
    if environment.get("OPENSEARCH_AWS_REGION") or any(re.search(r"\.amazonaws\.com(\.cn)?$", host) for host in hosts):
        expected = f"resift install --managed aws --key ARN --role ARN --service https://…; or {_BACKEND}"
        raise BadInput("Amazon manages the settings of this cluster", value="aws", expected=expected)


@dataclass(frozen=True)
class InstalledModel:
    """The embedding model of an installation, as recorded in the cluster by ``resift install``.

    The model itself may be on another machine.

    Attributes:
        name: The name of the model.
        hash: The hash that identifies the model.
        dim: The number of dimensions of its vectors.
        space_type: The k-NN space of its vectors, which defines their similarity.
        bags: The field of a document with the bag of vectors that the model encodes, or None if it encodes texts.
    """

    name: str
    hash: str
    dim: int
    space_type: str
    bags: str | None = None


@dataclass(frozen=True)
class Installation:
    """The resources that one run of ``resift install`` created in a cluster. A cluster can have several installations.

    Attributes:
        name: The name of the installation, which is the prefix of all its resources.
        model: The description of the embedding model.
        fields: The names of the text fields that are encoded.
        url: The URL of the service.
        managed: The provider that manages the settings of the cluster, such as Amazon, or None if Resift may change the
            settings itself.
    """

    name: str
    model: ModelDescription
    fields: tuple[str, ...]
    url: str
    managed: ManagedCluster | None = None

    def differences(self, other: Installation) -> list[str]:
        """Describe how this installation differs from another installation.

        Args:
            other: The other installation.

        Returns:
            A line of text for each difference, such as "change the fields from title to title,body".
        """
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
    """Find the installations in a cluster, which ``resift install`` has created, by their index templates.

    Returns:
        A description of each installation, by name.

    Raises:
        EngineUnavailable: If no node answers.
        EngineError: If the cluster refuses the request.
    """
    response = cluster.request("GET", "/_index_template")
    templates = ((entry["name"], entry["index_template"]) for entry in response["index_templates"])
    parsed = (_read_installation(name, template) for name, template in templates)
    return {installation.name: installation for installation in parsed if installation is not None}


def _read_installation(name: str, template: dict[str, Any]) -> Installation | None:
    """Read the description of an installation from its index template.

    Args:
        name: The name of the template.
        template: The body of the template.

    Returns:
        The installation, or None if Resift did not create the template, or if somebody has edited it.
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
            bags=index.get("bags"),
        )
        return Installation(name, model, tuple(index["fields"]), meta["service"], read_managed(meta))
    except (KeyError, TypeError):
        return None


def read_managed(values: Mapping[str, Any]) -> ManagedCluster | None:
    """Return the provider that manages a cluster, such as Amazon OpenSearch Service.

    Args:
        values: The description of an installation, as a JSON object. If a provider manages the cluster, its key
            ``managed`` describes the provider.

    Returns:
        The provider, or None if no provider manages the cluster.
    """
    return ManagedCluster(**values["managed"]) if values.get("managed") else None
