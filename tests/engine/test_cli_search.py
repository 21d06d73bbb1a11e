"""Tests of typical first commands on both engines: indexing files, searching, listing and deleting."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import resift as library
import resift_lab
from resift import WordVectors
from resift.cli.main import main
from resift.errors import BadInput
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import open_engine

PRODUCTS = [
    {"sku": "HX-1", "name": "Garden hose", "description": "A hose of 20 m to water your garden.", "price": 19.9},
    {"sku": "HX-2", "name": "Smoke alarm", "description": "Warns you of smoke and fire while you sleep.", "price": 15},
    {
        "sku": "HX-3",
        "name": "Extinguisher",
        "description": "Puts out a fire in the kitchen.",
        "price": 9,
    },
]
NEWS = [
    {
        "記事ID": "n1",
        "見出し": "東京で大雪",
        "本文": "東京では朝から雪が降り続き、交通機関に影響が出ています。",
        "カテゴリ": "社会",
    },
    {
        "記事ID": "n2",
        "見出し": "日銀が利上げ",
        "本文": "日本銀行は政策金利の引き上げを決定しました。",
        "カテゴリ": "経済",
    },
]
WEATHER = [
    "rain",
    "river",
    "lake",
    "sea",
    "wind",
    "storm",
    "cloud",
    "sun",
    "ice",
    "fog",
    "dew",
    "hail",
    "heat",
    "frost",
    "flood",
]
EXPORT = 'Nr;Titel;Beschreibung;Preis\r\n1;Rauchmelder;"Warnt vor Rauch und Feuer, auch nachts";15,00\r\n'


def resift(*arguments: object, status: int = 0, input: str | None = None) -> Result:
    """Run a command and check its exit status."""
    result = CliRunner().invoke(main, list(map(str, arguments)), input=input)
    assert result.exit_code == status, result.output
    return result


def indices(*where: object) -> dict[str, list[str]]:
    """Return the listed documents, model and fields of each index."""
    rows = [re.split(" {2,}", line.strip()) for line in resift("indices", *where).stdout.splitlines()[1:]]
    return {name: [documents, model, fields[-1]] for name, documents, model, *fields in rows}


def reported(*arguments: object, status: int = 0, input: str | None = None) -> Any:
    """Return the JSON report of a command."""
    return json.loads(resift(*arguments, "--json", status=status, input=input).stdout)


@pytest.fixture
def name(engine_url: str, here: Path) -> Iterator[str]:
    """Return a unique prefix of index names. Indices with this prefix are deleted at the end."""
    prefix = f"resift-test-{uuid.uuid4().hex[:8]}"
    yield prefix
    engine = open_engine(engine_url)
    for info in engine.indices():
        if info.name.startswith(prefix):
            engine.drop(info.name)
    engine.close()


def test_first_steps(engine_url: str, name: str, here: Path) -> None:
    where = ["--engine", engine_url]
    (here / "products.json").write_text(json.dumps(PRODUCTS, indent=1))
    (here / "news.jsonl").write_text("\n".join(map(json.dumps, NEWS)))
    (here / "export.csv").write_text(EXPORT, "utf-8-sig")
    wanted = {"products.json": "name,description", "news.jsonl": "見出し,本文", "export.csv": "Titel,Beschreibung"}
    for file, fields in wanted.items():
        result = resift("index", file, "--index", f"{name}-{file.split('.')[0]}", *where)
        assert f"text fields: {fields.replace(',', ', ')} (guessed from the first documents" in result.stderr
        assert "documents have no id (_id" in result.stderr
    listed = indices(*where)
    for file, fields in wanted.items():
        assert listed[f"{name}-{file.split('.')[0]}"][1:] == ["ok", fields]
    assert listed[f"{name}-products"][0] == "3"
    shown = resift("search", f"{name}-products", "fire", *where).stdout
    assert [line.split("  ")[-1].split(" | ")[0] for line in shown.splitlines()] == ["Extinguisher", "Smoke alarm"]
    assert "東京で大雪 | 東京では朝" in resift("search", f"{name}-news", "大雪", *where).stdout
    assert len(reported("search", f"{name}-products", "fire", "--size", 1, *where)["hits"]["hits"]) == 1
    misspelt = resift("search", f"{name}-products", "smokk alarm", *where).stdout
    assert misspelt.splitlines()[0] == "did you mean: smoke alarm"


def test_marks_of_the_library_count_in_the_terminal(engine_url: str, name: str, here: Path) -> None:
    where, kept = ["--engine", engine_url], ["--store", "marks.db"]
    resift("index", "-", "--index", name, *where, input=json.dumps([{"_id": one["sku"], **one} for one in PRODUCTS]))
    before = reported("search", name, "fire", *where, *kept, "--session", "anna")["hits"]["hits"]
    with library.open(engine_url, sessions="marks.db") as opened:
        session = opened.index(name).session("anna")
        session.search("fire")
        session.mark(relevant=[before[-1]["_id"]])
    after = reported("search", name, "fire", *where, *kept, "--session", "anna")["hits"]["hits"]
    assert after[0]["_id"] == before[-1]["_id"] != before[0]["_id"]
    _, one = resift("sessions", "list", *kept).stdout.splitlines()
    session, judgements, held, expires = re.split(" {2,}", one.strip())
    assert (session, judgements, held) == ("anna", "1", name)
    assert datetime.fromisoformat(expires) > datetime.now(timezone.utc)
    told = resift("search", name, "fire", *where, *kept, "--session", "anna").stdout.splitlines()
    assert told[1].strip() == f"▲ {len(before) - 1} you marked this as relevant"
    refused = before[0]["_id"]
    marks = ["mark", name, "fire", refused, *where, *kept, "--session", "anna", "--irrelevant"]
    assert resift(*marks).stdout == "session anna: steps 2\n"
    assert f"-1  {refused}: " in resift(*marks, "--explain").stdout
    assert (
        "no document 'gone'"
        in resift("mark", name, "fire", "gone", *where, *kept, "--session", "anna", status=2).stderr
    )
    path = here / "marks.db"
    assert resift("sessions", "delete", "anna", *kept).stdout == f"1 sessions deleted from {path}\n"
    assert f"no sessions in {path}" in resift("sessions", "list", *kept).stdout
    assert f"has no marks in {path}" in resift("search", name, "fire", *where, *kept, "--session", "anna").stderr


@pytest.mark.usefixtures("here")
def test_documents_of_an_index_without_resift_are_shown_with_titles(
    cluster: OpenSearchEngine, opensearch_url: str
) -> None:
    mail = {"date": "2024-01-05", "from": {"name": "Ann Lee"}, "url": "https://a.b/c", "subject": "Fire drill", "n": 5}
    documents = [{**mail, "body": f"At noon, in hall {hall}."} for hall in "ABC"] + [{"n": 7}]
    theirs = f"theirs-{uuid.uuid4().hex[:8]}"
    lines = (line for each in documents for line in ({"index": {"_index": theirs}}, each))
    Cluster(cluster).request("POST", "/_bulk?refresh=true", "".join(f"{json.dumps(line)}\n" for line in lines))
    shown = resift("search", theirs, "drill", "--engine", opensearch_url).stdout
    numbers = resift("search", theirs, "7", "--engine", opensearch_url).stdout
    resift("search", theirs, "drill", "--explain", "--engine", opensearch_url)
    cluster.drop(theirs)
    assert not list(Path().iterdir()), "without a session there is none to keep"
    assert [line.count("  Fire drill | Ann Lee | At noon, in") for line in shown.splitlines()] == [1, 1, 1]
    assert '  {"n": 7}' in numbers


def test_an_index_keeps_its_fields(engine_url: str, name: str, here: Path) -> None:
    where = ["--index", name, "--engine", engine_url]
    resift("index", "-", *where, "--fields", "title,text", input='{"title": "fire", "text": "bush"}')
    refused = resift("index", "-", *where, "--fields", "name", status=2, input='{"name": "fire"}').stderr
    assert "has the text fields title,text, not name" in refused
    products = json.dumps(PRODUCTS)
    lacking = resift("index", "-", *where, status=3, input=products).stderr
    assert "no document of - has text in title, text" in lacking
    assert "sku, name, description" in lacking
    assert indices("--engine", engine_url)
    mixed = json.dumps([*PRODUCTS, {"title": "a fire"}])
    warned = resift("index", "-", *where, input=mixed).stderr
    assert "warning: 3 documents have no text in title, text" in warned


def test_a_new_index_is_not_made_of_fields_that_nothing_has(engine_url: str, name: str, here: Path) -> None:
    where = ["--index", name, "--engine", engine_url]
    refused = resift("index", "-", *where, "--fields", "nope", status=2, input=json.dumps(PRODUCTS)).stderr
    assert "no document of - has text in nope" in refused
    assert "available fields: sku, name, description" in refused
    assert "no field contains text" in resift("index", "-", *where, status=2, input='{"price": 4, "sku": "1-2"}').stderr
    resift("verify", name, "--engine", engine_url, status=2)
    warned = resift("index", "-", *where, "--fields", "nmae,description", input=json.dumps(PRODUCTS)).stderr
    assert "warning: the first documents have no text in 'nmae'; available fields: sku, name, description" in warned


def test_replaced_documents_are_reported(here: Path) -> None:
    lines = [{"sku": number % 3, "name": f"hose {number}"} for number in range(5)]
    told = resift("index", "-", "--index", "docs", "--id", "sku", input="\n".join(map(json.dumps, lines))).stderr
    assert "warning: 2 documents replaced an earlier document with the same id" in told
    assert indices()["docs"][0] == "3"
    again = resift("index", "-", "--index", "docs", "--id", "sku", input=json.dumps(lines[:3])).stderr
    assert "earlier one" not in again, "an index may be written anew"


def test_tags_are_not_shown(here: Path) -> None:
    made = {
        "1": ("<h2>Soft <b>shoes</b></h2>", "<style>p { color: red }</style><p>For rain &amp; snow.</p><p>Two"),
        "2": ("List<String> of shoes", "if a < b and c > d: &lt;b&gt;"),
    }
    lines = [{"id": id, "title": title, "text": text} for id, (title, text) in made.items()]
    resift("index", "-", "--index", "docs", "--fields", "title,text", input="\n".join(map(json.dumps, lines)))
    shown = resift("search", "docs", "shoes").stdout
    assert "Soft shoes | For rain & snow. Two" in shown
    assert "List<String> of shoes | if a < b and c > d: <b>" in shown


REPORTS: dict[str, tuple[list[str], set[str]]] = {
    "index": (["index", "docs.jsonl", "--index", "docs"], {"indexed", "refused", "dead_letters", "fields"}),
    "verify": (["verify", "docs"], {"checked", "missing", "stale", "repaired"}),
    "search": (["search", "docs", "rain"], {"took", "hits", "resift"}),
    "search --explain": (["search", "docs", "rain", "--explain"], {"query", "size"}),
}


def test_reports_as_json(here: Path) -> None:
    drawn = (" ".join(np.random.default_rng(n).choice(WEATHER, 20)) for n in range(60))
    (here / "docs.jsonl").write_text("".join(json.dumps({"id": str(n), "text": t}) + "\n" for n, t in enumerate(drawn)))
    for arguments, keys in REPORTS.values():
        result = CliRunner().invoke(main, [*arguments, "--json"])
        assert result.exit_code in (0, 3), result.output
        assert set(json.loads(result.stdout)) >= keys


def test_vectors_that_few_documents_judge_are_not_taken(here: Path, vectors: WordVectors) -> None:
    vectors.save("small")
    texts = [" ".join(np.random.default_rng(n % 10).permutation(WEATHER)[:9]) for n in range(20)]
    (here / "docs.jsonl").write_text("".join(json.dumps({"id": str(n), "text": t}) + "\n" for n, t in enumerate(texts)))
    result = CliRunner().invoke(main, ["train", "self", "--corpus", "docs.jsonl", "--vectors", "small", "--out", "own"])
    assert result.exit_code == 3, result.output
    assert "4 documents are too few to tell; nothing was written to own" in result.stderr
    assert not (here / "own").exists()


def ended_by(number: signal.Signals, here: Path) -> tuple[int, str]:
    """Send a signal to a training that waits for more documents. Return its exit status and stderr."""
    command = [sys.executable, "-m", "resift", "train", "self", "--corpus", "-", "--out", "own"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=here, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin
        assert process.stderr
        process.stdin.write('{"text": "a bush fire"}\n' * 5000)
        process.stdin.flush()
        told = process.stderr.readline()
        process.send_signal(number)
        _, rest = process.communicate(timeout=60)
        return process.returncode, told + rest


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_command_in_order(here: Path, number: signal.Signals, status: int) -> None:
    returned, told = ended_by(number, here)
    assert returned == status, told
    assert "Traceback" not in told
    assert ("interrupted" in told) == (number == signal.SIGINT)


def test_a_search_finds_the_model_that_its_index_was_attached_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = WordVectors(["fire", "smoke", "hose"], np.eye(3, dtype=np.float32))
    library.Model("learned", table, "mean", "cosine").save("shop-model")
    with library.open("shop.db", "shop-model") as opened:
        opened.index("shop", fields=["description"]).add([{"id": "1", **PRODUCTS[1]}, {"id": "2", **PRODUCTS[2]}])
    result = CliRunner().invoke(main, ["search", "shop", "smoke", "--engine", "shop.db"])
    assert result.exit_code == 0, result.output
    Path("queries.jsonl").write_text('{"_id": "q", "text": "smoke"}\n')
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t2\t1\n")
    result = CliRunner().invoke(main, ["eval", "index", "shop", ".", "--engine", "shop.db", "--knn", "5", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["queries"], [one["measure"] for one in report["measures"]][:2]) == (1, ["nDCG@10", "RR@10"])
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\tMED-1\t1\n")
    result = CliRunner().invoke(main, ["eval", "index", "shop", ".", "--engine", "shop.db"])
    assert (result.exit_code, "such as 'MED-1'" in result.stderr) == (2, True), result.output
    assert resift_lab.tune("shop", url="shop.db").lines == ["shop: the default constants"]
    with pytest.raises(BadInput, match="cannot choose constants by a dict"):
        resift_lab.tune("shop", {"words": 2}, url="shop.db")
    result = CliRunner().invoke(main, ["verify", "shop", "--engine", "shop.db"])
    assert (result.exit_code, result.stdout.splitlines()[-1].partition(":")[0]) == (0, "2 documents in index shop")
    Path("shop-model").rename("elsewhere")
    result = CliRunner().invoke(main, ["search", "shop", "smoke", "--engine", "shop.db"])
    assert result.exit_code != 0
    assert "learned" in result.output, "it says whose vectors the index has"
