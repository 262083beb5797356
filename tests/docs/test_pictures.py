"""docs/web-page.md shows every page of the server, light and dark, and every picture kept."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from anyrig.server.page.layout import PageInfo
from anyrig.server.page.main import PAGES
from tests.docs.pages import ROOT

IMAGES = ROOT / "docs" / "images"
THEMES = {"light": (200, 255), "dark": (0, 60)}
"""How bright the ground of each is: the corner of a picture is nothing but ground."""


def _shown() -> dict[str, str]:
    """By its file's name, what the page says a picture is."""
    text = (ROOT / "docs" / "web-page.md").read_text(encoding="utf-8")
    return {name: said for said, name in re.findall(r"!\[([^\]]*)\]\(images/([^)]+)\)", text)}


def test_every_picture_is_shown_and_every_shown_one_is_there() -> None:
    assert set(_shown()) == {path.name for path in IMAGES.iterdir()}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
def test_each_page_is_shown_in_both_themes(page: PageInfo, theme: str) -> None:
    name = f"{page.key}-{theme}.png"
    assert _shown()[name] == f"{page.key.title()}, {theme}"
    darkest, brightest = THEMES[theme]
    with Image.open(IMAGES / name) as picture:
        assert picture.width in (1280, 1440)
        assert picture.height >= 600
        corner = picture.convert("L").getpixel((4, 200))
    assert isinstance(corner, int)
    assert darkest <= corner <= brightest
