"""Indexes: made from files or from a folder, followed while they grow, deleted for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from anyrig.server.page import jobs_facts
from anyrig.server.page.api import ENGLISH
from anyrig.server.page.documents_desk import Desk
from anyrig.server.page.jobs import Cards
from anyrig.server.page.jobs_asked import Looking
from anyrig.server.page.jobs_card import JobCard
from anyrig.server.page.pieces import Field, button, card, row, tag, toast

DEFAULT = "default"
_MOST_NAMED = 10
_FEW = 10
Told = Mapping[str, Any]


class IndexCard:
    """What is searched, and how it comes to be."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._here, self._t = desk, desk.here, desk.here.t
        self._looking = Looking(desk.here.api, "index")
        self._over: set[str] = set()
        self._first = True
        t = self._t
        with card(t("documents.index")):
            self._facts = tag("ul", classes="file-list", data_indexes="list")
            self._name = Field(
                "text", t("documents.index.name"), desk.index or DEFAULT, name="index", live=True
            )
            self._add = button(
                t("documents.index.add"), self._files, kind="primary", icon_name="plus",
                data_do="index",
            )  # fmt: skip
            if self._here.api.folders:
                self._by_folder()
            self._cards = Cards(
                self._here, lambda job: JobCard(self._here, desk.ask, job, self.refresh, level=3)
            )
            self._unread = tag("div")
        desk.followers.append(self.refresh)

    def _by_folder(self) -> None:
        """Only below what the server's owner allows: a request may name no other."""
        t, folders = self._t, self._here.api.folders
        self._folder = Field(
            "text", t("documents.index.folder"), folders[0], name="folder", live=True,
            hint=", ".join(folders),
        )  # fmt: skip
        button(t("documents.index.folder.add"), self._named, icon_name="plus", data_do="folder")

    async def _files(self) -> None:
        await self._start(self._desk.sources(""))

    async def _named(self) -> None:
        await self._start({"folder": str(self._folder.value).strip()})

    async def _start(self, what: dict[str, Any]) -> None:
        name = str(self._name.value).strip() or DEFAULT
        await self._here.api.post("/jobs", {"kind": "index", "arguments": {**what, "index": name}})
        self._desk.index = name
        await self.refresh()

    async def refresh(self) -> None:
        """Jobs that index, as the API tells them: those at work, and the last one that ended."""
        jobs = (await self._looking.look(_FEW)).jobs
        at_work = [job for job in jobs if job["state"] in jobs_facts.ACTIVE]
        last = [job for job in jobs[:1] if job["state"] == "failed"]
        self._cards.show(at_work or last)
        over = {str(job["id"]): job for job in jobs if job["state"] == "done"}
        new = [job for id, job in over.items() if id not in self._over]
        self._over = set(over)
        if self._first:
            self._first = False
        elif new:
            await self.list()
            self._tell(new[0])

    def _tell(self, job: Told) -> None:
        """What came of it; files that could not be read are named with what to do."""
        t, result = self._t, job.get("result") or {}
        toast(t("documents.indexed", count=t.number(result.get("passages") or 0)), "good")
        failed = result.get("failed") or []
        self._unread.clear()
        if failed:
            with self._unread, tag("div", classes="note", role="alert"):
                tag("p", t("documents.unread", count=t.number(len(failed))), classes="note-title")
                for one in failed[:_MOST_NAMED]:
                    tag("p", f"{one['error']}. {one['hint']}", classes="soft", lang=ENGLISH)
            self._desk.mark([(str(one["file"]), str(one["error"])) for one in failed])

    async def list(self) -> None:
        """The indexes there are."""
        self._desk.offer((await self._here.api.get("/documents/indexes"))["indexes"])
        self._facts.clear()
        with self._facts:
            for one in self._desk.indexes:
                self._row(one)

    def _row(self, index: Told) -> None:
        t, name = self._t, str(index["name"])
        with tag("li", data_index=name):
            with tag("div", classes="grow"):
                tag("b", name)
                tag("p", t("documents.index.facts", files=t.number(index["files"]),
                           passages=t.number(index["passages"])), classes="soft")  # fmt: skip
            with row():
                button("", lambda: self._ask(name), kind="quiet", icon_name="bin",
                       label=f"{t('documents.index.delete')}: {name}",
                       data_drop=name)  # fmt: skip

    def _ask(self, name: str) -> None:
        t = self._t

        async def drop() -> None:
            await self._here.api.delete(f"/documents/indexes/{quote(name)}?uploads=false")
            await self.list()

        self._desk.ask.open(
            t("documents.index.ask", name=name), t("documents.index.what"), t("jobs.delete"), drop
        )
