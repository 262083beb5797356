"""A real Chromium in front of a real server, for tests that do what a person does.

from tests.server.browsing import browser, driver, NEEDS  # noqa: F401
pytestmark = NEEDS
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

if TYPE_CHECKING:
    from tests.server.conftest import Server

CHROMIUM, CHROMEDRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
NEEDS = [
    pytest.mark.system("chromium", CHROMIUM),
    pytest.mark.system("chromium-driver", CHROMEDRIVER),
]
AXE = "4.14.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anyrig-tests"
"""Of the developer, read before a test gets a home of its own: what is fetched is kept there."""
_PATIENCE_S = 60.0
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
          "--autoplay-policy=no-user-gesture-required", "--hide-scrollbars", "--lang=en-GB",
          "--force-device-scale-factor=1",
          "--force-prefers-reduced-motion")  # fmt: skip  # no colour on its way
T = TypeVar("T")


class Browser:
    """A person at a screen. What is looked for may take a while to come."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, path: str = "/") -> None:
        self.driver.get(self.url + path)
        self.until(lambda: self.script("return window.did_handshake === true"))

    def script(self, code: str, *values: Any) -> Any:
        return self.driver.execute_script(code, *values)

    def until(self, ask: Callable[[], T | None], patience_s: float = _PATIENCE_S) -> T:
        """What the question comes to, once that is something."""
        end = time.monotonic() + patience_s
        while True:
            try:
                if found := ask():
                    return found
            except StaleElementReferenceException:
                pass  # drawn anew meanwhile
            if time.monotonic() > end:
                body = self.driver.find_element(By.TAG_NAME, "body").text
                raise AssertionError(f"it did not come; the page says: {body[:2000]}")
            time.sleep(0.05)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def find(self, selector: str, text: str = "") -> WebElement:
        """The first that is on the screen, with these words in it."""

        def first() -> WebElement | None:
            some = self.script(_CANDIDATES, selector, text)  # the driver asks one by one
            return next((one for one in some if one.is_displayed() and text in one.text), None)

        return self.until(first)

    def click(self, selector: str, text: str = "") -> None:
        def clicked() -> bool:
            element = self.find(selector, text)
            if not element.is_enabled():
                return False
            self.script("arguments[0].scrollIntoView({block: 'center'})", element)
            element.click()
            return True

        self.until(clicked)

    def write(self, selector: str, text: str) -> None:
        self.click(selector)
        element = self.find(selector)
        element.send_keys(Keys.CONTROL + "a")
        if len(text) > 500:  # pasted: thousands of keys take minutes on a busy machine
            self.driver.execute_cdp_cmd("Input.insertText", {"text": text})
        else:
            element.send_keys(text)

    def says(self, text: str, selector: str = "body") -> bool:
        text = text.replace("\u00a0", " ")  # as the driver tells them
        return self.until(lambda: text in self.find(selector).text)

    def toast(self, text: str) -> bool:
        return bool(self.find("#toasts .toast", text.replace("\u00a0", " ")))

    def speak(self, language: str) -> None:
        """Choose the page's language with the mouse: each letter that is typed is a choice."""
        name = {"en": "English", "es": "Español", "fr": "Français"}[language]
        Select(self.find("#language")).select_by_visible_text(name)
        self.until(lambda: self.script(_SPOKEN, language))

    def size(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, theme: str) -> None:
        """What the system asks for: `light` or `dark`."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def overflow(self) -> list[str]:
        return list(self.script(_OVERFLOW))

    def findings(self, axe: str, *rules: str) -> list[str]:
        """What axe-core holds to be serious or critical, by all its rules or by these."""
        if not self.script("return 'axe' in window"):
            self.script(axe)
        found = self.driver.execute_async_script(_RUN_AXE, rules)
        return [str(one) for one in found]

    def complaints(self) -> list[str]:
        return [str(one["message"]) for one in self.driver.get_log("browser")  # type: ignore[no-untyped-call]
                if one["level"] == "SEVERE"]  # fmt: skip


_CANDIDATES = r"""
const plain = (text) => text.replace(/\s+/g, ' ');
return [...document.querySelectorAll(arguments[0])].filter((one) =>
  (one.closest('select') ?? one).checkVisibility() &&
  plain(one.innerText ?? one.textContent).includes(plain(arguments[1])));
"""
_SPOKEN = "return window.did_handshake && document.documentElement.lang.startsWith(arguments[0])"
_OVERFLOW = """
const wide = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth <= wide) return [];
return [...document.querySelectorAll('body *')]
  .filter((one) => one.getBoundingClientRect().right > wide + 1)
  .map((one) => one.tagName + '.' + one.className + ' ' + (one.textContent || '').slice(0, 40));
"""
_RUN_AXE = """
const [rules, done] = arguments;
const only = rules.length ? {runOnly: rules} : {};
axe.run(document, {resultTypes: ['violations'], ...only}).then((found) => done(found.violations
  .filter((one) => one.impact === 'serious' || one.impact === 'critical')
  .map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 150) + ' ' +
    (node.any[0]?.message || '')).join(' | '))));
"""


def chromium(profile: Path, downloads: Path, logs: tuple[str, ...] = ()) -> webdriver.Chrome:
    """A browser without a window, to be `quit`. `logs`: what it writes down beside its console."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", dict.fromkeys(("browser", *logs), "ALL"))
    driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    driver.downloads = downloads  # type: ignore[attr-defined]
    return driver


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium, started once for all tests of a process."""
    downloads = tmp_path_factory.mktemp("downloads")
    driver = chromium(tmp_path_factory.mktemp("profile"), downloads)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(driver: webdriver.Chrome, server: Server) -> Iterator[Browser]:
    """A fresh visitor of the shared server, on a desk's screen, who likes it light."""
    yield from visiting(driver, server.url)


def visiting(driver: webdriver.Chrome, url: str) -> Iterator[Browser]:
    """A fresh visitor; the console must have nothing to complain about afterwards."""
    driver.get(url + "/page/assets/mark.svg")
    driver.delete_all_cookies()
    driver.execute_script("sessionStorage.clear(); localStorage.clear()")
    driver.get_log("browser")  # type: ignore[no-untyped-call]
    found = Browser(driver, url)
    found.size(1440)
    found.prefer("light")
    yield found
    driver.get("about:blank")


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script, fetched once with npm and kept."""
    kept = CACHE / f"axe-{AXE}.min.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            pytest.skip(f"needs axe-core {AXE}, which npm fetches: no npm")
        CACHE.mkdir(parents=True, exist_ok=True)
        order = ["npm", "pack", f"axe-core@{AXE}", "--silent", "--pack-destination", str(CACHE)]
        done = subprocess.run(order, capture_output=True, text=True, timeout=120, cwd=CACHE)
        packed = CACHE / f"axe-core-{AXE}.tgz"
        if done.returncode or not packed.exists():
            pytest.skip(f"needs axe-core {AXE}; npm pack said: {done.stderr.strip()[-200:]}")
        with tarfile.open(packed) as archive:
            found = archive.extractfile("package/axe.min.js")
            assert found is not None
            kept.write_bytes(found.read())
    return kept.read_text(encoding="utf-8")
