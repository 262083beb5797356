"""Two stores as one: the machine's own first, then the one it shares with others.

What is found far away is kept nearby as well. The far store may fail at any time: then the near one
goes on alone, that is said once, and half a minute later the far one is asked again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from anyrig.errors import StorageError
from anyrig.storage.key import Plain
from anyrig.storage.protocol import Claim, Claims, Entry, Pruned, Result, Results

log = logging.getLogger(__name__)
T = TypeVar("T")
AGAIN_S = 30.0


class Opened(Results, Protocol):
    """A store that is closed in the end."""

    def close(self) -> None:
        """Let go of its file or its connections."""


class Near(Opened, Protocol):
    """A store of one machine, which knows what it holds."""

    def made_by(self, maker: str) -> list[str]:
        """The keys of what a worker of a cluster made."""

    def forget_from(self, maker: str) -> Pruned:
        """Drop what a worker of a cluster made."""


class Shared(Opened, Claims, Protocol):
    """A store of several machines."""


class Layered:
    """Fits `protocol.Results` and `protocol.Claims`; closes both stores when it is closed.

    Args:
        near: the machine's own; its failures are the caller's.
        far: the shared one; its failures are not.
        again_s: how long the far one is left alone when it failed.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        near: Near,
        far: Shared,
        *,
        again_s: float = AGAIN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.near, self.far = near, far
        self._again_s, self._clock = again_s, clock
        self._quiet_until, self._down = float("-inf"), False
        self._lock = threading.Lock()

    def __enter__(self) -> Layered:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close both."""
        try:
            self.far.close()
        finally:
            self.near.close()

    def check(self) -> StorageError | None:
        """Ask the far store for an answer; why it gives none. It is left alone for a while then,
        and whoever asked says so: the log does not repeat it.
        """
        try:
            self.far.has(("check",))
        except StorageError as error:
            with self._lock:
                self._down, self._quiet_until = True, self._clock() + self._again_s
            return error
        return None

    def get(self, key: str) -> Result | None:
        """A result, or None."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Result]:
        """Those of the results that are kept anywhere, by key."""
        asked = list(dict.fromkeys(keys))
        found = self.near.get_many(asked)
        lacking = [key for key in asked if key not in found]
        if not lacking:
            return found
        nothing: dict[str, Result] = {}
        come = self._far(lambda: self.far.get_many(lacking), nothing)
        if come:
            self._bring(come.values())
        return found | come

    def put(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> bool:
        """Keep a result unless one is kept already; whether it was kept nearby."""
        return self.put_many((Entry(key, data, kind, note),)) == 1

    def put_many(self, entries: Iterable[Entry]) -> int:
        """Keep several in both; how many were kept nearby."""
        given = list(entries)
        try:
            return self.near.put_many(given)
        finally:  # a full disk here is no reason to keep it from the others
            self._far(lambda: self.far.put_many(given), 0)

    def replace(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> None:
        """Keep a new take in the place of the old one, in both."""
        self.near.replace(key, data, kind=kind, note=note)
        self._far(lambda: self.far.replace(key, data, kind=kind, note=note), None)

    def drop(self, key: str) -> bool:
        """Forget a result in both; whether there was one. Here the far one's failure is raised:

        whoever wants a result gone must know that it is not.
        """
        here = self.near.drop(key)
        return self.far.drop(key) or here

    def forget_from(self, maker: str) -> Pruned:
        """Drop what a worker made nearby, and the same keys afar; its failure is raised."""
        for key in self.near.made_by(maker):
            self.far.drop(key)
        return self.near.forget_from(maker)

    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose results are kept; the far ones may be gone a moment later."""
        asked = set(keys)
        here = self.near.has(asked)
        lacking, none = asked - here, set[str]()
        return here | self._far(lambda: self.far.has(lacking), none) if lacking else here

    def holding(self, job: str, *, release: bool = True) -> AbstractContextManager[None]:
        """A block in which everything asked for or kept nearby is safe from eviction."""
        return self.near.holding(job, release=release)

    def claim(self, keys: Iterable[str], *, lapse_s: float) -> Claim:
        """Those of the keys that no machine had claimed; all, where the far store does not say."""
        asked = list(keys)
        alone = Claim("", frozenset(asked))
        return self._far(lambda: self.far.claim(asked, lapse_s=lapse_s), alone)

    def release(self, claim: Claim) -> None:
        """Give up what of a claim still stands."""
        if claim.token:
            self._far(lambda: self.far.release(claim), None)

    def _bring(self, results: Iterable[Result]) -> None:
        """Keep nearby what came from afar; a full disk does not take it away again."""
        try:
            self.near.put_many(Entry(one.key, one.data, one.kind, one.note) for one in results)
        except StorageError as error:
            log.warning("what others made is not kept here: %s", error.message)

    def _far(self, ask: Callable[[], T], otherwise: T) -> T:
        """What the far store answers; `otherwise` where it fails, or did so a moment ago."""
        if self._clock() < self._quiet_until:
            return otherwise
        try:
            answer = ask()
        except StorageError as error:
            self._fail(error)
            return otherwise
        if self._down:
            self._down = False
            log.info("the shared store answers again")
        return answer

    def _fail(self, error: StorageError) -> None:
        with self._lock:
            told, self._down = self._down, True
            self._quiet_until = self._clock() + self._again_s
        level = logging.INFO if told else logging.WARNING
        log.log(level, "results are not shared for now: %s", error.message)
