"""Settings of the service, from environment variables or keyword arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from resift.contracts.search_options import MAX_TEXT, Alpha, Nearest, Window
from resift.feedback.methods import DEFAULT_METHOD, MethodName
from resift.schema import convert, documented, fields_of, from_environment
from resift.service.cards import parse_page_fields
from resift.service.connect import default_session_store
from resift.sessions.clicks import ACTIONS, parse_action_grades
from resift.vectors.packaged import DEFAULT_MODEL

ALTERNATIVE_VARIABLES = {"engine": "OPENSEARCH_URL"}
"""Setting → environment variable that is read if the setting's own variable is not set."""

Names = tuple[str, ...]
Pattern = Annotated[str, Meta(pattern="^[^-]", title="an index name or pattern, in which * matches any characters")]
Origin = Annotated[
    str, Meta(pattern=r"^https?://[^/,*@?#\s]+\Z", title="an origin such as https://shop.example, without a path")
]
Host = Annotated[str, Meta(pattern=r"^[^\sA-Z:/?#@\[\]]+\Z", title="a host name in lower case, without a port")]
Quota = Annotated[int, Meta(ge=0, le=10**15)]


class Config(Struct, frozen=True, kw_only=True):
    """Settings of the search service.

    Each setting can be given as an environment variable ``RESIFT_<NAME>``. Lists are separated by commas. The address
    of the search engine, ``engine``, is also read from ``OPENSEARCH_URL``.

    Raises:
        BadInput: If a value is out of range or malformed.
    """

    engine: Annotated[
        str,
        documented(
            "URL of an OpenSearch cluster (several URLs are separated by commas), or the embedded engine's file"
        ),
    ] = "resift.db"
    model: Annotated[str, documented("folder of a model, or `resift-en`, the packaged model")] = DEFAULT_MODEL
    store: Annotated[
        str,
        documented(
            "[where sessions are kept](serving.md#where-sessions-are-kept): an SQLite file or an OpenSearch URL",
            "the embedded engine's file; `sessions.db` for a cluster",
        ),
    ] = ""
    session_index: Annotated[str, documented("name of the sessions' index, if sessions are kept in OpenSearch")] = (
        "resift_sessions"
    )
    keys: Annotated[str, documented("file of [API keys](security.md#api-keys)")] = "keys.jsonl"
    api_key: Annotated[str, documented("an API key with all scopes")] = ""
    indices: Annotated[
        tuple[Pattern, ...],
        documented("names or patterns of the indices that are served, separated by commas", min_length=1),
    ] = ("*",)
    hosts: Annotated[
        tuple[Host, ...],
        documented(
            "host names of the service besides those of this machine; by default any name if there are API keys",
            "",
        ),
    ] = ()
    cors: Annotated[tuple[Origin, ...], documented("origins of websites whose pages may use the API", "")] = ()
    reranker: Annotated[
        str, documented("folder of the [trained reranker](rerankers.md); the folder may be missing")
    ] = "reranker"
    index: Annotated[str, documented("index that the search page shows first")] = ""
    page_fields: Annotated[
        Names,
        documented("[fields that hits on the page show](page.md#fields), such as `title=headline,link=url`", "guessed"),
    ] = ()
    feedback: Annotated[
        MethodName, documented("[method](feedback.md) by which sessions learn: `ridge+lexical`, `lexical` or `mask`")
    ] = DEFAULT_METHOD
    window: Annotated[
        Window,
        documented(
            "number of hits that each shard rescores (`window_size`); in a session that has learned, at least 400, or "
            "500 in an index without our vectors"
        ),
    ] = 100
    alpha: Annotated[
        Alpha | None,
        documented(
            "weight of the vector similarity relative to BM25",
            "[the model's](feedback.md#what-is-learned), such as 0.5",
        ),
    ] = None
    knn: Annotated[
        Nearest,
        documented("number of documents that approximate k-NN adds to a widened search, in indices with an HNSW index"),
    ] = 0
    session_hours: Annotated[float, documented("hours without use after which a session expires", ge=0.001, le=1e6)] = (
        24.0
    )
    ubi_events: Annotated[str, documented("index of the UBI events ([clicks](clicks.md))")] = "ubi_events"
    ubi_queries: Annotated[str, documented("index of the UBI queries")] = "ubi_queries"
    ubi_actions: Annotated[
        Names, documented("[grade of each action](clicks.md#grades-of-actions)", "`purchase=1,…`")
    ] = tuple(f"{action}={grade:g}" for action, grade in ACTIONS.items())
    max_text: Annotated[int, documented("maximum length of a text, in characters", ge=1, le=10**9)] = MAX_TEXT
    max_body: Annotated[
        int, documented("maximum size of a request's body, in bytes ([other limits](http.md#limits))", ge=1, le=2**31)
    ] = 8 * 2**20
    max_marks_per_day: Annotated[
        Quota,
        documented(
            "marks that an API key may store per day and process ([quotas](security.md#quotas)); 0 means no limit"
        ),
    ] = 1_000_000
    max_sessions_per_day: Annotated[
        Quota, documented("sessions that an API key may start per day and process; 0 means no limit")
    ] = 200_000
    max_bytes_per_day: Annotated[
        Quota, documented("bytes that an API key may store per day and process; 0 means no limit")
    ] = 10**9
    log: Annotated[
        Literal["text", "json"],
        documented("format of the log; `json` writes [one line of JSON](monitoring.md#logs) per request"),
    ] = "text"
    deadline: Annotated[
        float,
        documented(
            "seconds that a request may take, [measured from its first byte](serving.md#slow-clients-slow-engines)",
            ge=0.1,
            le=3600,
        ),
    ] = 30.0
    max_connections_per_address: Annotated[
        int,
        documented(
            "connections [per client address](serving.md#slow-clients-slow-engines) and process", ge=1, le=10**6
        ),
    ] = 700

    def __post_init__(self) -> None:
        for name, field in fields_of(type(self)).items():
            # The class is frozen, but __post_init__ is part of the construction.
            structs.force_setattr(self, name, convert(name, getattr(self, name), field.type))
        if not self.store:
            structs.force_setattr(self, "store", default_session_store(self.engine))
        parse_action_grades(self.ubi_actions)
        parse_page_fields(self.page_fields)

    def __repr__(self) -> str:
        shown = {name: value for name, value in structs.asdict(self).items() if name != "api_key"}
        return f"Config({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Config:
        """Read the settings from ``RESIFT_*`` environment variables. Empty variables count as not set.

        Args:
            environment: The environment variables, by name.

        Raises:
            BadInput: If a value is out of range or malformed.
        """
        return from_environment(cls, environment, ALTERNATIVE_VARIABLES)
