"""Error handling of commands: each failure prints a message and sets an exit status that tells its cause."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from resift.cli.lazy import LazyGroup
from resift.errors import BadInput, ModelMismatch, NotFound, ResiftError, shorten

# Exit statuses.
FAILED = 1
WRONG_ARGUMENTS = 2
PROBLEMS_FOUND = 3  # the command finished, but reported a problem
INTERRUPTED = 130  # by Ctrl-C
TERMINATED = 143  # by SIGTERM


class Failure(click.ClickException):
    """An error with a message and, on a second line, what was expected.

    Args:
        message: The message.
        expected: What was expected, or None.
        status: The exit status of the command.
    """

    def __init__(self, message: str, expected: str | None = None, status: int = FAILED) -> None:
        # Join lines, because the message may quote text with line breaks.
        super().__init__("\n  expected: ".join(" ".join(part.split()) for part in (message, expected) if part))
        # click reads exit_code from the instance, but declares it as a class variable.
        self.exit_code = status  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to stderr. "Error:" is red on a terminal."""
        text = f"{click.style('Error:', fg='red', bold=True)} {self.format_message()}"
        click.echo(text, file=file or sys.stderr, color=_colours())


class Resift(LazyGroup):
    """A command group. If a command fails, it prints the error to stderr and exits with a status of this module."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, without colours if NO_COLOR is set (https://no-color.org).

        Raises:
            ClickException: If the command raises an error of Resift or of the operating system. click then prints the
                message and exits.
        """
        ctx.color = _colours()
        try:
            with _termination():
                return super().invoke(ctx)
        except ResiftError as error:
            # A full disk is not an error of the arguments.
            is_full = getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
            wrong = isinstance(error, (BadInput, NotFound, ModelMismatch)) and not is_full
            message = str(shorten(error.message, 2000))
            raise Failure(message, error.expected, WRONG_ARGUMENTS if wrong else FAILED) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except MemoryError as error:
            raise Failure(f"not enough memory: {error}", "smaller numbers or less data") from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # click exits silently if the reader of a pipe is closed
                raise
            file = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{file}{error.strerror or error}") from error


def _colours() -> bool | None:
    """Return False if NO_COLOR is set. Otherwise return None, so that click decides whether to use colours."""
    return False if os.environ.get("NO_COLOR") else None


@contextmanager
def _termination() -> Iterator[None]:
    """Raise an exception inside a ``with`` block when the process receives SIGTERM.

    The exception makes sure that files are closed and temporary folders are deleted before the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(signum: int, frame: Any) -> None:
        raise SystemExit(TERMINATED)

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
