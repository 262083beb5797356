"""A real server: how it starts and ends, and who comes in over a real wire."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from anyrig.cli import serve
from anyrig.errors import InvalidInputError
from tests.server.conftest import Server, Start, add_key, environment_of, run_for
from tests.waiting import wait_until

_EVIL = Origin("https://evil.example")


def _ended(server: Server, number: int) -> int:
    server.process.send_signal(number)
    return server.process.wait(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_and_ends_when_asked(start: Start, number: int) -> None:
    server = start("--no-page")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url)
    assert server.client.get("/health/live").status_code == 200
    assert _ended(server, number) == 0
    assert "Traceback" not in server.log()
    with pytest.raises(httpx.ConnectError):
        server.client.get("/health/live")


def test_addresses_are_told_as_they_are() -> None:
    assert serve.format_address("127.0.0.1", 3000).startswith("Listening on http://127.0.0.1:3000 ")
    assert serve.list_urls("::1", 3000) == ["http://[::1]:3000"]
    everywhere = serve.format_address("0.0.0.0", 3000)
    assert everywhere.startswith("Listening on every address of this machine, port 3000 ")
    assert "  http://127.0.0.1:3000  on this machine" in everywhere.splitlines()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("9.9.9.9", "It is not an address of this machine"),
        ("no.such.invalid", "`host` must be an address of this machine, not 'no.such.invalid'"),
    ],
)
def test_an_address_of_others_is_told_as_such(host: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as found, serve.bind(host, 0):
        pass
    assert words in f"{found.value.message} {found.value.hint}"
    assert "Another server" not in found.value.hint
    with (
        serve.bind("127.0.0.1", 0) as door,
        pytest.raises(InvalidInputError, match="cannot listen") as taken,
        serve.bind("127.0.0.1", _listening(door)),
    ):
        pass
    assert "Another server" in taken.value.hint


def _listening(door: socket.socket) -> int:
    door.listen()
    return int(door.getsockname()[1])


def test_it_ends_though_somebody_holds_on(start: Start) -> None:
    """Half a request, an idle connection and a file that is still coming do not keep it."""
    server = start("--no-page")
    where = urlsplit(server.url)
    assert where.hostname is not None
    assert where.port is not None
    held = [socket.create_connection((where.hostname, where.port)) for _ in range(3)]
    host = f"Host: {where.netloc}\r\n".encode()
    held[0].sendall(b"GET /uploads HTTP/1.1\r\n" + host)
    held[1].sendall(b"GET /health/live HTTP/1.1\r\n" + host + b"\r\n")
    held[2].sendall(
        b"POST /uploads HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n"
        b"Content-Type: multipart/form-data; boundary=B\r\n\r\n"
        b'50\r\n--B\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nhalf'
    )
    assert held[1].recv(20).startswith(b"HTTP/1.1 200")
    assert _ended(server, signal.SIGTERM) == 0
    for one in held:
        one.close()
    assert list((server.data / "uploads").glob("part-*")) == []


def test_heads_without_end_are_shown_out(server: Server) -> None:
    where = urlsplit(server.url)
    assert where.hostname is not None
    assert where.port is not None
    endless = (b"X-A: " + b"a" * 200_000, b"".join(b"X-%d: b\r\n" % n for n in range(30_000)))
    for line in endless:
        with socket.create_connection((where.hostname, where.port), timeout=20) as call:
            answer = b""
            try:
                call.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n" + line)
                answer = call.recv(100)
            except (BrokenPipeError, ConnectionResetError):  # it had hung up while we were sending
                continue
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431")), answer
    assert server.client.get("/health/live").status_code == 200


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET /uploads HTTP/1.1\r\n\r\n",
        b"GET http://evil.example/uploads HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /uploads HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /../../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /uploads/%2e%2e%2f%2e%2e%2fetc%2fpasswd/content HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /page/assets/../../main.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /page/assets/%2e%2e/main.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /page/assets//etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
def test_odd_requests_are_refused_and_nothing_breaks(server: Server, request_text: bytes) -> None:
    where = urlsplit(server.url)
    assert where.hostname is not None
    assert where.port is not None
    with socket.create_connection((where.hostname, where.port), timeout=20) as call:
        call.sendall(request_text)
        answer = call.recv(1000)
    assert re.match(rb"HTTP/1\.[01] 4\d\d", answer), answer
    assert b"root:" not in answer


def test_a_real_browsers_socket_of_another_page_is_refused(server: Server) -> None:
    address = server.url.replace("http", "ws") + "/stream?text=Hello"
    with pytest.raises(InvalidStatus) as refused, connect(address, origin=_EVIL):
        pass
    assert refused.value.response.status_code == 403
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(address, additional_headers={"Host": "evil.example"}),
    ):
        pass
    assert refused.value.response.status_code == 421
    assert server.client.get("/health/live").status_code == 200  # the log has it by now
    assert "ASGI" not in server.log()


def test_chunks_without_end_are_refused_while_they_come(start: Start) -> None:
    server = start("--no-page", environment={"ANYRIG_SERVER_BODY_MB": "0.1"})
    sent = 0

    def pieces() -> object:
        nonlocal sent
        while sent < 200_000_000:
            sent += 50_000
            yield b" " * 50_000

    try:
        answer = httpx.post(
            f"{server.url}/v1/embeddings", content=pieces(),  # type: ignore[arg-type]
            headers={"Content-Type": "application/json"}, timeout=60, trust_env=False,
        )  # fmt: skip
        assert answer.status_code == 413
    except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
        pass  # it hung up while we were still sending
    assert sent < 200_000_000
    assert server.client.get("/health/live").status_code == 200


def test_a_form_that_breaks_off_leaves_nothing(server: Server) -> None:
    where = urlsplit(server.url)
    assert where.hostname is not None
    assert where.port is not None
    with socket.create_connection((where.hostname, where.port), timeout=20) as call:
        call.sendall(
            b"POST /uploads HTTP/1.1\r\nHost: " + where.netloc.encode() + b"\r\n"
            b"Content-Length: 5000000\r\nContent-Type: multipart/form-data; boundary=B\r\n\r\n"
            b'--B\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
        )
        for _ in range(40):
            call.sendall(b"x" * 50_000)
    uploads = server.data / "uploads"
    wait_until(lambda: not list(uploads.glob("part-*")))
    assert "a.txt" not in [one["name"] for one in server.client.get("/uploads").json()["files"]]


def test_other_machines_come_in_with_a_key(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "home of keys"
    key = add_key(home, "laptop", "--scopes", "speech,documents")
    server = start("--host", "0.0.0.0", "--no-page", home=home, key=key)
    assert server.client.get("/uploads").status_code == 200
    assert server.client.get("/metrics").status_code == 403
    plain = httpx.Client(base_url=server.url, trust_env=False)
    assert plain.get("/uploads").status_code == 401
    assert plain.get("/health/live").status_code == 200
    address = server.url.replace("http", "ws") + "/stream?text=Hello"
    with pytest.raises(InvalidStatus) as refused, connect(address):
        pass
    assert refused.value.response.status_code == 401
    with connect(address, additional_headers={"Authorization": f"Bearer {key}"}) as call:
        assert call.recv(timeout=60)
    run_for(home, "keys", "remove", "laptop")
    assert server.client.get("/uploads").status_code == 401
    plain.close()


def test_anybody_comes_in_where_that_was_said(start: Start) -> None:
    server = start("--host", "0.0.0.0", "--insecure", "--no-page")
    assert server.client.get("/uploads").status_code == 200
    assert "everyone who can reach 0.0.0.0 may use this server" in server.log()
    told = json.loads(server.said[-1])
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", told["url"])
    assert (told["host"], told["urls"][0]) == ("0.0.0.0", told["url"])
    for url in told["urls"]:  # as other machines would
        assert httpx.get(f"{url}/health/live", trust_env=False).status_code == 200
    assert server.client.get("/uploads", headers={"Host": "evil.example"}).status_code == 421


def _requests(server: Server, num: int) -> list[dict[str, Any]]:
    """Its log's lines of requests, once there are so many: a line comes after its answer."""

    def logged() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in server.log().splitlines()]
        asked = [line for line in lines if line["logger"] == "anyrig.requests"]
        return asked if len(asked) >= num else []

    return wait_until(logged)


def test_a_container_makes_its_key_once(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "volume"
    inside = {"ANYRIG_CONTAINER": "1"}
    first = start("--host", "0.0.0.0", "--no-page", home=home, environment=inside)
    told = json.loads(first.said[0])
    assert told["event"] == "key"
    headers = {"Authorization": f"Bearer {told['key']}"}
    assert first.client.get("/uploads").status_code == 401
    assert first.client.get("/uploads", headers=headers).status_code == 200
    asked = _requests(first, 2)
    assert [(line["route"], line["status"]) for line in asked] == [
        ("(none)", 401), ("/uploads", 200)]  # fmt: skip
    assert told["key"] not in first.log()
    second = start("--host", "0.0.0.0", "--no-page", home=home, environment=inside)
    assert all(json.loads(line)["event"] != "key" for line in second.said)
    assert second.client.get("/uploads", headers=headers).status_code == 200


def test_the_page_asks_a_person_for_a_key(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "home of keys"
    key = add_key(home, "me")
    server = start("--require-keys", home=home)
    with httpx.Client(base_url=server.url, trust_env=False, headers={"Accept": "text/html"}) as one:
        assert one.get("/").headers["location"] == "/login?next=/"
        assert one.post("/login", data={"key": key, "next": "/"}).headers["location"] == "/"
        page = one.get("/")
        assert page.status_code == 200
        assert "unsafe-eval" in page.headers["content-security-policy"]
        script = re.search(r'["\'](/_nicegui/[^"\']+\.js)', page.text)
        assert script is not None
        assert one.get(script[1]).status_code == 200
        one.cookies.clear()
        assert one.get(script[1], headers={"Accept": "*/*"}).status_code == 401


def _raw(server: Server, head: str) -> int:
    """The status of an answer to a request that is sent as it stands."""
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), 20) as wire:
        wire.sendall(f"{head}\r\n\r\n".encode())
        return int(wire.makefile("rb").readline().split()[1])


def test_requests_by_a_proxy_need_a_key_though_it_says_nothing_of_whom_it_speaks_for(
    start: Start,
) -> None:
    server = start("--no-page")
    port = urlsplit(server.url).port
    own = f"GET /uploads HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close"
    assert _raw(server, own) == 200
    assert _raw(server, own.replace("127.0.0.1", "localhost")) == 200
    # As nginx passes requests on where only `proxy_pass` was configured.
    assert _raw(server, own.replace("HTTP/1.1", "HTTP/1.0")) == 401
    # A proxy on another port of this machine that passes the client's Host on.
    for host in ("127.0.0.1", "localhost", "localhost:8080", "127.0.0.1:443", "[::1]:1"):
        assert _raw(server, own.replace(f"127.0.0.1:{port}", host)) == 401, host
    assert _raw(server, own.replace(f"127.0.0.1:{port}", "rig.example.org")) == 421
    for header in ("X-Forwarded-Proto: https", "Via: 1.1 x", "CF-Ray: 1"):
        assert _raw(server, f"{own}\r\n{header}") == 401, header


def test_behind_a_proxy_it_does_not_start_without_a_key(tmp_path: Path) -> None:
    for setting, value in (("BEHIND_PROXY", "true"), ("HOSTS", "rig.example.org")):
        environment = environment_of(tmp_path / "home", {f"ANYRIG_SERVER_{setting}": value})
        done = subprocess.run(
            [sys.executable, "-m", "anyrig", "serve", "--port", "0", "--no-bench"],
            capture_output=True, text=True, env=environment, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert f"server.{setting.lower()}" in done.stderr
        assert "anyrig keys add" in done.stderr


def test_the_log_says_at_the_start_what_the_server_runs_on(server: Server) -> None:
    log = server.log()
    for line in (
        r"anyrig \d+\.\d+.*, Python 3\.\d+", r"device cpu, .*GiB", r"torch (\d+\.\d+|is not)",
        r"ONNX Runtime \d+\.\d+", r"speech: \w+, voice \w+", r"embeddings: \w+",
    ):  # fmt: skip
        assert re.search(rf"^INFO anyrig\.serve: {line}", log, re.MULTILINE), (line, log)


_BLOCKED = """
import sys, time
from anyrig.cli import serve; from anyrig.cli.main import main
from anyrig.server.routes import health

serve._KILL_S = 1.0
health.describe_health = lambda server: time.sleep(120)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_sigterm_ends_a_server_whose_event_loop_is_blocked(tmp_path: Path) -> None:
    script = tmp_path / "blocked.py"
    script.write_text(_BLOCKED)
    order = [sys.executable, str(script), "serve", "--port", "0", "--json", "--no-bench",
             "--no-page", "--no-jobs"]  # fmt: skip
    process = subprocess.Popen(
        order, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path,
        env=environment_of(tmp_path),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        with pytest.raises(httpx.TimeoutException):
            httpx.get(f"{url}/health", timeout=0.5, trust_env=False)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
