"""Limits that work has met before: kept, so that the next run starts right.

One entry a device, engine, version, number format, driver and library: what held under another says
nothing of this one. Several processes may write: each reads anew, adds its own and replaces the
file in one step, one after the other.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from anyrig.storage import files

log = logging.getLogger(__name__)
_FORMAT = 1
# The file is small and is held for milliseconds; whoever waits longer waits for a dead process.
_PATIENCE_S = 2.0
_PAUSE_S = 0.01


class Key(NamedTuple):
    """What a limit holds for."""

    device: str
    """The device's id."""
    engine: str
    version: str
    precision: str = ""
    stamp: str = ""
    """Driver and library versions."""

    @property
    def text(self) -> str:
        """The key as one line."""
        return " | ".join(self)


@dataclass(frozen=True)
class Known:
    """What is known of one limit. Costs are in the engine's own unit: items, tokens, pixels."""

    worked: float | None = None
    """The cost that the last run ended with: the largest that worked, or one that was enough."""
    failed: float | None = None
    """The smallest cost that ran out of memory, above what worked."""
    peak_bytes: int | None = None
    """What the largest that worked took at its peak."""
    when: str = ""

    def joined(
        self, worked: float | None, failed: float | None, peak_bytes: int | None, when: str
    ) -> Known:
        """This and what was seen now; the newer wins where they contradict each other."""
        new = self
        if worked is not None:
            new = replace(new, worked=worked, peak_bytes=peak_bytes)
        if worked is not None and new.failed is not None and worked >= new.failed:
            new = replace(new, failed=None)  # less memory was free when it failed
        if failed is not None and (new.failed is None or failed < new.failed):
            new = replace(new, failed=failed)
        if failed is not None and new.worked is not None and failed <= new.worked:
            new = replace(new, worked=None, peak_bytes=None)  # less is free now
        return replace(new, when=when)


class Limits:
    """The limits in one file."""

    def __init__(self, path: Path, known: Mapping[str, Known]) -> None:
        self._path = path
        self._known = dict(known)

    @classmethod
    def load(cls, path: Path) -> Limits:
        """What is kept so far; a file that cannot be read is empty, to be learnt anew."""
        return cls(path, _read(path))

    def of(self, key: Key) -> Known | None:
        """What is known under a key."""
        return self._known.get(key.text)

    def record(
        self,
        key: Key,
        *,
        worked: float | None = None,
        failed: float | None = None,
        peak_bytes: int | None = None,
    ) -> Known:
        """Keep what was seen, beside what other processes wrote meanwhile.

        A folder that cannot be written costs the memory of it, not the work.
        """
        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        try:
            with _locked(self._path.with_name(f"{self._path.name}.lock")):
                self._known = {**self._known, **_read(self._path)}
                found = self._add(key, worked, failed, peak_bytes, when)
                rows = {text: asdict(known) for text, known in sorted(self._known.items())}
                data = {"format": _FORMAT, "limits": rows}
                files.write_atomic(self._path, json.dumps(data, indent=1) + "\n")
        except OSError as error:
            found = self._add(key, worked, failed, peak_bytes, when)
            log.warning("limits are not kept in %s: %s", self._path, error.strerror or error)
        return found

    def _add(
        self,
        key: Key,
        worked: float | None,
        failed: float | None,
        peak_bytes: int | None,
        when: str,
    ) -> Known:
        found = self._known.get(key.text, Known()).joined(worked, failed, peak_bytes, when)
        self._known[key.text] = found
        return found


def _read(path: Path) -> dict[str, Known]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            return {}
        return {text: _checked(row) for text, row in data["limits"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _checked(row: Mapping[str, object]) -> Known:
    known = Known(**row)  # type: ignore[arg-type]  # checked below
    numbers = (known.worked, known.failed, known.peak_bytes)
    if any(n is not None and (isinstance(n, bool) or not isinstance(n, (int, float)))
           for n in numbers):  # fmt: skip
        raise ValueError("no number")
    return known


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system takes back from a process that dies; go on after a while."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = time.monotonic() + _PATIENCE_S
        while not _try_lock(descriptor) and time.monotonic() < end:
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)  # and so the lock


def _try_lock(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return False
    return True
