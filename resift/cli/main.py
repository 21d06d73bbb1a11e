"""The command line. ``resift COMMAND --help`` explains each command; this module only puts them together."""

from __future__ import annotations

from typing import Any

import click

from resift.cli import cluster, demo, documents, serve, vectors, word2doc
from resift.cli.evaluate import evaluate
from resift.cli.sessions import sessions
from resift.cli.train import train
from resift.cli.train_judged import emboost_command, reranker_command
from resift.cli.train_self import self_command
from resift.errors import ResiftError
from resift.version import __version__


class Resift(click.Group):
    """A group whose commands end with a message on stderr and exit status 1 for each of our errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Raises ClickException, which prints the message, in place of ResiftError."""
        try:
            return super().invoke(ctx)
        except ResiftError as error:
            expected = f"\n  expected: {error.expected}" if error.expected else ""
            raise click.ClickException(f"{error.message}{expected}") from error


@click.group(cls=Resift, epilog="Example: resift index corpus.jsonl --index news && resift serve")
@click.version_option(__version__, prog_name="resift")
def main() -> None:
    """Meaning at BM25's cost and session feedback for OpenSearch."""


for command in (
    documents.index,
    documents.verify,
    documents.encode,
    vectors.vectors,
    vectors.build,
    train,
    evaluate,
    serve.serve,
    serve.reranker_group,
    sessions,
    cluster.install,
    cluster.uninstall,
    cluster.status,
    demo.demo,
):
    main.add_command(command)
for command in (self_command, reranker_command, emboost_command, word2doc.train_command):
    train.add_command(command)
evaluate.add_command(word2doc.eval_command)
