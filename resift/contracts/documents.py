"""What goes into an engine and comes out of it, and the checks that are made before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from msgspec import structs

from resift.arrays import Floats
from resift.contracts.tuning import DEFAULT_TUNING, Tuning
from resift.errors import BadInput, ModelMismatch
from resift.query.dsl import VECTOR_FIELD, NestedField, values_of

# Languages whose words both engines stem alike. Snowball has more, but for those OpenSearch and snowballstemmer have
# different versions of its rules, or nobody has compared them.
LANGUAGES = (
    *("catalan", "danish", "dutch", "finnish", "french", "german", "hungarian"),
    *("italian", "norwegian", "portuguese", "russian", "spanish", "swedish"),
)
# What stands before an apostrophe and is no part of the word after it: articles, and what is shortened like them.
ELISIONS = {
    "catalan": ["d", "l", "m", "n", "s", "t"],
    "french": ["c", "d", "j", "jusqu", "l", "lorsqu", "m", "n", "puisqu", "qu", "quoiqu", "s", "t"],
    "italian": [
        *("agl", "all", "c", "d", "dagl", "dall", "degl", "dell", "gl", "l", "m"),
        *("negl", "nell", "pell", "s", "sugl", "sull", "coll", "t", "un", "v"),
    ],
}
ANALYZERS = ("english", "standard", *LANGUAGES)
# The signs at which new indices cut compound names: those in os.path and read_csv, but not in U.S. Java and Python read
# the expression alike. A letter beyond U+FFFF is two to Java when it looks back, hence the {2,4} and {1,2} there.
COMPOUND_JOINTS = r"_|(?<=[\p{L}\p{M}]{2,4})[.:](?=[\p{L}\p{M}])|(?<=[\p{L}\p{M}]{1,2})[.:](?=[\p{L}\p{M}]{2})"
MAX_ID_BYTES = 512  # OpenSearch's limit; the embedded engine keeps it too


@dataclass(frozen=True)
class VectorField:
    """A field of documents' vectors, or of the weights of their tokens, whoever makes them.

    ``name``: where they stand, which is inside of a ``semantic`` field. ``kind``: ``float``, ``byte`` or ``binary``
    numbers, ``dim`` of them where the mapping tells, in a k-NN ``space``, or ``tokens``. ``nested``: whether a document
    may have several, as objects of its own. ``model``: the id of the engine's model by which a ``semantic`` field has
    queries encoded.
    """

    name: str
    kind: str = "float"
    dim: int | None = None
    nested: bool = False
    model: str | None = None
    space: str = "l2"


@dataclass(frozen=True)
class IndexInfo:
    """The record that an index keeps about its text fields and vectors.

    Attributes:
        name: The name, alias, pattern or list by which the caller addressed the index.
        fields: The text fields that are searched and encoded.
        model: The hash of the model that encoded the documents, or None for an index that Resift did not create.
        model_name: The name of that model, or None.
        dim: The length K of the vectors, or None.
        indices: The concrete names of all indices behind ``name``.
        vector_field: The field that holds the vectors.
        has_hnsw: Whether the vector field has an HNSW index. Engines refuse k-NN queries on a field without one.
        other_models: Records of the vectors of further models, each in a field of its own.
        vector_fields: All vector fields in the mapping, Resift's own and others, by the names that queries use.
        tuning: The constants that were chosen for searches of this index.
    """

    name: str
    fields: tuple[str, ...]
    model: str | None
    model_name: str | None
    dim: int | None
    indices: tuple[str, ...] = ()
    vector_field: str = VECTOR_FIELD
    has_hnsw: bool = True
    other_models: tuple[IndexInfo, ...] = ()
    vector_fields: Mapping[str, VectorField] = field(default_factory=dict)
    tuning: Tuning = DEFAULT_TUNING

    def find_model(self, model: ModelDescription) -> IndexInfo | None:
        """What the index records about its vectors of ``model``; None if it has none of them."""
        return next((one for one in (self, *self.other_models) if one.model == model.hash), None)

    def require_model(self, model: ModelDescription) -> IndexInfo:
        """The same. Raises ModelMismatch if it has none of them."""
        found = self.find_model(model)
        if found is not None:
            return found
        if self.model is None:
            attached = f"an index with vectors: resift attach {self.name} --vectors"
            raise ModelMismatch(f"index {self.name!r} has no vectors", value=self.name, expected=attached)
        raise ModelMismatch(
            f"index {self.name!r} holds vectors of model {self.model_name} ({self.model}), "
            f"and the model in use is {model.name} ({model.hash})",
            value=self.model,
            expected=f"{model.hash}: use the index's model, or index the documents again with this one",
        )

    def for_search(self, model: ModelDescription) -> IndexInfo:
        """Return the record of this model's vectors, for searches with the model.

        An index that has no vectors at all may be searched. Raises ModelMismatch if all its vectors are other models'.
        """
        if self.model is None:
            return self
        tuning = self.tuning
        if tuning.model != model.hash:  # the weight was chosen for another model's vectors
            tuning = structs.replace(tuning, alpha=None)
        return replace(self.require_model(model), vector_fields=self.vector_fields, tuning=tuning)

    @classmethod
    def from_model(
        cls, model: ModelDescription, fields: Sequence[str], name: str = "", vector_field: str = VECTOR_FIELD
    ) -> IndexInfo:
        """What an index of a name records of the vectors that ``model`` makes of its text ``fields``."""
        return cls(name, tuple(fields), model.hash, model.name, model.dim, (name,), vector_field)

    def to_meta(self) -> dict[str, Any]:
        """These vectors as they are recorded, those of other models left out; what is as usual is not said."""
        meta = {"fields": list(self.fields), "model": self.model, "model_name": self.model_name, "dim": self.dim}
        field = {} if self.vector_field == VECTOR_FIELD else {"vector_field": self.vector_field}
        return {**meta, **field, **({} if self.has_hnsw else {"graph": False})}

    @classmethod
    def from_meta(cls, name: str, meta: Mapping[str, Any]) -> IndexInfo:
        """What the index of a name records, as :meth:`to_meta` makes it; ``meta`` is empty where it is not ours."""
        fields, field = tuple(meta.get("fields", ())), meta.get("vector_field", VECTOR_FIELD)
        others = tuple(cls.from_meta(name, other) for other in meta.get("others", ()))
        model, model_name, dim = (meta.get(key) for key in ("model", "model_name", "dim"))
        return cls(name, fields, model, model_name, dim, (name,), field, meta.get("graph", True), others)

    @classmethod
    def combine(cls, name: str, infos: Sequence[IndexInfo]) -> IndexInfo:
        """What several indices have in common, which ``name`` stands for.

        Those without vectors are among them: vectors of some documents may be missing everywhere. Raises ModelMismatch
        if the others have no model in common whose vectors are in the same field everywhere.
        """
        indices = tuple(own for info in infos for own in info.indices)
        first, *rest = [info for info in infos if info.model is not None] or [cls(name, (), None, None, None)]
        common = []
        for one in (first, *first.other_models):
            same = [found for other in rest if (found := other.same(one)) is not None]
            if len(same) == len(rest):
                # the shards of an index without a graph would fail, and leave their hits out
                graph, fields = all(info.has_hnsw for info in (one, *same)), _all_fields([one, *same])
                common.append(replace(one, name=name, indices=indices, fields=fields, has_hnsw=graph, other_models=()))
        if not common:
            other = next(info for info in rest if info.same(first) is None)
            raise ModelMismatch(
                f"{name!r} names indices of different models, {first.name!r} and {other.name!r}",
                value=other.name,
                expected="one model's indices, attached alike",
            )
        tuning = max((info.tuning for info in infos), key=lambda one: one != DEFAULT_TUNING)
        mapped = _agreed([info.vector_fields for info in infos])
        return replace(common[0], other_models=tuple(common[1:]), vector_fields=mapped, tuning=tuning)

    def same(self, other: IndexInfo) -> IndexInfo | None:
        """What this index records of the same model's vectors in the same field as ``other``; None if it has none."""
        key = other.model, other.vector_field
        return next((one for one in (self, *self.other_models) if (one.model, one.vector_field) == key), None)


def _agreed(mappings: Sequence[Mapping[str, VectorField]]) -> dict[str, VectorField]:
    """The fields of vectors in which no two of several indices differ; some may lack one."""
    every = {name: one for mapping in mappings for name, one in mapping.items()}
    return {name: one for name, one in every.items() if all(mapping.get(name, one) == one for mapping in mappings)}


def _all_fields(infos: Sequence[IndexInfo]) -> tuple[str, ...]:
    """The text fields of several indices, each once."""
    fields: dict[str, str] = {}
    for name in (name for info in infos for name in info.fields):
        # where only some indices nest its objects, it is asked for as the others have it
        fields[name] = name if isinstance(fields.get(name, name), NestedField) else str(name)
    return tuple(fields.values())


class ModelDescription(Protocol):
    """What mappings say of a model: so much of it is known where its folder is not."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that identify it."""

    @property
    def dim(self) -> int:
        """The length K of its vectors."""

    @property
    def space_type(self) -> str:
        """The k-NN space that finds its candidates."""


@dataclass(frozen=True)
class Document:
    """A document: its id, its fields as JSON values, and its vector (K,) if it has one.

    ``version`` is that of one which an engine has, for :meth:`resift.contracts.engine.Engine.put_vectors`. It is the
    engine's own affair: of a routed document it holds the routing too.
    """

    id: str
    source: dict[str, Any]
    vector: Floats | None = None
    version: Any = None


@dataclass(frozen=True)
class Rejection:
    """A document of a bulk request that was not indexed: its position in the request, the HTTP status, the reason."""

    position: int
    id: str
    status: int
    reason: str


class SearchResult:
    """A response in OpenSearch's shape, and the vectors of its hits.

    ``vectors`` has one entry for each hit: its vector (K,) float32, or None if the document has none or none was
    asked for. ``unparsed``: the response as JSON text, and what parses it, where the engine gave it so. Few look into
    it, and others are handed the ``text``, which is None once somebody has looked.
    """

    def __init__(
        self,
        response: dict[str, Any] | None = None,
        vectors: Sequence[Floats | None] | None = None,
        unparsed: tuple[str, Callable[[str], dict[str, Any]]] | None = None,
    ) -> None:
        self._response, self._vectors, self._unparsed = response or {}, vectors, unparsed

    @property
    def text(self) -> str | None:
        """The response as the engine wrote it."""
        return None if self._unparsed is None else self._unparsed[0]

    @property
    def response(self) -> dict[str, Any]:
        """The response, which may be changed."""
        if self._unparsed is not None:
            text, parse = self._unparsed
            self._response, self._unparsed = parse(text), None
        return self._response

    @property
    def vectors(self) -> Sequence[Floats | None]:
        """The vectors of the hits."""
        return [None] * len(self.hits) if self._vectors is None else self._vectors

    @property
    def hits(self) -> list[dict[str, Any]]:
        """The hits of the response, best first."""
        hits: list[dict[str, Any]] = self.response["hits"]["hits"]
        return hits


def check_document(document: Document, fields: Sequence[str] = (), dim: int | None = None) -> str | None:
    """The reason why a document cannot be indexed, or None if it can.

    Checked are the length of the id, that no text field is an object, that the vector has ``dim`` finite numbers, and
    that all of it is JSON. ``fields`` are the text fields of the index, ``dim`` the length of its vectors (None accepts
    any).
    """
    if (reason := json_fault(document.id)) is not None:
        return f"id: {reason}"
    if not 0 < len(document.id.encode()) <= MAX_ID_BYTES:
        return f"id of {len(document.id.encode())} bytes, expected 1 to {MAX_ID_BYTES}"
    for name in fields:
        if any(isinstance(value, Mapping) for value in values_of(document.source, name)):
            return f"field {name!r} is an object, expected text"
    # The embedded engine would store a NaN, and answer with scores that are NaN, which JSON does not have.
    vector = document.vector
    if vector is not None and (len(vector) != (dim or len(vector)) or not np.isfinite(vector).all()):
        return f"vector of {len(vector)} dimensions, expected {dim or len(vector)} finite numbers"
    return json_fault(document.source)


def json_fault(value: Any) -> str | None:
    """The reason why a value cannot be written as JSON in UTF-8, or None if it can.

    >>> json_fault({"text": "\\ud800"})
    "'\\\\ud800' is half of a character, expected Unicode text"
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        return f"{error.object[error.start]!a} is half of a character, expected Unicode text"
    except (TypeError, ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return None


def check_name(index: str) -> str:
    """Return ``index``. Raises BadInput if it cannot name an index on every engine."""
    bad = set(index) & set('\\/*?"<>| ,#:')
    if not index or bad or index != index.lower() or index[0] in "_-+." or len(index.encode()) > 255:
        raise BadInput(f"{index!r} cannot name an index", value=index, expected="lower-case letters, digits, - and _")
    return index


def check_index(index: str, fields: Sequence[str], analyzer: str) -> None:
    """Raises BadInput for a name that no index can have, an unknown analyzer, or fields that cannot be its texts."""
    check_name(index)
    if analyzer not in ANALYZERS:
        raise BadInput(f"unknown analyzer {analyzer!r}", value=analyzer, expected=" | ".join(ANALYZERS))
    if not fields or isinstance(fields, str):
        raise BadInput("no text fields", value=fields, expected="a list of field names")
    for place, name in enumerate(fields):
        if not isinstance(name, str) or not all(name.split(".")) or name in ("_id", VECTOR_FIELD, *fields[:place]):
            expected = "names of different fields, such as title or author.name"
            raise BadInput(f"{name!r} cannot be a text field", value=name, expected=expected)
