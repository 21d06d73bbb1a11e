"""What a cluster is told of who asks: a user and a password, client certificates, or signatures for AWS."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resift.errors import BadInput, needs_extra
from resift.plugin.addresses import Node

_AWS_SERVICES = ("es", "aoss")
_FILES = {"ca_certs": "CA_CERTS", "client_cert": "CLIENT_CERT", "client_key": "CLIENT_KEY"}


def credentials(nodes: Sequence[Node]) -> dict[str, Any]:
    """The settings of opensearch-py's connections for the credentials of a cluster's ``nodes`` and the environment.

    The first user in the address wins over OPENSEARCH_USER. The other variables are OPENSEARCH_PASSWORD or
    OPENSEARCH_PASSWORD_FILE, OPENSEARCH_CA_CERTS, OPENSEARCH_CLIENT_CERT, OPENSEARCH_CLIENT_KEY,
    OPENSEARCH_AWS_REGION and OPENSEARCH_AWS_SERVICE. Raises BadInput for what does not fit together, or a file that
    cannot be read, and MissingExtra if botocore is needed and not installed. No error quotes a password.
    """
    given = {name.removeprefix("OPENSEARCH_"): value for name, value in os.environ.items() if value}
    settings: dict[str, Any] = {key: _file(given, name) for key, name in _FILES.items() if name in given}
    if "client_key" in settings and "client_cert" not in settings:
        raise BadInput(
            "OPENSEARCH_CLIENT_KEY without OPENSEARCH_CLIENT_CERT", expected="both, or the certificate alone"
        )
    named = ((node.user, node.password or "") for node in nodes if node.user is not None)
    user = next(named, None) or _user_of_environment(given)
    if "AWS_REGION" in given:
        if user is not None:
            raise BadInput("a user and OPENSEARCH_AWS_REGION", value=user[0], expected="one of the two")
        return {**settings, "http_auth": _aws_signer(given)}
    if user is not None:
        # Not opensearch-py's http_auth: it knows no password beyond Latin-1, and sends it beside a caller's own.
        token = base64.b64encode(":".join(user).encode()).decode()
        settings["headers"] = {"authorization": f"Basic {token}"}
    return settings


def _user_of_environment(given: Mapping[str, str]) -> tuple[str, str] | None:
    user, password = given.get("USER"), given.get("PASSWORD")
    if "PASSWORD_FILE" in given:
        if password is not None:
            raise BadInput("OPENSEARCH_PASSWORD and OPENSEARCH_PASSWORD_FILE", expected="one of the two")
        password = Path(_file(given, "PASSWORD_FILE")).read_text("utf-8").rstrip("\r\n")
    if user is None and password is None:
        return None
    if user is None or password is None:
        raise BadInput(
            "OPENSEARCH_USER without a password" if user else "a password without OPENSEARCH_USER",
            value=user,
            expected="OPENSEARCH_USER, and OPENSEARCH_PASSWORD or OPENSEARCH_PASSWORD_FILE",
        )
    return user, password


def _file(given: Mapping[str, str], name: str) -> str:
    """The path in a variable, of a file that can be read: else the first request would fail, without a word of it."""
    path = given[name]
    try:
        Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(
            f"OPENSEARCH_{name} is {path}, which cannot be read: {reason}", value=path, expected="the path of a file"
        ) from error
    return path


def _aws_signer(given: Mapping[str, str]) -> Any:
    """What signs requests by AWS's Signature Version 4, with the credentials that AWS's own tools would use."""
    service = given.get("AWS_SERVICE", "es")
    if service not in _AWS_SERVICES:
        raise BadInput(f"OPENSEARCH_AWS_SERVICE is {service!r}", value=service, expected=" | ".join(_AWS_SERVICES))
    with needs_extra("aws", "signing requests for AWS"):
        from botocore.session import get_session
    from opensearchpy import Urllib3AWSV4SignerAuth

    found = get_session().get_credentials()
    if found is None:
        raise BadInput(
            "no AWS credentials", expected="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role"
        )
    return Urllib3AWSV4SignerAuth(found, given["AWS_REGION"], service)
