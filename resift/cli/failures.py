"""How commands fail: one message, what was expected instead, and an exit status that says whose fault it is."""

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

FAILED, WRONG_ARGUMENTS, PROBLEMS_FOUND, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143


class Failure(click.ClickException):
    """A message on stderr, and what was expected on a line of its own."""

    def __init__(self, message: str, expected: str | None = None, status: int = FAILED) -> None:
        # one line each, whatever the message quotes
        super().__init__("\n  expected: ".join(" ".join(part.split()) for part in (message, expected) if part))
        self.exit_code = status  # type: ignore[misc]  # click reads it of the object, and calls it a class variable

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, whose first word is red on a terminal."""
        text = f"{click.style('Error:', fg='red', bold=True)} {self.format_message()}"
        click.echo(text, file=file or sys.stderr, color=_colours())


class Resift(LazyGroup):
    """A group whose commands end with a message on stderr and an exit status of this module, however they fail."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Raises ClickException, which prints the message, in place of our errors and the system's.

        Without colours where NO_COLOR is set (https://no-color.org).
        """
        ctx.color = _colours()
        try:
            with _termination():
                return super().invoke(ctx)
        except ResiftError as error:
            # a full disk is no fault of the arguments
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
            if error.errno == errno.EPIPE:  # click ends silently where the reader of a pipe has gone
                raise
            named = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{named}{error.strerror or error}") from error


def _colours() -> bool | None:
    """False where no colours are wanted; None leaves it to whether there is a terminal."""
    return False if os.environ.get("NO_COLOR") else None


@contextmanager
def _termination() -> Iterator[None]:
    """Let SIGTERM end the process as an exception does, so that files are closed and temporary folders deleted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(signum: int, frame: Any) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
