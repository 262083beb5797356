"""A server of its own for tests of long work on the page, with a person in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver

from anyrig.server.page.translations import LANGUAGES
from tests.server.browsing import Browser, visiting

if TYPE_CHECKING:
    from tests.server.conftest import Server

NARROW, WIDE = 320, 1440
BOOK = Path(__file__).parents[2] / "examples" / "the-tide-clock.epub"


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the server's owner lets requests name."""
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory, folders: Path) -> Iterator[Server]:
    """A server whose jobs are these tests' alone."""
    from tests.server.conftest import running

    more = {"ANYRIG_SERVER_FOLDERS": str(folders)}
    with running(tmp_path_factory.mktemp("busy"), environment=more) as found:
        yield found


@pytest.fixture
def person(driver: webdriver.Chrome, busy: Server) -> Iterator[Browser]:
    yield from visiting(driver, busy.url)


def told(server: Server, path: str) -> Any:
    return server.client.get(path, headers={"Accept": "application/json"}).json()


def job_of(server: Server, id: str) -> Any:
    return told(server, f"/jobs/{id}")


def send(person: Browser, *files: Path) -> None:
    """Choose files in the place where they may be dropped."""
    box = person.until(lambda: next(iter(person.all("input[type=file]")), None))
    box.send_keys("\n".join(map(str, files)))


def fits(person: Browser, axe: str) -> None:
    """The page as it is now has room on any screen and is open to all, in both themes."""
    for theme in ("light", "dark"):
        person.size(WIDE)
        person.click(f"[data-theme-choice={theme}]")
        for width in (NARROW, WIDE):
            person.size(width)
            for wrong in (person.overflow(), person.findings(axe)):
                assert wrong == [], (theme, width, wrong)
    assert person.complaints() == []


def fits_in_every_language(person: Browser) -> None:
    """The page as it is after a reload has room for the words of all three, on any screen."""
    for language in (*(one for one in LANGUAGES if one != "en"), "en"):
        person.size(WIDE)
        person.speak(language)
        person.until(lambda: person.find("#content").text)
        for width in (NARROW, WIDE):
            person.size(width)
            assert person.overflow() == [], (language, width)
    person.size(WIDE)
