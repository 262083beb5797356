"""The documents page: files and indexes on the left, what can be done with them on the right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from anyrig.server.page.api import ENGLISH, ApiError
from anyrig.server.page.components import (
    Field,
    FileDrop,
    Tag,
    badge,
    button,
    card,
    command_box,
    heading,
    row,
    show_toast,
    show_warnings,
    tag,
)
from anyrig.server.page.document_panels import AUDIO_KINDS, PANELS
from anyrig.server.page.jobs import (
    ACTIVE,
    POLL_INTERVAL_S,
    Job,
    JobCard,
    JobCards,
    JobQuery,
    format_time,
)
from anyrig.server.page.layout import PageContext
from anyrig.server.page.translations import Translator

Json = Mapping[str, Any]
_NEEDED_FEATURES = {"entities": "names", "scans": "ocr", "recordings": "transcription"}
_ORDERS: Mapping[str, Callable[[Json], Any]] = {
    "new": lambda file: -float(file["made_at"]),
    "name": lambda file: str(file["name"]).lower(),
    "large": lambda file: -int(file["size"]),
}
_DEFAULT_INDEX = "default"
_MAX_FAILED_FILES = 10
_NUM_INDEX_JOBS = 10
_MOVE_BETWEEN_TABS = """(event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const tabs = [...event.currentTarget.querySelectorAll("[role=tab]")];
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
}"""


async def build(page: PageContext) -> None:
    t = page.t
    where = t("documents.cluster" if page.api.uses_cluster else "frame.local")
    heading(t("page.documents"), f"{t('documents.lead')} {where}")
    found = (await page.api.get("/documents/features", language=t.language))["features"]
    features = {str(one["name"]): one for one in found}
    with tag("div", classes="columns"):
        with tag("div", classes="stack"):
            files = FilesCard(page)
            index = IndexCard(page, files)
        with card(classes="panels"):
            _build_tabs(page, files, index, features)
    files.on_add, files.on_delete = index.index_new, index.load
    page.run_soon(files.load)
    page.run_soon(index.load)
    page.run_every(POLL_INTERVAL_S, index.refresh)


def _build_tabs(
    page: PageContext, files: FilesCard, index: IndexCard, features: Mapping[str, Json]
) -> None:
    """One panel at a time, built when it is first opened; arrow keys move between the tabs."""
    t = page.t
    tabs: dict[str, Tag] = {}
    places: dict[str, Tag] = {}
    with tag("div", classes="tabs", role="tablist", aria_label=t("page.documents")) as bar:
        for name in PANELS:
            tabs[name] = tag(
                "button", t(f"documents.tab.{name}"), type="button", role="tab", data_tab=name
            )
    bar.on("keydown", js_handler=_MOVE_BETWEEN_TABS)
    for name in PANELS:
        places[name] = tag("div", classes="stack", role="tabpanel", tabindex="-1",
                           aria_labelledby=tabs[name].html_id)  # fmt: skip
        tabs[name].attributes(aria_controls=places[name].html_id)
    built: set[str] = set()

    def select(selected: str) -> None:
        for name, element in tabs.items():
            chosen = name == selected
            element.attributes(aria_selected=str(chosen).lower(), tabindex="0" if chosen else "-1")
            places[name].set_visibility(chosen)
        if selected not in built:
            built.add(selected)
            with places[selected]:
                _show_missing(page.t, features.get(_NEEDED_FEATURES.get(selected, "")))
                PANELS[selected](page, files, index)

    def open_tab(name: str) -> None:
        select(name)
        page.set_query("tab", name)

    for name, element in tabs.items():
        element.on("click", lambda name=name: open_tab(name), args=[])
    first = page.query.get("tab", "")
    select(first if first in PANELS else "search")


def _show_missing(t: Translator, feature: Json | None) -> None:
    """Say what is not installed before anything is uploaded for it, with the command."""
    if feature is None or feature["installed"]:
        return
    name = str(feature["name"])
    with tag("div", classes="note", role="note", data_missing=name):
        tag("p", t(f"documents.missing.{name}"), classes="note-title")
        if feature["fix"]:
            tag("p", t("documents.missing.fix"))
            command_box(t, str(feature["fix"]))


class FilesCard:
    """The uploaded files: added, filtered, sorted, chosen, deleted; those of books apart."""

    def __init__(self, page: PageContext) -> None:
        self._page, t = page, page.t
        self.files: list[Json] = []
        self.on_add: Callable[[Sequence[Json]], Awaitable[None]] | None = None
        self.on_delete: Callable[[], Awaitable[None]] | None = None
        self._chosen: list[str] = []
        self._unreadable: set[str] = set()
        self._fields: dict[str, Field] = {}
        self._badges: dict[str, Tag] = {}
        self._rows: list[tuple[str, Tag]] = []
        with card(t("documents.files")) as element:
            element.attributes(id="files")
            FileDrop(t, self._add_dropped, kinds=t("documents.drop.kinds"), folders=True)
            with tag("div", classes="list-tools") as self._tools:
                self._filter = Field(
                    "search", t("documents.filter"), live=True, bare=True, name="filter",
                    placeholder=t("documents.filter"), on_change=self._filter_list,
                )  # fmt: skip
                self._order = Field(
                    "select", t("documents.sort"), "new", bare=True, name="sort",
                    options=[(one, t(f"documents.sort.{one}")) for one in _ORDERS],
                    on_change=self._show_list, keep="documents.sort",
                )  # fmt: skip
            with row("ends") as self._head:
                self._count = tag("p", classes="soft", aria_live="polite")
                with row():
                    for name, chosen in (("all", True), ("none", False)):
                        button(t(f"books.{name}"), partial(self._choose_all, chosen),
                               kind="quiet", data_files=name)  # fmt: skip
            self._list = tag("ul", classes="file-list")
            self._no_match = tag("p", t("documents.filter.none"), classes="soft")
            with tag("details", classes="job-details") as self._book_files:
                self._book_title = tag("summary")
                self._book_list = tag("ul", classes="file-list", data_files="books")

    def list_chosen(self, *kinds: str) -> list[Json]:
        """The chosen files, of some kinds or of all."""
        return [one for one in self.files
                if one["id"] in self._chosen and (not kinds or one["kind"] in kinds)]  # fmt: skip

    def build_sources(self, text: str = "") -> dict[str, Any]:
        """The sources of a request: the text, or the chosen files if there is none."""
        t = self._page.t
        if text.strip():
            return {"texts": [text]}
        if not self._chosen:
            raise ApiError(400, t("documents.choose"))
        documents = [one for one in self.list_chosen() if one["kind"] not in AUDIO_KINDS]
        if not documents:
            raise ApiError(400, t("documents.sounds_alone"), t("documents.sounds_alone.do"))
        return {"files": [f"upload:{one['id']}" for one in documents]}

    def find_id(self, name: str) -> str:
        """The upload with this id, or the only one with this name."""
        ids = [str(one["id"]) for one in self.files if name in (one["id"], one["name"])]
        return ids[0] if len(ids) == 1 else ""

    async def _add_dropped(self, uploads: Sequence[Json]) -> None:
        await self.add(uploads)
        if self.on_add is not None:
            await self.on_add(uploads)

    async def add(self, uploads: Sequence[Json], *, only: bool = False) -> None:
        """Choose new uploads, with `only` instead of the other files."""
        self._chosen = [*([] if only else self._chosen), *(str(one["id"]) for one in uploads)]
        await self.load()

    async def load(self) -> None:
        self.files = list((await self._page.api.get("/uploads"))["files"])
        ids = [str(one["id"]) for one in self.files]
        self._chosen = [id for id in ids if id in self._chosen]
        self._show_list()

    def _show_list(self) -> None:
        """Build the list in the chosen order."""
        t, key = self._page.t, _ORDERS[str(self._order.value)]
        self._fields.clear()
        self._badges.clear()
        self._rows.clear()
        self._list.clear()
        self._book_list.clear()
        files = sorted(self.files, key=key)
        books = [file for file in files if _is_book(file)]
        with self._list:
            for file in files:
                if not _is_book(file):
                    self._build_row(file)
        with self._book_list:
            for file in books:
                self._build_row(file)
        self._book_title.text = t("documents.files.books", count=len(books))
        self._book_files.set_visibility(bool(books))
        self.mark_unreadable(())
        self._filter_list()

    def _filter_list(self) -> None:
        """Show the files whose names have the words of the filter."""
        words = self._filter.text.lower().split()
        for name, element in self._rows:
            element.set_visibility(all(word in name.lower() for word in words))
        self._no_match.set_visibility(
            bool(self._rows) and not any(element.visible for _, element in self._rows)
        )
        self._update_chosen()

    def _build_row(self, file: Json) -> None:
        t, id, name = self._page.t, str(file["id"]), str(file["name"])
        with tag("li", data_upload=name) as element:
            self._rows.append((name, element))
            with tag("div", classes="file-about"):
                self._fields[id] = Field(
                    "check", name, id in self._chosen, on_change=self._update_chosen,
                    name=f"file-{id}",
                )  # fmt: skip
                with tag("p", classes="soft figures"):
                    kind = t("documents.recording") if file["kind"] in AUDIO_KINDS else ""
                    parts = [kind, t.bytes(file["size"]), format_time(file["made_at"])]
                    tag("span", " · ".join(filter(None, parts)), data_sent=id)
                    self._badges[id] = badge(t("documents.unreadable"), "bad")
                    self._badges[id].set_visibility(id in self._unreadable)
            button("", lambda: self.confirm_delete(id), kind="quiet", icon_name="bin",
                   label=t("documents.forget", name=name), data_forget=id)  # fmt: skip

    def mark_unreadable(self, names: Sequence[str]) -> None:
        """Mark files by id or by a name that only one has, and no longer choose them."""
        self._unreadable |= {id for name in names if (id := self.find_id(name))}
        for id, element in self._badges.items():
            if id in self._unreadable and not element.visible:
                element.set_visibility(True)
                self._fields[id].set_value(False)
        self._update_chosen()

    def _choose_all(self, chosen: bool) -> None:
        """All that the filter shows; books only one by one."""
        visible = {name for name, element in self._rows if element.visible}
        files = {str(one["id"]): one for one in self.files}
        for id, field in self._fields.items():
            file = files[id]
            if not chosen or (not _is_book(file) and file["name"] in visible):
                field.set_value(chosen)
        self._update_chosen()

    def _update_chosen(self) -> None:
        self._chosen = [id for id, field in self._fields.items() if field.value]
        self._head.set_visibility(bool(self.files))
        self._tools.set_visibility(len(self.files) > 1)
        self._count.text = self._page.t(
            "documents.files.chosen", some=len(self._chosen), all=len(self.files)
        )

    def confirm_delete(self, id: str) -> None:
        name = next((str(one["name"]) for one in self.files if one["id"] == id), "")
        self._page.confirm("documents.forget", name, lambda: self._delete(id))

    async def _delete(self, id: str) -> None:
        """Delete it from every index first: afterwards nobody knows what to remove."""
        api = self._page.api
        for index in (await api.get("/documents/indexes"))["indexes"]:
            try:
                await api.post(
                    f"/documents/indexes/{quote(str(index['name']))}/remove",
                    {"files": [f"upload:{id}"], "uploads": False},
                )
            except ApiError as error:
                if error.status not in (400, 404):  # it is not in this index
                    raise
        await api.delete(f"/uploads/{id}")
        self._unreadable.discard(id)
        await self.load()
        if self.on_delete is not None:
            await self.on_delete()


def _is_book(file: Json) -> bool:
    return bool(file["purpose"] == "book")


class IndexCard:
    """The indexes: built from files or a folder, followed while they grow, deleted."""

    def __init__(self, page: PageContext, files: FilesCard) -> None:
        self._page, self._files, t = page, files, page.t
        self.names: list[str] = []
        self.selected = page.query.get("index", "")
        """The index that is searched."""
        self._listeners: list[Callable[[], None]] = []
        self._query = JobQuery(page.api, "index")
        self._done: set[str] | None = None
        with card(t("documents.index")) as element:
            element.attributes(id="index")
            self._list = tag("ul", classes="file-list", data_indexes="list")
            self._name = Field(
                "text", t("documents.index.name"), self.selected or _DEFAULT_INDEX, name="index",
                live=True, hint=t("documents.index.shared") if not page.api.is_signed_in else "",
            )  # fmt: skip
            self._follow = Field("check", t("documents.index.follow"), True, name="follow",
                                 keep="documents.follow")  # fmt: skip
            button(t("documents.index.add"), self._index_files, kind="primary", icon_name="plus",
                   data_do="index")  # fmt: skip
            if page.api.folders:
                self._build_folder()
            self._cards = JobCards(t, lambda job: JobCard(page, job, self.refresh, level=3))
            self._failed = tag("div")

    def listen(self, listener: Callable[[], None]) -> None:
        """Call it now and whenever the list of indexes has changed."""
        self._listeners.append(listener)
        listener()

    def _build_folder(self) -> None:
        """A folder of the server; requests may only use those in its settings."""
        t, folders = self._page.t, self._page.api.folders
        self._folder = Field(
            "text", t("documents.index.folder"), folders[0], name="folder", live=True,
            hint=", ".join(folders),
        )  # fmt: skip
        button(t("documents.index.folder.add"), self._index_folder, icon_name="plus",
               data_do="folder")  # fmt: skip

    async def index_new(self, uploads: Sequence[Json]) -> None:
        """Index files that were just dropped; recordings have no text yet."""
        files = [f"upload:{one['id']}" for one in uploads if one["kind"] not in AUDIO_KINDS]
        if files and self._follow.value:
            await self._start({"files": files})

    async def _index_files(self) -> None:
        await self._start(self._files.build_sources())

    async def _index_folder(self) -> None:
        await self._start({"folder": self._folder.text})

    async def _start(self, sources: Json) -> None:
        name = self._name.text or _DEFAULT_INDEX
        arguments = {**sources, "index": name}
        await self._page.api.post("/jobs", {"kind": "index", "arguments": arguments})
        self.selected = name
        await self.refresh()

    async def refresh(self) -> None:
        """Show the active jobs, or the last one if it failed."""
        jobs = (await self._query.fetch(_NUM_INDEX_JOBS)).jobs
        active = [job for job in jobs if job["state"] in ACTIVE]
        self._cards.show(active or [job for job in jobs[:1] if job["state"] == "failed"])
        done = {str(job["id"]): job for job in jobs if job["state"] == "done"}
        new = [job for id, job in done.items() if id not in (self._done or ())]
        is_first, self._done = self._done is None, set(done)
        if new and not is_first:
            await self.load()
            self._show_result(new[0])

    def _show_result(self, job: Job) -> None:
        t, result = self._page.t, job.get("result") or {}
        show_toast(t("documents.indexed", count=t.number(result.get("passages") or 0)), "good")
        failed = result.get("failed") or []
        self._failed.clear()
        with self._failed:
            show_warnings(result.get("warnings") or ())
        if failed:
            with self._failed, tag("div", classes="note", role="alert"):
                tag("p", t("documents.unread", count=t.number(len(failed))), classes="note-title")
                for one in failed[:_MAX_FAILED_FILES]:
                    tag("p", f"{one['error']}. {one['hint']}", classes="soft", lang=ENGLISH)
            self._files.mark_unreadable([str(one["file"]) for one in failed])

    async def load(self) -> None:
        indexes = (await self._page.api.get("/documents/indexes"))["indexes"]
        self.names = [str(one["name"]) for one in indexes]
        if self.selected not in self.names:
            self.selected = self.names[0] if self.names else ""
        for listener in self._listeners:
            listener()
        self._list.clear()
        with self._list:
            for index in indexes:
                self._build_row(index)

    def _build_row(self, index: Json) -> None:
        t, name = self._page.t, str(index["name"])
        with tag("li", data_index=name):
            with tag("div", classes="grow"):
                tag("b", name)
                tag("p", t("documents.index.facts", files=t.number(index["files"]),
                           passages=t.number(index["passages"])), classes="soft")  # fmt: skip
            with row():
                button("", lambda: self._confirm_delete(name), kind="quiet", icon_name="bin",
                       label=f"{t('documents.index.delete')}: {name}", data_drop=name)  # fmt: skip

    def _confirm_delete(self, name: str) -> None:
        async def delete() -> None:
            await self._page.api.delete(f"/documents/indexes/{quote(name)}?uploads=false")
            await self.load()

        self._page.confirm("documents.index", name, delete)
