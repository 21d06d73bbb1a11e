"""The command line. ``resift COMMAND --help`` explains each command; this module only puts them together."""

from __future__ import annotations

import click

from resift.cli import cluster, documents, indices, search, serve
from resift.cli.demo import demo
from resift.cli.doctor import doctor
from resift.cli.explain_search import explain_search
from resift.cli.failures import Resift
from resift.cli.keys import keys
from resift.cli.lab import vectors, word2doc
from resift.cli.lab.evaluate import evaluate
from resift.cli.lab.export import export
from resift.cli.lab.prove import prove, tune
from resift.cli.lab.reranker import reranker_group
from resift.cli.lab.train import train
from resift.cli.lab.train_judged import emboost_command, reranker_command
from resift.cli.lab.train_queries import queries_command
from resift.cli.lab.train_self import self_command
from resift.cli.mcp import mcp
from resift.cli.role import role_command
from resift.cli.sessions import sessions
from resift.version import __version__


@click.group(cls=Resift, epilog="Example: resift index corpus.jsonl --index news && resift search news 'bush fire'")
@click.version_option(__version__, prog_name="resift")
def main() -> None:
    """Meaning at BM25's cost and session feedback for OpenSearch.

    The exit status is 0 if all is well, 2 for arguments that do not fit, 3 if a command was done but something is not
    right (it says what), 1 if something failed on the way, and 130 after Ctrl-C.
    """


for command in (
    documents.index,
    indices.verify,
    search.search,
    explain_search,
    indices.indices,
    indices.drop,
    sessions,
    vectors.vectors,
    vectors.build,
    train,
    evaluate,
    prove,
    tune,
    export,
    serve.serve,
    mcp,
    keys,
    reranker_group,
    cluster.attach,
    cluster.detach,
    cluster.install,
    cluster.uninstall,
    doctor,
    cluster.guard,
    role_command,
    demo,
):
    main.add_command(command)
for command in (self_command, queries_command, reranker_command, emboost_command, word2doc.train_command):
    train.add_command(command)
evaluate.add_command(word2doc.eval_command)
