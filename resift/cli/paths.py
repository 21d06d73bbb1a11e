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
    """A click parameter type for the path of an output file.

    The file itself may be missing or may already exist, but its folder must exist and must be writable.
    """

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that the file can be written, and return its path.

        Args:
            value: The path from the command line.
            param: The parameter, for the error message.
            ctx: The click context, for the error message.

        Raises:
            click.BadParameter: If the file cannot be written. The message says why.
        """
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
    """A click parameter type for the path of an output folder. Parent folders are created if necessary.

    An existing folder is accepted only if a Resift command created it, so that no other folder is overwritten.
    """

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that the folder can be created or replaced, and return its path.

        Args:
            value: The path from the command line.
            param: The parameter, for the error message.
            ctx: The click context, for the error message.

        Raises:
            click.BadParameter: If the folder cannot be created or replaced. The message says why.
        """
        reason = folder_write_error(Path(value)) if value else "'' is a file, expected a folder"
        if reason:
            self.fail(f"{reason}.", param, ctx)
        return str(value)
