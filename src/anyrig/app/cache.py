"""The result cache of a user: on this machine, and on a shared server if the settings name one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.files import check_writable
from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    Message,
    OptionRef,
    StorageError,
)
from anyrig.events import OnEvent, ProgressEvent
from anyrig.options import Request, option
from anyrig.units import GIB, KIB, MIB

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.storage.archive import ExportResult, ImportResult
    from anyrig.storage.cache import (
        Cache,
        CacheStats,
        ProgressCallback,
        PruneResult,
        ResultCache,
        VerifyResult,
    )
    from anyrig.storage.redis import LayeredCache, RedisStats

_SIZE_UNITS = {"B": 1, "K": KIB, "M": MIB, "G": GIB, "T": 1024 * GIB}
_AGE_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


@dataclass(frozen=True, kw_only=True)
class PruneRequest(Request):
    """Which results are dropped: the least recently used first, down to the limit by default."""

    to: str = option("", "prune down to this size: 500M, 2G", metavar="SIZE")
    older_than: str = option(
        "", "prune what was not used for this long: 12h, 30d, 8w", metavar="AGE"
    )
    kind: str | None = option(None, "prune or export only this kind: speech", metavar="KIND")
    engine: str | None = option(None, "prune what this engine made", metavar="NAME")
    all: bool = option(False, "prune everything")
    held: bool = option(False, "also prune what unfinished jobs need")
    dry_run: bool = option(False, "print what would be deleted")

    @property
    def max_bytes(self) -> int | None:
        return 0 if self.all else _parse_size(self.to) if self.to else None

    @property
    def min_age_s(self) -> float | None:
        return _parse_age(self.older_than) if self.older_than else None


@dataclass(frozen=True)
class SharedCache:
    """The cache on a server."""

    address: str
    stats: RedisStats | None
    error: StorageError | None = None
    """Why the server does not answer."""

    def to_json(self) -> dict[str, Any]:
        if self.stats is None:
            assert self.error is not None
            return {
                "place": self.address, "error": self.error.message, "hint": self.error.hint
            }  # fmt: skip
        return {
            "place": self.address, "results": self.stats.num_results,
            "used_bytes": self.stats.used_bytes, "limit_bytes": self.stats.limit_bytes,
            "policy": self.stats.policy, "version": self.stats.version,
        }  # fmt: skip


@dataclass(frozen=True)
class CacheReport:
    """What is cached, and how the cache does."""

    path: Path
    exists: bool
    stats: CacheStats
    slow_reason: str = ""
    read_only: bool = False
    set_aside: tuple[Path, ...] = ()
    """Damaged caches that can be deleted."""
    reported: tuple[Path, ...] = ()
    """Those of them that were set aside, and reported, just now."""
    shared: SharedCache | None = None

    def to_json(self) -> dict[str, Any]:
        stats = self.stats
        return {
            "path": str(self.path),
            "results": stats.num_results,
            "used_bytes": stats.used_bytes,
            "file_bytes": stats.file_bytes,
            "limit_bytes": stats.limit_bytes,
            "kinds": {
                row.kind: {
                    "results": row.num_results,
                    "data_bytes": row.data_bytes,
                    "last_used": row.last_used,
                }
                for row in stats.kinds
            },
            "held": stats.num_pinned,
            "jobs": list(stats.jobs),
            "counters": dict(stats.counters),
            "slow_because": self.slow_reason,
            "set_aside": [str(file) for file in self.set_aside],
            "read_only": self.read_only,
            "shared": self.shared.to_json() if self.shared else None,
        }


def find_cache_file(rig: Rig) -> Path:
    folder = rig.settings.cache.folder
    if not folder:
        return rig.folders.result_cache
    return Path(folder).expanduser().absolute() / rig.folders.result_cache.name


def open_local_cache(rig: Rig) -> ResultCache:
    from anyrig.storage.cache import ResultCache

    return ResultCache(find_cache_file(rig), limit_bytes=_limit_bytes(rig))


def open_shared_cache(rig: Rig) -> ResultCache | LayeredCache:
    """The local cache, in front of the shared one if the settings name a server."""
    url = rig.settings.cache.url
    if not url:
        return open_local_cache(rig)
    from anyrig.storage.redis import LayeredCache, RedisCache

    shared = RedisCache(url)  # first: with an invalid URL, nothing is opened
    cache = LayeredCache(open_local_cache(rig), shared)
    error = cache.check_shared()
    if error is not None:
        rig.warn(
            Message(
                "results are not shared: {problem}. {hint}", problem=error.message, hint=error.hint
            )
        )
    return cache


@contextmanager
def open_cache(rig: Rig) -> Iterator[Cache | None]:
    """The cache for the duration of some work. If it fails, the work goes on without it."""
    from anyrig.storage.cache import TolerantCache

    try:
        cache = open_shared_cache(rig)
    except (StorageError, OSError) as error:
        _warn(rig, error)
        yield None
        return
    with cache:
        yield TolerantCache(cache, lambda error: _warn(rig, error))


# -- looking after it ------------------------------------------------------------------------------


def describe_cache(rig: Rig) -> CacheReport:
    from anyrig.storage.cache import CacheStats
    from anyrig.storage.sqlite import find_set_aside

    path, shared = find_cache_file(rig), describe_shared_cache(rig)
    if not path.exists():
        return CacheReport(path, False, CacheStats(0, 0, 0, _limit_bytes(rig)), shared=shared)
    before = find_set_aside(path)
    with open_local_cache(rig) as cache:
        stats, file = cache.stats(), cache.file
        slow_reason, read_only = file.journal_reason, file.read_only
    set_aside = tuple(find_set_aside(path))
    reported = tuple(one for one in set_aside if one not in before)
    return CacheReport(path, True, stats, slow_reason, read_only, set_aside, reported, shared)


def describe_shared_cache(rig: Rig) -> SharedCache | None:
    """The cache on a server; None if the settings name none."""
    url = rig.settings.cache.url
    if not url:
        return None
    from anyrig.storage.redis import RedisCache

    with RedisCache(url) as cache:
        try:
            return SharedCache(cache.address, cache.stats())
        except StorageError as error:
            return SharedCache(cache.address, None, error)


def prune_cache(
    rig: Rig, request: PruneRequest, on_event: OnEvent
) -> tuple[PruneResult, CacheStats]:
    """Drop results; returns what was dropped, and what is left."""
    selection = (request.to, request.older_than, request.kind, request.engine)
    if request.all and any(selection):
        raise InvalidInputError(
            Message(
                "{all} drops everything, and another option selects results", all=OptionRef("all")
            ),
            hint="Leave one of them out.",
        )
    to_bytes, older_than_s = request.max_bytes, request.min_age_s
    with open_local_cache(rig) as cache:
        _check_kind(cache, request.kind)
        _check_engine(cache, request.engine)
        result = cache.prune(
            to_bytes=to_bytes, older_than_s=older_than_s, kind=request.kind, engine=request.engine,
            include_pinned=request.held, dry_run=request.dry_run,
            on_progress=_report("dropping", on_event),
        )  # fmt: skip
        return result, cache.stats()


def forget_worker(rig: Rig, worker: str, *, dry_run: bool = False) -> PruneResult:
    """Drop what a worker of a cluster made, here and on the shared server."""
    with open_local_cache(rig) as cache:
        workers = cache.list_workers()
        result = cache.delete_from_worker(worker, dry_run=True)
    if worker not in workers:
        raise InvalidInputError(
            f"no results of the worker {worker!r} are cached",
            hint=f"There are results of: {', '.join(workers)}." if workers
            else "All results were made on this machine.",
        )  # fmt: skip
    if not dry_run:
        with open_shared_cache(rig) as shared:
            result = shared.delete_from_worker(worker)
    return result


def export_cache(rig: Rig, file: Path, kind: str | None, on_event: OnEvent) -> ExportResult:
    from anyrig.storage import archive

    check_writable(file)
    with open_local_cache(rig) as cache:
        _check_kind(cache, kind)
        return archive.export_results(
            cache, file, kind=kind, on_progress=_report("exporting", on_event)
        )


def import_cache(rig: Rig, file: Path, on_event: OnEvent) -> ImportResult:
    from anyrig.storage import archive

    with open_local_cache(rig) as cache:
        return archive.import_results(cache, file, on_progress=_report("importing", on_event))


def verify_cache(rig: Rig, on_event: OnEvent) -> VerifyResult:
    """Read everything, and drop what is damaged."""
    with open_local_cache(rig) as cache:
        return cache.verify(_report("verifying", on_event))


def _report(stage: str, on_event: OnEvent) -> ProgressCallback:
    return lambda done, total: on_event(ProgressEvent(stage, done, total))


def _check_kind(cache: ResultCache, kind: str | None) -> None:
    """Refuse an unknown kind: a typing error must not look like an empty result."""
    kinds = [row.kind for row in cache.stats().kinds] if kind else []
    if kinds and kind not in kinds:
        raise InvalidInputError(
            f"no results of the kind {kind!r} are cached", hint=f"Cached: {', '.join(kinds)}."
        )


def _check_engine(cache: ResultCache, engine: str | None) -> None:
    stats = cache.stats() if engine else None
    if stats and stats.num_results and engine not in stats.engines:
        names = ", ".join(stats.engines)
        raise InvalidInputError(
            f"no results of the engine {engine!r} are cached",
            hint=f"There are results of: {names}." if names else "No result names its engine.",
        )


def _parse_size(text: str) -> int:
    """Parse `500M`, `2G`, `1.5 GiB`, `4096B`; a number alone could be meant as any of them."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:i?B)?|B)\s*", text, re.IGNORECASE)
    if not found:
        raise InvalidOptionError("to", "must be a size with a unit, such as 500M or 2G", value=text)
    return int(float(found[1]) * _SIZE_UNITS[(found[2] or "B").upper()])


def _parse_age(text: str) -> float:
    """Parse `90s`, `30m`, `12h`, `30d`, `8w`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text)
    if not found or not math.isfinite(float(found[1])):
        raise InvalidOptionError("older_than", "must be a time, such as 12h, 30d or 8w", value=text)
    return float(found[1]) * _AGE_UNITS[found[2]]


def _limit_bytes(rig: Rig) -> int:
    return int(rig.settings.cache.limit_gb * GIB)


def _warn(rig: Rig, error: Exception) -> None:
    reason = error.message if isinstance(error, StorageError) else str(error)
    rig.warn(f"results are not cached: {reason}")
