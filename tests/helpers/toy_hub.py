"""A server on this machine that plays the Hugging Face hub, as far as models and commits are read from it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

_API = re.compile(r"/api/(?:models|datasets)/(.+?)(?:/revision/(.+))?")
_FILE = re.compile(r"/(.+?)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """Repositories, and the requests for them.

    Attributes:
        branches: for each repository, the commits by the names of branches.
        commits: the files of each commit, by name.
        gated: repositories whose files are not given out.
        breaks_at: files of which only this many bytes are sent: then the connection ends.
        asked: for each request its method and path, and the first byte that it wants.
    """

    branches: dict[str, dict[str, str]] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    breaks_at: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    url: str = ""

    def commit(self, repo: str, files: Path | Mapping[str, bytes], branch: str = "main") -> str:
        """Put files, or the files of a folder, on a branch, and return its new commit."""
        if isinstance(files, Path):
            files = {each.name: each.read_bytes() for each in files.iterdir() if each.is_file()}
        content = json.dumps([repo, branch, *((name, _sum(files[name])) for name in sorted(files))])
        commit = hashlib.sha1(content.encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.branches.setdefault(repo, {})[branch] = commit
        return commit

    def got(self) -> list[str]:
        """The names of files that were downloaded since the last call."""
        found = [
            path.rpartition("/")[2]
            for method, path, _ in self.asked
            if method == "GET" and "/api/" not in path
        ]
        self.asked.clear()
        return found


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub that answers while the block runs."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self) -> None:
            start = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
            first = int(start[1]) if start else 0
            hub.asked.append((self.command, self.path, first))
            api, file = _API.fullmatch(self.path), _FILE.fullmatch(self.path)
            found = api or file
            if found is None:
                return self._refuse(404, "EntryNotFound")
            repo, revision = found.group(1, 2)
            branches = hub.branches.get(repo)
            if branches is None:
                return self._refuse(401, "RepoNotFound")
            commit = branches.get(revision or "main", revision)
            if commit not in hub.commits:
                return self._refuse(404, "RevisionNotFound")
            files = hub.commits[commit]
            if api:
                siblings = [{"rfilename": name} for name in files]
                about = {"id": repo, "modelId": repo, "sha": commit, "siblings": siblings, "tags": []}
                return self._send(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
            if repo in hub.gated:
                return self._refuse(403, "GatedRepo")
            assert file is not None
            if file[3] not in files:
                return self._refuse(404, "EntryNotFound")
            data = files[file[3]]
            headers = {"ETag": f'"{_sum(data)}"', "X-Repo-Commit": str(commit), "Accept-Ranges": "bytes"}
            if first:
                headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            most = hub.breaks_at.get(file[3])
            self._send(206 if first else 200, data[first:], headers, most and max(0, most - first))
            return None

        def _refuse(self, status: int, code: str) -> None:
            self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

        def _send(self, status: int, data: bytes, headers: dict[str, str], most: int | None = None) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data[:most])
            self.close_connection = self.close_connection or most is not None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str, cache: Path) -> None:
    """Let this process take the server for the hub, as HF_ENDPOINT and HF_HUB_CACHE do at its start."""
    from huggingface_hub import constants, file_download

    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    path = template[template.index("/{repo_id}") :]
    monkeypatch.setattr(constants, "ENDPOINT", url)
    for module in (constants, file_download):
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", url + path, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)


def keep_model(monkeypatch: pytest.MonkeyPatch, cache: Path, name: str, folder: Path) -> str:
    """Put the model of a folder into a cache of the hub, as this process's without a network, and return its
    commit."""
    commit = hashlib.sha1(name.encode()).hexdigest()
    place = cache / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    shutil.copytree(folder, place / "snapshots" / commit)
    use_hub(monkeypatch, "http://127.0.0.1:9", cache)
    return commit
