"""A book that is being made, or was: its chapters can be heard as soon as each is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyrig.server.page.api import Refused
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.jobs_card import Changed, JobCard
from anyrig.server.page.jobs_facts import ACTIVE, Told
from anyrig.server.page.pieces import Tag, button, tag

_PLAY = """() => {{
  const player = document.getElementById("{player}"), list = document.getElementById("{list}");
  list.querySelectorAll("[aria-current]").forEach((one) => one.removeAttribute("aria-current"));
  document.getElementById("{button}").setAttribute("aria-current", "true");
  player.src = "{url}";
  player.play();
}}"""
"""In the browser: sound may only begin where a person has pressed something."""


class BookCard(JobCard):
    """A job of a book, with a player."""

    def __init__(self, here: Here, ask: Ask, job: Told, changed: Changed) -> None:
        super().__init__(here, ask, job, changed, level=3)
        self._tracks: dict[int, tuple[str, Tag]] = {}
        self._lengths: dict[int, Tag] = {}
        self._upload = str((job.get("arguments") or {}).get("file") or "").partition(":")[2]
        self._covered = not self._upload
        self._settled = ""
        with self.body, tag("div", classes="listen") as self._player:
            self._audio = tag("audio", controls=True, preload="none",
                              aria_label=self._name)  # fmt: skip
            self._list = tag("ul", classes="tracks")
        self._player.set_visibility(False)
        self._audio.set_visibility(False)

    async def look(self, job: Told) -> None:
        """Its chapters and files, while they change."""
        if self._settled == job["state"]:
            return
        if not self._covered:
            await self._cover()
        if job["state"] == "done":
            await self.offer()
        try:
            told = await self.here.api.get(f"/jobs/{self.id}/chapters")
        except Refused:
            return
        for chapter in told["chapters"]:
            self._chapter(chapter)
        self._player.set_visibility(bool(told["chapters"]))
        if job["state"] not in ACTIVE:
            self._settled = str(job["state"])

    async def _cover(self) -> None:
        """Its picture in place of a drawing, where it has one."""
        self._covered = True
        url = f"/books/cover/{self._upload}"
        try:
            await self.here.api.get(url)
        except Refused:
            return
        self.symbol.clear()
        with self.symbol:
            tag("img", src=url, alt="")

    def _chapter(self, chapter: Mapping[str, Any]) -> None:
        """Draw one anew where its state is another."""
        number, state = int(chapter["number"]), str(chapter["state"])
        url = chapter.get("url") or ""
        before = self._tracks.get(number)
        if number in self._lengths and chapter.get("seconds"):
            self._lengths[number].text = self.here.t.span(chapter["seconds"])
        if before and before[0] == f"{state} {url}":
            return
        if before is None:
            with self._list:
                item = tag("li")
        else:
            item = before[1]
            item.clear()
        self._tracks[number] = f"{state} {url}", item
        with item:
            self._track(chapter, str(url))

    def _track(self, chapter: Mapping[str, Any], url: str) -> None:
        t, number = self.here.t, int(chapter["number"])
        title = str(chapter["title"] or t("books.untitled.chapter", number=number))
        if not url:
            tag("span", title, classes="wait")
            said = t.known(f"books.state.{chapter['state']}", t("books.state.waiting"))
            tag("span", said, classes="soft")
            return
        one = button(
            title, kind="quiet", icon_name="play", data_chapter=number,
            label=t("books.listen", number=number, title=title),
        )  # fmt: skip
        one.classes("track")
        one.on("click", js_handler=_PLAY.format(
            player=self._audio.html_id, list=self._list.html_id, button=one.html_id, url=url
        ))  # fmt: skip
        length = t.span(chapter["seconds"]) if chapter.get("seconds") else ""
        self._lengths[number] = tag("span", length, classes="soft figures")
        self._audio.set_visibility(True)
