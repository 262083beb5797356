"""The books page: upload a book, choose chapters, listen to them while the rest is made.

The page shows what the API returns: books are found again after it was closed, and the book that is
being planned is in the address.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from anyrig.server.page import voices
from anyrig.server.page.api import ApiError
from anyrig.server.page.components import (
    Field,
    FileDrop,
    Handler,
    Tag,
    button,
    card,
    empty_state,
    heading,
    icon,
    preview_button,
    row,
    show_error,
    show_toast,
    show_warnings,
    tag,
)
from anyrig.server.page.jobs import (
    ACTIVE,
    POLL_INTERVAL_S,
    Job,
    JobCard,
    JobCards,
    JobQuery,
    Refresh,
)
from anyrig.server.page.layout import PageContext

FORMATS = ("m4b", "mp3", "opus", "flac", "m4a")
_ACCEPT = ".epub,.pdf,.docx,.odt,.fb2,.html,.htm,.xhtml,.md,.txt,.rtf,.mobi,.azw3"
_MIN_SPEED, _MAX_SPEED, _SPEED_STEP = 0.5, 2.0, 0.05
Json = Mapping[str, Any]


async def build(page: PageContext) -> None:
    books_page = BooksPage(page)
    if "file" in page.query:
        page.run_soon(lambda: books_page.open_book(page.query["file"]))
    page.run_every(POLL_INTERVAL_S, books_page.refresh)


class BooksPage:
    def __init__(self, page: PageContext) -> None:
        self._page, t = page, page.t
        heading(t("page.books"), f"{t('books.lead')} {page.privacy_note}")
        self._place = tag("div", classes="stack")
        tag("h2", t("books.list"), classes="section-title")
        self._empty = empty_state(t("books.empty"), t("books.empty.do"), "book")
        self._empty.set_visibility(False)
        self._cards = JobCards(t, lambda job: BookCard(page, job, self.refresh))
        self._query = JobQuery(page.api, "book")
        if "file" not in page.query:
            self._show_drop()

    def _show_drop(self) -> None:
        t = self._page.t
        self._place.clear()
        with self._place:
            FileDrop(t, self._handle_files, kinds=t("books.drop.kinds"), accept=_ACCEPT,
                     multiple=False, any_kind=True)  # fmt: skip

    async def _handle_files(self, files: Sequence[Json]) -> None:
        if not files or await self.open_book(str(files[0]["id"])):
            return
        with suppress(ApiError):  # nothing lists it, so nobody would delete it
            await self._page.api.delete(f"/uploads/{files[0]['id']}")

    async def open_book(self, id: str) -> bool:
        """Show the plan of an uploaded book; whether it is a book."""
        t, api = self._page.t, self._page.api
        self._place.clear()
        with self._place, card(classes="centre"):
            tag("p", t("books.reading"), role="status")
        self._page.set_query("file", id)
        try:
            plan = await api.post("/books/plan", {"file": f"upload:{id}"})
            config = await api.get("/config")
        except ApiError as error:
            with show_error(self._place, error):
                button(t("books.other"), self._close_plan)
            self._page.set_query("file", "")
            return error.status != 400
        self._place.clear()
        with self._place:
            PlanCard(self._page, id, plan, config, self._start, self._close_plan)
        return True

    def _close_plan(self) -> None:
        self._page.set_query("file", "")
        self._show_drop()

    async def _start(self, arguments: Json) -> None:
        await self._page.api.post("/jobs", {"kind": "book", "arguments": dict(arguments)})
        show_toast(self._page.t("books.started"), "good")
        self._close_plan()
        await self.refresh()

    async def refresh(self) -> None:
        found = await self._query.fetch(self._cards.limit)
        self._empty.set_visibility(not found.jobs)
        for book, job in self._cards.show(found.jobs, found.total):
            await book.refresh(job)


class PlanCard:
    """A book before it is made: its cover, chapters, voice, and how long it takes.

    Args:
        page: the page.
        id: of the upload.
        plan: from `/books/plan`.
        config: from `/config`, for the voices.
        on_start: called with the arguments of the job.
        on_close: called when another book is wanted.
    """

    def __init__(
        self, page: PageContext, id: str, plan: Json, config: Json,
        on_start: Callable[[Json], Awaitable[None]], on_close: Handler,
    ) -> None:  # fmt: skip
        self._page, self._id, self._plan, self._on_start = page, id, plan, on_start
        self._chapters: dict[int, Field] = {}
        self._lengths: dict[int, Tag] = {}
        t = page.t
        with card(t("books.new"), classes="plan"):
            with tag("div", classes="plan-about"):
                self._build_cover()
                with tag("div", classes="plan-fields"):
                    self._build_fields(voices.list_ready(config))
            self._build_chapters()
            with tag("div", classes="plan-end"):
                self._estimate = tag("div", classes="estimate", aria_live="polite", data_plan="sum")
                with row():
                    button(t("books.other"), on_close, kind="quiet")
                    self._start_button = button(
                        t("books.start"), self._start, kind="primary", icon_name="play",
                        data_plan="start",
                    )  # fmt: skip
            with tag("div", classes="stack") as self._warnings:
                show_warnings(plan.get("warnings") or ())
        self._show_estimate()

    def _build_cover(self) -> None:
        if self._plan.get("cover"):
            alt = self._page.t("books.cover", name=str(self._plan["title"] or ""))
            tag("img", classes="cover", src=self._plan["cover"], alt=alt)
            return
        with tag("div", classes="cover none", aria_hidden="true"):
            icon("book")

    def _build_fields(self, ready: Sequence[voices.Voice]) -> None:
        t, plan = self._page.t, self._plan
        self._title = Field("text", t("books.name"), plan["title"] or "", name="title")
        self._author = Field("text", t("books.author"), plan["author"] or "", name="author")
        options = voices.build_options(t, ready, str(plan.get("language") or ""))
        with tag("div", classes="with-button"):
            self._voice = Field(
                "select", t("speak.voice"), "", on_change=self._update_plan, name="voice",
                options=[("", t("books.voice.auto")), *options],
            )  # fmt: skip
            self._preview = preview_button("", self._build_preview_url(),
                                           t("books.voice.preview"))  # fmt: skip
        formats = [(one, t("books.format.each", name=one)) for one in FORMATS[1:]]
        formats.insert(0, ("m4b", t("books.format.m4b")))
        self._format = Field("select", t("books.format"), "m4b", options=formats, name="format")
        self._speed = Field(
            "range", t("speak.speed"), 1.0, unit=" ×", on_change=self._show_estimate, live=True,
            name="speed", min=_MIN_SPEED, max=_MAX_SPEED, step=_SPEED_STEP,
        )  # fmt: skip
        with tag("fieldset", classes="field extras"):
            tag("legend", t("books.extras"))
            self._captions = Field("check", t("books.captions"), False, name="captions")
            self._read_along = Field("check", t("books.read_along"), False, name="read-along")

    def _build_preview_url(self) -> str:
        engine, voice = (str(self._plan[key]) for key in ("engine", "voice"))
        return voices.build_sample_url(engine, voice, str(self._plan.get("language") or ""))

    def _build_chapters(self) -> None:
        t = self._page.t
        with tag("div", classes="stack", role="group", aria_label=t("books.chapters")):
            with row("ends"):
                tag("h3", t("books.chapters"))
                with row():
                    for name, chosen in (("all", True), ("none", False)):
                        button(t(f"books.{name}"), partial(self._choose_all, chosen),
                               kind="quiet", data_plan=name)  # fmt: skip
            with tag("ul", classes="chapters", tabindex="0", aria_label=t("books.chapters")):
                for chapter in self._plan["chapters"]:
                    number = int(chapter["number"])
                    title = chapter["title"] or t("books.untitled.chapter", number=number)
                    with tag("li"):
                        self._chapters[number] = Field(
                            "check", str(title), bool(chapter.get("chosen", True)),
                            on_change=self._show_estimate, name=f"chapter-{number}",
                        )  # fmt: skip
                        self._lengths[number] = tag("span", classes="soft figures")
        self._show_lengths()

    def _show_lengths(self) -> None:
        t = self._page.t
        for chapter in self._plan["chapters"]:
            num_words = t("books.words", count=t.number(chapter["words"]))
            length = f"{num_words} · {t.duration(chapter['seconds'])}"
            self._lengths[int(chapter["number"])].text = length

    def _choose_all(self, chosen: bool) -> None:
        for field in self._chapters.values():
            field.set_value(chosen)
        self._show_estimate()

    @property
    def _chosen(self) -> list[int]:
        return [number for number, field in self._chapters.items() if field.value]

    async def _update_plan(self) -> None:
        """Another voice speaks at another pace."""
        try:
            plan = await self._page.api.post("/books/plan", self._build_arguments())
        except ApiError:
            self._show_estimate()
            raise
        self._plan = {**self._plan, **plan}
        self._preview.attributes(data_preview=self._build_preview_url())
        self._warnings.clear()
        with self._warnings:
            show_warnings(plan.get("warnings") or ())
        self._show_lengths()
        self._show_estimate()

    def _build_arguments(self) -> dict[str, Any]:
        engine, _, voice = str(self._voice.value).partition("/")
        chosen = {"file": f"upload:{self._id}", "engine": engine, "voice": voice}
        return {name: value for name, value in chosen.items() if value}

    def _show_estimate(self) -> None:
        t, chosen = self._page.t, set(self._chosen)
        audio_s, wall_s = estimate_seconds(self._plan, chosen, float(self._speed.value or 1.0))
        self._start_button.attributes(disabled=not chosen)
        self._estimate.clear()
        with self._estimate:
            if not chosen:
                tag("span", t("books.choose"))
                return
            tag("span", t("books.audio", time=t.duration(audio_s)), classes="big")
            parts = [t("books.chosen", some=len(chosen), all=len(self._chapters))]
            if wall_s is not None:
                parts.append(t("books.wall", time=t.duration(wall_s)))
            tag("span", " · ".join(parts), classes="soft")

    async def _start(self) -> None:
        if not self._chosen:
            return
        arguments = {
            **self._build_arguments(), "title": self._title.text, "author": self._author.text,
            "format": str(self._format.value), "chapters": [str(number) for number in self._chosen],
        }  # fmt: skip
        speed = float(self._speed.value or 1.0)
        if speed != 1.0:
            arguments["rate"] = speed
        if self._captions.value:
            arguments["captions"] = ["srt", "vtt"]
        if self._read_along.value:
            arguments["read_along"] = True
        self._start_button.attributes(disabled=True)  # a second click starts no second book
        try:
            await self._on_start({name: value for name, value in arguments.items() if value})
        except ApiError:
            self._start_button.attributes(disabled=False)
            raise


def estimate_seconds(plan: Json, chosen: set[int], speed: float) -> tuple[float, float | None]:
    """Seconds of audio, and of work on this machine if that is known."""
    chapters = plan["chapters"]
    planned_s = sum(float(one["seconds"] or 0) for one in chapters if one.get("chosen", True))
    chosen_s = sum(float(one["seconds"] or 0) for one in chapters if one["number"] in chosen)
    wall_s = plan.get("wall_s")
    if wall_s is None or not planned_s:
        return chosen_s / speed, None
    return chosen_s / speed, float(wall_s) * chosen_s / planned_s


class BookCard(JobCard):
    """The job of a book, with the chapters that are ready; `listen.js` plays them."""

    def __init__(self, page: PageContext, job: Job, refresh: Refresh) -> None:
        super().__init__(page, job, refresh, level=3)
        self._tracks: dict[int, tuple[str, Tag]] = {}
        """By number: state and URL as shown, and the list item."""
        self._lengths: dict[int, Tag] = {}
        self._upload = str((job.get("arguments") or {}).get("file") or "").partition(":")[2]
        self._has_cover = not self._upload
        self._final_state = ""
        author = str((job.get("arguments") or {}).get("author") or "")
        with self.body, tag("div", classes="listen", data_listen_book=self.id,
                            data_title=self.name, data_author=author) as self._player:  # fmt: skip
            with row() as self._listen:
                button(page.t("books.listen.start"), kind="primary", icon_name="play",
                       data_listen="true",
                       label=f"{page.t('books.listen.start')}: {self.name}")  # fmt: skip
                tag("span", classes="soft figures", data_listen_where="true")
            self._list = tag("ul", classes="tracks")
        self._player.set_visibility(False)
        self._listen.set_visibility(False)

    async def refresh(self, job: Job) -> None:
        """Show its cover, chapters and files while they change."""
        if self._final_state == job["state"]:
            return
        if not self._has_cover:
            await self._show_cover()
        if job["state"] == "done":
            await self.show_files()
        try:
            chapters = (await self.page.api.get(f"/jobs/{self.id}/chapters"))["chapters"]
        except ApiError:
            return
        for chapter in chapters:
            self._show_chapter(chapter)
        self._player.set_visibility(bool(chapters))
        if job["state"] not in ACTIVE:
            self._final_state = str(job["state"])

    async def _show_cover(self) -> None:
        self._has_cover = True
        url = f"/books/cover/{self._upload}"
        try:
            await self.page.api.get(url)
        except ApiError:
            return
        self._player.attributes(data_cover=url)
        self.symbol.clear()
        with self.symbol:
            tag("img", src=url, alt="")

    def _show_chapter(self, chapter: Json) -> None:
        number, url = int(chapter["number"]), str(chapter.get("url") or "")
        if number in self._lengths and chapter.get("seconds"):
            self._lengths[number].text = self.page.t.duration(chapter["seconds"])
        shown = f"{chapter['state']} {url}"
        before, item = self._tracks.get(number, ("", None))
        if item is not None and before == shown:
            return
        if item is None:
            with self._list:
                item = tag("li")
        item.clear()
        self._tracks[number] = shown, item
        with item:
            self._build_track(chapter, url)

    def _build_track(self, chapter: Json, url: str) -> None:
        t, number = self.page.t, int(chapter["number"])
        title = str(chapter["title"] or t("books.untitled.chapter", number=number))
        if not url:
            tag("span", title, classes="wait")
            state = t.find(f"books.state.{chapter['state']}", t("books.state.waiting"))
            tag("span", state, classes="soft")
            return
        track = button(title, kind="quiet", icon_name="play", data_chapter=number,
                       label=t("books.listen", number=number, title=title))  # fmt: skip
        track.classes("track")
        length = t.duration(chapter["seconds"]) if chapter.get("seconds") else ""
        self._lengths[number] = tag("span", length, classes="soft figures")
        self._listen.set_visibility(True)
