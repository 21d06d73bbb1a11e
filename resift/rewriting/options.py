"""Options of a rewriting."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from msgspec import structs

from resift.contracts.search_options import PipelineOptions, is_session_id
from resift.errors import BadInput, shorten
from resift.options_section import OPTIONS_SECTION
from resift.query.body import Query
from resift.schema import fields_of, read_struct
from resift.vectors.weights import beta_from_alpha

# The service sets larger windows for searches in a session: see SESSION_WINDOW in
# :mod:`resift.service.rewriter`.
_DEFAULT_WINDOW = 100
_ML_INFERENCE = "ml_inference"
_COMPARED_KEYS = 50
"""Number of unknown keys of ``ext.ml_inference`` that are compared with the options. A comparison takes about 10 µs."""
_NAMED_KEYS = 3
"""Number of unknown keys that a message names."""
_SIMILARITY = 0.8
"""Similarity of a key to the name of an option, from 0 to 1, from which the key is taken for a misspelt option."""
_MAX_MISSPELT = 40
"""Longer keys are not compared with the names of options."""


class Options(PipelineOptions, frozen=True, kw_only=True):
    """The options that control how Resift rewrites a search.

    The base class :class:`resift.contracts.search_options.PipelineOptions` declares the options that clients can set in
    a search body. An option of None stands for a default that depends on the configuration, the model, the index and
    the session. The service replaces None with this default before the rewriting.

    Attributes:
        client: The ``client_id`` of the client whose clicks count, from User Behavior Insights (UBI). If None, the id
            of the session is used.
        unknown_keys: A message about keys that are no options, from :func:`describe_unknown_keys`.
        through_cluster: Whether a search pipeline of the cluster sent the search. Such a search is authenticated with
            the key of the cluster, so every user of the cluster can use any session whose id is known.
    """

    client: str | None = None
    unknown_keys: str = ""
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
    own_sections = {_ML_INFERENCE: sections.get(_ML_INFERENCE), OPTIONS_SECTION: query.options}
    for name, section in own_sections.items():
        if section is not None and not isinstance(section, dict):
            raise BadInput(f"ext.{name} is malformed", value=section, expected=" | ".join(fields_of(PipelineOptions)))
        merged |= section or {}
    declared = structs.asdict(read_struct(PipelineOptions, merged))
    stated = {name: value for name, value in declared.items() if value is not None}
    values = {"text": query.text, **_ubi_options(sections.get("ubi")), **stated}
    return Options(**values, unknown_keys=describe_unknown_keys(own_sections), through_cluster=True)


def describe_unknown_keys(ext: Any) -> str:
    """Return a message about keys in the ``ext`` section of a search body that are not names of options.

    Such keys are ignored, because an error would cost the search its hits. In ``ext.ml_inference``, other search
    processors may have keys of their own. Only keys that resemble an option, such as ``sesion``, are reported there.

    Args:
        ext: The section as JSON. Malformed sections are ignored.

    Returns:
        The message in English, or an empty string if there are no such keys.

    >>> describe_unknown_keys({"ml_inference": {"Session": "anna", "limit": 3}}).partition(" (")[0]
    "ext.ml_inference has the unknown key 'Session'"
    """
    messages = []
    for name in (_ML_INFERENCE, OPTIONS_SECTION):
        section, options = ext.get(name) if isinstance(ext, dict) else None, fields_of(PipelineOptions)
        keys = [key for key in section if key not in options] if isinstance(section, dict) else []
        if name == _ML_INFERENCE:
            keys = [key for key in keys[:_COMPARED_KEYS] if _is_misspelt_option(key)]
        if keys:
            named = ", ".join(repr(shorten(key, _MAX_MISSPELT)) for key in keys[:_NAMED_KEYS])
            more = f" and {len(keys) - _NAMED_KEYS} more" if len(keys) > _NAMED_KEYS else ""
            noun = "key" if len(keys) == 1 else "keys"
            messages.append(f"ext.{name} has the unknown {noun} {named}{more} (known keys: {', '.join(options)})")
    return "; ".join(messages)


def _is_misspelt_option(key: str) -> bool:
    """Return whether a key is similar to the name of an option, but not equal."""
    options = fields_of(PipelineOptions)
    return len(key) <= _MAX_MISSPELT and bool(get_close_matches(key.lower(), options, 1, _SIMILARITY))


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
