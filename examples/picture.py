"""Pictures of docs/: pages of pdtools view with bundled models and those of the demo, as Chromium draws them.

    python examples/picture.py demo-output docs
    python examples/picture.py docs               # of pdtools serve alone, which needs no demo

Needs the extras ``view``, ``serve`` and ``dev`` (playwright), and a Chromium (Debian: ``apt-get install
chromium``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from pdtools.cli.main import run

ENGLISH_MODELS = ("--model", "english", "--model", "english-base")
ENGLISH = "While the woman washed the baby cried."
# Of the bundled data: twice a verb that may take the next noun phrase, and a reduced relative clause.
SENTENCES = (
    "(S (SBAR (IN As) (S (NP (DT the) (NNS aunts)) (VP (VBD wrote)))) (NP (DT the) (NN novel)) (VP (VBD was)"
    " (ADJP (JJ strange))) (. .))",
    "(S (SBAR (IN As) (S (NP (DT the) (NN teacher)) (VP (VBD helped)))) (NP (DT the) (NN nurse)) (VP"
    " (VBD was) (ADJP (JJ quiet))) (. .))",
    "(S (NP (NP (DT The) (NNS pilots)) (VP (VBN sent) (NP (JJ several) (NNS keys)))) (VP (VBD chased)"
    " (NP (NP (DT the) (NN sister) (POS 's)) (NNS horses))) (. .))",
)
PAIR = ("No man has ever eaten Clara's soups.", "The man has ever eaten Clara's soups.")
WIDTH, HEIGHT = 1120, 1000


@dataclass(frozen=True)
class Picture:
    """A file, the page that it is of, what is chosen there, and which part it shows (None: what fits)."""

    file: str
    page: str
    state: str
    part: str | None = None


PICTURES = (
    # After "baby", before "cried" gives away that this is its subject.
    Picture("view.png", "english", "token=6"),
    Picture("gallery-english.png", "english", "token=7"),
    # The third after "chased", which cannot follow the main verb "sent".
    Picture("gallery-beam.png", "sentences", "sentence=3&token=6", ".two > div >> nth=0"),
    Picture("gallery-pair.png", "pair", "", "main > section >> nth=0"),
    Picture("gallery-suite.png", "results", "suite=mini_npz", "#sg .two .item"),
)


def serve(browser: Browser, folder: str) -> None:
    """Make the picture of the page that answers, after a garden path was typed."""
    command = [sys.executable, "-m", "pdtools", "serve", "--port", "0", *ENGLISH_MODELS, "--beam", "50"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"DISPLAY": ""}
    ) as served:
        assert served.stdout is not None
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(served.stdout.readline().strip())
        page.fill("#text", ENGLISH)
        page.keyboard.press("Enter")
        page.wait_for_selector("body[data-ready]")
        page.screenshot(path=Path(folder) / "serve.png")
        served.terminate()


def main(demo: str, folder: str) -> None:
    """Make the pages in a temporary folder, and pictures of them in another; without a demo, of serve."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    texts = [part for tree in SENTENCES for part in ("--text", tree)]
    models = [part for name in ("pushdown", "transformer") for part in ("--model", f"{demo}/{name}")]
    pages = {
        "english": ["--text", ENGLISH, *ENGLISH_MODELS, "--beam", "50"],
        "sentences": ["--from", "treebank", *texts, *models, "--beam", "50"],
        "pair": ["--pair", *PAIR, *models, "--beam", "50"],
        "results": [f"{demo}/results/{name}" for name in ("pushdown", "transformer")],
    }
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        for name, arguments in pages.items() if demo else ():
            if run(["view", *arguments, "-o", f"{made}/{name}.html"]):
                sys.exit(1)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        serve(browser, folder)
        for picture in PICTURES if demo else ():
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto(f"file://{made}/{picture.page}.html#{picture.state}")
            page.wait_for_selector("body[data-ready]")
            shown = page.locator(picture.part) if picture.part else page
            shown.screenshot(path=Path(folder) / picture.file)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:3] if len(sys.argv) > 2 else ("", sys.argv[1]))
