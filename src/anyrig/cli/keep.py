"""A store that may fail: then nothing is kept, that is told once, and the work goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.share import open_results
from anyrig.cli.show import print_warning
from anyrig.errors import StorageError
from anyrig.storage.cache import Cache, CacheEntry, Claim, PruneResult

if TYPE_CHECKING:
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


class Forgiving(Cache):
    """A cache whose full disk costs a warning, not the audio."""

    def __init__(self, cache: Cache) -> None:
        self._cache, self._failed = cache, False

    def close(self) -> None:
        self._cache.close()

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        try:
            return self._cache.get_many(keys)
        except StorageError as error:
            self._give_up(error)
            return {}

    def has(self, keys: Iterable[str]) -> set[str]:
        try:
            return self._cache.has(keys)
        except StorageError as error:
            self._give_up(error)
            return set()

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        if self._failed:
            return 0
        try:
            return self._cache.put_many(entries)
        except StorageError as error:
            self._give_up(error)
            return 0

    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        if self._failed:
            return
        try:
            self._cache.replace(key, data, kind=kind, metadata=metadata)
        except StorageError as error:
            self._give_up(error)

    def delete(self, key: str) -> bool:
        try:
            return self._cache.delete(key)
        except StorageError as error:
            self._give_up(error)
            return False

    def delete_from_worker(self, worker: str) -> PruneResult:
        try:
            return self._cache.delete_from_worker(worker)
        except StorageError as error:
            self._give_up(error)
            return PruneResult(0, 0)

    def pin_for_job(self, job: str) -> AbstractContextManager[None]:
        return self._cache.pin_for_job(job)

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        wanted = frozenset(keys)
        try:
            return self._cache.claim(wanted, expires_s=expires_s)
        except StorageError:
            return Claim("", wanted)

    def release(self, claim: Claim) -> None:
        with suppress(StorageError):
            self._cache.release(claim)

    def _give_up(self, error: StorageError) -> None:
        if not self._failed:
            _tell(error)
        self._failed = True
