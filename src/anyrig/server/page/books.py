"""The books page: drop a file, tick chapters, hear them while the rest is made.

What is shown comes from the API alone: a page that is closed finds its books again, and a plan that
was being looked at stands in the address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from nicegui import ui

from anyrig.server.page.api import Refused
from anyrig.server.page.books_card import BookCard
from anyrig.server.page.books_plan import PlanCard
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs import LOOK_S, Cards
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.jobs_asked import Looking
from anyrig.server.page.pieces import Drop, button, card, empty, heading, tag, toast, trouble

ACCEPT = ".epub,.pdf,.docx,.odt,.fb2,.html,.htm,.xhtml,.md,.txt,.rtf,.mobi,.azw3"


async def build(here: Here) -> None:
    """The page."""
    page = _Page(here)
    if "file" in here.query:
        here.soon(lambda: page.read(here.query["file"]))
    here.every(LOOK_S, page.refresh)


class _Page:
    def __init__(self, here: Here) -> None:
        self._here = here
        t = here.t
        heading(t("page.books"), f"{t('books.lead')} {here.privacy}")
        self._place = tag("div", classes="stack")
        tag("h2", t("books.index_files"), classes="section-title")
        self._nothing = tag("div")
        with self._nothing:
            empty(t("books.empty"), t("books.empty.do"), icon_name="book")
        self._nothing.set_visibility(False)
        ask = Ask(t)
        self._cards = Cards(here, lambda job: BookCard(here, ask, job, self.refresh))
        self._looking = Looking(here.api, "book")
        if "file" not in here.query:
            self.offer()

    def offer(self) -> None:
        """A place to drop a book."""
        t = self._here.t
        self._place.clear()
        with self._place:
            Drop(
                t,
                self._dropped,
                what=t("books.drop.kinds"),
                accept=ACCEPT,
                many=False,
                any_kind=True,
            )

    async def _dropped(self, files: Sequence[Mapping[str, Any]]) -> None:
        if not files or await self.read(str(files[0]["id"])):
            return
        with suppress(Refused):  # nobody finds it again, so nobody would delete it
            await self._here.api.delete(f"/uploads/{files[0]['id']}")

    async def read(self, id: str) -> bool:
        """Open a book that was sent, and show what could be made of it; whether it is a book."""
        t, api = self._here.t, self._here.api
        self._place.clear()
        with self._place, card(classes="centre"):
            tag("p", t("books.reading"), role="status")
        ui.navigate.history.replace(f"/books?file={id}")
        try:
            plan = await api.post("/books/plan", {"file": f"upload:{id}"})
            config = await api.get("/config")
        except Refused as refused:
            self._refuse(refused)
            ui.navigate.history.replace("/books")
            return refused.status != 400
        self._place.clear()
        with self._place:
            PlanCard(self._here, id, plan, config, self._start, self._leave)
        return True

    def _refuse(self, refused: Refused) -> None:
        self._place.clear()
        with self._place, trouble(refused.title, refused.hint, lang=refused.lang):
            button(self._here.t("books.other"), self._leave)

    def _leave(self) -> None:
        ui.navigate.history.replace("/books")
        self.offer()

    async def _start(self, arguments: Mapping[str, Any]) -> None:
        await self._here.api.post("/jobs", {"kind": "book", "arguments": dict(arguments)})
        toast(self._here.t("books.started"), "good")
        self._leave()
        await self.refresh()

    async def refresh(self) -> None:
        """The books as they stand."""
        found = await self._looking.look(self._cards.most)
        self._nothing.set_visibility(not found.jobs)
        self._cards.show(found.jobs, found.num)
        for job in found.jobs:
            one = self._cards.cards[str(job["id"])]
            assert isinstance(one, BookCard)
            await one.look(job)
