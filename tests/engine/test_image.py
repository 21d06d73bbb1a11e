"""Tests of the Dockerfile: commands write to the volume, and the image contains no build tools."""

from __future__ import annotations

import re
from pathlib import Path

from resift.reranker import Config

ROOT = Path(__file__).parents[2]


def instructions(name: str) -> list[str]:
    """Return the arguments of all instructions of this name in the Dockerfile, with continued lines joined."""
    text = re.sub(r"^ +#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return re.findall(rf"^{name} (.*)$", text.replace("\\\n", ""), re.MULTILINE)


def test_commands_run_in_the_volume_as_its_owner() -> None:
    """`resift index` writes refused documents, and `resift keys` its file, to the current folder."""
    (volume,), (user,) = instructions("VOLUME"), instructions("USER")
    assert instructions("WORKDIR")[-1] == volume
    assert f"install -d -o {user} -g {user} {volume}" in " ".join(instructions("RUN"))
    written = (Config().keys, Config().reranker)
    assert not any(Path(name).is_absolute() for name in written)
    assert f"RESIFT_STORE={volume}/" in " ".join(instructions("ENV"))


def test_the_source_is_not_where_commands_run() -> None:
    """Python would import the source instead of the installed package."""
    (copied,) = {one.split()[-1] for one in instructions("COPY") if not one.startswith("--from")}
    assert copied not in ("", ".", *instructions("WORKDIR"))


def test_what_runs_has_no_compiler_and_no_package_manager() -> None:
    """The last stage copies files of the previous stages, which delete these tools."""
    assert instructions("FROM")[-1] == "scratch"
    assert {one.split()[1] for one in instructions("COPY") if one.startswith("--from")} == {"/", "/opt/resift"}
    removed = " ".join(instructions("RUN"))
    assert all(one in removed for one in ("uninstall --yes", " usr/bin/apt*", " usr/bin/dpkg*", " usr/local/bin/pip*"))


def test_the_service_of_docker_compose_needs_a_key_and_keeps_the_volume() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    (volume,) = instructions("VOLUME")
    assert "RESIFT_API_KEY: &key ${RESIFT_API_KEY:?" in compose
    assert f"- sessions:{volume}\n" in compose
    ports = re.findall(r'- "(.*):\d+:\d+"', compose)
    assert ports
    assert set(ports) == {"127.0.0.1"}, "OpenSearch has no passwords there"
