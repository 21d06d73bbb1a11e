"""Read and cache the descriptions of the indices that the service may search."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import IndexNotFound, ModelMismatch, ResiftError
from resift.service.served_indices import ServedIndices

_INFO_SECONDS = 5.0
"""Seconds for which the description of an index (:class:`IndexInfo`) is cached."""
_CACHED_INFOS = 1000


@dataclass(frozen=True)
class ServedIndex:
    """An index that the service may search.

    Attributes:
        info: The fields, vectors and settings of the index.
        is_named_in_settings: Whether the settings of the service name the index itself. If False, they only name an
            alias of the index.
        model: The embedding model that the service uses.
    """

    info: IndexInfo
    is_named_in_settings: bool
    model: Model

    @cached_property
    def info_for_search(self) -> IndexInfo:
        """The description of the index, reduced to what searches of this service need.

        An index can have vectors of several models. This description names only the vectors of the service's model.

        Raises:
            ModelMismatch: If the index has vectors, but none were made by the service's model.
        """
        return self.info.for_search(self.model)


class IndexInfos:
    """Reads the descriptions of the indices that the service may search, and caches them for five seconds.

    Methods with an argument ``headers`` pass these HTTP headers of the caller on to the search engine. Cached
    descriptions are shared only between callers with the same headers. Instances are thread-safe.

    Args:
        engine: The search engine.
        model: The embedding model that the service uses.
        served_indices: The indices that the service may search.
    """

    def __init__(self, engine: Engine, model: Model, served_indices: ServedIndices) -> None:
        self.engine, self.model, self.served_indices = engine, model, served_indices
        self._cache: TtlCache[ServedIndex] = TtlCache(_CACHED_INFOS, _INFO_SECONDS)

    def get(self, index: str, headers: Headers = None) -> IndexInfo:
        """Return the names, fields and settings of an index. They are cached for five seconds.

        An index without vectors is allowed.

        Args:
            index: The name of the index or alias.
            headers: The caller's HTTP headers, or None.

        Raises:
            IndexNotFound: If the index does not exist.
            IndexNotServed: If the settings of the service do not allow searching the index.
            ModelMismatch: If the index has vectors, but none were made by the service's model.
        """
        return self.get_served(index, headers).info_for_search

    def get_or_none(self, index: str, headers: Headers = None, cached_only: bool = False) -> IndexInfo | None:
        """Return the names, fields and settings of an index, or None if the index cannot be read. See :meth:`get`.

        Args:
            index: The name of the index or alias.
            headers: The HTTP headers of the caller, or None.
            cached_only: Whether to send no request to the engine, and return None if the result is not cached.
        """
        try:
            if not cached_only:
                return self.get(index, headers)
            cached = self._cache.get((index, str(headers)))
            return None if cached is None else cached.info_for_search
        except ResiftError:
            return None

    def get_served(self, index: str, headers: Headers = None) -> ServedIndex:
        """Return the description of an index that the service may search. The result is cached for five seconds.

        Args:
            index: The name of the index or alias.
            headers: The caller's HTTP headers, or None.

        Raises:
            IndexNotServed: If the settings of the service do not allow searching the index, or an index behind the
                alias.
            ResiftError: If the index does not exist, or the engine failed.
        """
        key = (index, str(headers))
        return self._cache.get_or_load(key, lambda: self._load_served(index, headers))

    def _load_served(self, index: str, headers: Headers) -> ServedIndex:
        """Check that the service may search an index, and read the description of the index from the engine.

        The arguments and errors are those of :meth:`get_served`, which caches the result.
        """
        infos: list[IndexInfo] = []

        def resolve(name: str) -> Sequence[str]:
            # An error about the index must not be reported before the index is known to be served.
            with suppress(IndexNotFound, ModelMismatch):
                infos.append(self.engine.info(name, headers))
                return infos[-1].indices
            return self.engine.resolve(name, headers)

        is_named_in_settings = self.served_indices.require_served(index, resolve)
        info = infos[0] if infos and infos[0].name == index else self.engine.info(index, headers)
        return ServedIndex(info, is_named_in_settings, self.model)
