"""The rows of the report of ``resift doctor``."""

from __future__ import annotations

from dataclasses import dataclass

INSTALL = "resift install"  # the advice for everything that an installation repairs


@dataclass(frozen=True)
class StatusRow:
    """The state of a part of an installation.

    Attributes:
        kind: Kind of the part, such as ``cluster``, ``setting`` or ``index``.
        name: Name of the part.
        state: State of the part, in English.
        fix: Advice on how to repair it, or "" if it is in order.
    """

    kind: str
    name: str
    state: str
    fix: str = ""

    @property
    def in_order(self) -> bool:
        """Whether there is nothing to repair."""
        return not self.fix
