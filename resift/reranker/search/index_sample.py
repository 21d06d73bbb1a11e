"""A sample of an index's vectors: what the documents of a session are told apart from."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from resift.errors import ResiftError
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.ranking.background import Background
from resift.cache import TtlCache

log = logging.getLogger(__name__)
_SECONDS, _SAMPLES = 600.0, 64
_DOCUMENTS = 300
Headers = Mapping[str, str] | None


class IndexSamples:
    """Vectors of documents drawn at random, remembered for ten minutes for callers with the same headers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._samples: TtlCache[Background] = TtlCache(_SAMPLES, _SECONDS)

    def of(self, info: IndexInfo, headers: Headers = None) -> Background:
        """At most 300 vectors; none of an index without vectors, or where the engine refuses to draw any.

        Raises EngineUnavailable.
        """
        if info.dim is None:
            return Background(np.zeros((0, 0)))
        known = self._samples.get((info.name, info.model, str(headers)))
        if known is not None:
            return known
        try:
            drawn = self.engine.sample(info.name, _DOCUMENTS, False, info.searched, headers).vectors
        except ResiftError as error:
            if error.code == "engine_unavailable":
                raise
            log.warning("no sample of %r: %s", info.name, error.message)
            drawn = []
        held = [vector for vector in drawn if vector is not None]
        sample = Background(np.stack(held) if held else np.zeros((0, 0)))
        return self._samples.put((info.name, info.model, str(headers)), sample)
