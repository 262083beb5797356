"""A store that may fail: then nothing is kept, that is told once, and the work goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.share import open_results
from anyrig.cli.show import print_warning
from anyrig.errors import StorageError

if TYPE_CHECKING:
    from anyrig.storage.cache import Cache, CachedResult, CacheEntry, Claim, PruneResult
    from anyrig.storage.keys import JsonValue


@contextmanager
def keeping(context: Context) -> Iterator[Cache | None]:
    """The user's store for as long as a command runs; none where it cannot be opened."""
    try:
        store = open_results(context)
    except (StorageError, OSError) as error:
        _tell(error)
        yield None
        return
    with store:
        yield Forgiving(store)


def _tell(error: Exception) -> None:
    said = error.message if isinstance(error, StorageError) else str(error)
    print_warning(f"what is made is not kept for the next time: {said}")


class Forgiving:
    """A store whose full disk costs a warning, not the audio."""

    def __init__(self, store: Cache) -> None:
        self._store, self._failed = store, False

    def get(self, key: str) -> CachedResult | None:
        """A result; None also where the store can no longer be read."""
        try:
            return self._store.get(key)
        except StorageError as error:
            self._give_up(error)
            return None

    def get_many(self, keys: Iterable[str]) -> dict[str, CachedResult]:
        """Several results; none also where the store can no longer be read."""
        try:
            return self._store.get_many(keys)
        except StorageError as error:
            self._give_up(error)
            return {}

    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose results are kept; a store that is no longer read has none."""
        try:
            return self._store.has(keys)
        except StorageError as error:
            self._give_up(error)
            return set()

    def delete(self, key: str) -> bool:
        """Delete a result; whether there was one."""
        try:
            return self._store.delete(key)
        except StorageError as error:
            return self._give_up(error)

    def delete_from_worker(self, worker: str) -> PruneResult:
        """Delete what a worker of a cluster computed."""
        from anyrig.storage.cache import PruneResult

        try:
            return self._store.delete_from_worker(worker)
        except StorageError as error:
            self._give_up(error)
            return PruneResult(0, 0)

    def pin_for_job(self, job: str, *, release: bool = True) -> AbstractContextManager[None]:
        """A block in which everything asked for or kept is safe from eviction."""
        return self._store.pin_for_job(job, release=release)

    def put(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> bool:
        """Keep a result unless one is kept already; whether it was kept."""
        if self._failed:
            return False
        try:
            return self._store.put(key, data, kind=kind, metadata=metadata)
        except StorageError as error:
            return self._give_up(error)

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        """Keep several in one step; how many were kept."""
        if self._failed:
            return 0
        try:
            return self._store.put_many(entries)
        except StorageError as error:
            return int(self._give_up(error))

    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        """Keep a new take in the place of the old one."""
        if self._failed:
            return
        try:
            self._store.replace(key, data, kind=kind, metadata=metadata)
        except StorageError as error:
            self._give_up(error)

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        """What this process is to compute; all, where the cache is not shared or does not say."""
        from anyrig.storage.cache import Claim

        wanted = frozenset(keys)
        try:
            return self._store.claim(wanted, expires_s=expires_s)
        except StorageError:
            return Claim("", wanted)

    def release(self, claim: Claim) -> None:
        """Let others compute what was claimed."""
        with suppress(StorageError):
            self._store.release(claim)

    def _give_up(self, error: StorageError) -> bool:
        if not self._failed:
            _tell(error)
        self._failed = True
        return False
