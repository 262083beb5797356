"""What is wrong with what was heard: passages that are missing, doubled, moved, added or changed.

Pure: words on both sides in, passages out. A recogniser mishears a word in forty, so only runs of
several words count, and a run that merely sounds alike does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Literal

from anyrig.audiobooks.check_align import Gap, common, gaps
from anyrig.transcription.compare import Token, word_errors
from anyrig.transcription.compare import _tokenize as tokens

Kind = Literal["missing", "doubled", "moved", "extra", "wrong"]
LEAST_WORDS = 4
"""A shorter difference is taken for the recogniser's."""
_ALIKE = 0.55  # of their letters: what was misheard is still like what was said
_SAME = 0.7  # of a run's words: it is the same passage
_RUN = 3  # words that lead to a place
_AROUND = 30  # words beside a place that may belong to it
_FAMILY = {"missing": 0, "wrong": 0, "doubled": 1, "extra": 1, "moved": 2}
_SCRIPTS = r"[\u3001-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
_WIDE, _CLOSE = re.compile(_SCRIPTS), re.compile(rf"(?<={_SCRIPTS}) (?={_SCRIPTS})")


@dataclass
class Row:
    """A text as words that can be compared, each with the place it comes from."""

    words: list[str] = field(default_factory=list)
    of: list[int] = field(default_factory=list)
    """Which written word each comes from: `$3` is `three dollars`."""
    texts: list[str] = field(default_factory=list)
    places: list[tuple[float, float]] = field(default_factory=list)
    """Of each written word: part and segment of what should be heard; start and end in seconds of
    what was."""
    languages: list[str] = field(default_factory=list)
    like: str = ""
    """What it will be laid beside, for words that can be read in several ways: `1987`."""

    def beside(self) -> Row:
        """An empty row that will be laid beside this one."""
        return Row(like=f" {' '.join(self.words)} ")

    def add(self, text: str, place: tuple[float, float], language: str) -> None:
        """One more written word."""
        code = language.partition("-")[0].lower() or "en"
        # No spaces between the words of a script: letters are compared.
        for written in text if _WIDE.search(text) else (text,):
            said = [word for token in tokens(written, code) for word in self._reading(token)]
            self.of += [len(self.texts)] * len(said)
            self.words += said
            self.texts.append(written)
            self.places.append(place)
            self.languages.append(code)

    def _reading(self, token: Token) -> Sequence[str]:
        """Of several fair readings the one that the other side has; else the first."""
        if len(token) > 1 and self.like:
            return next((one for one in token if f" {' '.join(one)} " in self.like), token[0])
        return token[0]

    def text(self, start: int, end: int) -> str:
        """As written, of words `start` to `end`."""
        if start >= end:
            return ""
        return _CLOSE.sub("", " ".join(self.texts[self.of[start] : self.of[end - 1] + 1]))

    def place(self, word: int) -> tuple[float, float]:
        """Where a word comes from."""
        return self.places[self.of[word]]


@dataclass(frozen=True)
class Passage:
    """Something that is not as it should be."""

    kind: Kind
    gap: Gap
    """Words of the whole row that should be heard, and of what was."""
    said: str
    """What should be heard there; of a doubled passage, what is heard twice."""
    heard: str
    segments: tuple[tuple[int, int], ...]
    """Part and segment of what is concerned, from 0."""
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Compared:
    """A stretch of a book, as it was heard."""

    passages: tuple[Passage, ...]
    words: int
    """That should have been heard in it."""
    errors: int
    lost: bool = False
    """Whether the stretch could not be found in the text."""


def compare(
    said: Row,
    heard: Row,
    *,
    first: bool = True,
    last: bool = True,
    near: tuple[int, int] | None = None,
    least: int = LEAST_WORDS,
) -> Compared:
    """What is wrong with a stretch.

    Args:
        said: all of a chapter.
        heard: all of a stretch.
        first: whether the stretch begins where the chapter does.
        last: whether it ends where the chapter does.
        near: which words of the chapter it may be; any when None.
        least: words of the shortest passage that counts.
    """
    low, high = near or (0, len(said.words))
    if not (first and last):
        found = located(said.words[low:high], heard.words)
        if found is None:
            return Compared((), 0, 0, lost=True)
        low, high = (low if first else low + found[0]), (high if last else low + found[1])
    listed = [
        Gap(gap.i0 + low, gap.i1 + low, gap.j0, gap.j1)
        for gap in gaps(said.words[low:high], heard.words)
    ]
    if not first:
        low, listed = _from_run(listed, low, high)
    if not last:
        high, listed = _to_run(listed, low, high, len(heard.words))
    passages = [one for gap in listed if (one := _passage(said, heard, gap, least))]
    errors = sum(_errors(said, heard, gap) for gap in _rounded(said, heard, listed))
    return Compared(tuple(passages), high - low, errors)


def located(said: Sequence[str], heard: Sequence[str]) -> tuple[int, int] | None:
    """Which words a stretch belongs to, with some around it; None when it is not there."""
    runs: dict[tuple[str, ...], list[int]] = {}
    for at in range(len(said) - _RUN + 1):
        runs.setdefault(tuple(said[at : at + _RUN]), []).append(at)
    # Runs that are common in the chapter lead nowhere.
    hits = [
        (at, place)
        for at in range(len(heard) - _RUN + 1)
        for place in runs.get(tuple(heard[at : at + _RUN]), ())
        if len(runs[tuple(heard[at : at + _RUN])]) <= 3
    ]
    votes: dict[int, int] = {}
    for at, place in hits:
        bucket = (place - at) // 8
        votes[bucket] = votes.get(bucket, 0) + 1
    least = max(2, 0.12 * len(heard))
    strong = {b for b in votes if votes[b] + max(votes.get(b - 1, 0), votes.get(b + 1, 0)) >= least}
    places = [place for at, place in hits if (place - at) // 8 in strong]
    if not places:
        return None
    return max(0, min(places) - _AROUND), min(len(said), max(places) + _RUN + _AROUND)


def _from_run(listed: list[Gap], low: int, high: int) -> tuple[int, list[Gap]]:
    """Where a stretch begins, and its gaps from there: single words before it agree by chance."""
    for at, gap in enumerate(listed):
        following = listed[at + 1].i0 if at + 1 < len(listed) else high
        if at == 0 and gap.i0 - low >= _RUN:
            return low, listed
        if following - gap.i1 >= _RUN or at + 1 == len(listed):
            rest = listed[at + 1 :]
            return gap.i1, ([Gap(gap.i1, gap.i1, 0, gap.j1)] if gap.j1 else []) + rest
    return low, listed


def _to_run(listed: list[Gap], low: int, high: int, num_heard: int) -> tuple[int, list[Gap]]:
    """The same of its end: looked at from behind it is its beginning."""
    turned = [Gap(-g.i1, -g.i0, num_heard - g.j1, num_heard - g.j0) for g in reversed(listed)]
    end, kept = _from_run(turned, -high, -low)
    back = [Gap(-g.i1, -g.i0, num_heard - g.j1, num_heard - g.j0) for g in reversed(kept)]
    return -end, back


def _rounded(said: Row, heard: Row, listed: Sequence[Gap]) -> list[Gap]:
    """Gaps that hold written words whole: `$3.50` is no `three` and something else."""
    made: list[Gap] = []
    for at, (i0, i1, j0, j1) in enumerate(listed):
        before = made[-1] if made else Gap(0, 0, 0, 0)
        while i0 > before.i1 and j0 > before.j1 and _inside(said, heard, i0, j0):
            i0, j0 = i0 - 1, j0 - 1
        if made and (i0, j0) == (before.i1, before.j1) and _inside(said, heard, i0, j0):
            i0, j0 = before.i0, before.j0
            made.pop()
        most = listed[at + 1].i0 if at + 1 < len(listed) else len(said.words)
        while i1 < most and j1 < len(heard.words) and _inside(said, heard, i1, j1):
            i1, j1 = i1 + 1, j1 + 1
        made.append(Gap(i0, i1, j0, j1))
    return made


def _inside(said: Row, heard: Row, i: int, j: int) -> bool:
    """Whether a cut before these words is a cut within a written word."""
    return any(0 < k < len(of) and of[k - 1] == of[k] for of, k in ((said.of, i), (heard.of, j)))


def _passage(said: Row, heard: Row, gap: Gap, least: int) -> Passage | None:
    num_said, num_heard = gap.i1 - gap.i0, gap.j1 - gap.j0
    if max(num_said, num_heard) < least:
        return None
    one, other = said.words[gap.i0 : gap.i1], heard.words[gap.j0 : gap.j1]
    if num_said >= least and num_heard <= num_said / 3:
        return _made("missing", said, heard, gap, range(gap.i0, gap.i1))
    if num_heard >= least and num_said <= num_heard / 3:
        again = _again(said, other, gap)
        if len(again) >= _SAME * num_heard:
            return _made("doubled", said, heard, gap, again)
        return _made("extra", said, heard, gap, _beside(said, gap))
    if _alike("".join(one), "".join(other)) or _errors(said, heard, gap) < least:
        return None
    return _made("wrong", said, heard, gap, range(gap.i0, gap.i1))


def _again(said: Row, other: list[str], gap: Gap) -> list[int]:
    """Which words beside a gap are those that were heard in it once more.

    A passage that is heard twice may be laid down anywhere within the two: its end comes first
    then, and its beginning after.
    """
    size = len(other) + 2
    before, after = max(0, gap.i0 - size), min(len(said.words), gap.i1 + size)
    left = [before + i for i, _ in common(said.words[before : gap.i0], other)]
    right = [gap.i1 + i for i, _ in common(said.words[gap.i1 : after], other)]
    if len(left) >= _SAME * len(other) or len(right) >= _SAME * len(other):
        return max(left, right, key=len)
    tail = [at for at in left if at >= gap.i0 - len(other) + len(right)]
    return sorted(tail + right)


def _beside(said: Row, gap: Gap) -> list[int]:
    return [at for at in (gap.i0 - 1, gap.i1) if 0 <= at < len(said.words)][:1]


def _made(kind: Kind, said: Row, heard: Row, gap: Gap, words: Sequence[int] | range) -> Passage:
    places = dict.fromkeys(said.place(word) for word in words)
    start, end = _when(heard, gap)
    text = said.text(words[0], words[-1] + 1) if words and kind != "extra" else ""
    segments = tuple((int(part), int(segment)) for part, segment in places)
    return Passage(kind, gap, text, heard.text(gap.j0, gap.j1), segments, start, end)


def _when(heard: Row, gap: Gap) -> tuple[float, float]:
    if gap.j1 > gap.j0:
        return heard.place(gap.j0)[0], heard.place(gap.j1 - 1)[1]
    start = heard.place(gap.j0 - 1)[1] if gap.j0 else 0.0
    end = heard.place(gap.j0)[0] if gap.j0 < len(heard.words) else start
    return start, max(start, end)


def _errors(said: Row, heard: Row, gap: Gap) -> int:
    """The wrong words of a gap; a number may be read in several ways."""
    num_said, num_heard = gap.i1 - gap.i0, gap.j1 - gap.j0
    if not num_said or not num_heard or max(num_said, num_heard) > 60:
        return max(num_said, num_heard)
    language = said.languages[said.of[gap.i0]]
    one, other = said.text(gap.i0, gap.i1), heard.text(gap.j0, gap.j1)
    return min(max(num_said, num_heard), word_errors(one, other, language).errors)


def _alike(one: str, other: str) -> bool:
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= _ALIKE


def moved(passages: list[Passage]) -> list[Passage]:
    """Passages of which one is missing here and heard there become one that is in a wrong place."""
    extras = [one for one in passages if one.kind in ("extra", "doubled")]
    made: list[Passage] = []
    for one in passages:
        if one.kind == "missing":
            twin = next((x for x in extras if _same(one.said, x.heard)), None)
            if twin is not None:
                extras.remove(twin)
                one = replace(
                    one, kind="moved", heard=twin.heard, start_s=twin.start_s, end_s=twin.end_s
                )
        made.append(one)
    taken = {one.heard for one in made if one.kind == "moved"}
    return [one for one in made if one.kind == "moved" or one.heard not in taken or not one.heard]


def _same(one: str, other: str) -> bool:
    left, right = one.lower().split(), other.lower().split()
    return len(common(left, right)) >= _SAME * max(len(left), len(right))


def confirmed(
    passage: Passage, said: Row, again: Row, *, first: bool, last: bool, least: int = LEAST_WORDS
) -> Passage | None:
    """The passage as a second hearing of the place has it; None when that heard nothing wrong.

    Args:
        passage: what the first hearing found.
        said: all of the chapter.
        again: what was heard around the place, cut otherwise.
        first: whether that begins where the chapter does.
        last: whether it ends where the chapter does.
        least: as for `compare`.
    """
    gap = passage.gap
    near = max(0, gap.i0 - 2 * _AROUND), min(len(said.words), gap.i1 + 2 * _AROUND)
    first, last = first and near[0] == 0, last and near[1] == len(said.words)
    second = compare(said, again, first=first, last=last, near=near, least=least)
    if second.lost:
        return passage
    wanted = 0.6 * _size(passage)
    for other in second.passages:
        if _FAMILY[other.kind] == _FAMILY[passage.kind] and _size(other) >= wanted:
            return other
    return None


def _size(passage: Passage) -> int:
    gap = passage.gap
    return max(gap.i1 - gap.i0, gap.j1 - gap.j0)
