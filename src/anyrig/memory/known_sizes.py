"""Batch sizes that worked or failed in earlier runs, kept so that the next run starts right.

There is one entry for each device, engine, version, precision, driver and library: a size under
another says nothing about this one. Several processes may write: each reads the file again, adds
its own entry and replaces the file atomically, under a lock.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from anyrig.storage.files import lock_file, make_folder, read_versioned, write_versioned

log = logging.getLogger(__name__)
_FORMAT = 1
# The lock is held for milliseconds. After a longer wait the file is written all the same.
_LOCK_TIMEOUT_S = 2.0


class BatchSizeKey(NamedTuple):
    """What a known batch size holds for."""

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
class KnownBatchSize:
    """What is known for one key. Costs are in the engine's own unit: items, tokens, pixels."""

    worked: float | None = None
    """The cost that the last run ended with: the largest that worked, or one that was enough."""
    failed: float | None = None
    """The smallest cost that ran out of memory, above what worked."""
    when: str = ""

    def add_success(self, cost: float) -> KnownBatchSize:
        """If it failed before, less memory was free then."""
        failed = None if self.failed is not None and cost >= self.failed else self.failed
        return replace(self, worked=cost, failed=failed)

    def add_failure(self, cost: float) -> KnownBatchSize:
        """If it worked before, less memory is free now."""
        new = (
            self if self.failed is not None and self.failed <= cost else replace(self, failed=cost)
        )
        if new.worked is not None and cost <= new.worked:
            new = replace(new, worked=None)
        return new


class KnownBatchSizes:
    """The known batch sizes in one file; a file that cannot be read counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path, self._known = path, _read(path)

    def get(self, key: BatchSizeKey) -> KnownBatchSize | None:
        return self._known.get(str(key))

    def record(
        self,
        key: BatchSizeKey,
        *,
        worked: float | None = None,
        failed: float | None = None,
    ) -> None:
        """Add an observation to the file. A folder that is not writable costs only a warning."""
        try:
            make_folder(self._path.parent)
            with lock_file(self._path.with_name(f"{self._path.name}.lock"), _LOCK_TIMEOUT_S):
                self._known |= _read(self._path)
                self._update(key, worked, failed)
                rows = {text: asdict(known) for text, known in sorted(self._known.items())}
                write_versioned(self._path, _FORMAT, {"limits": rows})
        except OSError as error:
            self._update(key, worked, failed)
            reason = error.strerror or error
            log.warning("could not save known batch sizes in %s: %s", self._path, reason)

    def _update(self, key: BatchSizeKey, worked: float | None, failed: float | None) -> None:
        known = self.get(key) or KnownBatchSize()
        if worked is not None:
            known = known.add_success(worked)
        if failed is not None:
            known = known.add_failure(failed)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._known[str(key)] = replace(known, when=now)


def _read(path: Path) -> dict[str, KnownBatchSize]:
    try:
        rows = read_versioned(path, _FORMAT).get("limits", {})
        return {text: _parse(row) for text, row in rows.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _parse(row: Mapping[str, object]) -> KnownBatchSize:
    # Older versions stored `peak_bytes` as well.
    names = {"worked", "failed", "when"} & row.keys()
    known = KnownBatchSize(**{name: row[name] for name in names})  # type: ignore[arg-type]
    for number in (known.worked, known.failed):
        if isinstance(number, bool) or not isinstance(number, (int, float, type(None))):
            raise ValueError(f"not a number: {number!r}")
    return known
