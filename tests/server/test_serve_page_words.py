"""The page without a browser: texts, colours, and how the API's answers are described."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.devices import choice_to_json
from anyrig.devices.choose import DeviceChoice, DeviceRequest, choose_device
from anyrig.devices.machine import Machine, device_to_json, reason_to_json
from anyrig.devices.reasons import ReasonCode
from anyrig.server.page import jobs, rig, theme, voices
from anyrig.server.page.speak import format_lexicon, parse_lexicon
from anyrig.server.page.translations import LANGUAGES, choose_language, get_translator, load_texts
from tests.conftest import NAMES

PAGE = Path(theme.__file__).parent
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in PAGE.glob("*.py")}
REASONS = {key.partition(".")[2]: texts for key, texts in load_texts().items()
           if key.startswith("reason.")}  # fmt: skip
PAIRS = (
    ("ink", "ground"), ("ink", "surface"), ("ink", "sunken"), ("soft", "ground"),
    ("soft", "surface"), ("soft", "sunken"), ("accent", "surface"), ("accent", "ground"),
    ("accent", "accent-soft"), ("accent-ink", "accent"), ("ink", "accent-soft"),
    ("good", "good-soft"), ("good", "surface"), ("warn", "warn-soft"), ("warn", "surface"),
    ("bad", "bad-soft"), ("bad", "surface"), ("ink", "bad-soft"), ("ink", "warn-soft"),
)  # fmt: skip
"""Text and background, as the page pairs them."""
UNTRANSLATED = {
    # Shown in parts, or with another program's message.
    ReasonCode.NO_BACKEND, ReasonCode.WRONG_RESULTS, ReasonCode.UNUSABLE,
    ReasonCode.BACKEND_UNUSABLE,
    # Of a workload: not on the page.
    ReasonCode.NO_GPU_BENEFIT, ReasonCode.NO_LIBRARY, ReasonCode.INSUFFICIENT_MEMORY,
    ReasonCode.WRONG_ENVIRONMENT,
}  # fmt: skip


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_text_is_there_in_every_language() -> None:
    texts = load_texts()
    used = {key for source in SOURCES.values()
            for key in re.findall(r"""\bt\(\s*"([a-z_.]+)\"""", source)}  # fmt: skip
    assert len(used) > 100
    assert used <= set(texts)
    for key, by_language in texts.items():
        expected = set(LANGUAGES) - ({"en"} if key.startswith("reason.") else set())
        assert set(by_language) == expected, key
        assert all(text.strip() == text and text for text in by_language.values()), key
        assert len({frozenset(_fields(text)) for text in by_language.values()}) == 1, key


def _contrast(one: str, other: str) -> float:
    """From 1 to 21, as in WCAG."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_contrast_is_sufficient(colours: dict[str, str]) -> None:
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    for text, ground in PAIRS:
        assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for edge in ("edge", "focus"):
        for ground in ("ground", "surface"):
            assert _contrast(colours[edge], colours[ground]) >= 3, (edge, ground)


def test_nothing_comes_from_elsewhere() -> None:
    """No script, style, font or picture of another address."""
    namespaces = {"http://www.w3.org/2000/svg"}
    for path in [*PAGE.glob("*.py"), *(PAGE / "assets").iterdir()]:
        found = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text(encoding="utf-8")))
        assert found - namespaces <= {"http://127.0.0.1"}, path.name


def _devices(machine: Machine, choice: DeviceChoice) -> dict[str, Any]:
    """As in the response of `/devices`."""
    rows = []
    for device in machine.devices:
        skipped = [one.reason for one in choice.skipped if one.device.id == device.id]
        why = str(skipped[0]) if skipped else ""
        rows.append(
            {**device_to_json(device), "reason": why, **reason_to_json(next(iter(skipped), None))}
        )
    return {"devices": rows, "reason": str(choice.reason), "selector": choice.selector,
            "choice": choice_to_json(choice)}  # fmt: skip


def test_every_reason_has_a_translation_with_its_values() -> None:
    assert set(REASONS) == set(ReasonCode) - UNTRANSLATED
    for code, texts in REASONS.items():
        known = _fields(ReasonCode(code).template) | {"selector"}
        assert all(_fields(text) <= known for text in texts.values()), code


@pytest.mark.parametrize("language", LANGUAGES)
def test_reasons_of_every_recorded_machine_are_in_the_pages_language(
    machine: Callable[..., Machine], language: str
) -> None:
    t = get_translator(language)
    for name in NAMES:
        found = machine(name)
        for request in (None, *(DeviceRequest(one.id, "flag") for one in found.gpus)):
            choice = choose_device(found, [request] if request else [])
            devices = _devices(found, choice)
            phrases = rig.explain_choice(t, devices)
            for row in devices["devices"]:
                phrases += rig.explain_device(t, row, devices["devices"]) if row["reason"] else []
            assert [one for one in phrases if one.lang or not one.text] == [], name
            if language == "en":
                assert phrases[0].text == str(choice.reason)


def test_voices_are_distinguishable() -> None:
    rows: list[voices.Voice] = [
        {"name": "en-GB", "engine": "nanotts", "language": "en", "title": "Pico British",
         "region": "GB", "short_title": "Pico"},
        {"name": "pt", "engine": "a", "language": "pt", "title": "B, Brazilian", "region": "XX",
         "short_title": "B"},
        {"name": "en_US-joe-medium", "engine": "piper", "language": "en", "title": None},
        {"name": "es-ES", "engine": "nanotts", "language": "es", "title": "Pico"},
        {"name": "fr-FR", "engine": "nanotts", "language": "fr", "title": "Pico"},
    ]  # fmt: skip
    options = voices.build_options(get_translator("es"), rows)
    assert options[0] == ("nanotts/es-ES", "Pico · español · nanotts", "Español")
    assert [one[2] for one in options] == ["Español", "Francés", "Inglés", "Inglés", "Portugués"]
    assert {one[1] for one in options[2:]} == {
        "B (XX) · portugués · a",
        "Pico (Reino Unido) · inglés · nanotts", "Joe · inglés · piper"}  # fmt: skip
    assert voices.build_options(get_translator("en"), rows, "fr")[0][1] == "Pico · French · nanotts"
    assert voices.choose_default("en-GB", rows, "en") == "nanotts/en-GB"
    assert voices.choose_default("en-GB", rows, "fr") == "nanotts/fr-FR"


def test_a_job_shows_its_queue_position_and_how_long_it_took() -> None:
    t = get_translator("en")
    texts = [jobs.describe_progress(t, {"state": "queued", "place": place})[1]
             for place in (None, 1, 2)]  # fmt: skip
    assert texts == ["", "next in the queue", "number 2 in the queue"]
    job = {"kind": "batch", "state": "done", "created": 5.0, "started": 10.0, "ended": 85.0,
           "attempts": 1}  # fmt: skip
    assert "took 1 min 15 s" in jobs.describe_job(t, job).replace("\u00a0", " ")
    resumed = jobs.describe_job(t, {**job, "attempts": 2})
    assert "took" not in resumed
    assert resumed.startswith("Spoken lines · from 19")


def test_the_page_says_when_finished_jobs_are_deleted() -> None:
    t = get_translator("en")
    assert "until you delete them" in jobs.describe_retention(t, 0, 0)
    text = jobs.describe_retention(t, 30, 2.5)
    assert "after 30 days" in text
    assert "2.5 GB" in text
    assert "until" not in text


def test_a_book_shows_its_stage_and_no_time_left_before_it_is_known() -> None:
    t = get_translator("en")
    book = {"kind": "book", "state": "running", "created": 0.0}
    begun = {"stage": "making", "done": 0.0, "chapter": 1, "num_chapters": 7, "left_s": None}
    progress = jobs.describe_progress(t, {**book, "progress": begun})
    assert progress == (0.0, "speaking · chapter 1 of 7")
    later = {**begun, "done": 0.5, "left_s": 20.0}
    text = jobs.describe_progress(t, {**book, "progress": later})[1]
    assert text.endswith("20\u00a0s left")
    early = {**begun, "done": 0.1, "left_range_s": [130.0, 290.0]}
    text = jobs.describe_progress(t, {**book, "progress": early})[1]
    assert text.endswith("2 to 5\u00a0min left")
    read_along = {**later, "stage": "read-along", "done": 0.98, "left_s": 3.0}
    text = jobs.describe_progress(t, {**book, "progress": read_along})[1]
    assert text == "98% · writing the read-along file · 3\u00a0s left"
    writing = {**later, "stage": "writing", "done": 0.97, "left_s": None}
    progress = jobs.describe_progress(t, {**book, "progress": writing})
    assert progress == (0.97, "97% · writing the files")


def test_numbers_are_written_as_in_each_language() -> None:
    gap, en, es, fr = "\u00a0", *map(get_translator, ("en", "es", "fr"))
    assert en.number(1234.5, 1) == "1,234.5"
    assert en("jobs.place", number=46320) == "number 46,320 in the queue"
    assert fr.number(1234.5, 1) == f"1{gap}234,5"
    assert es.percent(0.5) == f"50{gap}%"
    assert en.bytes(3 * 2**30) == f"3.0{gap}GiB"
    assert fr.quantity(31.8e9, "FLOP/s") == f"31,8{gap}GFLOP/s"
    assert [en.duration(s) for s in (5, 90, 3720)] == [
        f"5{gap}s", f"1{gap}min 30{gap}s", f"1{gap}h 2{gap}min"]  # fmt: skip


def test_a_browser_gets_its_first_language_that_the_page_has() -> None:
    assert choose_language("de-DE,fr;q=0.8,en;q=0.5") == "fr"
    assert choose_language("de") == choose_language("") == "en"
    assert get_translator("xx").language == "en"


def test_a_lexicon_goes_into_a_table_and_back() -> None:
    text = ('[[say]]\nword = "Kokoro"\nsay = "ko-KO-ro"\n\n'
            '[[say]]\nword = "to\\"mato"\nipa = "təˈmɑːtəʊ"\nlanguage = "en"\n')  # fmt: skip
    entries = parse_lexicon(text)
    assert entries is not None
    assert entries[1]["say"] == "/təˈmɑːtəʊ/"
    assert format_lexicon(entries) == text


@pytest.mark.parametrize("text", ["# a remark\n", "[[say]]\npattern = 'Mc'\nsay = 'mack'\n",
                                  "word\tsay\n", "other = 1\n"])  # fmt: skip
def test_a_lexicon_that_a_table_would_damage_stays_text(text: str) -> None:
    assert parse_lexicon(text) is None
