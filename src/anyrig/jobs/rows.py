"""Rows of the file as jobs and events, and the changes that both sides of it make."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import cast

from anyrig.errors import InvalidInputError
from anyrig.jobs.file import damaged
from anyrig.jobs.job import Event, Job, Plain, State, Trouble, Wish

Row = tuple[object, ...]
FIELDS = (
    "number, id, kind, arguments, state, wish, created, started, ended, progress, error, hint,"
    " result, attempts, owner, beat, client"
)
MOST_EVENT_BYTES = 64 << 10


def to_text(data: Plain, what: str) -> str:
    """Data as JSON; `InvalidInputError` for what JSON cannot hold."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{what} cannot be written as JSON: {error}",
            hint="Give texts, numbers, true, false, null, lists and objects of those.",
        ) from error


def from_text(text: str | None) -> Plain:
    """What `to_text` wrote."""
    try:
        return None if text is None else cast(Plain, json.loads(text))
    except (TypeError, ValueError) as error:
        raise damaged(f"a row holds no JSON ({error})") from error


def _object(text: str | None) -> dict[str, Plain]:
    found = from_text(text)
    if not isinstance(found, dict):
        raise damaged("a row holds something else than it should")
    return found


def job_of(row: Row, *, left: bool) -> Job:
    """A row as a job; `left` says that nobody works on it any more though the row says running."""
    (_, id, kind, arguments, state, wish, created, started, ended, progress, error, hint, result,
     attempts, _, _, client) = row  # fmt: skip
    return Job(
        id=str(id),
        kind=str(kind),
        arguments=_object(cast(str, arguments)),
        state="queued" if left else cast(State, state),
        created=cast(float, created),
        started=cast("float | None", started),
        ended=cast("float | None", ended),
        progress=None if progress is None else _object(cast(str, progress)),
        error=None if error is None else Trouble(str(error), str(hint)),
        result=from_text(cast("str | None", result)),
        attempts=cast(int, attempts),
        asked=cast(Wish, wish),
        client=str(client),
    )


def event_of(row: Row) -> Event:
    """A row as an event."""
    number, time, kind, data = row
    return Event(cast(int, number), cast(float, time), str(kind), _object(cast(str, data)))


def add_event(
    connection: sqlite3.Connection,
    job: int,
    now: float,
    kind: str,
    data: Mapping[str, Plain],
    most: int,
) -> None:
    """Number an event and keep it; over `most`, the oldest progress goes first."""
    text = to_text(data, "an event")
    if len(text) > MOST_EVENT_BYTES:
        text = to_text({"left_out": f"{len(text)} bytes"}, "an event")
    connection.execute("UPDATE jobs SET events = events + 1 WHERE number = ?", (job,))
    connection.execute(
        "INSERT INTO events SELECT number, events, ?, ?, ? FROM jobs WHERE number = ?",
        (now, kind, text, job),
    )
    ((count,),) = connection.execute("SELECT count(*) FROM events WHERE job = ?", (job,))
    if count > most:
        connection.execute(
            "DELETE FROM events WHERE job = ?1 AND number IN (SELECT number FROM events"
            " WHERE job = ?1 ORDER BY kind = 'progress' DESC, number LIMIT ?2)",
            (job, count - most),
        )


def move(
    connection: sqlite3.Connection,
    job: int,
    state: State,
    now: float,
    most: int,
    *,
    trouble: Trouble | None = None,
) -> None:
    """Another state, nobody's wish and nobody's lease; told as an event."""
    over = state in ("done", "failed", "cancelled")
    connection.execute(
        "UPDATE jobs SET state = ?, wish = '', owner = '', beat = NULL, ended = ?, error = ?,"
        " hint = ? WHERE number = ?",
        (state, now if over else None, *(trouble or (None, None)), job),
    )
    data: dict[str, Plain] = {"state": state}
    if trouble:
        data |= {"error": trouble.message, "hint": trouble.hint}
    add_event(connection, job, now, "state", data, most)
