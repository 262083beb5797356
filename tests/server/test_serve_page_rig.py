"""The page of the rig, as a person uses it; what they do is read back from the API."""

from __future__ import annotations

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


@pytest.fixture
def broken(driver: webdriver.Chrome, start: Start) -> Browser:
    """In front of a machine whose graphics card cannot be used."""
    server = start("--machine", str(MACHINES / "rx6700xt-no-kfd-linux.json"))
    return next(visiting(driver, server.url))


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
