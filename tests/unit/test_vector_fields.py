"""The fields of vectors and tokens that a mapping has, whoever made them."""

from __future__ import annotations

from typing import Any

from resift.contracts.documents import IndexInfo, VectorField
from resift.plugin.opensearch.mappings import vector_fields

KNN = {"type": "knn_vector", "dimension": 3, "method": {"space_type": "innerproduct"}}


def fields_of(**properties: Any) -> dict[str, VectorField]:
    return dict(vector_fields({"properties": properties}))


def test_vector_fields_are_found_at_any_depth_of_a_mapping() -> None:
    fields = fields_of(
        v={**KNN, "space_type": "cosinesimil"},
        bits={"type": "knn_vector", "dimension": 16, "data_type": "BINARY"},
        numbers={"type": "float"},
        meta={"properties": {"v": KNN}},
        parts={"type": "nested", "properties": {"inner": {"properties": {"v": KNN}}}},
        halves={"type": "knn_vector", "dimension": 3, "data_type": "half_float"},
        tokens={"type": "rank_features"},
        sparse={"type": "sparse_vector", "method": {"name": "seismic"}},
        trained={"type": "knn_vector", "model_id": "m"},
    )
    assert fields == {
        "v": VectorField("v", dim=3, space="cosinesimil"),
        "bits": VectorField("bits", "binary", 16),
        "meta.v": VectorField("meta.v", dim=3, space="innerproduct"),
        "parts.inner.v": VectorField("parts.inner.v", dim=3, nested=True, space="innerproduct"),
        "halves": VectorField("halves", "half_float", 3),
        "tokens": VectorField("tokens", "tokens"),
        "sparse": VectorField("sparse", "token_numbers"),
        "trained": VectorField("trained"),
    }


def test_a_semantic_field_has_its_vectors_beside_it_and_names_their_model() -> None:
    info = {"properties": {"model": {"properties": {"id": {"type": "keyword"}}}, "embedding": KNN}}
    fields = fields_of(said={"type": "semantic", "model_id": "m", "search_model_id": "s"}, said_semantic_info=info)
    where = "said_semantic_info.embedding"
    assert fields["said"] == VectorField(where, dim=3, model="s", space="innerproduct")
    assert fields[where] == VectorField(where, dim=3, space="innerproduct")
    selected = {"type": "semantic", "model_id": "m", "model_selection": {"strategy": "language"}}
    assert fields_of(said=selected, said_semantic_info=info)["said"].model is None
    chunks = {"properties": {"chunks": {"type": "nested", "properties": {"embedding": KNN}}}}
    named = {"type": "semantic", "model_id": "m", "semantic_info_field_name": "elsewhere"}
    assert fields_of(said=named, elsewhere=chunks)["said"].nested


def test_several_indices_share_the_vector_fields_with_equal_mappings() -> None:
    narrow, wide = VectorField("v", dim=3), VectorField("v", dim=4)
    mapped = [{"v": narrow, "w": narrow}, {"v": wide, "x": narrow}, {"v": narrow}]
    infos = [IndexInfo(f"i{n}", (), None, None, None, (f"i{n}",), vector_fields=each) for n, each in enumerate(mapped)]
    assert IndexInfo.combine("i*", infos).vector_fields == {"w": narrow, "x": narrow}
    assert IndexInfo.combine("i*", [infos[0], infos[2]]).vector_fields == {"v": narrow, "w": narrow}
