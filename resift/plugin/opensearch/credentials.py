"""Credentials for a cluster: user and password, client certificates, or AWS request signatures."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resift.errors import BadInput, needs_extra
from resift.plugin.addresses import Node

_AWS_SERVICES = ("es", "aoss")
_FILE_VARIABLES = {"ca_certs": "CA_CERTS", "client_cert": "CLIENT_CERT", "client_key": "CLIENT_KEY"}


def credentials(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return the credentials for a cluster, as keyword arguments for the client of opensearch-py.

    Credentials come from the URLs of the nodes and from these environment variables: ``OPENSEARCH_USER``,
    ``OPENSEARCH_PASSWORD`` or ``OPENSEARCH_PASSWORD_FILE``, ``OPENSEARCH_CA_CERTS``, ``OPENSEARCH_CLIENT_CERT``,
    ``OPENSEARCH_CLIENT_KEY``, ``OPENSEARCH_AWS_REGION`` and ``OPENSEARCH_AWS_SERVICE``. A user in a URL takes
    precedence over ``OPENSEARCH_USER``. Error messages never contain a password.

    Args:
        nodes: The addresses of the nodes.

    Raises:
        BadInput: If variables contradict each other, or if a file cannot be read.
        MissingExtra: If requests must be signed for AWS, but botocore is not installed.
    """
    variables = {name.removeprefix("OPENSEARCH_"): value for name, value in os.environ.items() if value}
    settings: dict[str, Any] = {
        keyword: _readable_file(variables, name) for keyword, name in _FILE_VARIABLES.items() if name in variables
    }
    if "client_key" in settings and "client_cert" not in settings:
        raise BadInput(
            "OPENSEARCH_CLIENT_KEY is set without OPENSEARCH_CLIENT_CERT",
            expected="both, or the certificate alone",
        )
    url_users = ((node.user, node.password or "") for node in nodes if node.user is not None)
    user = next(url_users, None) or _environment_user(variables)
    if "AWS_REGION" in variables:
        if user is not None:
            raise BadInput("a user and OPENSEARCH_AWS_REGION are both set", value=user[0], expected="only one of them")
        return {**settings, "http_auth": _aws_signer(variables)}
    if user is not None:
        # opensearch-py's http_auth is not used: it cannot encode passwords beyond Latin-1, and it would send this
        # password together with an Authorization header of the caller.
        token = base64.b64encode(":".join(user).encode()).decode()
        settings["headers"] = {"authorization": f"Basic {token}"}
    return settings


def _environment_user(variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the user and the password from the environment, or None if neither is set.

    The password is in the variable ``PASSWORD``, or in a file that the variable ``PASSWORD_FILE`` names.

    Args:
        variables: The environment variables, by name without the prefix ``OPENSEARCH_``.

    Raises:
        BadInput: If only the user or only a password is set, or if both password variables are set.
    """
    user, password = variables.get("USER"), variables.get("PASSWORD")
    if "PASSWORD_FILE" in variables:
        if password is not None:
            raise BadInput("OPENSEARCH_PASSWORD and OPENSEARCH_PASSWORD_FILE are both set", expected="only one of them")
        password = Path(_readable_file(variables, "PASSWORD_FILE")).read_text("utf-8").rstrip("\r\n")
    if user is None and password is None:
        return None
    if user is None or password is None:
        raise BadInput(
            "OPENSEARCH_USER is set without a password" if user else "a password is set without OPENSEARCH_USER",
            value=user,
            expected="OPENSEARCH_USER, and OPENSEARCH_PASSWORD or OPENSEARCH_PASSWORD_FILE",
        )
    return user, password


def _readable_file(variables: Mapping[str, str], name: str) -> str:
    """Return the file path in an environment variable, after checking that the file can be read.

    Without this check, the first request would fail with an error that does not mention the file.

    Args:
        variables: The environment variables, by name without the prefix ``OPENSEARCH_``.
        name: The name of the variable without the prefix.

    Raises:
        BadInput: If the file cannot be read.
    """
    path = variables[name]
    try:
        Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(
            f"the file in OPENSEARCH_{name}, {path}, cannot be read: {reason}",
            value=path,
            expected="the path of a file",
        ) from error
    return path


def _aws_signer(variables: Mapping[str, str]) -> Any:
    """Return an object that signs requests with AWS Signature Version 4. It finds credentials as the AWS tools do.

    Args:
        variables: The environment variables, by name without the prefix ``OPENSEARCH_``.

    Raises:
        BadInput: If no AWS credentials are configured, or if the AWS service is unknown.
        MissingExtra: If botocore is not installed.
    """
    service = variables.get("AWS_SERVICE", "es")
    if service not in _AWS_SERVICES:
        raise BadInput(f"OPENSEARCH_AWS_SERVICE is {service!r}", value=service, expected=" | ".join(_AWS_SERVICES))
    with needs_extra("aws", "signing requests for AWS"):
        from botocore.session import get_session
    from opensearchpy import Urllib3AWSV4SignerAuth

    aws_credentials = get_session().get_credentials()
    if aws_credentials is None:
        raise BadInput(
            "no AWS credentials are configured",
            expected="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role",
        )
    return Urllib3AWSV4SignerAuth(aws_credentials, variables["AWS_REGION"], service)
