"""A summary of a text's own sentences, in their order, each with its place.

    summary = extract(document, length=Length(sentences=5))

A book is gone through section by section: the best sentences of each are ranked again together, so
that time grows with the length and not with its square.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrig.documents.summarise import rank
from anyrig.errors import InvalidInputError
from anyrig.text import language as languages
from anyrig.text.tokens import Span, split_paragraphs, split_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Vectors
    from anyrig.text.document import Document, Part

SENTENCES = 5
_SECTION = 240
_KEPT = 40
"""Sentences of a section that go on to the second round."""
_STEP_SENTENCES = 256
_LONGEST = 2_000
"""Characters of a sentence: what is longer is a table or a list without full stops."""


@dataclass(frozen=True)
class Length:
    """How long a summary is to be: one of the three; five sentences when none is given."""

    sentences: int = 0
    words: int = 0
    share: float = 0.0
    """Of the text's sentences, 0 to 1."""

    def __post_init__(self) -> None:
        given = [value for value in (self.sentences, self.words, self.share) if value]
        if len(given) > 1 or any(value < 0 for value in given) or self.share > 1:
            raise InvalidInputError(
                "the length of the summary is not clear",
                hint="Pass a number of sentences, or of words, or a share from 0 to 1.",
            )

    def room(self, num_sentences: int) -> tuple[int, bool]:
        """How much there is for a text of so many sentences, and whether it is words."""
        if self.words:
            return self.words, True
        if self.share:
            return max(1, round(self.share * num_sentences)), False
        return self.sentences or SENTENCES, False


@dataclass(frozen=True)
class Taken:
    """A sentence of the summary."""

    text: str
    start: int
    """Where it begins in the text of the file, in characters."""
    end: int
    page: int
    """From 1; 0 in a file without pages."""
    number: int
    """Among the sentences, from 1."""
    score: float
    """1 for the best."""


@dataclass(frozen=True)
class Summary:
    """A text in a few of its sentences."""

    taken: tuple[Taken, ...]
    """In the order of the text."""
    num_sentences: int
    """Of the whole text."""
    num_words: int
    language: str
    method: str

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(one.text for one in self.taken)


def extract(
    document: Document,
    *,
    length: Length = Length(),  # noqa: B008 - it is frozen
    language: str = "",
    vectors: Vectors | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Summary:
    """The sentences that say most of a file.

    Args:
        document: the file.
        length: of the summary.
        language: of the text; found out when empty.
        vectors: a model that knows which sentences mean the like; words alone without one.
        on_step: called now and then; it may raise an error to stop.
    """
    text = document.text
    spoken = language or languages.detect(text).language
    spans, firsts = cut(text, spoken, document.parts("page"))
    summary = _Ranking(text, spans, firsts, spoken, vectors, on_step).summary(length)
    order = sorted(summary)
    best = max(summary.values(), default=1.0) or 1.0
    return Summary(
        tuple(
            Taken(" ".join(text[slice(*spans[n])].split()), *spans[n],
                  document.page_at(spans[n][0]), n + 1, round(summary[n] / best, 4))
            for n in order
        ),
        len(spans), languages.num_words(text), spoken,
        f"sentences by the vectors of {vectors.model.name}" if vectors is not None
        else "sentences by their words",
    )  # fmt: skip


def cut(text: str, language: str, pages: Sequence[Part] = ()) -> tuple[list[Span], list[bool]]:
    """The sentences of a text, and whether each opens a paragraph; none crosses a page."""
    found: list[Span] = []
    for page in pages:
        piece = text[page.start : page.start + len(page.text)]
        found += [(page.start + a, page.start + b) for a, b in split_text(piece, language)]
    if not pages:
        found = split_text(text, language)
    starts = {start for start, _ in split_paragraphs(text)}
    return found, [start in starts for start, _ in found]


class _Ranking:
    """The sentences of one text, weighed."""

    def __init__(
        self,
        text: str,
        spans: Sequence[Span],
        firsts: Sequence[bool],
        language: str,
        vectors: Vectors | None,
        on_step: Callable[[], None],
    ) -> None:
        self._said = [text[start:end] for start, end in spans]
        self._firsts, self._vectors, self._on_step = firsts, vectors, on_step
        self._bags, self._worth = [], []
        for number, one in enumerate(self._said, 1):
            if number % _STEP_SENTENCES == 0:
                on_step()
            bag = rank.terms(one[:_LONGEST], language)
            is_fit = len(one) <= _LONGEST and not _is_heading(one)
            self._bags.append(bag)
            self._worth.append(rank.worth(one, bag, language) if is_fit else 0.0)
        self._starts = rank.head_starts(firsts)

    def summary(self, length: Length) -> dict[int, float]:
        """The numbers of the sentences taken, with their scores."""
        room, in_words = length.room(len(self._said))
        sizes = [languages.num_words(one) if in_words else 1 for one in self._said]
        fit = [n for n, value in enumerate(self._worth) if value > 0]
        if not fit:  # a list of words, a poem: better its beginning than nothing
            fit = [n for n, one in enumerate(self._said) if any(map(str.isalnum, one))]
            return self._first_of(fit, sizes, room)
        several = len(fit) > _SECTION
        kept = max(_KEPT, 2 * room if not in_words else room // 6)
        while len(fit) > max(_SECTION, kept):
            fit = self._best_of_sections(fit, min(kept, _SECTION // 2))
        scores, alike = self._weighed(fit, whole=several)
        chosen = rank.picked(scores, alike, [sizes[n] for n in fit], room)
        return {fit[n]: float(scores[n]) for n in chosen}

    def _first_of(self, fit: Sequence[int], sizes: Sequence[int], room: int) -> dict[int, float]:
        taken: dict[int, float] = {}
        for n in fit:
            if room <= 0:
                break
            taken[n] = 1.0
            room -= sizes[n]
        return taken

    def _best_of_sections(self, fit: Sequence[int], kept: int) -> list[int]:
        """Of each stretch of sentences the best ones, in order; about half at most."""
        num = -(-len(fit) // _SECTION)
        found: list[int] = []
        for part in range(num):
            self._on_step()
            section = fit[part * len(fit) // num : (part + 1) * len(fit) // num]
            scores, _ = self._weighed(section, whole=False)
            most = max(2, min(kept, len(section) // 2))
            order = sorted(range(len(section)), key=lambda n: (-scores[n], n))[:most]
            found += sorted(section[n] for n in order)
        return found

    def _weighed(
        self, fit: Sequence[int], *, whole: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of some sentences among themselves, and their likeness."""
        import numpy as np

        made = None
        if self._vectors is not None:
            made = self._vectors.matrix([" ".join(self._said[n].split()) for n in fit])
        alike = rank.likeness([self._bags[n] for n in fit], made)
        starts = self._starts[list(fit)]
        # In a book the beginning is no more than one chapter of many.
        if whole:
            starts = np.sqrt(starts)
        shape = np.array([self._worth[n] for n in fit])
        return rank.central(alike, starts * shape) * shape * np.sqrt(starts), alike


def _is_heading(text: str) -> bool:
    """Whether a piece that was cut as a sentence has no end like one."""
    bare = text.rstrip("\"'”’»›)]}*_ \n")
    return not bare.endswith((".", "!", "?", "…", ":", ";", "。", "！", "？", "।", "؟")) and (
        len(text) < 120 or text.isupper()
    )
