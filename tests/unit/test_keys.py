"""Tests of API keys: their file, its changes while the service runs, and the command ``resift keys``."""

from __future__ import annotations

import hmac
import json
import os
import re
import stat
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from clock import Clock

from resift.cli import serve
from resift.cli.main import main
from resift.errors import BadInput, NotFound
from resift.reranker.access.keys import SCOPES, VARIABLE, KeyFile, check_key, key_hash
from resift.reranker.access.requests import ApiKeys

SINGLE = "rsf_" + "s" * 43


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    """Return a file of API keys that does not exist yet."""
    return KeyFile(str(tmp_path / "keys.jsonl"))


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_is_printed_once_and_only_its_hash_is_stored(file: KeyFile) -> None:
    old = os.umask(0)
    try:
        key = file.create("shop", ["feedback", "search"])
    finally:
        os.umask(old)
    assert re.fullmatch(r"rsf_[A-Za-z0-9_-]{43}", key)  # 256 bits
    (record,) = file.read()
    assert (record.name, record.scopes, record.hash) == ("shop", ("search", "feedback"), key_hash(key))
    assert key[4:] not in file.path.read_text()
    assert mode(file.path) == 0o600
    assert set(json.loads(file.path.read_text())) == {"name", "scopes", "hash", "created"}
    assert file.create("cluster", ["embed"]) != key


def test_permissions_of_a_shared_file_do_not_change(file: KeyFile) -> None:
    file.create("a", ["search"])
    file.path.chmod(0o640)
    file.create("b", ["search"])
    assert mode(file.path) == 0o640


@pytest.mark.parametrize("name", ["", "Shop", "a b", "RESIFT_API_KEY", "-x", "x" * 65, "a/b", "é"])
def test_invalid_names_of_keys_are_refused(file: KeyFile, name: str) -> None:
    with pytest.raises(BadInput, match="is not a valid name for an API key"):
        file.create(name, ["search"])
    assert not file.path.exists()


@pytest.mark.parametrize("scopes", [[], ["all"], ["search", ""], ["Search"]])
def test_unknown_scopes_are_refused(file: KeyFile, scopes: list[str]) -> None:
    with pytest.raises(BadInput, match="is not a scope") as caught:
        file.create("shop", scopes)
    assert "embed,search,body,feedback,review,admin" in str(caught.value.expected)


def test_a_name_is_unique_and_free_after_deletion(file: KeyFile) -> None:
    first = file.create("shop", ["search"])
    with pytest.raises(BadInput, match="already"):
        file.create("shop", ["search"])
    file.create("other", ["embed"])
    file.delete("shop")
    with pytest.raises(NotFound, match="no API key 'shop'"):
        file.delete("shop")
    assert [key.name for key in file.read()] == ["other"]
    assert file.create("shop", ["search"]) != first


def test_a_key_is_replaced_by_a_second_key_of_the_same_name(file: KeyFile) -> None:
    old = file.create("shop", ["search", "feedback"])
    file.create("other", ["embed"])
    with pytest.raises(NotFound, match="only one API key 'shop'"):
        file.delete("shop", only_old=True)
    with pytest.raises(NotFound, match="no API key 'shp'"):
        file.rotate("shp")
    new = file.rotate("shop")
    keys = ApiKeys(str(file.path))
    for key in (old, new):
        record = keys.find(key)
        assert record is not None
        assert (record.name, record.scopes) == ("shop", ("search", "feedback"))
    file.delete("shop", only_old=True)
    assert [(key.name, key.hash) for key in file.read() if key.name == "shop"] == [("shop", key_hash(new))]
    file.rotate("shop")
    file.delete("shop")
    assert [key.name for key in file.read()] == ["other"]


def test_simultaneous_changes_are_all_saved(file: KeyFile) -> None:
    def change(number: int) -> None:
        file.create(f"k{number}", ["search"])
        file.create(f"gone{number}", ["search"])
        file.delete(f"gone{number}")

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.name for key in file.read()) == sorted(f"k{number}" for number in range(8))
    assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]


def test_finding_a_key_compares_it_with_all_keys(file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [file.create(f"k{number}", ["search"]) for number in range(3)]
    keys, compared = ApiKeys(str(file.path), SINGLE), []

    def compare(a: str, b: str) -> bool:
        compared.append((a, b))
        return real(a, b)

    real = hmac.compare_digest
    monkeypatch.setattr("resift.reranker.access.requests.hmac.compare_digest", compare)
    for key in (made[0], made[2], SINGLE, "rsf_wrong", ""):
        compared.clear()
        known_key = keys.find(key)
        assert len(compared) == 4
        assert all(hashed == key_hash(key) for _, hashed in compared)
        assert (known_key is not None) == (key in (*made, SINGLE))


def test_a_running_server_follows_the_file(file: KeyFile, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    keys = ApiKeys(str(file.path), clock=clock)
    assert not keys.required
    first = file.create("first", ["search"])
    assert keys.find(first) is None
    clock.now += 2
    known_key = keys.find(first)
    assert known_key is not None
    assert (known_key.caller.name, known_key.caller.scopes) == ("first", {"search"})
    second = file.create("second", ["admin"])
    file.delete("first")
    clock.now += 2
    assert (keys.find(first), keys.required) == (None, True)
    assert keys.find(second) is not None
    file.path.write_text("half a li")
    clock.now += 2
    assert keys.find(second) is not None
    assert "line 1 is not an API key" in caplog.text
    file.path.unlink()
    clock.now += 2
    assert (keys.find(second), keys.required) == (None, True)


def test_deleting_the_last_key_admits_nobody(file: KeyFile) -> None:
    key = file.create("only", ["search"])
    file.delete("only")
    keys = ApiKeys(str(file.path))
    assert (keys.required, keys.find(key)) == (True, None)


def test_a_single_key_from_the_environment_may_do_everything(tmp_path: Path) -> None:
    keys = ApiKeys(str(tmp_path / "none"), SINGLE)
    known_key = keys.find(SINGLE)
    assert known_key is not None
    assert (keys.required, known_key.name, known_key.scopes) == (True, VARIABLE, SCOPES)


@pytest.mark.parametrize(
    "key", ["secret", "rsf_short", "rsf_" + "ü" * 40, "rsf_" + "a b" * 20, "x" + SINGLE, SINGLE + "\n"]
)
def test_a_malformed_key_is_refused_and_not_printed(tmp_path: Path, key: str) -> None:
    with pytest.raises(BadInput, match=VARIABLE) as caught:
        ApiKeys(str(tmp_path / "none"), key)
    assert key.strip() not in str(caught.value.to_dict())
    with pytest.raises(BadInput):
        check_key(key, "--key")


@pytest.mark.parametrize(
    "content",
    [b"{}\n", b"[]\n", b"null\n", b"\xff\xfe\n", b'{"name": "a", "scopes": ["search"], "hash": "x"}\n', b"rsf_abc\n"],
)
def test_another_file_in_place_of_the_key_file_is_refused_at_start(file: KeyFile, content: bytes) -> None:
    file.path.write_bytes(content)
    with pytest.raises(BadInput, match=r"keys\.jsonl"):
        ApiKeys(str(file.path))


def test_a_missing_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        ApiKeys(str(tmp_path / "none"), must_exist=True)
    with pytest.raises(BadInput, match="cannot be read"):
        ApiKeys(str(tmp_path))


def resift(*arguments: str) -> Result:
    """Run a command of ``resift``."""
    return CliRunner().invoke(main, list(arguments))


def test_keys_on_the_command_line(here: Path) -> None:
    made = resift("keys", "create", "shop", "--scopes", "search, feedback")
    assert (made.exit_code, made.stdout.startswith("rsf_")) == (0, True)
    key = made.stdout.strip()
    assert "the key itself is not stored" in made.stderr
    assert mode(here / "keys.jsonl") == 0o600
    listed = resift("keys", "list")
    assert key not in listed.stdout
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [["shop", "search,feedback"]]
    assert key_hash(key)[:12] in listed.stdout
    assert resift("keys", "create", "shop", "--scopes", "search").exit_code != 0
    assert resift("keys", "create", "x", "--scopes", "everything").exit_code != 0
    assert resift("keys", "delete", "nobody").exit_code != 0
    rotated = resift("keys", "rotate", "shop")
    assert rotated.stdout.startswith("rsf_")
    assert rotated.stdout.strip() != key
    assert "resift keys delete shop --old" in rotated.stderr
    assert resift("keys", "delete", "shop", "--old").exit_code == 0
    assert [line.split()[0] for line in resift("keys", "list").stdout.splitlines()[1:]] == ["shop"]
    assert resift("keys", "delete", "shop").exit_code == 0
    assert resift("keys", "list").stdout.split() == ["NAME", "SCOPES", "CREATED", "HASH"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_without_keys_only_this_machine_is_served(here: Path, host: str) -> None:
    with pytest.raises(BadInput, match="without keys the service only serves this machine") as caught:
        serve.run({}, host, 8080, 1)
    assert "resift keys create" in str(caught.value.expected)
