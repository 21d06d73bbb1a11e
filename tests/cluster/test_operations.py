"""Tests of the operations on a cluster as Python functions: plans, results, and undoing them."""

from __future__ import annotations

import json
import re
import threading
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from attached_index import COUNT, Index, assert_right, own, shop

import resift
from resift import Model
from resift.errors import BadInput, IndexNotFound, Interrupted
from resift.plugin.operations.plan import Step
from resift.stopping import Stop

__all__ = ["own", "shop"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"


def contents(index: Index) -> tuple[Any, ...]:
    """Return everything that attaching might change, except the field that stays in the mapping."""
    mapping = index.mapping()
    mapping["properties"].pop("resift_vector_int8", None)
    return mapping, index.settings(), index.aliases(), index.documents()


def test_an_index_is_attached_looked_at_and_detached(shop: Index, own: tuple[Model, str], opensearch_url: str) -> None:
    model, folder = own
    before, steps = contents(shop), list[Step]()
    plan = resift.attach(opensearch_url, shop.name, vectors=True, force=True, model=folder)
    assert f"{shop.name}: {COUNT} documents" in str(plan)
    assert json.loads(json.dumps(plan.to_dict()))["indices"][0]["to_encode"] == COUNT
    assert contents(shop) == before
    attached = plan.run(progress=steps.append)
    assert (attached.in_order, attached.to_dict()["indices"][0]["documents"]) == (True, COUNT)
    assert f"undo: resift detach {shop.name}" in str(attached)
    assert (steps[0].text, steps[0].done, steps[-1].done) == (f"encoding {shop.name}", 0, COUNT)
    assert_right(shop, model, attached.to_dict()["indices"][0]["fields"])

    status = resift.doctor(opensearch_url, model=folder, name=f"never-{shop.name}")
    (found,) = (one for one in status.parts if (one.kind, one.name) == ("index", shop.name))
    state = f"{COUNT} of {COUNT} documents have a vector of {model.name} ({model.hash})"
    assert (found.state, found.fix) == (state, "")
    assert f"index {shop.name}: {state}" in str(status)
    shop.bulk([json.dumps({"update": {"_id": "1"}}), json.dumps({"doc": {"text": "army"}})])
    shop.cluster.request("POST", f"/{shop.name}/_refresh")
    assert not resift.verify(opensearch_url, shop.name, model=folder).in_order
    verified = resift.verify(opensearch_url, shop.name, model=folder, repair=True)
    assert (verified.checked, verified.stale, verified.repaired, verified.in_order) == (COUNT, 1, 1, True)
    shop.write([1])

    assert "resift_vector_int8 removed from" in str(resift.detach(opensearch_url, shop.name))
    detached = resift.detach(opensearch_url, shop.name).run()
    assert (detached.in_order, contents(shop)) == (True, before)
    with pytest.raises(BadInput, match="is not attached"):
        resift.detach(opensearch_url, shop.name)


def test_an_index_is_dropped(shop: Index, opensearch_url: str) -> None:
    assert len(shop.documents()) == COUNT  # the index was refreshed
    dropping = resift.drop(opensearch_url, shop.name)
    assert dropping.to_dict() == {"index": shop.name, "documents": COUNT}
    assert str(dropping.run()) == f"{shop.name} deleted, {COUNT} documents"
    with pytest.raises(IndexNotFound):
        resift.drop(opensearch_url, shop.name)


def test_long_operations_show_a_progress_bar_for_each_step(
    shop: Index,
    own: tuple[Model, str],
    opensearch_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr("resift.notebook._DELAY", 0)
    resift.attach(opensearch_url, shop.name, vectors=True, force=True, model=own[1]).run()
    assert f"encoding {shop.name}: 100%" in capsys.readouterr().err
    resift.verify(opensearch_url, shop.name, model=own[1])
    assert "verifying: 100%" in capsys.readouterr().err
    told = list[Step]()
    resift.detach(opensearch_url, shop.name).run(told.append)
    assert (bool(told), capsys.readouterr().err) == (True, "")


def test_a_stopped_operation_can_be_continued(shop: Index, own: tuple[Model, str], opensearch_url: str) -> None:
    stop = Stop()
    stop.requested = True
    with pytest.raises(Interrupted, match="run it again") as stopped:
        resift.attach(opensearch_url, shop.name, vectors=True, force=True, model=own[1]).run(stop=stop)
    assert stopped.value.code == "interrupted"
    assert resift.attach(opensearch_url, shop.name, vectors=True, force=True, model=own[1]).run().in_order


def test_an_installation_is_planned_made_guarded_and_removed(shop: Index, opensearch_url: str, nowhere: str) -> None:
    name = f"own-{shop.name}"
    plan = resift.install(opensearch_url, name=name, service=nowhere)
    assert f"would create index template {name}" in str(plan)
    assert not shop.cluster.get_or_none(f"/_index_template/{name}")
    assert plan.steps == plan.run().steps
    stop, told = Stop(), list[Step]()

    def end(step: Step) -> None:
        told.append(step)
        stop.requested = True

    timer = threading.Timer(20, lambda: setattr(stop, "requested", True))
    timer.daemon = True
    timer.start()
    resift.guard(opensearch_url, name, end, stop)
    remove = resift.uninstall(opensearch_url, name)
    assert remove.steps == remove.run().steps
    assert resift.uninstall(opensearch_url, name).steps == []
    assert [step.text.removeprefix(nowhere) for step in told] in (
        [],  # without ML Commons there are no models to disable
        [" does not answer: searches go on without it", f"the guard stops: searches call {nowhere}"],
    )


def test_the_documented_lines_run(shop: Index, opensearch_url: str) -> None:
    (code,) = re.findall(r"```py\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    code = code.replace("http://localhost:9200", opensearch_url).replace('"blog"', f'"{shop.name}"')
    code = code.replace("vectors=True", "vectors=True, force=True")  # The documents are random words.
    with redirect_stdout(StringIO()) as output:
        exec(code.replace("doctor(", "doctor(name='never', url="), {"resift": resift})
    assert f"encoding {shop.name} {COUNT} {COUNT}\n" in output.getvalue()
    assert output.getvalue().splitlines()[-2].endswith(f"detached; vectors were removed from {COUNT} documents")


def test_invalid_targets_of_operations_are_refused(shop: Index, opensearch_url: str, nowhere: str) -> None:
    with pytest.raises(BadInput, match="not an OpenSearch cluster"):
        resift.attach("docs.db", shop.name)
    with pytest.raises(IndexNotFound):
        resift.verify(opensearch_url, "nope")
    with pytest.raises(resift.ResiftError) as error:
        resift.install(nowhere)
    assert error.value.code == "engine_unavailable"
    assert not resift.doctor(nowhere).in_order
