"""The jobs page: all long-running work, live, with its actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from anyrig.server.page.components import (
    ConfirmDialog,
    button,
    empty_state,
    heading,
    link,
    row,
    tag,
)
from anyrig.server.page.job_cards import ACTIVE, POLL_INTERVAL_S, JobCard, JobCards, JobQuery
from anyrig.server.page.layout import PageContext

_FILTERS: Mapping[str, Sequence[str]] = {
    "all": (), "active": ACTIVE, "over": ("done", "failed", "cancelled"),
}  # fmt: skip


async def build(page: PageContext) -> None:
    jobs_page = JobsPage(page)
    page.run_every(POLL_INTERVAL_S, jobs_page.refresh)


class JobsPage:
    def __init__(self, page: PageContext) -> None:
        self._page, self._filter, t = page, "all", page.t
        heading(t("page.jobs"), t("jobs.lead"))
        with row("filters") as filters:
            filters.attributes(role="group", aria_label=t("jobs.filter"))
            self._filters = {
                name: button(t(f"jobs.{name}"), partial(self._set_filter, name), data_filter=name,
                             aria_pressed=str(name == self._filter).lower())
                for name in _FILTERS
            }  # fmt: skip
        self._empty = tag("div")
        dialog = ConfirmDialog(t)
        self._cards = JobCards(t, lambda job: JobCard(page, dialog, job, self.refresh))
        self._query = JobQuery(page.api)

    async def refresh(self) -> None:
        found = await self._query.fetch(self._cards.limit, _FILTERS[self._filter])
        self._show_empty("" if found.jobs else "none" if found.total_all else "empty")
        for card, job in self._cards.show(found.jobs, found.total):
            if job["state"] == "done":
                await card.show_files()

    async def _set_filter(self, chosen: str) -> None:
        self._filter = chosen
        for name, element in self._filters.items():
            element.attributes(aria_pressed=str(name == chosen).lower())
        await self.refresh()

    def _show_empty(self, which: str) -> None:
        t, place = self._page.t, self._empty
        if place.props.get("data-which") == which:
            return
        place.clear()
        place.attributes(data_which=which)
        if which == "none":
            with place:
                tag("p", t("jobs.none"), classes="soft")
        elif which == "empty":
            with place, empty_state(t("jobs.empty"), t("jobs.empty.do"), "jobs"), row("centre"):
                link(t("page.books"), "/books", classes="button primary")
                link(t("page.documents"), "/documents", classes="button plain")
