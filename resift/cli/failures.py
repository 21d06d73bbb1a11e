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
    """An error that click prints to the user before the command exits.

    Args:
        message: A description of the error.
        expected: The expected value or state, which is printed on a second line, or None.
        status: The exit status of the command.
    """

    def __init__(self, message: str, expected: str | None = None, status: int = FAILED) -> None:
        # Join lines, because the message may quote text with line breaks.
        super().__init__("\n  expected: ".join(" ".join(part.split()) for part in (message, expected) if part))
        # click reads exit_code from the instance, but declares it as a class variable.
        self.exit_code = status  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error message, by default to stderr. The word "Error:" is red on a terminal."""
        text = f"{click.style('Error:', fg='red', bold=True)} {self.format_message()}"
        click.echo(text, file=file or sys.stderr, color=_colours())


class ResiftGroup(LazyGroup):
    """A click command group that turns Resift's exceptions into error messages and exit statuses.

    If a command fails, the group prints the error to stderr. The exit status tells the user the cause of the failure.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and convert its exceptions to errors that click can print.

        The output has no colours if the environment variable NO_COLOR is set (https://no-color.org).

        Args:
            ctx: The click context of the command.

        Raises:
            ClickException: If the command raises an error of Resift or of the operating system. click then prints the
                message and exits.
        """
        ctx.color = _colours()
        try:
            with _exit_on_sigterm():
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
    """Return False if the environment variable NO_COLOR is set. Otherwise return None, so that click chooses."""
    return False if os.environ.get("NO_COLOR") else None


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Return a context manager that raises SystemExit in its ``with`` block when the process receives SIGTERM.

    Without this exception, the process would end at once, and leave files open and temporary folders behind.
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
