"""Teachers: models that encode the texts from which word vectors are trained, with a cache of their vectors."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from urllib3 import PoolManager, Retry
from urllib3.exceptions import HTTPError

from resift.arrays import Floats, batched
from resift.errors import BadInput, TeacherUnavailable, shorten
from resift.vectors.similarity import unit_rows
from resift_lab.training.device import Device
from resift_lab.training.progress import Progress
from resift_lab.training.transformer import Transformer

# A function that maps texts to vectors of shape (n, D).
Encode = Callable[[Sequence[str]], Floats]
# Texts per call of a teacher, and of a teacher on a GPU.
CALL = 64
GPU_CALL = 2048
# Timeout of a request to an endpoint in seconds, the number of retries, and the statuses that are retried.
_SECONDS = 120.0
_RETRIES = 4
_BUSY = (429, 500, 502, 503, 504)
_EXPECTED = 'a response in the format of OpenAI\'s embeddings, {"data": [{"index", "embedding"}, …]}'


class Teacher:
    """A large model, whose vectors a smaller model is trained to imitate. Its vectors are cached in a folder.

    Texts that were encoded before are read from the cache, for example when a training run is resumed, or repeated with
    other settings.

    Args:
        name: The name of the model, which is part of the cache's keys.
        encode: The function that encodes at most ``call`` texts.
        cache: The folder of the cache, or None to cache nothing.
        prefix: A string to put before each text, such as "query: ".
        call: The maximum number of texts per call of ``encode``. The vectors of a call are cached in one file.
    """

    def __init__(
        self, name: str, encode: Encode, cache: Path | None = None, prefix: str = "", call: int = CALL
    ) -> None:
        self.name, self._encode, self._cache, self._prefix, self._call = name, encode, cache, prefix, call
        # Dimensions of the first vectors, which all others must have.
        self._dim: int | None = None

    def vectors(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Encode texts, or read their vectors from the cache.

        Args:
            texts: The n texts.
            progress: A function that is called with the number of encoded texts and the total number.

        Returns:
            A unit vector (or zero vector) of D dimensions for each text, shape (n, D), float32.

        Raises:
            BadInput: If the teacher's vectors have a wrong shape, different numbers of dimensions, or values that are
                NaN or infinite.
            TeacherUnavailable: If the teacher is an endpoint that does not respond or returns no vectors.
        """
        calls: list[Floats] = []
        for call in batched(texts, self._call):
            calls.append(self._cached([self._prefix + text for text in call]))
            dim = calls[-1].shape[1]
            self._dim = self._dim or dim
            if dim != self._dim:
                raise self.reject(f"vectors of {self._dim} dimensions and of {dim}", "the same model for all texts")
            if progress:
                progress(sum(map(len, calls)), len(texts))
        return unit_rows(np.concatenate(calls).astype(np.float32))

    def reject(self, problem: str, expected: str) -> BadInput:
        """Delete the cached vectors, and return the error to raise for unusable vectors.

        The cache is deleted because it would return the same vectors again, even after the teacher was corrected.

        Args:
            problem: A description of the vectors, which completes the sentence "The teacher returns …".
            expected: A description of the expected vectors.
        """
        if self._cache is not None:
            shutil.rmtree(self._cache, ignore_errors=True)
        return BadInput(f"{self.name} returns {problem}", value=self.name, expected=expected)

    def _cached(self, texts: Sequence[str]) -> Floats:
        """Read the vectors of texts from the cache. If they are not cached yet, encode the texts and store the vectors.

        Args:
            texts: The n texts of a call.

        Returns:
            Vectors of shape (n, D) for D dimensions.
        """
        if self._cache is None:
            return self._encode_checked(texts)
        key = hashlib.sha256(json.dumps([self.name, *texts]).encode()).hexdigest()[:32]
        path = self._cache / f"{key}.npy"
        try:
            vectors: Floats = np.load(path)
        except (OSError, ValueError, EOFError):
            vectors = self._encode_checked(texts).astype(np.float16)
            self._cache.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            with partial.open("wb") as file:
                np.save(file, vectors)
            partial.replace(path)
        return vectors

    def _encode_checked(self, texts: Sequence[str]) -> Floats:
        """Encode texts with the teacher, check its vectors, and scale them to unit length.

        Args:
            texts: The n texts of a call.

        Returns:
            Vectors of shape (n, D) for D dimensions. Each is a unit vector or a zero vector.

        Raises:
            BadInput: If the vectors have a wrong shape, or values that are NaN or infinite.
        """
        vectors = np.asarray(self._encode(texts))
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.size:
            message = f"{self.name} returned vectors of shape {vectors.shape} for {len(texts)} texts"
            raise BadInput(message, value=self.name, expected=f"({len(texts)}, D)")
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        if not np.isfinite(largest).all():
            text = texts[int(np.argmin(np.isfinite(largest)))]
            message = f"{self.name} returned NaN or Infinity for {shorten(text)!r}"
            raise BadInput(message, value=self.name, expected="finite numbers")
        # Scaled to unit length before the conversion to float16, whose range is small.
        return unit_rows(vectors / np.where(largest > 0, largest, 1))


def folder_teacher(folder: str, device: Device | None = None) -> Encode:
    """Return a function that encodes texts with a sentence-transformers model in a local folder.

    Args:
        folder: The folder of the model.
        device: The device of the model. None means a GPU if torch finds one, and the CPU otherwise.

    Raises:
        MissingExtra: If sentence-transformers is not installed.
        BadInput: If the folder contains no model.
    """
    return partial(Transformer(folder, device).encode, batch=CALL)


def endpoint_teacher(url: str, model: str | None, key: str | None) -> Encode:
    """Return a function that encodes texts with an embeddings endpoint in the format of OpenAI's API.

    Requests to a busy endpoint are retried up to four times, with increasing delays. The returned function raises
    :class:`TeacherUnavailable` if the endpoint does not respond, or if its response has another format.

    Args:
        url: The base URL of the API, for example ``https://host/v1``.
        model: The name of the model, or None if the endpoint needs no name.
        key: The API key, or None if the endpoint needs no key.
    """
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    retry = Retry(
        _RETRIES, connect=0, status_forcelist=_BUSY, allowed_methods=None, backoff_factor=1, raise_on_status=False
    )
    pool, address = PoolManager(retries=retry, timeout=_SECONDS), f"{url.rstrip('/')}/embeddings"

    def encode(texts: Sequence[str]) -> Floats:
        body: dict[str, Any] = {"input": list(texts)}
        if model:
            body["model"] = model
        try:
            response = pool.request("POST", address, json=body, headers=headers)
            answer = response.json()
        except (HTTPError, ValueError) as error:
            raise TeacherUnavailable(f"{address} failed: {error}", value=address, expected=_EXPECTED) from error
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            with np.errstate(over="ignore"):  # infinite values are rejected later
                return np.array([row["embedding"] for row in rows], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            message = f"{address} answered with status {response.status}: {shorten(json.dumps(answer))}"
            raise TeacherUnavailable(message, value=address, expected=_EXPECTED) from error

    return encode
