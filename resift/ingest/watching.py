"""Vectors kept true while clients write: what changed in an index is verified, and mended, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from resift.contracts.documents import IndexInfo, StoredDocument
from resift.encoders.model import Model
from resift.errors import ResiftError
from resift.ingest.stopping import Stop
from resift.ingest.verify import Verification, check, choose, verify
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.scanning import ShardState


class Watch:
    """Keeps the vectors of indices true until a stop is requested.

    Each index is verified as a whole once, and again where the history of a shard is another one: it was restored from
    a snapshot, or made anew. After that only those documents are read that were written since, by the numbers that
    each shard gives its writes (``_seq_no``); so an index that nobody writes to costs one small request a round. A
    shard's writes are remembered up to where they are settled: some of those behind may be under way still, and a
    primary that is lost may take them with it.

    ``names`` are those of :func:`choose`, and are looked up in each round: new indices are found. ``found`` is called
    with what was mended, and at first with what was checked, ``tell`` with what hinders it, once, and with its end.
    """

    def __init__(
        self,
        engine: OpenSearchEngine,
        model: Model,
        names: Sequence[str],
        stop: Stop,
        found: Callable[[Verification], None],
        tell: Callable[[str], None],
    ) -> None:
        self._engine, self._model, self._names, self._stop = engine, model, names, stop
        self._found, self._tell = found, tell
        self._seen: dict[tuple[str, str], dict[int, ShardState]] = {}  # by index and field
        self._told: dict[str, str] = {}  # what hinders it, by index, or "" for all of them

    def run(self, seconds: float) -> None:
        """Watch, with so many seconds between the rounds."""
        while not self._stop.requested:
            self.round()
            self._stop.wait(seconds)

    def round(self) -> None:
        """Mend what was written since the round before. Whatever fails is tried again in the next."""
        try:
            chosen, others = choose(self._engine, self._model, self._names)
        except ResiftError as error:
            self._hindered("", f"{error.message}; it is tried again")
            return
        self._free("")
        for name, why in others.items():
            self._hindered(name, f"index {name} has {why}")
        for info in chosen:
            if self._stop.requested:
                return
            self._mend(info)

    def _mend(self, info: IndexInfo) -> None:
        try:
            found = self._changed(info)
        except ResiftError as error:
            self._hindered(info.name, f"index {info.name} cannot be checked: {error.message}")
            return
        if found is not None and found.fault:
            self._hindered(info.name, f"index {info.name} cannot be checked: {found.fault}")
            return
        self._free(info.name)
        if found is not None:
            self._found(found)

    def _changed(self, info: IndexInfo) -> Verification | None:
        """Mend what was written since the round before; return what was found, None if there is nothing to tell."""
        key = info.name, info.vector_field
        # Before anything is read: what is written from now on is read again in the next round.
        now, before = self._engine.shard_states(info.name), self._seen.get(key, {})
        known = all(shard in before and before[shard].history == state.history for shard, state in now.items())
        if known:
            behind = {
                shard: before[shard].settled for shard, state in now.items() if state.highest > before[shard].settled
            }
            if not behind:
                return None
            self._engine.refresh(info.name)  # what is settled need not be visible yet
            found = check(self._engine, self._model, info, self._written(info, behind), True, self._stop)
        else:
            self._engine.refresh(info.name)
            found = verify(self._engine, self._model, info.name, True, self._stop)
        if self._stop.requested or found.fault:
            return found
        self._seen[key] = {**before, **now}
        return found if not known or found.repaired or found.refused else None

    def _written(self, info: IndexInfo, behind: dict[int, int]) -> Iterator[StoredDocument]:
        """The documents of some shards that were written since."""
        for shard, after in behind.items():
            yield from self._engine.scan_shard(info.name, shard, after, info.vector_field, info.fields)

    def _hindered(self, name: str, why: str) -> None:
        if self._told.get(name) != why:
            self._told[name] = why
            self._tell(why)

    def _free(self, name: str) -> None:
        if name in self._told:
            del self._told[name]
            self._tell(f"{f'index {name}' if name else 'the cluster'} can be checked again")
