"""Texts in, entities out: grammars here, names through `work`, in the order of the input.

with Finder(choose(), placed=placed, environment=environment) as finder:
    for found in finder.find(texts): ...
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anyrig.documents.analyse.stop_words import is_stop
from anyrig.documents.entities import grammar, marked_names, people
from anyrig.documents.entities.entity import NAMES, Entity
from anyrig.documents.entities.labels import cleaned, kind_of
from anyrig.documents.entities.merge import joined, merged
from anyrig.documents.entities.names import Namer
from anyrig.documents.entities.reading import Reading, label, read
from anyrig.documents.entities.stretches import Cut, cuts, stretches, windows
from anyrig.work.outcome import ItemOutcome, RunReport
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.documents.entities.stretches import Stretch, Window
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import PlacementPlan

_COLON = re.compile(r"\.? ?:(?!//)")
_BEGINS = re.compile(r"(?:[.!?:;]|\n|^)[\s\"'(\u00ab\u201c-]*$")
_BANK = label(r"bic|swift")
LOOK_AHEAD = 512
"""Windows that may be made ahead."""


@dataclass(frozen=True)
class Text:
    """A text to look at."""

    text: str
    language: str = ""
    """Where it is known; else it is found out, paragraph by paragraph."""
    default: str = "en"
    """What a text that says too little is taken for: the language of its file."""


@dataclass(frozen=True)
class Found:
    """What a text names."""

    entities: tuple[Entity, ...]
    languages: tuple[str, ...]
    """Of its paragraphs, the longest first."""
    nameless: tuple[str, ...] = ()
    """Languages whose names were not looked for, as no model reads them."""
    failed: str = ""
    """Why some of its names may be missing."""
    hint: str = ""


@dataclass
class _Job:
    """A text on its way."""

    reading: Reading
    stretches: Sequence[Stretch]
    cuts: Sequence[Cut]
    results: list[ItemOutcome[Any]] = field(default_factory=list)


class Finder:
    """Grammars, and a model on every device that was placed."""

    def __init__(
        self,
        namer: Namer | None,
        *,
        placed: PlacementPlan | None = None,
        environment: Mapping[str, str] | None = None,
        limits: KnownBatchSizes | None = None,
        stamp: str = "",
        kinds: Sequence[str] | None = None,
        unchecked: bool = False,
        lists: bool = True,
    ) -> None:
        """Start the workers, if names are wanted; they load while this goes on.

        Args:
            namer: what finds names; None for grammars alone.
            placed: where it runs; without it there are no names.
            environment: this process's own.
            limits: batch sizes that earlier runs found.
            stamp: driver and library versions, under which sizes hold.
            kinds: those that are wanted; all when None.
            unchecked: whether numbers that fail their check are told, marked as such.
            lists: whether names are also found by lists and by what marks them.
        """
        self._lists = lists
        self.namer = namer if placed is not None and wants_names(namer, kinds) else None
        self._kinds, self._unchecked = kinds, unchecked
        self._pool: WorkerPool | None = None
        if self.namer is not None and placed is not None:
            self._pool = WorkerPool(
                LocalWorkers(
                    placed.placements,
                    self.namer.recipe,
                    environment=environment or {},
                    fallback=placed.fallback,
                    known_sizes=limits,
                    stamp=stamp,
                )
            )

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers, where it has any now."""
        return (self._pool,) if self._pool is not None else ()

    def wait_ready(self) -> None:
        """Wait until the model is loaded everywhere."""
        if self._pool is not None:
            self._pool.wait_ready()

    def close(self) -> None:
        """End every worker."""
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> Finder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(
        self, texts: Iterable[Text | str], *, report: RunReport | None = None
    ) -> Iterator[Found]:
        """What each text names, in order."""
        if self._pool is None:
            yield from (self._told(self._job(text)) for text in texts)
            return
        waiting: deque[_Job] = deque()

        def parcels() -> Iterator[Window]:
            for text in texts:
                job = self._job(text)
                waiting.append(job)
                yield from windows(job.cuts, job.reading.text)

        outcomes = self._pool.run(
            parcels(), cost=lambda window: window.cost, look_ahead=LOOK_AHEAD, report=report
        )
        for outcome in outcomes:
            while not waiting[0].cuts:
                yield self._told(waiting.popleft())
            waiting[0].results.append(outcome)
            while waiting and len(waiting[0].results) == len(waiting[0].cuts):
                yield self._told(waiting.popleft())
        while waiting:
            yield self._told(waiting.popleft())

    def _job(self, text: Text | str) -> _Job:
        text = Text(text) if isinstance(text, str) else text
        parts = stretches(text.text, language=text.language, default=text.default)
        reading = read(text.text, {part.start: part.language for part in parts})
        made: list[Cut] = []
        if self.namer is not None:
            read_here = [part for part in parts if self.namer.reads(part.language)]
            made = cuts(read_here, text.text, self.namer.window)
        return _Job(reading, parts, made)

    def _told(self, job: _Job) -> Found:
        names = self._names(job)
        if self._kinds is None or any(kind in NAMES for kind in self._kinds):
            names = self._add_names(job, names)
        entities = merged([*grammar.found(job.reading), *names], unchecked=self._unchecked)
        entities = joined(entities, lambda start, end: job.reading.text[start:end])
        if self._kinds is not None:
            entities = [one for one in entities if self._wanted(one)]
        failures = [one.failure for one in job.results if one.failure is not None]
        sizes: dict[str, int] = {}
        for part in job.stretches:
            sizes[part.language] = sizes.get(part.language, 0) + part.end - part.start
        languages = tuple(sorted(sizes, key=lambda name: -sizes[name]))
        namer = self.namer
        wanted = self._kinds is None or any(kind in NAMES for kind in self._kinds)
        only_people = self._kinds is not None and not {"organisation", "place"} & {*self._kinds}
        nameless = () if not wanted else tuple(
            name for name in languages
            if (namer is None or not namer.reads(name))
            and not (only_people and self._lists and name.partition("-")[0] in people.LANGUAGES)
        )  # fmt: skip
        return Found(
            tuple(entities), languages, nameless,
            failures[0].message if failures else "", failures[0].hint if failures else "",
        )  # fmt: skip

    def _add_names(self, job: _Job, names: list[Entity]) -> list[Entity]:
        """A model's names, less people that cannot be any, with those that need no model."""
        if not self._lists:
            return names
        if self.namer is not None and not self.namer.own_labels:
            names = [one for one in names if one.kind != "person" or people.is_plausible(one.text)]
        found = (clean for one in people.find(job.reading) if (clean := cleaned(one)))
        return marked_names.settled([*names, *marked_names.find(job.reading), *found])

    def _wanted(self, one: Entity) -> bool:
        own = self.namer is not None and self.namer.own_labels and one.source == self.namer.name
        known = one.kind in (*NAMES, "date", "money", "percent", "email", "phone", "iban", "tax")
        return one.kind in (self._kinds or ()) or (own and not known)

    def _names(self, job: _Job) -> list[Entity]:
        """A model's finds with their place in the text, each from the window that owns it."""
        found: list[Entity] = []
        namer = self.namer
        if namer is None:
            return found
        for cut, outcome in zip(job.cuts, job.results, strict=False):
            for start, end, named, score in outcome.result or ():
                kind = kind_of(named, known_only=not namer.own_labels)
                start, end = start + cut.start, end + cut.start
                if not kind or not cut.own_start <= start < cut.own_end:
                    continue
                if not namer.own_labels and kind not in NAMES:
                    continue
                text = job.reading.text[start:end]
                one = Entity(kind, text, start, end, "", namer.source(cut.language), score)
                clean = cleaned(one) if kind in NAMES else one
                if clean is not None and not _is_label(job.reading, clean):
                    found.append(clean)
        return found if namer.own_labels else [one for one in found if not _opens(job, one)]


def _is_label(reading: Reading, one: Entity) -> bool:
    """`Courriel :` names what follows it, and what follows `BIC` is a code."""
    if one.kind not in ("organisation", "place"):
        return False
    lone = " " not in one.text and _COLON.match(reading.plain, one.end) is not None
    return lone or reading.labelled(one.start, _BANK, 10)


def _opens(job: _Job, one: Entity) -> bool:
    """Whether it is a common word whose capital only says that a sentence begins."""
    reading, word = job.reading, one.text
    if not word[:1].isupper() or not word[1:].islower() or not word.isalpha():
        return False
    if not _BEGINS.search(reading.plain, max(0, one.start - 8), one.start) and one.start:
        return False
    if is_stop(word.lower(), reading.language(one.start).partition("-")[0]):
        return True
    return re.search(rf"(?<![\w'-]){re.escape(word.lower())}(?![\w'-])", reading.text) is not None


def wants_names(namer: Namer | None, kinds: Sequence[str] | None) -> bool:
    """Whether a model must be asked for these kinds."""
    if namer is None:
        return False
    return kinds is None or namer.own_labels or any(kind in NAMES for kind in kinds)
