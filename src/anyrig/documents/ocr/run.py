"""Many pictures to what stands on them, by a pool of workers; what was read once is kept.

    with Pages(chosen, placed=placed, environment=environment, store=store) as pages:
        for found in pages.pages(pictures): ...

It is also what `documents.reading` wants of whoever reads pictures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anyrig.documents.ocr.engine import PagePicture
from anyrig.documents.ocr.page import ReadPage, page_from_bytes
from anyrig.documents.ordered import run_ordered
from anyrig.documents.reading import PageImage, ReadPicture
from anyrig.storage.keys import CacheKey
from anyrig.work.outcome import ItemFailure, ItemOutcome
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.documents.ocr.choose import OcrChoice
    from anyrig.placement import PlacementPlan
    from anyrig.storage.cache import Cache

KIND = "page"
_METHOD = 2
"""How pages are prepared for the engines; what was cached of another way is read again."""


@dataclass(frozen=True)
class PageResult:
    """What came of one picture: a page, or why there is none."""

    page: ReadPage | None
    failure: ItemFailure | None = None
    is_cached: bool = False
    """Whether an earlier run had read it."""


class _OpenPicture(NamedTuple):
    """A picture on its way."""

    key: str
    source: str
    cached: ReadPage | None


class OcrReader:
    """An engine of OCR on every device that was placed."""

    def __init__(
        self,
        chosen: OcrChoice,
        *,
        placed: Callable[[], PlacementPlan] | PlacementPlan,
        environment: Mapping[str, str],
        store: Cache | None = None,
        language: str = "",
    ) -> None:
        """Nothing is loaded before a picture comes that was not read before.

        Args:
            chosen: which engine.
            placed: where it runs; asked for once it is needed, where that is a function.
            environment: this process's own.
            store: where pages are kept, under the file they are of and what is on them.
            language: ISO 639-1; each page's own is found out when empty.
        """
        self.chosen = chosen
        self._placed, self._environment = placed, dict(environment)
        self._store, self._language = store, language
        self._pool: WorkerPool | None = None
        self._look_ahead = 4

    def __enter__(self) -> OcrReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers, where it has any now."""
        return (self._pool,) if self._pool is not None else ()

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        """What stands on each picture, or why it cannot be read."""
        for found in self.pages(pictures):
            if found.page is None:
                reason = found.failure.message if found.failure else ""
                yield ReadPicture("", confidence=0.0, failure=reason or "OCR gave no answer")
                continue
            page = found.page
            yield ReadPicture(page.text, page.confidence)

    def pages(self, pictures: Iterable[bytes]) -> Iterator[PageResult]:
        """What came of each picture, in order; pages are cached as they come."""
        return run_ordered(pictures, self._look_up, self._run, self._finish)

    def _look_up(self, data: bytes) -> tuple[_OpenPicture, list[PagePicture]]:
        key = self._key(data)
        cached = self._get_cached(key)
        picture = [PagePicture(bytes(data), self._language)] if cached is None else []
        return _OpenPicture(key, _source_of(data), cached), picture

    def _run(self, pictures: Iterator[PagePicture]) -> Iterator[ItemOutcome[ReadPage]]:
        pool = self._open_pool()
        return pool.run(pictures, cost=lambda _: 1.0, look_ahead=self._look_ahead)

    def _finish(
        self, opened: _OpenPicture, outcomes: Sequence[ItemOutcome[ReadPage]]
    ) -> PageResult:
        if opened.cached is not None:
            return PageResult(opened.cached, is_cached=True)
        (outcome,) = outcomes
        if outcome.result is not None:
            self._cache(opened, outcome.result)
        return PageResult(outcome.result, outcome.failure)

    def _open_pool(self) -> WorkerPool:
        if self._pool is None:
            placed = self._placed() if callable(self._placed) else self._placed
            workers = sum(one.workers for one in placed.placements)
            self._look_ahead = 2 * workers + 2
            self._pool = WorkerPool(
                LocalWorkers(
                    placed.placements,
                    self.chosen.build_factory(self._language),
                    environment=self._environment,
                    fallback=placed.fallback,
                )
            )
        return self._pool

    # ---------------------------------------------------------------- the store

    def _key(self, data: bytes) -> str:
        return CacheKey(
            KIND, hashlib.sha256(data).hexdigest(), self.chosen.engine, self.chosen.version,
            self.chosen.weights,
            options={"language": self._language, "source": _source_of(data), "method": _METHOD},
        ).digest  # fmt: skip

    def _get_cached(self, key: str) -> ReadPage | None:
        found = self._store.get(key) if self._store is not None else None
        if found is None:
            return None
        try:
            return page_from_bytes(found.data)
        except (ValueError, KeyError, TypeError):
            return None  # of an older form: it is read again and takes its place

    def _cache(self, asked: _OpenPicture, page: ReadPage) -> None:
        if self._store is not None:
            metadata = {"engine": page.engine, "source": asked.source}
            self._store.replace(asked.key, page.to_bytes(), kind=KIND, metadata=metadata)


def _source_of(data: bytes) -> str:
    return data.source if isinstance(data, PageImage) else ""
