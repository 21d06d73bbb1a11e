"""``resift search`` and ``resift mark``: searches and judgements in a terminal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

import click

from resift import library
from resift.cli.options import (
    STORE_HINT,
    engine_option,
    json_option,
    library_at,
    model_option,
    option_for,
    store_option,
)
from resift.cli.output import display_width, truncate
from resift.contracts.search_options import SearchRequest
from resift.errors import BadInput
from resift.ingest.fields import guess_fields
from resift.query.dsl import document_text
from resift.service.bodies import Search, asked_by, search_body
from resift.service.words import COMMAND_WAIT_SECONDS
from resift.text import plain_text

_ID, _TITLE, _NARROWEST, _WIDEST, _OTHERS = 24, 40, 60, 160, 8
_NUMBERS, _TEXT = 8, 200  # of which more are told by their count


@click.command(epilog="Example: resift search news 'bush fire' --session anna")
@click.argument("index")
@click.argument("query")
@option_for(SearchRequest, "size")
@option_for(SearchRequest, "knn", metavar="N", show_default="RESIFT_KNN")
@option_for(SearchRequest, "session", metavar="ID")
@click.option("--explain", is_flag=True, help="Print what the engine would be asked instead, and what moved it.")
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
    explain: bool,
    engine: str,
    model: str,
    store: str,
    as_json: bool,
) -> None:
    """Search INDEX for the words of QUERY: rank, score, id, and how the document begins.

    --json prints what POST /v1/search answers, and with --explain the whole search body, of which otherwise vectors and
    scripts are shortened. On standard error --explain says what the session learned, and what was left out and why.
    """
    with library_at(engine, model, index, ":memory:" if session is None else store) as opened:
        opened.service.info(index)  # what it raises does not tell a shell how to make an index in Python
        found = opened.index(index)
        # There is no second search that could show what is read in the background of this one.
        opened.service.words.wait_seconds = COMMAND_WAIT_SECONDS
        asker = found if session is None else found.session(session)
        if isinstance(asker, library.Session):
            if not (learned := asker.explain())["judgements"]:
                click.echo(f"session {session} has no marks in {store} {STORE_HINT}", err=True)
            elif explain:
                click.echo(repr(learned), err=True)
        if explain:
            _print_body(opened, Search(query, size=size, knn=knn, index=index, session=session), as_json)
            return
        hits = asker.search(query, size, knn=knn, reasons=session is not None)
    if as_json:
        click.echo(json.dumps(hits.response, ensure_ascii=False))
        return
    if hits.did_you_mean:
        click.echo(f"did you mean: {hits.did_you_mean}")
    if others := hits.response["resift"].get("widened"):
        click.echo(f"also looked for: {', '.join(others[:_OTHERS])}")
    _print_hits(hits, found.fields or _guessed(hits))


@click.command(epilog="Example: resift mark news 'bush fire' 4711 4712 --session anna")
@click.argument("index")
@click.argument("query")
@click.argument("ids", nargs=-1, required=True)
@click.option("--session", metavar="ID", required=True, help="Whose judgements they are.")
@click.option("--irrelevant", is_flag=True, help="The documents are not what is looked for.")
@click.option("--explain", is_flag=True, help="Print what the session has learned from all its marks.")
@engine_option
@model_option
@store_option
def mark(
    index: str,
    query: str,
    ids: tuple[str, ...],
    session: str,
    irrelevant: bool,
    explain: bool,
    engine: str,
    model: str,
    store: str,
) -> None:
    """Mark documents of INDEX, by their IDS, as relevant to QUERY.

    Later searches with the same --session follow the marks.
    """
    with library_at(engine, model, index, store) as opened:
        opened.service.info(index)
        asker = opened.index(index).session(session)
        relevant, irrelevant_ids = ((), ids) if irrelevant else (ids, ())
        click.echo(repr(asker.mark(relevant, irrelevant_ids, query=query, explain=explain)))


def _print_body(opened: library.Library, search: Search, whole: bool) -> None:
    """Print what the engine is asked for a search, and on standard error what could not be done for it."""
    service = opened.service
    info = service.info(search.index)
    body = search_body(search, info, service.model.table.idf)
    rewritten = service.in_session(info, body, asked_by(search, body))
    shown = rewritten.body if whole else _shortened(rewritten.body)
    click.echo(json.dumps(shown, ensure_ascii=False, indent=2))
    if rewritten.reason:
        click.echo(f"{'in part' if rewritten.is_changed else 'left as it was'}: {rewritten.reason}", err=True)


def _shortened(value: Any) -> Any:
    """A value whose long lists of numbers and long texts are told by their lengths."""
    if isinstance(value, dict):
        return {name: _shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        is_vector = len(value) > _NUMBERS and all(isinstance(one, float) for one in value)
        return f"({len(value)} numbers)" if is_vector else [_shortened(inner) for inner in value]
    return f"({len(value)} characters)" if isinstance(value, str) and len(value) > _TEXT else value


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
    shown = [truncate(hit.id, _ID) for hit in hits]
    widest = max(map(display_width, shown))
    width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
    for rank, (hit, id) in enumerate(zip(hits, shown, strict=True), 1):
        padding = " " * (widest - display_width(id))
        begin = f"{rank:3}. {hit.rounded_score:>6}  {id}{padding}  "
        click.echo(f"{begin}{truncate(_beginning(hit, fields), width - display_width(begin))}".rstrip())
        if reason := _reason(hit):
            click.echo(" " * display_width(begin) + truncate(reason, width - display_width(begin)))
    if hits.total is not None and hits.total > len(hits):
        click.echo(f"{len(hits)} of {hits.total} hits; --size shows more", err=True)


def _reason(hit: library.Hit) -> str:
    """What moved a hit, as the page says it; empty where nothing did."""
    if (because := hit.because) is None:
        return ""
    places = because["moved"]
    arrow = f"{'▲' if places > 0 else '▼'} {abs(places)} " if places else ""
    if because["document"] == hit.id:
        return f"{arrow}you marked this as {'relevant' if because['grade'] > 0 else 'irrelevant'}"
    return f"{arrow}{'more' if because['grade'] > 0 else 'too much'} like “{plain_text(because['title']).strip()}”"


def _beginning(hit: library.Hit, fields: Sequence[str]) -> str:
    """The beginning of each text of a document, most of which is the last one's: a title is short.

    Where it has none, all that it holds.
    """
    texts = [text for name in fields if (text := plain_text(document_text(hit.source, [name])).strip())]
    texts = texts or [document_text(hit.source, ()).strip() or json.dumps(hit.source, ensure_ascii=False)]
    return " | ".join([*(truncate(text, _TITLE) for text in texts[:-1]), *texts[-1:]])
