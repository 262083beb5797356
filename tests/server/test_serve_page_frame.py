"""The frame of the page: who gets it, in which language and theme, on any screen, by any hand."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from nicegui import Client, ui
from nicegui.background_tasks import running_tasks
from nicegui.events import GenericEventArguments, handle_event
from selenium.webdriver.common.keys import Keys

from anyrig.server.page.layout import PageInfo
from anyrig.server.page.main import PAGES
from anyrig.server.page.theme import THEMES
from anyrig.server.page.translations import LANGUAGES, get_translator
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import MakeApp, Server, Start, environment_of
from tests.server.listening import player

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
NARROW, WIDE = 320, 1440
WIDTHS = (NARROW, 768, WIDE)
_FOCUSED = """
const at = document.activeElement;
return at.getAttribute('aria-label') || at.textContent;
"""


_NUM_BYTES = """
const files = ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind));
return files.reduce((sum, one) => sum + one.transferSize, window.messageBytes || 0);
"""
_COUNT_MESSAGES = """
if (window.messageBytes === undefined)
  window.socket.io.engine.on("data", (message) => (window.messageBytes += message.length));
window.messageBytes ??= 0;
"""
_TOP = "return document.getElementById(arguments[0]).getBoundingClientRect().top"
_NUM_ELEMENTS = "return Object.keys(mounted_app.elements).length"


def arrive(browser: Browser, title: str) -> None:
    """Wait until a page is built and its heading has the focus."""
    focused = "const at = document.activeElement; return at.tagName === 'H1' && at.textContent"
    browser.until(lambda: browser.script(focused) == title)


def follow(browser: Browser, title: str) -> None:
    """Click on a page in the menu, and wait for it."""
    browser.click("#pages a", title)
    arrive(browser, title)


def shown(browser: Browser) -> tuple[str, str]:
    """Path and title of the page; the menu marks the page of the title alone."""
    (current,) = browser.all("#pages [aria-current]")
    assert f"{current.text} · anyrig" == browser.driver.title
    return str(browser.script("return location.pathname")), browser.driver.title


def count_requests(server: Server, path: str = "") -> float:
    """How many requests the API has answered, those of the page included."""
    lines = server.client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if path in line
               and line.startswith("anyrig_requests_total") and "/metrics" not in line)  # fmt: skip


def list_overflow(browser: Browser) -> dict[int, list[str]]:
    """By width of the screen, what sticks out on the right."""
    found = {}
    for width in WIDTHS:
        browser.size(width)
        found[width] = browser.overflow()
    return {width: what for width, what in found.items() if what}


def test_people_get_the_page_and_programs_the_list(server: Server) -> None:
    assert isinstance(server.client.get("/jobs").json()["jobs"], list)
    page = server.client.get("/jobs", headers=HTML)
    assert page.headers["content-type"].startswith("text/html")
    assert server.client.get("/").headers["content-type"].startswith("text/html")


def test_what_is_not_there_is_told_to_each_in_their_way(server: Server) -> None:
    program = server.client.get("/nothing")
    assert program.status_code == 404
    assert program.headers["content-type"] == "application/problem+json"
    assert program.json()["hint"]
    person = server.client.get("/nothing", headers={**HTML, "Accept-Language": "fr"})
    assert person.status_code == 404
    assert get_translator("fr")("frame.not_found") in person.text
    assert server.client.post("/health").status_code == 405


def test_a_choice_is_kept_in_a_cookie_that_no_script_reads(server: Server) -> None:
    answer = server.client.post("/page/preferences", json={"theme": "dark", "language": "es"})
    assert answer.status_code == 204
    for cookie in answer.headers.get_list("set-cookie"):
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
    page = server.client.get("/", headers={**HTML, "Cookie": "anyrig_language=es"})
    assert '<html lang="es">' in page.text
    server.client.cookies.clear()
    refused = server.client.post("/page/preferences", json={"theme": "pink"})
    assert refused.status_code == 422


def test_the_page_keeps_nothing_of_a_visitor(server: Server) -> None:
    answer = server.client.get("/", headers=HTML)
    assert "set-cookie" not in answer.headers
    assert not (server.data / "page").exists()
    assert not (server.home / ".nicegui").exists()


_SLOW_SECOND_REQUEST = """
const plain = window.fetch;
let sent = 0;
window.fetch = async (...request) => {
  if (++sent === 2) await new Promise((resolve) => setTimeout(resolve, 3000));
  return plain(...request);
};
"""
_CHOOSE = """
const selector = document.getElementById("language");
for (const language of arguments) {
  selector.value = language;
  selector.dispatchEvent(new Event("change", { bubbles: true }));
}
"""
_IN_LANGUAGE = "return document.documentElement.lang.startsWith(arguments[0])"


class TestInABrowser:
    """What a person sees."""

    pytestmark = NEEDS

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
    def test_each_page_fits_in_every_language_and_is_accessible(
        self, browser: Browser, axe: str, page: PageInfo
    ) -> None:
        browser.open(page.path)
        for theme, rules in (("light", ()), ("dark", ("color-contrast",))):
            browser.size(WIDE)
            browser.click(f"[data-theme-choice={theme}]")
            for width in (NARROW, WIDE):
                browser.size(width)
                assert browser.findings(axe, *rules) == [], (theme, width)
        for language in LANGUAGES:
            if language != "en":  # which is open
                browser.driver.add_cookie({"name": "anyrig_language", "value": language})
                browser.open(page.path)
            assert browser.find("h1").text == get_translator(language)(f"page.{page.key}")
            assert list_overflow(browser) == {}, language
            browser.size(NARROW)
            browser.click("#menu-button")
            assert browser.overflow() == [], language
        assert browser.complaints() == []

    def test_the_start_page_is_speak_with_a_line_on_the_machine(
        self, browser: Browser, server: Server
    ) -> None:
        rates = server.home / ".cache" / "anyrig" / "rates.json"
        rates.parent.mkdir(parents=True, exist_ok=True)
        rate = {"seconds_per_character": 0.06, "times_real_time": 30.2}
        rates.write_text(json.dumps({"hibari heart": rate}))
        browser.open("/")
        browser.find("#speak")
        assert browser.find("#pages a[aria-current=page]").text == "Speak"
        device = server.client.get("/devices").json()["devices"][0]["name"]
        told = f"Runs on {device} · books at about 30 times real time"
        browser.find("[data-machine=line]", told)
        browser.click("[data-machine=line] a")
        browser.find(".device h2", device)
        browser.find("[data-bench=books]", "one hour of audio takes about 1 min 59 s to make")
        rates.unlink()
        assert browser.driver.current_url == f"{server.url}/rig"
        foot, content = browser.find(".foot p").rect, browser.find("#content h1").rect
        assert foot["x"] == content["x"]  # the footer is as wide as the content

    def test_overflow_is_detected(self, browser: Browser) -> None:
        browser.open("/jobs")
        browser.script("document.querySelector('h1').style.minWidth = '800px'")
        assert set(list_overflow(browser)) == {NARROW, 768}

    def test_the_theme_is_kept(self, browser: Browser) -> None:
        browser.open("/")
        light = browser.script("return getComputedStyle(document.body).backgroundColor")
        browser.click("[data-theme-choice=dark]")
        browser.until(lambda: browser.script(
            "return getComputedStyle(document.body).backgroundColor") != light)  # fmt: skip
        dark = browser.script("return getComputedStyle(document.body).backgroundColor")
        browser.open("/speak")
        assert browser.script("return document.documentElement.dataset.theme") == "dark"
        assert browser.script("return getComputedStyle(document.body).backgroundColor") == dark
        pressed = browser.find("[data-theme-choice=dark]").get_attribute("aria-pressed")
        assert pressed == "true"

    def test_the_guide_for_programmers_is_of_the_house(self, browser: Browser, axe: str) -> None:
        browser.open("/")
        browser.click("[data-theme-choice=dark]")
        browser.until(lambda: browser.script(
            "return document.documentElement.dataset.theme") == "dark")  # fmt: skip
        dark = browser.script("return getComputedStyle(document.body).backgroundColor")
        browser.click(".foot a", get_translator("en")("frame.docs"))
        browser.find("h1", "HTTP API")
        assert browser.script("return getComputedStyle(document.body).backgroundColor") == dark
        browser.click("summary", "/uploads")
        for width in (NARROW, WIDE):
            browser.size(width)
            assert browser.overflow() == [], width
            assert browser.findings(axe) == [], width
        assert browser.complaints() == []  # nothing that it may not fetch
        browser.click(".brand")
        browser.find("#pages")

    def test_auto_follows_the_system(self, browser: Browser) -> None:
        browser.open("/")
        light = browser.script("return getComputedStyle(document.body).backgroundColor")
        browser.prefer("dark")
        assert browser.script("return getComputedStyle(document.body).backgroundColor") != light

    def test_the_language_is_kept(self, browser: Browser) -> None:
        t = get_translator("fr")
        browser.open("/")
        browser.find("#language").send_keys("F")
        browser.until(lambda: browser.script("return document.documentElement.lang") == "fr")
        browser.open("/jobs")
        assert [one.text for one in browser.all("#pages > ul > li > a")] == [
            t(f"page.{one.key}") for one in PAGES
        ]
        assert browser.find(".foot a").text == t("frame.docs")
        assert browser.script("return document.documentElement.lang") == "fr"
        assert browser.driver.title == f"{t('page.jobs')} · anyrig"

    def test_the_last_of_several_quick_choices_of_a_language_stays(self, browser: Browser) -> None:
        """As typing in the selector makes them: no reload comes between them."""
        browser.open()
        browser.script(_SLOW_SECOND_REQUEST)
        browser.script(_CHOOSE, "es", "fr")
        browser.until(lambda: browser.script(_IN_LANGUAGE, "fr"))
        browser.open()
        assert browser.script(_IN_LANGUAGE, "fr")
        browser.speak("en")

    def test_by_keyboard_alone(self, browser: Browser) -> None:
        browser.open("/")
        browser.find("h1")
        keys = browser.driver.switch_to

        def focus() -> str:
            return str(browser.script(_FOCUSED))

        keys.active_element.send_keys(Keys.TAB)
        assert focus() == get_translator("en")("frame.skip")
        style = browser.script("return getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid"
        keys.active_element.send_keys(Keys.ENTER)
        assert browser.script("return document.activeElement.id") == "content"
        browser.script("document.activeElement.blur(); scrollTo(0, 0)")
        browser.open("/")
        seen = []
        for _ in range(10):
            keys.active_element.send_keys(Keys.TAB)
            seen.append(focus())
        assert seen[2:4] == ["Speak", "Books"]
        keys.active_element.send_keys(Keys.SHIFT, Keys.TAB)
        while focus() != "Speak":
            keys.active_element.send_keys(Keys.SHIFT + Keys.TAB)
        keys.active_element.send_keys(Keys.ENTER)
        browser.until(lambda: browser.driver.current_url.endswith("/speak"))
        assert browser.find("#pages a[aria-current=page]").text == "Speak"

    def test_links_replace_the_page_and_keep_the_document(
        self, browser: Browser, server: Server
    ) -> None:
        t = get_translator("en")
        browser.open("/speak")
        browser.script("window.kept = true; scrollTo(0, 300)")
        browser.click("[data-theme-choice=dark]")
        browser.write("[name=text]", "Typed before the walk.")
        for page in PAGES[1:]:
            follow(browser, t(f"page.{page.key}"))
            assert shown(browser) == (page.path, f"{t(f'page.{page.key}')} · anyrig")
            assert browser.script("return scrollY") == 0
        browser.driver.back()
        arrive(browser, t(f"page.{PAGES[-2].key}"))
        assert shown(browser) == (PAGES[-2].path, f"{t(f'page.{PAGES[-2].key}')} · anyrig")
        browser.driver.forward()
        arrive(browser, t(f"page.{PAGES[-1].key}"))
        follow(browser, t("page.documents"))
        browser.click("[data-tab=scans]")
        browser.until(lambda: browser.driver.current_url.endswith("/documents?tab=scans"))
        follow(browser, t("page.speak"))
        browser.until(lambda: browser.find("[name=text]").get_attribute("value")
                      == "Typed before the walk.")  # fmt: skip
        browser.click("#speak")  # the page that came later works as the first one
        browser.until(lambda: player(browser)["state"] == "done")
        browser.driver.back()
        arrive(browser, t("page.documents"))
        browser.find("[data-tab=scans][aria-selected=true]")
        browser.click(".brand")
        arrive(browser, t("page.speak"))
        assert shown(browser) == ("/", f"{t('page.speak')} · anyrig")
        assert browser.script("return document.documentElement.dataset.theme") == "dark"
        assert browser.script("return window.kept")
        assert browser.complaints() == []
        # What is no page of ours is another document.
        browser.click(".foot a", t("frame.docs"))
        browser.find("h1", "HTTP API")
        assert not browser.script("return window.kept")
        browser.driver.back()
        browser.find("#speak")
        follow(browser, t("page.jobs"))
        browser.driver.refresh()
        browser.until(lambda: browser.script("return window.did_handshake === true"))
        assert shown(browser) == ("/jobs", f"{t('page.jobs')} · anyrig")
        assert browser.complaints() == []

    def test_little_is_sent(
        self, browser: Browser, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        t = get_translator("en")
        monkeypatch.delenv("PYTEST_CURRENT_TEST")  # NiceGUI does not compress under pytest
        browser.url = start().url
        browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        browser.open("/speak")
        browser.find("#speak")
        assert 50_000 < browser.script(_NUM_BYTES) < 450_000
        browser.open("/speak")
        browser.find("#speak")
        assert 1_000 < browser.script(_NUM_BYTES) < 20_000
        for page in PAGES:  # once, for scripts that only some pages need
            follow(browser, t(f"page.{page.key}"))
        for page in PAGES:
            before = browser.script(_COUNT_MESSAGES + _NUM_BYTES)
            follow(browser, t(f"page.{page.key}"))
            assert 0 < browser.script(_NUM_BYTES) - before < 20_000, page.key

    def test_a_page_that_was_left_ends(self, browser: Browser, server: Server) -> None:
        t = get_translator("en")

        def walk() -> None:
            """To the last page, which asks for nothing while there is no cluster."""
            for page in PAGES:
                follow(browser, t(f"page.{page.key}"))

        browser.open("/jobs")
        before = count_requests(server)
        browser.until(lambda: count_requests(server) > before)  # it asks every second
        walk()
        elements = int(browser.script(_NUM_ELEMENTS))
        for _ in range(2):
            walk()

        def is_silent() -> bool:
            before = count_requests(server)
            time.sleep(2.5)
            return bool(count_requests(server) == before)

        browser.until(is_silent)  # what was asked before it was left may still be answered
        # A request that is answered when its page was left.
        follow(browser, t("page.documents"))
        browser.click("[data-tab=summary]")
        browser.write("[name=summary-text]", "The tide came in at noon. It left at six.")
        browser.click("[data-do=summary]")
        walk()
        browser.until(lambda: count_requests(server, "/documents/summarise"))
        walk()
        browser.until(lambda: int(browser.script(_NUM_ELEMENTS)) == elements)
        assert "Traceback" not in server.log()

    def test_quick_clicks_end_at_the_last_page(self, browser: Browser) -> None:
        t = get_translator("en")
        browser.open("/jobs")
        browser.script(
            "for (const one of document.querySelectorAll('#pages > ul > li > a')) one.click()"
        )
        arrive(browser, t("page.cluster"))
        time.sleep(1)
        assert [one.text for one in browser.all("h1")] == [t("page.cluster")]
        assert shown(browser) == ("/cluster", f"{t('page.cluster')} · anyrig")
        assert browser.complaints() == []

    def test_the_menu_of_a_phone(self, browser: Browser) -> None:
        browser.size(NARROW)
        browser.open("/")
        assert not browser.all("#pages a")[1].is_displayed()
        browser.click("#menu-button")
        assert browser.find("#menu-button").get_attribute("aria-expanded") == "true"
        browser.until(
            lambda: browser.script("return document.activeElement.closest('#pages') !== null")
        )
        assert browser.find(".menu-head").text == get_translator("en")("frame.menu")
        num_parts = sum(len(page.parts) for page in PAGES)
        for _ in range(len(PAGES) + num_parts):  # the keys stay in the menu while it is open
            browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        assert browser.script(_FOCUSED) == "Cluster"
        for _ in THEMES:
            browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        assert browser.script("return document.activeElement.dataset.themeChoice") == "dark"
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        assert browser.script("return document.activeElement.id") == "language"
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        assert browser.script("return document.activeElement.id") == "menu-close"
        for by_key in (True, False):
            if by_key:
                browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
            else:
                browser.click("#menu-close")
            browser.until(lambda: not browser.all("#pages a")[1].is_displayed())
            assert browser.script("return document.activeElement.id") == "menu-button"
            browser.click("#menu-button")
        follow(browser, "Speak")
        browser.until(lambda: not browser.all("#pages a")[1].is_displayed())
        # Files and index are below the search on a phone: the menu leads there.
        browser.click("#menu-button")
        browser.click("#pages .parts a", get_translator("en")("documents.index"))
        browser.until(lambda: browser.script("return document.activeElement.textContent")
                      == get_translator("en")("documents.index"))  # fmt: skip
        assert browser.script("return location.pathname + location.hash") == "/documents#index"
        browser.until(lambda: 0 <= browser.script(_TOP, "index") < 800)
        browser.click("[data-tab=scans]")
        browser.click("#menu-button")
        browser.click("#pages .parts a", get_translator("en")("documents.files"))
        browser.until(lambda: browser.driver.current_url.endswith("?tab=scans#files"))
        browser.until(lambda: 0 <= browser.script(_TOP, "files") < 800)

    def test_with_a_key_one_signs_in_and_out(
        self, browser: Browser, axe: str, start: Start, tmp_path: Path
    ) -> None:
        home = tmp_path / "keyed"
        home.mkdir()
        order = [sys.executable, "-m", "anyrig", "keys", "add", "ada", "--json"]
        made = subprocess.run(order, env=environment_of(home), capture_output=True, text=True)
        server = start("--require-keys", home=home)
        browser.url = server.url
        browser.driver.get(f"{server.url}/speak")
        letters = "return getComputedStyle(document.body).fontFamily"
        door = browser.script(letters)
        browser.find("#key").send_keys("let me in" + Keys.ENTER)
        browser.find("[role=alert]", get_translator("en")("login.shape"))
        assert "`" not in browser.find("main").text
        for theme in ("dark", "light"):
            browser.prefer(theme)
            for width in (NARROW, WIDE):
                browser.size(width)
                assert browser.findings(axe) == [], width
        for language in ("es", "fr", "en"):
            browser.driver.add_cookie({"name": "anyrig_language", "value": language})
            browser.driver.get(f"{server.url}/speak")
            assert browser.script("return document.documentElement.lang") == language
            browser.find("#key").send_keys("let me in" + Keys.ENTER)
            browser.find("[role=alert]", get_translator(language)("login.shape"))
            assert list_overflow(browser) == {}, language
        browser.find("#key").send_keys(json.loads(made.stdout)["key"] + Keys.ENTER)
        browser.find("#speak")
        browser.until(lambda: browser.script("return window.did_handshake === true"))
        assert browser.script(letters) == door
        browser.click("#speak")  # the browser itself asks for the sound, with its cookie
        done = "return document.querySelector('.player').dataset.state === 'done'"
        browser.until(lambda: browser.script(done))
        (cookie,) = (
            one for one in browser.driver.get_cookies() if one["name"].startswith("anyrig_session")
        )
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        browser.size(NARROW)
        assert browser.overflow() == []
        browser.click("#menu-button")
        browser.click("#pages form .button", get_translator("en")("frame.sign_out"))
        browser.find("#key")
        browser.driver.get(f"{server.url}/speak")
        assert "/login" in browser.driver.current_url


def test_a_second_app_of_a_process_has_its_own_page(make_app: MakeApp) -> None:
    """NiceGUI has one app for a process: the one that was made last must be its home."""
    for _ in range(2):
        app = make_app(page=True)
        with TestClient(app, base_url="http://127.0.0.1:3000") as client:
            assert client.get("/speak", headers=HTML).status_code == 200


def test_a_change_of_page_leaves_no_timer_and_no_element(make_app: MakeApp) -> None:
    """Without a browser: events as one sends them, and what the server holds of the document."""
    app = make_app(page=True)
    paths = [page.path for page in PAGES]

    async def walk() -> list[tuple[int, int]]:
        (client,) = Client.instances.values()
        client.tab_id = "a tab"
        client._connected.set()
        (listener,) = (
            one for one in client.layout._event_listeners.values() if one.type == "open_page"
        )
        held = []
        for path in paths:
            event = GenericEventArguments(sender=client.layout, client=client, args=path)
            handle_event(listener.handler, event)
            await asyncio.sleep(0)
            while any("run_with_event" in task.get_name() for task in running_tasks):
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)  # what is loaded once the page is shown
            timers = [one for one in client.elements.values() if isinstance(one, ui.timer)]
            held.append((len(client.elements), len(timers)))
        return held

    Client.instances.clear()
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        client.get("/speak", headers=HTML)
        assert client.portal is not None
        first, again = client.portal.call(walk), client.portal.call(walk)
    assert first[-1] == again[-1]
    assert again[-1][1] == 0  # the cluster's page has no timer without a cluster
    assert again[paths.index("/jobs")][1] == 1


def test_the_login_says_what_is_wrong_with_a_key(make_app: MakeApp) -> None:
    app, language = make_app("--require-keys"), "es"
    t, keys = get_translator(language), app.state.server.keys
    told = {
        "": "none", "let me in": "shape", f"anyrig_{'0' * 12}_{'x' * 43}": "unknown",
        keys.add("old", expires_at=1.0)[0]: "expired",
        keys.add("program", scopes=("speech",))[0]: "scope",
    }  # fmt: skip
    chosen = {"Accept": "text/html", "Cookie": f"anyrig_language={language}; anyrig_theme=dark"}
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        for key, why in told.items():
            answer = client.post("/login", data={"key": key}, headers=chosen)
            assert answer.status_code == 401
            assert t(f"login.{why}") in answer.text
            assert t(f"login.{why}.do") in answer.text
            assert f"<html lang={language} data-theme=dark>" in answer.text
        for _ in range(100):  # whoever guesses is told to wait, on the same page
            answer = client.post("/login", data={"key": "guess"}, headers=chosen)
            if answer.status_code != 401:
                break
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        assert t("login.often") in answer.text
