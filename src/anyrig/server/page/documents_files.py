"""Files that were sent: dropped, ticked, deleted for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anyrig.server.page.api import Refused
from anyrig.server.page.documents_desk import Desk
from anyrig.server.page.pieces import Drop, Field, button, card, row, tag

Told = Mapping[str, Any]


class FilesCard:
    """The uploads, with ticks."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._fields: dict[str, Field] = {}
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
        self._list.clear()
        with self._list:
            for one in self._desk.files:
                self._row(one)
        self._counted()

    def _row(self, file: Told) -> None:
        t, id, name = self._desk.here.t, str(file["id"]), str(file["name"])
        with tag("li"):
            self._fields[id] = Field(
                "check", name, id in self._desk.chosen, on_change=self._changed, name=f"file-{id}"
            )
            tag("span", t.bytes(file["size"]), classes="soft figures")
            button("", lambda: self._ask(id, name), kind="quiet", icon_name="bin",
                   label=t("documents.forget", name=name), data_forget=id)  # fmt: skip

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

    def _ask(self, id: str, name: str) -> None:
        t = self._desk.here.t
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
        await self.refresh()
        told = await api.get("/documents/indexes")
        self._desk.offer(told["indexes"])
