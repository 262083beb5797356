"""The cluster page. Several machines are not joined yet: it says so, and points at this one."""

from __future__ import annotations

from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import empty, heading, link


async def build(here: Here) -> None:
    """The page."""
    t = here.t
    heading(t("page.cluster"), t("cluster.lead"))
    with empty(t("cluster.empty"), t("cluster.empty.do"), icon_name="cluster"):
        link(t("cluster.rig"), "/", classes="button primary")
