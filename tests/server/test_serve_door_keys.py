"""Who may come in with a key: scopes, rates, people who sign in; on the app itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from anyrig.errors import InvalidSettingError
from anyrig.server.auth import find_scopes, local_path, require_scope
from anyrig.server.page.main import PAGES
from anyrig.server.state import ServerState
from tests.server.conftest import HERE, MakeApp, Start, add_key


@pytest.fixture
def locked(make_app: MakeApp) -> Iterator[TestClient]:
    """An app that asks for keys."""
    app = make_app(
        "--require-keys", "--no-jobs", environment={"ANYRIG_SERVER_REQUESTS_PER_MINUTE": "20"}
    )

    @app.get("/jobs/inner/kind")
    async def _inner(request: Request) -> str:
        require_scope(request, "train")
        return "done"

    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        yield client


def _add(client: TestClient, name: str, *scopes: str, **more: Any) -> dict[str, str]:
    app: Any = client.app
    text, _ = app.state.server.keys.add(name, scopes=scopes or ("admin",), **more)
    return {"Authorization": f"Bearer {text}"}


def test_without_a_key_nothing_is_told_but_that_it_lives(locked: TestClient) -> None:
    assert locked.get("/health/live").status_code == 200
    for method, path in (
        ("GET", "/uploads"), ("POST", "/v1/audio/speech"), ("POST", "/health"), ("GET", "/metrics"),
        ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/nothing"), ("DELETE", "/jobs/1"),
        ("GET", "/health/live/"), ("GET", "//health/live"), ("OPTIONS", "/uploads"),
    ):  # fmt: skip
        answer = locked.request(method, path, follow_redirects=False)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "anyrig keys add" in answer.json()["hint"]
    called = locked.websocket_connect("/stream?text=Hello", headers={"host": "127.0.0.1:3000"})
    with pytest.raises(WebSocketDenialResponse) as refused, called:
        pass
    assert refused.value.status_code == 401


def test_readiness_needs_no_key_and_details_do(locked: TestClient) -> None:
    assert locked.get("/health").json() == {"ready": True, "state": "ready"}
    assert locked.get("/health", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert "workers" in locked.get("/health", headers=_add(locked, "a", "speech")).json()


def test_a_key_comes_in_two_headers(locked: TestClient) -> None:
    headers = _add(locked, "a")
    text = headers["Authorization"].removeprefix("Bearer ")
    assert locked.get("/uploads", headers=headers).status_code == 200
    assert locked.get("/uploads", headers={"Authorization": f"bearer {text}"}).status_code == 200
    assert locked.get("/uploads", headers={"X-API-Key": text}).status_code == 200
    for wrong in ({"Authorization": text}, {"Authorization": f"Basic {text}"},
                  {"X-API-Key": text[:-1]}, {"Cookie": f"anyrig_session={text}"}):  # fmt: skip
        assert locked.get("/uploads", headers=wrong).status_code == 401
    assert locked.get(f"/uploads?key={text}&api_key={text}").status_code == 401


def test_scopes(locked: TestClient, subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[str, ...], str, str, int]] = [
        (("speech",), "GET", "/v1/models", 200),
        (("speech",), "GET", "/uploads", 200),
        (("embeddings",), "GET", "/uploads", 403),
        (("embeddings",), "POST", "/v1/audio/speech", 403),
        (("speech",), "POST", "/v1/embeddings", 403),
        (("embeddings",), "POST", "/v1/embeddings", 422),
        (("read",), "GET", "/jobs", 200),
        (("read",), "POST", "/jobs", 403),
        (("read",), "DELETE", "/jobs/x", 403),
        (("read",), "GET", "/metrics", 200),
        (("speech",), "GET", "/metrics", 403),
        (("read",), "PUT", "/devices/chosen", 403),
        (("speech", "jobs", "page"), "PUT", "/devices/chosen", 403),
        (("speech", "jobs"), "GET", "/", 403),
        (("page",), "POST", "/v1/audio/speech", 403),
    ]
    for number, (scopes, method, path, status) in enumerate(cases):
        with subtests.test(scopes=scopes, method=method, path=path):
            headers = _add(locked, f"key {number}", *scopes)
            answer = locked.request(method, path, headers=headers, json={})
            assert answer.status_code == status, answer.text
            if status == 403:
                assert "--scopes" in answer.json()["hint"]


def test_a_person_with_a_key_for_jobs_does_not_get_the_page_of_jobs(locked: TestClient) -> None:
    headers = _add(locked, "a", "jobs", "read")
    assert locked.get("/jobs", headers=headers).status_code == 200
    headers["Accept"] = "text/html,application/xhtml+xml"
    assert locked.get("/jobs", headers=headers).status_code == 403


def test_a_route_can_ask_for_more(locked: TestClient) -> None:
    inner = "/jobs/inner/kind"
    assert locked.get(inner, headers=_add(locked, "a", "jobs")).status_code == 403
    assert locked.get(inner, headers=_add(locked, "b", "train")).status_code == 200


def test_training_and_other_jobs_are_two_scopes(locked: TestClient) -> None:
    train = {"kind": "train", "arguments": {"config": f"upload:{'0' * 32}"}}
    lines = {"kind": "batch", "arguments": {"lines": ["Hello."]}}
    trainer, reader = _add(locked, "a", "train"), _add(locked, "b", "jobs")
    assert locked.post("/jobs", json=lines, headers=trainer).status_code == 403
    assert locked.post("/jobs", json=train, headers=reader).status_code == 403
    assert locked.post("/jobs", json=train, headers=trainer).status_code in (400, 404, 422)
    assert locked.post("/jobs", json=lines, headers=reader).status_code == 201


def test_what_is_not_named_is_the_pages() -> None:
    assert find_scopes("GET", "/anything/else", wants_html=False) == ("page",)
    assert find_scopes("POST", "/jobsx", wants_html=False) == ("page",)
    assert find_scopes("", "/stream", wants_html=False) == ("speech",)
    assert find_scopes("", "/_nicegui_ws/socket.io/", wants_html=False) == ("page",)
    assert find_scopes("PUT", "/devices/chosen", wants_html=False) == ("admin",)
    assert find_scopes("TRACE", "/metrics", wants_html=False) == ("page",)


def test_a_person_who_asks_for_a_page_gets_one_and_nothing_else_is_the_pages() -> None:
    for page in PAGES:
        for method in ("GET", "HEAD"):
            assert find_scopes(method, page.path, wants_html=True) == ("page",)
    for method, path in (
        ("POST", "/jobs"), ("POST", "/documents/analyse"), ("GET", "/jobs/1/files/1"),
        ("GET", "/metrics"), ("GET", "/health"), ("PUT", "/cluster/workers/a"), ("GET", "/nothing"),
    ):  # fmt: skip
        assert find_scopes(method, path, wants_html=True) == find_scopes(
            method, path, wants_html=False
        )


def test_html_that_is_no_page_needs_no_key_for_the_page(locked: TestClient) -> None:
    html = {"Accept": "text/html"}
    documents, jobs = _add(locked, "a", "documents"), _add(locked, "b", "jobs", "read")
    report = locked.post("/documents/analyse", json={}, headers={**html, **documents})
    assert report.status_code == 422, report.text  # let in, and asked what to look at
    assert locked.get("/jobs/none/files/1", headers={**html, **jobs}).status_code == 404
    assert locked.get("/metrics", headers={**html, **jobs}).status_code == 200
    assert locked.get("/jobs/none/files/1", headers={**html, **documents}).status_code == 403


def test_every_route_of_the_app_has_a_scope_of_its_own(shared_client: TestClient) -> None:
    """None falls to the page by mistake: that would shut out keys that were made for it."""
    found = shared_client.get("/openapi.json").json()["paths"]
    fallen = [
        f"{method.upper()} {path}"
        for path, methods in found.items()
        for method in methods
        if path not in ("/health/live",)
        and find_scopes(method.upper(), path, wants_html=False) == ("page",)
    ]
    assert fallen == []


def test_removed_and_expired_keys_are_refused_at_once(locked: TestClient) -> None:
    app: Any = locked.app
    headers = _add(locked, "a")
    assert locked.get("/uploads", headers=headers).status_code == 200
    app.state.server.keys.remove("a")
    assert locked.get("/uploads", headers=headers).status_code == 401
    assert locked.get("/uploads", headers=_add(locked, "b", expires_at=1.0)).status_code == 401


def test_each_key_has_a_rate(locked: TestClient) -> None:
    slow, usual = _add(locked, "a", requests_per_minute=3), _add(locked, "b")
    answers = [locked.get("/uploads", headers=slow) for _ in range(4)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
    assert answers[-1].json()["error"]["type"] == "rate_limit_error"
    answers = [locked.get("/uploads", headers=usual) for _ in range(21)]
    assert [one.status_code for one in answers] == [200] * 20 + [429]


def test_guessing_is_slowed_down_and_right_keys_are_not(locked: TestClient) -> None:
    app: Any = locked.app
    app.middleware_stack._rates._clock = lambda: 0.0  # nothing is refilled, however slow this is
    wrong = {"X-API-Key": "anyrig_" + "0" * 12 + "_" + "A" * 43}
    statuses = [locked.get("/uploads", headers=wrong).status_code for _ in range(32)]
    assert statuses[:30] == [401] * 30
    assert statuses[30:] == [429] * 2
    answer = locked.get("/uploads")
    assert answer.status_code == 429, "without a key it goes on as with a wrong one"
    assert int(answer.headers["retry-after"]) > 0
    cookie = {"Cookie": "anyrig_session=guess; anyrig_session_3000=guess"}
    assert locked.get("/uploads", headers=cookie).status_code == 429
    visit = locked.get("/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert visit.headers["location"].startswith("/login"), "a person is asked for a key"
    assert locked.get("/uploads", headers=_add(locked, "a")).status_code == 200


def test_a_broken_file_of_keys_lets_nobody_in(locked: TestClient) -> None:
    app: Any = locked.app
    headers = _add(locked, "a")
    app.state.server.keys._path.write_text("{")
    answer = locked.get("/uploads", headers=headers)
    assert answer.status_code == 503
    assert "retry-after" in answer.headers


def test_the_pages_own_client_comes_under_any_name_but_not_without_a_key(
    locked: TestClient,
) -> None:
    app: Any = locked.app
    token = app.state.server.page_token
    key = {**_add(locked, "a", "page"), "Host": "elsewhere.example"}
    assert locked.get("/uploads", headers={**key, "X-Anyrig-Internal": token}).status_code == 200
    assert locked.get("/uploads", headers={"X-Anyrig-Internal": token}).status_code == 401
    for wrong in ("", token[:-1], token.lower(), "None"):
        assert (
            locked.get("/uploads", headers={**key, "X-Anyrig-Internal": wrong}).status_code == 421
        )


def test_behind_a_proxy_a_key_is_needed_though_it_listens_here_alone(make_app: MakeApp) -> None:
    """Also by its own name: a proxy that is not told to pass the name on calls it by that."""
    for setting, value in (("HOSTS", "rig.example"), ("BEHIND_PROXY", "true")):
        app = make_app(environment={f"ANYRIG_SERVER_{setting}": value})
        with TestClient(app, base_url=HERE) as client:
            assert client.get("/uploads").status_code == 401
            assert client.get("/uploads", headers=_add(client, setting)).status_code == 200
            if setting == "HOSTS":
                assert client.get("/uploads", headers={"Host": "rig.example"}).status_code == 401
                headers = {**_add(client, "a"), "Host": "rig.example"}
                assert client.get("/uploads", headers=headers).status_code == 200
    with TestClient(
        make_app("--insecure", environment={"ANYRIG_SERVER_BEHIND_PROXY": "true"}), base_url=HERE
    ) as client:
        assert client.get("/uploads").status_code == 200


def test_an_address_is_not_changed_by_a_header(start: Start, tmp_path: Path) -> None:
    """Wrong keys are counted by the peer, unless a proxy that may tell another address sends it."""
    home = tmp_path / "home"
    add_key(home, "me")
    for trusted, limited in (("", True), ("127.0.0.1", False)):
        server = start(
            "--require-keys", "--no-page", "--no-jobs", home=home,
            environment={"ANYRIG_SERVER_TRUSTED_PROXIES": trusted},
        )  # fmt: skip
        wrong = {"X-API-Key": "anyrig_" + "0" * 12 + "_" + "A" * 43}
        statuses = [
            server.client.get(
                "/uploads", headers={**wrong, "X-Forwarded-For": f"203.0.113.{number}"}
            ).status_code
            for number in range(100)
        ]
        assert set(statuses) == ({401, 429} if limited else {401})


def test_a_trusted_proxy_is_an_address(make_app: MakeApp) -> None:
    for word in ("*", "proxy.example", "10.0.0.1/8", "127.0.0.1, x"):
        with pytest.raises(InvalidSettingError, match="trusted_proxies"):
            make_app(environment={"ANYRIG_SERVER_TRUSTED_PROXIES": word})


# -- people ----------------------------------------------------------------------------------------


def test_guesses_do_not_keep_a_right_key_from_signing_in(locked: TestClient) -> None:
    app: Any = locked.app
    app.middleware_stack._rates._clock = lambda: 0.0  # nothing is refilled, however slow this is
    guess = {"key": "anyrig_" + "0" * 12 + "_" + "A" * 43}
    answers = [locked.post("/login", data=guess) for _ in range(32)]
    assert [one.status_code for one in answers] == [401] * 30 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) > 0
    text = _add(locked, "a", "page")["Authorization"].removeprefix("Bearer ")
    assert locked.post("/login", data={"key": text}, follow_redirects=False).status_code == 303


def test_a_person_signs_in_and_out(locked: TestClient) -> None:
    html = {"Accept": "text/html"}
    sent = locked.get("/speak", headers=html, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=/speak")
    page = locked.get("/login?next=/speak", headers={**html, "Accept-Language": "fr"})
    assert "lang=fr" in page.text
    assert "value='/speak'" in page.text
    text = _add(locked, "a", "page", "speech")["Authorization"].removeprefix("Bearer ")
    form = {"key": text, "next": "/speak"}
    wrong = locked.post("/login", data={**form, "key": text[:-1]}, follow_redirects=False)
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    done = locked.post("/login", data=form, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/speak")
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert text not in cookie
    assert locked.get("/uploads").status_code == 200  # the client carries the cookie
    assert locked.get("/metrics").status_code == 200  # as the page may
    assert locked.put("/devices/chosen", json={"device": "cpu"}).status_code == 403
    assert (
        locked.delete(f"/uploads/{'0' * 32}", headers={"Origin": "https://e.example"}).status_code
        == 403
    )
    old = dict(locked.cookies)
    assert locked.post("/logout", follow_redirects=False).status_code == 303
    assert not locked.cookies
    locked.cookies.update(old)
    assert locked.get("/uploads").status_code == 401


def test_a_session_ends_with_its_key(locked: TestClient) -> None:
    app: Any = locked.app
    text = _add(locked, "a")["Authorization"].removeprefix("Bearer ")
    locked.post("/login", data={"key": text}, follow_redirects=False)
    assert locked.get("/uploads").status_code == 200
    app.state.server.keys.remove("a")
    assert locked.get("/uploads").status_code == 401


def test_a_key_without_the_page_cannot_sign_in(locked: TestClient) -> None:
    text = _add(locked, "a", "speech")["Authorization"].removeprefix("Bearer ")
    answer = locked.post("/login", data={"key": text}, follow_redirects=False)
    assert answer.status_code == 401
    assert not locked.cookies


def test_signing_in_leads_nowhere_else(locked: TestClient, subtests: pytest.Subtests) -> None:
    for path, local in (
        ("/speak", "/speak"), ("//evil.example", "/"), ("/\\evil.example", "/"),
        ("https://evil.example", "/"), ("javascript:alert(1)", "/"), ("", "/"),
        ("/login?next=/login", "/"), ("/x\r\nSet-Cookie: a=b", "/"),
        ("/'><script>", "/%27%3E%3Cscript%3E"),
    ):  # fmt: skip
        with subtests.test(path=path):
            assert local_path(path) == local
            page = locked.get("/login", params={"next": path}).text
            assert "name=next" in page
            assert "<script" not in page


# -- ways around the guard that a review found: each was open once --------------------------------


def test_a_login_of_many_fields_is_a_wrong_key(locked: TestClient) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert locked.post("/login", content="a=1&" * 50, headers=kind).status_code == 401


def test_a_body_that_is_kept_in_memory_is_not_larger_for_being_called_a_form(
    make_app: MakeApp,
) -> None:
    app = make_app(environment={"ANYRIG_SERVER_BODY_MB": "0.1"})
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        form = {"Content-Type": "multipart/form-data; boundary=x"}
        for path in ("/jobs", "/v1/audio/speech", "/documents/embed", "/books/plan", "/login",
                     "/_nicegui/client/1/upload/2"):  # fmt: skip
            assert client.post(path, content=b" " * 200_000, headers=form).status_code == 413, path
        sent = client.post("/uploads", files={"files": ("a.txt", b"a" * 200_000)})
        assert sent.status_code == 201


def test_what_a_proxy_passes_on_needs_a_key(app_client: TestClient) -> None:
    assert app_client.get("/uploads").status_code == 200
    for header in (
        "X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host", "Via", "X-Forwarded-Proto",
        "X-Client-IP", "CF-Connecting-IP", "X-Envoy-External-Address", "X-Amzn-Trace-Id",
    ):  # fmt: skip
        answer = app_client.get("/uploads", headers={header: "1.2.3.4"})
        assert answer.status_code == 401, header


def test_a_person_behind_a_proxy_is_asked_for_a_key(make_app: MakeApp) -> None:
    app = make_app(environment={"ANYRIG_SERVER_HOSTS": "rig.example"})
    with TestClient(app, base_url="http://rig.example", follow_redirects=False) as client:
        sent_on = client.get("/", headers={"Accept": "text/html"})
        assert (sent_on.status_code, sent_on.headers["location"]) == (303, "/login?next=/")
        assert "<form" in client.get("/login?next=/").text
    with TestClient(make_app(), base_url=HERE, follow_redirects=False) as client:
        assert client.get("/login").headers["location"] == "/"


def test_a_key_for_training_changes_no_other_jobs(locked: TestClient) -> None:
    trainer, admin = _add(locked, "a", "train"), _add(locked, "b")
    state: ServerState = locked.app.state.server  # type: ignore[attr-defined]
    key = next(one.id for one in state.keys.list_keys() if one.name == "a")
    path = f"/jobs/{state.jobs.submit('batch', {'lines': ['Hello.']}, client=key).id}"
    for word in ("pause", "resume", "cancel"):
        assert locked.post(f"{path}/{word}", headers=trainer).status_code == 403
    assert locked.delete(path, headers=trainer).status_code == 403
    assert locked.get(path, headers=trainer).json()["state"] == "queued"
    assert locked.delete(path, headers=admin).status_code == 200


@pytest.mark.parametrize("how", ["key", "session"])
def test_a_socket_ends_with_the_key_or_session_that_opened_it(locked: TestClient, how: str) -> None:
    headers = _add(locked, "a")
    state: ServerState = locked.app.state.server  # type: ignore[attr-defined]
    if how == "session":
        key = headers.pop("Authorization").removeprefix("Bearer ")
        signed_in = locked.post("/login", data={"key": key}, follow_redirects=False)
        headers["Cookie"] = signed_in.headers["set-cookie"].partition(";")[0]
    with locked.websocket_connect("/stream", headers={"host": "127.0.0.1:3000", **headers}) as one:
        if how == "session":
            locked.post("/logout", follow_redirects=False)
        else:
            state.keys.remove("a")
        one.send_json({"text": "Hello."})
        with pytest.raises(WebSocketDisconnect) as gone:
            one.receive_text()
    assert gone.value.code == 1008
