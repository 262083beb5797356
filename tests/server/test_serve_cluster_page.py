"""The cluster page in a browser, over a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from selenium import webdriver

from anyrig.cluster.registry import WorkerInfo, WorkerRegistry
from anyrig.server.page.translations import get_translator
from anyrig.version import __version__
from tests.cluster.conftest import Broker
from tests.server.browsing import NEEDS, Browser, visiting
from tests.server.conftest import Start
from tests.server.long_work import fits, fits_in_every_language

pytestmark = [*NEEDS, pytest.mark.slow]
T = get_translator("en")


def lost(broker: Broker, name: str) -> None:
    link = broker.client
    card = WorkerInfo(name, __version__, instance="x", host="attic", device="NVIDIA RTX 4090")
    WorkerRegistry(link).write(card)
    link.close()
    broker.silence(name)


@pytest.fixture
def visitor(driver: webdriver.Chrome, broker: Broker, start: Start) -> Iterator[Browser]:
    server = start("--cluster", broker.url)
    found = visiting(driver, server.url)
    for browser in found:
        browser.server = server  # type: ignore[attr-defined]
        yield browser


def test_the_page_shows_workers_and_lets_them_leave(
    broker: Broker, visitor: Browser, axe: str
) -> None:
    link = broker.client
    fresh = WorkerInfo(
        "w1", __version__, instance="a", host="cellar", device="Xeon", speeds={"tone": 1234.0},
        segments_done=42, cached_models=("tone fp32",), tts_model_loaded=True,
    )  # fmt: skip
    roll = WorkerRegistry(link)
    roll.write(fresh)
    roll.write(replace(fresh, name="old", instance="b", version="0.0.1"))
    lost(broker, "ghost")
    end = time.monotonic() + 60

    def beat() -> bool:
        """The workers live as long as somebody gives signs for them."""
        assert time.monotonic() < end
        status = "draining" if roll.is_draining("w1") else "ready"
        roll.write(replace(fresh, status=status))
        roll.write(replace(fresh, name="old", instance="b", version="0.0.1"))
        return True

    visitor.open("/cluster")
    row = "[data-worker='w1']"
    for words_ in ("cellar", "Xeon", "1,234", "42", "tone fp32", __version__):
        visitor.until(lambda words_=words_: beat() and words_ in visitor.find(row).text)  # type: ignore[misc]
    assert "0.0.1" in visitor.find("[data-worker='old']").text
    assert f"this is {__version__}" in visitor.find("[data-worker='old']").text
    assert T("cluster.is.lost") in visitor.find("[data-worker='ghost']").text

    visitor.click(f"{row} [data-do=drain]")
    visitor.until(lambda: beat() and T("cluster.is.draining") in visitor.find(row).text)
    assert roll.is_draining("w1")
    visitor.click(f"{row} [data-do=undrain]")
    visitor.until(lambda: beat() and T("cluster.is.ready") in visitor.find(row).text)
    assert not roll.is_draining("w1")

    visitor.click("[data-worker='ghost'] [data-do=forget]")
    visitor.click("[data-ask=yes]")
    visitor.until(lambda: beat() and not visitor.all("[data-worker='ghost']"))
    assert "ghost" not in roll.list_names()
    beat()
    fits(visitor, axe)
    beat()
    fits_in_every_language(visitor)
    link.close()
