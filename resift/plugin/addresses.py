"""Addresses of engines and session stores.

An address is either the URLs of a cluster or the path of a file. The functions of this module tell the two apart, parse
URLs, hide passwords, and recognise hosts that are the local machine.
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
# Signs of a host without http://: a port, a user, a list, or two dots as in a.b.com (file names have a single dot).
_LIKE_HOST = re.compile(r"[:@,]|\..*\.|^localhost/?$")
# A comma separates URLs only if another URL follows: a password may contain commas.
_NEXT_URL = re.compile(r"[\s,]*,[\s,]*(?=\w+://)")
_ADDRESS = "http://HOST:PORT, or several of them separated by commas; in a password write @ as %40 and / as %2F"


@dataclass(frozen=True)
class Node:
    """The address of a node in an OpenSearch cluster.

    Attributes:
        scheme: ``http`` or ``https``.
        host: The host name or IP address.
        port: The port number.
        prefix: A path that is put before the path of every request, such as ``/search``. Empty for most clusters.
        user: The user name in the URL, if any.
        password: The password in the URL, if any.
    """

    scheme: str
    host: str
    port: int
    prefix: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def is_cluster(address: str) -> bool:
    """Return True if an address consists of cluster URLs, and False if it is the path of a file.

    Raises:
        BadInput: If the address is not a string, is empty, or is a malformed URL. Also if it looks like a host without
            ``http://``, because it would otherwise be taken for the name of a file.

    >>> is_cluster("http://127.0.0.1:9200, http://127.0.0.1:9201"), is_cluster("resift.db")
    (True, False)
    """
    if not isinstance(address, str):
        raise BadInput(f"url is {address!r}", value=address, expected="the URL of a cluster or the path of a file")
    address = address.strip(", \t\n")
    if not address:
        raise BadInput("the address is empty", value="", expected="http://HOST:PORT, or a file")
    if "://" in address or address.lower().startswith(("http:", "https:")):
        parse_nodes(address)
        return True
    is_file = _PATH_START.match(address) or address.lower().endswith(_FILE_ENDINGS) or os.path.exists(address)
    if not is_file and _LIKE_HOST.search(address):
        name = without_credentials(address).rstrip("/")
        urls = ",".join(f"http://{part.strip()}" for part in name.split(","))
        raise BadInput(
            f"{name} is neither the URL of a cluster nor clearly the path of a file",
            value=name,
            expected=f"{urls} (or https) for a cluster, ./{name} for a file",
        )
    return False


def parse_nodes(address: str) -> tuple[Node, ...]:
    """Parse the URLs of a cluster, which are separated by commas.

    Raises:
        BadInput: If a part of the address is not an http or https URL.

    >>> [node.host for node in parse_nodes("http://a:9200 , https://anna:secret@b/search")]
    ['a', 'b']
    """
    return tuple(_parse_node(url) for url in _split_urls(address))


def without_credentials(address: str) -> str:
    """Return an address without user names and passwords, so that it can be displayed or logged.

    >>> without_credentials("http://anna:secret@a:9200, http://b:9200")
    'http://a:9200,http://b:9200'
    """
    if _PATH_START.match(address):
        return address
    # Remove everything up to the last @: a password may contain a / or @ that should have been percent-encoded.
    return ",".join(re.sub(r"(?s)^(\w+://|(?=.*:.*@)).*@", r"\1", url) for url in _split_urls(address))


def _split_urls(address: str) -> list[str]:
    return _NEXT_URL.split(address.strip(", \t\n"))


def _parse_node(url: str) -> Node:
    printable = without_credentials(url)
    malformed = BadInput(f"{printable} is not the URL of a cluster", value=printable, expected=_ADDRESS)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        # The text of this exception is dropped because it may quote the password.
        raise malformed from None
    unclear = parts.query or parts.fragment or re.search(r"[\s,@]", f"{host}{parts.path}")
    if parts.scheme not in ("http", "https") or not host or unclear:
        raise malformed
    # 9200 is the default of OpenSearch and opensearch-py. An https URL without a port mostly points to a proxy or a
    # managed service, which listens on 443.
    port = port or (443 if parts.scheme == "https" else 9200)
    return Node(
        scheme=parts.scheme,
        host=host,
        port=port,
        prefix=parts.path.rstrip("/"),
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


@lru_cache(256)  # every HTTP request calls this several times
def host_of(url: str) -> str:
    """Return the host of a URL in lower case and without its port. Return "" if the URL has no host or is malformed.

    >>> host_of("http://LOCALHOST:8080"), host_of("//[::1]:8080"), host_of("null")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address always refers to this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "127.0.0.1.example")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
