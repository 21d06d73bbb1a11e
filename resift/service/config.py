"""The settings of the reranker, from the environment or given as arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from resift.contracts.search_options import MAX_TEXT, Alpha, Nearest, Window
from resift.feedback.feedback import DEFAULT_METHOD, METHODS
from resift.schema import convert, documented, fields_of, from_environment
from resift.service.cards import parse_page_fields
from resift.service.connect import default_store
from resift.sessions.clicks import ACTIONS, read_actions
from resift.vectors.packaged import DEFAULT_MODEL

ALSO = {"engine": "OPENSEARCH_URL"}  # variables that count where ours are not set
_METHOD = f"^({'|'.join(map(re.escape, METHODS))})\\Z"

Names = tuple[str, ...]
Pattern = Annotated[str, Meta(pattern="^[^-]", title="a name of indices, with * for anything")]
Origin = Annotated[
    str, Meta(pattern=r"^https?://[^/,*@?#\s]+\Z", title="an origin such as https://shop.example, without a path")
]
Host = Annotated[str, Meta(pattern=r"^[^\sA-Z:/?#@\[\]]+\Z", title="the name of a host in lower case, without a port")]
Quota = Annotated[int, Meta(ge=0, le=10**15)]


class Config(Struct, frozen=True, kw_only=True):
    """The settings of one application. Raises BadInput for a value outside of its range.

    Each is read from the variable RESIFT_<NAME>, lists separated by commas; ``engine`` also from OPENSEARCH_URL.
    """

    engine: Annotated[
        str, documented("an OpenSearch URL, or several separated by commas, or the embedded engine's file")
    ] = "resift.db"
    model: Annotated[str, documented("a model's folder, or `resift-en`, the packaged one")] = DEFAULT_MODEL
    store: Annotated[
        str,
        documented(
            "[where sessions are kept](serving.md#where-sessions-are-kept): an SQLite file or an OpenSearch URL",
            "the embedded engine's file; `sessions.db` for a cluster",
        ),
    ] = ""
    session_index: Annotated[str, documented("the index of the sessions there")] = "resift_sessions"
    keys: Annotated[str, documented("the file of [API keys](security.md#api-keys)")] = "keys.jsonl"
    api_key: Annotated[str, documented("one key with all scopes")] = ""
    indices: Annotated[
        tuple[Pattern, ...], documented("patterns of the indices that are served, separated by commas", min_length=1)
    ] = ("*",)
    hosts: Annotated[
        tuple[Host, ...],
        documented(
            "host names by which the service may be reached, besides this machine's own; any name if there are keys", ""
        ),
    ] = ()
    cors: Annotated[tuple[Origin, ...], documented("origins of other sites whose pages may use the API", "")] = ()
    reranker: Annotated[
        str, documented("the folder of the [trained reranker](rerankers.md) in service, if there is one")
    ] = "reranker"
    index: Annotated[str, documented("the index that the search page opens with")] = ""
    page_fields: Annotated[
        Names, documented("[what its cards show](page.md#fields), such as `title=headline,link=url`", "guessed")
    ] = ()
    feedback: Annotated[
        str, documented("how sessions learn ([methods](feedback.md))", pattern=_METHOD, title=" | ".join(METHODS))
    ] = DEFAULT_METHOD
    window: Annotated[Window, documented("the first hits on each shard, which are rescored")] = 100
    session_window: Annotated[
        Window, documented("the same in a session that has learned something about the query, if that is more")
    ] = 400
    alpha: Annotated[
        Alpha | None,
        documented(
            "weight of the similarity against BM25",
            "[the model's](feedback.md#what-is-learned), such as 0.5",
        ),
    ] = None
    knn: Annotated[
        Nearest,
        documented("how many nearest documents a widened search finds as well, in indices whose vectors have a graph"),
    ] = 0
    session_hours: Annotated[float, documented("a session ends when it was not used for so long", ge=0.001, le=1e6)] = (
        24.0
    )
    ubi_events: Annotated[str, documented("the index of the events of [clicks](clicks.md)")] = "ubi_events"
    ubi_queries: Annotated[str, documented("the index of their queries")] = "ubi_queries"
    ubi_actions: Annotated[
        Names, documented("[what each action counts](clicks.md#grades-of-actions)", "`purchase=1,…`")
    ] = tuple(f"{action}={grade:g}" for action, grade in ACTIONS.items())
    max_text: Annotated[int, documented("longest text, in characters", ge=1, le=10**9)] = MAX_TEXT
    max_body: Annotated[
        int, documented("largest request, in bytes ([other limits](http.md#limits))", ge=1, le=2**31)
    ] = 8 * 2**20
    max_marks_per_day: Annotated[
        Quota,
        documented(
            "marks that each API key may store in a day, in each process; 0 is no bound ([quotas](security.md#quotas))"
        ),
    ] = 1_000_000
    max_sessions_per_day: Annotated[Quota, documented("the same of sessions")] = 200_000
    max_bytes_per_day: Annotated[Quota, documented("the same of bytes")] = 10**9
    log: Annotated[
        Literal["text", "json"],
        documented("`json`: [lines of JSON](monitoring.md#logs), one for each request"),
    ] = "text"
    deadline: Annotated[
        float,
        documented(
            "seconds that a request may take, [from its first byte on](serving.md#slow-clients-slow-engines)",
            ge=0.1,
            le=3600,
        ),
    ] = 30.0
    max_connections_per_address: Annotated[
        int,
        documented("connections [from one address](serving.md#slow-clients-slow-engines) to a process", ge=1, le=10**6),
    ] = 700

    def __post_init__(self) -> None:
        for name, field in fields_of(type(self)).items():
            # frozen, but this is still its making
            structs.force_setattr(self, name, convert(name, getattr(self, name), field.type))
        if not self.store:
            structs.force_setattr(self, "store", default_store(self.engine))
        read_actions(self.ubi_actions)
        parse_page_fields(self.page_fields)

    def __repr__(self) -> str:
        said = {name: value for name, value in structs.asdict(self).items() if name != "api_key"}
        return f"Config({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Config:
        """Settings from RESIFT_* variables; empty ones count as not set. Raises BadInput for one that does not fit."""
        return from_environment(cls, environment, ALSO)
