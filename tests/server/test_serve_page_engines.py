"""Engines installed from the page: a real pip fetches wheels from an index of this machine."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from anyrig.speech.engines.xtts import Xtts
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server, Start
from tests.server.long_work import told
from tests.speech.standin import wheel

pytestmark = [*NEEDS, pytest.mark.slow]
WEIGHTS = ("config.json", "model.pth", "vocab.json")


class WheelServer(http.server.ThreadingHTTPServer):
    """A folder of wheels; they are sent once `released` is set."""

    def __init__(self, folder: Path) -> None:
        self.released = threading.Event()
        super().__init__(("127.0.0.1", 0), partial(_WheelHandler, directory=str(folder)))


class _WheelHandler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, WheelServer)
        if self.path.endswith(".whl"):
            self.server.released.wait(60)
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def wheels(tmp_path: Path) -> Iterator[WheelServer]:
    """Empty packages under the names and versions that xtts pins."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for requirement in Xtts.environment.requirements:
        name, _, version = requirement.partition("==")
        wheel(folder, name.replace("-", "_"), version, "", "")
    with WheelServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.released.set()
        server.shutdown()


@pytest.fixture
def server(start: Start, wheels: WheelServer) -> Server:
    index = f"http://127.0.0.1:{wheels.server_port}/"
    return start(environment={
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": index, "PIP_CONFIG_FILE": "/dev/null",
        "NO_PROXY": "127.0.0.1", "HF_ENDPOINT": "http://127.0.0.1:1",  # nobody answers there
    })  # fmt: skip


def _show(server: Server) -> Any:
    return next(one for one in told(server, "/engines")["engines"] if one["name"] == "xtts")


def _install(browser: Browser, server: Server) -> None:
    browser.url = server.url
    browser.open("/speak")
    browser.click("#more-voices summary")
    browser.click("[data-engine=xtts] [data-do=install]")
    browser.says("CPML (non-commercial)", ".ask[open]")
    browser.click(".ask[open] [data-ask=yes]")


def test_an_engine_is_installed_from_the_page_and_offered(
    browser: Browser, server: Server, wheels: WheelServer
) -> None:
    weights = server.home / ".cache" / "anyrig" / "models" / "xtts"
    (weights / "voices").mkdir(parents=True)
    for name in (*WEIGHTS, "voices/narrator.wav"):
        (weights / name).write_bytes(b"{}")
    assert not _show(server)["ready"]
    assert server.client.post("/engines/xtts/install", json={}).status_code == 202
    browser.until(lambda: _show(server)["installation"]["state"] == "failed")
    assert "its licence was not accepted" in _show(server)["installation"]["message"]

    _install(browser, server)
    browser.says("Collecting coqui-tts==0.28.0", "[data-engine=xtts] .meter")  # pip's own words
    assert not browser.find("[data-engine=xtts] [data-do=install]").is_enabled()
    assert _show(server)["installation"]["state"] == "running"
    assert not _show(server)["ready"]
    wheels.released.set()
    browser.find("[data-engine=xtts] .note", "xtts is installed")
    shown = _show(server)
    assert (shown["ready"], shown["problem"], shown["can_install"]) == (True, None, False)
    assert shown["installation"]["state"] == "done"

    browser.driver.refresh()
    browser.until(lambda: browser.all("[name=voice] option[value='xtts/narrator']"))
    browser.click("#more-voices summary")
    browser.find("[data-engine]")
    assert not browser.all("[data-engine=xtts]")


def test_what_an_installed_engine_still_lacks_is_said(
    browser: Browser, server: Server, wheels: WheelServer
) -> None:
    """Its packages are there; its weights could not be downloaded."""
    wheels.released.set()
    _install(browser, server)
    trouble = browser.find("[data-engine=xtts] .trouble").text
    assert "files of coqui/XTTS-v2 could not be downloaded" in trouble
    assert str(Path("models", "xtts")) in trouble
    shown = _show(server)
    assert (shown["ready"], shown["can_install"]) == (False, True)
    assert shown["command"] == "anyrig engines get xtts"
    browser.open("/speak")
    browser.click("#more-voices summary")
    assert browser.find("[data-engine=xtts] [data-do=install]").is_enabled()  # to try again
