"""Chapters of a book job: which are done, and how the sound of one is to be had.

The takes of a finished chapter lie in the store while the rest is made; a clerk puts them together
when somebody wants to listen, and what it made is kept with the job's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyrig.audiobooks.names import safe_name
from anyrig.jobs import Job
from anyrig.server.errors import Problem
from anyrig.server.jobs import find_job_folder, list_files
from anyrig.server.state import ServerState
from anyrig.storage.keys import JsonValue


@dataclass(frozen=True)
class ChapterOrder:
    """How a chapter's sound is to be had."""

    name: str
    """What it is saved as."""
    target: Path
    """Where it is put together."""
    ready: Path | None
    """Its file, where it is one of the book's own."""
    arguments: Mapping[str, Any]
    """For the clerk."""


def planned(found: Mapping[str, Any], upload: str) -> dict[str, Any]:
    """A clerk's plan as an answer."""
    rows = [
        {"number": row["number"], "title": row["title"], "level": row["level"],
         "words": row["words"], "seconds": row["estimated_s"], "kind": row["role"],
         "chosen": row["spoken"]}
        for row in found["chapters"]
    ]  # fmt: skip
    return {
        "title": found["title"], "author": ", ".join(found["authors"]),
        "language": found["language"], "format": found["format"],
        "cover": f"/books/cover/{upload}" if found["cover"] else None,
        "engine": found["engine"], "voice": found["voice"], "chapters": rows,
        "words": sum(row["words"] for row in rows if row["chosen"]),
        "audio_s": found["estimated_s"], "wall_s": found["to_make_s"],
        "measured": found["measured"], "warnings": found["warnings"],
    }  # fmt: skip


def chapters(server: ServerState, job: Job) -> list[dict[str, Any]]:
    """Each with its state; none before the book was opened."""
    here = find_job_folder(server, job) is not None
    ends = {row["number"]: row for row in _finished(job)}
    numbers, titles = _begun(server, job)
    if not numbers:
        numbers, titles = list(ends), [str(row["title"]) for row in ends.values()]
    at = _at(job, len(numbers))
    found = []
    for place, (number, title) in enumerate(zip(numbers, titles, strict=True)):
        row = ends.get(number)
        state = "done" if row or place < at else "waiting"
        if state == "waiting" and place == at and job.state == "running":
            state = "making"
        seconds = round(row["end_s"] - row["start_s"], 3) if row else None
        url = f"/jobs/{job.id}/chapters/{number}" if state == "done" and here else None
        found.append(
            {"number": number, "title": title, "state": state, "url": url, "seconds": seconds}
        )
    return found


def order(server: ServerState, job: Job, number: int) -> ChapterOrder:
    """How one is to be had; a problem where it is not done."""
    folder = find_job_folder(server, job)
    if job.kind != "book" or folder is None:
        raise Problem(409, "that job has no chapters to listen to", hint="Ask for a book's.")
    rows = {row["number"]: (place, row) for place, row in enumerate(chapters(server, job))}
    if number not in rows:
        raise Problem(404, f"the book has no chapter {number}", hint="See the job's chapters.")
    place, row = rows[number]
    if row["state"] != "done":
        raise Problem(
            409, f"chapter {number} is not made yet", hint="Listen to it when the job is past it."
        )
    target = folder / "chapters" / f"{number}.mp3"
    made = [one.path for one in list_files(server, job)] if job.state == "done" else []
    whole = job.arguments.get("format") in (None, "", "m4b")
    ready = made[place] if made and not whole and place < len(made) else None
    arguments: dict[str, Any] = {
        "arguments": dict(job.arguments), "number": number, "target": str(target), "track": place,
    }  # fmt: skip
    if made and whole:
        arguments["made"] = str(made[0])
    ending = (ready or target).suffix
    return ChapterOrder(f"{number:02d} {safe_name(row['title'])}{ending}", target, ready, arguments)


def _begun(server: ServerState, job: Job) -> tuple[list[int], list[str]]:
    """Numbers and titles, as the job told when it began last."""
    numbers: list[int] = []
    titles: list[str] = []
    for event in server.jobs.events(job.id):
        if event.kind == "begin":
            found, named = event.data.get("numbers"), event.data.get("chapters")
            if isinstance(found, list) and isinstance(named, list) and len(found) == len(named):
                numbers = [one for one in found if isinstance(one, int)]
                titles = [str(one) for one in named]
    return numbers, titles


def _at(job: Job, count: int) -> int:
    """How many are done."""
    now: Mapping[str, JsonValue] = job.progress or {}
    if job.state == "done" or now.get("stage") == "writing":
        return count
    chapter = now.get("chapter")
    return max(0, chapter - 1) if isinstance(chapter, int) else 0


def _finished(job: Job) -> list[dict[str, Any]]:
    result = job.result if isinstance(job.result, Mapping) else {}
    rows = result.get("chapters")
    return [dict(row) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
