"""Pages of results: their size, the cost to make one, and the cost to open it in Chromium.

    python benchmarks/view.py                          # made-up results of 67,000 pairs: 1, 2 and 5 models
    python benchmarks/view.py results/a results/b …    # of these

Prints a JSON line for each page: megabytes; CPU seconds to make the page; CPU seconds of the browser's main
thread until it is drawn, and then until the items of the first benchmark are listed; wall-clock seconds until
it is drawn (medians of three); the machine's load. Needs playwright and a Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from pdtools.provenance import provenance
from pdtools.report.view.page import render
from pdtools.report.view.results import results_page

MODELS = (1, 2, 5)


def busy(session: Any) -> float:
    """Seconds that the page's main thread has computed."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def open_page(browser: Any, path: Path) -> tuple[float, float, float]:
    """Seconds until the page is drawn; from there until its items are listed; by the clock, until drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    start = time.perf_counter()
    page.goto(f"file://{path}")
    page.wait_for_selector("body[data-ready]", timeout=120_000)
    waited = time.perf_counter() - start
    drawn = busy(session)
    page.click("section > details > summary >> nth=0")
    page.wait_for_selector(".found")
    listed = busy(session) - drawn
    page.close()
    return drawn, listed, waited


def measure(folders: list[str], browser: Any) -> None:
    """Make the page of these folders, and open it three times."""
    start = time.process_time()
    html = render(results_page(folders), provenance())
    made = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, "utf-8")
        drawn, listed, waited = zip(*(open_page(browser, path) for _ in range(3)), strict=True)
    figures = {
        "megabytes": round(len(html.encode()) / 1e6, 2),
        "made_seconds": round(made, 1),
        "drawn_seconds": round(statistics.median(drawn), 2),
        "listed_seconds": round(statistics.median(listed), 2),
        "wall_seconds": round(statistics.median(waited), 2),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps({"models": len(folders), **figures}), flush=True)


def main(folders: list[str]) -> None:
    """Measure the page of these folders, or pages of made-up results."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if folders:
            measure(folders, browser)
            return
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
        from view_pages import write_blimp

        made = [Path(folder) / f"model-{m}" for m in range(max(MODELS))]
        for m, path in enumerate(made):
            right = np.random.default_rng(m).random((67, 1000)) < 0.6 + 0.05 * m
            write_blimp(path / "blimp", right, seed=m)
        for n in MODELS:
            measure([str(path) for path in made[:n]], browser)


if __name__ == "__main__":
    main(sys.argv[1:])
