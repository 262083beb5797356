"""The documents page as a person uses it: files sent, indexed, asked in every way, deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import Server
from tests.server.long_work import fits, send, told

pytestmark = NEEDS
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
    for one in told(busy, "/uploads")["files"]:
        busy.client.delete(f"/uploads/{one['id']}")
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    person.open("/documents")
    send(person, *(tmp_path / name for name in TEXTS))
    person.until(lambda: len(person.all("[data-forget]")) == len(TEXTS))
    return {one["name"]: one["id"] for one in told(busy, "/uploads")["files"]}


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
    person.click("[data-do=search]")
    return person.find("[data-answer=search] [data-hit]")


def _ask(person: Browser, tab: str, **fields: str) -> str:
    person.click(f"[data-tab={tab}]")
    for name, value in fields.items():
        person.write(f"[name={name.replace('_', '-')}]", value)
    person.click(f"[data-do={tab}]")
    person.until(
        lambda: (said := person.find(f"[data-answer={tab}]").text) and "Working" not in said
    )
    return person.find(f"[data-answer={tab}]").text


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
    assert "similar" not in hit.text
    assert "alike" not in hit.text
    person.write("[name=question]", "xylophone\n")
    person.says("Nothing close was found", "[data-answer=search]")


def test_every_question_has_its_answer(
    person: Browser, busy: Server, desk: dict[str, str], axe: str
) -> None:
    _index(person, busy, "asked")
    found = _ask(person, "similar", similar_text="boats stay away at low tide")
    assert found.startswith("harbour.md")
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


def test_a_file_that_cannot_be_read_is_named(person: Browser, busy: Server, tmp_path: Path) -> None:
    broken, whole = tmp_path / "torn.pdf", tmp_path / "whole.txt"
    broken.write_bytes(b"%PDF-1.7 and then nothing")
    whole.write_text("The lamp in the hall is new.", encoding="utf-8")
    person.open("/documents")
    send(person, broken, whole)
    person.says("is there", ".drop-files")
    person.until(lambda: len(person.all("[data-forget]")) >= 2)
    _index(person, busy, "torn")
    person.says("Files that could not be read: 1", ".note")
    assert "torn.pdf" in person.find(".note").text
