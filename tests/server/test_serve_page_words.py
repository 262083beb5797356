"""What the page says and how it looks, without a browser: nothing missing, nothing unreadable."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.machine import Machine
from anyrig.server.page import icons, jobs_facts, rig_reasons, theme, voices
from anyrig.server.page.speak_lexicon import entries_of, text_of
from anyrig.server.page.words import LANGUAGES, asked_for, tables, words
from tests.conftest import NAMES

PAGE = Path(theme.__file__).parent
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in PAGE.glob("*.py")}


def _braces(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_key_has_three_languages() -> None:
    for key, texts in tables().items():
        assert set(texts) == set(LANGUAGES), key
        assert all(text.strip() == text and text for text in texts.values()), key
        assert len({frozenset(_braces(text)) for text in texts.values()}) == 1, key


def test_every_word_that_is_asked_for_is_there() -> None:
    asked = {key for source in SOURCES.values()
             for key in re.findall(r"""\bt\(\s*"([a-z_.]+)\"""", source)}  # fmt: skip
    assert len(asked) > 100
    assert asked <= set(tables())


def test_every_drawing_that_is_asked_for_is_there() -> None:
    for source in SOURCES.values():
        for name in re.findall(r"""(?:icon_name=|icon\()"([a-z]+)\"""", source):
            assert icons.svg(name)


@pytest.mark.parametrize("tokens", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_text_can_be_read(tokens: dict[str, str]) -> None:
    for text, ground in theme.PAIRS:
        assert theme.contrast(tokens[text], tokens[ground]) >= 4.5, (text, ground)
    for edge in ("edge", "focus"):
        for ground in ("ground", "surface"):
            assert theme.contrast(tokens[edge], tokens[ground]) >= 3, (edge, ground)


def test_contrast_is_reckoned_as_wcag_does() -> None:
    assert theme.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert theme.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_both_themes_have_every_token() -> None:
    assert set(theme.LIGHT) == set(theme.DARK)
    used = set(re.findall(r"var\(--([a-z-]+)", theme.css()))
    assert used - {"tall"} <= set(theme.LIGHT)


def test_nothing_comes_from_elsewhere() -> None:
    """No script, style, font or picture of another address."""
    namespaces = {"http://www.w3.org/2000/svg"}
    for path in [*PAGE.glob("*.py"), *(PAGE / "assets").iterdir()]:
        found = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text(encoding="utf-8")))
        assert found - namespaces <= {"http://127.0.0.1"}, path.name


@pytest.mark.parametrize("language", ["es", "fr"])
def test_reasons_of_devices_are_told_in_every_language(
    machine: Callable[..., Machine], language: str
) -> None:
    """Every reason of the recorded machines; what is not known is marked as English."""
    t = words(language)
    for name in NAMES:
        found = machine(name)
        choice = choose_device(found)
        texts = [choice.reason.message, *(one.reason.message for one in choice.skipped),
                 *(str(one.block_reason or "") for one in found.devices)]  # fmt: skip
        for text in texts:
            assert [one for one in rig_reasons.reason(t, text) if one.lang] == [], name
    measured = "the fastest measured: 31.8 TFLOP/s, compared to 2.1 on the CPU"
    (said,) = rig_reasons.reason(t, measured)
    assert "31.8 TFLOP/s" in said.text
    assert said.text.endswith(t("rig.the_cpu"))
    strange = rig_reasons.reason(t, "Card X cannot be used: it hums; no GPU found")
    assert [one.lang for one in strange] == ["", "en", ""]
    assert strange[1].text == "it hums"


@pytest.mark.parametrize("language", ["es", "fr"])
@pytest.mark.parametrize(
    ("word", "place"),
    [("gpu", ""), ("gpu", "USE_GPU"), ("cuda", ""), ("mps", "ANYRIG_DEVICE"), ("amd", ""),
     ("3", "GPU_ID"), ("dml:0", "DIRECTML_DEVICE in .env")],
)  # fmt: skip
def test_a_device_that_is_absent_is_told_in_every_language(
    machine: Callable[..., Machine], language: str, word: str, place: str
) -> None:
    t = words(language)
    wish = DeviceRequest(word, "environment" if place else "flag", place=place)
    choice = choose_device(machine("no-gpu", {"CUDA_VISIBLE_DEVICES": "0"}), [wish])
    for text in (choice.reason.message, *choice.warnings):
        said = rig_reasons.reason(t, text)
        assert [one for one in said if one.lang] == [], text
        assert not place or any(place in one.text for one in said) or "CUDA" in text


def test_reasons_stay_as_they_are_in_english() -> None:
    said = rig_reasons.reason(words("en"), "a GPU is available; it hums")
    assert [(one.text, one.lang) for one in said] == [("a GPU is available", ""), ("it hums", "")]


def test_voices_are_told_apart() -> None:
    rows: list[voices.Voice] = [
        {"name": "en-GB", "engine": "nanotts", "language": "en", "title": "Pico British"},
        {"name": "en_US-joe-medium", "engine": "piper", "language": "en", "title": None},
        {"name": "es-ES", "engine": "nanotts", "language": "es", "title": "Pico"},
        {"name": "fr-FR", "engine": "nanotts", "language": "fr", "title": "Pico"},
    ]
    told = voices.options(words("es"), rows)
    assert told[0] == ("nanotts/es-ES", "Pico · español · nanotts", "Español")
    assert [one[2] for one in told] == ["Español", "Francés", "Inglés", "Inglés"]
    assert {one[1] for one in told[2:]} == {
        "Pico (Reino Unido) · inglés · nanotts", "Joe · inglés · piper"}  # fmt: skip
    assert voices.options(words("en"), rows, "fr")[0][1] == "Pico · French · nanotts"


def test_a_job_tells_its_place_and_how_long_it_took() -> None:
    t = words("en")
    jobs = [{"id": str(n), "kind": "batch", "state": "queued", "created": float(n),
             "place": n + 1} for n in range(3)]  # fmt: skip
    told = [jobs_facts.course(t, job).words for job in jobs_facts.newest(jobs)]
    assert told == ["number 3 in the queue", "number 2 in the queue", "next in the queue"]
    job = {"kind": "batch", "state": "done", "created": 5.0, "started": 10.0, "ended": 85.0,
           "attempts": 1}  # fmt: skip
    assert "took 1 min 15 s" in jobs_facts.about(t, job).replace("\u00a0", " ")
    rested = jobs_facts.about(t, {**job, "attempts": 2})
    assert "took" not in rested
    assert rested.startswith("Lines to speak · from 19")


def test_a_book_tells_its_stage_and_no_time_left_before_there_is_one() -> None:
    t = words("en")
    book = {"kind": "book", "state": "running", "created": 0.0}
    begun = {"stage": "making", "done": 0.0, "chapter": 1, "num_chapters": 7, "left_s": None}
    assert jobs_facts.course(t, {**book, "progress": begun}).words == "speaking · chapter 1 of 7"
    later = {**begun, "done": 0.5, "left_s": 20.0}
    assert jobs_facts.course(t, {**book, "progress": later}).words.endswith("20\u00a0s left")
    writing = {**later, "stage": "writing", "done": 0.97, "left_s": None}
    said = jobs_facts.course(t, {**book, "progress": writing})
    assert (said.share, said.words) == (0.97, "97% · writing the files")


def test_numbers_are_written_as_in_each_language() -> None:
    gap = "\u00a0"
    assert words("en").number(1234.5, 1) == "1,234.5"
    assert words("fr").number(1234.5, 1) == f"1{gap}234,5"
    assert words("es").percent(0.5) == f"50{gap}%"
    assert words("en").bytes(3 * 2**30) == f"3.0{gap}GiB"
    assert words("fr").scaled(31.8e9, "FLOP/s") == f"31,8{gap}GFLOP/s"
    assert [words("en").span(s) for s in (5, 90, 3720)] == [
        f"5{gap}s", f"1{gap}min 30{gap}s", f"1{gap}h 2{gap}min"]  # fmt: skip


def test_a_browser_gets_the_first_language_that_is_spoken() -> None:
    assert asked_for("de-DE,fr;q=0.8,en;q=0.5") == "fr"
    assert asked_for("de") == asked_for("") == "en"
    assert words("xx").language == "en"


def test_a_lexicon_goes_into_a_table_and_back() -> None:
    text = ('[[say]]\nword = "Kokoro"\nsay = "ko-KO-ro"\n\n'
            '[[say]]\nword = "to\\"mato"\nipa = "təˈmɑːtəʊ"\nlanguage = "en"\n')  # fmt: skip
    entries = entries_of(text)
    assert entries is not None
    assert entries[1]["say"] == "/təˈmɑːtəʊ/"
    assert text_of(entries) == text


@pytest.mark.parametrize("text", ["# a remark\n", "[[say]]\npattern = 'Mc'\nsay = 'mack'\n",
                                  "word\tsay\n", "other = 1\n"])  # fmt: skip
def test_a_lexicon_that_a_table_would_spoil_stays_text(text: str) -> None:
    assert entries_of(text) is None
