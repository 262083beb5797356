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
    assert title.text.startswith("broken.epub is not a")
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
    card = f"article[data-job='{id}']"  # the player has the same id, and a state of its own

    person.find(f"{card} [data-chapter='1']")
    assert job_of(busy, id)["state"] == "running"
    person.click(f"{card} [data-chapter='1']")
    assert person.until(lambda: person.script(_PLAYED)).endswith("/chapters/1")
    assert job_of(busy, id)["state"] == "running"
    person.until(lambda: " left" in person.find(f"{card} .meter").text)
    assert "speaking · chapter 2 of 2" in person.find(f"{card} .meter").text
    bar = person.find(f"{card} [role=progressbar]")
    person.until(lambda: 0 < int(bar.get_attribute("aria-valuenow") or 0) < 100)

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
    person.until(lambda: not person.find("body").find_element("id", "listen").is_displayed())
    person.driver.refresh()  # nothing of it is left in the browser
    person.until(lambda: person.script("return window.did_handshake === true"))
    assert not person.all("#listen")


# -- listening -------------------------------------------------------------------------------------

_SECONDS = 8
"""About as long as a chapter of `_made` sounds."""


def _made(server: Server, title: str, num_chapters: int = 3, num_sentences: int = 2) -> str:
    """The job of a book of short chapters, made by the engine for tests; it is quick."""
    words = " one two three four five six seven eight nine ten eleven twelve." * num_sentences
    chapters = [f"# Part {n}\n\nPart {n}.{words}\n" for n in range(1, num_chapters + 1)]
    files = {"files": (f"{title}.md", "\n".join(chapters).encode())}
    upload = server.client.post("/uploads", files=files).json()["files"][0]
    arguments = {"file": f"upload:{upload['id']}", "engine": "tone", "format": "mp3"}
    answer = server.client.post("/jobs", json={"kind": "book", "arguments": arguments})
    return str(answer.raise_for_status().json()["id"])


def _bar(person: Browser) -> dict[str, str]:
    """What the player says of itself."""
    return dict(person.script("return {...document.querySelector('#listen').dataset}"))


def _press(person: Browser, part: str) -> None:
    person.click(f"#listen [data-listen-part={part}]")


def _position(person: Browser) -> float:
    return float(_bar(person)["position"])


def test_a_book_plays_on_while_one_walks_about(person: Browser, busy: Server, axe: str) -> None:
    id = _made(busy, "Walks")
    person.open("/books")
    person.until(lambda: person.all(f"[data-job='{id}'][data-state=done]"))
    person.click(f"[data-job='{id}'] [data-chapter='1']")
    assert person.until(lambda: person.script(_PLAYED)).endswith(f"/jobs/{id}/chapters/1")
    playing = {"job": id, "number": "1", "state": "playing"}
    assert playing.items() <= _bar(person).items()

    # In another document it goes on where it was, by itself.
    before = _position(person)
    person.open("/jobs")
    person.until(lambda: person.script(_PLAYED))
    assert playing.items() <= _bar(person).items()
    assert before - 0.5 < _position(person) < before + 6  # it is stored a few times a second
    person.find("#listen b", "Part 1")

    # Steps, keys and the keys of a keyboard's media row.
    _press(person, "play")
    person.until(lambda: _bar(person)["state"] == "paused")
    slider = person.find("#listen input[type=range]")
    person.until(lambda: slider.is_enabled())
    end = float(slider.get_attribute("max") or 0)
    assert end > 3
    _press(person, "back")
    person.until(lambda: _position(person) == 0)
    _press(person, "forward")  # no further than the end
    person.until(lambda: _position(person) > end - 1.5)
    slider.send_keys("\ue011")  # Home
    person.until(lambda: _position(person) == 0)
    slider.send_keys("k")
    person.until(lambda: _bar(person)["state"] == "playing")
    metadata = person.script("return navigator.mediaSession.metadata.title")
    assert metadata == "Part 1"
    assert person.script("return navigator.mediaSession.metadata.album") == "Walks.md"

    # Faster, and on into the next chapter; the speed is for every chapter and page.
    person.find("#listen-speed option[value='3']").click()
    person.until(lambda: _bar(person)["number"] == "2")
    person.until(lambda: _bar(person)["state"] == "playing")
    assert person.script("return document.querySelector('#listen audio').playbackRate") == 3

    # The list of chapters, and the timer that ends with one.
    _press(person, "chapters")
    titles = ["Part 1", "Part 2", "Part 3"]
    person.until(lambda: [one.text for one in person.all("#listen ol button")] == titles)
    fits(person, axe)
    person.size(1440)
    person.click("#listen ol button", "Part 3")
    person.until(lambda: _bar(person)["number"] == "3")
    person.script("document.querySelector('#listen').dispatchEvent("
                  "new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))")  # fmt: skip
    person.until(lambda: not person.find("#listen").find_element(
        "css selector", ".listen-chapters").is_displayed())  # fmt: skip
    person.click("#listen [data-listen-part=previous]")
    person.find("#listen-sleep option[value=chapter]").click()
    person.until(lambda: _bar(person)["state"] == "paused")
    number, position = _bar(person)["number"], _position(person)
    person.find("#listen-sleep option[value='15']").click()
    person.says("Stops in 14:5", "#listen [role=status]")

    # Another book has its own position; the first one is found again where it was.
    other = _made(busy, "Rests", 2)
    person.open("/books")
    assert _bar(person)["state"] == "paused"  # it starts to play only where it did
    person.says("Stops in 14:", "#listen [role=status]")
    person.until(lambda: person.all(f"[data-job='{other}'][data-state=done]"))
    person.click(f"[data-job='{other}'] [data-listen]")
    person.until(lambda: _bar(person)["job"] == other)
    assert person.until(lambda: person.script(_PLAYED)).endswith(f"/jobs/{other}/chapters/1")
    _press(person, "close")
    assert not person.find("body").find_element("id", "listen").is_displayed()
    person.find(f"[data-job='{id}'] [data-listen-where]", f"Part {number}")
    person.driver.refresh()
    person.click(f"[data-job='{id}'] [data-listen]")
    person.until(lambda: _bar(person)["job"] == id)
    assert _bar(person)["number"] == number
    assert _position(person) >= position - 0.1
    # The end of the last chapter is the end of the book.
    person.click(f"[data-job='{id}'] [data-chapter='3']")
    person.says("end of the book", "#listen [role=status]")
    assert person.complaints() == []


_WATCH_AUDIO = """
const audio = document.querySelector('#listen audio');
window.watched = { audio, breaks: [], since: performance.now(), from: audio.currentTime };
for (const name of ['pause', 'emptied', 'seeking', 'waiting', 'stalled'])
  audio.addEventListener(name, () => window.watched.breaks.push(name));
"""
_HEARD = """
const { audio, breaks, since, from } = window.watched;
return { same: audio === document.querySelector('#listen audio'), breaks, now: audio.currentTime,
  lost: (performance.now() - since) / 1000 - (audio.currentTime - from) };
"""


def test_sound_plays_on_from_page_to_page(person: Browser, busy: Server) -> None:
    id = _made(busy, "Plays on", 1, 30)
    person.open("/books")
    person.until(lambda: person.all(f"[data-job='{id}'][data-state=done]"))
    person.click(f"[data-job='{id}'] [data-chapter='1']")
    person.until(lambda: person.script(_PLAYED))
    person.script(_WATCH_AUDIO)
    for page in ("Jobs", "Rig", "Documents", "Books"):
        before = person.script(_HEARD)["now"]
        person.click("#pages a", page)
        person.find("h1", page)
        person.until(lambda before=before: person.script(_HEARD)["now"] > before + 0.5)  # type: ignore[misc]
    heard = person.script(_HEARD)
    assert heard["same"]
    assert heard["breaks"] == []
    assert abs(heard["lost"]) < 0.5  # as much was heard as time has passed
    person.find(f"[data-job='{id}'] [data-chapter='1'][aria-current]")
    person.driver.back()
    person.find("h1", "Documents")
    assert person.script(_HEARD)["breaks"] == []
    _press(person, "close")
    assert person.complaints() == []


def test_the_plan_offers_captions_a_read_along_book_and_a_preview(
    person: Browser, busy: Server, tmp_path: Path
) -> None:
    file = tmp_path / "Two Lines.md"
    file.write_text("# The first\n\nI went out.\n\n# The second\n\nI came home.\n")
    _planned(person, file)
    chosen = person.all("[name=voice] option")[1]
    url = person.find("[data-preview]").get_attribute("data-preview")
    answer = busy.client.get(str(url))
    assert answer.headers["content-type"] == "audio/mpeg"
    assert heard(io.BytesIO(answer.content))[0] > 1
    assert busy.client.get("/voices/kokoro/nobody/sample").status_code == 404
    chosen.click()
    person.until(lambda: person.find("[data-preview]").get_attribute("data-preview") != url)
    person.click("[data-preview]")
    person.find("[data-preview][data-playing]")
    person.until(lambda: not person.all("[data-preview][data-playing]"))
    assert not person.all("#toasts .toast")
    person.click("[name=captions]")
    person.click("[name=read-along]")
    person.click("[data-plan=start]")
    id = str(person.find("[data-job]", "Two Lines").get_attribute("data-job"))
    asked = job_of(busy, id)["arguments"]
    assert asked["captions"] == ["srt", "vtt"]
    assert asked["read_along"] is True
    person.until(lambda: person.all(f"[data-job='{id}'][data-state=done]"), 120)
    names = person.until(lambda: [
        one.text for one in person.all(f"[data-job='{id}'] .file-name")] or None)  # fmt: skip
    assert {name.partition(".")[2] for name in names} == {
        "m4b", "srt", "vtt", "chapters.vtt", "readalong.epub"
    }  # fmt: skip
