"""Parameter types for files and folders that a command writes. They check write access before the work starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resift.files import file_write_error, folder_write_error

if TYPE_CHECKING:
    ParameterType = click.ParamType[Any]
else:  # in older versions of click, ParamType is not generic
    ParameterType = click.ParamType


class NewFile(ParameterType):
    """A parameter type for the path of a file to write. The file may exist already. Its folder must exist."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path. Fail with the reason if the file cannot be written."""
        path = Path(value)
        if not value or path.is_dir():
            self.fail(f"{value!r} is a folder, expected a file.", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"{value!r} cannot be written: the folder {str(path.parent)!r} does not exist.", param, ctx)
        denied = "Permission denied" if path.exists() and not os.access(path, os.W_OK) else None
        if reason := file_write_error(path.parent) or denied:
            self.fail(f"{value!r} cannot be written: {reason}.", param, ctx)
        return str(value)


class NewFolder(ParameterType):
    """A parameter type for the path of a folder to write. Parent folders are created.

    An existing folder may only be replaced if a Resift command has written it.
    """

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path. Fail with the reason if the folder cannot be written."""
        reason = folder_write_error(Path(value)) if value else "'' is a file, expected a folder"
        if reason:
            self.fail(f"{reason}.", param, ctx)
        return str(value)
