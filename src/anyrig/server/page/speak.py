"""The page that speaks."""

from __future__ import annotations

from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import heading


async def build(here: Here) -> None:
    """Fill the page."""
    heading(here.t("page.speak"))
