"""What stands before a cluster that Amazon manages, written from its documentation: a front of a node of our own.

It takes HTTPS requests with a signature (Signature Version 4) alone, changes no setting of the cluster that is not on
its list, and makes connectors only for HTTPS endpoints with the ARN of a secret and of a role. It puts the secret's
value in its place, as the domain does, and reads no parameters of a POST that is signed.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ACCESS, SECRET, REGION = "AKIDEXAMPLE", "secret", "eu-north-1"
# of those that its documentation lists, all that are a cluster's and can be set to anything
_MAY_BE_SET = ("action.auto_create_index", "cluster.max_shards_per_node", "indices.breaker.", "search.max_buckets")
_ANONYMOUS = "User: anonymous is not authorized to perform: es:ESHttp{} because no resource-based policy allows it"
_WRONG = "The request signature we calculated does not match the signature you provided."


class Front:
    """HTTPS at ``url`` with a certificate of one's own, for the server at ``target``; ``requests`` are what came."""

    def __init__(self, target: str, certificate: Path, key: Path) -> None:
        self.target, self.requests = target, list[tuple[str, str]]()
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

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
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer: the server's behind it."""
        parts = urlsplit(self.target)
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        kept = {name: headers[name] for name in ("Content-Type", "Authorization", "X-Api-Key") if name in headers}
        connection.request(method, path, body or None, kept)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def close(self) -> None:
        """End it."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class ManagedDomain(Front):
    """A domain over the node at ``target``: ``secrets`` by their ARNs, and ``endpoints``, of HTTPS, as the node, which
    does not trust our certificates, reaches them without."""

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
        """The requests for settings of the cluster that came."""
        return [one for one in self.requests if one[1].startswith("/_cluster/settings") and one[0] in methods]

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
        """The header that AWS's own library makes of the request."""
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
            if not any(action["url"].startswith(f"{one}/") for one in self.endpoints):
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
