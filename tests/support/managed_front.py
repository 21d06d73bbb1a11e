"""A server that behaves like a domain of Amazon OpenSearch Service according to its documentation, in front of a node.

The server

- only accepts HTTPS requests that are signed with Signature Version 4,
- only allows changes of some cluster settings,
- only creates connectors to HTTPS endpoints, with the ARNs of a secret and a role, and replaces references to the
  secret by its values,
- ignores the query parameters of signed POST requests.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from listening import running

ACCESS, SECRET, REGION = "AKIDEXAMPLE", "secret", "eu-north-1"
# The cluster settings that the documentation allows, without settings that only allow certain values. Names that end in
# a dot are prefixes.
_MAY_BE_SET = ("action.auto_create_index", "cluster.max_shards_per_node", "indices.breaker.", "search.max_buckets")
_ANONYMOUS = "User: anonymous is not authorized to perform: es:ESHttp{} because no resource-based policy allows it"
_WRONG = "The request signature we calculated does not match the signature you provided."


class Front:
    """An HTTPS server that forwards requests to another server.

    Args:
        target: The URL of the other server.
        certificate: The certificate of the HTTPS server.
        key: Its private key.

    Attributes:
        url: The address of the HTTPS server.
        requests: Method and path of each request so far.
    """

    def __init__(self, target: str, certificate: Path, key: Path) -> None:
        self.target, self.requests = target, list[tuple[str, str]]()
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Otherwise the body of a response waits 40 ms until the client acknowledges the headers.
            disable_nagle_algorithm = True

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                front.requests.append((self.command, self.path))
                status, answer = front.answer(self.command, self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}"
        self._stop = ExitStack()
        self._stop.enter_context(running(self.server))

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Forward a request, and return the status and the body of the response."""
        parts = urlsplit(self.target)
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        forwarded = {name: headers[name] for name in ("Content-Type", "Authorization", "X-Api-Key") if name in headers}
        connection.request(method, path, body or None, forwarded)
        answer = connection.getresponse()
        result = answer.status, answer.read()
        connection.close()
        return result

    def close(self) -> None:
        """Stop the server."""
        self._stop.close()


class ManagedDomain(Front):
    """A server that restricts requests to a node, as Amazon OpenSearch Service does.

    Args:
        target: The URL of the node.
        certificate: The certificate of the HTTPS server.
        key: Its private key.
        secrets: The values of secrets by ARN.
        endpoints: HTTPS endpoints for connectors → their addresses without HTTPS. The node calls these, because it does
            not trust the tests' certificates.

    Attributes:
        refused: The error message of each refused request.
    """

    def __init__(
        self, target: str, certificate: Path, key: Path, secrets: Mapping[str, Any], endpoints: Mapping[str, str]
    ) -> None:
        super().__init__(target, certificate, key)
        self.secrets, self.endpoints, self.refused = secrets, endpoints, list[str]()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        refusal = self._refusal(method, path, headers, body)
        if refusal:
            self.refused.append(refusal)
            return 403, json.dumps({"Message": refusal}).encode()
        if method == "POST" and "?" in path:
            path = path.partition("?")[0]
        if path == "/_plugins/_ml/connectors/_create":
            body = self._resolved(json.loads(body))
        unsigned = {"Content-Type": headers.get("content-type", headers.get("Content-Type", "application/json"))}
        return super().answer(method, path, unsigned, body)

    def settings_asked(self, *methods: str) -> list[tuple[str, str]]:
        """Return method and path of each request for cluster settings with one of these methods."""
        return [
            request
            for request in self.requests
            if request[1].startswith("/_cluster/settings") and request[0] in methods
        ]

    def _refusal(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> str:
        sent = {name.lower(): value for name, value in headers.items()}
        if not sent.get("authorization", "").startswith("AWS4-HMAC-SHA256 "):
            return _ANONYMOUS.format(method.title())
        if sent["authorization"] != self._signed(method, path, sent, body):
            return _WRONG
        if path.startswith("/_cluster/settings") and method == "PUT":
            named = [name for values in json.loads(body).values() for name in values]
            if not all(name.startswith(_MAY_BE_SET) for name in named):
                return "Your request: '/_cluster/settings' payload is not allowed."
        if path == "/_plugins/_ml/connectors/_create":
            return self._no_connector(json.loads(body))
        return ""

    def _signed(self, method: str, path: str, sent: Mapping[str, str], body: bytes) -> str:
        """Return the Authorization header that AWS's own library creates for the request."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        names = sent["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        headers = {name: sent[name] for name in names}
        request = AWSRequest(method, f"https://{sent['host']}{path}", headers=headers, data=body)
        signer = SigV4Auth(Credentials(ACCESS, SECRET), "es", REGION)
        request.context["timestamp"] = sent["x-amz-date"]
        signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        scope = f"{ACCESS}/{sent['x-amz-date'][:8]}/{REGION}/es/aws4_request"
        return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={';'.join(names)}, Signature={signature}"

    def _no_connector(self, connector: dict[str, Any]) -> str:
        credential = connector.get("credential") or {}
        if set(credential) != {"secretArn", "roleArn"} or credential["secretArn"] not in self.secrets:
            return "A connector needs the secretArn of a secret, and the roleArn of a role that may read it."
        for action in connector["actions"]:
            if not any(action["url"].startswith(f"{endpoint}/") for endpoint in self.endpoints):
                return f"Connector URL is not matching the trusted connector endpoint regex, URL is: {action['url']}"
            if not action["headers"]["Authorization"].startswith("Bearer ${credential.secretArn."):
                return "The headers name no value of the secret."
        return ""

    def _resolved(self, connector: dict[str, Any]) -> bytes:
        values = self.secrets[connector["credential"]["secretArn"]]
        text = json.dumps({**connector, "credential": values}).replace("${credential.secretArn.", "${credential.")
        for there, here in self.endpoints.items():
            text = text.replace(f"{there}/", f"{here}/")
        return text.encode()
