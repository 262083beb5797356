"""The jobs page: all long-running work, live, with its actions.

The pages of books and documents show their jobs with the same cards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from nicegui import ui
from nicegui.events import GenericEventArguments

from anyrig.estimates import read_time_left
from anyrig.server.page.api import ENGLISH, ApiClient, ApiError
from anyrig.server.page.components import (
    ButtonKind,
    Handler,
    Mood,
    ProgressBar,
    Tag,
    badge,
    button,
    empty_state,
    error_box,
    heading,
    icon,
    link,
    row,
    set_badge,
    show_warnings,
    tag,
)
from anyrig.server.page.layout import PageContext
from anyrig.server.page.translations import NBSP, Translator, load_texts
from anyrig.units import round_range

Job = Mapping[str, Any]
"""A job as the API returns it."""
Refresh = Callable[[], Awaitable[None]]
POLL_INTERVAL_S = 1.0
PAGE_SIZE = 40
ACTIVE = ("queued", "running", "paused")
STATE_MOODS: dict[str, Mood] = {
    "running": "warn", "done": "good", "finished": "good", "failed": "bad",
}  # fmt: skip
_MORE_JOBS = 100
_API_LIMIT = 1000
"""The most jobs in one response of the API."""
_ICONS = {
    "book": "book", "batch": "speak", "index": "document", "transcribe": "letters",
    "train": "train", "bench": "gauge",
}  # fmt: skip
_BUTTONS: dict[str, tuple[str, ButtonKind]] = {
    "pause": ("pause", "plain"), "resume": ("play", "plain"), "cancel": ("close", "quiet"),
    "delete": ("bin", "quiet"),
}  # fmt: skip
_ALLOWED_ACTIONS: dict[str, tuple[str, ...]] = {
    "queued": ("pause", "cancel"),
    "running": ("pause", "cancel"),
    "paused": ("resume", "cancel", "delete"),
    "done": ("delete",),
    "failed": ("resume", "delete"),
    "cancelled": ("resume", "delete"),
}
_FILTERS: Mapping[str, Sequence[str]] = {
    "all": (), "active": ACTIVE, "over": ("done", "failed", "cancelled"),
}  # fmt: skip
_STAGE_KEY = "jobs.stage."
_PROGRESS_TEXTS = ("chapter", "files", "lines", "step", "loss")
_LOGGED_KINDS = ("begin", "device", "warning", "alert", "validation", "failed")
_MAX_LARGE_BUTTONS = 3
_HALF_DAY_S = 43200.0


async def build(page: PageContext) -> None:
    jobs_page = JobsPage(page)
    page.run_every(POLL_INTERVAL_S, jobs_page.refresh)


class JobsPage:
    def __init__(self, page: PageContext) -> None:
        self._page, self._filter, t = page, "all", page.t
        heading(t("page.jobs"), t("jobs.lead"))
        self._retention = tag("p", classes="soft").attributes(data_which="retention")
        with row("filters") as filters:
            filters.attributes(role="group", aria_label=t("jobs.filter"))
            self._filters = {
                name: button(t(f"jobs.{name}"), partial(self._set_filter, name), data_filter=name,
                             aria_pressed=str(name == self._filter).lower())
                for name in _FILTERS
            }  # fmt: skip
        self._empty = tag("div")
        self._cards = JobCards(t, lambda job: JobCard(page, job, self.refresh))
        self._query = JobQuery(page.api)

    async def refresh(self) -> None:
        found = await self._query.fetch(self._cards.limit, _FILTERS[self._filter])
        self._retention.set_text(describe_retention(self._page.t, found.keep_days, found.max_gb))
        self._show_empty("" if found.jobs else "none" if found.total_all else "empty")
        for card, job in self._cards.show(found.jobs, found.total):
            if job["state"] == "done":
                await card.show_files()

    async def _set_filter(self, chosen: str) -> None:
        self._filter = chosen
        for name, element in self._filters.items():
            element.attributes(aria_pressed=str(name == chosen).lower())
        await self.refresh()

    def _show_empty(self, which: str) -> None:
        t, place = self._page.t, self._empty
        if place.props.get("data-which") == which:
            return
        place.clear()
        place.attributes(data_which=which)
        if which == "none":
            with place:
                tag("p", t("jobs.none"), classes="soft")
        elif which == "empty":
            with place, empty_state(t("jobs.empty"), t("jobs.empty.do"), "jobs"), row("centre"):
                link(t("page.books"), "/books", classes="button primary")
                link(t("page.documents"), "/documents", classes="button plain")


# -- texts -----------------------------------------------------------------------------------------


def describe_retention(t: Translator, keep_days: float, max_gb: float) -> str:
    """When finished jobs are deleted."""
    texts = [
        *([t("jobs.retention.days", days=f"{keep_days:g}")] if keep_days else []),
        *([t("jobs.retention.size", size=f"{max_gb:g}")] if max_gb else []),
    ]
    return " ".join(texts) or t("jobs.retention")


def describe_name(t: Translator, job: Job) -> str:
    arguments: Job = job.get("arguments") or {}
    if job["kind"] == "bench":
        return t("jobs.this_machine")
    name = str(arguments.get("title") or job.get("name") or _describe_kind(t, job))
    num_more = int(job.get("num_more") or 0)
    if job["kind"] == "batch" and not arguments.get("file"):
        num_more = _count_lines(job) - 1
    return t("jobs.and_more", name=name, count=num_more) if num_more > 0 else name


def describe_job(t: Translator, job: Job) -> str:
    """Its kind, the author or the index, of a batch what was made, and its time."""
    arguments: Job = job.get("arguments") or {}
    detail = str(arguments.get("author") or arguments.get("index") or "")
    parts = [_describe_kind(t, job), detail, *_describe_lines(t, job), _describe_time(t, job)]
    return " · ".join(filter(None, parts))


def _count_lines(job: Job) -> int:
    """Of a batch; the list of jobs has only the number."""
    lines = (job.get("arguments") or {}).get("lines")
    if isinstance(lines, int):
        return lines
    if isinstance(lines, str):  # 0.1.0 stored `200 lines`
        number = lines.partition(" ")[0]
        return int(number) if number.isdecimal() else 0
    return len(lines) if isinstance(lines, Sequence) else 0


def _describe_lines(t: Translator, job: Job) -> list[str]:
    """Of a batch: how many lines, how many failed, how long they are together."""
    if job["kind"] != "batch":
        return []
    result: Job = job.get("result") or {}
    num_failed = len(result.get("failed") or ())
    num_lines = _count_lines(job) or int(result.get("made") or 0) + num_failed
    parts = [t("jobs.lines.one") if num_lines == 1 else t("jobs.lines", count=t.number(num_lines))]
    parts += [t("jobs.lines.failed", count=t.number(num_failed))] if num_failed else []
    parts += [t("jobs.audio", time=t.duration(result["audio_s"]))] if result.get("audio_s") else []
    return parts if num_lines else []


def describe_progress(t: Translator, job: Job) -> tuple[float, str]:
    """The share of a job that is done, and a text on where it is and the time left."""
    progress, state = job.get("progress") or {}, str(job["state"])
    if state == "done":
        return 1.0, ""
    share = _get_share(progress)
    if state == "queued":
        return share, _describe_queue_position(t, job.get("place"))
    parts = [t.percent(share)] if share else []
    parts += _describe_stage(t, progress)
    if state == "running":
        parts += _describe_speed(t, progress)
    return share, " · ".join(parts)


def _get_share(progress: Job) -> float:
    share = progress.get("done")
    return max(0.0, min(1.0, float(share))) if isinstance(share, int | float) else 0.0


def format_time(moment: float | None) -> str:
    """The time of day, for older moments with the date."""
    if not moment:
        return ""
    form = "%H:%M" if time.time() - moment < _HALF_DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(moment))


def _describe_kind(t: Translator, job: Job) -> str:
    return t.find(f"kind.{job['kind']}", str(job["kind"]))


def _describe_queue_position(t: Translator, position: int | None) -> str:
    if not position:
        return ""
    return t("jobs.next") if position == 1 else t("jobs.place", number=position)


def _describe_stage(t: Translator, progress: Job) -> list[str]:
    stage = t.find(f"jobs.stage.{progress.get('stage')}")
    if progress.get("num_chapters"):
        if progress.get("stage") != "making":
            return [stage]
        number, num = progress.get("chapter", 0), progress["num_chapters"]
        return [*filter(None, [stage]), t("jobs.progress.chapter", number=number, all=num)]
    if progress.get("num_files"):
        number, num = progress.get("file", 0), progress["num_files"]
        return [t("jobs.progress.files", number=number, all=num)]
    if progress.get("num_all") and progress.get("num_done"):
        number, num = progress["num_done"], progress["num_all"]
        if progress.get("stage") == "speaking":
            return [t("jobs.progress.lines", number=number, all=num)]
    if progress.get("steps") and progress.get("step"):
        step = t("jobs.progress.step", number=progress["step"], all=progress["steps"])
        loss = progress.get("loss")
        return [step, describe_loss(t, loss)] if isinstance(loss, int | float) else [step]
    return [stage] if stage else []


def describe_loss(t: Translator, loss: float) -> str:
    return t("jobs.progress.loss", loss=f"{loss:.4g}")


def _describe_speed(t: Translator, progress: Job) -> list[str]:
    left, speed = describe_time_left(t, progress), progress.get("speed")
    parts = []
    if isinstance(speed, int | float):
        parts.append(t("jobs.progress.speed", speed=t.number(speed, 1)))
    if left and progress.get("done"):
        parts.append(left)
    elif not progress:
        parts.append(t("jobs.loading"))
    return parts


def describe_time_left(t: Translator, progress: Job) -> str:
    """`3 min left`, `2 to 5 min left`; empty while nothing is known, and at the end."""
    left = read_time_left(progress)
    if left is None or left.high_s < 1:
        return ""
    if left.is_known:
        return t("frame.left", time=t.duration(left.high_s))
    low, high, unit = round_range(*left)
    key = "frame.left.range" if 0 < low < high else "frame.left.most"
    return t(key, low=low, high=f"{high}{NBSP}{unit}")


def _describe_time(t: Translator, job: Job) -> str:
    """When it was created; how long it took, if it is done.

    The duration of a job with several attempts would include breaks, perhaps of days, so its start
    and end are shown.
    """
    started, ended = job.get("started"), job.get("ended")
    if not started or not ended or job["state"] != "done":
        return format_time(job.get("created"))
    if int(job.get("attempts") or 1) > 1:
        return t("jobs.from_to", started=format_time(started), ended=format_time(ended))
    took = t("jobs.took", time=t.duration(max(0.0, float(ended) - float(started))))
    return f"{format_time(job.get('created'))} · {took}"


# -- cards -----------------------------------------------------------------------------------------


class JobLog(ui.element, component="assets/log.js"):
    """The log of a job; the browser follows its events."""

    def __init__(self, t: Translator, id: str) -> None:
        super().__init__()
        texts = {
            "label": t("jobs.log"), "empty": t("jobs.log.none"),
            "states": {state: t(f"state.{state}") for state in _ALLOWED_ACTIONS},
            # As on the card.
            "stages": {key.removeprefix(_STAGE_KEY): t(key) for key in load_texts()
                       if key.startswith(_STAGE_KEY)},
            "progress": {name: t(f"jobs.progress.{name}") for name in _PROGRESS_TEXTS},
            "kinds": {kind: t(f"jobs.log.{kind}") for kind in _LOGGED_KINDS},
        }  # fmt: skip
        self._props.update(url=f"/jobs/{id}/events", texts=texts)


class JobCard:
    """One job.

    Args:
        page: the page.
        job: the job.
        refresh: called after an action.
        level: of its heading.
    """

    def __init__(self, page: PageContext, job: Job, refresh: Refresh, *, level: int = 2) -> None:
        self.page, self.id, self._refresh = page, str(job["id"]), refresh
        self.name, self._kind = describe_name(page.t, job), str(job["kind"])
        self._shown: Any = None
        self._has_files = False
        t = page.t
        with tag("article", classes="card job", data_job=self.id) as self.element:
            with tag("div", classes="job-head"):
                with tag("div", classes="job-symbol") as self.symbol:
                    icon(_ICONS.get(str(job["kind"]), "jobs"))
                with tag("div", classes="job-title"):
                    title = tag(f"h{level}", self.name)
                    self._description = tag("p", classes="soft")
                self._state = badge()
            self.element.attributes(aria_labelledby=title.html_id)
            self._bar = ProgressBar(t("jobs.progress", name=self.name))
            self._error = tag("div")
            self.body = tag("div", classes="job-body")
            with row("job-actions"):
                self._files = tag("div", classes="row job-files")
                self._build_log()
                with tag("div", classes="job-buttons"):
                    with tag("span", classes="slot"):  # one place, so that no button moves
                        self._buttons = {
                            name: self._build_button(name) for name in ("pause", "resume")
                        }
                    self._buttons |= {
                        name: self._build_button(name) for name in ("cancel", "delete")
                    }
                self._warnings = tag("div", classes="stack")
        self.show(job)

    def _build_button(self, name: str) -> Tag:
        symbol, kind = _BUTTONS[name]
        handlers: dict[str, Handler] = {"cancel": self._cancel, "delete": self._delete}
        text = self.page.t(f"jobs.{name}")
        element = button(
            "" if name == "resume" else text, handlers.get(name, lambda: self._post(name)),
            kind=kind, icon_name=symbol, label=f"{text}: {self.name}", data_do=name,
        )  # fmt: skip
        if name == "resume":
            with element:
                self._resume_text = tag("span", text)
        return element

    def _build_log(self) -> None:
        with tag("details", classes="job-details") as details:
            tag("summary", self.page.t("jobs.log"))
            self._log = tag("div")
        details.on("toggle", self._toggle_log, js_handler="(e) => emit(e.target.open)")

    def _toggle_log(self, event: GenericEventArguments) -> None:
        self._log.clear()
        if event.args:
            with self._log:
                JobLog(self.page.t, self.id)

    def show(self, job: Job) -> None:
        """Bring it up to date."""
        if job == self._shown:
            return
        before, self._shown = self._shown or {}, dict(job)
        t, state = self.page.t, str(job["state"])
        requested = {"pause": "pausing", "cancel": "cancelling"}.get(
            str(job.get("requested") or "")
        )
        shown_state = requested if requested and state == "running" else state
        set_badge(self._state, t(f"state.{shown_state}"), STATE_MOODS.get(shown_state, "plain"))
        self.element.attributes(data_state=state)
        self._description.text = describe_job(t, job)
        self._bar.set(*describe_progress(t, job))
        allowed = () if job.get("requested") else _ALLOWED_ACTIONS.get(state, ())
        for name, element in self._buttons.items():
            element.classes(remove="away") if name in allowed else element.classes("away")
        self._resume_text.text = t("frame.again" if state == "failed" else "jobs.resume")
        self._buttons["resume"].attributes(aria_label=f"{self._resume_text.text}: {self.name}")
        if before.get("error") != job.get("error"):
            self._error.clear()
            if error := job.get("error"):
                with self._error:
                    error_box(
                        str(error.get("message", "")), str(error.get("hint", "")), lang=ENGLISH
                    )
        if state == "done" and before.get("state") != "done":
            self._warnings.clear()
            with self._warnings:
                show_warnings((job.get("result") or {}).get("warnings") or ())

    async def show_files(self) -> None:
        """Show download links, once: a job that is done makes no more files."""
        if self._has_files:
            return
        self._has_files = True
        try:
            files = (await self.page.api.get(f"/jobs/{self.id}/files"))["files"]
        except ApiError:
            self._has_files = False
            return
        many = len(files) > _MAX_LARGE_BUTTONS
        self._files.classes(add="many" if many else "")
        with self._files:
            for file in files:
                self._build_file(file, "plain small" if many else "primary")

    def _build_file(self, file: Job, kind: str) -> None:
        t, name, number = self.page.t, str(file["name"]), file["number"]
        with link("", f"/jobs/{self.id}/files/{number}", classes=f"button {kind} file",
                  download=name, data_file=number):  # fmt: skip
            icon("download")
            tag("span", f"{t('jobs.download')}: ", classes="only-read")
            tag("span", name, classes="file-name")
            tag("span", ", ", classes="only-read")
            tag("span", t.bytes(file["size"]), classes="file-size")

    async def _post(self, action: str) -> None:
        await self.page.api.post(f"/jobs/{self.id}/{action}")
        await self._refresh()

    def _cancel(self) -> None:
        self.page.confirm_stop(self._kind, self.name, lambda: self._post("cancel"))

    def _delete(self) -> None:
        async def delete() -> None:
            await self.page.api.delete(f"/jobs/{self.id}")
            event = f"new CustomEvent('anyrig-job-deleted', {{detail: {json.dumps(self.id)}}})"
            ui.run_javascript(f"window.dispatchEvent({event})")
            await self._refresh()

        self.page.confirm("jobs.delete", self.name, delete)


CardT = TypeVar("CardT", bound=JobCard)


class JobCards(Generic[CardT]):
    """A column of cards, newest job first. Existing cards are updated, not built again.

    Older jobs are shown on request: a year of jobs is too much for a page.
    """

    def __init__(self, t: Translator, build_card: Callable[[Job], CardT]) -> None:
        self._build_card, self._t = build_card, t
        self.limit = PAGE_SIZE
        """How many jobs to fetch."""
        self._column = tag("div", classes="stack")
        self._more = button("", self._show_more, kind="quiet", data_do="older")
        with self._more:
            self._more_text = tag("span")
        self._more.set_visibility(False)
        self._cards: dict[str, CardT] = {}

    def _show_more(self) -> None:
        self.limit += _MORE_JOBS

    def show(self, jobs: Sequence[Job], total: int = 0) -> list[tuple[CardT, Job]]:
        """Show these jobs, newest first, of `total` that exist; each job's card."""
        num_older = min(_MORE_JOBS, total - len(jobs))
        self._more.set_visibility(num_older > 0)
        self._more_text.text = self._t("jobs.older", count=self._t.number(max(0, num_older)))
        ids = [str(job["id"]) for job in jobs]
        for id in [id for id in self._cards if id not in ids]:
            self._column.remove(self._cards.pop(id).element)
        for index, (id, job) in enumerate(zip(ids, jobs, strict=True)):
            if id in self._cards:
                self._cards[id].show(job)
                continue
            with self._column:
                self._cards[id] = self._build_card(job)
            self._cards[id].element.move(target_index=index)
        return [(self._cards[id], job) for id, job in zip(ids, jobs, strict=True)]


# -- fetching --------------------------------------------------------------------------------------


class FetchedJobs(NamedTuple):
    jobs: list[Job]
    """The newest first."""
    total: int
    """All in the requested states."""
    total_all: int
    """Of the same kinds, in any state."""
    keep_days: float
    max_gb: float
    """Limits of finished jobs; 0 is none."""


class JobQuery:
    """Fetches jobs of some kinds, or of all, repeatedly.

    Args:
        api: the visitor's client.
        kinds: all if none is given.
    """

    def __init__(self, api: ApiClient, *kinds: str) -> None:
        self._api, self._kinds = api, kinds
        self._active: set[str] = set()

    async def fetch(self, limit: int, states: Sequence[str] = ()) -> FetchedJobs:
        """The newest jobs, all active ones, and those that ended since the last call."""
        jobs, last = await self._fetch_newest(limit, states)
        counts: dict[str, int] = last["counts"]
        active_states = [state for state in ACTIVE if not states or state in states]
        num_active = sum(job["state"] in ACTIVE for job in jobs.values())
        if sum(counts[state] for state in active_states) > num_active:  # some are older
            found = await self._get(_API_LIMIT, active_states)
            jobs |= {str(job["id"]): job for job in found["jobs"]}
        if not states:
            for id in self._active - jobs.keys():
                with suppress(ApiError):  # it was deleted
                    jobs[id] = await self._api.get(f"/jobs/{id}")
        self._active = {id for id, job in jobs.items() if job["state"] in ACTIVE}
        total = sum(count for state, count in counts.items() if not states or state in states)
        newest = sorted(jobs.values(), key=lambda job: float(job["created"]), reverse=True)
        return FetchedJobs(
            newest, total, sum(counts.values()), last["keep_jobs_days"], last["max_jobs_gb"]
        )

    async def _fetch_newest(self, limit: int, states: Sequence[str]) -> tuple[dict[str, Job], Any]:
        """Jobs by id, and the last answer."""
        jobs: dict[str, Job] = {}
        before: dict[str, int] = {}
        while True:
            found = await self._get(min(limit - len(jobs), _API_LIMIT), states, **before)
            jobs |= {str(job["id"]): job for job in found["jobs"]}
            if found["older"] is None or len(jobs) >= limit:
                return jobs, found
            before = {"before": found["older"]}

    async def _get(self, limit: int, states: Sequence[str], **before: int) -> Any:
        return await self._api.get(
            "/jobs", limit=limit, kind=self._kinds, state=list(states), **before
        )
