"""Options of a rewriting."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from resift.contracts.search_options import PipelineOptions, is_session_id
from resift.errors import BadInput
from resift.query.body import OPTIONS_SECTION, Query
from resift.schema import fields_of, read_struct
from resift.vectors.weights import beta_from_alpha

# The service sets larger windows for searches in a session: see SESSION_WINDOW in
# :mod:`resift.service.search_service`.
_DEFAULT_WINDOW = 100


class Options(PipelineOptions, frozen=True, kw_only=True):
    """The options that control how Resift rewrites a search.

    The base class :class:`resift.contracts.search_options.PipelineOptions` declares the options that clients can set in
    a search body. An option of None stands for a default that depends on the configuration, the model, the index and
    the session. The service replaces None with this default before the rewriting.

    Attributes:
        client: The ``client_id`` of the client whose clicks count, from User Behavior Insights (UBI). If None, the id
            of the session is used.
        through_cluster: Whether a search pipeline of the cluster sent the search. Such a search is authenticated with
            the key of the cluster, so every user of the cluster can use any session whose id is known.
    """

    client: str | None = None
    through_cluster: bool = False

    @property
    def beta(self) -> float:
        """The weight of the similarity, alpha / (1 - alpha). Scores are multiplied by exp(beta · similarity)."""
        return beta_from_alpha(self.alpha or 0.0)

    @property
    def window_size(self) -> int:
        """The number of hits on each shard that are rescored."""
        return self.window or _DEFAULT_WINDOW


def read_options(query: Query) -> Options:
    """Read Resift's options from the ``ext`` section of a search body.

    Most options are in ``ext.resift``, or in ``ext.ml_inference`` if the search passes through an ``ml_inference``
    processor of OpenSearch. If both sections contain an option, ``ext.resift`` takes precedence.

    The session and the text of the query can also come from the fields ``client_id`` and ``user_query`` of ``ext.ubi``
    (User Behavior Insights). If no section contains a text, the text that the query searches for is used.

    Args:
        query: The parsed search body.

    Raises:
        BadInput: If an option has an invalid value.
    """
    ext = query.body.get("ext")
    sections = ext if isinstance(ext, dict) else {}
    merged: dict[str, Any] = {}
    for name, section in (("ml_inference", sections.get("ml_inference")), (OPTIONS_SECTION, query.options)):
        if section is not None and not isinstance(section, dict):
            raise BadInput(f"ext.{name} is malformed", value=section, expected=" | ".join(fields_of(PipelineOptions)))
        merged |= section or {}
    declared = structs.asdict(read_struct(PipelineOptions, merged))
    stated = {name: value for name, value in declared.items() if value is not None}
    values = {"text": query.text, **_ubi_options(sections.get("ubi")), **stated}
    return Options(**values, through_cluster=True)


def _ubi_options(ubi: Any) -> dict[str, str]:
    """Return the options ``text``, ``client`` and ``session`` that a body's ``ext.ubi`` section contains.

    UBI (User Behavior Insights) is a standard for logging searches and clicks.

    Args:
        ubi: The section as JSON. Malformed values are ignored.

    Returns:
        The options by name. Options that the section does not contain are left out.
    """
    fields = ubi if isinstance(ubi, dict) else {}
    client, text = fields.get("client_id"), fields.get("user_query")
    stated: dict[str, str] = {}
    if isinstance(text, str) and text:
        stated["text"] = text
    if isinstance(client, str) and client:
        stated["client"] = client
        # A client whose id cannot be the id of a session may still have clicks.
        if is_session_id(client):
            stated["session"] = client
    return stated
