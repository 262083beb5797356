"""Long sentences cut at natural places, short ones joined, the first clause set free.

All lengths are of what is spoken, as `2024` is longer in the mouth than on paper. A cut falls
between two atoms: a word, or a stretch that one rule reads (a date, an amount, a marked word), so
every character stays in exactly one part.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

SHORT_WORDS = 3
"""Sentences of so few words make some engines stumble (VibeVoice at three or fewer)."""
_SHORT_LETTERS = 24
_JOINED = 250
_WORD = re.compile(r"\s*\S+\s*")
_CLOSERS = "\"'”’»)]}*_"
_CONJUNCTIONS = frozenset(
    "and but or nor so yet because which who whom whose that when while where if although though "
    "unless until since as than then y e o u ni pero porque que cuando si aunque mientras donde "
    "pues et ou mais donc car qui quand lorsque puisque où dont und oder aber weil dass wenn als "
    "ob sondern denn ma perché che quando se mentre dove".split()
)
# The first clause for streaming: heard soon, and still long enough to sound like speech.
_FIRST_LEAST, _FIRST_USUAL, _FIRST_MOST = 18, 45, 80
_NATURAL = 0.2


@dataclass(frozen=True)
class Atom:
    """What is never cut: its place in the text and the words for it."""

    start: int
    end: int
    said: str
    whole: bool = False
    """Whether one rule or mark reads it; else it may be taken apart at its spaces."""


@dataclass(frozen=True)
class Part:
    """A run of atoms that is spoken at once."""

    atoms: tuple[Atom, ...]
    ends: bool = True
    """Whether a sentence ends with it."""

    @property
    def start(self) -> int:
        """Where it begins in the text."""
        return self.atoms[0].start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.atoms[-1].end

    @property
    def spoken(self) -> str:
        """What is said, in one line."""
        return spoken(self.atoms)


def spoken(atoms: Sequence[Atom]) -> str:
    """The words of atoms, in one line."""
    return " ".join("".join(atom.said for atom in atoms).split())


def cut(part: Part, limit: int) -> list[Part]:
    """A part as several of at most `limit` characters, alike in length, at natural places."""
    if len(part.spoken) <= limit:
        return [part]
    atoms = [piece for atom in part.atoms for piece in _fine(atom, limit)]
    sums = [0, *accumulate(len(atom.said) for atom in atoms)]
    cuts, start = [0], 0
    while sums[-1] - sums[start] > limit:
        start = _best(atoms, sums, start, limit)
        cuts.append(start)
    cuts.append(len(atoms))
    groups = [tuple(atoms[left:right]) for left, right in zip(cuts, cuts[1:], strict=False)]
    return [*(Part(group, ends=False) for group in groups[:-1]), Part(groups[-1], part.ends)]


def first_clause(part: Part) -> list[Part]:
    """A part as its first short clause and the rest, or alone where it is short already."""
    if len(part.spoken) <= _FIRST_USUAL + _FIRST_LEAST:
        return [part]
    atoms = [piece for atom in part.atoms for piece in _fine(atom, _FIRST_MOST)]
    sums = [0, *accumulate(len(atom.said) for atom in atoms)]
    high = min(bisect_right(sums, _FIRST_MOST), bisect_right(sums, sums[-1] - _FIRST_LEAST))
    places = [at for at in range(1, high) if sums[at] >= _FIRST_LEAST]
    if not places:
        return [part]
    natural = [at for at in places if _roughness(atoms, at) <= _NATURAL]
    near = natural or places
    at = min(near, key=lambda at: abs(sums[at] - _FIRST_USUAL) + 40 * _roughness(atoms, at))
    return [Part(tuple(atoms[:at]), ends=False), Part(tuple(atoms[at:]), part.ends)]


def join(parts: Sequence[Part], limit: int, shortest: int = SHORT_WORDS) -> list[Part]:
    """Parts of the same voice and paragraph, the very short ones put to a neighbour."""
    most = min(limit, _JOINED)
    joined: list[Part] = []
    lengths: list[int] = []
    lacking: list[bool] = []
    for part in parts:
        words = part.spoken
        is_short = _short(words, shortest)
        whole = part.ends and bool(joined) and joined[-1].ends  # a cut was made for a reason
        fits = whole and lengths[-1] + 1 + len(words) <= most
        if fits and (is_short or lacking[-1]):
            joined[-1] = Part(joined[-1].atoms + _bridged(joined[-1], part), part.ends)
            lengths[-1] += 1 + len(words)
            lacking[-1] = lacking[-1] and is_short and lengths[-1] < _SHORT_LETTERS
            continue
        joined.append(part)
        lengths.append(len(words))
        lacking.append(is_short)
    return joined


def _bridged(left: Part, right: Part) -> tuple[Atom, ...]:
    """The right part's atoms, with the white space before them."""
    if left.end == right.start:
        return (Atom(right.start, right.start, " "), *right.atoms)
    return (Atom(left.end, right.start, " "), *right.atoms)


def _short(words: str, shortest: int) -> bool:
    return len(words) <= _SHORT_LETTERS and words.count(" ") < shortest


def _fine(atom: Atom, limit: int) -> Iterator[Atom]:
    """An atom's words, each with the space after it; what is too long even so is cut hard."""
    if atom.whole:
        yield from _hard(atom, limit)
        return
    position = atom.start
    for match in _WORD.finditer(atom.said):
        word = Atom(position, position + len(match[0]), match[0])
        position = word.end
        yield from _hard(word, limit)
    if position < atom.end:  # only white space
        yield Atom(position, atom.end, atom.said[position - atom.start :])


def _hard(atom: Atom, limit: int) -> Iterator[Atom]:
    """Pieces of at most `limit`: at spaces, else anywhere, but never within [[...]]."""
    if len(atom.said) <= limit or atom.said.startswith("[["):
        yield atom
        return
    size, length, done = atom.end - atom.start, len(atom.said), 0
    for piece in _lines(atom.said, limit):
        # Of words longer than what they stand for, each piece has its share of the characters.
        left, done = atom.start + size * done // length, done + len(piece)
        yield replace(atom, start=left, end=atom.start + size * done // length, said=piece)


def _lines(words: str, limit: int) -> Iterator[str]:
    start = 0
    while len(words) - start > limit:
        space = words.rfind(" ", start, start + limit)
        end = space + 1 if space > start else start + limit
        yield words[start:end]
        start = end
    yield words[start:]


def _best(atoms: Sequence[Atom], sums: Sequence[int], start: int, limit: int) -> int:
    """Where the part that begins at `start` should end."""
    left = sums[-1] - sums[start]
    ideal = left / -(-left // limit)
    high = max(start + 1, bisect_right(sums, sums[start] + limit) - 1)
    low = bisect_right(sums, sums[start] + 0.4 * ideal)
    places = range(max(start + 1, min(low, high)), high + 1)
    return min(
        places,
        key=lambda at: abs(sums[at] - sums[start] - ideal) / ideal + _roughness(atoms, at),
    )


def _roughness(atoms: Sequence[Atom], at: int) -> float:
    """How unnatural a cut before this atom sounds, from 0 to 1.5."""
    if at >= len(atoms):
        return 0.0
    before, after = atoms[at - 1].said, atoms[at].said
    bare = before.rstrip()
    if bare == before and after[:1].strip():
        return 1.5  # within a word
    core = bare.rstrip(_CLOSERS)
    if core.endswith((".", "!", "?", "…")) and len(core) > 3:
        return 0.0
    if core.endswith((";", ":", "—", "–", "--")):
        return 0.05
    if core.endswith(",") or after.lstrip()[:1] in ("(", "—", "–", "“"):
        return 0.15
    word = after.split()
    return 0.45 if word and word[0].lower() in _CONJUNCTIONS else 0.7
