"""What a store of results answers and what it tells of itself.

`results.Store` keeps them in SQLite on one machine. Several machines may share another
implementation that fits `Results`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from anyrig.storage.key import Plain

Tell = Callable[[int, int], None]
"""Told how many are done, of how many, while something long runs."""


class Entry(NamedTuple):
    """A result to be kept."""

    key: str
    data: bytes
    kind: str
    note: Mapping[str, Plain] = {}
    """Small facts beside the data; `engine` among them can be pruned by."""


@dataclass(frozen=True)
class Result:
    """A result as it was kept."""

    key: str
    kind: str
    data: bytes = field(repr=False)
    note: Mapping[str, Plain] = field(default_factory=dict)
    made: float = 0.0
    """When it was kept, in seconds since 1970."""


class KindSize(NamedTuple):
    """What is kept of one kind."""

    kind: str
    num_results: int
    data_bytes: int
    last_used: float


@dataclass(frozen=True)
class Size:
    """What a store holds."""

    num_results: int
    used_bytes: int
    """Pages in use, what the limit is for; the data and everything beside it."""
    file_bytes: int
    """What the disk gives to it, free pages and journal included."""
    limit_bytes: int
    kinds: tuple[KindSize, ...] = ()
    engines: tuple[str, ...] = ()
    """Those that the results name as theirs."""
    num_held: int = 0
    """Results that unfinished jobs need, which are never evicted."""
    jobs: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    """`hits` and `misses` of get, `evicted` by the limit, `bad` by their checksum."""


class Pruned(NamedTuple):
    """What was dropped, or would be."""

    num_results: int
    data_bytes: int
    num_held: int = 0
    """Left alone because unfinished jobs need them."""


class Verified(NamedTuple):
    """What a look at every result found."""

    num_results: int
    num_bad: int
    """Not what was kept; they are dropped."""


class Results(Protocol):
    """What work asks of a store."""

    def get(self, key: str) -> Result | None:
        """A result, or None."""

    def get_many(self, keys: Iterable[str]) -> dict[str, Result]:
        """Those of the results that are kept, by key; all of them in memory at once."""

    def put(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> bool:
        """Keep a result unless one is kept already; whether it was kept."""

    def put_many(self, entries: Iterable[Entry]) -> int:
        """Keep several in one step, as `put` does; how many were kept."""

    def replace(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> None:
        """Keep a new take in the place of the old one."""

    def drop(self, key: str) -> bool:
        """Forget a result; whether there was one."""

    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose results are kept."""

    def holding(self, job: str, *, release: bool = True) -> AbstractContextManager[None]:
        """A block in which everything asked for or kept is safe from eviction."""


@runtime_checkable
class Forgets(Protocol):
    """A store that knows which worker of a cluster made what."""

    def forget_from(self, maker: str) -> Pruned:
        """Drop every result whose note names a worker under `from`."""


class Claim(NamedTuple):
    """Results that one caller said it would make."""

    token: str
    """Nobody else's, so that one that has lapsed takes nothing from the next; "" is no claim."""
    keys: frozenset[str]


@runtime_checkable
class Claims(Protocol):
    """What a store of several machines knows besides: who is making a result right now.

    A claim saves work and promises nothing: it lapses when its holder dies, and whoever does not
    want to wait makes the result himself.
    """

    def claim(self, keys: Iterable[str], *, lapse_s: float) -> Claim:
        """Those of the keys that nobody had claimed, now the caller's for so long."""

    def release(self, claim: Claim) -> None:
        """Give up what of a claim still stands."""
