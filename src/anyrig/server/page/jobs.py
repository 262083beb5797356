"""The jobs page: all long work, live, with what can be asked of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from anyrig.server.page import jobs_facts
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.jobs_card import Changed, JobCard
from anyrig.server.page.jobs_facts import Told
from anyrig.server.page.pieces import Tag, button, empty, heading, link, row, safely, tag

LOOK_S = 1.0
MOST = 40
Card = Callable[[Told], JobCard]
_SHOWN: Mapping[str, Sequence[str]] = {
    "all": (), "active": jobs_facts.ACTIVE, "over": ("done", "failed", "cancelled"),
}  # fmt: skip


class Cards:
    """Cards of jobs in a column, the newest first; those that stay are not drawn anew.

    Old ones are left out until they are asked for: a year of jobs is too much for a page.
    """

    def __init__(self, here: Here, card: Card, most: int = MOST) -> None:
        self._card, self._most, self._t = card, most, here.t
        self._place = tag("div", classes="stack")
        self._older = button("", self._all, kind="quiet", data_do="older")
        with self._older:
            self._words = tag("span")
        self._older.set_visibility(False)
        self.cards: dict[str, JobCard] = {}

    def _all(self) -> None:
        self._most = sys.maxsize

    def show(self, jobs: Sequence[Told]) -> Sequence[Told]:
        """Bring all up to date, take away those that went, add new ones on top; those shown."""
        old = [job for job in jobs[self._most :] if job["state"] not in jobs_facts.ACTIVE]
        self._older.set_visibility(bool(old))
        self._words.text = self._t("jobs.older", count=self._t.number(len(old)))
        left_out = {str(job["id"]) for job in old}
        jobs = [job for job in jobs if str(job["id"]) not in left_out]
        there = {str(job["id"]) for job in jobs}
        for id in [id for id in self.cards if id not in there]:
            self._place.remove(self.cards.pop(id).element)
        for at, job in enumerate(jobs):
            id = str(job["id"])
            if id in self.cards:
                self.cards[id].show(job)
                continue
            with self._place:
                self.cards[id] = self._card(job)
            self.cards[id].element.move(target_index=at)
        return jobs


async def build(here: Here) -> None:
    """The page."""
    t = here.t
    heading(t("page.jobs"), t("jobs.lead"))
    shown = {"which": "all"}
    with row("filters") as filters:
        filters.attributes(role="group", aria_label=t("jobs.filter"))
        buttons = {name: button(t(f"jobs.{name}"), data_filter=name) for name in _SHOWN}
    nothing = tag("div")
    ask = Ask(t)
    cards = Cards(here, lambda job: JobCard(here, ask, job, refresh))

    async def refresh() -> None:
        told = jobs_facts.newest((await here.api.get("/jobs"))["jobs"])
        wanted = _SHOWN[shown["which"]]
        some = [job for job in told if not wanted or job["state"] in wanted]
        _say_none(here, nothing, any_jobs=bool(told), any_shown=bool(some))
        await _offer(cards, cards.show(some))

    def choose(which: str) -> Changed:
        async def chosen() -> None:
            shown["which"] = which
            for name, one in buttons.items():
                one.attributes(aria_pressed=str(name == which).lower())
            await refresh()

        return chosen

    for name, one in buttons.items():
        one.attributes(aria_pressed=str(name == "all").lower())
        one.on("click", safely(choose(name)), args=[])
    here.every(LOOK_S, refresh)


async def _offer(cards: Cards, jobs: Sequence[Told]) -> None:
    """Files of jobs that have made theirs."""
    for job in jobs:
        if job["state"] == "done":
            await cards.cards[str(job["id"])].offer()


def _say_none(here: Here, place: Tag, *, any_jobs: bool, any_shown: bool) -> None:
    t = here.t
    which = "" if any_shown else "none" if any_jobs else "empty"
    if place.props.get("data-which") == which:
        return
    place.clear()
    place.attributes(data_which=which)
    if which == "none":
        with place:
            tag("p", t("jobs.none"), classes="soft")
    elif which == "empty":
        with place, empty(t("jobs.empty"), t("jobs.empty.do"), icon_name="jobs"), row("centre"):
            link(t("page.books"), "/books", classes="button primary")
            link(t("page.documents"), "/documents", classes="button plain")
