"""Tests of a second installation: its name, what replacing the model ends, and advice about a used pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from resift.errors import EngineError, IndexNotFound
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation, InstalledModel
from resift.plugin.cluster.pipeline_uses import PipelineUse
from resift.plugin.cluster.search_pipelines import Rewriter
from resift.plugin.operations import install
from resift.plugin.operations.doctor import _used_pipeline_fix

CLUSTER: Any = None  # no request is sent


def installed(monkeypatch: pytest.MonkeyPatch, users: list[str], *names: str) -> None:
    """Let the cluster have installations with the model ``first``, which indices use."""
    model = InstalledModel("resift-en", "first", 256, "cosinesimil", None)
    found = {name: Installation(name, model, ("text",), "http://127.0.0.1:8080") for name in names}
    monkeypatch.setattr(install, "find_installations", lambda cluster: found)
    monkeypatch.setattr(install, "indices_with_model", lambda cluster, model: users)


@pytest.mark.parametrize(
    ("names", "users", "model", "expected"),
    [
        ([], [], "second", ""),
        (["resift"], ["blog"], "first", ""),  # the model is installed already
        (["resift"], [], "second", ""),  # no index uses the installed model
        (["resift"], ["reviews"], "second", ""),  # only the index itself uses it
        (["resift"], ["blog"], "second", "resift2"),
        (["resift"], ["blog", "reviews"], "second", "resift2"),
        (["news"], ["blog"], "second", "resift"),
        (["news", "resift", "resift2"], [], "second", "resift3"),
    ],
)
def test_a_model_that_other_indices_need_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, names: list[str], users: list[str], model: str, expected: str
) -> None:
    installed(monkeypatch, users, *names)
    assert install.second_installation_name(CLUSTER, model, ["reviews"]) == expected


def test_a_user_who_may_not_read_all_indices_gets_a_second_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, [], "resift")

    def refuse(cluster: Any, model: str) -> list[str]:
        raise EngineError("no permissions for [indices:admin/mappings/get]", status=403)

    monkeypatch.setattr(install, "indices_with_model", refuse)
    assert install.second_installation_name(CLUSTER, "second", ["reviews"]) == "resift2"


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("index", "blog", "a service with the model of blog, or resift detach blog"),
        ("index", "twin", "resift attach twin --vectors --default-pipelines, or resift detach twin"),
        ("index template", "logs", "unset index.final_pipeline of index template logs"),
    ],
)
def test_a_used_pipeline_is_not_to_be_deleted(kind: str, name: str, expected: str) -> None:
    use = PipelineUse(kind, name, "index.final_pipeline", "resift-blog")
    assert _used_pipeline_fix(use, "blog") == expected


def test_the_plan_says_what_replacing_the_model_ends_for_each_index(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (InstalledModel("resift-en", hash, 256, "cosinesimil", None) for hash in ("first", "second"))
    found = {"resift": Installation("resift", first, ("text",), "http://127.0.0.1:8080")}
    rewriters = {
        "resift-news": Rewriter("resift", "news", "first"),
        "resift-words": Rewriter("resift", "words", ""),  # it needs no vectors
        "resift-native": Rewriter("", "native", urls=("http://127.0.0.1:8080",)),
        "resift-logs": Rewriter("resift", "logs", "first"),
        "resift-other": Rewriter("resift2", "other", "first"),
        "resift-gone": Rewriter("resift", "gone", "first"),
    }
    owners = {name: frozenset({"resift"}) for name in ("news-1", "news-2", "words", "native")}
    owners["other"] = frozenset({"resift2"})
    names = ["news-1", "news-2", "words", "native", "logs", "other"]

    class Engine:
        """An engine with the alias ``news``, and without the index ``gone``."""

        def resolve(self, name: str) -> list[str]:
            """Return the indices to which a name refers."""
            if name == "gone":
                raise IndexNotFound(name)
            return {"news": ["news-1", "news-2"]}.get(name, [name])

    for attribute, value in (
        ("find_installations", found),
        ("find_rewriters", rewriters),
        ("ingest_pipeline_owners", owners),
    ):
        monkeypatch.setattr(f"resift.plugin.cluster.install.{attribute}", lambda cluster, value=value: value)
    monkeypatch.setattr("resift.plugin.cluster.install.indices_with_model", lambda cluster, model: names)
    engine: Any = Engine()
    plan = install.InstallPlan(Installer(engine, replace(found["resift"], model=second)), lambda dry_run: [])
    assert plan.lines()[1:5] == [
        "would end the rewriting of searches of news-1, news-2, and the encoding of their new documents",
        "would end the encoding of new documents of words, native",
        "would end the rewriting of searches of logs",
        "would replace the model of the vectors of other:",
    ]
    assert plan.question == "Replace the model that news-1, news-2, words, native, logs, other need?"
    same = install.InstallPlan(Installer(engine, found["resift"]), lambda dry_run: [])
    assert same.lines() == ["nothing to do"]
