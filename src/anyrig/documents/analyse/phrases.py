"""The phrases that tell what a text is about, found without a model and refined with one.

A candidate is a run of words without a stop-word or a mark between them, or two such runs with `of`
or its like between them. What counts for one: how often it stands there on its own and not within a
longer one, how rare its words are in the folder, how early it comes, in how many sentences, and
whether it is written like a name. Vectors, where there are some, then prefer what is near the whole
text, and put aside what says the same twice.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anyrig.documents.words import (
    TextWord,
    before_verbs,
    is_stop,
    is_unspaced,
    joints,
    plain,
    stem,
    words,
)
from anyrig.text.tokens import Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_WORDS = 4
_SIGNS = (2, 6)  # characters of a phrase in a script without spaces
_STEP_SENTENCES = 256
_NEARNESS = 0.3
"""How much vectors count beside ranks."""
_DIVERSITY = 0.15
"""How much a phrase loses for being like one that is taken."""
_LONGEST_TEXT = 400_000  # characters: a book's phrases show themselves by then
_BREAK = re.compile(r"[^\s]")
# Endings of words that are seldom the head of a noun phrase.
_WEAK_ENDS = {
    "en": re.compile("(?:ly|ing|ed)\\Z"),
    "es": re.compile("(?:mente|ando|iendo|[ai]ó|[aeií]a?n|aba|ía|[aei]rá|[aei]do|[aei]da)\\Z"),
    "fr": re.compile("(?:ment|ant|ent|ait|era|er|ées?|és?)\\Z"),
}
_STRONG_ENDS = re.compile(
    "(?:building|heating|housing|farming|banking|meeting|training|learning|spring|ring|king|wing|"
    "string|supply|family|monthly|assembly|seed|feed|speed|weed|bed|shed|need|"
    "gouvernement|parlement|logement|document|département|monument|bâtiment|sédiment|aliment|"
    "médicament|argument|instrument|traitement|changement|réchauffement|financement|enfant|"
    "étudiant|habitant|courant|volant|restaurant|diamant|hiver|mer|fer|ver|métier|chantier|papier|"
    "quartier|calendrier|policier|café|santé|société|université|qualité|été|blé|marché|clé|cité|"
    "armée|journée|musée|idée|lycée|vallée|marée|fusée|energía|economía|compañía|batería|"
    "tecnología|biología|geología|ecología|ciudadanía|librería|panadería|garantía|mayoría|vía)\\Z"
)


@dataclass(frozen=True)
class KeyPhrase:
    """A phrase of a text."""

    text: str
    """As it is most often written."""
    score: float
    """1 for the best of its text."""
    count: int


@dataclass
class _PhraseCounts:
    """A candidate, while a text is gone through."""

    stems: tuple[str, ...]
    count: int = 0
    first: int = 0
    """The word at which it comes first."""
    written: Counter[str] = field(default_factory=Counter)
    sentences: set[int] = field(default_factory=set)
    named: int = 0
    """How often with a capital inside a sentence."""
    whole: int = 0
    """How often it is all that stands between two stop-words or marks."""
    led: float = 0.0
    """How much what stands before it speaks for a name of something, summed up."""


@dataclass(frozen=True)
class Candidates:
    """What may be a phrase of a text, kept small: the best few hundred."""

    found: tuple[_PhraseCounts, ...]
    num_words: int
    terms: Mapping[str, int]
    """Stems that are no stop-words, with their counts."""


def candidates(
    text: str, spans: Sequence[Span], language: str, on_step: Callable[[], None] = lambda: None
) -> Candidates:
    """Everything that may be a key phrase of a text that is cut into sentences.

    `on_step` is called now and then; it may raise an error to stop.
    """
    found: dict[tuple[str, ...], _PhraseCounts] = {}
    terms: Counter[str] = Counter()
    position = 0
    for number, (start, end) in enumerate(spans):
        if start > _LONGEST_TEXT:
            break
        if number % _STEP_SENTENCES == _STEP_SENTENCES - 1:
            on_step()
        tokens = list(words(text[start:end]))
        for run in _runs(text[start:end], tokens, language):
            content = [stem(plain(tokens[n].text)) for n in run if not _small(tokens[n], language)]
            terms.update(one for one in content if len(one) > 1 or is_unspaced(one))
            for first, last in _cuts(run, tokens, language):
                sentence = text[start:end]
                one = _note(found, sentence, tokens[first : last + 1], position + first, number)
                one.led += _rate_lead(sentence, tokens, first, language)
                one.whole += (first, last) == (run[0], run[-1])
        position += len(tokens)
    kept = sorted(found.values(), key=lambda one: (-one.count * len(one.stems), one.first))
    return Candidates(tuple(kept[:600]), position, dict(terms.most_common(2_000)))


def _small(word: TextWord, language: str) -> bool:
    return is_stop(plain(word.text), language) or is_stop(plain(word.text).rstrip("'"), language)


def _runs(text: str, tokens: Sequence[TextWord], language: str) -> Iterator[list[int]]:
    """Words, by number, that no mark and no stop-word parts, joints aside."""
    run: list[int] = []
    for number, word in enumerate(tokens):
        parted = run and _BREAK.search(text, tokens[number - 1].end, word.start) is not None
        if parted:
            yield run
            run = []
        joins = bool(run) and plain(word.text) in _joint_words(language)
        if _small(word, language) and not joins:
            if run:
                yield run
            run = []
            continue
        run.append(number)
    if run:
        yield run


def _joint_words(language: str) -> frozenset[str]:
    return frozenset(word for joint in joints(language) for word in joint.split())


def _cuts(
    run: Sequence[int], tokens: Sequence[TextWord], language: str
) -> Iterator[tuple[int, int]]:
    """The stretches of a run that may be a phrase: first and last word."""
    signs = is_unspaced(tokens[run[0]].text)
    least, most = _SIGNS if signs else (1, _MOST_WORDS)
    small = [_small(tokens[n], language) for n in run]
    for begin in range(len(run)):
        content = 0
        for end in range(begin, min(len(run), begin + most + 2)):
            content += not small[end]
            if content > most:
                break
            if small[begin] or small[end] or content < least:
                continue
            if _well_made(tokens, run[begin], run[end], small[begin : end + 1], language):
                yield run[begin], run[end]


def _well_made(
    tokens: Sequence[TextWord], first: int, last: int, small: Sequence[bool], language: str
) -> bool:
    """Whether a stretch begins and ends like a name of something."""
    head, tail = plain(tokens[first].text), plain(tokens[last].text)
    if not (any(map(str.isalpha, head)) and any(map(str.isalpha, tail))):
        return False
    if len(tail) < 2 and not is_unspaced(tail):
        return False
    if any(small):
        between = [plain(tokens[n].text) for n in range(first, last + 1) if small[n - first]]
        if " ".join(between) not in joints(language):
            return False
    return True


def _note(
    found: dict[tuple[str, ...], _PhraseCounts],
    sentence: str,
    tokens: Sequence[TextWord],
    position: int,
    number: int,
) -> _PhraseCounts:
    stems = tuple(stem(plain(word.text)) for word in tokens)
    one = found.get(stems)
    if one is None:
        one = found[stems] = _PhraseCounts(stems, first=position)
    written = sentence[tokens[0].start : tokens[-1].end]
    one.count += 1
    one.written[" ".join(written.split())] += 1
    one.sentences.add(number)
    one.named += tokens[0].start > 0 and all(
        word.text[:1].isupper() for word in (tokens[0], tokens[-1])
    )
    return one


def _rate_lead(sentence: str, tokens: Sequence[TextWord], first: int, language: str) -> float:
    """What the word before a phrase says of it: after `they` stands a verb."""
    if first == 0 or _BREAK.search(sentence, tokens[first - 1].end, tokens[first].start):
        return 1.0
    before = plain(tokens[first - 1].text).rstrip("'")
    if before in before_verbs(language):
        return 0.4
    return 1.0 if is_stop(before, language) else 0.8


def rank(
    found: Candidates,
    language: str,
    *,
    frequencies: Mapping[str, int] | None = None,
    num_texts: int = 1,
) -> list[KeyPhrase]:
    """The candidates by weight, the best first; each score is a share of the best one's.

    Args:
        found: of one text.
        language: of the text.
        frequencies: in how many texts of the folder each stem stands.
        num_texts: of the folder.
    """
    nested = _count_nested(found.found)
    scored = []
    for one in found.found:
        weight = _weight(one, nested.get(one.stems, (0, 0)), found, language)
        if weight > 0:
            rare = _rarity(one.stems, frequencies, num_texts, language)
            scored.append((weight * rare, one))
    scored.sort(key=lambda pair: (-pair[0], pair[1].first, pair[1].stems))
    best = scored[0][0] if scored else 1.0
    phrases = [
        (KeyPhrase(_choose_spelling(one), score / best, one.count), one.stems)
        for score, one in scored
    ]
    return _drop_echoes(phrases)


def _weight(one: _PhraseCounts, nested: tuple[int, int], found: Candidates, language: str) -> float:
    inside, parents = nested
    alone = one.count - (inside / parents if parents else 0.0)
    if alone <= 0 or (inside >= one.count and one.count > 0 and parents == 1):
        return 0.0  # it never stands without the longer one
    length = sum(not is_stop(part.rstrip("'"), language) for part in one.stems)
    if is_unspaced(one.stems[0]):
        length = min(3, max(1, len(one.stems) // 2))
    size = (0.0, 0.8, 1.5, 1.6, 1.5)[min(4, length)]
    words_share = sum(found.terms.get(part, 0) for part in one.stems) / len(one.stems)
    early = 1.0 + 0.6 / (1.0 + one.first / max(40.0, 0.05 * found.num_words))
    name = 1.0 + 0.35 * min(1.0, one.named / one.count)
    spread = math.log2(1.0 + len(one.sentences))
    shape = _shape(one, language) * one.led / one.count
    if one.count == 1 and length > 1 and not one.whole:
        shape *= 0.5  # a piece of something longer, as often as not with its verb
    return (
        size
        * math.log2(1.0 + alone)
        * (1.0 + math.log2(1.0 + words_share))
        * early
        * name
        * (0.5 + 0.5 * spread)
        * shape
    )


def _shape(one: _PhraseCounts, language: str) -> float:
    """How much it looks like the name of a thing: an adverb or a verb does not."""
    weak = _WEAK_ENDS.get(language.partition("-")[0])
    if weak is None or one.named:
        return 1.0
    text = plain(next(iter(one.written)))
    head = re.split(r"[\s'’]+", text)
    ends = [head[-1]] if language.startswith("en") else head
    worth = 1.0
    for word in ends:
        if weak.search(word) and not _STRONG_ENDS.search(word):
            worth *= 0.4
    if len(head) > 1 and language.startswith("en") and head[0].endswith("ly"):
        worth *= 0.5
    return worth


def _rarity(
    stems: Sequence[str], frequencies: Mapping[str, int] | None, num_texts: int, language: str
) -> float:
    """How few texts of the folder speak of it; 1 where there is no folder to compare with."""
    content = [part for part in stems if not is_stop(part.rstrip("'"), language)] or list(stems)
    if not frequencies or num_texts < 3:
        return 1.0
    each = [math.log((1.0 + num_texts) / (1.0 + frequencies.get(part, 0))) for part in content]
    return 0.15 + sum(each) / len(each) / math.log(1.0 + num_texts)


def _count_nested(found: Sequence[_PhraseCounts]) -> dict[tuple[str, ...], tuple[int, int]]:
    """By phrase: how often it stands inside longer candidates, and in how many of them."""
    known = {one.stems for one in found}
    counts: dict[tuple[str, ...], tuple[int, int]] = {}
    for one in found:
        size = len(one.stems)
        inner = {
            one.stems[begin:end]
            for begin in range(size)
            for end in range(begin + 1, size + 1)
            if end - begin < size
        }
        # Once written, a longer run is no term that swallows the shorter one.
        if one.count < 2:
            continue
        for part in inner & known:
            count, parents = counts.get(part, (0, 0))
            counts[part] = (count + one.count, parents + 1)
    return counts


def _choose_spelling(one: _PhraseCounts) -> str:
    """As it is most often written; in small letters unless it is a name."""
    best = max(one.written.items(), key=lambda pair: (pair[1], -len(pair[0]), pair[0]))[0]
    if best.isupper() and (len(one.stems) > 1 or len(best) > 6) and not is_unspaced(best):
        return best.lower()  # a text in capitals; a short word is an acronym
    if one.named * 2 >= one.count or best.isupper():
        return best
    lower = [form for form in one.written if form[:1].islower()]
    if lower:
        return max(lower, key=lambda form: (one.written[form], form))
    return best[:1].lower() + best[1:] if best[1:].islower() else best


def _drop_echoes(phrases: Sequence[tuple[KeyPhrase, tuple[str, ...]]]) -> list[KeyPhrase]:
    """Without those that lie inside a better one, or are a better one with a word more."""
    kept: list[tuple[KeyPhrase, frozenset[str]]] = []
    for phrase, stems in phrases:
        mine = frozenset(stems)
        if not any(mine <= other or (other <= mine and len(other) > 1) for _, other in kept):
            kept.append((phrase, mine))
        if len(kept) >= 60:
            break
    return [phrase for phrase, _ in kept]


def refine_phrases(
    phrases: Sequence[KeyPhrase],
    vectors: NDArray[np.float32],
    text: NDArray[np.float32],
    *,
    most: int,
) -> list[KeyPhrase]:
    """The phrases that are near the text and far from each other (maximal marginal relevance).

    Args:
        phrases: the candidates, ranked.
        vectors: of the phrases, each of length 1.
        text: the vector of the whole text.
        most: how many are wanted.
    """
    import numpy as np

    near = vectors @ text
    low, high = float(near.min()), float(near.max())
    scaled = (near - low) / (high - low) if high > low else np.ones_like(near)
    weights = np.sqrt([phrase.score for phrase in phrases])
    worth = (1.0 - _NEARNESS) * weights + _NEARNESS * scaled
    alike = vectors @ vectors.T
    taken: list[int] = []
    left = list(range(len(phrases)))
    while left and len(taken) < most:
        closest = alike[np.ix_(left, taken)].max(axis=1) if taken else np.zeros(len(left))
        gains = (1.0 - _DIVERSITY) * worth[left] - _DIVERSITY * closest
        taken.append(left.pop(int(gains.argmax())))
    best = max(float(worth[taken[0]]), 1e-9) if taken else 1.0
    return [replace(phrases[n], score=float(worth[n]) / best) for n in taken]
