"""The rows of ``resift doctor`` about the service and about clocks."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from resift.contracts.documents import ModelDescription
from resift.plugin.operations.status_row import StatusRow
from resift.version import __version__

# Largest difference between clocks in seconds. AWS refuses signatures that are five minutes old.
_MAX_CLOCK_DIFFERENCE = 30.0
_SERVICE_SECONDS = 3.0  # time limit for an answer of the service
_OTHER_SERVICE = "the answer is not from a Resift service"
_HTTP_ERROR = "HTTP status"


@dataclass(frozen=True)
class ServedModel:
    """The embedding model of a running service.

    Attributes:
        name: The name of the model.
        hash: The hash of the model.
    """

    name: str
    hash: str

    def __str__(self) -> str:
        return f"{self.name} ({self.hash})"


@dataclass(frozen=True)
class Health:
    """The answer of a service to a health check.

    Attributes:
        state: The JSON object that the service returned, or None if there is none.
        date: The time of the answer, by the clock of the service. None if the answer does not state it.
        error: The reason why there is no JSON object, or an empty string.
    """

    state: dict[str, Any] | None
    date: datetime | None = None
    error: str = ""


def read_health(url: str, seconds: float = _SERVICE_SECONDS) -> Health:
    """Call the health check of a service from this machine. This never fails, even if another program has the address.

    Args:
        url: The URL of the service.
        seconds: The time limit for the answer.
    """
    try:
        with urlopen(f"{url}/healthz", timeout=seconds) as response:
            state, date = json.load(response), response.headers["Date"]
    except HTTPError as error:
        return Health(None, error=f"{_HTTP_ERROR} {error.code}: {error.reason}")
    except OSError as error:
        return Health(None, error=str(getattr(error, "reason", error)))
    except (HTTPException, ValueError) as error:
        # The message may contain the first line of the answer. repr() escapes its control characters.
        return Health(None, error=f"{_OTHER_SERVICE}: {error!r}")
    if not isinstance(state, dict):
        return Health(None, error=_OTHER_SERVICE)
    try:
        return Health(state, parsedate_to_datetime(date))
    except (TypeError, ValueError):  # the header is missing, or is not a date
        return Health(state)


def is_other_program(url: str) -> bool:
    """Return whether an address answers this machine, but not as Resift's service answers a health check.

    Args:
        url: The URL of the service.
    """
    return read_health(url).error.startswith((_OTHER_SERVICE, _HTTP_ERROR))


def served_model(url: str) -> ServedModel | None:
    """Ask a service for its embedding model.

    Args:
        url: The URL of the service.

    Returns:
        The model, or None if no Resift service answers on this machine.
    """
    state = read_health(url).state or {}
    name, model_hash = state.get("model"), state.get("model_hash")
    return ServedModel(name, model_hash) if isinstance(name, str) and isinstance(model_hash, str) else None


def service_rows(url: str, installed_model: ModelDescription | None = None) -> list[StatusRow]:
    """Call the service from this machine, and return rows for ``resift doctor`` about its state and its clock.

    This does not show whether the cluster can reach the service, because the nodes may use another network.

    Args:
        url: The URL of the service.
        installed_model: The model that the service must have, or None for any model.
    """
    started = time.perf_counter()
    health = read_health(url)
    passed = time.perf_counter() - started
    state = health.state or {}
    model, version = state.get("model_hash"), state.get("version")
    if model is None or version is None or health.date is None:
        port = urlsplit(url).port
        option = "" if port is None else f" --port {port}"
        return [StatusRow("service", url, "no answer here", f"resift serve{option} ({health.error or _OTHER_SERVICE})")]
    if installed_model is not None and model != installed_model.hash:
        status = f"other model {model}"
        installed = f"{installed_model.name} ({installed_model.hash})"
        fix = f"resift serve --model DIR with the installed model {installed}, or change over (docs/upgrade.md)"
    else:
        status, fix = f"{version}, {passed * 1000:.0f} ms", ""
        if version != __version__:
            fix = f"run the same version in both places: this command has version {__version__}"
    # The header Date is truncated to whole seconds.
    difference = abs(health.date.timestamp() - time.time()) - passed - 1
    return [StatusRow("service", url, status, fix), clock_row(url, difference)]


def clock_row(name: str, difference: float) -> StatusRow:
    """Return the row in the report of ``resift doctor`` about the clock of a cluster or service.

    Args:
        name: The URL of the cluster or service that the clock belongs to.
        difference: The difference from this machine's clock in seconds.
    """
    fix = "" if difference < _MAX_CLOCK_DIFFERENCE else "set the clocks by NTP: sessions and signatures expire by them"
    return StatusRow("clock", name, f"{max(difference, 0):.0f} s apart", fix)
