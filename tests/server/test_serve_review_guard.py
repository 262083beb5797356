"""Ways around the guard that a review found: each was open once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from anyrig.server.state import ServerState
from tests.server.conftest import MakeApp

HERE = "http://127.0.0.1:3000"


@pytest.fixture
def locked(make_app: MakeApp) -> Iterator[TestClient]:
    app = make_app("--require-keys", "--no-jobs")
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        yield client


def _add(client: TestClient, name: str, *scopes: str) -> dict[str, str]:
    state: ServerState = client.app.state.server  # type: ignore[attr-defined]
    text, _ = state.keys.add(name, scopes=scopes or ("admin",))
    return {"Authorization": f"Bearer {text}"}


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


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host", "Via", "X-Forwarded-Proto",
     "X-Client-IP", "CF-Connecting-IP", "X-Envoy-External-Address", "X-Amzn-Trace-Id"],
)  # fmt: skip
def test_what_a_proxy_passes_on_needs_a_key(app_client: TestClient, header: str) -> None:
    assert app_client.get("/uploads").status_code == 200
    assert app_client.get("/uploads", headers={header: "1.2.3.4"}).status_code == 401


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
