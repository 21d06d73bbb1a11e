"""The picture of the search page in the docs: python benchmarks/page_picture.py docs/page.png

The page of ``make demo`` after two marks, with the shelf, in a headless Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from browser import Page, served, started

from resift.cli.demo import INDEX
from resift.cli.lab.transcript import QUESTION, corpus_file
from resift.encoders.registry import load_model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files
from resift.plugin.sqlite.engine import SqliteEngine
from resift.reranker import Config, create_app

WIDTH, HEIGHT = 1440, 880


def main(path: str) -> None:
    """Take the picture."""
    model = load_model()
    with TemporaryDirectory() as folder:
        engine = SqliteEngine(f"{folder}/engine.db")
        Indexer(engine, model, INDEX, DeadLetters(Path(folder, "dead"))).run(Files([corpus_file()]), ["title", "text"])
        config = Config(engine=engine.path, store=f"{folder}/sessions.db", index=INDEX)
        with served(create_app(config, engine=engine, model=model)) as server, started(WIDTH, HEIGHT) as driver:
            page = Page(driver, f"http://127.0.0.1:{server.server_port}")
            page.resize(WIDTH, HEIGHT)
            page.colours("light")
            page.open(q=QUESTION)
            for rank in (1, 5):
                page.click(f"#right .card:nth-child({rank}) .thumb")
            page.run("document.getElementById('toast').classList.remove('shown')")
            page.emulate("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 2, "y": HEIGHT - 2})
            page.run("scrollTo(0, 0); document.activeElement.blur()")
            page.picture(path)
        engine.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "docs/page.png")
