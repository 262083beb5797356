"""The documents page: files on the left, what can be asked of them on the right."""

from __future__ import annotations

from collections.abc import Callable

from anyrig.server.page.documents_desk import Desk
from anyrig.server.page.documents_files import FilesCard
from anyrig.server.page.documents_index import IndexCard
from anyrig.server.page.documents_recordings import Recordings
from anyrig.server.page.documents_report import Report
from anyrig.server.page.documents_scans import Scans
from anyrig.server.page.documents_search import Search, Similar
from anyrig.server.page.documents_tasks import Classes, Entities, Summary
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs import LOOK_S
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.pieces import Tag, card, heading, tag

TABS: dict[str, Callable[[Desk], object]] = {
    "search": Search, "similar": Similar, "entities": Entities, "classes": Classes,
    "summary": Summary, "report": Report, "scans": Scans, "recordings": Recordings,
}  # fmt: skip


async def build(here: Here) -> None:
    """The page."""
    t = here.t
    heading(t("page.documents"), t("documents.lead"))
    with tag("div", classes="desk"):
        with tag("div", classes="stack"):
            ask = Ask(t)
            desk = Desk(here, ask)
            files = FilesCard(desk)
            index = IndexCard(desk)
        with card(classes="asks"):
            _tabs(desk)
    here.soon(files.refresh)
    here.soon(index.list)

    async def look() -> None:
        for follow in desk.followers:
            await follow()

    here.every(LOOK_S, look)


def _tabs(desk: Desk) -> None:
    """One panel at a time; arrows move between tabs, as everywhere."""
    t = desk.here.t
    first = desk.here.query.get("tab", "search")
    first = first if first in TABS else "search"
    tabs: dict[str, Tag] = {}
    panels: dict[str, Tag] = {}
    with tag("div", classes="tabs", role="tablist", aria_label=t("page.documents")) as bar:
        for name in TABS:
            tabs[name] = tag(
                "button", t(f"documents.tab.{name}"), type="button", role="tab", data_tab=name
            )
    bar.on("keydown", js_handler=_ARROWS)
    for name, made in TABS.items():
        with tag("div", classes="stack", role="tabpanel", tabindex="-1",
                 aria_labelledby=tabs[name].html_id) as panels[name]:  # fmt: skip
            made(desk)
        tabs[name].attributes(aria_controls=panels[name].html_id)

    def choose(chosen: str) -> None:
        for name, one in tabs.items():
            here = name == chosen
            one.attributes(aria_selected=str(here).lower(), tabindex="0" if here else "-1")
            panels[name].set_visibility(here)

    for name, one in tabs.items():
        one.on("click", lambda name=name: choose(name), args=[])
    choose(first)


_ARROWS = """(event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const tabs = [...event.currentTarget.querySelectorAll("[role=tab]")];
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
}"""
