"""The result cache of a user: on this machine, and on a shared server if the settings name one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anyrig.errors import StorageError
from anyrig.storage.cache import Cache, CacheEntry, Claim, PruneResult
from anyrig.units import GIB

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.storage.cache import ResultCache
    from anyrig.storage.keys import JsonValue
    from anyrig.storage.redis import LayeredCache

T = TypeVar("T")


def find_cache_file(rig: Rig) -> Path:
    folder = rig.settings.cache.folder
    if not folder:
        return rig.folders.result_cache
    return Path(folder).expanduser().absolute() / rig.folders.result_cache.name


def open_local_cache(rig: Rig) -> ResultCache:
    from anyrig.storage.cache import ResultCache

    return ResultCache(find_cache_file(rig), limit_bytes=int(rig.settings.cache.limit_gb * GIB))


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
        rig.warn(f"results are not shared: {error.message}. {error.hint}")
    return cache


@contextmanager
def open_cache(rig: Rig) -> Iterator[Cache | None]:
    """The cache for the duration of some work. If it fails, the work goes on without it."""
    try:
        cache = open_shared_cache(rig)
    except (StorageError, OSError) as error:
        _warn(rig, error)
        yield None
        return
    with cache:
        yield TolerantCache(cache, lambda error: _warn(rig, error))


def _warn(rig: Rig, error: Exception) -> None:
    reason = error.message if isinstance(error, StorageError) else str(error)
    rig.warn(f"results are not cached: {reason}")


class TolerantCache(Cache):
    """A cache whose failure is reported once and costs no work: reads find nothing from then on."""

    def __init__(self, cache: Cache, on_failure: Callable[[StorageError], None]) -> None:
        self._cache, self._on_failure, self._failed = cache, on_failure, False

    def close(self) -> None:
        self._cache.close()

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        return self._try(lambda: self._cache.get_many(keys), {})

    def has(self, keys: Iterable[str]) -> set[str]:
        return self._try(lambda: self._cache.has(keys), set())

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        return 0 if self._failed else self._try(lambda: self._cache.put_many(entries), 0)

    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        if not self._failed:
            self._try(lambda: self._cache.replace(key, data, kind=kind, metadata=metadata), None)

    def delete(self, key: str) -> bool:
        return self._try(lambda: self._cache.delete(key), False)

    def delete_from_worker(self, worker: str) -> PruneResult:
        return self._try(lambda: self._cache.delete_from_worker(worker), PruneResult(0, 0))

    def pin_for_job(self, job: str) -> AbstractContextManager[None]:
        return self._cache.pin_for_job(job)

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        wanted = frozenset(keys)
        return self._try(lambda: self._cache.claim(wanted, expires_s=expires_s), Claim("", wanted))

    def release(self, claim: Claim) -> None:
        self._try(lambda: self._cache.release(claim), None)

    def _try(self, call: Callable[[], T], default: T) -> T:
        try:
            return call()
        except StorageError as error:
            if not self._failed:
                self._on_failure(error)
            self._failed = True
            return default
