"""Takes in the store: found by the name of what shaped them, kept with what is known of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import StorageError

if TYPE_CHECKING:
    from anyrig.speech.booth import Recording
    from anyrig.speech.engine import Take
    from anyrig.storage.cache import Cache
    from anyrig.storage.keys import JsonValue

log = logging.getLogger(__name__)
FROM = "from"
"""In a result's metadata: the worker of a cluster that made it."""
KIND = "speech"
"""What its results are called in the store."""


class Kept(NamedTuple):
    """A take that was kept."""

    take: Take
    problems: tuple[str, ...]
    """What the checks had against it."""


class Shelf:
    """An engine's part of a store; one without a store is always empty."""

    def __init__(self, store: Cache | None, engine: str) -> None:
        self._store, self._engine = store, engine
        self._distrusted: set[str] = set()
        self._lock = threading.Lock()

    def there(self, names: Collection[str]) -> set[str]:
        """Which of these are kept."""
        return self._store.has(set(names)) if self._store is not None else set()

    def readable(self, name: str) -> bool:
        """Whether one can still be had."""
        return self._store is not None and self._store.get(name) is not None

    def find(self, name: str) -> Kept | None:
        """A take; none where it is not kept, or damaged, and then it is forgotten."""
        from anyrig.speech.pack import unpack

        result = self._store.get(name) if self._store is not None else None
        if result is None or self._store is None:
            return None
        try:
            return Kept(unpack(result.data), _read_problems(result.metadata))
        except StorageError as error:
            log.warning("making a cached take again: %s", error.message)
        try:
            self._store.delete(name)
        except StorageError as error:  # a shared cache may be read-only
            log.warning("a damaged take stays in the cache: %s", error.message)
        return None

    def forget(self, worker: str) -> int:
        """Drop every take that a worker of a cluster made; how many there were."""
        with self._lock:
            self._distrusted.add(worker)  # what of it is still on its way is not kept either
            if self._store is None:
                return 0
            return self._store.delete_from_worker(worker).num_results

    def keep(self, name: str, recording: Recording | None, *, anew: bool = False) -> None:
        """Keep a take, unless nothing of its text can be heard: then the next run tries again.

        Args:
            name: what shaped it.
            recording: the take.
            anew: in the place of one that is kept already.
        """
        if self._store is None or recording is None or recording.hopeless:
            return
        metadata: dict[str, JsonValue] = {
            "engine": self._engine, "problems": recording.problems, "tries": recording.tries,
        }  # fmt: skip
        put = self._store.replace if anew else self._store.put
        if not recording.made_by:
            put(name, recording.data, kind=KIND, metadata=metadata)
            return
        with self._lock:
            if recording.made_by not in self._distrusted:
                metadata[FROM] = recording.made_by
                put(name, recording.data, kind=KIND, metadata=metadata)


def _read_problems(metadata: Mapping[str, JsonValue]) -> tuple[str, ...]:
    problems = metadata.get("problems", ())
    if isinstance(problems, (list, tuple)) and all(isinstance(one, str) for one in problems):
        return tuple(map(str, problems))
    raise StorageError(
        "the problems of a cached take are not a list of texts",
        hint="Delete it (`anyrig cache verify`): it is made again.",
    )
