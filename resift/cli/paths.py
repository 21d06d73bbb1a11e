"""Types of options that name what a command writes: whatever cannot be written is refused before the work begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resift.files import file_write_error, folder_write_error

if TYPE_CHECKING:
    ParameterType = click.ParamType[Any]
else:  # older versions of click do not say what a type converts to
    ParameterType = click.ParamType


class NewFile(ParameterType):
    """A file that is written, over an earlier one if there is one; the folder around it has to exist."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path. Fails, with the reason, where no file can be written."""
        path = Path(value)
        if not value or path.is_dir():
            self.fail(f"{value!r} is a folder, expected a file.", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"{value!r} cannot be written: there is no folder {str(path.parent)!r}.", param, ctx)
        denied = "Permission denied" if path.exists() and not os.access(path, os.W_OK) else None
        if reason := file_write_error(path.parent) or denied:
            self.fail(f"{value!r} cannot be written: {reason}.", param, ctx)
        return str(value)


class NewFolder(ParameterType):
    """A folder that is written, with the folders around it; one that a command of Resift wrote is replaced."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path. Fails, with the reason, where no such folder can be written."""
        reason = folder_write_error(Path(value)) if value else "'' is a file, expected a folder"
        if reason:
            self.fail(f"{reason}.", param, ctx)
        return str(value)
