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
