"""Tests of the retrievers of LangChain, LlamaIndex and Haystack, including LangChain's standard tests."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from test_library import DOCUMENTS, blocks
from transcripts import assert_prints

import resift
from resift import Model
from resift.errors import BadInput, NotFound
from resift.integrations import langchain
from resift.library import Index

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when LlamaIndex is imported

# LlamaIndex and Haystack take seconds to import, and each process collects these tests. They are imported when needed.
if TYPE_CHECKING:
    from resift.integrations import haystack

Found = list[tuple[str, str, dict[str, Any], float]]
SCORE = "relevance_score"
ROOT = Path(__file__).parents[2]
PACKAGES = {
    "langchain-resift": "langchain_resift",
    "llama-index-retrievers-resift": "llama_index.retrievers.resift",
    "resift-haystack": "haystack_integrations.components.retrievers.resift",
}
TRUSTED = ["resift.integrations.haystack"]


@pytest.fixture
def folder(tmp_path: Path, model: Model) -> Path:
    """Return a folder with a saved model and an index of six documents."""
    model.save(tmp_path / "model")
    return tmp_path


@pytest.fixture
def news(folder: Path) -> Iterator[Index]:
    """Open the index."""
    with resift.open(folder / "news.db", folder / "model") as library:
        index = library.index("news", fields=["text"])
        index.add(DOCUMENTS)
        yield index


def haystack_of(folder: Path, **settings: Any) -> haystack.ResiftRetriever:
    """Return a Haystack retriever with the session ``anna``."""
    from resift.integrations import haystack

    where = {"url": str(folder / "news.db"), "model": str(folder / "model")}
    return haystack.ResiftRetriever("news", "anna", **{**where, **settings})


class Framework:
    """A common interface to the retrievers of all frameworks."""

    def __init__(self, name: str, news: Index, folder: Path) -> None:
        session = news.session("anna")
        self.last: list[Any] = []
        self.retriever: Any
        self.ask: Callable[[str], list[Any]]
        if name == "langchain":
            self.retriever = langchain.ResiftRetriever(session=session, k=4)
            self.ask = self.retriever.invoke
            self.plain = lambda one: (
                one.id,
                one.page_content,
                {"n": one.metadata["n"]},
                one.metadata["relevance_score"],
            )
        elif name == "llamaindex":
            from resift.integrations import llamaindex

            self.retriever = llamaindex.ResiftRetriever(session, similarity_top_k=4)
            self.ask = self.retriever.retrieve
            self.plain = lambda one: (one.node_id, one.text, one.metadata, one.score)
        else:
            self.retriever = haystack_of(folder, top_k=4)
            self.ask = lambda query: self.retriever.run(query)["documents"]
            self.plain = lambda one: (one.id, one.content, one.meta, one.score)

    def find(self, query: str) -> Found:
        """Return id, text, metadata and score of the retrieved documents."""
        self.last = self.ask(query)
        return [self.plain(one) for one in self.last]


@pytest.fixture(params=["langchain", "llamaindex", "haystack"])
def framework(request: pytest.FixtureRequest, news: Index, folder: Path) -> Framework:
    """Return the retriever of each framework in turn."""
    return Framework(request.param, news, folder)


def test_retrievers_return_the_documents_of_the_library(framework: Framework, news: Index) -> None:
    hits = news.session("anna").search("fire", size=4)
    expected = [(hit.id, hit.source["text"], {"n": hit.source["n"]}, hit.score) for hit in hits]
    assert framework.find("fire") == expected


def test_marks_move_the_next_search(framework: Framework, news: Index) -> None:
    before = [id for id, *_ in framework.find("fire")]
    army = next(one for one in framework.last if framework.plain(one)[0] in ("army", "war"))
    explained = framework.retriever.mark(relevant=["tree"], irrelevant=[army], query="fire", explain=True)
    assert {(one["document"], one["grade"]) for one in explained["judgements"]} >= {("tree", 1)}
    after = [id for id, *_ in framework.find("fire")]
    assert after != before
    assert after[:3] == [hit.id for hit in news.session("anna").search("fire", size=4)][:3]
    assert [hit.id for hit in news.session("bob").search("fire", size=4)] == before


def test_judgements_of_a_model_are_marked(framework: Framework) -> None:
    framework.find("fire")
    scores = {"bush": 0.9, "army": -0.4}
    explained = framework.retriever.mark(scores=scores, query="fire", clicked=["wood"], explain=True)
    grades = {one["document"]: one["grade"] for one in explained["judgements"]}
    assert grades == {"bush": 0.9, "army": -0.4, "wood": 0.5}


def test_wrong_marks_are_refused(framework: Framework) -> None:
    framework.find("fire")
    with pytest.raises(NotFound, match="gone"):
        framework.retriever.mark(query="fire", relevant=["gone"])
    with pytest.raises(BadInput, match="the score of 'bush' is 7"):
        framework.retriever.mark(query="fire", scores={"bush": 7})
    with pytest.raises(BadInput, match="no document is marked"):
        framework.retriever.mark(query="fire")
    with pytest.raises(BadInput, match="relevant is not a list"):
        framework.retriever.mark(query="fire", relevant="bush")
    for wrong in ([None], [2.5], framework.last[0]):
        with pytest.raises(BadInput, match=r"clicked (contains a value that is not a document id|is not a list)"):
            framework.retriever.mark(query="fire", clicked=wrong)


def test_ids_and_hits_of_the_library_are_marked_too(framework: Framework, news: Index) -> None:
    news.add([{"id": 77, "text": "Fire at sea", "n": 77}])
    (hit,) = news.search("army war", size=1)
    irrelevant = (id for id in ["bush"])
    explained = framework.retriever.mark(relevant=[77, hit], irrelevant=irrelevant, query="fire", explain=True)
    assert [one["document"] for one in explained["judgements"]] == ["77", hit.id, "bush"]


@pytest.mark.anyio
class TestLangChain(RetrieversIntegrationTests):
    """LangChain's standard tests of retrievers."""

    @pytest.fixture(autouse=True)
    def _open(self, news: Index) -> None:
        self.news = news

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Set the event loop of the asynchronous test."""
        return "asyncio"

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        """The class of the retriever."""
        return langchain.ResiftRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        """The arguments of the retriever."""
        return {"session": self.news.session("anna")}

    @property
    def retriever_query_example(self) -> str:
        """A query with three hits."""
        return "fire"


def test_langchain_takes_options_of_a_search(news: Index) -> None:
    retriever = langchain.ResiftRetriever(session=news.session("anna"), options={"judged": "hide"})
    retriever.mark(relevant=["bush"], query="fire")
    assert "bush" not in [one.id for one in retriever.invoke("fire")]
    assert "bush" in [one.id for one in retriever.invoke("fire", judged="keep")]
    with pytest.raises(BadInput, match="judged is 'gone'"):
        retriever.invoke("fire", judged="gone")
    (one,) = asyncio.run(retriever.ainvoke("fire", k=1, judged="keep"))
    assert one.id == retriever.invoke("fire", judged="keep")[0].id


def test_llamaindex_searches_beside_its_loop(news: Index) -> None:
    from llama_index.core.schema import QueryBundle

    from resift.integrations import llamaindex

    retriever = llamaindex.ResiftRetriever(news.session("anna"), filter={"term": {"n": 3}})
    (node,) = asyncio.run(retriever.aretrieve(QueryBundle("fire")))
    assert node.node_id == "tree"


def test_haystack_runs_it_in_a_pipeline_that_was_written_down(news: Index, folder: Path) -> None:
    from haystack import Pipeline

    pipeline = Pipeline()
    pipeline.add_component("retriever", haystack_of(folder, top_k=2))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=TRUSTED)
    assert again.to_dict() == pipeline.to_dict()
    again.get_component("retriever").mark("fire", relevant=["tree"], irrelevant=["army"], session="bob")
    for session in ("anna", "bob"):
        found = again.run({"retriever": {"query": "fire", "session": session, "top_k": 3}})["retriever"]["documents"]
        assert [one.id for one in found] == [hit.id for hit in news.session(session).search("fire", size=3)]


def test_haystack_takes_options_of_a_search_in_each_run(news: Index, folder: Path) -> None:
    retriever = haystack_of(folder, options={"filter": {"term": {"n": 3}}, "judged": "hide"})
    retriever.mark("fire", relevant=["bush"])
    assert [one.id for one in retriever.run("fire")["documents"]] == ["tree"]
    found = retriever.run("fire", options={"filter": {"exists": {"field": "n"}}})["documents"]
    assert {one.id for one in found} == {hit.id for hit in news.session("anna").search("fire", judged="hide")}


def test_haystack_writes_no_password_down(folder: Path, news: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    from haystack import Pipeline
    from haystack.utils import Secret

    monkeypatch.setenv("NEWS_ADDRESS", str(folder / "news.db"))
    pipeline = Pipeline()
    pipeline.add_component("retriever", haystack_of(folder, url=Secret.from_env_var("NEWS_ADDRESS")))
    written = pipeline.dumps()
    assert (str(folder / "news.db") in written, "NEWS_ADDRESS" in written) == (False, True)
    again = Pipeline.loads(written, allowed_modules=TRUSTED)
    assert asyncio.run(again.run_async({"retriever": {"query": "fire"}}))["retriever"]["documents"]


@pytest.mark.parametrize(
    ("module", "package"), [("langchain", "langchain_core"), ("llamaindex", "llama_index"), ("haystack", "haystack")]
)
def test_a_missing_package_is_named_with_its_extra(module: str, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import resift.integrations.{module}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"retriever needs {package}: pip install 'resift[{module}]'" in ran.stderr.splitlines()[-1]


def test_documented_lines_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code, expected in blocks("docs/agents.md"):
        with redirect_stdout(StringIO()) as output:
            exec(code, names)
        assert_prints(output.getvalue(), expected)
    names["news"].library.close()


def test_packages_of_the_registries_do_what_their_pages_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "packages", tmp_path / "packages")
    code = """import os, sys; from setuptools import build_meta
for folder in sys.argv[1:]: os.chdir(folder); build_meta.build_wheel('../..')"""
    folders = [tmp_path / "packages" / name for name in PACKAGES]
    subprocess.run([sys.executable, "-c", code, *folders], check=True, capture_output=True)
    wheels = sorted(tmp_path.glob("*.whl"))
    assert [wheel.name.split("-")[0] for wheel in wheels] == [name.replace("-", "_") for name in PACKAGES]
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    resift.open("news.db").index("news", fields=["text"]).add([{"id": "1", "text": "fire"}])
    names: dict[str, Any] = {}
    for folder in folders:
        assert f'version = "{resift.__version__}"' in (folder / "pyproject.toml").read_text("utf-8")
        (lines,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)
        exec(lines, names)
    assert [len(names[name]) for name in ("documents", "nodes", "retrieved")] == [1, 1, 1]
    for module in PACKAGES.values():
        assert str(sys.modules.pop(module).__file__).startswith(str(tmp_path))
