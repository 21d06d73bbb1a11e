"""Encode documents that contain a bag of vectors, with the neural bag-of-features network RN-BoF.

The vectors of a bag can represent image patches, tokens, or any other features of a document. The network compares them
with learned centroids (codewords), and maps the bag to a single vector of R dimensions.

A bag is a list of vectors of D numbers. A bag can also be divided into S regions, such as the horizontal strips of an
image. It is then a list of S lists of vectors, and each region has its own K codewords. With the vectors x_1 … x_n of a
region, the codewords v_k and their widths σ_k, the histogram of the region is

    s = 1/n · Σ_j φ(x_j),  where φ(x) is the softmax over k of -‖x - v_k‖ / σ_k

The vector of the document is relu(Wᵀ · (s_1, …, s_S)), scaled to unit length, where s_1 to s_S are the histograms of
all regions, joined end to end. :mod:`resift_lab.training.rnbof` trains v, σ and W.

Source: Passalis and Tefas 2017 ("Learning Neural Bag-of-Features for Large Scale Image Retrieval"), eqs. 6 to 8 and
section 3.2.3.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.codebook import softmax_of_distances
from resift.encoders.model import Layers, Model
from resift.errors import BadInput, DimensionMismatch, shorten
from resift.strict_json import MAX_CONTAINERS
from resift.vectors.packaged import load_vectors
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift.vectors.weights import Alphas

Bag = list[Floats]
"""The vectors of a document: an array of shape (n_vectors, D) for each region."""

_AT_ONCE = 4096  # vectors of a region that are compared with the codewords at a time, which limits the memory


class BagModel(Model):
    """An encoder that maps the bag of vectors in a field of a document to a single vector of R dimensions.

    The vectors of the bag are compared with learned centroids (codewords), as described at the top of this module.

    The text of a query has no bag, so its vector is zero. Searches for words then work as without vectors. In a
    session, the zero vector is moved towards the vectors of relevant documents.

    Args:
        name: The name of the model.
        bags: The name of the field with the bag, at the top level of a document.
        codebooks: The codewords of each of the S regions, of shape (S, K, D).
        widths: The width σ of each codeword, more than 0, of shape (S, K).
        head: The matrix W of the last layer, of shape (S·K, R) for vectors of R numbers.
        info: The origin of the model, as JSON.

    Raises:
        BadInput: If a width is not positive, or the name of the field is not valid.
        DimensionMismatch: If the shapes do not fit together.
    """

    kind = "bags"

    def __init__(
        self,
        name: str,
        bags: str,
        codebooks: NDArray[Any],
        widths: NDArray[Any],
        head: NDArray[Any],
        info: dict[str, Any] | None = None,
    ) -> None:
        check_bag_field(bags)
        self.codebooks, self.widths = np.asarray(codebooks, np.float32), np.asarray(widths, np.float32)
        if self.codebooks.ndim != 3 or self.widths.shape != self.codebooks.shape[:2]:
            message = f"the codebooks have the shape {self.codebooks.shape}, their widths {self.widths.shape}"
            raise DimensionMismatch(message, expected="(regions, codewords, dimensions) and (regions, codewords)")
        if not (self.widths > 0).all():
            raise BadInput(f"a codeword has the width {self.widths.min()}", expected="more than 0")
        regions, codewords = self.widths.shape
        # The service estimates how rare the words of queries and documents are from the packaged vocabulary.
        words = load_vectors()
        rows = np.zeros((len(words), codewords), np.int8)
        table = WordVectors(words.words, rows, words.weights, np.ones(len(words), np.float32), info)
        super().__init__(name, table, "mean", "cosine", Layers(head=head, segments=regions), Alphas(0.75, 1.0))
        self.bags = bags

    def encode_bags(self, values: Sequence[Any]) -> tuple[Floats, dict[int, str]]:
        """Encode the bag of each document as a single vector of unit length.

        Args:
            values: A bag for each document, as JSON: a list of vectors, or a list of lists of vectors if the model has
                several regions. None stands for a document without a bag.

        Returns:
            The vectors, of shape (n_documents, R), and the reasons why bags cannot be encoded, by position. The vector
            of such a bag, or of a document without a bag, is zero.
        """
        vectors, faults = np.zeros((len(values), self.dim), np.float32), dict[int, str]()
        regions, _, width = self.codebooks.shape
        for position, value in enumerate(values):
            if value is None:
                continue
            try:
                bag = read_bag(value)
                check_bag(bag, regions, width)
            except BadInput as error:
                faults[position] = str(error)
                continue
            histograms = [self._histogram(vectors, region) for region, vectors in enumerate(bag)]
            vectors[position] = self._apply_layers(np.concatenate(histograms))
        return unit_rows(vectors), faults

    def _histogram(self, vectors: Floats, region: int) -> Floats:
        """Compare the vectors of a region with the codewords, and return the mean membership in each codeword.

        A codeword is a learned centroid. Each region of a bag has its own codewords. The memberships of a vector sum to
        1. They are larger for nearer codewords, relative to the widths of the codewords.

        Args:
            vectors: The vectors, of shape (n_vectors, D).
            region: The number of the region, counted from 0.

        Returns:
            Array of shape (K,). It is zero if the region has no vectors.

        Source:
            Passalis and Tefas 2017, equations 6 and 7.
        """
        codebook, widths = self.codebooks[region], self.widths[region]
        total = np.zeros(len(codebook), np.float32)
        for start in range(0, len(vectors), _AT_ONCE):
            total += softmax_of_distances(vectors[start : start + _AT_ONCE], codebook, widths).sum(axis=0)
        return np.asarray(total / max(1, len(vectors)), np.float32)

    def _encode(self, texts: Sequence[str]) -> Floats:
        """Return a zero vector for each text, because texts have no bag of vectors."""
        return np.zeros((len(texts), self.dim), np.float32)

    def known_share(self, text: str) -> float:
        """Return 0, because the model knows no words."""
        return 0.0

    def nearest_words(self, vector: NDArray[Any], count: int = 5) -> list[str]:
        """Return an empty list, because words have no vectors in this model."""
        return []

    def _saved_words(self) -> list[str]:
        return []

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "bags": self.bags}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"codebooks": self.codebooks, "widths": self.widths, "head": np.asarray(self.head)}

    @classmethod
    def restore(cls, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> BagModel:
        """Create a model from the contents of a saved folder.

        Args:
            info: The settings, as saved in JSON.
            words: Not used, because the model has no words.
            arrays: The saved arrays by name.
        """
        codebooks, widths, head = (arrays[name] for name in ("codebooks", "widths", "head"))
        model = cls(info["name"], info["bags"], codebooks, widths, head, info["vectors"])
        model.alpha, model.max_alpha = info["alpha"], info["max_alpha"]
        return model


def check_bag_field(name: str) -> None:
    """Check that a field can contain bags of vectors.

    Args:
        name: The name of the field.

    Raises:
        BadInput: If the name is empty, begins with an underscore or contains a dot.
    """
    if not name or name.startswith("_") or "." in name:
        expected = "a name without dots, such as patches, of a field at the top level of the documents"
        raise BadInput(f"{name!r} cannot be a field of bags", value=name, expected=expected)


def read_bag(value: Any) -> Bag:
    """Convert a bag of vectors from JSON to arrays.

    Args:
        value: A list of vectors, a list of regions (lists of vectors), or JSON text of such a list. A vector is a list
            of numbers.

    Returns:
        An array of shape (n_vectors, D) for each region. A bag that is a list of vectors has a single region. A region
        without vectors has the shape (0, D).

    Raises:
        BadInput: If the value is not a bag, has no vectors, its vectors differ in length, or a vector contains
            something that is not a finite number. Also if the JSON text contains too many lists.

    >>> [region.tolist() for region in read_bag([[[0, 1]], [[2, 3], [4, 5]]])]
    [[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]]
    """
    if isinstance(value, str):
        value = _parse_bag(value)
    if not isinstance(value, list):
        raise _not_a_bag(f"the bag is {shorten(value, 60)!r}")
    has_regions = any(isinstance(part, list) and any(isinstance(item, list) for item in part) for part in value)
    regions = value if has_regions else [value]
    lengths = dict.fromkeys(len(vector) for region in regions for vector in _checked_lists(region))
    if not lengths:
        raise _not_a_bag("the bag is empty")
    width = next(iter(lengths))
    parts = []
    for number, region in enumerate(regions):
        where = f"region {number}, " if has_regions else ""
        parts.append(_region_array(region, width, where))
    return parts


def check_bag(bag: Bag, regions: int, width: int) -> None:
    """Check that the bag of vectors of a document has the shape that a model expects.

    Args:
        bag: The bag, from :func:`read_bag`.
        regions: The number of regions S.
        width: The number of numbers D in a vector.

    Raises:
        BadInput: If the bag has another number of regions, or its vectors have another length.
    """
    if len(bag) != regions:
        raise BadInput(f"the bag has {_counted(len(bag), 'region')}", expected=_counted(regions, "region"))
    if bag[0].shape[1] != width:
        raise BadInput(f"the vectors have {_counted(bag[0].shape[1], 'number')}", expected=_counted(width, "number"))


def _parse_bag(text: str) -> Any:
    """Parse the JSON text of a bag. Raise ``BadInput`` if the text is not JSON, or contains too many lists."""
    lists = text.count("[")
    if lists > MAX_CONTAINERS:
        raise BadInput(f"the bag has {lists} lists", value=lists, expected=f"at most {MAX_CONTAINERS} lists")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _not_a_bag(f"the bag is the text {shorten(text, 60)!r}") from None


def _checked_lists(region: Any) -> list[list[Any]]:
    """Check that a region is a list of lists, and return it. Raise ``BadInput`` otherwise."""
    if not isinstance(region, list):
        raise _not_a_bag(f"a region is {shorten(region, 60)!r}")
    for number, vector in enumerate(region):
        if not isinstance(vector, list):
            raise _not_a_bag(f"vector {number} is {shorten(vector, 60)!r}")
    return region


def _region_array(region: list[list[Any]], width: int, where: str) -> Floats:
    """Convert the vectors of a region to an array, and check their lengths and numbers.

    Args:
        region: The vectors of the region, as lists of numbers.
        width: The expected length of a vector.
        where: The beginning of error messages, which names the region.

    Raises:
        BadInput: If a vector has another length, or contains something that is not a finite number.
    """
    for number, vector in enumerate(region):
        if len(vector) != width or not width:
            message = f"{where}vector {number} has {_counted(len(vector), 'number')}"
            raise BadInput(message, expected=f"{width or 'at least 1'}, as many as the first vector")
    if not region:
        return np.zeros((0, width), np.float32)
    try:
        numbers = np.array(region)
    except (ValueError, OverflowError):  # a vector contains a list
        numbers = np.array(None)
    if numbers.ndim == 2 and numbers.dtype.kind in "fiu":
        with np.errstate(over="ignore"):
            array = numbers.astype(np.float32)
        if np.isfinite(array).all():
            return array
    for number, vector in enumerate(region):
        for item in vector:
            if not isinstance(item, (int, float)) or not abs(item) <= _LARGEST:
                raise BadInput(f"{where}vector {number} contains {shorten(item, 60)!r}", expected="finite numbers")
    return np.array(region, np.float32)  # contains whole numbers of more than 64 bits, or truth values


_LARGEST = float(np.finfo(np.float32).max)


def _not_a_bag(message: str) -> BadInput:
    return BadInput(message, expected="a list of vectors, or a list of such lists for several regions")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
