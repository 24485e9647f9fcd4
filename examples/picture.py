"""The README's picture: a page of pdtools view with the models of the demo, as Chromium draws it.

    python examples/picture.py demo-output docs/view.png

Needs the extras ``view`` and ``dev`` (playwright) and a Chromium (Debian: ``apt-get install chromium``).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from pdtools.cli.main import run

# Of the bundled data: twice a verb that may take the next noun phrase, and a reduced relative clause.
SENTENCES = (
    "(S (SBAR (IN As) (S (NP (DT the) (NNS aunts)) (VP (VBD wrote)))) (NP (DT the) (NN novel)) (VP (VBD was)"
    " (ADJP (JJ strange))) (. .))",
    "(S (SBAR (IN As) (S (NP (DT the) (NN teacher)) (VP (VBD helped)))) (NP (DT the) (NN nurse)) (VP"
    " (VBD was) (ADJP (JJ quiet))) (. .))",
    "(S (NP (NP (DT The) (NNS pilots)) (VP (VBN sent) (NP (JJ several) (NNS keys)))) (VP (VBD chased)"
    " (NP (NP (DT the) (NN sister) (POS 's)) (NNS horses))) (. .))",
)
# The first sentence after "novel", before "was" gives away that this is its subject.
STATE, WIDTH, HEIGHT = "token=6", 1120, 1000


def main(demo: str, picture: str) -> None:
    """Make the page in a temporary folder, and a picture of it."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "page.html"
        texts = [part for tree in SENTENCES for part in ("--text", tree)]
        models = [part for name in ("pushdown", "transformer") for part in ("--model", f"{demo}/{name}")]
        title = "As the aunts wrote the novel was strange."
        command = ["view", "--from", "treebank", *texts, *models, "--beam", "50", "--title", title]
        if run([*command, "-o", str(page_file)]):
            sys.exit(1)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"file://{page_file}#{STATE}")
        page.wait_for_selector("body[data-ready]")
        page.screenshot(path=picture)
        if keep := sys.argv[3:]:
            shutil.copy(page_file, keep[0])
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
