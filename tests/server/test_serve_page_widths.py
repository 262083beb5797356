"""Every page has room for the words of all three languages, from the narrowest phone to a desk.

Contrast and the like are looked at in English, with axe-core (test_serve_page_frame.py). This needs
no axe-core: it is looked at everywhere that Chromium is.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from selenium import webdriver

from anyrig.server.page.layout import PageInfo
from anyrig.server.page.main import PAGES
from anyrig.server.page.translations import LANGUAGES, get_translator
from tests.server.browsing import NEEDS, Browser, visiting
from tests.server.conftest import Server, environment_of, running
from tests.server.long_work import NARROW, WIDE

pytestmark = NEEDS
WIDTHS = (NARROW, 768, WIDE)


def _speaks(browser: Browser, language: str) -> None:
    """What a person chose at an earlier visit."""
    browser.driver.add_cookie({"name": "anyrig_language", "value": language})


def _sticks_out(browser: Browser) -> dict[int, list[str]]:
    found = {}
    for width in WIDTHS:
        browser.size(width)
        found[width] = browser.overflow()
    return {width: what for width, what in found.items() if what}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
def test_a_page_fits_in_every_language(browser: Browser, page: PageInfo, language: str) -> None:
    _speaks(browser, language)
    browser.open(page.path)
    assert browser.find("h1").text == get_translator(language)(f"page.{page.key}")
    assert _sticks_out(browser) == {}
    browser.size(NARROW)
    browser.click("#menu-button")
    assert _sticks_out(browser) == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_guide_for_programmers_fits(browser: Browser, language: str) -> None:
    _speaks(browser, language)
    browser.driver.get(f"{browser.url}/docs")
    browser.find("h1")
    assert _sticks_out(browser) == {}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that lets nobody in without a key."""
    home = tmp_path_factory.mktemp("keyed")
    order = [sys.executable, "-m", "anyrig", "keys", "add", "ada", "--json"]
    subprocess.run(order, env=environment_of(home), check=True, capture_output=True)
    with running(home, "--require-keys") as server:
        yield server


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_door_fits_in_every_language(
    driver: webdriver.Chrome, keyed: Server, language: str
) -> None:
    for browser in visiting(driver, keyed.url):
        _speaks(browser, language)
        browser.driver.get(f"{keyed.url}/speak")
        assert browser.script("return document.documentElement.lang") == language
        assert _sticks_out(browser) == {}
        browser.find("#key").send_keys("let me in\n")
        browser.find("[role=alert]", get_translator(language)("login.shape"))
        assert _sticks_out(browser) == {}


def test_what_sticks_out_would_be_seen(browser: Browser) -> None:
    """The list is what the tests above stand on."""
    browser.open("/jobs")
    browser.script("document.querySelector('h1').style.minWidth = '800px'")
    assert set(_sticks_out(browser)) == {NARROW, 768}
