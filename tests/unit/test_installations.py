"""Tests of the name of a second installation, and of the advice about a pipeline that is still used."""

from __future__ import annotations

from typing import Any

import pytest

from resift.errors import EngineError
from resift.plugin.cluster.installation import Installation, InstalledModel
from resift.plugin.cluster.pipeline_uses import PipelineUse
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
    assert install.separate_name(CLUSTER, model, ["reviews"]) == expected


def test_a_user_who_may_not_read_all_indices_gets_a_second_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, [], "resift")

    def refuse(cluster: Any, model: str) -> list[str]:
        raise EngineError("no permissions for [indices:admin/mappings/get]", status=403)

    monkeypatch.setattr(install, "indices_with_model", refuse)
    assert install.separate_name(CLUSTER, "second", ["reviews"]) == "resift2"


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
