"""A summary of a text's own sentences, in their order, each with its place.

    summary = extract(document, length=Length(sentences=5))

A sentence is central when many others are like it and are central themselves (LexRank). Likeness is
that of words that are rare in the text, and of vectors where there is a model. What stands first in
the text or in its paragraph gets a head start, as writers put there what matters. No two that say
the same are taken.

A book is gone through section by section: the best sentences of each are ranked again together, so
that time grows with the length and not with its square.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrig.documents.words import is_stop, plain, stem, words
from anyrig.errors import InvalidInputError
from anyrig.text import language as languages
from anyrig.text.tokens import Span, split_paragraphs, split_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Vectors
    from anyrig.text.document import Document, Part

    Floats = NDArray[np.float64]

SENTENCES = 5
_SECTION = 240
_KEPT = 40
"""Sentences of a section that go on to the second round."""
_STEP_SENTENCES = 256
_LONGEST = 2_000
"""Characters of a sentence: what is longer is a table or a list without full stops."""
_DAMPING = 0.7
_ROUNDS = 100
_LIKE = 0.03  # below this, likeness is chance
_VECTORS = 0.5
_FEWEST, _SHORT, _LONG = 5, 9, 45  # words
# Words that say of a sentence that it sums up.
_CUES = {
    "en": "short sum conclusion overall therefore result results study report finding findings "
    "found shows suggests recommend recommends propose proposes important main key however",
    "es": "resumen conclusión tanto resultado resultados estudio informe muestra clave principal "
    "recomienda propone importante embargo",
    "fr": "résumé conclusion donc résultat résultats étude enquête rapport montre recommande "
    "propose principal important cependant",
}
# What leans on the sentence before: taken alone it hangs in the air.
_LEANING = {
    "en": "he she it they this that these those his her its their such both another others some "
    "one here there then and but or nor nobody",
    "es": "él ella ellos ellas esto esta este eso esa ese estos estas su sus aquello otros otras "
    "algunos algunas y pero o ni nadie aquí allí entonces",
    "fr": "il elle ils elles ce cela ceci cette ces cet son sa ses leur leurs d'autres certains "
    "certaines et mais ou ni personne ici là alors elle l'un l'une",
}  # fmt: skip
_PRONE = re.compile(r"[?]\W*\Z|\A\W*[-–—«\"“‘'`]")


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

    def get_budget(self, num_sentences: int) -> tuple[int, bool]:
        """How much there is for a text of so many sentences, and whether it is words."""
        if self.words:
            return self.words, True
        if self.share:
            return max(1, round(self.share * num_sentences)), False
        return self.sentences or SENTENCES, False


@dataclass(frozen=True)
class SummarySentence:
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

    taken: tuple[SummarySentence, ...]
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
    code = language or languages.detect(text).language
    spans, firsts = split_sentences(text, code, document.parts("page"))
    summary = _Ranking(text, spans, firsts, code, vectors, on_step).summary(length)
    order = sorted(summary)
    best = max(summary.values(), default=1.0) or 1.0
    return Summary(
        tuple(
            SummarySentence(" ".join(text[slice(*spans[n])].split()), *spans[n],
                  document.page_at(spans[n][0]), n + 1, round(summary[n] / best, 4))
            for n in order
        ),
        len(spans), languages.num_words(text), code,
        f"sentences by the vectors of {vectors.model.name}" if vectors is not None
        else "sentences by their words",
    )  # fmt: skip


def split_sentences(
    text: str, language: str, pages: Sequence[Part] = ()
) -> tuple[list[Span], list[bool]]:
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
    """The sentences of one text, rated."""

    def __init__(
        self,
        text: str,
        spans: Sequence[Span],
        firsts: Sequence[bool],
        language: str,
        vectors: Vectors | None,
        on_step: Callable[[], None],
    ) -> None:
        self._sentences = [text[start:end] for start, end in spans]
        self._firsts, self._vectors, self._on_step = firsts, vectors, on_step
        self._terms, self._worth = [], []
        for number, one in enumerate(self._sentences, 1):
            if number % _STEP_SENTENCES == 0:
                on_step()
            bag = _count_terms(one[:_LONGEST], language)
            is_fit = len(one) <= _LONGEST and not _is_heading(one)
            self._terms.append(bag)
            self._worth.append(_rate_shape(one, bag, language) if is_fit else 0.0)
        self._starts = rate_positions(firsts)

    def summary(self, length: Length) -> dict[int, float]:
        """The numbers of the sentences taken, with their scores."""
        budget, in_words = length.get_budget(len(self._sentences))
        sizes = [languages.num_words(one) if in_words else 1 for one in self._sentences]
        fit = [n for n, value in enumerate(self._worth) if value > 0]
        if not fit:  # a list of words, a poem: better its beginning than nothing
            fit = [n for n, one in enumerate(self._sentences) if any(map(str.isalnum, one))]
            return self._take_first(fit, sizes, budget)
        several = len(fit) > _SECTION
        limit = max(_KEPT, 2 * budget if not in_words else budget // 6)
        while len(fit) > max(_SECTION, limit):
            fit = self._reduce_sections(fit, min(limit, _SECTION // 2))
        scores, alike = self._score(fit, whole=several)
        selected = _select(scores, alike, [sizes[n] for n in fit], budget)
        return {fit[n]: float(scores[n]) for n in selected}

    def _take_first(
        self, fit: Sequence[int], sizes: Sequence[int], budget: int
    ) -> dict[int, float]:
        chosen: dict[int, float] = {}
        for n in fit:
            if budget <= 0:
                break
            chosen[n] = 1.0
            budget -= sizes[n]
        return chosen

    def _reduce_sections(self, fit: Sequence[int], limit: int) -> list[int]:
        """Of each stretch of sentences the best ones, in order; about half at most."""
        num = -(-len(fit) // _SECTION)
        found: list[int] = []
        for part in range(num):
            self._on_step()
            section = fit[part * len(fit) // num : (part + 1) * len(fit) // num]
            scores, _ = self._score(section, whole=False)
            most = max(2, min(limit, len(section) // 2))
            order = sorted(range(len(section)), key=lambda n: (-scores[n], n))[:most]
            found += sorted(section[n] for n in order)
        return found

    def _score(self, fit: Sequence[int], *, whole: bool) -> tuple[Floats, Floats]:
        """Scores of some sentences among themselves, and their likeness."""
        import numpy as np

        made = None
        if self._vectors is not None:
            made = self._vectors.matrix([" ".join(self._sentences[n].split()) for n in fit])
        alike = _compare([self._terms[n] for n in fit], made)
        starts = self._starts[list(fit)]
        # In a book the beginning is no more than one chapter of many.
        if whole:
            starts = np.sqrt(starts)
        shape = np.array([self._worth[n] for n in fit])
        return _walk(alike, starts * shape) * shape * np.sqrt(starts), alike


def _is_heading(text: str) -> bool:
    """Whether a piece that was cut as a sentence has no end like one."""
    bare = text.rstrip("\"'”’»›)]}*_ \n")
    return not bare.endswith((".", "!", "?", "…", ":", ";", "。", "！", "？", "।", "؟")) and (
        len(text) < 120 or text.isupper()
    )


def _count_terms(sentence: str, language: str) -> Counter[str]:
    """The telling words of a sentence, counted."""
    tokens = (plain(word.text) for word in words(sentence))
    return Counter(stem(word) for word in tokens if not is_stop(word.rstrip("'"), language))


def _compare(bags: Sequence[Counter[str]], vectors: NDArray[np.float32] | None = None) -> Floats:
    """How alike each two sentences are, 0 to 1."""
    import numpy as np

    in_sentences = Counter(term for bag in bags for term in bag)
    columns = {term: number for number, term in enumerate(sorted(in_sentences))}
    rows = np.zeros((len(bags), max(1, len(columns))), np.float64)
    for row, bag in enumerate(bags):
        for term, count in bag.items():
            rare = math.log(1.0 + len(bags) / in_sentences[term])
            rows[row, columns[term]] = count * rare
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(size > 0, size, 1.0)
    alike: Floats = rows @ rows.T
    if vectors is not None:
        near = np.maximum(0.0, (vectors @ vectors.T).astype(np.float64))
        alike = (1.0 - _VECTORS) * alike + _VECTORS * near**2
    return alike


def _walk(alike: Floats, start: Floats) -> Floats:
    """How often a walk from sentence to like sentence comes by each; the mean is 1.

    Args:
        alike: of each two.
        start: where the walk begins anew, in any scale.
    """
    import numpy as np

    count = len(alike)
    links = np.where(alike > _LIKE, alike, 0.0)
    np.fill_diagonal(links, 0.0)
    begin = start / start.sum()
    out = links.sum(axis=1, keepdims=True)
    steps = np.where(out > 0, links / np.where(out > 0, out, 1.0), begin)
    here = begin.copy()
    for _ in range(_ROUNDS):
        following = _DAMPING * (here @ steps) + (1.0 - _DAMPING) * begin
        if float(np.abs(following - here).sum()) < 1e-9:
            break
        here = following
    scaled: Floats = here * count
    return scaled


def rate_positions(firsts: Sequence[bool]) -> Floats:
    """What position alone gives each sentence: the first third of a text, and new paragraphs."""
    import numpy as np

    count = len(firsts)
    place = np.arange(count) / max(1, count)
    early = 1.0 + 0.5 * np.exp(-3.0 * place)
    bonus = 1.15 if sum(firsts) < count else 1.0
    opens = np.array([bonus if first else 1.0 for first in firsts])
    starts: Floats = early * opens
    return starts


def _rate_shape(sentence: str, bag: Counter[str], language: str) -> float:
    """What the shape of a sentence says of it, about 1; 0 for what is no sentence to quote."""
    tokens = [plain(word.text) for word in words(sentence)]
    letters = sum(map(str.isalpha, sentence))
    if len(tokens) < _FEWEST or letters < 0.5 * len(sentence.replace(" ", "")) or not bag:
        return 0.0
    base = language.partition("-")[0]
    value = min(1.0, 0.4 + 0.6 * sum(bag.values()) / _SHORT)
    value *= 1.0 if len(tokens) <= _LONG else _LONG / len(tokens)
    if any(word in _CUES.get(base, "").split() for word in tokens):
        value *= 1.15
    if tokens[0] in _LEANING.get(base, "").split():
        value *= 0.75
    if any(map(str.isdigit, sentence)):
        value *= 1.08
    if _PRONE.search(sentence):
        value *= 0.7  # a question, a piece of talk
    return value


def _select(scores: Floats, alike: Floats, sizes: Sequence[int], budget: int) -> list[int]:
    """The best sentences that fit, by worth less likeness to those taken; in order of choice.

    Args:
        scores: of each; those of 0 are never taken.
        alike: of each two.
        sizes: what each takes of the budget: 1, or its words.
        budget: how much there is.
    """
    import numpy as np

    top = float(scores.max()) if len(scores) else 0.0
    chosen: list[int] = []
    left = [n for n in range(len(scores)) if scores[n] > 0]
    while left and top > 0:
        closest = alike[np.ix_(left, chosen)].max(axis=1) if chosen else np.zeros(len(left))
        gains = scores[left] / top * (1.0 - 0.8 * closest)
        best = left.pop(int(gains.argmax()))
        if sizes[best] > budget:
            if not chosen and not any(sizes[n] <= budget for n in left):
                return [best]  # one sentence at least, even if it is too long
            continue
        budget -= sizes[best]
        chosen.append(best)
        if budget <= 0:
            break
    return chosen
