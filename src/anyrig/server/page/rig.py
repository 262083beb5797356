"""The page of the rig: devices, how they are doing, which one is used, how fast they are."""

from __future__ import annotations

from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import heading


async def build(here: Here) -> None:
    """Fill the page."""
    heading(here.t("page.rig"))
