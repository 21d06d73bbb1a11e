"""Take the pictures of the search page for the documentation: ``python benchmarks/page_picture.py docs``.

Opens the page of ``make demo SHOP=1`` in a headless Chromium. ``page.gif`` shows how two hits are marked, and
``page.png`` the page afterwards.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from browser import Page, served, started

from resift.cli.transcript import PRODUCTS, corpus_file
from resift.embedded.engine import SqliteEngine
from resift.encoders.registry import load_model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Files
from resift.reranker import Config, create_app

WIDTH, HEIGHT = 1440, 880
# The query, and the titles of the marked hits. Both hits are light shoes, so others of this kind rise with them.
QUESTION, MARKED = "running shoes", ("Norrvik Delta running shoes", "Norrvik Ember running shoes")
SHOWN, COLOURS = 960, 96  # width of the animation in pixels, and its number of colours
STEPS, STEP, REST = (
    range(0, 451, 50),
    50,
    1800,
)  # times in the cards' animation, duration of an animation frame, and duration of the other frames, in milliseconds
# JavaScript that pauses each animation when it starts, so that this script can set its time.
PAUSED = """
const animate = Element.prototype.animate;
Element.prototype.animate = function (...how) {
  const one = animate.apply(this, how);
  one.pause();
  return one;
};
"""


class Film:
    """An animation: pictures of the page, and their durations in milliseconds."""

    def __init__(self, page: Page) -> None:
        self.page, self.pictures = page, list[Image.Image]()
        self.times = list[int]()

    def take(self, time: int) -> None:
        """Add a picture of the page, shown for ``time`` milliseconds."""
        whole = Image.open(io.BytesIO(self.page.driver.get_screenshot_as_png())).convert("RGB")
        self.pictures.append(whole.resize((SHOWN, SHOWN * HEIGHT // WIDTH), Image.Resampling.LANCZOS))
        self.times.append(time)

    def mark(self, title: str) -> None:
        """Mark the hit with this title, and take pictures of the cards as they move."""
        rank = self.page.texts("#right .card h3").index(title) + 1
        thumb = f"#right .card:nth-child({rank}) .thumb"
        box = self.page.one(thumb).rect
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        self.page.emulate("Input.dispatchMouseEvent", {"type": "mouseMoved", **at})
        self.take(700)
        self.page.click(thumb)
        for step in STEPS:
            self.page.run("for (const one of document.getAnimations()) one.currentTime = arguments[0]", step)
            self.take(STEP)
        self.page.run("for (const one of document.getAnimations()) one.finish()")
        self.page.wait("return !document.getAnimations().length")
        self.take(REST)

    def write(self, path: Path) -> None:
        """Write an animated GIF that repeats forever."""
        palette = self.pictures[-1].quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
        first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in self.pictures)
        first.save(path, save_all=True, append_images=others, duration=self.times, loop=0, optimize=True)


def main(folder: str) -> None:
    """Write ``page.gif`` and ``page.png`` to a folder."""
    model = load_model()
    with TemporaryDirectory() as temporary:
        engine = SqliteEngine(f"{temporary}/engine.db")
        letters = DeadLetters(Path(temporary, "dead"))
        Indexer(engine, model, PRODUCTS.index, letters).run(Files([corpus_file(PRODUCTS)]), PRODUCTS.fields)
        config = Config(engine=engine.path, store=f"{temporary}/sessions.db", index=PRODUCTS.index)
        with served(create_app(config, engine=engine, model=model)) as server, started(WIDTH, HEIGHT) as driver:
            page = Page(driver, f"http://127.0.0.1:{server.server_port}")
            page.resize(WIDTH, HEIGHT)
            light = [{"name": "prefers-color-scheme", "value": "light"}]
            page.emulate("Emulation.setEmulatedMedia", {"features": light})
            film = Film(page)
            page.open().run(PAUSED)
            film.take(1000)
            page.search(QUESTION)
            film.take(REST)
            for title in MARKED:
                film.mark(title)
            film.write(Path(folder, "page.gif"))
            page.run("document.getElementById('toast').classList.remove('shown')")
            page.emulate("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 2, "y": HEIGHT - 2})
            page.run("scrollTo(0, 0); document.activeElement.blur()")
            page.picture(Path(folder, "page.png"))
        engine.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "docs")
