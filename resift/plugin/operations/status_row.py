"""The rows of the report of ``resift doctor``."""

from __future__ import annotations

from dataclasses import dataclass

INSTALL = "resift install"  # the advice for everything that an installation repairs


@dataclass(frozen=True)
class StatusRow:
    """A row in the report of ``resift doctor``, which describes the state of something that Resift needs in a cluster.

    Attributes:
        kind: The kind of the checked object, such as ``cluster``, ``setting`` or ``index``.
        name: The name of the object.
        state: A description of the state.
        fix: Advice on how to repair the object, or an empty string if there is nothing to repair.
    """

    kind: str
    name: str
    state: str
    fix: str = ""

    @property
    def in_order(self) -> bool:
        """Whether there is nothing to repair."""
        return not self.fix


def key_advice(error: str, is_native: bool, service: str = "") -> str:
    """Return how to give the nodes an API key, if the service answers but refuses their calls because of the key.

    Args:
        error: The error of a call of the service by a node.
        is_native: Whether Resift's native plugin calls the service. Otherwise, a connector of ML Commons does.
        service: The URL of the service if ``resift install`` must state it.

    Returns:
        The advice, or an empty string for other errors.

    >>> key_advice("this request needs an API key (401)", is_native=False)
    'resift install --key KEY, with an API key of the scope embed'
    """
    if "API key" not in error.split("; ")[0]:  # the most important reason comes first
        return ""
    if is_native:
        return "add an API key of the scope embed to the keystore of each node"
    option = f" --service {service}" if service else ""
    return f"{INSTALL}{option} --key KEY, with an API key of the scope embed"
