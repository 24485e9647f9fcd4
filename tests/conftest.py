"""Fixtures shared by all tests."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

# A busy machine must not fail a property test.
settings.register_profile("pdtools", deadline=None)
settings.load_profile("pdtools")


# A shell's background jobs ignore Ctrl-C, and so would the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# All processes of the tests share compiled libraries, and leave the user's alone.
if "PDTOOLS_CACHE" not in os.environ:
    _libraries = tempfile.TemporaryDirectory(prefix="pdtools-")
    os.environ["PDTOOLS_CACHE"] = _libraries.name


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keep the garbage collector from what is collected: it lives to the end, as the modules do."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is for Linux elsewhere."""
    for item in items:
        if sys.platform != "linux" and item.get_closest_marker("linux"):
            item.add_marker(pytest.mark.skip(reason="for Linux"))


@pytest.fixture(scope="session", autouse=True)
def _few_threads() -> None:
    import torch

    torch.set_num_threads(int(os.environ.get("PDTOOLS_TEST_THREADS", "1")))


@pytest.fixture(scope="module", autouse=True)
def _no_waiting_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """Only a loss of power shows whether files were synced; when they are is what tests/files looks at."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name != "files":
            patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _quick_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fork workers from a process that has imported all; how they start really, tests/jobs looks at."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux" and request.path.parent.name != "jobs":
            from forked import ForkedWorkers

            patch.setattr("pdtools.jobs.workers._Context", ForkedWorkers)
        yield


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder with real treebanks and suites (``PDTOOLS_TEST_DATA``); tests are skipped without it."""
    folder = Path(os.environ.get("PDTOOLS_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder} (set PDTOOLS_TEST_DATA)")
    return folder


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Have ``make`` write a file or folder of this name; what one process of the tests made serves all."""
    folder = factory.getbasetemp()
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / name
    if not shared.exists():
        made = factory.mktemp("made") / name
        make(made)
        with contextlib.suppress(OSError):  # another process was as quick
            made.rename(shared)
    return shared


@pytest.fixture(scope="session")
def toy_benepar_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benepar model of the toy grammar in ``toy_benepar``, trained once; skipped without benepar."""
    pytest.importorskip("benepar", reason="benepar is not installed")
    from toy_benepar import train_toy_model

    return made_once(tmp_path_factory, "toy.pt", train_toy_model)


@pytest.fixture(scope="session")
def toy_stanza_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stanza's models of that grammar, as its downloader has them, made once; skipped without stanza."""
    pytest.importorskip("stanza", reason="stanza is not installed")
    from toy_stanza import make_toy_stanza

    return made_once(tmp_path_factory, "stanza", make_toy_stanza)


@pytest.fixture(scope="session")
def toy_stanza_with_tokenizer(toy_stanza_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a language with the same models, and a tokenizer that knows tokens of several words."""
    from toy_stanza import make_tokenizer

    def make(home: Path) -> None:
        shutil.copytree(toy_stanza_models / "en", home)
        make_tokenizer(home)

    return made_once(tmp_path_factory, "own", make)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser (Debian: ``apt-get install chromium``); without one, pages are not opened."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        pytest.skip("no Chromium on this machine: pages are not opened")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()
