"""What an index records about itself in the ``_meta`` of its mapping: the vectors that it has, and how it came by them.

An index that was attached says under ``attached`` what is needed to take that back: which ``fields`` were added to its
mapping, and which vectors are being written (``filling``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.contracts.tuning import Tuning
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.mappings import TUNING
from resift.query.dsl import is_ours

# Closed indices and hidden ones too, and those behind data streams; not those of the system, which no pipeline of ours
# writes to and which OpenSearch warns of.
INDICES, ALL = "*,-.*,.ds-*", {"expand_wildcards": "all"}


@dataclass(frozen=True)
class IndexRecord:
    """The record of one index.

    ``current`` describes the vectors that it is searched by, None if it has none yet; ``others`` those of other models,
    and ``filling`` those that are being written. ``added`` are the vector fields that attaching has added, and
    ``attached`` tells whether it ever was.
    """

    index: str
    current: IndexInfo | None = None
    others: tuple[IndexInfo, ...] = ()
    filling: IndexInfo | None = None
    added: tuple[str, ...] = ()
    attached: bool = False

    @classmethod
    def read(cls, index: str, meta: Mapping[str, Any]) -> IndexRecord:
        """The record in the ``_meta`` of an index; an empty one if there is none."""
        ours: Mapping[str, Any] = meta.get("resift") or {}
        info, attached = IndexInfo.from_meta(index, ours), ours.get("attached")
        if ours and attached is None and "resift_copy" in meta:  # a copy that an earlier version has made
            attached = {"fields": [info.vector_field]}
        details: Mapping[str, Any] = attached or {}
        filling = IndexInfo.from_meta(index, details["filling"]) if details.get("filling") else None
        current = None if info.model is None else replace(info, other_models=())
        return cls(index, current, info.other_models, filling, tuple(details.get("fields", ())), attached is not None)

    @property
    def ready(self) -> tuple[IndexInfo, ...]:
        """All vectors that searches may use, those that are used first."""
        return (*([self.current] if self.current else []), *self.others)

    @property
    def known(self) -> tuple[IndexInfo, ...]:
        """All vectors, whether all of them are written or not."""
        return (*self.ready, *([self.filling] if self.filling else []))

    @property
    def encoded(self) -> tuple[IndexInfo, ...]:
        """All vectors that have to follow what is written; those in a field of the index's own do by its own means."""
        return tuple(one for one in self.known if is_ours(one.vector_field))

    def of(self, model: str) -> IndexInfo | None:
        """The vectors of the model that has this hash, whether all of them are written or not; None if it has none."""
        return next((one for one in self.known if one.model == model), None)

    def replaced_by(self, entry: IndexInfo) -> list[IndexInfo]:
        """The vectors of the same model that came by attaching, too, and that those of ``entry`` make superfluous."""
        same = [one for one in self.ready if one.model == entry.model and one.vector_field != entry.vector_field]
        return [one for one in same if is_ours(entry.vector_field) and one.vector_field in self.added]

    def is_attached(self, entry: IndexInfo) -> bool:
        """Whether these vectors came by attaching, and not with the index."""
        return entry.vector_field in self.added or not is_ours(entry.vector_field)

    def begun(self, entry: IndexInfo) -> IndexRecord:
        """The record while the vectors of ``entry`` are being written."""
        fields = dict.fromkeys([*self.added, *([entry.vector_field] if is_ours(entry.vector_field) else [])])
        return replace(self, filling=entry, added=tuple(fields), attached=True)

    def switched(self, entry: IndexInfo) -> IndexRecord:
        """The record once the index is searched by the vectors of ``entry``."""
        others = tuple(one for one in self.ready if (one.model, one.vector_field) != (entry.model, entry.vector_field))
        filling = None if self.filling and self.filling.model == entry.model else self.filling
        # a client may have replaced _meta since they were begun
        begun = self if entry in self.ready else self.begun(entry)
        return replace(begun, current=entry, others=others, filling=filling, attached=True)

    def without(self, entries: Collection[IndexInfo]) -> IndexRecord:
        """The record without these vectors, whose fields are to be emptied then."""
        left = tuple(one for one in self.ready if one not in entries)
        filling = None if self.filling in entries else self.filling
        return replace(self, current=next(iter(left), None), others=left[1:], filling=filling)

    @property
    def abandoned(self) -> tuple[str, ...]:
        """The fields whose vectors no model has any more."""
        held = {one.vector_field for one in self.encoded}
        return tuple(name for name in self.added if name not in held)

    def emptied(self) -> IndexRecord:
        """The record once no document has anything in the abandoned fields."""
        added = tuple(name for name in self.added if name not in self.abandoned)
        if added or any(map(self.is_attached, self.ready)):
            return replace(self, added=added)
        return replace(self, added=(), attached=False)

    def meta(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """The ``_meta`` of the index with this record; ``other`` is the one that it has, of which all else stays."""
        ours: dict[str, Any] = self.current.to_meta() if self.current else {}
        if self.others:
            ours["others"] = [one.to_meta() for one in self.others]
        if self.attached:
            details: dict[str, Any] = {"fields": list(self.added)}
            ours["attached"] = {**details, "filling": self.filling.to_meta()} if self.filling else details
        if ours:
            return {**other, "resift": ours}
        return {name: value for name, value in other.items() if name not in ("resift", TUNING)}


def tunings(cluster: Cluster) -> dict[str, list[str]]:
    """What was chosen for the searches of each index, in English, by its name."""
    answer = cluster.request("GET", f"/{INDICES}/_mapping", filter_path=f"*.mappings._meta.{TUNING}", **ALL)
    return {name: Tuning.from_json(answer[name]["mappings"]["_meta"][TUNING]).describe() for name in sorted(answer)}


def records(cluster: Cluster, names: str = INDICES) -> dict[str, IndexRecord]:
    """The records of all indices that have one, closed and hidden ones too, by their names."""
    answer = cluster.request("GET", f"/{names}/_mapping", filter_path="*.mappings._meta.resift", **ALL)
    found = {name: IndexRecord.read(name, entry["mappings"]["_meta"]) for name, entry in answer.items()}
    return {name: found[name] for name in sorted(found)}
