"""``resift search``: the best documents of an index for a query, in a terminal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence

import click

from resift import library
from resift.cli.options import (
    ELSEWHERE,
    engine_option,
    json_option,
    model_option,
    opened_library,
    option_for,
    store_option,
)
from resift.cli.output import cut, display_width
from resift.contracts.query_dsl import document_text
from resift.contracts.search_options import SearchRequest
from resift.errors import BadInput
from resift.ingest.fields import guess_fields
from resift.reranker.search.words import PATIENCE

_ID, _TITLE, _NARROWEST, _WIDEST, _OTHERS = 24, 40, 60, 160, 8


@click.command(epilog="Example: resift search news 'bush fire' --session anna")
@click.argument("index")
@click.argument("query")
@option_for(SearchRequest, "size")
@option_for(SearchRequest, "knn", metavar="N", show_default="RESIFT_KNN")
@option_for(SearchRequest, "session", metavar="ID")
@engine_option
@model_option
@store_option
@json_option
def search(
    index: str,
    query: str,
    size: int,
    knn: int | None,
    session: str | None,
    engine: str,
    model: str,
    store: str,
    as_json: bool,
) -> None:
    """Search INDEX for the words of QUERY: rank, score, id, and how the document begins.

    --json prints what POST /v1/search answers.
    """
    with opened_library(engine, model, store, session is not None, index) as opened:
        opened.service.info(index)  # what it raises does not tell a shell how to make an index in Python
        found = opened.index(index)
        # There is no second search that could show what is read in the background of this one.
        opened.service.words.patience = PATIENCE
        if session is None:
            hits = found.search(query, size, knn=knn)
        else:
            asker = found.session(session)
            if not asker.explain()["judgements"]:
                click.echo(f"session {session} has no marks in {store} {ELSEWHERE}", err=True)
            hits = asker.search(query, size, knn=knn)
    if as_json:
        click.echo(json.dumps(hits.response, ensure_ascii=False))
        return
    if hits.did_you_mean:
        click.echo(f"did you mean: {hits.did_you_mean}")
    if others := hits.response["resift"].get("widened"):
        click.echo(f"also looked for: {', '.join(others[:_OTHERS])}")
    _print_hits(hits, found.fields or _guessed(hits))


def _guessed(hits: library.Hits) -> list[str]:
    """The text fields of an index that names none, by the hits."""
    try:
        return guess_fields([hit.source for hit in hits])
    except BadInput:
        return []


def _print_hits(hits: library.Hits, fields: Sequence[str]) -> None:
    if not hits:
        click.echo("no hits")
        return
    shown = [cut(hit.id, _ID) for hit in hits]
    widest = max(map(display_width, shown))
    width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
    for rank, (hit, id) in enumerate(zip(hits, shown, strict=True), 1):
        padding = " " * (widest - display_width(id))
        begin = f"{rank:3}. {hit.rounded_score:>6}  {id}{padding}  "
        click.echo(f"{begin}{cut(_beginning(hit, fields), width - display_width(begin))}".rstrip())
    if hits.total is not None and hits.total > len(hits):
        click.echo(f"{len(hits)} of {hits.total} hits; --size shows more", err=True)


def _beginning(hit: library.Hit, fields: Sequence[str]) -> str:
    """The beginning of each text of a document, most of which is the last one's: a title is short.

    Where it has none, all that it holds.
    """
    texts = [text for name in fields if (text := document_text(hit.source, [name]).strip())]
    texts = texts or [document_text(hit.source, ()).strip() or json.dumps(hit.source, ensure_ascii=False)]
    return " | ".join([*(cut(text, _TITLE) for text in texts[:-1]), *texts[-1:]])
