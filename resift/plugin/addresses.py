"""Addresses of engines and stores: a cluster's URLs or a file's path, told apart, checked, shown without passwords; and
which hosts are this machine.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from resift.errors import BadInput

_FILE_ENDINGS = (".db", ".sqlite", ".sqlite3")
_PATH_START = re.compile(r":memory:|[/.~\\]|[A-Za-z]:[\\/]")
_LIKE_HOST = re.compile(r"[:@,]|\..*\.|^localhost/?$")  # a port, a user, several; a.b.com: files have one ending
_NEXT_URL = re.compile(r"[\s,]*,[\s,]*(?=\w+://)")  # a comma alone may stand in a password
_ADDRESS = "http://HOST:PORT, or several of them separated by commas; in a password @ is %40, and / is %2F"


@dataclass(frozen=True)
class Node:
    """The address of one node of a cluster; ``prefix`` is a path that its requests begin with."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def is_cluster(address: str) -> bool:
    """Whether an address is that of a cluster; if not, it is the path of a file.

    Raises BadInput for an address that is neither: a URL that is malformed, or a host without http://, which would
    quietly become a file of that name.

    >>> is_cluster("http://127.0.0.1:9200, http://127.0.0.1:9201"), is_cluster("resift.db")
    (True, False)
    """
    if not isinstance(address, str):
        raise BadInput(f"url is {address!r}", value=address, expected="a cluster's URL or a file, as a text")
    address = address.strip(", \t\n")
    if not address:
        raise BadInput("no address", value="", expected="http://HOST:PORT, or a file")
    if "://" in address or address.lower().startswith(("http:", "https:")):
        nodes_of(address)
        return True
    is_file = _PATH_START.match(address) or address.lower().endswith(_FILE_ENDINGS) or os.path.exists(address)
    if not is_file and _LIKE_HOST.search(address):
        name = without_credentials(address).rstrip("/")
        expected = ",".join(f"http://{part.strip()}" for part in name.split(","))
        raise BadInput(
            f"{name} is neither the URL of a cluster nor clearly a file",
            value=name,
            expected=f"{expected} (or https) for a cluster, ./{name} for a file",
        )
    return False


def nodes_of(address: str) -> tuple[Node, ...]:
    """The nodes that the URLs of an address name. Raises BadInput for what is no http or https URL.

    >>> [node.host for node in nodes_of("http://a:9200 , https://anna:secret@b/search")]
    ['a', 'b']
    """
    return tuple(_node(url) for url in _urls(address))


def without_credentials(address: str) -> str:
    """An address as it may be printed: without users and passwords.

    >>> without_credentials("http://anna:secret@a:9200, http://b:9200")
    'http://a:9200,http://b:9200'
    """
    if _PATH_START.match(address):
        return address
    # Up to the last @, wherever it stands: a password may hold / or @ that should have been percent-encoded.
    return ",".join(re.sub(r"(?s)^(\w+://|(?=.*:.*@)).*@", r"\1", url) for url in _urls(address))


def _urls(address: str) -> list[str]:
    return _NEXT_URL.split(address.strip(", \t\n"))


def _node(url: str) -> Node:
    shown = without_credentials(url)
    malformed = BadInput(f"{shown} is not the URL of a cluster", value=shown, expected=_ADDRESS)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        # Without the error's own text, which quotes the part that may be a password.
        raise malformed from None
    unclear = parts.query or parts.fragment or re.search(r"[\s,@]", f"{host}{parts.path}")
    if parts.scheme not in ("http", "https") or not host or unclear:
        raise malformed
    # OpenSearch's own port, as opensearch-py has it; https without a port mostly is a proxy or a managed service.
    port = port or (443 if parts.scheme == "https" else 9200)
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    return Node(parts.scheme, host, port, parts.path.rstrip("/"), user, password)


@lru_cache(256)  # each request asks for its own, several times
def host_of(url: str) -> str:
    """The host of a URL in lower case, without its port; "" if there is none, or it is malformed.

    >>> host_of("http://LOCALHOST:8080"), host_of("//[::1]:8080"), host_of("null")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether a host is this machine, and no other machine can be meant by it.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "127.0.0.1.example")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
