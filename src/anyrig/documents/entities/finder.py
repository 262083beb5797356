"""Texts in, entities out: grammars and lists here, models in workers, in the order of the input.

with EntityFinder(choose_ner_model(), placed=placed, environment=environment) as finder:
    for found in finder.find(texts): ...
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anyrig.documents.entities import marked_names, people
from anyrig.documents.entities.entity import NAMES, Entity
from anyrig.documents.entities.grammars import contacts, dates, identifiers, money, numbers
from anyrig.documents.entities.labels import clean_name, map_label
from anyrig.documents.entities.ner_models import NerModel
from anyrig.documents.entities.plain_text import PlainText, build_label, build_plain_text
from anyrig.documents.entities.windows import (
    LanguageSpan,
    NameWindow,
    build_windows,
    resolve_overlaps,
    split_languages,
)
from anyrig.documents.ordered import run_ordered
from anyrig.documents.words import is_stop
from anyrig.work.outcome import ItemOutcome
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import PlacementPlan

_COLON = re.compile(r"\.? ?:(?!//)")
_SENTENCE_START = re.compile(r"(?:[.!?:;]|\n|^)[\s\"'(\u00ab\u201c-]*$")
_WORDS = re.compile(r"[^\W\d_]+")
_ARTICLE = re.compile(
    r" (?:el|la|los|las|un|una|unos|unas|al|lo|y|le|les|une|des|du|au|aux|the|a|an|all|your)"
    r" (?=[a-z])"
)
"""After a verb: no name of a place or a body stands before one."""
_LONG_WORD = 5
"""Letters of a word in capitals that is more likely a word than an acronym."""
_BANK = build_label(r"bic|swift")
_LOOK_AHEAD = 512
"""Windows that may be made ahead."""


@dataclass(frozen=True)
class EntityText:
    """A text to search."""

    text: str
    language: str = ""
    """If it is known; else it is detected, paragraph by paragraph."""
    default: str = "en"
    """The language of a text that says too little: that of its file."""


@dataclass(frozen=True)
class TextEntities:
    """What a text names."""

    entities: tuple[Entity, ...]
    languages: tuple[str, ...]
    """Of its paragraphs, the longest first."""
    languages_without_names: tuple[str, ...] = ()
    """Languages in which no model looked for names."""
    failure: str = ""
    """Why some of its names may be missing."""


@dataclass(frozen=True)
class _OpenText:
    """A text whose windows are being searched."""

    text: PlainText
    parts: Sequence[LanguageSpan]
    windows: Sequence[NameWindow]


class EntityFinder:
    """Grammars, and a model on every device that was placed. Its workers start at once, if names
    are wanted.

    Args:
        model: finds names; None for grammars and lists alone.
        placed: where it runs; without it there is no model.
        environment: this process's own.
        limits: batch sizes that earlier runs found.
        kinds: those that are wanted; all when None.
        unchecked: whether numbers that fail their check are reported, marked as such.
        lists: whether names are also found by lists and by what marks them.
    """

    def __init__(
        self,
        model: NerModel | None,
        *,
        placed: PlacementPlan | None = None,
        environment: Mapping[str, str] | None = None,
        limits: KnownBatchSizes | None = None,
        kinds: Sequence[str] | None = None,
        unchecked: bool = False,
        lists: bool = True,
    ) -> None:
        self._lists = lists
        self.model = model if placed is not None and needs_model(model, kinds) else None
        self._kinds, self._unchecked = kinds, unchecked
        self._pool: WorkerPool | None = None
        if self.model is not None and placed is not None:
            self._pool = WorkerPool(
                LocalWorkers(
                    placed.placements,
                    self.model.factory,
                    environment=environment or {},
                    fallback=placed.fallback,
                    known_sizes=limits,
                )
            )

    def pools(self) -> tuple[WorkerPool, ...]:
        """Its workers, if it has any now."""
        return (self._pool,) if self._pool is not None else ()

    def wait_ready(self) -> None:
        """Wait until the model is loaded everywhere."""
        if self._pool is not None:
            self._pool.wait_ready()

    def close(self) -> None:
        """End every worker."""
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> EntityFinder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, texts: Iterable[EntityText | str]) -> Iterator[TextEntities]:
        """What each text names, in order."""
        return run_ordered(texts, self._open, self._run, self._finish)

    def _open(self, text: EntityText | str) -> tuple[_OpenText, Sequence[NameWindow]]:
        text = EntityText(text) if isinstance(text, str) else text
        parts = split_languages(text.text, language=text.language, default=text.default)
        plain_text = build_plain_text(text.text, {part.start: part.language for part in parts})
        windows: list[NameWindow] = []
        if self.model is not None:
            known = [part for part in parts if self.model.reads(part.language)]
            windows = build_windows(known, text.text, self.model.window)
        return _OpenText(plain_text, parts, windows), windows

    def _run(self, windows: Iterator[NameWindow]) -> Iterator[ItemOutcome[Any]]:
        assert self._pool is not None  # without a model a text has no windows
        return self._pool.run(windows, cost=lambda window: window.cost, look_ahead=_LOOK_AHEAD)

    def _finish(self, opened: _OpenText, outcomes: Sequence[ItemOutcome[Any]]) -> TextEntities:
        text, model = opened.text, self.model
        names = self._read_names(opened, outcomes)
        wants_names = self._kinds is None or any(kind in NAMES for kind in self._kinds)
        if wants_names:
            names = self._add_names(text, names)
        entities = merge([*find_by_grammar(text), *names], unchecked=self._unchecked)
        entities = _join_parts(text.text, entities)
        if self._kinds is not None:
            entities = [one for one in entities if self._is_wanted(one)]
        sizes: dict[str, int] = {}
        for part in opened.parts:
            sizes[part.language] = sizes.get(part.language, 0) + part.end - part.start
        languages = tuple(sorted(sizes, key=lambda name: -sizes[name]))
        only_people = self._kinds is not None and not {"organisation", "place"} & {*self._kinds}
        without_names = () if not wants_names else tuple(
            name for name in languages
            if (model is None or not model.reads(name))
            and not (only_people and self._lists and name.partition("-")[0] in people.LANGUAGES)
        )  # fmt: skip
        failures = [one.failure for one in outcomes if one.failure is not None]
        return TextEntities(
            tuple(entities), languages, without_names, failures[0].message if failures else ""
        )

    def _add_names(self, text: PlainText, names: list[Entity]) -> list[Entity]:
        """A model's names, less people that cannot be any, with those that need no model."""
        if not self._lists:
            return names
        if self.model is not None and not self.model.own_labels:
            names = [one for one in names if one.kind != "person" or people.is_plausible(one.text)]
        listed = (clean for one in people.find(text) if (clean := clean_name(one)))
        return marked_names.correct_places([*names, *marked_names.find(text), *listed])

    def _is_wanted(self, one: Entity) -> bool:
        is_own = self.model is not None and self.model.own_labels and one.source == self.model.name
        known = one.kind in (*NAMES, "date", "money", "percent", "email", "phone", "iban", "tax")
        return one.kind in (self._kinds or ()) or (is_own and not known)

    def _read_names(self, opened: _OpenText, outcomes: Sequence[ItemOutcome[Any]]) -> list[Entity]:
        """The model's names with their place in the text."""
        model, text = self.model, opened.text
        if model is None:
            return []
        spans = resolve_overlaps([
            (window.start, window.end, [
                span._replace(start=span.start + window.start, end=span.end + window.start)
                for span in outcome.result or ()
            ])
            for window, outcome in zip(opened.windows, outcomes, strict=True)
        ])  # fmt: skip
        found: list[Entity] = []
        for start, end, label, score in spans:
            kind = map_label(label, known_only=not model.own_labels)
            if not kind or (not model.own_labels and kind not in NAMES):
                continue
            source = model.source(text.language(start))
            one = Entity(kind, text.text[start:end], start, end, "", source, score)
            clean = clean_name(one) if kind in NAMES else one
            if clean is not None and not _is_label(text, clean):
                found.append(clean)
        if model.own_labels:
            return found
        return [one for one in found if not (_begins_sentence(text, one) or _is_heading(text, one))]


def needs_model(model: NerModel | None, kinds: Sequence[str] | None) -> bool:
    """Whether a model must be asked for these kinds."""
    if model is None:
        return False
    return kinds is None or model.own_labels or any(kind in NAMES for kind in kinds)


def find_by_grammar(text: PlainText) -> Iterator[Entity]:
    """What has a form that can be checked, overlapping as it may."""
    for find in (
        identifiers.find, contacts.find_emails, numbers.find_percents, money.find, dates.find,
        contacts.find_phones,
    ):  # fmt: skip
        yield from find(text)


def _is_label(text: PlainText, one: Entity) -> bool:
    """`Courriel :` names what follows it, and what follows `BIC` is a code."""
    if one.kind not in ("organisation", "place"):
        return False
    is_alone = " " not in one.text and _COLON.match(text.plain, one.end) is not None
    return is_alone or text.has_label(one.start, _BANK, 10)


def _begins_sentence(text: PlainText, one: Entity) -> bool:
    """Whether it is a common word whose capital only says that a sentence begins."""
    word = one.text
    if not word[:1].isupper() or not word[1:].islower() or not word.isalpha():
        return False
    if not _SENTENCE_START.search(text.plain, max(0, one.start - 8), one.start) and one.start:
        return False
    if is_stop(word.lower(), text.language(one.start).partition("-")[0]):
        return True
    if one.kind in ("organisation", "place") and _ARTICLE.match(text.plain, one.end):
        return not marked_names.is_place(text.plain[one.start : one.end])  # `Coloque el filtro`
    return re.search(rf"(?<![\w'-]){re.escape(word.lower())}(?![\w'-])", text.text) is not None


def _is_heading(text: PlainText, one: Entity) -> bool:
    """Whether its capitals are those of a heading: all of its line has them, or its first word
    begins the line and none of the others has one.
    """
    plain = text.plain
    if one.kind not in ("organisation", "place"):
        return False
    found = plain[one.start : one.end]
    if marked_names.is_place(found.title()):
        return False
    begin = plain.rfind("\n", 0, one.start) + 1
    end = plain.find("\n", one.end)
    line = plain[begin : end if end >= 0 else len(plain)]
    if found.isupper():
        is_acronym = max(map(len, found.split())) < _LONG_WORD
        return not is_acronym and line.isupper()
    first, *rest = _WORDS.findall(found)
    small = [word for word in rest if len(word) > 1 and word not in people.PARTICLES]
    starts = not plain[begin : one.start].strip()
    return starts and first[:1].isupper() and bool(small) and all(map(str.islower, small))


# -- what overlaps ---------------------------------------------------------------------------------

_RANKS = {
    "iban": 0, "email": 0, "tax": 1, "card": 2, "percent": 3, "money": 3, "date": 3, "phone": 4,
}  # fmt: skip
_CERTAIN = 0.9


def merge(found: Iterable[Entity], *, unchecked: bool = False) -> list[Entity]:
    """What stays of everything that was found, in the order of the text; no two overlap.

    What a grammar checked beats a name; of grammars the stricter comes first, and of equals the
    longer. A number that fails its check still keeps others from making a telephone number of its
    digits.

    Args:
        found: by grammars and models, in any order.
        unchecked: whether what fails its check is reported, marked as such.
    """
    taken = _TakenSpans()
    for one in sorted(found, key=_rank):
        if one.kind in NAMES or one.source != "grammar":
            one = taken.cut(one) or one
        taken.add(one)
    return [one for one in taken.entities if unchecked or one.valid is not False]


def _rank(one: Entity) -> tuple[float, float, int, float, int]:
    """The surest first: a check that holds, a strict form, length."""
    rank: float = _RANKS.get(one.kind, 5)
    if one.source != "grammar":
        rank = 7.0 if one.source == "gazetteer" else 6.0
    holds = 0 if one.valid or (one.valid is None and one.score >= _CERTAIN) else 1
    holds = 0 if rank >= 6 else holds
    # A check that fails must not hide a number of another kind whose check holds.
    failed = 4.5 if one.valid is False and rank < 3 else rank
    return (failed, holds, -(one.end - one.start), -one.score, one.start)


class _TakenSpans:
    """Entities that do not overlap, found by bisection."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self.entities: list[Entity] = []

    def add(self, one: Entity) -> None:
        """Take an entity, unless its place is taken."""
        if one.end > one.start and not self._list_overlapping(one):
            at = bisect.bisect_left(self._starts, one.start)
            self._starts.insert(at, one.start)
            self.entities.insert(at, one)

    def cut(self, one: Entity) -> Entity | None:
        """A name less what is taken at one of its ends: `Ana Ruiz 12 de mayo`."""
        overlapping = self._list_overlapping(one)
        if len(overlapping) != 1 or overlapping[0].source != "grammar":
            return None
        (other,) = overlapping
        if other.start > one.start and other.end >= one.end:
            text = one.text[: other.start - one.start].rstrip(" ,;:(-\n\t")
            start = one.start
        elif other.start <= one.start and other.end < one.end:
            rest = one.text[other.end - one.start :]
            text = rest.lstrip(" ,;:)-\n\t.")
            start = one.end - len(text)
        else:
            return None
        if sum(map(str.isalpha, text)) < 2 or not any(map(str.isupper, text)):
            return None
        return clean_name(replace(one, text=text, start=start, end=start + len(text)))

    def _list_overlapping(self, one: Entity) -> list[Entity]:
        at = max(0, bisect.bisect_right(self._starts, one.start) - 1)
        found = []
        while at < len(self._starts) and self._starts[at] < one.end:
            if self.entities[at].end > one.start:
                found.append(self.entities[at])
            at += 1
        return found


def _join_parts(text: str, entities: Sequence[Entity]) -> list[Entity]:
    """Names in one piece: `Jean` and `-Luc`, `María` and `López`."""
    whole: list[Entity] = []
    for one in entities:
        last = whole[-1] if whole else None
        if (
            last is not None and last.kind == one.kind == "person" and last.source == one.source
            and 0 <= one.start - last.end <= 1 and text[last.end : one.start] in ("", " ", "-")
        ):  # fmt: skip
            score = min(last.score, one.score)
            joined = text[last.start : one.end]
            whole[-1] = replace(last, text=joined, end=one.end, score=score)
        else:
            whole.append(one)
    return whole
