"""Teachers: whatever gives texts the vectors that word tables are learned from, and the memory of what it gave."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from urllib3 import PoolManager, Retry
from urllib3.exceptions import HTTPError

from resift.arrays import Floats, batched
from resift.errors import BadInput, TeacherUnavailable, shorten
from resift.vectors.similarity import unit_rows
from resift_lab.training.distill import load
from resift_lab.training.progress import Progress

Encode = Callable[[Sequence[str]], Floats]
CALL = 64  # texts that a teacher is given at a time
_SECONDS, _RETRIES, _BUSY = 120.0, 4, (429, 500, 502, 503, 504)
_EXPECTED = "data: [{index, embedding}, …], as OpenAI's embeddings have it"


class Teacher:
    """A model that gives texts vectors: ``encode`` takes at most :data:`CALL` texts, and returns (n, D).

    ``name`` says which it is. What it gave is kept in the folder ``memory``, call by call, so that none is made twice:
    not after an interruption, nor by a training with other settings. ``prefix`` stands before each text.
    """

    def __init__(self, name: str, encode: Encode, memory: Path | None = None, prefix: str = "") -> None:
        self.name, self._encode, self._memory, self._prefix = name, encode, memory, prefix
        self._dim: int | None = None  # of the first vectors

    def vectors(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """The texts' vectors at length 1 or 0, (n, D) float32; ``progress`` is called with the texts done and all.

        Raises BadInput where the teacher gives something else, and TeacherUnavailable.
        """
        parts: list[Floats] = []
        for call in batched(texts, CALL):
            parts.append(self._remembered([self._prefix + text for text in call]))
            dim = parts[-1].shape[1]
            self._dim = self._dim or dim
            if dim != self._dim:
                raise self.refused(f"vectors of {self._dim} dimensions and of {dim}", "one model for all texts")
            if progress:
                progress(sum(map(len, parts)), len(texts))
        return unit_rows(np.concatenate(parts).astype(np.float32))

    def refused(self, given: str, expected: str) -> BadInput:
        """The error to raise of vectors that are of no use; they are forgotten, lest a better teacher inherit them."""
        if self._memory is not None:
            shutil.rmtree(self._memory, ignore_errors=True)
        return BadInput(f"{self.name} gives {given}", value=self.name, expected=expected)

    def _remembered(self, texts: Sequence[str]) -> Floats:
        if self._memory is None:
            return self._checked(texts)
        key = hashlib.sha256(json.dumps([self.name, *texts]).encode()).hexdigest()[:32]
        path = self._memory / f"{key}.npy"
        try:
            found: Floats = np.load(path)
        except (OSError, ValueError, EOFError):
            found = self._checked(texts).astype(np.float16)
            self._memory.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            with partial.open("wb") as file:
                np.save(file, found)
            partial.replace(path)
        return found

    def _checked(self, texts: Sequence[str]) -> Floats:
        vectors = np.asarray(self._encode(texts))
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.size:
            message = f"{self.name} gave {len(texts)} texts vectors of shape {vectors.shape}"
            raise BadInput(message, value=self.name, expected=f"({len(texts)}, D)")
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        if not np.isfinite(largest).all():
            text = texts[int(np.argmin(np.isfinite(largest)))]
            message = f"{self.name} gave {shorten(text)!r} NaN or Infinity"
            raise BadInput(message, value=self.name, expected="finite numbers")
        # at length 1 before any float16, which holds no large and no tiny numbers
        return unit_rows(vectors / np.where(largest > 0, largest, 1))


def folder_teacher(folder: str) -> Encode:
    """A sentence-transformers model in a local folder. Raises as :func:`resift_lab.training.distill.load` does."""
    model = load(folder)

    def encode(texts: Sequence[str]) -> Floats:
        vectors: Floats = model.encode(list(texts), batch_size=CALL, convert_to_numpy=True, show_progress_bar=False)
        return vectors

    return encode


def endpoint_teacher(url: str, model: str | None, key: str | None) -> Encode:
    """An endpoint in OpenAI's shape: ``url`` is what its documentation calls the base URL, as https://host/v1.

    ``model`` is the one to ask for, where the endpoint has several, ``key`` its API key. A busy endpoint is asked again
    a few times, later and later. Where none answers, or with something else, TeacherUnavailable is raised.
    """
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    retry = Retry(
        _RETRIES, connect=0, status_forcelist=_BUSY, allowed_methods=None, backoff_factor=1, raise_on_status=False
    )
    pool, address = PoolManager(retries=retry, timeout=_SECONDS), f"{url.rstrip('/')}/embeddings"

    def encode(texts: Sequence[str]) -> Floats:
        asked = {"input": list(texts), **({"model": model} if model else {})}
        try:
            response = pool.request("POST", address, json=asked, headers=headers)
            answer = response.json()
        except (HTTPError, ValueError) as error:
            raise TeacherUnavailable(f"{address}: {error}", value=address, expected=_EXPECTED) from error
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            with np.errstate(over="ignore"):  # what becomes infinite is refused
                return np.array([row["embedding"] for row in rows], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            message = f"{address} answers {response.status}: {shorten(json.dumps(answer))}"
            raise TeacherUnavailable(message, value=address, expected=_EXPECTED) from error

    return encode
