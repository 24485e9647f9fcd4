"""Requests of other sites, other people and broken programs: none gets in, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from fake_answers import FakeAnswers
from serve_client import TOKEN, Client, served

from pdtools.serve.questions import MOST_BYTES, MOST_CHARS, MOST_JSON

ASK = {"page": "p", "kind": "sentence", "texts": ["quick"]}
JSON, BYTES = {"Content-Type": "application/json"}, {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def answers() -> FakeAnswers:
    return FakeAnswers()


@pytest.fixture(scope="module")
def address(answers: FakeAnswers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(answers, tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture(scope="module")
def page(address: str) -> Client:
    return Client(address)


@pytest.fixture(autouse=True)
def _still_answers(page: Client, answers: FakeAnswers) -> Iterator[None]:
    """Nothing was done for the request, and the next one is answered."""
    before = len(answers.events)
    yield
    assert len(answers.events) == before
    assert page.ask("sentence", "quick")["document"]["texts"] == ["quick"]


def test_the_first_address_gives_a_cookie_and_is_gone(address: str, page: Client) -> None:
    (first,) = page.entered.history
    assert first.status_code == 303
    assert first.headers["location"] == "/"
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    port = address.partition("/?")[0].rpartition(":")[2]
    assert cookie.startswith(f"pdtools-{port}=")
    assert page.entered.status_code == 200
    assert TOKEN not in page.entered.text
    policy = page.entered.headers["content-security-policy"]
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert page.entered.text.count("<script nonce=") == page.entered.text.count(f'<script nonce="{nonce}">')
    assert policy == (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data: blob:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert nonce not in page.http.get("/").headers["content-security-policy"]
    for name, value in {
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cross-origin-resource-policy": "same-origin",
    }.items():
        assert page.entered.headers[name] == value
    assert "server" not in page.entered.headers


OTHERS = [
    ("GET", "/?token=wrong", {}, 403),
    ("GET", "/?token=", {}, 403),
    ("GET", f"/?token={TOKEN}&token={TOKEN}", {}, 403),
    ("GET", "/?token=%C3%A9%00", {}, 403),
    ("GET", "/", {}, 403),
    ("GET", "/?again", {}, 403),
    ("GET", "/charts.js", {}, 403),
    ("GET", f"/charts.js?token={TOKEN}", {}, 403),
    ("HEAD", f"/?token={TOKEN}", {}, 403),
    ("POST", "/ask", JSON, 403),
    ("POST", f"/ask?token={TOKEN}", JSON, 403),
    ("POST", "/ask", JSON | {"Cookie": "pdtools=a-token"}, 403),
    ("POST", "/ask", JSON | {"Authorization": f"Bearer {TOKEN}"}, 403),
    ("GET", "/../../etc/passwd", {}, 403),
    ("GET", f"/?token={TOKEN}", {"Host": "evil.example"}, 421),
    ("GET", f"/?token={TOKEN}", {"Host": "127.0.0.1.evil.example"}, 421),
    ("GET", f"/?token={TOKEN}", {"Host": "127.0.0.1@evil.example"}, 421),
    ("GET", f"/?token={TOKEN}", {"Host": ""}, 421),
    ("GET", f"/%0a?token={TOKEN}", {}, 403),
    ("GET", f"/?token={TOKEN}", {"Origin": "null"}, 403),
    ("GET", f"/?token={TOKEN}", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
]


@pytest.mark.parametrize(("method", "path", "headers", "status"), OTHERS)
def test_nobody_gets_in_without_the_key(
    address: str, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    other = Client(address.partition("?")[0])
    other.http.cookies.clear()
    if method == "GET" and "Origin" not in headers:
        del other.http.headers["Origin"]
    body = json.dumps(ASK) if method == "POST" else None
    answer = other.http.request(method, path, headers=headers, content=body)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers
    assert "fake" not in answer.text
    assert TOKEN not in answer.text


INSIDE = [
    ("POST", "/ask", JSON | {"Origin": "http://evil.example"}, 403),
    ("POST", "/ask", JSON | {"Origin": "null"}, 403),
    ("POST", "/ask", JSON | {"Origin": ""}, 403),
    ("POST", "/ask", JSON | {"Origin": "http://127.0.0.1:1"}, 403),
    ("POST", "/ask", JSON | {"Origin": "https://{host}"}, 403),
    ("POST", "/ask", JSON | {"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ("POST", "/ask", JSON | {"Sec-Fetch-Site": "same-site"}, 403),
    ("POST", "/ask", JSON | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
    ("GET", "/", {"Origin": "http://evil.example"}, 403),
    ("POST", "/ask", {"Content-Type": "text/plain"}, 415),
    ("POST", "/ask", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ("POST", "/ask", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ("POST", "/ask", BYTES, 400),
    ("POST", "/table", JSON, 400),
    ("GET", "/ask", {}, 405),
    ("PUT", "/ask", JSON, 405),
    ("OPTIONS", "/ask", {"Access-Control-Request-Method": "POST"}, 405),
    ("GET", "/page.js", {}, 404),
    ("GET", "/..%2f..%2fetc%2fpasswd", {}, 404),
]


@pytest.mark.parametrize(("method", "path", "headers", "status"), INSIDE)
def test_other_sites_get_nothing_with_the_cookie(
    page: Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    host = page.origin.removeprefix("http://")
    headers = {name: value.replace("{host}", host) for name, value in headers.items()}
    body = json.dumps(ASK) if method in ("POST", "PUT") else None
    answer = page.http.request(method, path, headers=headers, content=body)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


def test_two_hosts_or_none_are_refused(address: str) -> None:
    host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
    for lines in (f"Host: {host}:{port}\r\nHost: evil.example\r\n", ""):
        with socket.create_connection((host, int(port))) as plain:
            plain.sendall(f"GET /?token={TOKEN} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: plain.recv(4096), b""))
        assert answer.split()[1] in (b"400", b"421")
        assert b"set-cookie" not in answer.lower()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"1" * 5000, "no"),
        (b"[]", "no question"),
        (b'"sentence"', "no question"),
        ({"kind": "table", "texts": [], "name": "a.csv"}, "no question"),
        ({"kind": ["sentence"]}, "no question"),
        ({"kind": "__class__"}, "no question"),
        ({"page": 7}, "no question"),
        ({"page": "x" * 65}, "no question"),
        ({"texts": "quick"}, "no question"),
        ({"texts": ["a", "b"]}, "no question"),
        ({"texts": [{}]}, "no question"),
        ({"texts": [" \n "]}, "no words"),
        ({"texts": ["\ud800"]}, "halves"),
        ({"texts": ["x" * (MOST_CHARS + 1)]}, "at most 2,000 characters, not 2,001"),
        ({"context": "x" * 20_001}, "at most 20,000"),
        ({"context": []}, "no question"),
        ({"beam": 0}, "beam"),
        ({"beam": 10**30}, "beam"),
        ({"beam": True}, "beam"),
        ({"beam": "5"}, "beam"),
        ({"beam": 2.0}, "beam"),
        ({"words": "yes"}, "no question"),
        (b" " * (MOST_JSON + 1), "at most"),
    ],
)
def test_what_is_no_question_is_a_message(page: Client, body: Any, message: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(ASK | body).encode()
    answer = page.http.post("/ask", content=data, headers=JSON)
    assert answer.status_code == 400
    assert message in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "name", ["a.parquet", "a.csv/../../b", "/etc/passwd", "..\\a.csv", "a\0.csv", "a.csv.gz", ""]
)
def test_names_of_tables_are_no_paths(page: Client, name: str) -> None:
    question = page.question("table", name=name)
    answer = page.http.post("/table", content=question + b"\nsentence\n", headers=BYTES)
    assert answer.status_code == 400
    assert "a table's name ends in .csv, .tsv, .xlsx" in answer.text


def test_tables_are_limited_before_they_are_kept(page: Client) -> None:
    question = page.question("table", name="a.csv")
    for content in (b"x" * (MOST_JSON + 1), b"", question):
        answer = page.http.post("/table", content=content, headers=BYTES)
        assert answer.status_code == 400
    host, _, port = page.origin.removeprefix("http://").partition(":")
    cookie = "; ".join(f"{name}={value}" for name, value in page.http.cookies.items())
    head = f"POST /table HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {page.origin}\r\nCookie: {cookie}\r\n"
    head += "Content-Type: application/octet-stream\r\n"
    chunk = b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20))
    for length, body in (
        (f"Content-Length: {2 * MOST_BYTES}", []),
        (f"Content-Length: {'9' * 5000}", []),
        (
            "Transfer-Encoding: chunked",
            [b"%x\r\n%s\r\n" % (len(question) + 1, question + b"\n"), *[chunk] * 40],
        ),
    ):
        with socket.create_connection((host, int(port))) as plain, contextlib.suppress(OSError):
            plain.sendall(f"{head}{length}\r\n\r\n".encode())
            for each in body:  # the server may end the connection while more is sent
                plain.sendall(each)
            assert plain.recv(4096).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(("path", "form"), [("/ask", "json"), ("/table", "octet-stream")])
def test_who_leaves_while_a_question_comes_and_who_is_slow(
    page: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, path: str, form: str
) -> None:
    monkeypatch.setattr("pdtools.serve.app._MOST_SECONDS", 0.5)
    host, _, port = page.origin.removeprefix("http://").partition(":")
    cookie = "; ".join(f"{name}={value}" for name, value in page.http.cookies.items())
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {page.origin}\r\nCookie: {cookie}\r\n"
    head += f"Content-Type: application/{form}\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection((host, int(port))) as leaving:
        leaving.sendall(f"{head}{{".encode())
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(f"{head}{{".encode())
        slow.settimeout(10)
        answer = b""
        while not answer.endswith(b"to arrive"):
            answer += slow.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.endswith(b"the question took longer than 0.5 seconds to arrive")
    assert caplog.records == []


def test_a_fault_of_the_server_is_a_line(
    page: Client, answers: FakeAnswers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("pdtools.serve.app.read_question", lambda data, table: 1 // 0)
        answer = page.http.post("/ask", content=b"{}", headers=JSON)
    assert (answer.status_code, answer.text) == (
        500,
        "pdtools serve failed (ZeroDivisionError): the terminal says more",
    )
    assert answer.headers["x-frame-options"] == "DENY"
    assert caplog.records == []
    answers.said.append("no answer: ZeroDivisionError: integer division or modulo by zero")
