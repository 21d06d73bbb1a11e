"""The plan to give a single index vectors: text fields, vector field, settings, and hints for the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.ingest.fields import guess_fields
from resift.plugin.cluster.search_pipelines import pipeline_name
from resift.plugin.cluster.target_index import TargetIndex
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.dsl import document_text, is_resift_field, values_of
from resift.vectors.compact import json_length

_SAMPLE_SIZE = 500  # number of documents from which text fields are guessed
_RESTARTS_NO_SHARDS = (2, 19, 6)  # the oldest tested version that does not restart shards when their mapping changes
# Types of fields in which OpenSearch refuses to search for a word that is not a valid value.
_UNSEARCHABLE = re.compile(
    r"byte|short|integer|.*long|.*float|double|date.*|boolean|ip|binary|geo.*|.*_range|knn_vector"
)


@dataclass(frozen=True)
class AttachOptions:
    """The options of ``resift attach``.

    Attributes:
        fields: The names of the text fields to encode, or None to choose the text fields that contain sentences.
        model: The folder of a saved model, or None to train a model on the documents.
        adapt: Whether to train a model if ``model`` is None. Otherwise, the model that comes with Resift is used.
        graph: Whether to create an HNSW index for the vectors.
        field: The name of a ``knn_vector`` field that already contains the vectors of ``model``, or None.
        out: The folder in which a trained model is saved, or None for ``INDEX-model``.
        default_pipelines: Whether to rewrite searches that name no search pipeline, and to encode new documents.
        pipeline: The name of the search pipeline to which Resift's processor is added, or None for ``resift-INDEX``.
        force: Whether to write vectors even if they do not improve the ranking.
        service: The URLs at which the nodes reach the service, or None for the current URLs.
    """

    fields: Sequence[str] | None = None
    model: str | None = None
    adapt: bool = True
    graph: bool = False
    field: str | None = None
    out: str | None = None
    default_pipelines: bool = False
    pipeline: str | None = None
    force: bool = False
    service: str | None = None


class IndexPlan:
    """A plan to add vectors to the documents of a single index.

    Args:
        engine: The engine that is connected to the cluster.
        target: The index, with its mapping and settings.
        model: The embedding model. If it will be trained later, a model of the same kind.
        options: The options of ``resift attach``.
        own_field: The name of a field that the user created, and that already contains the vectors, or None.

    Attributes:
        vector_info: The description of the vectors that the index will have.
        superseded: Old vectors that are removed at the end, because the new vectors replace them.
        unfilled: The number of documents without a vector.
        settings: The index settings to write.
        hints: Remarks for the user, for example why a setting is not written.

    Raises:
        BadInput: If the options do not fit the index.
    """

    def __init__(
        self, engine: OpenSearchEngine, target: TargetIndex, model: Model, options: AttachOptions, own_field: str | None
    ) -> None:
        self.target = target
        sources = sample_sources(engine, target)
        existing = target.find_vectors(model, options.graph)
        fields = _choose_fields(target, model, existing, options, sources)
        _check_fields(target, fields, sources)
        new_fields = fields if options.fields or existing is None else ()
        self.vector_info = target.describe_vectors(model, new_fields, own_field, options.graph)
        self.superseded = target.record.superseded_by(self.vector_info)
        self.unfilled = 0 if self.is_users_field else target.documents
        if existing is not None and self.unfilled:
            self.unfilled = target.count({"bool": {"must_not": [{"exists": {"field": self.vector_info.vector_field}}]}})
        self.settings: dict[str, str] = {}
        self.hints: list[str] = []
        if options.default_pipelines and not own_field:
            self.settings, self.hints = target.final_pipeline_setting()
        if outage := _outage_warning(engine, target):
            self.hints = [*self.hints, outage]
        if target.unrecorded_fields:
            names = ", ".join(target.unrecorded_fields)
            self.hints = [
                *self.hints,
                f"{names} already contains vectors, but _meta no longer describes them: "
                f"resift detach {target.name} removes them",
            ]

    @property
    def is_users_field(self) -> bool:
        """Whether the user, and not Resift, created the vector field. Resift writes no vectors to such a field."""
        return not is_resift_field(self.vector_info.vector_field)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan to add vectors to the index as a JSON object."""
        return {
            "index": self.target.name,
            "documents": self.target.documents,
            "to_encode": self.unfilled,
            "fields": list(self.vector_info.fields),
            "vector_field": self.vector_info.vector_field,
            "graph": self.vector_info.has_hnsw,
            "replaced": [info.vector_field for info in self.superseded],
            "settings": self.settings,
            "hints": self.hints,
        }

    def lines(self) -> list[str]:
        """Return the plan to add vectors to the index as lines of text, which are shown to the user."""
        lines = [f"{self.target.name}: {self.target.documents} documents"]
        lines.append(f"  texts       {', '.join(self.vector_info.fields)}")
        if self.is_users_field:
            lines.append(f"  vectors     existing vectors in {self.vector_info.vector_field}; no document is changed")
        else:
            lines += self._vector_lines()
        lines += [f"  setting     {setting} = {value}" for setting, value in self.settings.items()]
        return [*lines, *(f"  note        {hint}" for hint in self.hints)]

    def _vector_lines(self) -> list[str]:
        """Return the lines of the plan about the vectors: their field, their size, and their effects on clients."""
        info, name = self.vector_info, self.target.name
        if info.has_hnsw:
            field_type, size = "knn_vector with an HNSW index", ""
        else:
            field_type = "binary with doc values"
            size = f" ({json_length(info.vector_field, info.dim or 0)} bytes per hit)"
        lines = [
            f"  mapping     + {info.vector_field}: {field_type}, {info.dim} dimensions",
            f"  documents   {self.unfilled} get a vector, each by an update that skips ingest pipelines and increments "
            "_version",
            f"  _source     contains {info.vector_field}{size} in GET requests and in searches that bypass Resift",
            "  clients     that reject unknown fields, such as classes of opensearch-java, must ignore it beforehand",
            f"  pipeline    {pipeline_name(name)} encodes documents that are written through it, after resift install",
        ]
        for superseded in self.superseded:
            loss = " with their HNSW index (--graph keeps it)" if superseded.has_hnsw else ""
            lines.append(f"  replaced    vectors in {superseded.vector_field} are removed at the end{loss}")
        return lines


def _outage_warning(engine: OpenSearchEngine, target: TargetIndex) -> str:
    """Return a warning if attaching vectors will interrupt searches of the index, or an empty string otherwise.

    OpenSearch before 2.19.6 restarts the shards of some indices with ``knn_vector`` fields when their mapping changes.

    Args:
        engine: The engine that is connected to the cluster.
        target: The index, with its mapping and settings.
    """
    if target.has_hnsw or "knn_vector" not in target.field_types.values():
        return ""
    version = engine.ping().split()[1]
    if tuple(int(number) for number in re.findall(r"\d+", version)[:3]) >= _RESTARTS_NO_SHARDS:
        return ""
    return (
        f"searches fail for up to a second: the mapping changes, {target.name} has a knn_vector field without "
        f"index.knn, and OpenSearch {version} then restarts its shards (2.19.6 does not)"
    )


def _choose_fields(
    target: TargetIndex,
    model: Model,
    existing: IndexInfo | None,
    options: AttachOptions,
    sources: Sequence[dict[str, Any]],
) -> Sequence[str]:
    """Choose the text fields of an index to encode.

    If the user named fields, these are chosen. Otherwise, the fields of existing vectors are chosen. If there are no
    vectors, the fields are guessed from some documents.

    Args:
        target: The index, with its mapping and settings.
        model: The embedding model.
        existing: The description of existing vectors of the model, or None.
        options: The options of ``resift attach``. They contain the fields that the user named, if any.
        sources: The ``_source`` of random documents.

    Returns:
        The names of the fields.
    """
    if options.fields:
        return options.fields
    recorded = existing or target.record.find(model.hash) or target.record.searched_vectors
    if recorded and recorded.fields:
        return recorded.fields
    return guess_text_fields(target, sources)


def sample_sources(engine: OpenSearchEngine, target: TargetIndex) -> list[dict[str, Any]]:
    """Return the ``_source`` of up to 500 random documents of an index, from which text fields can be guessed.

    Args:
        engine: The search engine that contains the index.
        target: The index, with its mapping and settings.
    """
    return [hit["_source"] for hit in engine.sample(target.name, _SAMPLE_SIZE).hits]


def guess_text_fields(target: TargetIndex, sources: Sequence[dict[str, Any]]) -> list[str]:
    """Guess which text fields of an index contain sentences.

    Args:
        target: The index, with its mapping and settings.
        sources: The ``_source`` of some documents. If empty, all text fields are returned.

    Returns:
        The names of the fields. Fields that look like titles come first.

    Raises:
        BadInput: If the mapping contains no text fields.
    """
    names = target.text_fields
    if not names:
        expected = "an index with text fields, or --fields NAMES"
        raise BadInput(f"the mapping of {target.name!r} has no text fields", value=target.name, expected=expected)
    if not sources:
        return names
    return guess_fields([{name: _strings(source, name) for name in names} for source in sources])


def _strings(source: dict[str, Any], name: str) -> list[str]:
    return [value for value in values_of(source, name) if isinstance(value, str)]


def _check_fields(target: TargetIndex, fields: Sequence[str], sources: Sequence[dict[str, Any]]) -> None:
    """Check that the chosen text fields exist, can be searched and are not all empty.

    Args:
        target: The index, with its mapping and settings.
        fields: The names of the text fields.
        sources: The ``_source`` of random documents.

    Raises:
        BadInput: If a field is unsuitable, or if none of the documents has text in the fields.
    """
    expected = f"its text fields: {', '.join(target.text_fields) or 'none'}"
    unknown = [name for name in fields if name not in target.field_types]
    if unknown:
        message = f"index {target.name!r} has no field {', '.join(unknown)}"
        raise BadInput(message, value=unknown, expected=expected)
    unsearchable = [
        f"{name} is {target.field_types[name]}" for name in fields if _UNSEARCHABLE.fullmatch(target.field_types[name])
    ]
    unsearchable += [f"{name} is not indexed" for name in fields if target.is_stored_only(name)]
    if unsearchable:
        message = f"index {target.name!r} cannot be searched for words in these fields: {', '.join(unsearchable)}"
        raise BadInput(message, value=list(fields), expected=expected)
    if sources and not any(document_text(source, fields).strip() for source in sources):
        message = f"none of {len(sources)} random documents of {target.name!r} has a text in {', '.join(fields)}"
        raise BadInput(message, value=list(fields), expected=expected)
