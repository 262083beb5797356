"""The page of the rig, as a person uses it; what they do is read back from the API."""

from __future__ import annotations

import httpx
import pytest
from selenium import webdriver

from anyrig.server.page.translations import get_translator
from tests.conftest import MACHINES
from tests.server.browsing import NEEDS, Browser, visiting
from tests.server.conftest import Server, Start
from tests.server.long_work import fits_in_every_language

pytestmark = NEEDS
T = get_translator("en")


def test_a_device_tells_how_it_is_doing(browser: Browser, server: Server) -> None:
    browser.open("/rig")
    device = server.client.get("/devices").json()["devices"][0]
    card = f"[data-device='{device['id']}']"
    assert device["name"] in browser.find(card).text
    assert browser.find(f"{card} .badge").text == T("rig.in_use")
    total = T.bytes(device["memory_total_bytes"])
    browser.says(total, f"{card} .meter")
    bar = browser.find(f"{card} [role=progressbar]")
    full = browser.until(lambda: float(bar.get_attribute("aria-valuenow") or 0))
    free = server.client.get("/devices").json()["devices"][0]["memory_free_bytes"]
    assert full == pytest.approx(100 - 100 * free / device["memory_total_bytes"], abs=8)
    # The line of the chart goes on while one looks at it; a full one drops its oldest points.
    first = browser.until(lambda: _points(browser, card))
    assert browser.until(lambda: _points(browser, card) != first)
    label = browser.find(f"{card} .chart").get_attribute("aria-label") or ""
    assert "%" in label


def _points(browser: Browser, card: str) -> str:
    return str(browser.script(
        "return document.querySelector(arguments[0] + ' polyline')"
        "?.getAttribute('points') || ''", card))  # fmt: skip


def test_choosing_a_device_is_kept(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    browser.open("/rig")
    assert server.client.get("/devices").json()["selector"] == "auto"
    browser.find("select[name=device]").send_keys(T("rig.use.all"))
    browser.toast(T("rig.used", name=T("rig.use.all")))
    assert server.client.get("/devices").json()["selector"] == "all"
    browser.open("/rig")
    assert browser.find("select[name=device]").get_attribute("value") == "all"


def test_one_device_is_chosen_by_its_name(browser: Browser, start: Start) -> None:
    server = start("--machine", str(MACHINES / "rtx4090-rtxpro6000-wsl2.json"))
    browser.url = server.url
    browser.open("/rig")
    for device in server.client.get("/devices").json()["devices"]:
        browser.find("select[name=device]").send_keys(device["name"])
        browser.toast(T("rig.used", name=device["name"]))
        found = server.client.get("/devices").json()["devices"]
        assert [one["id"] for one in found if one["chosen"]] == [device["id"]]
        browser.open("/rig")
        assert browser.find("select[name=device]").get_attribute("value") == device["id"]
        assert browser.find(f"[data-device='{device['id']}'] .badge").text == T("rig.in_use")


_BROKEN_WORDS = """
const range = document.createRange();
return [...document.querySelectorAll('.device h2')].flatMap((heading) => {
  const [node, text] = [heading.firstChild, heading.textContent];
  return [...text.matchAll(/[^\\s-]+/g)].filter((word) => {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    return range.getClientRects().length > 1;
  }).map((word) => word[0]);
});
"""


def test_names_of_devices_break_between_words_on_a_phone(browser: Browser, start: Start) -> None:
    server = start("--machine", str(MACHINES / "rtx4090-rtxpro6000-wsl2.json"))
    browser.url = server.url
    for width in (320, 390):
        browser.size(width)
        browser.open("/rig")
        browser.find(".device h2", "RTX PRO 6000")
        assert browser.script(_BROKEN_WORDS) == [], width
        assert browser.overflow() == []
    narrow = "width: 3rem; overflow-wrap: anywhere"
    browser.script("document.querySelector('.device h2').style = arguments[0]", narrow)
    assert browser.script(_BROKEN_WORDS)  # it would be seen


def test_the_benchmark_is_a_job_and_then_bars(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    browser.open("/rig")
    browser.says(T("bench.none"), "#bench")
    browser.click("#bench .button.primary")
    job = browser.until(lambda: server.client.get("/jobs").json()["jobs"])[0]
    assert job["kind"] == "bench"
    assert job["arguments"] == {"quick": True}
    browser.open("/rig")  # it can be left, and is found again
    browser.find("#bench [role=progressbar]")
    browser.until(lambda: browser.all("#bench .hbar"), 240)
    told = server.client.get(f"/jobs/{job['id']}").json()
    assert told["state"] == "done"
    figures = server.client.get("/bench").json()["figures"]
    assert len(browser.all("#bench .hbar")) == len(figures) > 0
    said = browser.find("#bench").text
    for figure in figures:
        assert T.quantity(figure["value"], figure["unit"]).replace("\u00a0", " ") in said


def test_the_benchmark_in_full_is_stopped(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    browser.open("/rig")
    assert not browser.find("#bench .button.primary").get_attribute("disabled")
    assert not [one for one in browser.all("#bench .button.plain") if one.is_displayed()]
    browser.click("#bench input[type=checkbox]")
    browser.click("#bench .button.primary")
    job = browser.until(lambda: server.client.get("/jobs").json()["jobs"])[0]
    assert (job["kind"], job["arguments"]) == ("bench", {})
    browser.until(lambda: not browser.find("#bench .button.primary").is_enabled())
    browser.until(lambda: _state(server, job["id"]) == "running")
    browser.click("#bench .button.plain", T("bench.stop"))
    browser.toast(T("bench.stopped"))
    assert _state(server, job["id"]) == "cancelled"
    browser.until(lambda: browser.find("#bench .button.primary").is_enabled())
    assert not [one for one in browser.all("#bench .button.plain") if one.is_displayed()]


def _state(server: Server, id: str) -> str:
    return str(server.client.get(f"/jobs/{id}").json()["state"])


@pytest.fixture
def broken(driver: webdriver.Chrome, start: Start) -> Browser:
    """In front of a machine whose graphics card cannot be used."""
    server = start("--machine", str(MACHINES / "rx6700xt-no-kfd-linux.json"))
    return next(visiting(driver, server.url))


def test_where_the_chosen_one_cannot_be_used_the_page_says_what_is(broken: Browser) -> None:
    broken.open("/rig")
    name = broken.find(".device h2", "RX 6700").text
    broken.find("select[name=device]").send_keys(name)
    broken.toast(T("rig.used", name=name))
    told = httpx.get(f"{broken.url}/devices", trust_env=False).json()
    assert [one["kind"] for one in told["devices"] if one["chosen"]] == ["cpu"]
    assert told["warnings"]
    broken.says("/dev/kfd", ".chooser")
    assert broken.find(".chooser .reason").text.startswith("Now in use: the CPU")


def test_why_a_device_is_not_used_and_what_mends_it(broken: Browser) -> None:
    broken.open("/rig")
    fix = broken.find(".device .copyable code").text
    assert broken.find(".device .badge.bad").text == T("rig.not_usable")
    assert broken.find(".device .note").text.startswith(T("rig.why"))
    broken.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]}
    )
    broken.click(".device [data-copy]")
    broken.toast(T("frame.copied"))
    pasted = broken.driver.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], (error) => arguments[0](String(error)))"
    )
    assert pasted == fix
    for language in ("es", "fr"):
        broken.speak(language)
        t = get_translator(language)
        said = broken.find(".device .note").text
        assert t("reason.no_kfd") in said
        assert t("reason.not_installed", package="onnxruntime-ep-webgpu") in said
        used = f"{t('rig.the_cpu')} ({t('reason.no_usable_gpu')})"
        assert broken.find(".reason").text == t("rig.now", reason=used).replace("\u00a0", " ")
    fits_in_every_language(broken)
