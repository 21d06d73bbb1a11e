"""Groups that import a command only once it is asked for: opensearch-py alone takes half a second."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of commands, some of which are ``lazy``: by their names where they are, as ``module:name``."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command; None if there is none of this name."""
        if (place := self._lazy.pop(cmd_name, None)) is not None:
            module, _, name = place.partition(":")
            self.add_command(getattr(import_module(module), name), cmd_name)
        return super().get_command(ctx, cmd_name)
