"""What a cluster is told of who asks: recorded by a local server that stands for nothing but the wire."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from listening import running

from resift.errors import BadInput
from resift.plugin.opensearch.engine import OpenSearchEngine

Requests = list[tuple[str, list[tuple[str, str]], bytes]]


class Recorder(BaseHTTPRequestHandler):
    """Notes each request and answers as a node does that is asked for its version."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.path, list(self.headers.items()), body))  # type: ignore[attr-defined]
        known = {"version": {"number": "3.6.0", "distribution": "opensearch"}, "hits": {"hits": []}}
        answer = json.dumps({} if "/_settings/" in self.path else known).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def server(here: Path) -> Iterator[HTTPServer]:
    """Start a server that records requests, and yield it. Its attribute ``requests`` contains the requests."""
    # threads, since one that waits for the next request of a connection would hold up the end
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.requests = []  # type: ignore[attr-defined]
    with running(server):
        yield server


def received_requests(
    server: HTTPServer, url: str = "http://127.0.0.1:{}", headers: dict[str, str] | None = None
) -> Requests:
    """Run a search with a caller's headers, and return the requests that the server received."""
    with closing(OpenSearchEngine(url.format(server.server_port))) as engine:
        engine.search("news", {"query": {"match_all": {}}}, headers=headers)
    requests: Requests = server.requests  # type: ignore[attr-defined]
    return requests


def authorization_headers(requests: Requests) -> list[str]:
    """Return the values of the Authorization headers of the last request."""
    return [value for name, value in requests[-1][1] if name.lower() == "authorization"]


def basic_header(user: str, password: str) -> str:
    """Return the value of the Authorization header for a user and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_user_and_password_come_from_the_url_or_the_environment(
    server: HTTPServer, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert authorization_headers(received_requests(server)) == []
    assert authorization_headers(received_requests(server, "http://anna:p%40ß@127.0.0.1:{}")) == [
        basic_header("anna", "p@ß")
    ]
    assert authorization_headers(received_requests(server, "http://anna@127.0.0.1:{}")) == [basic_header("anna", "")]
    monkeypatch.setenv("OPENSEARCH_USER", "otto")
    monkeypatch.setenv("OPENSEARCH_PASSWORD", "東京:€")
    assert authorization_headers(received_requests(server)) == [basic_header("otto", "東京:€")]
    assert authorization_headers(received_requests(server, "http://anna:x@127.0.0.1:{}")) == [basic_header("anna", "x")]
    monkeypatch.delenv("OPENSEARCH_PASSWORD")
    (here / "password").write_text("from a file\n")
    monkeypatch.setenv("OPENSEARCH_PASSWORD_FILE", "password")
    assert authorization_headers(received_requests(server)) == [basic_header("otto", "from a file")]


def test_a_callers_authorization_replaces_the_services(server: HTTPServer) -> None:
    own = basic_header("caller", "own")
    for name in ("Authorization", "authorization"):
        assert authorization_headers(received_requests(server, "http://anna:x@127.0.0.1:{}", {name: own})) == [own]


@pytest.mark.parametrize("service", ["es", "aoss"])
def test_requests_are_signed_for_aws(server: HTTPServer, monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    pytest.importorskip("botocore")
    settings = {"OPENSEARCH_AWS_REGION": "eu-north-1", "OPENSEARCH_AWS_SERVICE": service}
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    for name, value in {**settings, **keys}.items():
        monkeypatch.setenv(name, value)
    path, headers, body = received_requests(server)[-1]
    sent = {name.lower(): value for name, value in headers}
    assert sent["authorization"] == _signature(path, sent, body, f"eu-north-1/{service}")
    assert sent["x-amz-security-token"] == "token"
    with pytest.raises(BadInput, match="Authorization cannot be passed on"):
        received_requests(server, headers={"Authorization": basic_header("caller", "own")})


def _signature(path: str, headers: dict[str, str], body: bytes, scope: str) -> str:
    """AWS's Signature Version 4, computed from its description."""

    def mac(key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    assert headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
    signed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    lines = "".join(f"{name}:{headers[name]}\n" for name in signed.split(";"))
    canonical = f"POST\n{path}\n\n{lines}\n{signed}\n{headers['x-amz-content-sha256']}"
    stamp, (region, service) = headers["x-amz-date"], scope.split("/")
    whole = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{whole}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4secret"
    for part in whole.split("/"):
        key = mac(key, part)
    return f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{whole}, SignedHeaders={signed}, Signature={mac(key, text).hex()}"


@pytest.fixture
def certificate(here: Path) -> str:
    """A certificate that signs itself, with its key, for the server, the client and the authority alike."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command, *names], cwd=here, check=True, capture_output=True)
    return str(here / "cert.pem")


def test_a_client_certificate_is_sent(
    server: HTTPServer, here: Path, certificate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, here / "key.pem")
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("OPENSEARCH_CA_CERTS", certificate)
    monkeypatch.setenv("OPENSEARCH_CLIENT_CERT", certificate)
    monkeypatch.setenv("OPENSEARCH_CLIENT_KEY", str(here / "key.pem"))
    assert received_requests(server, "https://127.0.0.1:{}")[-1][0] == "/news/_search"


@pytest.mark.parametrize(
    "variables",
    [
        {"USER": "anna"},
        {"PASSWORD": "secret"},
        {"USER": "anna", "PASSWORD": "secret", "PASSWORD_FILE": "file"},
        {"USER": "anna", "PASSWORD_FILE": "missing"},
        {"CA_CERTS": "missing"},
        {"CLIENT_KEY": "file"},
        {"CLIENT_CERT": "binary"},
        {"AWS_REGION": "eu-north-1", "AWS_SERVICE": "s3"},
        {"AWS_REGION": "eu-north-1", "USER": "anna", "PASSWORD": "secret"},
    ],
    ids=" ".join,
)
def test_contradictory_credentials_are_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    (here / "file").write_text("x")
    (here / "binary").write_bytes(b"\xff\x00")
    for name, value in variables.items():
        monkeypatch.setenv(f"OPENSEARCH_{name}", value)
    with pytest.raises(BadInput) as caught:
        OpenSearchEngine("http://127.0.0.1:1")
    assert "secret" not in str(caught.value.to_dict())
    assert caught.value.expected
