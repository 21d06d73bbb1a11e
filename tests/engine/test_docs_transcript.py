"""Five minutes with your own CSV: what the page has a reader type is typed, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ports import free_port
from transcripts import assert_prints

PAGE = Path(__file__).parents[2] / "docs" / "five-minutes.md"
# a shell of the reader's, with our command on its path, that waits for a service which it has begun
START = """
PATH="{bin}:$PATH"
exec 2>&1
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null' EXIT
"""
WAIT = "for _ in $(seq 1200); do curl -sf http://127.0.0.1:8080/healthz > /dev/null && break; sleep 0.1; done"


def test_five_minutes_print_what_the_page_says(here: Path) -> None:
    blocks = re.findall(r"```(sh|text)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    lines = [START.format(bin=Path(sys.executable).parent)]
    for kind, block in blocks:
        if kind == "sh":
            lines.append(re.sub(r"^(resift serve .*) &$", rf"\1 2> serve.log &\n{WAIT}", block, flags=re.MULTILINE))
        else:
            lines.append("echo ---")
    script = "\n".join(lines).replace("8080", str(free_port()))
    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stdout
    output = re.sub(r"^indexing.*\n", "", done.stdout, flags=re.MULTILINE)  # a slow machine is told how far it is
    expected = [block for kind, block in blocks if kind == "text"]
    assert len(expected) == 3
    for text, wanted in zip(output.split("---\n"), expected, strict=False):
        assert_prints(text, wanted)
    assert '"steps":1' in (here / "marked.json").read_text("utf-8")
