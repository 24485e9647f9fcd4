"""Pages of results: how large they are, what it costs to make one, and to open it in Chromium.

    python benchmarks/view.py results/a results/b …

Prints a JSON line: megabytes; CPU seconds to make the page; CPU seconds of the browser's main thread until
it is drawn, and then until the items of the first benchmark are listed (medians of three).
Needs playwright and a Chromium.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from pdtools.provenance import provenance
from pdtools.report.view.page import render
from pdtools.report.view.results import results_page


def busy(session: Any) -> float:
    """Seconds that the page's main thread has computed."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def open_page(browser: Any, path: Path) -> tuple[float, float]:
    """Until the page is drawn, and from there until its items are listed."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"file://{path}")
    page.wait_for_selector("body[data-ready]", timeout=120_000)
    drawn = busy(session)
    page.click("section > details > summary >> nth=0")
    page.wait_for_selector(".found")
    listed = busy(session) - drawn
    page.close()
    return drawn, listed


def main(folders: list[str]) -> None:
    """Make the page of these folders, and open it three times."""
    start = time.process_time()
    html = render(results_page(folders), provenance())
    made = time.process_time() - start
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(html, "utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        drawn, listed = zip(*(open_page(browser, path) for _ in range(3)), strict=True)
        browser.close()
    figures = {
        "megabytes": round(len(html.encode()) / 1e6, 2),
        "made_seconds": round(made, 1),
        "drawn_seconds": round(statistics.median(drawn), 2),
        "listed_seconds": round(statistics.median(listed), 2),
    }
    print(json.dumps({"folders": len(folders), **figures}))


if __name__ == "__main__":
    main(sys.argv[1:])
