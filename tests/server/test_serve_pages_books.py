"""The books page as a person uses it: a book made to the end, one that is paused and given up."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from anyrig.server.page.books import FORMATS
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server
from tests.server.listening import heard
from tests.server.long_work import BOOK, fits, fits_in_every_language, job_of, send, told

pytestmark = NEEDS
TRACKS = ["The Tide Clock", "One Hand", "Three Mornings", "Part Two: The Sea", "High Water",
          "Four Lines"]  # fmt: skip
_PLAYED = """
const player = [...document.querySelectorAll('audio')].find((one) => one.src);
return player && player.readyState >= 2 && player.currentTime > 0.2 ? player.src : null;
"""


def _planned(person: Browser, file: Path) -> None:
    person.open("/books")
    send(person, file)
    person.find("[data-plan=start]")


def _sum(person: Browser) -> str:
    return person.find("[data-plan=sum]").text


def test_the_sample_book_is_made_to_the_end(person: Browser, busy: Server, axe: str) -> None:
    _planned(person, BOOK)
    fits(person, axe)
    assert person.find("[name=title]").get_attribute("value") == "The Tide Clock"
    cover = person.find("img.cover")
    person.until(lambda: person.script("return arguments[0].naturalWidth", cover) > 100)

    whole = _sum(person)
    person.click("[data-plan=none]")
    person.until(lambda: "Tick at least one" in _sum(person))
    assert not person.find("[data-plan=start]").is_enabled()
    person.click("[data-plan=all]")
    person.until(lambda: "9 of 9" in _sum(person))
    for number in (1, 3, 4):
        person.click(f"[name=chapter-{number}]")
    person.until(lambda: "6 of 9" in _sum(person))
    few = _sum(person)
    assert few != whole
    person.find("[name=speed]").send_keys("\ue014" * 4)  # four times the arrow to the right
    person.until(lambda: "1.2" in person.find(".field-range output").text)
    person.until(lambda: _sum(person) != few)  # faster, and so shorter
    person.write("[name=title]", "The Tide Clock, in short")
    person.write("[name=author]", "Nobody")
    person.find("[name=voice]").send_keys("Heart")
    person.click("[data-plan=start]")

    card = person.find("[data-job]", "The Tide Clock, in short")
    id = str(card.get_attribute("data-job"))
    asked = job_of(busy, id)["arguments"]
    assert asked["title"] == "The Tide Clock, in short"
    assert asked["author"] == "Nobody"
    assert asked["chapters"] == ["2", "5", "6", "7", "8", "9"]
    assert asked["voice"] == "heart"
    assert asked["rate"] == 1.2
    assert asked["format"] == "m4b"
    assert "file=" not in person.driver.current_url

    person.until(lambda: person.all(f"[data-job='{id}'][data-state=done]"))
    person.find(f"[data-job='{id}'] .badge", "Done")
    tracks = [one.text for one in person.all(f"[data-job='{id}'] .track")]
    assert tracks == TRACKS
    person.click(f"[data-job='{id}'] [data-chapter='2']")
    assert person.until(lambda: person.script(_PLAYED)).endswith(f"/jobs/{id}/chapters/2")
    fits(person, axe)

    made = told(busy, f"/jobs/{id}/files")["files"][0]
    person.size(1440)
    person.click(f"[data-job='{id}'] [data-file='1']")
    saved = Path(person.driver.downloads) / made["name"]  # type: ignore[attr-defined]
    person.until(lambda: saved.exists() and saved.stat().st_size == made["size"])
    assert saved.read_bytes()[4:8] == b"ftyp"
    assert saved.read_bytes() == busy.client.get(made["url"]).content

    _planned(person, BOOK)  # what this voice takes here is known now, and told
    assert "to make on this machine" not in _sum(person)
    person.find("[name=voice]").send_keys("Heart")
    person.until(lambda: "to make on this machine" in _sum(person))


def test_a_plan_is_found_again(person: Browser) -> None:
    _planned(person, BOOK)
    person.until(lambda: "file=" in person.driver.current_url)
    there = person.driver.current_url
    person.open("/jobs")
    person.driver.get(there)
    person.find("[data-plan=start]")
    fits_in_every_language(person)
    person.find("[data-plan=start]")
    person.click(".button", "Another book")
    person.find(".drop")
    assert "file=" not in person.driver.current_url


@pytest.mark.parametrize("format", FORMATS)
def test_a_book_is_made_in_the_format_that_is_chosen(
    person: Browser, busy: Server, tmp_path: Path, format: str
) -> None:
    file = tmp_path / f"{format} walk.md"
    file.write_text("# The short one\n\nI went out.\n\n# The other\n\nI came home.\n")
    _planned(person, file)
    offered = [one.get_attribute("value") for one in person.all("[name=format] option")]
    assert offered == list(FORMATS)
    person.find(f"[name=format] option[value={format}]").click()
    person.write("[name=title]", f"A walk in {format}")
    person.click("[data-plan=start]")
    id = str(person.find("[data-job]", f"A walk in {format}").get_attribute("data-job"))
    assert job_of(busy, id)["arguments"]["format"] == format
    person.find(f"[data-job='{id}'][data-state=done]")
    made = told(busy, f"/jobs/{id}/files")["files"]
    sound = [one for one in made if one["name"].endswith(f".{format}")]
    assert len(sound) == (1 if format in ("m4b",) else 2)
    for one in sound:
        assert heard(io.BytesIO(busy.client.get(one["url"]).content))[0] > 0.3
    if format == "m4b":
        fits_in_every_language(person)


def test_what_is_no_book_says_what_to_do(person: Browser, busy: Server, tmp_path: Path) -> None:
    file = tmp_path / "broken.epub"
    file.write_bytes(b"PK\x03\x04 this is no book")
    person.open("/books")
    send(person, file)
    trouble = person.find(".trouble")
    title = trouble.find_element("css selector", ".trouble-title")
    assert title.text.startswith("broken.epub is no whole")
    assert title.get_attribute("lang") == "en"
    person.until(lambda: "broken.epub" not in [  # it is of no use to anybody
        one["name"] for one in told(busy, "/uploads")["files"]])  # fmt: skip
    person.click(".trouble .button")
    person.find(".drop")


def test_chapters_are_heard_while_the_rest_is_made(
    person: Browser, busy: Server, tmp_path: Path
) -> None:
    file = tmp_path / "Two Walks.md"
    steps = " ".join(f"Then I walked past house number {n}, and nobody was in." for n in range(600))
    file.write_text(f"# The short one\n\nI went out.\n\n# The long one\n\n{steps}\n")
    _planned(person, file)
    person.click("[data-plan=start]")
    id = str(person.find("[data-job]", "Two Walks").get_attribute("data-job"))
    card = f"[data-job='{id}']"

    person.find(f"{card} [data-chapter='1']")
    assert job_of(busy, id)["state"] == "running"
    person.click(f"{card} [data-chapter='1']")
    assert person.until(lambda: person.script(_PLAYED)).endswith("/chapters/1")
    assert job_of(busy, id)["state"] == "running"
    person.until(lambda: " left" in person.find(f"{card} .meter").text)
    assert "speaking · chapter 2 of 2" in person.find(f"{card} .meter").text
    bar = person.find(f"{card} [role=progressbar]")
    assert 0 < int(bar.get_attribute("aria-valuenow") or 0) < 100

    person.click(f"{card} [data-do=pause]")
    person.until(lambda: person.all(f"{card}[data-state=paused]"))
    assert job_of(busy, id)["state"] == "paused"
    person.open("/documents")  # left, and found again
    person.open("/books")
    person.find(f"{card}[data-state=paused]")
    person.click(f"{card} [data-do=resume]")
    person.until(lambda: job_of(busy, id)["state"] == "running")
    person.find(f"{card}[data-state=running]")

    person.click(f"{card} [data-do=cancel]")
    person.click(".ask[open] .button", "Keep going")
    person.until(lambda: not person.all(".ask[open]"))
    assert job_of(busy, id)["state"] == "running"
    person.click(f"{card} [data-do=cancel]")
    person.click(".ask[open] [data-ask=yes]")
    person.until(lambda: person.all(f"{card}[data-state=cancelled]"))
    assert job_of(busy, id)["state"] == "cancelled"
    person.click(f"{card} [data-do=delete]")
    person.click(".ask[open] [data-ask=yes]")
    person.until(lambda: not person.all(card))
    assert busy.client.get(f"/jobs/{id}").status_code == 404
