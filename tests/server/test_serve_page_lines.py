"""The smaller controls of the page that speaks: voices, single lines, words; read back as files and
from the API."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from anyrig.server.page.translations import get_translator
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server, Start
from tests.server.listening import heard, lengths, player, saved, spoken, states
from tests.server.long_work import told

pytestmark = NEEDS
T = get_translator("en")
SENTENCE = "The kettle is on, and the tea will be ready soon."
_ENDED = "return document.querySelector('.lines').dataset.busy !== 'true'"


def _press(browser: Browser, number: int, what: str) -> None:
    """A button of one line."""
    browser.click(f".line:nth-child({number}) [data-do={what}]")


def _lined(browser: Browser, *texts: str) -> None:
    browser.open("/speak")
    browser.write("#paste", "\n".join(texts))
    browser.click("#add-lines")
    assert states(browser) == ["new"] * len(texts)


def _made_s(server: Server) -> float:
    """Seconds of sound that the server has made so far."""
    lines = server.client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("anyrig_audio_seconds_total{")]
    return sum(float(line.split()[-1]) for line in found)


# -- voices ----------------------------------------------------------------------------------------


def _others(browser: Browser, server: Server) -> list[dict[str, str]]:
    """Voices that the page offers and has not chosen: the first of two other engines."""
    chosen = str(browser.find("[name=voice]").get_attribute("value"))
    offered = {one.get_attribute("value") for one in browser.all("[name=voice] option")}
    first: dict[str, dict[str, str]] = {chosen.partition("/")[0]: {}}
    for one in told(server, "/config")["details"]:
        if f"{one['engine']}/{one['name']}" in offered:
            first.setdefault(one["engine"], one)
    return list(first.values())[1:3]


def test_another_voice_is_chosen_and_heard(browser: Browser, server: Server) -> None:
    """What is heard is what the API says with that voice, to the sample."""
    browser.open("/speak")
    counts = {spoken(browser, SENTENCE)["samples"]}
    for one in _others(browser, server):
        browser.find(f"[name=voice] option[value='{one['engine']}/{one['name']}']").click()
        count = spoken(browser, SENTENCE)["samples"]
        body = {"model": one["engine"], "engine": one["engine"], "voice": one["name"],
                "language": one["language"], "response_format": "pcm"}  # fmt: skip
        answer = server.client.post("/v1/audio/speech", json={**body, "input": SENTENCE})
        assert len(answer.raise_for_status().content) // 2 == int(count)
        counts.add(count)
    assert len(counts) == 3


def test_voices_are_previewed_warned_of_and_tuned(browser: Browser, start: Start, axe: str) -> None:
    server = start(environment={"HF_ENDPOINT": "http://127.0.0.1:9"})  # a hub that does not answer
    browser.url = server.url
    browser.open("/speak")
    # An English voice, a Spanish text: it is said before anything is spoken.
    browser.write("[name=text]", "Buenas tardes. Mañana iremos todos juntos a la playa con ella.")
    browser.find("#language-note .note", "Spanish")
    browser.click("#language-note [data-do=use-voice]")
    browser.until(lambda: not browser.all("#language-note .note"))
    chosen = str(browser.find("[name=voice]").get_attribute("value"))
    voices = {f"{one['engine']}/{one['name']}": one for one in told(server, "/config")["details"]}
    assert voices[chosen]["language"].startswith("es")

    # Every voice has a sample.
    browser.click("#all-voices summary")
    offered = browser.until(lambda: browser.all("#all-voices li") or None)
    assert len(offered) == len(browser.all("[name=voice] option"))
    joe = next(id for id in voices if id.startswith("piper/"))
    browser.click(f"#all-voices [data-preview='/voices/{joe}/sample']")
    browser.find("#all-voices [data-playing]")
    browser.until(lambda: not browser.all("[data-preview][data-playing]"))
    assert not browser.all("#toasts .toast")

    # The engine's own options, and the seed.
    browser.click(f"[data-voice='{joe}']")
    browser.until(lambda: browser.find("[name=voice]").get_attribute("value") == joe)
    browser.click("#advanced summary")
    names = [one.get_attribute("name") for one in browser.all("#advanced input")]
    assert names == ["seed", "option-noise", "option-noise_w"]
    assert browser.findings(axe) == []
    usual = spoken(browser, "Good evening, and welcome.")["peak"]
    browser.write("[name=seed]", "7")
    browser.write("[name=option-noise]", "1.5" + Keys.TAB)
    assert spoken(browser, "Good evening, and welcome.")["peak"] != usual
    body = {"model": "piper", "input": "Hello.", "options": {"noise": 9}}
    refused = server.client.post("/v1/audio/speech", json=body)
    assert refused.status_code in (400, 422)
    assert "noise" in refused.json()["title"]

    # Engines that could be had: with a button where that is possible, with a line in any case.
    engines = {one["name"]: one for one in told(server, "/engines")["engines"]}
    missing = [one for one in engines.values() if not one["ready"]]
    browser.click("#more-voices summary")
    rows = browser.until(lambda: browser.all("[data-engine]") or None)
    assert [one.get_attribute("data-engine") for one in rows] == [one["name"] for one in missing]
    vibevoice = browser.find("[data-engine=vibevoice]")
    assert "5.0 GB" in vibevoice.text.replace("\u00a0", " ")
    assert "MIT" in vibevoice.text
    assert engines["vibevoice"]["command"] in vibevoice.text
    assert browser.findings(axe) == []
    if engines["vibevoice"]["can_install"]:
        browser.click("[data-engine=vibevoice] [data-do=install]")
        browser.click(".ask[open] [data-ask=yes]")
        browser.find("[data-engine=vibevoice] .trouble")  # there is no network here
    answer = server.client.post("/engines/hibari/install", json={})
    assert answer.status_code == 409
    assert server.client.post("/engines/nobody/install", json={}).status_code == 404


# -- lines -----------------------------------------------------------------------------------------


def test_one_line_is_made_again_and_kept_by_itself(browser: Browser) -> None:
    downloads: Path = browser.driver.downloads  # type: ignore[attr-defined]
    _lined(browser, "Press one for the rig.", "Press two for the voice.", "Thank you.")
    _press(browser, 2, "make")
    browser.until(lambda: states(browser) == ["new", "made", "new"])
    browser.click("#make-all")
    browser.until(lambda: states(browser) == ["made"] * 3)
    first = lengths(browser)
    for number in (1, 3):
        browser.find(f".line:nth-child({number}) textarea").send_keys(" And then, wait a while.")
    assert states(browser) == ["changed", "made", "changed"]
    _press(browser, 3, "make")
    browser.until(lambda: states(browser) == ["changed", "made", "made"])
    now = lengths(browser)
    assert now[:2] == first[:2]
    assert now[2] > first[2] + 0.5
    before = set(downloads.iterdir())
    _press(browser, 3, "download")
    kept = browser.until(lambda: saved(downloads, before))
    assert kept.name == "003 Thank you And then, wait a while.mp3"
    assert kept.suffix == ".mp3"
    seconds, peak = heard(kept)
    assert seconds == pytest.approx(now[2], abs=0.2)
    assert peak > 0.05


def test_a_line_has_a_voice_of_its_own_and_another_take(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    _lined(browser, "Press one for the rig.", "Press two for the voice.")
    config = told(server, "/config")
    seeded = {one["name"] for one in config["engines"] if one["varies_with_seed"]}
    other = next(one for one in _others(browser, server) if one["engine"] in seeded)
    voice = f"{other['engine']}/{other['name']}"
    browser.find(f".line:nth-child(2) select option[value='{voice}']").click()
    _press(browser, 2, "hear")  # a line that is not there yet is made first
    browser.until(lambda: states(browser) == ["new", "made"])
    playing = "return document.querySelector('.lines audio').currentTime > 0"
    browser.until(lambda: browser.script(playing))

    def is_of(number: int, seed: int) -> bool:
        """Whether the line sounds as the API says it with a seed."""
        body = {"model": other["engine"], "voice": other["name"], "language": other["language"],
                "input": "Press two for the voice.", "seed": seed}  # fmt: skip
        answer = server.client.post("/v1/audio/speech", json=body).raise_for_status()
        before = set(downloads.iterdir())
        _press(browser, number, "download")
        kept = browser.until(lambda: saved(downloads, before))
        return bool(kept.read_bytes() == answer.content)

    downloads: Path = browser.driver.downloads  # type: ignore[attr-defined]
    assert is_of(2, 0)
    _press(browser, 2, "make")
    browser.find(".line:nth-child(2) .line-take")
    assert is_of(2, 0)  # until the new one is chosen
    browser.click("[data-do=hear-take]")
    browser.until(lambda: browser.script(playing))
    browser.click("[data-do=use-take]")
    browser.until(lambda: not browser.all(".line-take"))
    assert is_of(2, 1)
    _press(browser, 2, "make")
    browser.click("[data-do=drop-take]")
    assert is_of(2, 1)
    browser.open("/speak")
    chosen = browser.find(".line:nth-child(2) select").get_attribute("value")
    assert chosen == voice
    browser.click("#as-job")
    browser.toast(T("lines.queued"))
    jobs = told(server, "/jobs")["jobs"]
    lines = [told(server, f"/jobs/{job['id']}")["arguments"]["lines"] for job in jobs]
    assert sorted(line["text"] for several in lines for line in several) == [
        "Press one for the rig.", "Press two for the voice."
    ]  # fmt: skip
    assert any(line.get("voice") == other["name"] for several in lines for line in several)


def test_lines_are_kept_in_the_format_that_is_chosen(browser: Browser, start: Start) -> None:
    downloads: Path = browser.driver.downloads  # type: ignore[attr-defined]
    server = start()
    browser.url = server.url
    _lined(browser, "Press one for the rig.")
    formats = [one.get_attribute("value") for one in browser.all("#lines-format option")]
    assert formats == ["mp3", "opus", "aac", "flac", "wav"]
    begins = {"mp3": (b"ID3", b"\xff"), "opus": (b"OggS",), "aac": (b"\xff",), "flac": (b"fLaC",),
              "wav": (b"RIFF",)}  # fmt: skip
    for name in formats:
        browser.find(f"#lines-format option[value={name}]").click()
        assert states(browser)[0] in ("new", "changed")  # what was made is of another format
        browser.click("#make-all")
        browser.until(lambda: states(browser) == ["made"])
        before = set(downloads.iterdir())
        _press(browser, 1, "download")
        kept = browser.until(lambda before=before: saved(downloads, before))  # type: ignore[misc]
        assert kept.suffix == f".{name}"
        assert kept.read_bytes().startswith(begins[str(name)])
        # A browser learns the length of streamed audio a moment after it can play it.
        browser.until(lambda: math.isfinite(lengths(browser)[0]))
        assert heard(kept)[0] == pytest.approx(lengths(browser)[0], abs=0.2)
    browser.find("#lines-format option[value=flac]").click()
    browser.click("#as-job")
    browser.toast(T("lines.queued"))
    (job,) = told(server, "/jobs")["jobs"]
    assert told(server, f"/jobs/{job['id']}")["arguments"]["format"] == "flac"


def test_all_lines_are_stopped(browser: Browser, server: Server) -> None:
    line = " ".join(f"House number {n} was empty." for n in range(60))
    _lined(browser, "A short one.", *(f"{number}. {line}" for number in range(8)))
    browser.click("#make-all")
    browser.until(lambda: states(browser)[0] == "made")
    browser.click("#stop-all")
    browser.until(lambda: browser.script(_ENDED))
    found = states(browser)
    assert found[0] == "made"
    assert found.count("new") >= 5
    assert set(found) <= {"new", "made"}
    now, before = _made_s(server), -1.0
    for _ in range(100):
        if now == before:
            break
        time.sleep(0.2)
        now, before = _made_s(server), now
    assert now == before  # the server makes nothing more of it
    assert states(browser) == found
    browser.find("#make-all", f"({found.count('new')})")


# -- words -----------------------------------------------------------------------------------------


def _rows(browser: Browser) -> list[WebElement]:
    return [one for one in browser.all(".word-row") if one.is_displayed()]


def _add(browser: Browser, word: str, say: str) -> None:
    number = len(_rows(browser)) + 1
    browser.click("#add-word")
    browser.until(lambda: len(_rows(browser)) == number)
    browser.until(lambda: _focused(browser) == f"{T('lexicon.word')}, entry {number}")
    browser.driver.switch_to.active_element.send_keys(word, Keys.TAB, say)


def _focused(browser: Browser) -> str:
    """The accessible name of the control that has the focus."""
    return str(browser.driver.switch_to.active_element.accessible_name)


def _save(browser: Browser, server: Server) -> str:
    before = server.client.get("/lexicon").json()
    browser.click("#save-lexicon")
    browser.until(lambda: server.client.get("/lexicon").json() != before)
    return str(server.client.get("/lexicon").json()["text"])


def test_a_word_is_heard_has_a_language_and_is_removed(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    browser.open("/speak")
    usual = spoken(browser, "Anyrig.").number("seconds")
    _add(browser, "Anyrig", "any sort of rig at all, as long as it is yours")
    _add(browser, "Kokoro", "ko ko ro")
    text = _save(browser, server)
    assert text.count("[[say]]") == 2
    assert "language" not in text

    def hear(number: int) -> float:
        browser.write("[name=text]", Keys.DELETE)  # what sounds is the word alone
        before = player(browser)["samples"]
        browser.click(f".word-row:nth-child({number}) .line-buttons .button:first-child")
        browser.until(lambda: player(browser)["samples"] not in (before, "0"))
        browser.until(lambda: player(browser)["state"] == "done")
        return player(browser).number("seconds")

    assert hear(1) > usual + 0.7
    # Only for Spanish: an English voice says it as ever.
    browser.find(".word-row:nth-child(1) select option[value=es]").click()
    assert 'word = "Anyrig"' in (text := _save(browser, server))
    assert text.count('language = "es"') == 1
    assert hear(1) == pytest.approx(usual, abs=0.3)

    browser.click(".word-row:nth-child(1) .line-buttons .button:last-child")
    browser.until(lambda: len(_rows(browser)) == 1)
    browser.until(lambda: _focused(browser) == f"{T('lexicon.word')}, entry 1")
    text = _save(browser, server)
    assert "Anyrig" not in text
    assert 'word = "Kokoro"' in text
    assert server.client.get("/lexicon").json()["entries"] == 1
    browser.click(".word-row:nth-child(1) .line-buttons .button:last-child")
    browser.says(T("lexicon.none"), "#lexicon")
    browser.until(lambda: _focused(browser) == T("lexicon.add"))
    _save(browser, server)
    assert server.client.get("/lexicon").json()["entries"] == 0


def test_the_lexicon_as_text_and_back(browser: Browser, start: Start) -> None:
    server = start()
    browser.url = server.url
    browser.open("/speak")
    _add(browser, "Kokoro", "ko ko ro")
    headings = [one.text for one in browser.all("#lexicon .word-head span")]
    assert headings == [T("lexicon.word"), T("lexicon.say"), T("lexicon.language")]
    browser.click("#switch-lexicon", T("lexicon.as_text"))
    field = browser.find("[name=lexicon]")
    assert 'word = "Kokoro"' in str(field.get_attribute("value"))
    field.send_keys('\n# a remark\n[[say]]\nword = "Cork"\nsay = "kork"\nlanguage = "fr"\n')
    browser.click("#switch-lexicon", T("lexicon.as_table"))
    browser.toast(T("lexicon.not_a_table"))  # a table would lose the remark
    browser.find("[name=lexicon]")
    text = str(browser.find("[name=lexicon]").get_attribute("value"))
    browser.write("[name=lexicon]", text.replace("# a remark\n", ""))
    browser.click("#switch-lexicon", T("lexicon.as_table"))
    browser.until(lambda: len(_rows(browser)) == 2)
    values = [[one.get_attribute("value") for one in row.find_elements("css selector",
              "input, select")] for row in _rows(browser)]  # fmt: skip
    assert values == [["Kokoro", "ko ko ro", ""], ["Cork", "kork", "fr"]]
    text = _save(browser, server)
    assert server.client.get("/lexicon").json()["entries"] == 2
    assert 'language = "fr"' in text
    browser.open("/speak")  # and is there when one comes again
    browser.until(lambda: len(_rows(browser)) == 2)
