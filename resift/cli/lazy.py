"""Command groups that import a command only when it is used, because opensearch-py alone takes 0.5 s to import."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import click


class LazyGroup(click.Group):
    """A click group that imports the module of a command when the command is first used.

    Args:
        locations: Maps the name of each command to its location, in the form ``module:attribute``.
        entry_point_group: The name of an entry point group, through which other packages can add commands. If None,
            other packages cannot add commands.
    """

    def __init__(
        self,
        *arguments: Any,
        locations: Mapping[str, str] | None = None,
        entry_point_group: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._locations = dict(locations or {})
        self._entry_point_group = entry_point_group

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted. Commands of other packages are included."""
        self._add_entry_points()
        return sorted({*super().list_commands(ctx), *self._locations})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, or None if it does not exist. Its module is imported if necessary."""
        if cmd_name not in self._locations and cmd_name not in self.commands:
            self._add_entry_points()
        if (location := self._locations.pop(cmd_name, None)) is not None:
            module, _, name = location.partition(":")
            self.add_command(getattr(import_module(module), name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def _add_entry_points(self) -> None:
        # Reading the metadata of all installed packages takes some milliseconds, so do it once and only when needed.
        group, self._entry_point_group = self._entry_point_group, None
        for entry in entry_points(group=group) if group else ():
            self._locations.setdefault(entry.name, entry.value)
