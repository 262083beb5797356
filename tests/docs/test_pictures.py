"""docs/web-page.md shows every page of the server, light and dark, and every picture kept."""

from __future__ import annotations

import re

from anyrig.server.page.main import PAGES
from tests.docs.pages import ROOT


def test_every_page_is_shown_in_both_themes_and_every_picture_is_there() -> None:
    text = (ROOT / "docs" / "web-page.md").read_text(encoding="utf-8")
    shown = {name: said for said, name in re.findall(r"!\[([^\]]*)\]\(images/([^)]+)\)", text)}
    assert set(shown) == {path.name for path in (ROOT / "docs" / "images").iterdir()}
    for page in PAGES:
        for theme in ("light", "dark"):
            assert shown[f"{page.key}-{theme}.png"] == f"{page.key.title()}, {theme}"
