"""What a person may do on the page with the key that they signed in with, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from anyrig.cluster.registry import WorkerRegistry
from anyrig.server.page.api import ApiClient, ApiError
from anyrig.server.page.translations import get_translator
from tests.cluster.conftest import Broker
from tests.server.browsing import NEEDS, visiting
from tests.server.conftest import HERE, MakeApp, Start, add_key
from tests.server.long_work import send
from tests.server.test_serve_cluster_page import lost

T = get_translator("en")


def _add(client: TestClient, name: str, *scopes: str, **more: Any) -> str:
    app: Any = client.app
    text: str = app.state.server.keys.add(name, scopes=scopes, **more)[0]
    return text


def _signed_in(client: TestClient, key: str) -> None:
    answer = client.post("/login", data={"key": key}, follow_redirects=False)
    assert answer.status_code == 303, answer.text


def _app(make_app: MakeApp, *options: str, **more: Any) -> Any:
    """An app that tells what it knew of the last visit to one of its addresses."""
    app = make_app(*options, **more)

    @app.get("/visit")
    async def _visit(request: Request) -> str:
        app.state.visit = request.scope
        return "seen"

    return app


@pytest.fixture
def locked(make_app: MakeApp) -> Iterator[TestClient]:
    """An app that asks for keys."""
    app = _app(make_app, "--require-keys", "--no-jobs")
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        yield client


class Page:
    """What the page does for whoever visits with this client."""

    def __init__(self, client: TestClient, **headers: Any) -> None:
        app: Any = client.app
        answer = client.get("/visit", headers=headers)
        assert answer.status_code == 200, answer.text
        self._api, self._client = (
            ApiClient(app, app.state.server).for_visitor(app.state.visit),
            client,
        )

    def does(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
        """The status of an answer."""
        assert self._client.portal is not None
        told = () if body is None else (body,)
        try:
            self._client.portal.call(getattr(self._api, method), path, *told)
        except ApiError as refused:
            return refused.status
        return 200


def test_a_browser_with_a_key_for_the_page_fetches_all_but_what_is_for_admins(
    locked: TestClient,
) -> None:
    key = _add(locked, "a", "page")
    by_header = {"Authorization": f"Bearer {key}"}
    assert locked.post("/v1/audio/speech", json={}, headers=by_header).status_code == 403
    _signed_in(locked, key)
    assert locked.post("/v1/audio/speech", json={}).status_code == 422
    assert locked.post("/v1/embeddings", json={}).status_code == 422
    assert locked.post("/uploads", files={"files": ("a.txt", b"Tides.")}).status_code == 201
    lines = {"kind": "batch", "arguments": {"lines": ["Hello."]}}
    job = locked.post("/jobs", json=lines).json()["id"]
    assert locked.get(f"/jobs/{job}").status_code == 200
    assert locked.delete(f"/jobs/{job}").status_code == 200
    train = {"kind": "train", "arguments": {"config": f"upload:{'0' * 32}"}}
    assert locked.post("/jobs", json=train).status_code in (400, 404, 422)
    assert locked.get("/metrics").status_code == 200
    refused = locked.put("/devices/chosen", json={"device": "cpu"})
    assert refused.status_code == 403
    assert "admin" in refused.json()["title"]
    assert locked.put("/cluster/workers/w1", json={"drain": True}).status_code == 403
    assert locked.delete("/cluster/workers/w1").status_code == 403


def test_the_page_does_for_a_visitor_what_their_key_allows(locked: TestClient) -> None:
    _signed_in(locked, _add(locked, "a", "page"))
    page = Page(locked)
    assert page.does("get", "/devices") == 200
    lines = {"kind": "batch", "arguments": {"lines": ["Hello."]}}
    assert page.does("post", "/jobs", lines) == 200
    assert page.does("put", "/devices/chosen", {"device": "cpu"}) == 403
    assert page.does("put", "/cluster/workers/w1", {"drain": True}) == 403
    assert page.does("delete", "/cluster/workers/w1") == 403
    _signed_in(locked, _add(locked, "b", "admin"))
    owner = Page(locked)
    assert owner.does("put", "/devices/chosen", {"device": "cpu"}) == 200
    assert page.does("put", "/devices/chosen", {"device": "cpu"}) == 403  # still the first one's


def test_the_page_of_a_key_in_a_header_can_do_as_much(locked: TestClient) -> None:
    page = Page(locked, Authorization=f"Bearer {_add(locked, 'a', 'page')}")
    assert page.does("post", "/documents/summarise", {}) == 422
    assert page.does("put", "/devices/chosen", {"device": "cpu"}) == 403


def test_an_open_page_does_nothing_more_once_its_visitor_has_left(locked: TestClient) -> None:
    """Not even after somebody else came in with the same browser, and the page is still there."""
    key = _add(locked, "a", "admin")
    _signed_in(locked, key)
    page = Page(locked)
    assert page.does("get", "/devices") == 200
    locked.post("/logout", follow_redirects=False)
    assert page.does("get", "/devices") == 401
    _signed_in(locked, key)
    assert page.does("put", "/devices/chosen", {"device": "cpu"}) == 401
    app: Any = locked.app
    page = Page(locked)
    app.state.server.keys.remove("a")
    assert page.does("get", "/devices") == 401


def test_a_page_without_a_visitor_is_let_in_nowhere(locked: TestClient) -> None:
    app: Any = locked.app
    assert locked.portal is not None
    with pytest.raises(ApiError) as refused:
        locked.portal.call(ApiClient(app, app.state.server).get, "/devices")
    assert refused.value.status == 401


def test_what_a_visitor_does_counts_for_their_key_and_what_the_page_looks_at_does_not(
    locked: TestClient,
) -> None:
    _signed_in(locked, _add(locked, "a", "page", requests_per_minute=4))
    page = Page(locked)  # the first of the four
    assert {page.does("get", "/devices") for _ in range(20)} == {200}
    assert [page.does("post", "/documents/summarise", {}) for _ in range(4)] == [422] * 3 + [429]
    assert page.does("get", "/devices") == 200
    assert locked.get("/uploads").status_code == 429  # it is one rate, whoever asks


def test_without_keys_the_page_does_everything(make_app: MakeApp) -> None:
    """Whatever a browser has kept from other servers, or a program says."""
    with TestClient(_app(make_app), base_url=HERE) as client:
        old: dict[str, Any] = {"Cookie": "anyrig_session=old; é=è".encode("latin-1")}
        for headers in ({}, old, {"Authorization": "Bearer x"}):
            page = Page(client, **headers)
            assert page.does("put", "/devices/chosen", {"device": "cpu"}) == 200


def test_a_visitor_by_a_proxy_has_their_key_though_others_need_none(make_app: MakeApp) -> None:
    app = _app(make_app)
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        key = _add(client, "a", "page")
        page = Page(client, **{"X-Forwarded-For": "1.2.3.4"}, Authorization=f"Bearer {key}")
        assert page.does("get", "/devices") == 200
        assert page.does("put", "/devices/chosen", {"device": "cpu"}) == 403
        assert Page(client).does("put", "/devices/chosen", {"device": "cpu"}) == 200


class TestInABrowser:
    """A person with a key for the page alone."""

    pytestmark = NEEDS

    def test_a_key_for_the_page_is_enough_to_use_it(
        self, driver: webdriver.Chrome, start: Start, tmp_path: Path
    ) -> None:
        home = tmp_path / "home of keys"
        key, owner = add_key(home, "ada", "--scopes", "page"), add_key(home, "owner")
        server = start("--require-keys", home=home)
        browser = next(visiting(driver, server.url))
        asked = httpx.Client(
            base_url=server.url, trust_env=False, headers={"Authorization": f"Bearer {owner}"}
        )
        driver.get(f"{server.url}/speak")
        browser.find("#key").send_keys(key + Keys.ENTER)
        browser.click("#speak")
        done = "return document.querySelector('.player').dataset.state === 'done'"
        browser.until(lambda: browser.script(done))

        (tmp_path / "tide.txt").write_text("The tide came in at noon.")
        browser.open("/documents")
        send(browser, tmp_path / "tide.txt")
        browser.until(lambda: [one["name"] for one in asked.get("/uploads").json()["files"]])
        browser.says("tide.txt", ".file-list")

        lines = {"kind": "batch", "arguments": {"lines": ["Hello."], "engine": "tone"}}
        # From the page: jobs of other keys are not shown to this one.
        job = browser.script(
            "return fetch('/jobs', {method: 'POST', headers: {'Content-Type': 'application/json'},"
            " body: JSON.stringify(arguments[0])}).then(told => told.json()).then(job => job.id)",
            lines,
        )
        browser.open("/jobs")
        browser.find(f"[data-job='{job}'][data-state=done]")
        browser.click(f"[data-job='{job}'] summary")
        browser.find(f"[data-job='{job}'] [role=log]", "Done")

        before = asked.get("/devices").json()["selector"]
        for language in ("en", "es", "fr"):
            browser.open("/rig")
            browser.speak(language)
            t = get_translator(language)
            browser.find("select[name=device]").send_keys(t("rig.use.all"))
            browser.toast(t("login.admin"))
            browser.toast(t("login.admin.do"))
            browser.until(
                lambda: browser.find("select[name=device]").get_attribute("value") == before
            )
        assert asked.get("/devices").json()["selector"] == before
        asked.close()

    def test_the_workers_of_a_cluster_are_not_theirs(
        self, driver: webdriver.Chrome, broker: Broker, start: Start, tmp_path: Path
    ) -> None:
        lost(broker, "ghost")
        home = tmp_path / "home of keys"
        key = add_key(home, "ada", "--scopes", "page")
        server = start("--require-keys", "--cluster", broker.url, home=home)
        browser = next(visiting(driver, server.url))
        driver.get(f"{server.url}/cluster")
        browser.find("#key").send_keys(key + Keys.ENTER)
        browser.click("[data-worker='ghost'] [data-do=forget]")
        browser.click("[data-ask=yes]")
        browser.toast(T("login.admin"))
        link = broker.client
        assert "ghost" in WorkerRegistry(link).list_names()
        link.close()
