"""The page that speaks, as a person uses it: sound comes while it is made."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from anyrig.server.page.translations import get_translator
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server, Start
from tests.server.listening import heard, lengths, player, saved, spoken, states

pytestmark = NEEDS
T = get_translator("en")
SENTENCE = "The kettle is on, and the tea will be ready soon."


def test_a_sentence_is_heard_while_it_is_made(browser: Browser) -> None:
    browser.open("/speak")
    browser.write("[name=text]", Keys.DELETE)
    browser.click("#speak")
    browser.find("#nothing-to-say .trouble", T("speak.say_something"))
    browser.until(lambda: browser.script("return document.activeElement.name") == "text")
    text = f"{SENTENCE} Then we shall sit down. Nobody is in a hurry today. {SENTENCE}"
    told = spoken(browser, text)
    assert told.number("seconds") > 5
    assert told.number("peak") > 0.05
    assert told.number("pieces") > 1
    assert told.number("first-ms") > 0
    # It goes out through WebAudio to its end, and is then in an audio element as a whole.
    browser.until(lambda: player(browser).number("played") == pytest.approx(
        told.number("seconds"), abs=0.05))  # fmt: skip
    length = browser.until(lambda: browser.script(
        "return document.querySelector('.player audio').duration"))  # fmt: skip
    assert length == pytest.approx(told.number("seconds"), abs=0.05)
    drawn = browser.script(_INKED)
    assert drawn > 500
    assert not browser.all("#nothing-to-say .trouble")
    browser.says(T("speak.made", audio=f"{T.number(told.number('seconds'), 1)}\u00a0s"), "#speech")


_PASTE = """
const field = document.querySelector(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event('input', {bubbles: true}));
field.dispatchEvent(new Event('change', {bubbles: true}));
"""
_INKED = """
const canvas = document.querySelector('.wave canvas');
const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
let count = 0;
for (let i = 3; i < data.length; i += 4) if (data[i] > 0) count++;
return count;
"""


def test_stop_and_play_again(browser: Browser) -> None:
    browser.open("/speak")
    browser.write("[name=text]", " ".join([SENTENCE] * 12))
    browser.click("#speak")
    browser.until(lambda: player(browser).number("samples") > 0)
    browser.click("#stop")
    browser.until(lambda: player(browser)["state"] in ("stopped", "done"))
    count = player(browser)["samples"]
    browser.click("#play")
    browser.until(
        lambda: browser.script("return document.querySelector('.player audio').currentTime > 0")
    )
    browser.click("#stop")
    browser.until(lambda: browser.script("return document.querySelector('.player audio').paused"))
    assert player(browser)["samples"] == count
    wave = browser.find(".wave[role=slider]")
    wave.send_keys(Keys.HOME)
    assert wave.get_attribute("aria-valuenow") == "0"
    wave.send_keys(Keys.END)
    browser.until(
        lambda: wave.get_attribute("aria-valuenow") == wave.get_attribute("aria-valuemax")
    )


_COLOURED = """
const canvas = document.querySelector('.wave canvas');
const hex = getComputedStyle(canvas).getPropertyValue('--accent').trim();
const accent = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const { width, height } = canvas;
const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
const count = [0, 0];
for (let i = 0; i < data.length; i += 4)
  if (data[i + 3] > 200 && accent.every((one, k) => Math.abs(one - data[i + k]) < 4))
    count[(i / 4) % width < width / 2 ? 0 : 1]++;
return count;
"""
"""Pixels of the wave in the colour of what was heard: of the left and of the right half."""


def test_pause_seek_and_history_while_it_streams(browser: Browser, axe: str) -> None:
    def position() -> float:
        return float(browser.find(".player").get_attribute("data-position") or 0)

    def throttle(bytes_per_s: int) -> None:
        """The speech comes no faster than that: a second of it is 48,000 bytes."""
        conditions = {"offline": False, "latency": 0, "downloadThroughput": bytes_per_s,
                      "uploadThroughput": -1}  # fmt: skip
        browser.driver.execute_cdp_cmd("Network.enable", {})
        browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    browser.open("/speak")
    text = " ".join(f"{SENTENCE} That is number {n}." for n in range(80))
    browser.write("[name=text]", text)
    browser.says(f"{len(text):,} characters", "#speech")
    throttle(96_000)
    browser.find("[name=text]").send_keys(Keys.CONTROL, Keys.ENTER)
    browser.until(lambda: position() > 0.3)
    browser.click("#pause")
    browser.until(lambda: browser.all(".player #play"))
    paused, count = position(), player(browser).number("samples")
    assert player(browser)["state"] == "making"
    # It goes on being generated, not being heard; the wave is coloured as far as that was.
    browser.until(lambda: player(browser).number("samples") > count)
    assert position() == pytest.approx(paused, abs=0.2)
    left, right = browser.script(_COLOURED)
    assert left > 0
    assert right == 0
    wave = browser.find(".wave[role=slider]")
    wave.send_keys(Keys.HOME)
    browser.until(lambda: position() == 0)
    wave.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert position() == pytest.approx(2, abs=0.1)
    assert player(browser)["state"] == "making"
    wave.send_keys(" ")  # goes on from there
    browser.until(lambda: 2.3 < position() < 30)
    throttle(-1)
    browser.until(lambda: player(browser)["state"] == "done")
    before = position()
    browser.click("#pause")  # from here on a file is played
    assert position() == pytest.approx(before, abs=3)
    at = position()
    browser.click("#play")
    browser.until(lambda: position() > at + 0.2)
    wave.send_keys(Keys.END)
    browser.until(lambda: browser.script(_COLOURED)[1] > 0)

    spoken(browser, "Something else.")
    browser.driver.refresh()  # what was spoken is still there
    browser.click(".history summary")
    browser.until(lambda: len(browser.all(".clip")) == 2)
    assert browser.findings(axe) == []
    shown = browser.find(".clip:nth-child(2) .clip-text").text
    assert shown.startswith(SENTENCE)
    browser.click(".clip:nth-child(2) [data-do=reuse]")
    browser.until(lambda: browser.find("[name=text]").get_attribute("value") == text)
    browser.click(".clip:nth-child(1) [data-do=hear]")
    browser.until(lambda: player(browser)["state"] == "done")
    assert player(browser).number("peak") > 0.05
    browser.click(".clip:nth-child(2) [data-do=remove]")
    browser.until(lambda: len(browser.all(".clip")) == 1)
    assert browser.complaints() == []


def test_speed_and_voice_are_heard(browser: Browser) -> None:
    browser.open("/speak")
    usual = spoken(browser, SENTENCE).number("seconds")
    slider = browser.find("[name=speed]")
    slider.send_keys(Keys.END)
    browser.says("2 ×", "#speech")
    assert spoken(browser, SENTENCE).number("seconds") < 0.7 * usual
    slider.send_keys(Keys.HOME)
    assert spoken(browser, SENTENCE).number("seconds") > 1.4 * usual
    groups = [one.get_attribute("label") for one in browser.all("[name=voice] optgroup")]
    assert len(groups) > 1
    assert groups[0] == "English"  # the visitor's own first


def test_a_file_in_every_format(browser: Browser) -> None:
    downloads: Path = browser.driver.downloads  # type: ignore[attr-defined]
    browser.open("/speak")
    told = spoken(browser, SENTENCE)
    formats = [one.get_attribute("value") for one in browser.all("#format option")]
    assert formats == ["wav", "mp3", "opus", "aac", "flac"]
    for name in formats:
        before = set(downloads.iterdir())
        browser.find(f"#format option[value={name}]").click()
        browser.click("#download")
        kept = browser.until(lambda before=before: saved(downloads, before))  # type: ignore[misc]
        assert kept.suffix == f".{name}"
        seconds, peak = heard(kept)
        assert seconds == pytest.approx(told.number("seconds"), abs=0.15)
        assert peak > 0.05


def test_nothing_to_say_is_told(browser: Browser) -> None:
    browser.open("/speak")
    browser.write("[name=text]", Keys.DELETE)
    browser.click("#speak")
    browser.find("#nothing-to-say .trouble", T("speak.say_something"))
    assert player(browser)["state"] == "empty"


def test_what_is_refused_is_told_with_what_to_do(browser: Browser, server: Server) -> None:
    browser.open("/speak")
    text = "far too long " * 20_000
    refused = server.client.post("/v1/audio/speech", json={"input": text}).json()
    browser.find("[name=text]")
    browser.script(_PASTE, "[name=text]", text)
    browser.click("#speak")
    browser.toast(refused["title"])
    assert refused["hint"] in browser.find("#toasts .toast").text


def test_lines_are_made_heard_edited_and_made_again(browser: Browser) -> None:
    downloads: Path = browser.driver.downloads  # type: ignore[attr-defined]
    browser.open("/speak")
    browser.says(T("lines.none"), "#many")
    browser.write("#paste", "Press one for the rig.\nPress two for the voice.\n\nThank you.")
    browser.click("#add-lines")
    assert len(browser.all(".line")) == 3
    browser.click("#make-all")
    browser.until(lambda: states(browser) == ["made"] * 3)
    first = lengths(browser)
    assert min(first) > 0.3
    second = browser.all(".line")[1]
    second.find_element(By.CSS_SELECTOR, "[data-do=hear]").click()
    browser.until(
        lambda: browser.script("return document.querySelector('.lines audio').currentTime > 0")
    )
    second.find_element(By.TAG_NAME, "textarea").send_keys(" And three for everything else.")
    assert states(browser) == ["made", "changed", "made"]
    browser.click("#make-all")
    browser.until(lambda: states(browser) == ["made"] * 3)
    now = lengths(browser)
    assert now[1] > first[1] + 0.5
    assert (now[0], now[2]) == (first[0], first[2])
    browser.all(".line")[0].find_element(By.CSS_SELECTOR, "[data-do=remove]").click()
    before = set(downloads.iterdir())
    browser.click("#download-all")
    kept = browser.until(lambda: saved(downloads, before))
    with zipfile.ZipFile(kept) as archive:
        assert archive.testzip() is None
        text = "Press two for the voice. And three for everything else."
        first_name = "001 Press two for the voice And three for everything else.mp3"
        assert archive.namelist() == [first_name, "002 Thank you.mp3", "lines.csv"]
        assert heard(io.BytesIO(archive.read(first_name)))[0] == pytest.approx(now[1], abs=0.2)
        rows = list(csv.DictReader(io.StringIO(archive.read("lines.csv").decode("utf-8-sig"))))
        assert [(row["file"], row["text"]) for row in rows] == [
            (first_name, text), ("002 Thank you.mp3", "Thank you.")
        ]  # fmt: skip
    browser.open("/speak")  # the texts are still there after a reload
    texts = [one.get_attribute("value") for one in browser.all(".line textarea")]
    assert texts == ["Press two for the voice. And three for everything else.", "Thank you."]


def test_lines_as_a_job_can_be_left(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    browser.open("/speak")
    browser.write("#paste", "One line.\nAnother line.")
    browser.click("#add-lines")
    browser.click("#as-job")
    browser.toast(T("lines.queued"))
    browser.driver.get("about:blank")
    job = server.client.get("/jobs").json()["jobs"][0]
    assert job["kind"] == "batch"
    browser.until(lambda: server.client.get(f"/jobs/{job['id']}").json()["state"] == "done", 120)
    files = server.client.get(f"/jobs/{job['id']}/files").json()["files"]
    sound = [one for one in files if one["name"].endswith(".mp3")]
    assert len(sound) == 2


def test_the_lexicon_is_kept_and_heard(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    browser.open("/speak")
    usual = spoken(browser, "Anyrig.").number("seconds")
    browser.says(T("lexicon.none"), "#lexicon")
    browser.click("#add-word")
    word, say = browser.until(lambda: browser.all(".word-row input") or None)
    word.send_keys("Anyrig")
    say.send_keys("any sort of rig at all, as long as it is yours")
    browser.click("#save-lexicon")
    browser.toast(T("lexicon.saved"))
    kept = server.client.get("/lexicon").json()
    assert kept["entries"] == 1
    assert 'word = "Anyrig"' in kept["text"]
    assert spoken(browser, "Anyrig.").number("seconds") > usual + 0.7
    browser.click("#switch-lexicon")
    browser.find("[name=lexicon]").send_keys("\nnonsense")
    browser.click("#save-lexicon")
    browser.find("#lexicon .trouble")
    assert server.client.get("/lexicon").json() == kept


def test_a_visitor_gets_a_voice_of_their_language(browser: Browser, server: Server) -> None:
    language = "fr"
    browser.open("/")
    browser.find("#language")
    browser.script(_PASTE, "#language", language)
    browser.until(lambda: browser.script("return document.documentElement.lang") == language)
    browser.open("/speak")
    chosen = str(browser.find("[name=voice]").get_attribute("value")).split("/")[1]
    voices = {one["name"]: one for one in server.client.get("/config").json()["details"]}
    assert voices[chosen]["language"] == language
    t = get_translator(language)
    first = browser.find("[name=voice] optgroup").get_attribute("label") or ""
    assert first.lower() == t(f"language.{language}").lower()
    labels = [one.text for one in browser.all("[name=voice] option")]
    assert len(set(labels)) == len(labels)
    assert t(f"language.{language}") in labels[0]
    assert voices[chosen]["engine"] in labels[0]
    browser.click("#speak")
    browser.until(lambda: player(browser)["state"] == "done")
    assert player(browser).number("peak") > 0.05
