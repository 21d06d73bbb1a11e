"""Types of options that name what a command writes: whatever cannot be written is refused before the work begins."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
        if reason := _why_not(path.parent) or (_why_not_over(path) if path.exists() else None):
            self.fail(f"{value!r} cannot be written: {reason}.", param, ctx)
        return str(value)


class NewFolder(ParameterType):
    """A folder that is written, with the folders around it; one that a command of Resift wrote is replaced."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path. Fails, with the reason, where no such folder can be written."""
        path = Path(value)
        if not value or (path.exists() and not path.is_dir()):
            self.fail(f"{value!r} is a file, expected a folder.", param, ctx)
        if path.is_dir() and any(path.iterdir()) and not any(path.glob("*.json")):
            self.fail(f"{value!r} holds other files, expected a new folder, or one that Resift wrote.", param, ctx)
        around = next(folder for folder in path.absolute().parents if folder.exists())
        if not around.is_dir():
            self.fail(f"{value!r} cannot be written: {str(around)!r} is a file.", param, ctx)
        if reason := _why_not(around):
            self.fail(f"{value!r} cannot be written: {reason}.", param, ctx)
        return str(value)


def _why_not(folder: Path) -> str | None:
    """Why no file can be made in a folder; None if one can."""
    # One is made and deleted: what os.access says of permissions is not all that may be in the way.
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _why_not_over(path: Path) -> str | None:
    try:
        path.open("ab").close()
    except OSError as error:
        return error.strerror or str(error)
    return None
