"""The jobs page: all long work, live, with what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anyrig.server.page import jobs_facts
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.jobs_asked import Looking
from anyrig.server.page.jobs_card import Changed, JobCard
from anyrig.server.page.jobs_facts import Told
from anyrig.server.page.pieces import Tag, button, empty, heading, link, row, safely, tag

LOOK_S = 1.0
MOST = 40
_MORE = 100
"""How many older ones are drawn each time that some are asked for."""
Card = Callable[[Told], JobCard]
_SHOWN: Mapping[str, Sequence[str]] = {
    "all": (), "active": jobs_facts.ACTIVE, "over": ("done", "failed", "cancelled"),
}  # fmt: skip


class Cards:
    """Cards of jobs in a column, the newest first; those that stay are not drawn anew.

    Old ones are left out until they are asked for: a year of jobs is too much for a page.
    """

    def __init__(self, here: Here, card: Card, most: int = MOST) -> None:
        self._card, self._t = card, here.t
        self.most = most
        """How many are to be asked for."""
        self._place = tag("div", classes="stack")
        self._older = button("", self._more, kind="quiet", data_do="older")
        with self._older:
            self._words = tag("span")
        self._older.set_visibility(False)
        self.cards: dict[str, JobCard] = {}

    def _more(self) -> None:
        self.most += _MORE

    def show(self, jobs: Sequence[Told], num: int = 0) -> None:
        """Bring all up to date, take away those that went, add new ones on top.

        Args:
            jobs: the newest first.
            num: how many there are; those that are not among the jobs can be asked for.
        """
        num_older = min(_MORE, num - len(jobs))
        self._older.set_visibility(num_older > 0)
        self._words.text = self._t("jobs.older", count=self._t.number(max(0, num_older)))
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
    looking = Looking(here.api)

    async def refresh() -> None:
        found = await looking.look(cards.most, _SHOWN[shown["which"]])
        _say_none(here, nothing, any_jobs=bool(found.num_all), any_shown=bool(found.jobs))
        cards.show(found.jobs, found.num)
        await _offer(cards, found.jobs)

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
