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
    from anyrig.storage.key import Plain
    from anyrig.storage.protocol import Claim, Entry, Pruned, Result, Results


@contextmanager
def keeping(context: Context) -> Iterator[Results | None]:
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

    def __init__(self, store: Results) -> None:
        self._store, self._failed = store, False

    def get(self, key: str) -> Result | None:
        """A result; None also where the store can no longer be read."""
        try:
            return self._store.get(key)
        except StorageError as error:
            self._give_up(error)
            return None

    def get_many(self, keys: Iterable[str]) -> dict[str, Result]:
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

    def drop(self, key: str) -> bool:
        """Forget a result; whether there was one."""
        try:
            return self._store.drop(key)
        except StorageError as error:
            return self._give_up(error)

    def forget_from(self, maker: str) -> Pruned:
        """Drop what a worker of a cluster made, where the store knows that."""
        from anyrig.storage.protocol import Forgets, Pruned

        if isinstance(self._store, Forgets):
            try:
                return self._store.forget_from(maker)
            except StorageError as error:
                self._give_up(error)
        return Pruned(0, 0)

    def holding(self, job: str, *, release: bool = True) -> AbstractContextManager[None]:
        """A block in which everything asked for or kept is safe from eviction."""
        return self._store.holding(job, release=release)

    def put(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> bool:
        """Keep a result unless one is kept already; whether it was kept."""
        if self._failed:
            return False
        try:
            return self._store.put(key, data, kind=kind, note=note)
        except StorageError as error:
            return self._give_up(error)

    def put_many(self, entries: Iterable[Entry]) -> int:
        """Keep several in one step; how many were kept."""
        if self._failed:
            return 0
        try:
            return self._store.put_many(entries)
        except StorageError as error:
            return int(self._give_up(error))

    def replace(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> None:
        """Keep a new take in the place of the old one."""
        if self._failed:
            return
        try:
            self._store.replace(key, data, kind=kind, note=note)
        except StorageError as error:
            self._give_up(error)

    def claim(self, keys: Iterable[str], *, lapse_s: float) -> Claim:
        """What this process is to make; all, where the store is nobody else's or does not say."""
        from anyrig.storage.protocol import Claim, Claims

        asked = frozenset(keys)
        if not isinstance(self._store, Claims):
            return Claim("", asked)
        try:
            return self._store.claim(asked, lapse_s=lapse_s)
        except StorageError:
            return Claim("", asked)

    def release(self, claim: Claim) -> None:
        """Let others make what was claimed."""
        from anyrig.storage.protocol import Claims

        if claim.token and isinstance(self._store, Claims):
            with suppress(StorageError):
                self._store.release(claim)

    def _give_up(self, error: StorageError) -> bool:
        if not self._failed:
            _tell(error)
        self._failed = True
        return False
