"""A job on the screen, kept as it stands: used by the pages of jobs, books and documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from anyrig.server.page import jobs_facts
from anyrig.server.page.api import ENGLISH, Refused
from anyrig.server.page.frame import Here
from anyrig.server.page.jobs_ask import Ask
from anyrig.server.page.jobs_facts import Told
from anyrig.server.page.pieces import (
    Bar,
    Handler,
    Kind,
    Tag,
    badge,
    button,
    icon,
    link,
    row,
    tag,
    trouble,
    warn,
)
from anyrig.server.page.words import Words

Changed = Callable[[], Awaitable[None]]
_BUTTONS: dict[str, tuple[str, Kind]] = {
    "pause": ("pause", "plain"), "resume": ("play", "plain"), "cancel": ("close", "quiet"),
    "delete": ("bin", "quiet"),
}  # fmt: skip
_FEW = 3  # files that are worth a large button each
_STATES = ("queued", "running", "paused", "done", "failed", "cancelled")


class Log(ui.element, component="assets/log.js"):
    """What a job told, and tells: the browser follows its events."""

    def __init__(self, t: Words, id: str) -> None:
        super().__init__()
        words = {"label": t("jobs.log"), "none": t("jobs.log.none"),
                 "states": {state: t(f"state.{state}") for state in _STATES}}  # fmt: skip
        self._props.update(url=f"/jobs/{id}/events", words=words)


class JobCard:
    """One job.

    Args:
        here: the page.
        ask: asks before something goes.
        job: as the API tells it.
        changed: called after something was asked of it.
        level: of its heading.
    """

    def __init__(
        self, here: Here, ask: Ask, job: Told, changed: Changed, *, level: int = 2
    ) -> None:
        self.here, self.id, self._ask, self._changed = here, str(job["id"]), ask, changed
        self._name = jobs_facts.name(here.t, job)
        self._last: Any = None
        self._offered = False
        t = here.t
        with tag("article", classes="card job", data_job=self.id) as self.element:
            with tag("div", classes="job-head"):
                with tag("div", classes="job-symbol") as self.symbol:
                    icon(jobs_facts.ICONS.get(str(job["kind"]), "jobs"))
                with tag("div", classes="job-title"):
                    title = tag(f"h{level}", self._name)
                    self._about = tag("p", classes="soft")
                self._state = badge("")
            self.element.attributes(aria_labelledby=title.html_id)
            self._bar = Bar(t("jobs.progress", name=self._name))
            self._trouble = tag("div")
            self.body = tag("div", classes="job-body")
            with row("job-actions"):
                self._ready = tag("div", classes="row job-files")
                self._details()
                with tag("div", classes="job-buttons"):
                    with tag(
                        "span", classes="slot"
                    ):  # one place for both: nothing moves by a press
                        self._buttons = {name: self._button(name) for name in ("pause", "resume")}
                    self._buttons |= {name: self._button(name) for name in ("cancel", "delete")}
                self._notes = tag("div", classes="stack")
        self.show(job)

    def _button(self, name: str) -> Tag:
        symbol, kind = _BUTTONS[name]
        asks: dict[str, Handler] = {"cancel": self._cancel, "delete": self._delete}
        text = self.here.t(f"jobs.{name}")
        one = button(
            "" if name == "resume" else text, asks.get(name, lambda: self._do(name)), kind=kind,
            icon_name=symbol, label=f"{text}: {self._name}", data_do=name,
        )  # fmt: skip
        if name == "resume":
            with one:
                self._resume = tag("span", text)
        return one

    def _details(self) -> None:
        t = self.here.t
        with tag("details", classes="job-details") as details:
            tag("summary", t("jobs.log"))
            self._log = tag("div")
        details.on("toggle", self._unfold, js_handler="(e) => emit(e.target.open)")

    def _unfold(self, event: GenericEventArguments) -> None:
        self._log.clear()
        if event.args:
            with self._log:
                Log(self.here.t, self.id)

    # -- as it stands ------------------------------------------------------------------------------

    def show(self, job: Told) -> None:
        """Bring it up to date."""
        t = self.here.t
        if job == self._last:
            return
        before, self._last = self._last, dict(job)
        where = jobs_facts.state(job)
        self._state.text = t(f"state.{where}")
        self._state.classes(replace=f"badge {jobs_facts.MOODS.get(where, 'plain')}")
        self.element.attributes(data_state=job["state"])
        self._about.text = jobs_facts.about(t, job)
        course = jobs_facts.course(t, job)
        self._bar.show(course.share or 0.0, course.words)
        allowed = jobs_facts.can(job)
        for name, one in self._buttons.items():
            one.classes(remove="away") if name in allowed else one.classes("away")
        again = t("jobs.again") if job["state"] == "failed" else t("jobs.resume")
        self._buttons["resume"].attributes(aria_label=f"{again}: {self._name}")
        self._resume.text = again
        if before is None or before.get("error") != job.get("error"):
            self._fail(job)
        if job["state"] == "done" and (before is None or before["state"] != "done"):
            self._notes.clear()
            with self._notes:
                warn((job.get("result") or {}).get("warnings") or ())

    def _fail(self, job: Told) -> None:
        self._trouble.clear()
        error = job.get("error")
        if error:
            with self._trouble:
                trouble(str(error.get("message", "")), str(error.get("hint", "")), lang=ENGLISH)

    async def offer(self) -> None:
        """Links to save what was made, asked for once: a job that is done makes no more."""
        if self._offered:
            return
        self._offered = True
        try:
            told = await self.here.api.get(f"/jobs/{self.id}/files")
        except Refused:
            self._offered = False
            return
        many = len(told["files"]) > _FEW
        self._ready.classes(add="many" if many else "")
        with self._ready:
            for one in told["files"]:
                self._file(one, "plain small" if many else "primary")

    def _file(self, one: Told, kind: str) -> None:
        t, name, number = self.here.t, str(one["name"]), one["number"]
        with link("", f"/jobs/{self.id}/files/{number}", classes=f"button {kind} file",
                  download=name, data_file=number):  # fmt: skip
            icon("download")
            tag("span", f"{t('jobs.download')}: ", classes="only-read")
            tag("span", name, classes="file-name")
            tag("span", ", ", classes="only-read")
            tag("span", t.bytes(one["size"]), classes="file-size")

    # -- what is asked of it -----------------------------------------------------------------------

    async def _do(self, what: str) -> None:
        await self.here.api.post(f"/jobs/{self.id}/{what}")
        await self._changed()

    def _cancel(self) -> None:
        t = self.here.t
        self._ask.open(
            t("jobs.cancel.ask", name=self._name), t("jobs.cancel.what"), t("jobs.cancel"),
            lambda: self._do("cancel"),
        )  # fmt: skip

    def _delete(self) -> None:
        t = self.here.t

        async def delete() -> None:
            await self.here.api.delete(f"/jobs/{self.id}")
            await self._changed()

        self._ask.open(
            t("jobs.delete.ask", name=self._name), t("jobs.delete.what"), t("jobs.delete"), delete
        )
