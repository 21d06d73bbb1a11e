"""The commands ``resift search`` and ``resift mark``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any, get_args

import click

from resift import library
from resift.cli.options import (
    STORE_HINT,
    engine_option,
    json_option,
    library_at,
    model_option,
    option_for,
    store_exists,
    store_location,
    store_option,
)
from resift.cli.output import display_width, truncate
from resift.contracts.search_options import RankingMethod, SearchRequest
from resift.errors import BadInput
from resift.feedback.methods import METHODS, MethodName
from resift.ingest.fields import guess_fields
from resift.plugin.addresses import is_cluster
from resift.query.body import parse
from resift.query.dsl import document_text, values_of
from resift.service.bodies import Search, rewriting_options, search_body
from resift.service.words import COMMAND_WAIT_SECONDS
from resift.text import plain_text

_ID_WIDTH = 24  # maximum columns of an id
_TITLE_WIDTH = 40  # maximum columns of a title
_MIN_WIDTH, _MAX_WIDTH = 60, 160  # limits of the columns of a line
_MAX_WORDS = 8  # maximum number of expansion words that are printed
_MAX_NUMBERS = 8  # longer lists of numbers are replaced with their length
_MAX_TEXT = 200  # longer texts are replaced with their length


@click.command(epilog="Example: resift search news 'bush fire' --session anna")
@click.argument("index")
@click.argument("query")
@option_for(SearchRequest, "size")
@option_for(SearchRequest, "knn", metavar="N", show_default="RESIFT_KNN")
@option_for(SearchRequest, "method", type=click.Choice(get_args(RankingMethod)))
@option_for(SearchRequest, "session", metavar="ID")
@option_for(SearchRequest, "feedback", type=click.Choice(list(METHODS)), show_default="RESIFT_FEEDBACK")
@click.option("--explain", is_flag=True, help="Print the rewritten search body instead of hits, and explain it.")
@engine_option
@model_option
@store_option
@json_option
def search(
    index: str,
    query: str,
    size: int,
    knn: int | None,
    method: RankingMethod,
    session: str | None,
    feedback: MethodName | None,
    explain: bool,
    engine: str,
    model: str,
    store: str,
    as_json: bool,
) -> None:
    """Search INDEX for QUERY, and print the hits.

    Each line contains the rank, the score and the id of a hit, and the beginning of its text. With --session, the
    search uses what the session has learned from its marks, by the method of --feedback.

    With --explain, the command prints the rewritten search body instead of hits. It also says what the session has
    learned, and which parts of the search were not rewritten, with the reason. Long vectors and scripts are shortened.

    With --method dynamax, hits are also reordered by their words, which is not part of the search body.

    With --json, the command prints the response of POST /v1/search or, with --explain, the complete search body.
    """
    with library_at(engine, model, index, store if session and store_exists(store) else ":memory:") as opened_library:
        # Raises IndexNotFound. The error of the library would explain how to create an index in Python.
        info = opened_library.service.infos.get(index)
        opened_index = opened_library.index(index)
        # Wait for the index's words, because the command has no later search that could use them.
        opened_library.service.words.wait_seconds = COMMAND_WAIT_SECONDS
        searcher = opened_index if session is None else opened_index.session(session)
        if isinstance(searcher, library.Session):
            if not (learned := searcher.explain(feedback))["judgements"]:
                click.echo(f"session {session} has no marks in {store_location(store)} {STORE_HINT}", err=True)
            elif explain:
                click.echo(repr(learned), err=True)
        if explain:
            options = Search(query, size=size, knn=knn, index=index, method=method, session=session, feedback=feedback)
            _print_body(opened_library, options, as_json)
            return
        reasons = session is not None
        hits = searcher.search(query, size, knn=knn, method=method, feedback=feedback, reasons=reasons)
    if as_json:
        click.echo(json.dumps(hits.response, ensure_ascii=False))
        return
    if hits.did_you_mean:
        click.echo(f"did you mean: {hits.did_you_mean}")
    if words := hits.response["resift"].get("widened"):
        click.echo(f"expansion words: {', '.join(words[:_MAX_WORDS])}")
    if words := hits.response["resift"].get("carried"):
        click.echo(f"words of earlier marks: {', '.join(words)}")
    _print_hits(hits, info.fields or _guess_fields(hits, info.readable_fields))


@click.command(epilog="Example: resift mark news 'bush fire' 4711 4712 --session anna")
@click.argument("index")
@click.argument("query")
@click.argument("ids", nargs=-1, required=True)
@click.option("--session", metavar="ID", required=True, help="Session that stores the marks.")
@click.option("--irrelevant", is_flag=True, help="Mark the documents as irrelevant.")
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
    """Mark documents of INDEX as relevant to QUERY. IDS are the ids of the documents.

    Later searches in the same session (--session) rank similar documents higher. The searches of a service do so only
    if the service uses the same store: run this command in the folder of the service, or set RESIFT_STORE for both. The
    command prints the store, and does not call the service.
    """
    is_new = not store_exists(store)
    with library_at(engine, model, index, store) as opened_library:
        opened_library.service.infos.get(index)
        marking_session = opened_library.index(index).session(session)
        relevant, irrelevant_ids = ((), ids) if irrelevant else (ids, ())
        click.echo(repr(marking_session.mark(relevant, irrelevant_ids, query=query, explain=explain)))
    condition = "if its RESIFT_STORE is the same" if is_cluster(store) else "if it uses this file (RESIFT_STORE)"
    stored = f"stored in {'the new file ' if is_new else ''}{store_location(store)}"
    click.echo(f"{stored}; a service reads this mark only {condition}", err=True)


def _print_body(opened_library: library.Library, search: Search, complete: bool) -> None:
    """Print the rewritten body of a search as JSON.

    If parts of the search were not rewritten, print the reason on standard error.

    Args:
        opened_library: The library that rewrites the search.
        search: The search to rewrite.
        complete: Whether to print the whole body. Otherwise, long vectors and scripts are shortened.
    """
    service = opened_library.service
    info = service.infos.get(search.index)
    query = parse(search_body(search, info, service.model.table.idf))
    options, by_words = rewriting_options(search, query), search.method == "dynamax"
    rewritten = service.rewriter.rewrite_search(info, query, options, without_vectors=by_words)
    printed = rewritten.body if complete else _shortened(rewritten.body)
    click.echo(json.dumps(printed, ensure_ascii=False, indent=2))
    if words := rewritten.knowledge.carried_words:
        click.echo(f"words of earlier marks: {', '.join(words)}", err=True)
    if rewritten.knowledge.documents and rewritten.unused_session not in rewritten.reason:
        click.echo(rewritten.unused_session, err=True)
    if rewritten.reason:
        click.echo(f"{'partly rewritten' if rewritten.is_changed else 'not rewritten'}: {rewritten.reason}", err=True)


def _shortened(value: Any) -> Any:
    """Return a copy of a JSON value in which long vectors and texts are replaced with a note such as "(64 numbers)"."""
    if isinstance(value, dict):
        return {name: _shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        is_vector = len(value) > _MAX_NUMBERS and all(isinstance(item, float) for item in value)
        return f"({len(value)} numbers)" if is_vector else [_shortened(inner) for inner in value]
    return f"({len(value)} characters)" if isinstance(value, str) and len(value) > _MAX_TEXT else value


def _guess_fields(hits: library.Hits, names: Sequence[str]) -> list[str]:
    """Guess which fields of an index contain texts for readers, from the hits of a search.

    This is necessary for an index that does not store the names of its text fields.

    Args:
        hits: The hits, which contain the documents.
        names: The text fields of the mapping. If empty, all fields of the documents are considered.

    Returns:
        The names. Empty if no field contains texts.
    """
    try:
        if not names:
            return guess_fields([hit.source for hit in hits])
        return guess_fields([{name: list(values_of(hit.source, name)) for name in names} for hit in hits])
    except BadInput:
        return []


def _print_hits(hits: library.Hits, fields: Sequence[str]) -> None:
    if not hits:
        click.echo("no hits")
        return
    ids = [truncate(hit.id, _ID_WIDTH) for hit in hits]
    widest = max(map(display_width, ids))
    width = min(max(shutil.get_terminal_size().columns, _MIN_WIDTH), _MAX_WIDTH)
    for rank, (hit, id) in enumerate(zip(hits, ids, strict=True), 1):
        padding = " " * (widest - display_width(id))
        begin = f"{rank:3}. {hit.rounded_score:>6}  {id}{padding}  "
        click.echo(f"{begin}{truncate(_display_text(hit, fields), width - display_width(begin))}".rstrip())
        if reason := _reason_for_move(hit):
            click.echo(" " * display_width(begin) + truncate(reason, width - display_width(begin)))
    if hits.total is not None and hits.total > len(hits):
        click.echo(f"{len(hits)} of {hits.total} hits; --size shows more", err=True)


def _reason_for_move(hit: library.Hit) -> str:
    """Return a short text that says why the marks of a session moved a hit, such as "▲ 3 more like “Bush fires”".

    In the example, the hit moved up by 3 ranks. In a search without vectors, the words that the hit shares with the
    marked document follow. The result is empty if no mark moved the hit.
    """
    if (because := hit.because) is None:
        return ""
    places = because["moved"]
    arrow = f"{'▲' if places > 0 else '▼'} {abs(places)} " if places else ""
    if because["document"] == hit.id:
        return f"{arrow}you marked this as {'relevant' if because['grade'] > 0 else 'irrelevant'}"
    words = f": {', '.join(because['words'])}" if because.get("words") else ""
    return (
        f"{arrow}{'more' if because['grade'] > 0 else 'too much'} like “{plain_text(because['title']).strip()}”{words}"
    )


def _display_text(hit: library.Hit, fields: Sequence[str]) -> str:
    """Return the text of a hit for display. The terminal shows its beginning on one line.

    Args:
        hit: The hit to show.
        fields: The names of the text fields to show. All texts except the last are shortened, so that the last text,
            usually the body of the document, gets the rest of the line.

    Returns:
        The texts of the fields, separated by "|". If they are all empty, the document as JSON.
    """
    texts = [text for name in fields if (text := plain_text(document_text(hit.source, [name])).strip())]
    texts = texts or [document_text(hit.source, ()).strip() or json.dumps(hit.source, ensure_ascii=False)]
    return " | ".join([*(truncate(text, _TITLE_WIDTH) for text in texts[:-1]), *texts[-1:]])
