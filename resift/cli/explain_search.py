"""``resift explain-search``: a search as it is asked and as it is rewritten, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from resift.cli.options import (
    ELSEWHERE,
    engine_option,
    json_option,
    model_option,
    opened_library,
    option_for,
    store_option,
)
from resift.cli.output import print_report
from resift.contracts.search_options import PipelineOptions, SearchRequest
from resift.errors import BadInput
from resift.reranker.search.bodies import Search, asked_by, search_body
from resift.reranker.search.words import PATIENCE
from resift.rewriting.request import Rewritten, check_clause
from resift.schema import fields_of

_NUMBERS, _TEXT, _WORDS = 8, 200, 10


@click.command("explain-search", epilog="Example: resift explain-search news 'bush fire' --session anna")
@click.argument("index")
@click.argument("query", required=False)
@click.option("--body", "file", type=click.File(encoding="utf-8"), metavar="FILE", help="A search body; - is stdin.")
@option_for(SearchRequest, "session", metavar="ID")
@engine_option
@model_option
@store_option
@json_option
def explain_search(
    index: str, query: str | None, file: Any, session: str | None, engine: str, model: str, store: str, as_json: bool
) -> None:
    """Show what a search of INDEX sends to the engine, for the text QUERY or a search body.

    First the body as it is, then as it is rewritten, then in a sentence each what was added, and why something was not.
    Vectors and scripts are shortened; --json prints them whole. A body names other options, such as alpha, in its
    ext.ml_inference, as it does in the cluster.
    """
    asked: str | dict[str, Any] = _read(file) if file is not None else query or ""
    if (query is None) == (file is None):
        raise BadInput("there is not one search", value=query, expected="either a QUERY or --body FILE")
    in_session = session is not None or file is not None  # a body may name one
    with opened_library(engine, model, store, in_session, index) as opened:
        service = opened.service
        check_clause("search", {"query": asked}, service.config.max_text)
        info = service.info(index)
        search = Search(asked, index=index, session=session)
        body = search_body(search, info, service.search_model.table.idf)
        options = asked_by(search, body)
        named = options.session
        if named is not None and not opened.index(index).session(named).explain()["judgements"]:
            click.echo(f"session {named} has no marks in {store} {ELSEWHERE}", err=True)
        service.words.patience = PATIENCE
        rewritten = service.in_session(info, body, options)
    after, notes = rewritten.body, [*_notes(rewritten, body), *_unread(body)]
    lines = ("before", _shown(body), "after", _shown(after), *notes)
    print_report({"before": body, "after": after, "notes": notes}, as_json, *lines)


def _read(file: Any) -> dict[str, Any]:
    try:
        body = json.load(file)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file.name} is no JSON: {error}", value=file.name, expected="a search body") from None
    if not isinstance(body, dict):
        raise BadInput(f"{file.name} holds no object", value=body, expected="a search body")
    return body


def _shown(body: dict[str, Any]) -> str:
    return json.dumps(_shortened(body), ensure_ascii=False, indent=2)


def _shortened(value: Any) -> Any:
    """A value whose long lists of numbers and long texts are told by their lengths."""
    if isinstance(value, dict):
        return {name: _shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        if len(value) > _NUMBERS and all(isinstance(one, float) for one in value):
            return f"({len(value)} numbers)"
        return [_shortened(inner) for inner in value]
    if isinstance(value, str) and len(value) > _TEXT:
        return f"({len(value)} characters)"
    return value


def _notes(query: Rewritten, before: dict[str, Any]) -> Iterator[str]:
    """In a sentence each, what was added to a search ``before``, and why something was not."""
    knowledge, settings, changed = query.knowledge, query.settings, query.body != before
    if changed and (words := list(knowledge.terms)):
        more = f" and {len(words) - _WORDS} more" if len(words) > _WORDS else ""
        yield f"Words of the session: {', '.join(words[:_WORDS])}{more}."
    if query.widened:
        yield f"The query's own words find little; other words of the index: {', '.join(query.widened[:_WORDS])}."
    if changed and query.is_scored:
        yield f"Vectors weigh {settings.alpha:.4g} in the first {settings.window} hits of each shard."
    elif changed and knowledge.own.vectors:
        yield f"Vectors of clauses are moved by judged documents' own: {', '.join(knowledge.own.vectors)}."
    if knowledge.documents:
        concern = "" if knowledge.feedback else ", none of which concerns this query"
        yield f"Judged documents: {len(knowledge.documents)}{concern}; in later searches: {settings.judged}."
    if query.obstacle:
        yield f"{'Not added to' if changed else 'Left as it was'}: {query.obstacle}."
    for note in knowledge.notes:
        yield f"Note: {note}."


def _unread(body: dict[str, Any]) -> Iterator[str]:
    """A sentence for each name in ``ext.ml_inference`` that may be a misspelt one."""
    ext = body.get("ext")
    given = ext.get("ml_inference") if isinstance(ext, dict) else None
    known = fields_of(PipelineOptions)
    for name in [name for name in given or () if name not in known]:
        yield f"Note: Resift reads no {name!r} in ext.ml_inference ({', '.join(known)})."
