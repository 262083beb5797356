"""Jobs: what is sent to begin one, and how one looks."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from anyrig.server.schemas.job_arguments import EXAMPLES, variants

JobKind = Literal["book", "batch", "index", "transcribe", "train", "bench"]
JobState = Literal["queued", "running", "paused", "done", "failed", "cancelled"]
_ID = "k3vq2mzx7a4hn5we"
JOB: dict[str, Any] = {
    "id": _ID, "kind": "book", "title": "The Tide Clock.epub", "state": "running", "asked": "",
    "created": 1794700800.5, "started": 1794700801.0, "ended": None, "attempts": 1,
    "arguments": {"file": "upload:9f0c1e2d3b4a59687786950413223140", "rate": 1.1},
    "progress": {"stage": "making", "done": 0.42, "chapter": 3, "num_chapters": 7,
                 "title": "The harbour", "speed": 21.5, "left_s": 48.0},
    "error": None, "result": None, "num_files": 0, "here": True, "place": None,
}  # fmt: skip
_WAITS = {
    **JOB, "id": "uztmk4z5hrphsxul", "kind": "batch", "title": "The tide came in.",
    "state": "queued", "created": 1794700900.0, "started": None, "attempts": 0,
    "arguments": {"lines": "200 lines"}, "progress": None, "place": 1,
}  # fmt: skip


def _described(schema: dict[str, Any]) -> None:
    """With what each kind takes."""
    from anyrig.server.orders import takes

    kinds = get_args(JobKind)
    schema["examples"] = [{"kind": kind, "arguments": EXAMPLES[kind]} for kind in kinds]
    schema["oneOf"] = variants({kind: takes(kind) for kind in kinds})


class NewJob(BaseModel):
    """Long work that shall be done."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_described)

    kind: JobKind
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="What this kind takes: the long names of the command's flags, `read_along` for "
        '`--read-along`. Files are named as "upload:ID"; outputs have places of their own.',
    )


class JobTrouble(BaseModel):
    """Why a job failed."""

    message: str
    hint: str = Field(description="What to do next.")


class JobShown(BaseModel):
    """A job as it stands."""

    model_config = ConfigDict(json_schema_extra={"examples": [JOB]})

    id: str
    kind: str
    title: str = Field(description="What it is of.")
    state: JobState
    asked: Literal["", "pause", "cancel"] = Field(
        description="What a running job was asked to do and has not done yet."
    )
    created: float = Field(description="Seconds since 1970, as all times are.")
    started: float | None
    ended: float | None
    attempts: int = Field(description="How often work on it was begun.")
    arguments: dict[str, Any]
    progress: dict[str, Any] | None = Field(
        description="`done` from 0 to 1, `left_s`, `speed` in times real time, `stage`, `title`."
    )
    error: JobTrouble | None
    result: dict[str, Any] | None
    num_files: int = Field(description="How many files of it can be had.")
    here: bool = Field(description="Whether it came over HTTP: only then its files can be had.")
    place: int | None = Field(
        description="Of one that is queued, where it stands: 1 is the next, of whatever kind."
    )


_COUNTS: dict[str, Any] = {
    "queued": 1,
    "running": 1,
    "paused": 0,
    "done": 38,
    "failed": 2,
    "cancelled": 0,
}


class JobsShown(BaseModel):
    """Some jobs, the oldest first, and how many there are."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"jobs": [JOB, _WAITS], "counts": _COUNTS, "older": 41}],
        }
    )

    jobs: list[JobShown]
    counts: dict[JobState, int] = Field(
        description="All that there are of the kinds that were asked for, listed here or not."
    )
    older: int | None = Field(
        description="Given as `before`, those that come before these are listed; null at the end."
    )


class JobFile(BaseModel):
    """A file that a job made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "number": 1,
                    "name": "The Tide Clock.m4b",
                    "size": 1048576,
                    "type": "audio/mp4",
                    "url": f"/jobs/{_ID}/files/1",
                }
            ]
        }
    )

    number: int = Field(ge=1)
    name: str
    size: int = Field(ge=0)
    type: str
    url: str


class JobFiles(BaseModel):
    """What a job made so far."""

    files: list[JobFile]


class JobDeleted(BaseModel):
    """A job that is gone, and its files with it."""

    id: str
    deleted: bool = True
