"""Types of the arguments and results of search engines, and checks of documents and indices before they are sent."""

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
from resift.field_names import has_title_name
from resift.query.clause_count import ClauseCounter, FieldTypes, term_count
from resift.query.dsl import MAX_OWN_CLAUSES, VECTOR_FIELD, NestedField, values_of

# Languages whose words both engines stem alike. Snowball supports more languages. For some of them OpenSearch and
# snowballstemmer use different versions of the rules, and the rest have not been compared.
LANGUAGES = (
    *("catalan", "danish", "dutch", "finnish", "french", "german", "hungarian"),
    *("italian", "norwegian", "portuguese", "russian", "spanish", "swedish"),
)
# Elided articles and similar prefixes (French "l'", Italian "dell'"), which are removed from the word after the
# apostrophe.
ELISIONS = {
    "catalan": ["d", "l", "m", "n", "s", "t"],
    "french": ["c", "d", "j", "jusqu", "l", "lorsqu", "m", "n", "puisqu", "qu", "quoiqu", "s", "t"],
    "italian": [
        *("agl", "all", "c", "d", "dagl", "dall", "degl", "dell", "gl", "l", "m"),
        *("negl", "nell", "pell", "s", "sugl", "sull", "coll", "t", "un", "v"),
    ],
}
ANALYZERS = ("english", "standard", *LANGUAGES)
# Matches the characters at which new indices split compound names, as in os.path and read_csv, but not in U.S. Java and
# Python interpret this expression alike. Java counts a letter beyond U+FFFF as two characters in a lookbehind, hence
# {2,4} and {1,2}. The expression begins with the joint itself. If it began with a lookbehind, Java would look back at
# each character of a text, and a node would need nearly twice as long to index texts.
_LETTER = r"[\p{L}\p{M}]"
COMPOUND_JOINTS = rf"[_.:](?:(?<=_)|(?<={_LETTER}{{2,4}}[.:])(?={_LETTER})|(?<={_LETTER}{{1,2}}[.:])(?={_LETTER}{{2}}))"
TOKEN_NUMBERS = "token_numbers"
"""The kind of OpenSearch's ``sparse_vector`` fields, which approximate search (SEISMIC) searches."""
MAX_ID_BYTES = 512  # the limit of OpenSearch, which the embedded engine applies as well


@dataclass(frozen=True)
class VectorField:
    """A field in an index mapping that contains document vectors or token weights.

    The vectors can come from Resift or from another program.

    Attributes:
        name: The path of the field. For OpenSearch's ``semantic`` fields, it is the path of the inner vector field.
        kind: The type of the vector's components (``float``, ``half_float``, ``byte`` or ``binary``), ``tokens`` for
            token weights, or ``token_numbers`` for token weights whose tokens are numbers.
        dim: The number of components, or None if the mapping does not specify it.
        nested: Whether a document can have several vectors, each in a nested object.
        model: For a ``semantic`` field, the id of the engine's model that encodes queries. Otherwise None.
        space: The k-NN space type, such as ``l2``.
    """

    name: str
    kind: str = "float"
    dim: int | None = None
    nested: bool = False
    model: str | None = None
    space: str = "l2"

    @property
    def has_tokens(self) -> bool:
        """Whether the field contains token weights."""
        return self.kind in ("tokens", TOKEN_NUMBERS)


@dataclass(frozen=True)
class IndexInfo:
    """A description of an index: its text fields and vectors, as they are stored in its mapping.

    If the index has vectors of several models, the description is about the vectors of one model, and ``other_models``
    contains a description for each other model.

    Attributes:
        name: The name, alias, pattern or list by which the caller addressed the index.
        fields: The text fields that are searched and encoded.
        model: The hash of the model that encoded the documents, or None for an index without vectors of Resift.
        model_name: The name of the model, or None if ``model`` is None.
        dim: The number of dimensions K of the vectors, or None if ``model`` is None.
        indices: The concrete names of all indices behind ``name``.
        vector_field: The field that contains the vectors.
        has_hnsw: Whether the vector field has an HNSW index. Without it, engines refuse k-NN queries on the field.
        other_models: Descriptions of the vectors of further models, which are in other fields.
        vector_fields: All vector and token fields in the mapping, Resift's own and others, by the names that queries
            use.
        tuning: Constants that were chosen for searches of this index, such as the weight of the similarity.
        field_types: The types of all fields in the mapping, separately for each index behind ``name``. Equal mappings
            are contained once. Empty if the engine has no mapping.
        bags: The field with the bag of vectors of a document, if the model encodes bags (see
            :mod:`resift.encoders.bags`). None if the model encodes the text fields.
        text_sources: For each field in the ``_source`` of documents that fills text fields of the mapping, the names by
            which queries search its text. Empty if the engine has no mapping.
        nested_fields: The text fields inside nested objects, as :class:`resift.query.dsl.NestedField`. Empty if
            ``fields`` is not, because ``fields`` also contains such fields.
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
    field_types: tuple[FieldTypes, ...] = ()
    bags: str | None = None
    text_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nested_fields: tuple[NestedField, ...] = ()

    def query_fields(self, text: str) -> tuple[str, ...]:
        """Return the fields in which a text query searches.

        In an index without vectors of Resift, these are all fields. The pattern ``*`` finds nothing in nested objects,
        so the text fields in nested objects are added. They are left out if OpenSearch would then refuse the query,
        because a long text has too many clauses.

        Args:
            text: The text of the query.

        Returns:
            The names of the fields. Empty for all fields outside nested objects.
        """
        if self.fields or not self.nested_fields:
            return self.fields
        counter = ClauseCounter(self.field_types)
        clauses_per_term = counter.clauses_per_term([]) + counter.clauses_per_term(self.nested_fields)
        return ("*", *self.nested_fields) if term_count(text) * clauses_per_term <= MAX_OWN_CLAUSES else ()

    @property
    def readable_fields(self) -> tuple[str, ...]:
        """The fields in the ``_source`` of documents that contain texts. Empty if they are unknown.

        In an index without vectors of Resift, these are the fields that fill the text fields of the mapping. Fields
        with titles come first.
        """
        return self.fields or tuple(sorted(self.text_sources, key=lambda name: not has_title_name(name)))

    def find_model(self, model: ModelDescription) -> IndexInfo | None:
        """Find the description of the vectors that an embedding model has written to this index.

        An index can have vectors of several models in different fields. The description names the model's vector field.

        Args:
            model: The embedding model, which is recognised by its hash.

        Returns:
            The description, or None if the index has no vectors of this model.
        """
        return next((info for info in (self, *self.other_models) if info.model == model.hash), None)

    def require_model(self, model: ModelDescription) -> IndexInfo:
        """Return the description of the vectors that an embedding model has written to this index.

        Args:
            model: The embedding model, which is recognised by its hash.

        Raises:
            ModelMismatch: If the index has no vectors of this model.
        """
        info = self.find_model(model)
        if info is not None:
            return info
        if self.model is None:
            attached = f"an index with vectors: resift attach {self.name} --vectors"
            raise ModelMismatch(f"index {self.name!r} has no vectors", value=self.name, expected=attached)
        raise ModelMismatch(
            f"index {self.name!r} has vectors of model {self.model_name} ({self.model}), "
            f"but the model in use is {model.name} ({model.hash})",
            value=self.model,
            expected=f"the model {self.model}: name its folder (--model, RESIFT_MODEL, or model= in Python), or index "
            f"the documents again with {model.name}",
        )

    def for_search(self, model: ModelDescription) -> IndexInfo:
        """Return the description of the index for searches with an embedding model.

        An index without vectors can be searched with any model, so its description is returned unchanged.

        Args:
            model: The embedding model that encodes queries.

        Raises:
            ModelMismatch: If the index has vectors, but none of this model.
        """
        if self.model is None:
            return self
        tuning = self.tuning
        if tuning.model != model.hash:  # the weight was chosen for another model's vectors
            tuning = structs.replace(tuning, alpha=None)
        return replace(
            self.require_model(model),
            vector_fields=self.vector_fields,
            tuning=tuning,
            field_types=self.field_types,
            text_sources=self.text_sources,
            nested_fields=self.nested_fields,
        )

    @classmethod
    def from_model(
        cls, model: ModelDescription, fields: Sequence[str], name: str = "", vector_field: str = VECTOR_FIELD
    ) -> IndexInfo:
        """Create the description of a new index whose text fields are encoded by an embedding model.

        Args:
            model: The embedding model.
            fields: The names of the text fields.
            name: The name of the index.
            vector_field: The name of the field for the vectors.
        """
        return cls(
            name=name,
            fields=tuple(fields),
            model=model.hash,
            model_name=model.name,
            dim=model.dim,
            indices=(name,),
            vector_field=vector_field,
            bags=model.bags,
        )

    def to_meta(self) -> dict[str, Any]:
        """Convert this description to a JSON object that can be stored in the mapping of the index.

        The object contains the text fields, and the model, the dimension and the field of the vectors. Default values
        are left out, and so are the vectors of ``other_models``.
        """
        meta: dict[str, Any] = {
            "fields": list(self.fields),
            "model": self.model,
            "model_name": self.model_name,
            "dim": self.dim,
        }
        if self.vector_field != VECTOR_FIELD:
            meta["vector_field"] = self.vector_field
        if not self.has_hnsw:
            meta["graph"] = False
        if self.bags is not None:
            meta["bags"] = self.bags
        return meta

    @classmethod
    def from_meta(cls, name: str, meta: Mapping[str, Any]) -> IndexInfo:
        """Create a description of an index from the JSON that :meth:`to_meta` returned.

        Args:
            name: The name of the index.
            meta: The JSON object from the mapping. It is empty for an index that Resift did not create.
        """
        return cls(
            name=name,
            fields=tuple(meta.get("fields", ())),
            model=meta.get("model"),
            model_name=meta.get("model_name"),
            dim=meta.get("dim"),
            indices=(name,),
            vector_field=meta.get("vector_field", VECTOR_FIELD),
            has_hnsw=meta.get("graph", True),
            bags=meta.get("bags"),
            other_models=tuple(cls.from_meta(name, other) for other in meta.get("others", ())),
        )

    @classmethod
    def combine(cls, name: str, infos: Sequence[IndexInfo]) -> IndexInfo:
        """Combine the descriptions of several indices that are searched together, for example through an alias.

        Some of the indices may have no vectors.

        Args:
            name: The alias, pattern or list that stands for the indices.
            infos: The descriptions of the indices.

        Raises:
            ModelMismatch: If the indices with vectors have no model in common whose vectors are in the same field.
        """
        indices = tuple(own for info in infos for own in info.indices)
        first, *rest = [info for info in infos if info.model is not None] or [cls(name, (), None, None, None)]
        common = []
        for candidate in (first, *first.other_models):
            matching = [match for info in rest if (match := info.find_same_vectors(candidate)) is not None]
            if len(matching) == len(rest):
                matching = [candidate, *matching]
                shared = replace(
                    candidate,
                    name=name,
                    indices=indices,
                    fields=_all_fields(matching),
                    # Shards of an index without an HNSW index would fail a k-NN query, and their hits would be missing.
                    has_hnsw=all(info.has_hnsw for info in matching),
                    other_models=(),
                )
                common.append(shared)
        if not common:
            other = next(info for info in rest if info.find_same_vectors(first) is None)
            raise ModelMismatch(
                f"{name!r} stands for indices of different models, such as {first.name!r} and {other.name!r}",
                value=other.name,
                expected="indices with vectors of one model, in the same field of each index",
            )
        tuning = max((info.tuning for info in infos), key=lambda tuning: tuning != DEFAULT_TUNING)
        return replace(
            common[0],
            other_models=tuple(common[1:]),
            vector_fields=_equal_vector_fields([info.vector_fields for info in infos]),
            tuning=tuning,
            field_types=_distinct_field_types([types for info in infos for types in info.field_types]),
            text_sources=_all_text_sources([info.text_sources for info in infos]),
            nested_fields=() if common[0].fields else _common_nested_fields(infos),
        )

    def find_same_vectors(self, other: IndexInfo) -> IndexInfo | None:
        """Find the vectors of this index that have the same model and vector field as the vectors of another index.

        Two indices with such vectors can be searched with the same query vector.

        Args:
            other: The description of the other index's vectors.

        Returns:
            The description of this index's vectors, or None if there are none.
        """
        key = other.model, other.vector_field
        return next((info for info in (self, *self.other_models) if (info.model, info.vector_field) == key), None)


def _equal_vector_fields(mappings: Sequence[Mapping[str, VectorField]]) -> dict[str, VectorField]:
    """Return the vector fields by which several indices can be searched together.

    A field is left out if two indices have fields of this name with different properties, such as different numbers of
    dimensions.

    Args:
        mappings: For each index, its vector fields by name.

    Returns:
        The remaining vector fields, by name.
    """
    fields = {name: field for mapping in mappings for name, field in mapping.items()}
    return {
        name: field for name, field in fields.items() if all(mapping.get(name, field) == field for mapping in mappings)
    }


def _distinct_field_types(mappings: Sequence[FieldTypes]) -> tuple[FieldTypes, ...]:
    """Remove duplicates from the field types of several indices.

    Indices behind an alias usually have the same fields with the same types.

    Args:
        mappings: For each index, the types of its fields by name.
    """
    distinct: list[FieldTypes] = []
    for mapping in mappings:
        if mapping not in distinct:
            distinct.append(mapping)
    return tuple(distinct)


def _all_fields(infos: Sequence[IndexInfo]) -> tuple[str, ...]:
    """Return the text fields of all indices, without duplicates."""
    fields: dict[str, str] = {}
    for name in (name for info in infos for name in info.fields):
        # If the indices do not all map a field inside nested objects of the same path, query it as a plain field.
        has_same_path = getattr(fields.get(name, name), "path", None) == getattr(name, "path", None)
        fields[name] = name if has_same_path else str(name)
    return tuple(fields.values())


def _common_nested_fields(infos: Sequence[IndexInfo]) -> tuple[NestedField, ...]:
    """Return the text fields that are inside nested objects of the same path in all indices.

    OpenSearch refuses a ``nested`` query if the path is an object of another type in one of the searched indices.
    """
    first, *rest = infos or [IndexInfo("", (), None, None, None)]
    # Two field names are equal even if their paths differ.
    paths = [{name: name.path for name in info.nested_fields} for info in rest]
    return tuple(name for name in first.nested_fields if all(each.get(name) == name.path for each in paths))


def _all_text_sources(mappings: Sequence[Mapping[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Combine the ``text_sources`` of several indices: the document fields that fill the indices' text fields.

    Args:
        mappings: For each index, the names by which queries search the text of a document field, by field path. See
            :attr:`IndexInfo.text_sources`.

    Returns:
        For each document field, its names in all of the indices.
    """
    sources: dict[str, tuple[str, ...]] = {}
    for path, names in (entry for mapping in mappings for entry in mapping.items()):
        sources[path] = tuple(dict.fromkeys([*sources.get(path, ()), *names]))
    return sources


class ModelDescription(Protocol):
    """The properties of a model that are stored in the mapping of an index."""

    @property
    def name(self) -> str:
        """The model's name, which messages show to users."""

    @property
    def hash(self) -> str:
        """The 16 hexadecimal digits that identify the model."""

    @property
    def dim(self) -> int:
        """The number of dimensions of the model's vectors."""

    @property
    def space_type(self) -> str:
        """The k-NN space type (OpenSearch's ``space_type``) of the vector field, for example ``innerproduct``."""

    @property
    def bags(self) -> str | None:
        """The field of a document with a bag of vectors that the model encodes, or None if the model encodes texts."""


@dataclass(frozen=True)
class Document:
    """A document, with or without a vector.

    Attributes:
        id: The id of the document.
        source: The fields of the document as JSON.
        vector: The vector of the document, of shape (n_dimensions,), or None.
        version: The version number of a stored document, which is needed to update its vector safely (see
            :meth:`resift.contracts.engine.Engine.put_vectors`). Its type depends on the engine. For a document with
            custom routing, it includes the routing value.
    """

    id: str
    source: dict[str, Any]
    vector: Floats | None = None
    version: Any = None


@dataclass(frozen=True)
class Rejection:
    """A document that the engine refused to index in a bulk request.

    Attributes:
        position: The position of the document in the request, counted from 0.
        id: The id of the document.
        status: The HTTP status for this document.
        reason: The error message of the engine.
    """

    position: int
    id: str
    status: int
    reason: str


class SearchResult:
    """The response to a search in OpenSearch's format, with the vectors of its hits.

    Args:
        response: The response as a dictionary.
        vectors: The vector of each hit, a float32 array of shape (n_dimensions,), or None for a hit without a vector.
            If omitted, no hit has a vector.
        unparsed: The response as JSON text and a function that parses it, as an alternative to ``response``. The text
            is parsed only when :attr:`response` is read, because most callers just forward the text.
    """

    def __init__(
        self,
        response: dict[str, Any] | None = None,
        vectors: Sequence[Floats | None] | None = None,
        unparsed: tuple[str, Callable[[str], dict[str, Any]]] | None = None,
    ) -> None:
        self._response = response or {}
        self._vectors = vectors
        self._unparsed = unparsed

    @property
    def text(self) -> str | None:
        """The response as JSON text, or None if the text is not available.

        The text is not available if the result was created from a parsed response. It is also not available after
        :attr:`response` has been used, because the caller may have changed the parsed response.
        """
        return None if self._unparsed is None else self._unparsed[0]

    @property
    def response(self) -> dict[str, Any]:
        """The response as a dictionary, which the caller may change."""
        if self._unparsed is not None:
            text, parse = self._unparsed
            self._response, self._unparsed = parse(text), None
        return self._response

    @property
    def vectors(self) -> Sequence[Floats | None]:
        """The vector of each hit, of shape (n_dimensions,), or None for a hit without a vector.

        All items are None if the search did not request vectors.
        """
        return [None] * len(self.hits) if self._vectors is None else self._vectors

    @property
    def hits(self) -> list[dict[str, Any]]:
        """The hits of the response, best first."""
        hits: list[dict[str, Any]] = self.response["hits"]["hits"]
        return hits


def check_document(document: Document, fields: Sequence[str] = (), dim: int | None = None) -> str | None:
    """Return the reason why a document cannot be indexed, or None if it can be indexed.

    A document needs an id of valid length and must be valid JSON. Its text fields must not contain objects. Its vector,
    if any, must consist of ``dim`` finite numbers.

    Args:
        document: The document to check.
        fields: The names of the text fields of the index.
        dim: The number of dimensions of the vectors in the index. If None, any number is accepted.
    """
    if (reason := json_fault(document.id)) is not None:
        return f"id: {reason}"
    if not 0 < len(document.id.encode()) <= MAX_ID_BYTES:
        return f"the id has {len(document.id.encode())} bytes, expected 1 to {MAX_ID_BYTES}"
    for name in fields:
        if any(isinstance(value, Mapping) for value in values_of(document.source, name)):
            return f"field {name!r} is an object, expected text"
    # The embedded engine would store NaN and return NaN scores, which JSON cannot represent.
    vector = document.vector
    if vector is not None and (len(vector) != (dim or len(vector)) or not np.isfinite(vector).all()):
        return f"the vector has {len(vector)} numbers, expected {dim or len(vector)} finite numbers"
    return json_fault(document.source)


def json_fault(value: Any) -> str | None:
    r"""Return the reason why a value cannot be written as JSON in UTF-8, or None if it can.

    Args:
        value: The value to write.

    >>> json_fault({"text": "\ud800"})
    "'\\ud800' is half of a surrogate pair, expected Unicode text"
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        return f"{error.object[error.start]!a} is half of a surrogate pair, expected Unicode text"
    except (TypeError, ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return None


def check_name(index: str) -> str:
    """Check that an index name is valid on every engine, and return the name.

    Args:
        index: The index name.

    Raises:
        BadInput: If the name is not valid.
    """
    bad = set(index) & set('\\/*?"<>| ,#:')
    if not index or bad or index != index.lower() or index[0] in "_-+." or len(index.encode()) > 255:
        expected = "lower-case letters, digits, - and _"
        raise BadInput(f"{index!r} is not a valid index name", value=index, expected=expected)
    return index


def check_index(index: str, fields: Sequence[str], analyzer: str) -> None:
    """Check the settings of a new index.

    Args:
        index: The name of the index.
        fields: The names of its text fields.
        analyzer: The name of its analyzer.

    Raises:
        BadInput: If the name is invalid, the analyzer is unknown, or ``fields`` is empty or contains an invalid or
            repeated name.
    """
    check_name(index)
    if analyzer not in ANALYZERS:
        raise BadInput(f"unknown analyzer {analyzer!r}", value=analyzer, expected=" | ".join(ANALYZERS))
    if not fields or isinstance(fields, str):
        raise BadInput("there are no text fields", value=fields, expected="a list of field names")
    for position, name in enumerate(fields):
        if not isinstance(name, str) or not all(name.split(".")) or name in ("_id", VECTOR_FIELD, *fields[:position]):
            expected = "different field names, such as title or author.name"
            raise BadInput(f"{name!r} cannot be a text field", value=name, expected=expected)
