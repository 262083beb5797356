"""A job in a person's words: its name, how far it is, when it will be done."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from anyrig.server.page.pieces import Mood
from anyrig.server.page.words import Words

Told = Mapping[str, Any]
ACTIVE = ("queued", "running", "paused")
ICONS = {
    "book": "book", "batch": "speak", "index": "document", "transcribe": "letters",
    "train": "train", "bench": "gauge",
}  # fmt: skip
MOODS: dict[str, Mood] = {"running": "warn", "done": "good", "finished": "good", "failed": "bad"}
_CAN: dict[str, tuple[str, ...]] = {
    "queued": ("pause", "cancel"),
    "running": ("pause", "cancel"),
    "paused": ("resume", "cancel", "delete"),
    "done": ("delete",),
    "failed": ("resume", "delete"),
    "cancelled": ("resume", "delete"),
}
_DAY_S = 86400.0
_SEVERAL = re.compile(r"(.+) and (\d+) more")
"""What the server calls a job of several files."""


class Course(NamedTuple):
    """How far a job is."""

    share: float | None
    """From 0 to 1; None where nobody can tell."""
    words: str


def can(job: Told) -> tuple[str, ...]:
    """What may be asked of it now."""
    return () if job.get("asked") else _CAN.get(str(job["state"]), ())


def state(job: Told) -> str:
    """The key of how it stands: what it was asked and has not done yet comes first."""
    asked = {"pause": "pausing", "cancel": "cancelling"}.get(str(job.get("asked") or ""))
    return asked if asked and job["state"] == "running" else str(job["state"])


def kind(t: Words, job: Told) -> str:
    """What kind of work it is."""
    return t(f"kind.{job['kind']}") if job["kind"] in ICONS else str(job["kind"])


def name(t: Words, job: Told) -> str:
    """What it is about: the title a person gave it, or what it is of."""
    arguments: Told = job.get("arguments") or {}
    if job["kind"] == "bench":
        return t("jobs.this_machine")
    found = str(arguments.get("title") or job.get("title") or kind(t, job))
    several = _SEVERAL.fullmatch(found)
    return t("jobs.and_more", name=several[1], count=several[2]) if several else found


def about(t: Words, job: Told) -> str:
    """What it is, into which index, and since when."""
    arguments: Told = job.get("arguments") or {}
    given = str(arguments.get("author") or arguments.get("index") or "")
    told = [kind(t, job), given, _when(t, job)]
    return " · ".join(one for one in told if one)


def course(t: Words, job: Told) -> Course:
    """How far it is, with the time left."""
    told: Told = job.get("progress") or {}
    where = str(job["state"])
    if where == "done":
        return Course(1.0, "")
    share = told.get("done")
    share = max(0.0, min(1.0, float(share))) if isinstance(share, int | float) else None
    if where == "queued":
        return Course(share, _place(t, job))
    parts = [t.percent(share)] if share else []
    parts += _where(t, told)
    if where == "running":
        parts += _left(t, told)
    return Course(share, " · ".join(parts))


def _place(t: Words, job: Told) -> str:
    """Its place in the queue."""
    place = job.get("place")
    if not place:
        return ""
    return t("jobs.next") if place == 1 else t("jobs.place", number=place)


def _where(t: Words, told: Told) -> list[str]:
    stage = t.known(f"jobs.stage.{told.get('stage')}") if told.get("stage") else ""
    if told.get("num_chapters"):
        if told.get("stage") == "writing":
            return [stage]
        chapter = t("jobs.tell.chapter", number=told.get("chapter", 0), all=told["num_chapters"])
        return [stage, chapter] if stage else [chapter]
    if told.get("num_files"):
        return [t("jobs.tell.files", number=told.get("file", 0), all=told["num_files"])]
    if told.get("steps") and told.get("step"):
        loss = told.get("loss")
        more = [t("jobs.tell.loss", loss=f"{loss:.4g}")] if isinstance(loss, int | float) else []
        return [t("jobs.tell.step", number=told["step"], all=told["steps"]), *more]
    return [stage] if stage else []


def _left(t: Words, told: Told) -> list[str]:
    left, speed = told.get("left_s"), told.get("speed")
    parts = []
    if isinstance(speed, int | float):
        parts.append(t("jobs.tell.speed", speed=t.number(speed, 1)))
    if isinstance(left, int | float) and left >= 1 and told.get("done"):
        parts.append(t("jobs.left", time=t.span(left)))
    elif not told:
        parts.append(t("jobs.loading"))
    return parts


def _when(t: Words, job: Told) -> str:
    """Since when; of one that is done also how long it took.

    One that was begun more than once rested in between, perhaps for days: then from when to when.
    """
    begun, ended = job.get("started"), job.get("ended")
    if not begun or not ended or job["state"] != "done":
        return since(job.get("created"))
    if int(job.get("attempts") or 1) > 1:
        return t("jobs.from_to", begun=since(begun), ended=since(ended))
    took = t("jobs.took", time=t.span(max(0.0, float(ended) - float(begun))))
    return f"{since(job.get('created'))} · {took}"


def since(moment: float | None, now: float | None = None) -> str:
    """A moment: the hour on the same day, the day before that."""
    if not moment:
        return ""
    now = time.time() if now is None else now
    form = "%H:%M" if now - moment < _DAY_S / 2 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(moment))


def newest(jobs: Iterable[Told]) -> list[Told]:
    """The newest first."""
    return sorted(jobs, key=lambda job: float(job["created"]), reverse=True)
