"""Documents drawn at random from an index, which judged ones are told apart from."""

from __future__ import annotations

import logging

import numpy as np

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.contracts.query_dsl import VectorFields
from resift.errors import ResiftError
from resift.ranking.background import Background

log = logging.getLogger(__name__)
_SECONDS, _KEPT, _DRAWN = 600.0, 64, 300
_NOTHING = Background(np.zeros((0, 0)))


class Samples:
    """Vectors of documents drawn at random, remembered for ten minutes for callers with the same headers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._samples: TtlCache[Background] = TtlCache(_KEPT, _SECONDS)

    def draw(self, info: IndexInfo, headers: Headers = None, fields: VectorFields | None = None) -> Background:
        """At most 300 vectors of an index, by default of those that we gave it; none where the engine gives none.

        Raises EngineUnavailable.
        """
        if fields is None and info.dim is None:
            return _NOTHING
        fields = fields or info.searched
        key = (info.name, fields if fields != info.searched else (fields, info.model), str(headers))
        known = self._samples.get(key)
        if known is not None:
            return known
        try:
            drawn = self.engine.sample(info.name, _DRAWN, False, fields, headers).vectors
        except ResiftError as error:
            if error.code == "engine_unavailable":
                raise
            log.warning("no sample of %r: %s", info.name, error.message)
            drawn = []
        held = [vector for vector in drawn if vector is not None]
        return self._samples.put(key, Background(np.stack(held)) if held else _NOTHING)
