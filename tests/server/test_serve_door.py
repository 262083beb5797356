"""Who may come in: names, pages of others, keys, sizes, headers; on the app itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse

from anyrig.server.security import AllowedHosts
from tests.server.conftest import HERE, MakeApp

HOSTS = [
    ("127.0.0.1", "127.0.0.1:3000", True),
    ("127.0.0.1", "localhost:3000", True),
    ("127.0.0.1", "LOCALHOST", True),
    ("127.0.0.1", "[::1]:3000", True),
    ("127.0.0.1", "127.9.9.9", True),
    ("127.0.0.1", "named.example:3000", True),
    ("127.0.0.1", "named.example.:3000", True),
    ("127.0.0.1", "evil.example", False),
    ("127.0.0.1", "127.0.0.1.evil.example", False),
    ("127.0.0.1", "localhost.evil.example", False),
    ("127.0.0.1", "evil.example#127.0.0.1", False),
    ("127.0.0.1", "evil.example@127.0.0.1", False),
    ("127.0.0.1", "127.0.0.1,evil.example", False),
    ("127.0.0.1", "127.0.0.1:x", False),
    ("127.0.0.1", "127.0.0.1 ", False),
    ("127.0.0.1", "", False),
    ("127.0.0.1", "[::1", False),
    ("127.0.0.1", "192.168.1.5", False),
    ("0.0.0.0", "192.168.1.5:3000", True),
    ("0.0.0.0", "evil.example", False),
    ("192.168.1.5", "192.168.1.5", True),
]  # fmt: skip


def test_names_that_the_server_answers_to(subtests: pytest.Subtests) -> None:
    for bound, host, known in HOSTS:
        with subtests.test(bound=bound, host=host):
            assert AllowedHosts(bound, ["named.example"]).is_known(host) is known


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        (HERE, "127.0.0.1:3000", True),
        ("http://localhost:3000", "localhost:3000", True),
        ("https://named.example", "named.example:443", True),
        ("http://named.example:80", "named.example", True),
        ("http://127.0.0.1:3001", "127.0.0.1:3000", False),
        ("http://localhost:3000", "127.0.0.1:3000", False),
        ("null", "127.0.0.1:3000", False),
        ("file://", "127.0.0.1:3000", False),
        ("http://127.0.0.1:3000.evil.example", "127.0.0.1:3000", False),
    ],
)
def test_pages_that_are_the_servers_own(origin: str, host: str, same: bool) -> None:
    assert AllowedHosts("127.0.0.1").is_same_origin(origin, host) is same


def test_a_name_that_was_made_to_lead_here_is_refused(shared_client: TestClient) -> None:
    for path in ("/uploads", "/health/live", "/docs", "/"):
        answer = shared_client.get(path, headers={"Host": "rebound.example:3000"})
        assert answer.status_code == 421, path
        assert "server.hosts" in answer.json()["hint"]
    with pytest.raises(WebSocketDenialResponse), _socket(shared_client, host="rebound.example"):
        pass


def _socket(client: TestClient, **headers: str) -> Any:
    called = {"host": "127.0.0.1:3000", **headers}
    return client.websocket_connect("/stream?text=Hello", headers=called)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 404),
        ({"Origin": HERE}, 404),
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({"Sec-Fetch-Site": "none"}, 404),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:8000"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Origin": "https://evil.example", "X-HTTP-Method-Override": "GET"}, 403),
    ],
)
def test_pages_of_others_change_nothing(
    shared_client: TestClient, headers: dict[str, str], status: int
) -> None:
    answer = shared_client.delete(f"/uploads/{'0' * 32}", headers=headers)
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
    ],
)  # fmt: skip
def test_pages_of_others_read_nothing(
    shared_client: TestClient, headers: dict[str, str], status: int
) -> None:
    answer = shared_client.get("/uploads", headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


def test_sockets_of_other_pages_are_refused(shared_client: TestClient) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9"):
        with (
            pytest.raises(WebSocketDenialResponse) as refused,
            _socket(shared_client, origin=origin),
        ):
            pass
        assert refused.value.status_code == 403
        assert "server.cors" in refused.value.json()["hint"]


def test_pages_that_were_named_may_call(make_app: MakeApp) -> None:
    app = make_app(environment={"ANYRIG_SERVER_CORS": "https://friend.example, https://b.example"})
    with TestClient(app, base_url=HERE) as client:
        asked = {"Origin": "https://friend.example", "Access-Control-Request-Method": "POST",
                 "Sec-Fetch-Site": "cross-site"}  # fmt: skip
        answer = client.options("/v1/embeddings", headers=asked)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "https://friend.example"
        assert "access-control-allow-credentials" not in answer.headers
        answer = client.get("/uploads", headers={"Origin": "https://friend.example"})
        assert answer.headers["access-control-allow-origin"] == "https://friend.example"
        refused = client.options("/v1/embeddings", headers={**asked, "Origin": "https://x.example"})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


_EVERYWHERE = ("x-content-type-options", "referrer-policy", "x-frame-options", "x-request-id",
               "content-security-policy", "permissions-policy",
               "cross-origin-resource-policy")  # fmt: skip


_JSON = {"Content-Type": "application/json"}


def test_every_answer_carries_the_headers(make_app: MakeApp) -> None:
    app = make_app()

    @app.get("/breaks")
    async def _breaks() -> None:
        raise RuntimeError("unforeseen")

    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        answers = [
            client.get("/health/live"), client.get("/nothing/here"), client.get("/breaks"),
            client.patch("/uploads"), client.get("/docs"), client.get("/openapi.json"),
            client.get("/uploads", headers={"Host": "evil.example"}),
            client.post("/uploads", headers={"Content-Length": "x"}),
            client.post("/v1/embeddings", content=b"{", headers=_JSON),
        ]  # fmt: skip
    assert [one.status_code for one in answers] == [200, 404, 500, 405, 200, 200, 421, 400, 400]
    for one in answers:
        assert [name for name in _EVERYWHERE if name not in one.headers] == [], one.url
        assert "frame-ancestors 'none'" in one.headers["content-security-policy"]
        assert "server" not in one.headers
        if one.status_code >= 400:
            assert one.headers["content-type"] == "application/problem+json", one.url
            assert one.json()["hint"]
    assert "unforeseen" not in answers[2].json()["error"]["message"].replace(
        "something unforeseen", ""
    )


def test_docs_need_nothing_from_elsewhere(shared_client: TestClient) -> None:
    page = shared_client.get("/docs").text
    assert "POST</span><code>/uploads</code>" in page
    assert "https://" not in page
    assert "<script" not in page


@pytest.fixture
def small(make_app: MakeApp) -> Iterator[TestClient]:
    app = make_app(
        environment={"ANYRIG_SERVER_BODY_MB": "0.001", "ANYRIG_SERVER_UPLOAD_MB": "0.01"}
    )
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        yield client


def test_bodies_have_an_end_told_or_not(small: TestClient) -> None:
    long = b'{"input": "' + b"x" * 1000 + b'"}'
    assert small.post("/v1/embeddings", content=long, headers=_JSON).status_code == 413
    pieces = small.post("/v1/embeddings", content=iter([long[:600], long[600:]]), headers=_JSON)
    assert pieces.status_code == 413
    assert pieces.headers["connection"] == "close"
    assert "server.body_mb" in pieces.json()["hint"]


def test_forms_have_an_end_told_or_not(small: TestClient) -> None:
    # Under the file's limit the form passes; over it, or over the whole form's, it does not.
    head = b'--B\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=B"}
    for size, status in ((9_000, 201), (11_000, 413), (2_000_000, 413)):
        body = head + b"x" * size + b"\r\n--B--\r\n"
        told = small.post("/uploads", content=body, headers=kind)
        assert told.status_code == status, told.text
        pieces = [body[start : start + 4096] for start in range(0, len(body), 4096)]
        untold = small.post("/uploads", content=iter(pieces), headers=kind)
        assert untold.status_code == status, untold.text
    assert len(small.get("/uploads").json()["files"]) == 2


@pytest.mark.parametrize("length", ["-1", "1e3", "", "9" * 40, "0x10"])
def test_lengths_that_are_no_numbers(shared_client: TestClient, length: str) -> None:
    answer = shared_client.post("/v1/embeddings", headers={"Content-Length": length})
    assert answer.status_code in (400, 413)


# -- what goes through -----------------------------------------------------------------------------


def test_answers_stream_piece_by_piece(make_app: MakeApp) -> None:
    """The next piece is made only once the client has the one before."""
    app = make_app()
    got: list[bytes] = []
    arrived = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"two", b"three"):
            arrived.clear()
            yield piece
            await asyncio.wait_for(arrived.wait(), 60)

    @app.get("/pieces")
    async def _pieces() -> StreamingResponse:
        return StreamingResponse(pieces())

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body" and message.get("body"):
            got.append(message["body"])
            arrived.set()

    async def call() -> None:
        gone = asyncio.Event()
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            message = next(messages, None)
            if message is None:
                await gone.wait()
            return message

        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "method": "GET",
            "http_version": "1.1", "path": "/pieces", "raw_path": b"/pieces", "query_string": b"",
            "root_path": "", "scheme": "http", "headers": [(b"host", b"127.0.0.1:3000")],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 3000),
        }  # fmt: skip
        await app(scope, receive, send)

    asyncio.run(call())
    assert got == [b"one", b"two", b"three"]


def test_requests_are_counted_by_route_and_logged_without_what_was_sent(
    app_client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        app_client.get(f"/uploads/{'5ec2e7' * 6}?text=secretwords")
        app_client.get("/secretwords/secretwords")
        app_client.post("/v1/embeddings", json={"input": {"secretwords": "secretwords"}})
    said = str([vars(one) for one in caplog.records if one.name.startswith("anyrig")])
    assert "secretwords" not in said
    assert "5ec2e7" not in said
    lines = [one for one in caplog.records if one.name == "anyrig.requests"]
    assert [(one.route, one.status) for one in lines] == [  # type: ignore[attr-defined]
        ("/uploads/{id}", 404), ("(none)", 404), ("/v1/embeddings", 422),
    ]  # fmt: skip
    figures = app_client.get("/metrics").text
    assert 'anyrig_requests_total{method="GET",route="/uploads/{id}",status="404"} 1.0' in figures
    assert "secretwords" not in figures


def test_odd_methods_do_not_fill_the_figures(app_client: TestClient) -> None:
    for number in range(5):
        app_client.request(f"ODD{number}", "/uploads")
    assert "ODD" not in app_client.get("/metrics").text
