"""A person with a key, in a real browser: asked, let in, shown a page that lives, and let out."""

from __future__ import annotations

from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.server.browsing import NEEDS, Browser, driver  # noqa: F401
from tests.server.conftest import Start, add_key

pytestmark = NEEDS


def test_the_page_with_a_key(start: Start, driver: webdriver.Chrome, tmp_path: Path) -> None:  # noqa: F811
    home = tmp_path / "home of keys"
    key = add_key(home, "me")
    server = start("--require-keys", home=home)
    browser = Browser(driver, server.url)
    driver.get(f"{server.url}/speak")
    assert driver.current_url == f"{server.url}/login?next=/speak"
    for word in ("anyrig_wrong", key):
        field = browser.find("#key")
        field.send_keys(word)
        browser.click("button")
        if word != key:
            assert browser.find("[role=alert]")
    browser.until(lambda: driver.current_url == f"{server.url}/speak")
    # The socket stands, so the page lives; the cookie is out of the reach of scripts.
    browser.until(lambda: browser.script("return window.did_handshake === true"))
    assert "anyrig_session" not in str(browser.script("return document.cookie"))
    assert browser.script("return fetch('/config').then(answer => answer.status)") == 200
    said = [one["message"] for one in driver.get_log("browser")]  # type: ignore[no-untyped-call]
    assert [one for one in said if "Content Security Policy" in one] == []
    browser.script(
        "const form = document.createElement('form'); form.method = 'post';"
        "form.action = '/logout'; document.body.append(form); form.submit()"
    )
    browser.until(lambda: "/login" in driver.current_url)
    driver.get(server.url)
    assert "/login" in driver.current_url
    assert driver.find_element(By.ID, "key")
