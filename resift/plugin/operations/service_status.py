"""The rows of ``resift doctor`` about the service and about clocks."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.request import urlopen

from resift.contracts.documents import ModelDescription
from resift.plugin.operations.status_row import StatusRow
from resift.version import __version__

# Largest difference between clocks in seconds. AWS refuses signatures that are five minutes old.
_MAX_CLOCK_DIFFERENCE = 30.0
_SERVICE_SECONDS = 3  # time limit for an answer of the service


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


def served_model(url: str) -> ServedModel | None:
    """Ask a service for its embedding model.

    Args:
        url: The URL of the service.

    Returns:
        The model, or None if the service does not answer on this machine.
    """
    with (
        suppress(OSError, ValueError, KeyError, TypeError),
        urlopen(f"{url}/healthz", timeout=_SERVICE_SECONDS) as response,
    ):
        health = json.load(response)
        return ServedModel(health["model"], health["model_hash"])
    return None


def service_rows(url: str, installed_model: ModelDescription | None = None) -> list[StatusRow]:
    """Call the service from this machine, and return rows for ``resift doctor`` about its state and its clock.

    This does not show whether the cluster can reach the service, because the nodes may use another network.

    Args:
        url: The URL of the service.
        installed_model: The model that the service must have, or None for any model.
    """
    started = time.perf_counter()
    try:
        with urlopen(f"{url}/healthz", timeout=_SERVICE_SECONDS) as response:
            health, date = json.load(response), parsedate_to_datetime(response.headers["Date"])
            model, version = health["model_hash"], health["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [StatusRow("service", url, "no answer here", f"resift serve ({getattr(error, 'reason', error)})")]
    passed = time.perf_counter() - started
    if installed_model is not None and model != installed_model.hash:
        state = f"other model {model}"
        installed = f"{installed_model.name} ({installed_model.hash})"
        fix = f"resift serve --model DIR with the installed model {installed}, or change over (docs/upgrade.md)"
    else:
        state, fix = f"{version}, {passed * 1000:.0f} ms", ""
        if version != __version__:
            fix = f"run the same version in both places: this command has version {__version__}"
    # The header Date is truncated to whole seconds.
    difference = abs(date.timestamp() - time.time()) - passed - 1
    return [StatusRow("service", url, state, fix), clock_row(url, difference)]


def clock_row(name: str, difference: float) -> StatusRow:
    """Return the row in the report of ``resift doctor`` about the clock of a cluster or service.

    Args:
        name: The URL of the cluster or service that the clock belongs to.
        difference: The difference from this machine's clock in seconds.
    """
    fix = "" if difference < _MAX_CLOCK_DIFFERENCE else "set the clocks by NTP: sessions and signatures expire by them"
    return StatusRow("clock", name, f"{max(difference, 0):.0f} s apart", fix)
