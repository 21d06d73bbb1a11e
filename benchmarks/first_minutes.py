"""Measure the time to first results: ``python benchmarks/first_minutes.py [--only clone,csv,attach,hybrid,click]``.

Runs the commands of the documentation in a new folder, and prints a Markdown row for each first result: the commands
and their total time in seconds. ``clone`` and ``hybrid`` install Resift from the package index. ``attach`` and
``hybrid`` need OPENSEARCH_URL, a cluster without passwords and without an installation of Resift. They install Resift
there and remove it again. ``click`` needs Chromium.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from ports import free_port, free_ports

ROOT = Path(__file__).resolve().parents[1]
BROWSER = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
PAGE = """<!doctype html><title>A web page</title><p id="found"></p>
<script src="RERANKER/resift.js" data-index="tickets"></script>
<script>
(async () => {
  const answer = await Resift.search("charge", {size: 5});
  await Resift.clicked(answer.hits.hits[1]._id);
  document.getElementById("found").textContent = Resift.session;
})();
</script>
"""


class Typist:
    """A shell that runs commands in a folder and records them.

    Args:
        folder: The working folder.
        undone: Stack for callbacks that clean up.
        settings: Environment variables.
    """

    def __init__(self, folder: Path, undone: ExitStack, **settings: str) -> None:
        self.folder, self.undone, self.typed = folder, undone, []
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("RESIFT_", "OPENSEARCH_"))
        }
        self.environment = inherited | {"PATH": path} | settings

    def type(self, command: str, label: str = "") -> str:
        """Run a command and return its output. ``label`` replaces the command in the table."""
        self.typed.append(label or command)
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self, port: int, label: str, model: str = "resift-en") -> str:
        """Start the service, wait until it responds, and return its address."""
        self.typed.append(label)
        log = self.undone.enter_context((self.folder / "serve.log").open("wb"))
        command = ["resift", "serve", "--port", str(port), "--model", model]
        begun = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        self.undone.callback(begun.wait)
        self.undone.callback(begun.send_signal, signal.SIGTERM)
        address = f"http://127.0.0.1:{port}"
        self.type(f"for _ in $(seq 600); do curl -sf {address}/healthz && break; sleep 0.1; done")
        self.typed.pop()
        return address


def tickets() -> str:
    """Return the command in docs/five-minutes.md that writes a CSV file."""
    page = (ROOT / "docs" / "five-minutes.md").read_text("utf-8")
    match = re.search(r"^cat > tickets.csv.*?^END$", page, re.DOTALL | re.MULTILINE)
    assert match
    return match[0]


def clone(typist: Typist) -> str:
    """Clone the repository and run the demo."""
    typist.type(f"git clone --quiet {ROOT} resift", "git clone …")
    assert "ranks" in typist.type("make -C resift demo SERVE=0", "make demo")
    return "first result after a clone"


def csv(typist: Typist) -> str:
    """Index a CSV file and search it."""
    typist.type(tickets(), "(a CSV file)")
    typist.type("resift index tickets.csv --index tickets --id number")
    assert "Unknown charge" in typist.type("resift search tickets charge")
    return "a CSV file indexed and searched"


def attach(typist: Typist) -> str:
    """Attach an existing index on a cluster, and search it through its pipeline."""
    url, name = typist.environment["OPENSEARCH_URL"], f"resift-{uuid.uuid4().hex[:8]}"
    index = f"minutes-{uuid.uuid4().hex[:8]}"
    lines = []
    with gzip.open(ROOT / "resift" / "data" / "demo" / "corpus.jsonl.gz", "rt", encoding="utf-8") as corpus:
        for line in corpus:
            document = json.loads(line)
            lines += [{"index": {"_id": document.pop("_id")}}, document]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    headers = {"Content-Type": "application/x-ndjson"}
    urllib.request.urlopen(urllib.request.Request(f"{url}/{index}/_bulk?refresh=true", body, headers)).close()
    typist.undone.callback(lambda: typist.type(f"curl -s -X DELETE {url}/{index}"))
    typist.type(
        f"resift attach {index} --vectors --force --yes --out own", "resift attach INDEX --vectors --force --yes"
    )
    model = "own" if (typist.folder / "own").exists() else "resift-en"
    address = typist.serve(free_port(), "resift serve --model INDEX-model &", model)
    typist.undone.callback(lambda: typist.type(f"resift uninstall --yes --name {name}"))
    typist.type(
        f"resift install --yes --name {name} --service {address} --model {model}",
        "resift install --yes --model INDEX-model",
    )
    search = json.dumps({"query": {"match": {"text": "fee"}}, "ext": {"ml_inference": {"session": "anna"}}})
    response = typist.type(
        f"curl -s '{url}/{index}/_search?search_pipeline=resift-{index}' "
        f"-H 'Content-Type: application/json' -d '{search}'",
        "curl …/INDEX/_search?search_pipeline=resift-INDEX",
    )
    assert '"matched_queries":["resift"]' in response, response
    return "an existing index attached, and searched through its pipeline"


def hybrid(typist: Typist) -> str:
    """Install Resift, and run a hybrid search in a session on an index that already has vectors."""
    url, index = typist.environment["OPENSEARCH_URL"], f"minutes-{uuid.uuid4().hex[:8]}"
    body = _create_vector_index(url, index)
    for path in (f"_search/pipeline/{index}", index):
        typist.undone.callback(lambda path=path: typist.type(f"curl -s -X DELETE {url}/{path}"))
    typist.environment["PATH"] = f"{typist.folder}/own/bin:{typist.environment['PATH']}"
    typist.type(f"python3 -m venv own && own/bin/pip install --quiet {ROOT}", "pip install resift")
    address = typist.serve(free_port(), "resift serve &")
    typist.type(f"resift install --settings --service {address}")
    typist.typed.pop()  # not needed at the default port, where `attach` changes the settings itself
    typist.undone.callback(lambda: typist.type(f"resift detach {index} --yes && resift uninstall --yes"))
    typist.type(f"resift attach {index} --default-pipelines --yes", "resift attach INDEX --default-pipelines --yes")
    search = f"curl -s {url}/{index}/_search -H 'Content-Type: application/json' -d '{json.dumps(body)}'"
    before = [hit["_id"] for hit in json.loads(typist.type(search, "(a hybrid search)"))["hits"]["hits"]]
    mark = json.dumps({"session": "anna", "index": index, "query": "small claims fee", "relevant": before[4:6]})
    typist.type(f"curl -s {address}/v1/feedback --json '{mark}'", "curl …/v1/feedback --json '{…}'")
    session = json.dumps({**body, "ext": {"ml_inference": {"session": "anna"}}})
    label = 'curl …/INDEX/_search -d \'{…, "ext": {"ml_inference": {"session": "anna"}}}\''
    response = json.loads(typist.type(search.replace(json.dumps(body), session), label))
    after = [hit["_id"] for hit in response["hits"]["hits"]]
    assert after != before, (before, after)
    return "Resift installed, and a hybrid search of an index with existing vectors changed by a session"


def _create_vector_index(url: str, index: str) -> dict[str, Any]:
    """Create an index with vectors and a normalisation pipeline, and return the body of a hybrid search."""
    from resift import load_model

    def ask(method: str, path: str, body: Any, kind: str = "json") -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Content-Type": f"application/{kind}"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/{path}", data, headers, method=method)).close()

    with gzip.open(ROOT / "resift" / "data" / "demo" / "corpus.jsonl.gz", "rt", encoding="utf-8") as corpus:
        documents = [json.loads(line) for line in corpus]
    model = load_model()
    vectors = model.encode([document["text"] for document in documents]).tolist()
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    field = {"type": "knn_vector", "dimension": model.dim, "method": method}
    settings = {"index.knn": True, "number_of_replicas": 0, "index.search.default_pipeline": index}
    processors = {"phase_results_processors": [{"normalization-processor": {}}]}
    ask("PUT", f"_search/pipeline/{index}", processors)
    ask("PUT", index, {"settings": settings, "mappings": {"properties": {"embedding": field}}})
    lines = [
        json.dumps(line)
        for document, vector in zip(documents, vectors, strict=True)
        for line in ({"index": {"_id": document.pop("_id")}}, {**document, "embedding": vector})
    ]
    ask("POST", f"{index}/_bulk?refresh=true", "\n".join([*lines, ""]), "x-ndjson")
    query = model.encode(["small claims fee"])[0].tolist()
    queries = [{"match": {"text": "small claims fee"}}, {"knn": {"embedding": {"vector": query, "k": 20}}}]
    return {"_source": ["title"], "query": {"hybrid": {"queries": queries}}}


def click(typist: Typist) -> str:
    """Index a CSV file, and record a click on a web page."""
    csv(typist)
    port, other = free_ports(2)
    typist.environment["RESIFT_CORS"] = f"http://127.0.0.1:{other}"
    address = typist.serve(port, "RESIFT_CORS=http://127.0.0.1:8081 resift serve &")
    (typist.folder / "page").mkdir()
    (typist.folder / "page" / "page.html").write_text(PAGE.replace("RERANKER", address), "utf-8")
    command = [sys.executable, "-m", "http.server", str(other), "--bind", "127.0.0.1", "--directory", "page"]
    begun = subprocess.Popen(command, cwd=typist.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    typist.undone.callback(begun.wait)
    typist.undone.callback(begun.terminate)
    options = f"{' '.join(BROWSER)} --user-data-dir=profile --virtual-time-budget=20000"
    drawn = typist.type(
        f"sleep 0.5; chromium {options} --dump-dom http://127.0.0.1:{other}/page.html",
        "python3 -m http.server 8081; a page of ten lines, opened",
    )
    session = re.search(r'id="found">([^<]+)<', drawn)
    assert session, drawn
    judged = json.loads(typist.type(f"curl -s {address}/v1/sessions/{session[1]}", "(a hit opened)"))["judgements"]
    assert judged, judged
    return "the first click on a web page recorded"


def main() -> None:
    """Run the selected tasks and print their times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="clone,csv,attach,hybrid,click")
    ways: Sequence[Callable[[Typist], str]] = (clone, csv, attach, hybrid, click)
    selected = parser.parse_args().only.split(",")
    settings = {"OPENSEARCH_URL": url} if (url := os.environ.get("OPENSEARCH_URL")) else {}
    print("| | commands | seconds |\n|---|---|---|")
    for way in ways:
        if way.__name__ not in selected or (way in (attach, hybrid) and not settings):
            continue
        with ExitStack() as undone:
            folder = Path(tempfile.mkdtemp(prefix="resift-minutes-"))
            undone.callback(shutil.rmtree, folder, ignore_errors=True)
            typist = Typist(folder, undone, **(settings if way in (attach, hybrid) else {}))
            begun = time.monotonic()
            what = way(typist)
            taken = time.monotonic() - begun
            typed = "<br>".join(command if command.startswith("(") else f"`{command}`" for command in typist.typed)
            print(f"| {what} | {typed} | {taken:.0f} |", flush=True)


if __name__ == "__main__":
    main()
