"""Files that were sent: dropped, ticked, deleted for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anyrig.server.page.api import Refused
from anyrig.server.page.documents_desk import SOUNDS, Desk
from anyrig.server.page.jobs_facts import since
from anyrig.server.page.pieces import Drop, Field, Tag, badge, button, card, row, tag

Told = Mapping[str, Any]


class FilesCard:
    """The uploads, with ticks."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._fields: dict[str, Field] = {}
        self._badges: dict[str, Tag] = {}
        desk.take, desk.forget = self._dropped, self._ask
        desk.on_unread(self._mark)
        t = desk.here.t
        with card(t("documents.files")):
            Drop(t, self._dropped, what=t("documents.drop.kinds"))
            with row("ends") as self._head:
                self._count = tag("p", classes="soft", aria_live="polite")
                with row():
                    button(t("books.all"), lambda: self._tick(True), kind="quiet", data_files="all")
                    button(
                        t("books.none"), lambda: self._tick(False), kind="quiet", data_files="none"
                    )
            self._list = tag("ul", classes="file-list")

    async def _dropped(self, files: Sequence[Told]) -> None:
        new = [str(one["id"]) for one in files]
        self._desk.chosen += [id for id in new if id not in self._desk.chosen]
        await self.refresh()

    async def refresh(self) -> None:
        """What there is, by the API."""
        self._desk.files = list((await self._desk.here.api.get("/uploads"))["files"])
        there = [str(one["id"]) for one in self._desk.files]
        self._desk.chosen = [id for id in there if id in self._desk.chosen]
        self._fields.clear()
        self._badges.clear()
        self._list.clear()
        with self._list:
            for one in self._desk.files:
                self._row(one)
        self._mark()
        self._counted()

    def _row(self, file: Told) -> None:
        t, id, name = self._desk.here.t, str(file["id"]), str(file["name"])
        with tag("li"):
            with tag("div", classes="file-about"):
                self._fields[id] = Field(
                    "check", name, id in self._desk.chosen, on_change=self._changed,
                    name=f"file-{id}",
                )  # fmt: skip
                with tag("p", classes="soft figures"):
                    sound = [t("documents.recording")] if file["kind"] in SOUNDS else []
                    said = [*sound, t.bytes(file["size"]), since(file["made_at"])]
                    tag("span", " · ".join(said), data_sent=id)
                    self._badges[id] = badge(t("documents.unreadable"), "bad")
                    self._badges[id].set_visibility(id in self._desk.unread)
            button("", lambda: self._ask(id), kind="quiet", icon_name="bin",
                   label=t("documents.forget", name=name), data_forget=id)  # fmt: skip

    def _mark(self) -> None:
        """Those that could not be read say so, and are asked no more unless they are ticked."""
        for id, one in self._badges.items():
            before = one.visible
            one.set_visibility(id in self._desk.unread)
            if one.visible and not before:
                self._fields[id].show(False)
        self._changed()

    def _tick(self, all_of_them: bool) -> None:
        for field in self._fields.values():
            field.show(all_of_them)
        self._changed()

    def _changed(self) -> None:
        self._desk.chosen = [id for id, field in self._fields.items() if field.value]
        self._counted()

    def _counted(self) -> None:
        t, some, every = self._desk.here.t, len(self._desk.chosen), len(self._desk.files)
        self._head.set_visibility(bool(every))
        self._count.text = t("documents.files.chosen", some=some, all=every)

    def _ask(self, id: str) -> None:
        t = self._desk.here.t
        name = next((str(one["name"]) for one in self._desk.files if one["id"] == id), "")
        self._desk.ask.open(
            t("documents.forget.ask", name=name), t("documents.forget.what"), t("jobs.delete"),
            lambda: self._forget(id),
        )  # fmt: skip

    async def _forget(self, id: str) -> None:
        """Out of every index first: after that, nobody could tell what to take out."""
        api = self._desk.here.api
        for index in self._desk.indexes:
            try:
                await api.post(
                    f"/documents/indexes/{quote(str(index['name']))}/remove",
                    {"files": [f"upload:{id}"], "uploads": False},
                )
            except Refused as refused:
                if refused.status not in (400, 404):  # it is not in this one
                    raise
        await api.delete(f"/uploads/{id}")
        self._desk.unread.pop(id, None)
        await self.refresh()
        told = await api.get("/documents/indexes")
        self._desk.offer(told["indexes"])
