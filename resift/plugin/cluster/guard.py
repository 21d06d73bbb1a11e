"""Keeps a reranker that hangs from costing each search a second: while it does not answer, nobody asks it.

ML Commons gives up a request after a second, and asks again at the next search. It can be told that a model is
disabled, and then search pipelines go on at once, with the search as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPException
from urllib.request import urlopen

from resift.errors import EngineError, EngineUnavailable
from resift.plugin.cluster.client import Cluster

# Of pipelines that go on without: of searches, and of what is written to indices with an ingest pipeline of their own.
# Whoever writes through that of the installation has to know that nothing is encoded.
GUARDED = ("rewrite", "rerank", "query")
_SECONDS = 1.0  # to wait for an answer, as ML Commons does
_MISSED = 2  # answers in a row after which nobody asks any more


class Guard:
    """Watches the reranker at ``url`` for the installation ``name``, and switches what asks it off and on again."""

    def __init__(self, cluster: Cluster, name: str, url: str) -> None:
        self.cluster, self.name, self.url = cluster, name, url
        self._missed = 0
        self._switched: bool | None = None

    def check(self) -> str:
        """Ask the reranker once, and switch if it has to be; return what was done, or "".

        Raises EngineUnavailable and EngineError.
        """
        self._missed = 0 if self._answers() else self._missed + 1
        if self._missed == 0:
            return self.switch(True)
        return self.switch(False) if self._missed >= _MISSED else ""

    def watch(self, wait: Callable[[float], bool], tell: Callable[[str], None]) -> None:
        """Check each second until ``wait``, which is given these seconds, returns True; then switch on.

        ``tell`` is given what was done, and why something could not be done.
        """
        try:
            while True:
                try:
                    done = self.check()
                except (EngineUnavailable, EngineError) as error:
                    done = error.message  # a cluster that is away for a while is asked again
                if done:
                    tell(done)
                if wait(_SECONDS):
                    break
        finally:
            if self._switched is False:
                tell(self.switch(True))

    def switch(self, on: bool) -> str:
        """Have the cluster ask the reranker, or not; return what was done, or "" if it is as it should be."""
        if self._switched is on:
            return ""
        changed = False
        for which in GUARDED:
            for id, source in self.cluster.named("models", f"{self.name}-{which}"):
                if source.get("is_enabled", True) is not on:
                    self.cluster.request("PUT", f"/_plugins/_ml/models/{id}", {"is_enabled": on})
                    changed = True
        self._switched = on
        said = "answers: searches are rewritten" if on else "does not answer: searches go on without it"
        return f"{self.url} {said}" if changed else ""

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/healthz", timeout=_SECONDS) as answer:
                return bool(answer.status == 200)
        except (OSError, HTTPException):
            return False
