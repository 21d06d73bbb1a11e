"""Tests of word counts by document and segment."""

from __future__ import annotations

import numpy as np
import pytest

from resift import Model, WordVectors
from resift.encoders.model import Layers
from resift_lab.training.documents import segment_counts


def test_segment_counts_divide_the_words_of_a_text(vectors: WordVectors) -> None:
    model = Model("x", vectors, "mean", "cosine", Layers(segments=3))
    counts = segment_counts(model, ["fire bush flame smoke forest", "gun", ""]).toarray()
    segments = [{model.table.words[word] for word in np.flatnonzero(row)} for row in counts[:3]]
    assert segments == [{"fire", "bush"}, {"flame", "smoke"}, {"forest"}]
    assert counts[3:].sum(axis=1).tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("segments", [1, 2, 4])
def test_segment_counts_have_a_row_for_each_segment(vectors: WordVectors, segments: int) -> None:
    model = Model("x", vectors, "mean", "cosine", Layers(segments=segments))
    counts = segment_counts(model, ["fire bush gun war rain", "gun", ""])
    assert counts.shape == (3 * segments, len(vectors))
