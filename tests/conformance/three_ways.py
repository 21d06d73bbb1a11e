"""Send a search to OpenSearch three ways: plainly, rewritten without a session, and rewritten in a session."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import urllib3
from answers import Answer, Difference, differences, exact_differences
from flask.testing import FlaskClient

from resift.query.body import parse

Json = dict[str, Any]

WITHOUT_SESSION = "without a session"
IN_SESSION = "in a session"
ATTACHED = "attached without a session"
# The reason of a body that was not rewritten because of an unexpected exception, whose class is named.
_CRASH = re.compile(r"failed: \w+")
_REPETITIONS = 2
_PAGES = 20  # of a scroll, at most
_SHOWN = 600  # characters of a body in the text of a difference
_MARKABLE = 3  # hits of the search that looks for documents to mark


class OpenSearchClient:
    """Sends requests to a cluster, and returns errors as answers.

    Args:
        url: The cluster's address, which may contain a user and a password.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._base = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if parts.username:
            self._headers |= urllib3.make_headers(basic_auth=f"{parts.username}:{parts.password}")
        self._pool = urllib3.PoolManager(retries=False, timeout=120)

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Answer:
        """Send one request.

        Args:
            method: The HTTP method.
            path: The path of the URL, quoted.
            body: A JSON value. A list is sent as newline-delimited JSON. None sends no body.
            params: Query parameters of the URL.
        """
        if isinstance(body, list):
            lines = (line if isinstance(line, str) else json.dumps(line) for line in body)
            data = "".join(f"{line.rstrip()}\n" for line in lines)
        else:
            data = body if body is None or isinstance(body, str) else json.dumps(body)
        query = "&".join(f"{name}={quote(_parameter(value))}" for name, value in params.items() if value is not None)
        url = f"{self._base}/{path.lstrip('/')}{'?' if query else ''}{query}"
        encoded = None if data is None else data.encode("utf-8", "surrogatepass")
        response = self._pool.request(method, url, body=encoded, headers=self._headers)
        try:
            received = json.loads(response.data)
        except ValueError:  # a HEAD request, or the text of a _cat API
            received = {"text": response.data.decode("utf-8", "replace")}
        return Answer(response.status, received if isinstance(received, dict) else {"items": received})


@dataclass(frozen=True)
class Search:
    """A search request.

    Attributes:
        index: The index expression of the URL. It is "" for all indices, and for a point in time.
        body: The search body.
        params: Query parameters of the URL.
        rewrite_index: The index expression for ``/v1/rewrite``, if it is not ``index``.
        marked_query: The query for which documents are marked. "" stands for the text of the search itself.
        relevant: Ids of documents of ``index`` that are marked, or () for some of the search's own hits.
        is_moved: Whether a session must change the body.
        vector: A query vector that a session must move, or ().
        fixed: The path of a part of the body that a session must leave as and where it is, or ().
    """

    index: str
    body: Json
    params: Mapping[str, Any] = field(default_factory=dict)
    rewrite_index: str = ""
    marked_query: str = ""
    relevant: Sequence[str] = ()
    is_moved: bool = False
    vector: Sequence[float] = ()
    fixed: tuple[str | int, ...] = ()


class ThreeWays:
    """Compares the answers to searches that are sent plainly, rewritten without a session, and rewritten in a session.

    Args:
        cluster: The cluster that is searched.
        service: A client of Resift's HTTP service over the same cluster.

    Attributes:
        counts: How many searches were sent, how many of them failed plainly, and what became of those in a session.
        effect: What a session did to the latest search, in English. "" if there was no document to mark.
    """

    def __init__(self, cluster: OpenSearchClient, service: FlaskClient) -> None:
        self.cluster = cluster
        self.service = service
        self.counts = Counter[str]()
        self.effect = ""
        self._names = itertools.count()
        self._sessions: dict[str, tuple[str, list[Difference]]] = {}

    def forget(self) -> None:
        """Mark documents in new sessions from now on, because documents have changed."""
        self._sessions.clear()

    def compare(self, search: Search) -> list[tuple[str, Difference]]:
        """Return the differences from the plain answer, each with the way in which the search was sent.

        A difference counts only if it occurs again when all is repeated: random scores differ each time, and OpenSearch
        sometimes fails at a search that it answers the next time.
        """
        self.counts["searches"] += 1
        self.effect = ""
        plain = self.send(search)
        self.counts["failed plainly"] += not plain.is_success
        found = self._differences(search, plain, self.counts)
        for _ in range(_REPETITIONS):
            if found:
                again = self._differences(search, self.send(search), Counter())
                occurring = {(way, difference.comparison) for way, difference in again}
                found = [(way, one) for way, one in found if (way, one.comparison) in occurring]
        return found

    def _differences(self, search: Search, plain: Answer, counts: Counter[str]) -> list[tuple[str, Difference]]:
        """Return the differences from a plain answer, and count what became of the search."""
        found = [(WITHOUT_SESSION, one) for one in self._without_session(search, plain, counts)]
        session, refused = self._session(search, plain)
        found += [(IN_SESSION, one) for one in refused]
        if session:
            found += [(IN_SESSION, one) for one in self._in_session(search, plain, session, counts)]
        else:
            counts["in a session: no document to mark"] += 1
        return found

    def send(self, search: Search, body: Json | None = None) -> Answer:
        """Return OpenSearch's answer to a search, with the hits of all pages of a scroll.

        Args:
            search: The search.
            body: A body to send in place of the search's own.
        """
        path = f"{quote(search.index, safe=',*')}/_search" if search.index else "_search"
        answer = self.cluster.request("POST", path, search.body if body is None else body, **search.params)
        if "scroll" in search.params:
            self._scroll(answer)
        return answer

    def _scroll(self, answer: Answer) -> None:
        """Add the hits of a scroll's later pages to its first page, and end the scroll."""
        hits = answer.hits
        for _ in range(_PAGES):
            if not hits or "_scroll_id" not in answer.body:
                break
            body = {"scroll_id": answer.body["_scroll_id"], "scroll": "1m"}
            page = self.cluster.request("POST", "_search/scroll", body)
            if page.status != 200:
                answer.body["scroll failed"] = page.body
                break
            hits = page.hits
            answer.hits.extend(hits)
        if "_scroll_id" in answer.body:
            self.cluster.request("DELETE", "_search/scroll", {"scroll_id": [answer.body["_scroll_id"]]})

    def _without_session(self, search: Search, plain: Answer, counts: Counter[str]) -> list[Difference]:
        """Return the differences of the rewritten search without a session, which must be none."""
        failure, body, _ = self._rewrite(search, search.body)
        if failure is not None:
            return _refused(plain, failure)
        if json.dumps(body) == json.dumps(search.body):
            return []
        counts["without a session: body changed"] += 1
        return exact_differences(plain, self.send(search, body))

    def _in_session(self, search: Search, plain: Answer, session: str, counts: Counter[str]) -> list[Difference]:
        """Return the differences of the search in a session, of the parts that a session must not change."""
        if not isinstance(search.body.get("ext", {}), dict):  # OpenSearch refuses the search anyway
            return []
        failure, body, outcome = self._rewrite_in(session, search)
        counts[f"{IN_SESSION}: {outcome}"] += 1
        if failure is not None:
            return _refused(plain, failure)
        found = differences(plain, self.send(search, body), search.body)
        if search.is_moved and body == search.body:
            found.append(Difference("body", "body: the session does not change it"))
        if search.vector and _has_vector(body, search.vector):
            found.append(Difference("body", "body: the session does not move the query vector"))
        if search.fixed and value_at(search.body, search.fixed) != value_at(body, search.fixed):
            found.append(Difference("body", f"body: {search.fixed} changes in {json.dumps(body)[:_SHOWN]}"))
        return found

    def rewritten(self, search: Search, plain: Answer, **options: Any) -> tuple[Json, str]:
        """Have the service rewrite a search in a session with marks.

        Args:
            search: The search.
            plain: The answer without Resift, whose hits are marked.
            **options: Options of ``ext.ml_inference``.

        Returns:
            The rewritten body and the outcome.
        """
        session, refused = self._session(search, plain)
        assert not refused
        failure, body, outcome = self._rewrite_in(session, search, **options)
        assert failure is None, failure
        return body, outcome

    def _rewrite_in(self, session: str, search: Search, **options: Any) -> tuple[Answer | None, Json, str]:
        """Have the service rewrite the body of a search in a session, and remove Resift's options from the result."""
        ext = search.body.get("ext", {})
        # A body does not show that the search is a scroll, which OpenSearch cannot rescore.
        options = {"session": session, "scroll": "scroll" in search.params, **options}
        asked = {**search.body, "ext": {**ext, "ml_inference": options}}
        failure, body, outcome = self._rewrite(search, asked)
        # a cluster may lack the plugin that reads our options
        body = {name: value for name, value in body.items() if name != "ext"}
        return failure, {**body, "ext": ext} if "ext" in search.body else body, outcome

    def _rewrite(self, search: Search, body: Json) -> tuple[Answer | None, Json, str]:
        """Have the service rewrite a body.

        Returns:
            The service's answer if it refuses or fails, or None; the rewritten body; and the outcome.
        """
        index = search.rewrite_index or search.index
        response = self.service.post("/v1/rewrite", json={"index": index, "body": body})
        received = response.get_json()
        if response.status_code != 200:
            return Answer(response.status_code, received), body, f"{response.status_code} of the service"
        outcome, reason = received["resift"]["outcome"], received["resift"].get("reason", "")
        self.effect = _effect(body, received["body"], reason)
        if _CRASH.fullmatch(reason):
            return Answer(500, {"error": reason}), body, outcome
        return None, received["body"], outcome

    def _session(self, search: Search, plain: Answer) -> tuple[str, list[Difference]]:
        """Return the id of a session in which the search's first hit is relevant and its last hit is irrelevant.

        If the search has no hits, documents of its query are marked, or any documents of its indices.

        Returns:
            The id, or "" if there is nothing to mark, and the differences if the service refuses the marks.
        """
        if search.relevant:
            return self._session_with(search, {search.index: {"relevant": list(search.relevant)}})
        hits = _markable(plain.hits)
        for query in (search.body.get("query"), {"match_all": {}}):
            if hits:
                break
            hits = self._documents(search, query)
        if not hits:
            return "", []
        marks: dict[str, Json] = {hits[0]["_index"]: {"relevant": [hits[0]["_id"]]}}
        if len(hits) > 1 and hits[-1]["_id"] != hits[0]["_id"]:
            marks.setdefault(hits[-1]["_index"], {})["irrelevant"] = [hits[-1]["_id"]]
        return self._session_with(search, marks)

    def _session_with(self, search: Search, marks: Mapping[str, Json]) -> tuple[str, list[Difference]]:
        """Return a session with these marks, a new one unless there is one: index → grade → ids."""
        key = json.dumps([marks, _marked_query(search)])
        if key not in self._sessions:
            self._sessions[key] = self._marked(search, marks)
        return self._sessions[key]

    def _documents(self, search: Search, query: Any) -> Sequence[Json]:
        """Return documents that a query finds in the searched indices."""
        body: Json = {"size": _MARKABLE, "_source": False}
        if query:
            body["query"] = query
        index = search.rewrite_index or search.index
        answer = self.cluster.request("POST", f"{quote(index, safe=',*')}/_search", body, ignore_unavailable=True)
        return _markable(answer.hits)

    def _marked(self, search: Search, marks: Mapping[str, Json]) -> tuple[str, list[Difference]]:
        """Mark documents in a new session."""
        session = f"session-{next(self._names)}"
        refused = []
        for index, grades in marks.items():
            request = {"session": session, "index": index, "query": _marked_query(search), **grades}
            response = self.service.post("/v1/feedback", json=request)
            if response.status_code != 200:
                message = response.get_json()["error"]["message"]
                refused.append(Difference("marks", f"marks: the service answers {response.status_code}: {message}"))
        return session, refused


def _marked_query(search: Search) -> str:
    """Return the query for which documents are marked, by default the text of the search itself."""
    return search.marked_query or parse(search.body).text


def _effect(body: Json, rewritten: Json, reason: str) -> str:
    """Return what the rewriting did to a search, in English.

    Args:
        body: The body before the rewriting.
        rewritten: The rewritten body.
        reason: The reason that the service states if it did not rewrite all of the body.
    """
    added = [name for name in ("query", "rescore") if body.get(name) != rewritten.get(name)]
    done = "rescored" if "rescore" in added else "words added" if added else "left alone"
    return f"{done}: {reason}" if reason else done


def _refused(plain: Answer, failure: Answer) -> list[Difference]:
    """Return the difference between a plain answer and the service's answer that it cannot rewrite the search."""
    if not plain.is_success and failure.status < 500:  # the search is refused either way
        return []
    error = failure.body.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return [
        Difference("rewriting", f"rewriting: plain {plain.status}, the service answers {failure.status}: {message}")
    ]


def _parameter(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_parameter(item) for item in value)
    return str(value)


def value_at(value: Any, path: Sequence[str | int]) -> Any:
    """Return the part of a JSON value at a path of names and positions, or None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _has_vector(value: Any, vector: Sequence[float]) -> bool:
    """Return whether a vector occurs in a JSON value, but for rounding."""
    if isinstance(value, dict):
        return any(_has_vector(item, vector) for item in value.values())
    if not isinstance(value, list):
        return False
    if len(value) == len(vector) and all(isinstance(item, (int, float)) for item in value):
        return bool(np.allclose(value, vector, rtol=0, atol=1e-4))
    return any(_has_vector(item, vector) for item in value)


def _markable(hits: Sequence[Json]) -> list[Json]:
    """Return the hits that may be marked: hits that have an id and are not in a system index."""
    return [hit for hit in hits if "_id" in hit and not hit["_index"].startswith(".")]
