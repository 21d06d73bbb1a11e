"""Options of a rewriting."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from resift.contracts.search_options import PipelineOptions, is_session_id
from resift.errors import BadInput
from resift.query.body import Query
from resift.schema import fields_of, read_struct
from resift.vectors.weights import beta_from_alpha

_DEFAULT_WINDOW = 100


class Options(PipelineOptions, frozen=True, kw_only=True):
    """The options of a rewriting: first as a search states them, later with all defaults filled in.

    :class:`resift.contracts.search_options.PipelineOptions` declares the options that a search body can state. None
    means the default, which depends on the configuration, the model, the index and the session. The service fills it
    in.

    Attributes:
        client: The client whose clicks count, as UBI names it. None if it is the session.
        through_cluster: Whether a search pipeline sends the search. It has the key of the cluster, so the session
            belongs to everybody who knows its id.
    """

    client: str | None = None
    through_cluster: bool = False

    @property
    def beta(self) -> float:
        """The factor of the similarity, alpha / (1 - alpha)."""
        return beta_from_alpha(self.alpha or 0.0)

    @property
    def window_size(self) -> int:
        """The number of hits on each shard that are rescored."""
        return self.window or _DEFAULT_WINDOW


def options_in(query: Query) -> Options:
    """Return the options that a search body states in ``ext.ml_inference``.

    If it does not name the session or the text of the query, ``ext.ubi`` may, as ``client_id`` and ``user_query``. The
    text that the query itself searches for counts if neither section names a text.

    Raises:
        BadInput: An option has a value of the wrong form.
    """
    ext = query.body.get("ext")
    sections = ext if isinstance(ext, dict) else {}
    section = sections.get("ml_inference")
    if section is not None and not isinstance(section, dict):
        raise BadInput("ext.ml_inference is malformed", value=section, expected=" | ".join(fields_of(PipelineOptions)))
    declared = structs.asdict(read_struct(PipelineOptions, section or {}))
    stated = {name: value for name, value in declared.items() if value is not None}
    values = {"text": query.text, **_stated_by_ubi(sections.get("ubi")), **stated}
    return Options(**values, through_cluster=True)


def _stated_by_ubi(ubi: Any) -> dict[str, str]:
    """Return the options in ``ext.ubi``. What is malformed there is left to the UBI plugin."""
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
