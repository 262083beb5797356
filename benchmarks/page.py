"""The web page in a real Chromium: how long pages and the first sound take, and what is sent.

A page is there when its heading is drawn and its buttons work. The server and its voice are warm;
the first load has an empty browser cache, the later ones have what it left.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, median_and_range
from tests.server.browsing import Browser, chromium
from tests.server.conftest import running

ROUNDS = 5
PAGES = ("Speak", "Books", "Documents", "Jobs", "Rig")
MAX_FIRST_KB, MAX_LATER_KB = 450, 20
MAX_TASK_MS = 50
CHARACTERS = 2700
_TEXT = "The old harbour lay under a grey sky, and the fishermen mended their nets by the wall. "
# The time at which a page is there is stored with that of the click before it: a change of page may
# be a new document or not.
_WATCH = """
(() => {
  const now = () => performance.timeOrigin + performance.now();
  const look = () => {
    const wanted = sessionStorage.getItem("wanted");
    const heading = document.querySelector("h1");
    const isOpening = document.documentElement.hasAttribute("data-opening");
    if (wanted && heading?.textContent === wanted && window.did_handshake && !isOpening) {
      sessionStorage.removeItem("wanted");
      sessionStorage.setItem("shown", now());
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  window.tasks = [];
  const add = (list) => window.tasks.push(...list.getEntries().map((one) => one.duration));
  new PerformanceObserver(add).observe({ type: "longtask" });
})();
"""
_START = """
sessionStorage.setItem("wanted", arguments[0]);
sessionStorage.removeItem("shown");
sessionStorage.setItem("clicked", performance.timeOrigin + performance.now());
"""
_LOAD = _START + "location.assign('/speak')"
_FOLLOW = (
    _START
    + """
const links = [...document.querySelectorAll("#pages a")];
links.find((one) => one.textContent === arguments[0]).click();
"""
)
_TOOK = """
const [from, to] = ["clicked", "shown"].map((name) => Number(sessionStorage.getItem(name)));
return to ? to - from : null;
"""
_PLAYER = "return {...document.querySelector('.player').dataset}"


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder, "server")) as server:
        server.client.post("/v1/audio/speech", json={"input": "Hello."}).raise_for_status()
        rounds = [_measure(server.url, Path(folder, str(number))) for number in range(ROUNDS + 1)]
    found = rounds[1:]  # the first one warms the server's own caches

    def row(what: str, key: str, unit: str, high: float | None = None) -> Row:
        value, spread = median_and_range([one[key] for one in found])
        return Row(what, value, unit, high=high, spread=spread)

    return [
        row("first load of the Speak page", "first_ms", "ms"),
        row("bytes of the first load", "first_kb", "kB", MAX_FIRST_KB),
        row("later load of the Speak page", "later_ms", "ms"),
        row("bytes of a later load", "later_kb", "kB", MAX_LATER_KB),
        row(f"change of page, median of {len(PAGES)}", "change_ms", "ms"),
        row("bytes of a change of page, the most", "change_kb", "kB", MAX_LATER_KB),
        row("first audio of a sentence", "audio_ms", "ms"),
        row(f"first audio of {CHARACTERS} characters", "long_audio_ms", "ms"),
        row(f"longest task while {CHARACTERS} characters are spoken", "task_ms", "ms", MAX_TASK_MS),
    ]


def _measure(url: str, folder: Path) -> dict[str, float]:
    """One visit with a browser of its own."""
    for name in ("profile", "downloads"):
        (folder / name).mkdir(parents=True)
    driver = chromium(folder / "profile", folder / "downloads", logs=("performance",))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        return _visit(Browser(driver, url))
    finally:
        driver.quit()


def _visit(browser: Browser) -> dict[str, float]:
    browser.size(1440)
    first_ms, first_kb = _load(browser)
    later_ms, later_kb = _load(browser)
    for page in PAGES:  # what only some pages need is fetched once
        _follow(browser, page)
    changes = [_follow(browser, page) for page in PAGES]
    _follow(browser, "Speak")
    audio_ms = _speak(browser, "Good morning to everybody who listens.")["first_ms"]
    long = _speak(browser, (_TEXT * CHARACTERS)[:CHARACTERS])
    return {
        "first_ms": first_ms, "first_kb": first_kb, "later_ms": later_ms, "later_kb": later_kb,
        "change_ms": median_and_range([ms for ms, _ in changes])[0],
        "change_kb": max(kb for _, kb in changes),
        "audio_ms": audio_ms, "long_audio_ms": long["first_ms"], "task_ms": long["task_ms"],
    }  # fmt: skip


def _load(browser: Browser) -> tuple[float, float]:
    """Milliseconds and kilobytes until the Speak page is there, opened from another address."""
    browser.driver.get(f"{browser.url}/health/live")  # of the same origin, for sessionStorage
    _count_bytes(browser)
    browser.script(_LOAD, "Speak")
    return _wait(browser)


def _follow(browser: Browser, page: str) -> tuple[float, float]:
    _count_bytes(browser)
    browser.script(_FOLLOW, page)
    return _wait(browser)


def _wait(browser: Browser) -> tuple[float, float]:
    took = browser.until(lambda: browser.script(_TOOK))
    time.sleep(0.5)  # what else it fetches
    return float(took), _count_bytes(browser) / 1000


def _count_bytes(browser: Browser) -> int:
    """Bytes that were received since the last call, also by the socket."""
    total = 0
    for entry in browser.driver.get_log("performance"):  # type: ignore[no-untyped-call]
        event: dict[str, Any] = json.loads(entry["message"])["message"]
        if event["method"] == "Network.loadingFinished":
            total += int(event["params"]["encodedDataLength"])
        elif event["method"] == "Network.webSocketFrameReceived":
            total += len(event["params"]["response"]["payloadData"])
    return total


def _speak(browser: Browser, text: str) -> dict[str, float]:
    browser.write("[name=text]", text)
    browser.until(lambda: browser.find("[name=text]").get_attribute("value") == text)
    browser.script("window.tasks.length = 0")
    samples = browser.script(_PLAYER).get("samples")
    browser.click("#speak")
    browser.until(lambda: browser.script(_PLAYER).get("samples") != samples)
    browser.until(lambda: browser.script(_PLAYER)["state"] == "done")
    task_ms = browser.script("return Math.max(0, ...window.tasks)")
    return {"first_ms": float(browser.script(_PLAYER)["firstMs"]), "task_ms": float(task_ms)}
