"""What could be made of a book: its cover, its chapters to tick, a voice, and how long it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anyrig.server.page import voices
from anyrig.server.page.api import Refused
from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import Field, Handler, Tag, button, card, icon, row, tag, warn

FORMATS = ("m4b", "mp3", "opus", "flac", "m4a")
_SLOWEST, _FASTEST, _STEP = 0.5, 2.0, 0.05
Start = Callable[[Mapping[str, Any]], Awaitable[None]]


class PlanCard:
    """A book before it is made.

    Args:
        here: the page.
        id: of the upload.
        plan: as `/books/plan` tells it.
        config: as `/config` tells it, for the voices.
        start: called with the arguments of the job.
        leave: called when another book is wanted.
    """

    def __init__(
        self, here: Here, id: str, plan: Mapping[str, Any], config: Mapping[str, Any],
        start: Start, leave: Handler,
    ) -> None:  # fmt: skip
        self._here, self._id, self._plan, self._start = here, id, plan, start
        self._chapters: Sequence[Mapping[str, Any]] = plan["chapters"]
        self._ticks: dict[int, Field] = {}
        self._lengths: dict[int, Tag] = {}
        t = here.t
        with card(t("books.new"), classes="plan"):
            with tag("div", classes="plan-about"):
                self._cover()
                with tag("div", classes="plan-fields"):
                    self._title = Field("text", t("books.name"), plan["title"] or "", name="title")
                    self._author = Field(
                        "text", t("books.author"), plan["author"] or "", name="author"
                    )
                    tongue = str(plan.get("language") or "")
                    there = voices.options(t, voices.ready(config), tongue)
                    self._voice = Field(
                        "select", t("books.voice"), "", on_change=self._priced, name="voice",
                        options=[("", t("books.voice.own")), *there],
                    )  # fmt: skip
                    self._format = Field(
                        "select", t("books.format"), "m4b", options=self._formats(), name="format"
                    )
                    self._speed = Field(
                        "range", t("books.speed"), 1.0, unit=" ×", on_change=self._estimated,
                        live=True, name="speed", min=_SLOWEST, max=_FASTEST, step=_STEP,
                    )  # fmt: skip
            self._list()
            with tag("div", classes="plan-end"):
                self._words = tag("div", classes="estimate", aria_live="polite", data_plan="sum")
                with row():
                    button(t("books.other"), leave, kind="quiet")
                    self._go = button(
                        t("books.start"), self._make, kind="primary", icon_name="play",
                        data_plan="start",
                    )  # fmt: skip
            with tag("div", classes="stack") as self._notes:
                warn(self._plan.get("warnings") or ())
        self._estimated()

    def _cover(self) -> None:
        name = str(self._plan["title"] or "")
        if self._plan.get("cover"):
            alt = self._here.t("books.cover", name=name)
            tag("img", classes="cover", src=self._plan["cover"], alt=alt)
            return
        with tag("div", classes="cover none", aria_hidden="true"):
            icon("book")

    def _formats(self) -> list[tuple[str, str]]:
        t = self._here.t
        return [(one, t("books.format.m4b") if one == "m4b" else t("books.format.each", name=one))
                for one in FORMATS]  # fmt: skip

    def _list(self) -> None:
        t = self._here.t
        with tag("div", classes="stack", role="group", aria_label=t("books.chapters")):
            with row("ends"):
                tag("h3", t("books.chapters"))
                with row():
                    button(t("books.all"), lambda: self._tick(True), kind="quiet", data_plan="all")
                    button(
                        t("books.none"), lambda: self._tick(False), kind="quiet", data_plan="none"
                    )
            with tag("ul", classes="chapters", tabindex="0", aria_label=t("books.chapters")):
                for chapter in self._chapters:
                    self._chapter(chapter)

    def _chapter(self, chapter: Mapping[str, Any]) -> None:
        t, number = self._here.t, int(chapter["number"])
        title = chapter["title"] or t("books.untitled.chapter", number=number)
        with tag("li"):
            self._ticks[number] = Field(
                "check", str(title), bool(chapter.get("chosen", True)),
                on_change=self._estimated, name=f"chapter-{number}",
            )  # fmt: skip
            self._lengths[number] = tag("span", self._length(chapter), classes="soft figures")

    def _length(self, chapter: Mapping[str, Any]) -> str:
        t = self._here.t
        words = t("books.words", count=t.number(chapter["words"]))
        return f"{words} · {t.span(chapter['seconds'])}"

    def _tick(self, all_of_them: bool) -> None:
        for field in self._ticks.values():
            field.show(all_of_them)
        self._estimated()

    # -- how long ----------------------------------------------------------------------------------

    @property
    def chosen(self) -> list[int]:
        """The chapters that are ticked."""
        return [number for number, field in self._ticks.items() if field.value]

    async def _priced(self) -> None:
        """Another voice speaks at another pace."""
        try:
            self._plan = {
                **self._plan,
                **await self._here.api.post("/books/plan", self._asked()),
            }
        except Refused:
            self._estimated()
            raise
        self._notes.clear()
        with self._notes:
            warn(self._plan.get("warnings") or ())
        self._chapters = self._plan["chapters"]
        for chapter in self._chapters:
            self._lengths[int(chapter["number"])].text = self._length(chapter)
        self._estimated()

    def _asked(self) -> dict[str, Any]:
        engine, _, voice = str(self._voice.value).partition("/")
        told: dict[str, Any] = {"file": f"upload:{self._id}"}
        return told | ({"engine": engine} if engine else {}) | ({"voice": voice} if voice else {})

    def _estimated(self) -> None:
        t, chosen = self._here.t, set(self.chosen)
        audio_s, wall_s = estimate(self._plan, chosen, float(self._speed.value or 1.0))
        self._words.clear()
        self._go.attributes(disabled=not chosen)
        with self._words:
            if not chosen:
                tag("span", t("books.choose"))
                return
            tag("span", t("books.audio", time=t.span(audio_s)), classes="big")
            said = [t("books.chosen", some=len(chosen), all=len(self._chapters))]
            if wall_s is not None:
                said.append(t("books.wall", time=t.span(wall_s)))
            tag("span", " · ".join(said), classes="soft")

    async def _make(self) -> None:
        if not self.chosen:
            return
        told = {
            **self._asked(), "title": str(self._title.value).strip(),
            "author": str(self._author.value).strip(), "format": str(self._format.value),
            "chapters": [str(number) for number in self.chosen],
        }  # fmt: skip
        speed = float(self._speed.value or 1.0)
        if speed != 1.0:
            told["rate"] = speed
        self._go.attributes(disabled=True)  # a second click makes no second book
        try:
            await self._start({name: value for name, value in told.items() if value})
        except Refused:
            self._go.attributes(disabled=False)
            raise


def estimate(plan: Mapping[str, Any], chosen: set[int], speed: float) -> tuple[float, float | None]:
    """Seconds of sound, and of work on this machine where that is known."""
    chapters = plan["chapters"]
    whole_s = sum(float(one["seconds"] or 0) for one in chapters if one.get("chosen", True))
    some_s = sum(float(one["seconds"] or 0) for one in chapters if one["number"] in chosen)
    wall_s = plan.get("wall_s")
    if wall_s is None or not whole_s:
        return some_s / speed, None
    return some_s / speed, float(wall_s) * some_s / whole_s
