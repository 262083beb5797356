"""The documents page as a person uses it: files sent, indexed, asked in every way, deleted."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from anyrig.server.page.jobs import format_time
from anyrig.server.page.translations import get_translator
from tests.server import documents_files
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server, environment_of, run_for
from tests.server.documents_files import scan
from tests.server.long_work import BOOK, fits, fits_in_every_language, job_of, send, told
from tests.text.formats.office_files import docx, p
from tests.text.formats.pdf_making import Leaf, pdf
from tests.text.page_reading import read_pages

pytestmark = NEEDS
FILE_INPUTS = "input[type=file]:not([webkitdirectory])"
TEXTS = {
    "lease.txt": "The rent of 850 euros is due on the first Monday of each month. The landlord "
    "may raise it once a year. Repairs of the roof and the boiler are paid by the landlord.",
    "harbour.md": "# The harbour\n\nThe tide clock in the harbour was built in 1891. It shows when "
    "the ferry can leave. Ships wait outside when the water is low.",
    "invoice.txt": "Invoice. Please pay 1,250.00 euros by 4 May 2026 for twelve oak doors. "
    "Questions: office@keller.example. IBAN DE89 3704 0044 0532 0130 00.",
}


@pytest.fixture
def desk(person: Browser, busy: Server, tmp_path: Path) -> dict[str, str]:
    """Three files that were sent by the page, and nothing else; their ids by name."""
    _clear(busy)
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    person.open("/documents")
    person.click("[name=follow]")  # these tests index by name
    send(person, *(tmp_path / name for name in TEXTS))
    person.until(lambda: len(person.all("[data-forget]")) == len(TEXTS))
    return {one["name"]: one["id"] for one in told(busy, "/uploads")["files"]}


def _clear(busy: Server) -> None:
    """Delete all uploads; those that an index job reads as soon as it has ended."""
    for one in told(busy, "/uploads")["files"]:
        busy.client.delete(f"/uploads/{one['id']}")


def _index(person: Browser, busy: Server, name: str) -> Any:
    """Index what is chosen, by clicking; the index as the API tells it."""
    person.write("[name=index]", name)
    person.click("[data-do=index]")
    person.find(f"[data-index={name}]")
    return _told(busy, name)


def _told(busy: Server, name: str) -> Any:
    found = told(busy, "/documents/indexes")["indexes"]
    return next((one for one in found if one["name"] == name), None)


def _search(person: Browser, question: str) -> Any:
    person.write("[name=question]", question)
    _press(person, "search")
    return person.find("[data-answer=search] [data-hit]")


def _ask(person: Browser, tab: str, **fields: str) -> str:
    person.click(f"[data-tab={tab}]")
    for name, value in fields.items():
        person.write(f"[name={name.replace('_', '-')}]", value)
    _press(person, tab)
    return person.find(f"[data-answer={tab}]").text


def _press(person: Browser, tab: str) -> None:
    """Ask, and wait until what was answered before has made room for the new answer."""
    before = f"[data-answer={tab}] > *"
    person.script(f"document.querySelectorAll('{before}').forEach((e) => e.dataset.old = 1)")
    person.click(f"[data-do={tab}]")
    person.until(lambda: not person.all(f"[data-answer={tab}] > [data-old]"))
    person.until(
        lambda: (said := person.find(f"[data-answer={tab}]").text) and "Working" not in said
    )


def test_files_are_indexed_and_searched(
    person: Browser, busy: Server, desk: dict[str, str], axe: str
) -> None:
    made = _index(person, busy, "papers")
    assert made["files"] == 3
    hit = _search(person, "when is the rent due")
    assert hit.get_attribute("data-hit") == "lease.txt"
    marks = [one.text for one in hit.find_elements("css selector", "mark")]
    assert "rent" in marks
    fits(person, axe)
    person.size(1440)
    person.find("[name=mode]").send_keys("Words")
    hit = _search(person, "ferry")
    assert hit.get_attribute("data-hit") == "harbour.md"
    assert "match" not in hit.text  # words have no similarity
    person.write("[name=question]", "xylophone\n")
    person.says("No matching passages", "[data-answer=search]")
    fits_in_every_language(person)


def test_refused_files_are_counted_with_their_reasons(
    person: Browser, busy: Server, tmp_path: Path
) -> None:
    _clear(busy)
    (tmp_path / "lease.txt").write_text(TEXTS["lease.txt"], encoding="utf-8")
    (tmp_path / "broken.pdf").write_bytes(bytes(range(128, 256)) * 40)
    person.open("/documents")
    person.click("[name=follow]")
    person.all(FILE_INPUTS)[0].send_keys(f"{tmp_path / 'lease.txt'}\n{tmp_path / 'broken.pdf'}")
    told_to_person = "1 of 2 files uploaded, 1 refused: broken.pdf is not a valid PDF (damaged?)"
    person.find(".drop-total", told_to_person)
    assert [one["name"] for one in told(busy, "/uploads")["files"]] == ["lease.txt"]


def test_a_hit_that_cannot_be_opened_says_why(person: Browser, busy: Server) -> None:
    folder = busy.home / "private"
    folder.mkdir(exist_ok=True)
    (folder / "owl.txt").write_text("The owl of the harbour sleeps by day.", encoding="utf-8")
    run_for(busy.home, "index", str(folder), "--index", "own", "--model", "hashing")
    person.open("/documents?index=own")
    hit = _search(person, "owl")
    assert str(folder / "owl.txt") in hit.text
    assert "outside the folders of the setting server.folders" in hit.text
    assert not hit.find_elements("css selector", "h3 a")


def test_a_folder_is_indexed_when_it_is_chosen_and_hits_open_their_page(
    person: Browser, busy: Server, tmp_path: Path, axe: str
) -> None:
    _clear(busy)
    folder = tmp_path / "papers"
    (folder / "deeper").mkdir(parents=True)
    for name, text in TEXTS.items():
        (folder / "deeper" / name).write_text(text, encoding="utf-8")
    leaves = [
        Leaf().put(60, 500, text)
        for text in ("The bakery opens at six.", "The zoo closes at noon.")
    ]
    (folder / "hours.pdf").write_bytes(pdf(leaves))
    book = documents_files.send(busy, novel_txt="Chapter one. It rained.")["novel.txt"]
    job = busy.client.post("/jobs", json={"kind": "book", "arguments": {"file": book}}).json()
    busy.client.post(f"/jobs/{job['id']}/cancel")
    planned = documents_files.send(busy, story_txt="Chapter one. It snowed.")["story.txt"]
    busy.client.post("/books/plan", json={"file": planned}).raise_for_status()
    person.open("/documents")
    person.write("[name=index]", "dropped" + Keys.TAB)
    person.all("input[webkitdirectory]")[0].send_keys(str(folder))
    person.find(".drop-total", "4 of 4 files uploaded")
    person.find("[data-index=dropped]")  # without another click
    assert _told(busy, "dropped")["files"] == 4
    person.until(lambda: person.find("[name=search-index]").get_attribute("value") == "dropped")
    hit = _search(person, "when does the zoo close")
    assert hit.get_attribute("data-hit") == "hours.pdf"
    address = str(hit.find_element("css selector", "h3 a").get_attribute("href"))
    assert address.endswith("#page=2")
    opened = busy.client.get(address.partition("#")[0])
    assert opened.headers["content-type"] == "application/pdf"
    assert opened.headers["content-disposition"].startswith("inline")
    assert opened.content == (folder / "hours.pdf").read_bytes()
    stranger = address.partition("?")[0] + "?file=/etc/passwd"
    assert busy.client.get(stranger).status_code == 400
    # The list: filtered, sorted, the files of books apart.
    names = "return [...document.querySelectorAll('.file-list:not([data-files]) [data-upload]')]"
    names += ".filter((one) => one.offsetParent).map((one) => one.dataset.upload)"
    person.find("[name=sort]").send_keys("Name")
    person.until(lambda: person.script(names) == sorted([*TEXTS, "hours.pdf"]))
    person.write("[name=filter]", "har")
    person.until(lambda: person.script(names) == ["harbour.md"])
    person.find(".job-details summary", "Files of audiobooks: 2")
    assert person.find("[name=follow]").is_selected()
    fits(person, axe)
    person.size(390)  # the search comes first on a phone
    assert person.find(".panels").location["y"] < person.find(".drop").location["y"]


def test_every_question_has_its_answer(
    person: Browser, busy: Server, desk: dict[str, str], axe: str
) -> None:
    _index(person, busy, "asked")
    found = _ask(person, "similar", similar_text="boats stay away at low tide")
    assert found.startswith("harbour.md")
    person.write("[name=similar-text]", Keys.DELETE)
    _ask(person, "similar")
    person.until(lambda: len(person.all("[data-answer=similar] .hbar")) == 3)  # each with each
    bars = person.all("[data-answer=similar] .hbar")
    for bar in bars:  # on a true scale: 100 % is a full bar
        share = float(bar.find_element("css selector", ".figures").text.rstrip("%"))
        style = bar.find_element("css selector", ".fill").get_attribute("style") or ""
        assert float(style.partition(":")[2].rstrip("%; ")) == pytest.approx(max(0.6, share), abs=1)
    pairs = [one.text for one in bars]
    for one, other in itertools.combinations(TEXTS, 2):
        assert any(one in pair and other in pair for pair in pairs)
    like = [one.get_attribute("data-like") for one in person.all("[data-like]")]
    assert set(like) == set(TEXTS)
    fits(person, axe)
    person.size(1440)
    person.click("[data-files=none]")
    person.says("0 of 3 chosen")
    assert "Choose one or more files" in _ask(person, "entities")
    person.click("[data-files=all]")
    person.says("3 of 3 chosen")
    found = _ask(person, "entities")
    for one in ("1,250.00 euros", "4 May 2026", "office@keller.example", "Bank account"):
        assert one in found
    fits(person, axe)
    person.size(1440)
    assert "Name at least two classes" in _ask(person, "classes", labels="invoice")
    _ask(person, "classes", labels="invoice, contract, place by the sea")
    row = person.find("[data-answer=classes] tr", "invoice.txt")
    assert row.get_attribute("data-class") == "invoice"
    found = _ask(person, "summary", sentences="1")
    assert person.find("[data-summary='lease.txt']").text in TEXTS["lease.txt"]
    _ask(person, "report")
    rows = person.all("[data-document]")
    assert {one.get_attribute("data-document") for one in rows} == set(TEXTS)
    fits(person, axe)


def test_tabs_by_keyboard(person: Browser, desk: dict[str, str]) -> None:
    person.click("[data-tab=search]")
    person.find("[data-tab=search]").send_keys("\ue014")  # the arrow to the right
    person.until(lambda: person.find("[data-tab=similar]").get_attribute("aria-selected") == "true")
    person.find("[name=similar-text]")
    focused = person.driver.switch_to.active_element.get_attribute("data-tab")
    assert focused == "similar"


def test_a_folder_that_is_allowed_is_indexed_by_its_name(
    person: Browser, busy: Server, folders: Path
) -> None:
    (folders / "notes").mkdir(exist_ok=True)
    (folders / "notes" / "keys.txt").write_text("The spare key hangs behind the blue door.")
    person.open("/documents")
    person.write("[name=index]", "notes")
    person.write("[name=folder]", "/etc")
    person.click("[data-do=folder]")
    person.toast("may not be named")
    assert _told(busy, "notes") is None
    person.write("[name=folder]", str(folders / "notes"))
    person.click("[data-do=folder]")
    person.find("[data-index=notes]")
    person.find("[name=search-index]").send_keys("notes")
    hit = _search(person, "where is the spare key")
    assert "keys.txt" in hit.text


def test_files_that_may_not_be_opened_are_shown_with_their_path(
    person: Browser, busy: Server, folders: Path, tmp_path: Path, axe: str
) -> None:
    """An index of the command line may contain files of any folder."""
    outside, inside = tmp_path / "elsewhere", folders / "allowed"
    for folder, text in ((outside, "The lantern hangs in the cellar."),
                         (inside, "The ladder stands in the attic.")):  # fmt: skip
        folder.mkdir()
        (folder / f"{folder.name}.txt").write_text(text)
    order = [sys.executable, "-m", "anyrig", "index", str(outside), str(inside), "--index", "mixed"]
    subprocess.run(order, env=environment_of(busy.home), check=True, capture_output=True)
    person.open("/documents?index=mixed")
    person.until(lambda: person.find("[name=search-index]").get_attribute("value") == "mixed")
    hit = _search(person, "where is the lantern")
    assert hit.get_attribute("data-hit") == "elsewhere.txt"
    assert str(outside / "elsewhere.txt") in hit.text
    assert not hit.find_elements("css selector", "a")
    fits(person, axe)
    person.size(1440)
    hit = _search(person, "where is the ladder")
    address = str(hit.find_element("css selector", "h3 a").get_attribute("href"))
    assert busy.client.get(address.partition("#")[0]).text == "The ladder stands in the attic."
    assert str(folders) not in hit.text


def test_a_hit_in_a_file_that_browsers_do_not_show_is_read_as_text(
    person: Browser, busy: Server, tmp_path: Path, axe: str
) -> None:
    _clear(busy)
    hostile = "&lt;img src=x onerror=document.title=1&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
    steps = [p(f"Step {n} of the tour leads past house number {n}.") for n in range(450)]
    body = p("The tour", "berschrift1") + "".join(steps)
    log = "".join(p(f"Line {n} of the log speaks of the weather only.") for n in range(40))
    keeper = p(f"The keeper of the lighthouse feeds quokkas. {hostile}")
    body += p("The lighthouse", "berschrift1") + log + keeper + log
    docx(tmp_path / "tour.docx", body)
    person.open("/documents")
    person.write("[name=index]", "tour" + Keys.TAB)
    send(person, tmp_path / "tour.docx", BOOK)
    person.until(lambda: person.all("[data-index=tour]"), 240)
    person.until(lambda: person.find("[name=search-index]").get_attribute("value") == "tour")

    def read(question: str) -> None:
        address = _search(person, question).find_element("css selector", "h3 a")
        assert address.get_attribute("target") == "_blank"
        person.driver.get(str(address.get_attribute("href")))
        person.find(".reading mark")

    read("who feeds the quokkas")
    assert person.find("h1").text == "tour.docx"
    assert person.driver.title == "tour.docx · anyrig"
    assert "The lighthouse" in [one.text for one in person.all(".reading h2")]
    marked = " ".join(one.text for one in person.all(".reading mark"))
    assert "feeds quokkas. <img src=x onerror=document.title=1><script>alert(1)" in marked
    assert person.all(".reading img, .reading script") == []
    person.until(lambda: person.driver.switch_to.active_element.tag_name == "mark")
    top = "const { top, bottom } = document.querySelector('.reading mark').getBoundingClientRect();"
    assert person.script(f"{top} return scrollY > 0 && top >= 0 && bottom <= innerHeight")
    fits(person, axe)
    fits_in_every_language(person)
    saved = Path(person.driver.downloads) / "tour.docx"  # type: ignore[attr-defined]
    person.click("[data-do=download]")
    data = (tmp_path / "tour.docx").read_bytes()
    person.until(lambda: saved.exists() and saved.read_bytes() == data)

    # What is long comes in parts.
    person.find(".badge", "Part ")
    person.find("[data-do=previous]").send_keys(Keys.ENTER)
    person.until(lambda: "Step 449 of the tour" in person.find(".reading").text)
    assert person.all(".reading mark") == []
    assert len(person.find(".reading").text) < 25_000

    person.open("/documents?index=tour")
    read("tide clock")
    assert person.find("h1").text == BOOK.name
    assert person.complaints() == []

    # What may not be opened is not read either.
    person.open("/read?index=tour&file=/etc/passwd")
    person.find(".trouble")
    assert "root:" not in person.find("body").text


def test_the_progress_of_an_index_moves_with_its_files(
    person: Browser, busy: Server, folders: Path
) -> None:
    folder = folders / "many"
    folder.mkdir()
    for number in range(150):
        words = " ".join(f"Note {number} on house {one}." for one in range(400))
        (folder / f"{number}.txt").write_text(words)
    person.open("/documents")
    person.write("[name=index]", "many")
    person.write("[name=folder]", str(folder))
    person.click("[data-do=folder]")
    seen: dict[int, str] = {}

    def look() -> bool:
        for card in person.all("#index [data-job]"):
            share = card.find_element("css selector", "[role=progressbar]")
            text = card.find_element("css selector", ".meter").text
            seen[int(share.get_attribute("aria-valuenow") or 0)] = text
        return len([share for share in seen if 0 < share < 100]) >= 3

    person.until(look, 240)
    assert any("of 150 files" in text for text in seen.values()), seen
    id = told(busy, "/jobs?kind=index&state=running")["jobs"][0]["id"]
    busy.client.post(f"/jobs/{id}/cancel")
    person.until(lambda: job_of(busy, id)["state"] == "cancelled")


def test_files_and_indexes_go_for_good(
    person: Browser, busy: Server, desk: dict[str, str]
) -> None:  # fmt: skip
    assert _index(person, busy, "going")["files"] == 3
    id = desk["invoice.txt"]
    person.click(f"[data-forget='{id}']")
    person.click(".ask[open] .button", "Keep it")
    person.until(lambda: not person.all(".ask[open]"))
    assert busy.client.get(f"/uploads/{id}").status_code == 200
    person.click(f"[data-forget='{id}']")
    person.click(".ask[open] [data-ask=yes]")
    person.until(lambda: not person.all(f"[data-forget='{id}']"))
    assert busy.client.get(f"/uploads/{id}").status_code == 404
    assert _told(busy, "going")["files"] == 2
    person.click("[data-drop=going]")
    person.click(".ask[open] [data-ask=yes]")
    person.until(lambda: not person.all("[data-index=going]"))
    assert _told(busy, "going") is None
    assert busy.client.get(f"/uploads/{desk['lease.txt']}").status_code == 200


def test_a_file_that_cannot_be_read_is_named_marked_and_deleted(
    person: Browser, busy: Server, tmp_path: Path, axe: str
) -> None:
    _clear(busy)
    broken, whole, useless = tmp_path / "torn.pdf", tmp_path / "whole.txt", tmp_path / "run.exe"
    broken.write_bytes(b"%PDF-1.7 and then nothing")
    whole.write_text("The lamp in the hall is new.", encoding="utf-8")
    useless.write_bytes(b"MZ" + bytes(2000))
    person.open("/documents")
    person.write("[name=index]", "torn" + Keys.TAB)
    send(person, broken, whole, useless)
    person.find(".drop-files .failed", "run.exe is not a supported kind of file")
    person.until(lambda: len(person.all("[data-forget]")) == 2)
    person.until(lambda: len(told(busy, "/uploads")["files"]) == 2)
    ids = {one["name"]: one["id"] for one in told(busy, "/uploads")["files"]}
    person.says("Files that could not be read: 1", ".note")
    assert "torn.pdf is not a valid PDF (damaged?)" in person.find(".note").text
    assert ids["torn.pdf"] not in person.find(".note").text
    person.find(".file-list .badge", "Cannot be read")
    person.says("1 of 2 chosen")
    person.click("[data-files=all]")
    for tab in ("report", "entities"):
        assert "torn.pdf is not a valid PDF (damaged?)" in _ask(person, tab)
        assert ids["torn.pdf"] not in person.find(f"[data-answer={tab}]").text
        person.click("[data-files=all]")
    fits(person, axe)
    person.size(1440)
    person.click("[data-answer=entities] [data-rid]")
    person.click(".ask[open] [data-ask=yes]")
    person.until(lambda: len(person.all("[data-forget]")) == 1)
    assert busy.client.get(f"/uploads/{ids['torn.pdf']}").status_code == 404


def test_files_of_one_name_are_told_apart_by_when_they_came(
    person: Browser, busy: Server, tmp_path: Path
) -> None:
    file = tmp_path / "a letter with quite a long name, as people give them.txt"
    file.write_text("The lamp in the hall is new.", encoding="utf-8")
    person.size(360)
    person.open("/documents")
    person.click("[name=follow]")
    for number in (1, 2):
        send(person, file)
        person.until(lambda number=number: sum(  # type: ignore[misc]
            file.name in one.text for one in person.all(".file-list li")) == number)  # fmt: skip
    rows = [one for one in person.all(".file-list li") if file.name in one.text]
    for row, upload in zip(rows, told(busy, "/uploads")["files"], strict=False):
        assert format_time(upload["made_at"]) in row.text
        name = row.find_element("css selector", ".check").rect
        delete = row.find_element("css selector", "[data-forget]").rect
        assert delete["y"] < name["y"] + name["height"] + 24  # beside it, not below
        assert delete["x"] > name["x"] + name["width"] - 1


def test_scans_become_text(person: Browser, tmp_path: Path, axe: str) -> None:
    t = get_translator("en")
    file = tmp_path / "boiler.png"
    file.write_bytes(scan())
    person.open("/documents?tab=scans")
    person.click("[data-do=scans]")
    person.find("[data-answer=scans] .trouble", t("documents.scans.choose"))
    person.until(lambda: len(person.all(FILE_INPUTS)) == 2)
    person.all(FILE_INPUTS)[1].send_keys(str(file))
    read = person.find("[data-scan='boiler.png']")
    assert "mended by the plumber" in read.text
    fits(person, axe)
    person.size(1440)
    saved = Path(person.driver.downloads)  # type: ignore[attr-defined]
    person.click("[data-save=text]", t("documents.scans.text"))
    person.until(lambda: (saved / "boiler.txt").exists())
    assert "mended by the plumber" in (saved / "boiler.txt").read_text(encoding="utf-8")
    person.click("[data-save=pdf]", t("documents.scans.pdf"))
    person.until(lambda: (saved / "boiler.pdf").exists())
    assert "plumber" in read_pages(saved / "boiler.pdf").text


def test_recordings_become_text(person: Browser, busy: Server, tmp_path: Path, axe: str) -> None:
    asked = {"model": "tts-1", "voice": "heart", "response_format": "wav",
             "input": "The train leaves the harbour in the morning."}  # fmt: skip
    file = tmp_path / "talk.wav"
    file.write_bytes(busy.client.post("/v1/audio/speech", json=asked).content)
    person.open("/documents?tab=recordings")
    person.click("[data-do=recordings]")
    person.toast("Choose a recording first")
    person.until(lambda: len(person.all(FILE_INPUTS)) == 2)
    person.all(FILE_INPUTS)[1].send_keys(str(file))
    person.find(".drop-files .done")
    person.until(lambda: any(one["name"] == "talk.wav" for one in told(busy, "/uploads")["files"]))
    assert told(busy, "/jobs?kind=transcribe")["jobs"] == []  # nothing begins unasked
    person.click("[data-do=recordings]")
    card = person.find("[data-answer=recordings] [data-job]")
    person.click("[data-do=recordings]")  # once more: at most one job a recording at a time
    person.until(lambda: person.all("#toasts .toast") or len(told(busy, "/jobs")["jobs"]) > 1)
    active = [one for one in told(busy, "/jobs?kind=transcribe")["jobs"]
              if one["state"] in ("queued", "running")]  # fmt: skip
    assert len(active) <= 1
    id = str(card.get_attribute("data-job"))
    person.open("/documents?tab=recordings")  # left, and found again
    heard = person.find(f"[data-transcript='{id}']").text.lower()
    assert "harbour" in heard or "harbor" in heard
    fits(person, axe)
    person.size(1440)
    made = told(busy, f"/jobs/{id}/files")["files"]
    assert [one["name"] for one in made] == ["talk.txt", "talk.srt"]
    person.click(f"[data-job='{id}'] [data-file='1']")
    saved = Path(person.driver.downloads) / "talk.txt"  # type: ignore[attr-defined]
    person.until(lambda: saved.exists() and saved.stat().st_size == made[0]["size"])
    # A recording is no text: asked for names and dates, the page says what to do with it.
    person.click("[data-files=none]")
    upload = job_of(busy, id)["arguments"]["file"].partition(":")[2]
    person.click(f"[name=file-{upload}]")
    assert "Only recordings are chosen" in _ask(person, "entities")
