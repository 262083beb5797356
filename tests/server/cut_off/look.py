"""Opens every page of a server in a browser, and prints what the browser fetched as JSON.

python -m tests.server.cut_off.look FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver

from anyrig.server.page.main import PAGES
from tests.server.browsing import Browser, chromium
from tests.server.cut_off.walk import reachable, watched

ELSEWHERE = "http://192.0.2.1/picture.png"
_SPEAKS = "return document.querySelector('.player').dataset.state"


def asked_for(driver: webdriver.Chrome) -> list[str]:
    """Addresses that pages have asked for since this was last looked at, sockets too."""
    found = []
    for entry in driver.get_log("performance"):  # type: ignore[no-untyped-call]
        told = json.loads(entry["message"])["message"]
        if told["method"] == "Network.requestWillBeSent":
            found.append(str(told["params"]["request"]["url"]))
        elif told["method"] == "Network.webSocketCreated":
            found.append(str(told["params"]["url"]))
    return found


def outside(addresses: list[str], url: str) -> list[str]:
    """Those that are another machine's: not the server's own, nor within the browser."""
    home = urlsplit(url).netloc
    return [one for one in addresses if urlsplit(one).scheme in ("http", "https", "ws", "wss")
            and urlsplit(one).netloc != home]  # fmt: skip


def look(browser: Browser) -> dict[str, Any]:
    """What came of each page, and what was asked for meanwhile."""
    titles = {}
    for page in PAGES:
        browser.open(page.path)
        titles[page.path] = browser.find("h1").text
    browser.open("/speak")
    browser.click("#speak")
    browser.until(lambda: browser.script(_SPEAKS) == "done")
    browser.driver.get(f"{browser.url}/docs")
    seen = asked_for(browser.driver)
    complaints = browser.complaints()
    # The list would name somebody else: a page that is not ours asks for a picture of theirs.
    browser.driver.get(f"data:text/html,<img src='{ELSEWHERE}'>")
    would = outside(asked_for(browser.driver), browser.url)
    return {"titles": titles, "asked": len(seen), "outside": outside(seen, browser.url),
            "complaints": complaints, "would be seen": would}  # fmt: skip


def main() -> None:
    home, out = Path(sys.argv[1]), reachable()
    with watched(home) as server:
        for name in ("profile", "downloads"):
            (home / name).mkdir()
        driver = chromium(home / "profile", home / "downloads", logs=("performance",))
        try:
            browser = Browser(driver, server.url)
            browser.size(1440)
            found = look(browser)
        finally:
            driver.quit()
    print(json.dumps({**found, "a way out": out}))


if __name__ == "__main__":
    main()
