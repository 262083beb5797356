"""Batch sizes that worked or failed in earlier runs, kept so that the next run starts right.

There is one entry for each device, engine, version, precision, driver and library: a limit under
another says nothing about this one. Several processes may write: each reads the file again, adds
its own entry and replaces the file atomically, under a lock.
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

from anyrig.storage.files import write_atomic

log = logging.getLogger(__name__)
_FORMAT = 1
# The lock is held for milliseconds; a longer wait is for a dead process.
_LOCK_TIMEOUT_S = 2.0
_LOCK_POLL_S = 0.01


class LimitKey(NamedTuple):
    """What a limit holds for."""

    device: str
    """The device's id."""
    engine: str
    version: str
    precision: str = ""
    stamp: str = ""
    """Driver and library versions."""

    def __str__(self) -> str:
        return " | ".join(self)


@dataclass(frozen=True)
class KnownLimit:
    """What is known of one limit. Costs are in the engine's own unit: items, tokens, pixels."""

    worked: float | None = None
    """The cost that the last run ended with: the largest that worked, or one that was enough."""
    failed: float | None = None
    """The smallest cost that ran out of memory, above what worked."""
    peak_bytes: int | None = None
    """Peak memory of the largest cost that worked."""
    when: str = ""

    def update(
        self, *, worked: float | None, failed: float | None, peak_bytes: int | None, when: str
    ) -> KnownLimit:
        """Add a newer observation; it wins over a contradicting older one."""
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


class BatchSizeLimits:
    """The limits in one file; a file that cannot be read counts as empty."""

    def __init__(self, path: Path, known: Mapping[str, KnownLimit]) -> None:
        self._path, self._known = path, dict(known)

    @classmethod
    def load(cls, path: Path) -> BatchSizeLimits:
        return cls(path, _read(path))

    def get(self, key: LimitKey) -> KnownLimit | None:
        return self._known.get(str(key))

    def record(
        self,
        key: LimitKey,
        *,
        worked: float | None = None,
        failed: float | None = None,
        peak_bytes: int | None = None,
    ) -> None:
        """Add an observation to the file. A folder that is not writable costs only a warning."""
        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

        def update() -> None:
            known = self.get(key) or KnownLimit()
            self._known[str(key)] = known.update(
                worked=worked, failed=failed, peak_bytes=peak_bytes, when=when
            )

        try:
            with _lock(self._path.with_name(f"{self._path.name}.lock")):
                self._known |= _read(self._path)
                update()
                rows = {text: asdict(known) for text, known in sorted(self._known.items())}
                data = {"format": _FORMAT, "limits": rows}
                write_atomic(self._path, json.dumps(data, indent=1) + "\n")
        except OSError as error:
            update()
            reason = error.strerror or error
            log.warning("could not save batch size limits in %s: %s", self._path, reason)


def _read(path: Path) -> dict[str, KnownLimit]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            return {}
        return {text: _parse(row) for text, row in data["limits"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _parse(row: Mapping[str, object]) -> KnownLimit:
    known = KnownLimit(**row)  # type: ignore[arg-type]  # checked below
    for number in (known.worked, known.failed, known.peak_bytes):
        if isinstance(number, bool) or not isinstance(number, (int, float, type(None))):
            raise ValueError(f"not a number: {number!r}")
    return known


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases if the process dies; continue without it in the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = time.monotonic() + _LOCK_TIMEOUT_S
        while not _try_lock(descriptor) and time.monotonic() < end:
            time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)  # and with it the lock


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
