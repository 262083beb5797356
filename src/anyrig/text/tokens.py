"""Written text as tokens, which say what each stretch means and where sentences end.

    tokens = tokenize("He left on 3 Nov. She stayed.", "en")
    for part in split_sentences(tokens): ...

Tokens cover the text from its first character to its last. Plain words stay together: a `text`
token holds all of them up to the next token of another kind or the end of the sentence, and its
value is what is read, character for character. A recognised stretch has a typed value
(`text/values.py`) and the name of its class as its kind. White space between sentences is a
`space` token, between paragraphs a `break`; markup that is not read has kind `markup` and what is
put in its place (mostly nothing) as its value.

The same recognisers decide what a stretch means and whether its full stop ends the sentence, so
that the two cannot disagree. A paragraph is first cut where a sentence ends beyond doubt; each
stretch between two such places is then looked at by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from anyrig.text.cleanup import CleanText, clean
from anyrig.text.recognizers import RECOGNIZED_LANGUAGES, Candidate, Stop, find_best
from anyrig.text.recognizers.stops import (
    OPEN,
    ends_sentence,
    is_after_plain_word,
    is_certain_end,
    is_certain_inside,
    is_numbered_item,
    is_small,
    needs_recognizers,
)

if TYPE_CHECKING:
    from anyrig.text.values import Value  # a plain text has none, and their classes take time

Span = tuple[int, int]
_MAX_WINDOW = 4000
"""Characters that recognisers are given at a time: a sentence longer than that is none."""
_STRETCH = 200_000
_AROUND = 60
"""Characters before and behind a doubtful stop that decide about it."""
_BEHIND = 30
"""Characters behind it that are enough where its stretch was read before."""


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of text, what it means, and what the full stop at its end is."""

    start: int
    end: int
    kind: str
    """`text`, `space`, `break`, `markup`, or the class of its value: `date`, `money` ..."""
    value: Value | str
    """What is read: a string for the four kinds above, a typed value for others."""
    stop: Stop = "none"
    """`end` and `both`: a sentence ends here."""


def tokenize(text: str, language: str = "en") -> list[Token]:
    """The tokens of a text in order, from its first character to its last."""
    base = language.partition("-")[0].lower()
    cleaned = clean(text, base)
    tokens = list(_tokenize_paragraphs(cleaned.text, base))
    return list(_trace(cleaned, tokens, len(text)))


def split_sentences(tokens: Sequence[Token]) -> list[slice]:
    """The sentences: slices of the tokens, without the white space around them."""
    sentences: list[slice] = []
    start = 0
    for index, token in enumerate(tokens):
        if token.kind in ("space", "break"):
            if index > start:
                sentences.append(slice(start, index))
            start = index + 1
        elif token.stop == "end" and index + 1 < len(tokens) and tokens[index + 1].kind == "text":
            sentences.append(slice(start, index + 1))  # without white space between, as in Chinese
            start = index + 1
    if len(tokens) > start:
        sentences.append(slice(start, len(tokens)))
    return sentences


def split_text(text: str, language: str = "en") -> list[Span]:
    """The places of a text's sentences; what lies between them is white space.

    What `split_sentences(tokenize(text))` says, in less time: only stretches with a doubtful full
    stop are tokenized.
    """
    return list(find_sentences(text, language))


def find_sentences(text: str, language: str = "en") -> Iterator[Span]:
    """The places of a text's sentences, one after the other as they are asked for."""
    base = language.partition("-")[0].lower()
    for start, end in split_paragraphs(text):
        for low, high in _split_paragraph(text[start:end], base):
            yield start + low, start + high


def split_paragraphs(text: str) -> list[Span]:
    """The spans between blank lines; what lies between them is white space."""
    spans, start = [], 0
    for match in _BLANK.finditer(text):
        spans.append((start, match.start()))
        start = match.end()
    spans.append((start, len(text)))
    return [trimmed for low, high in spans if (trimmed := _trim(text, low, high))]


def cut_paragraph(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph in parts of bounded length, cut after a sentence or a word where that can be."""
    while end - start > _STRETCH:
        middle, most = start + _STRETCH // 2, start + _STRETCH
        cut = max(text.rfind(". ", middle, most), text.rfind("\u3002", middle, most)) + 1
        cut = cut or text.rfind(" ", middle, most) + 1 or most
        yield start, cut
        start = cut
    yield start, end


# These begin with what they look for: `re` finds that several times faster than a branch.
_BLANK = re.compile(r"[\n\r\f\u2029](?:(?<=\n)\s*\n|(?<=\r)[^\S\r\n]*+\r|(?<=[\f\u2029]))")
# The end of a sentence as people write it: marks, what closes, a note's number, white space.
_CANDIDATE = re.compile(r"([.!?…](?<![.!?…]{2})[.!?…]*+)[\"'”’»›“)\]}*_]*+(?:\[\d{1,3}\])*+\s++()")
_WIDE_STOP = re.compile("[。！？｡]")
_WIDE_CANDIDATE = re.compile(
    r"(?<![.!?…])([.!?…]++)[\"'”’»›“)\]}*_]*+(?:\[\d{1,3}\])*+\s++|"
    r"([。！？｡]++)[\"'”’»›“)\]}」』]*+\s*+"
)


def _find_candidates(text: str) -> Iterator[re.Match[str]]:
    """Where sentences may end; what ends one in any case has a second group."""
    has_wide = not text.isascii() and _WIDE_STOP.search(text)
    return (_WIDE_CANDIDATE if has_wide else _CANDIDATE).finditer(text)


def _trim(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end -= len(piece) - len(piece.rstrip())
    return (start, end) if start < end else None


def _tokenize_paragraphs(text: str, language: str) -> Iterator[Token]:
    position = 0
    for start, end in split_paragraphs(text):
        if start > position:
            kind = "break" if position else "space"
            yield Token(position, start, kind, text[position:start])
        for token in _tokenize_paragraph(text[start:end].replace("\n", " "), language):
            yield Token(start + token.start, start + token.end, token.kind, token.value, token.stop)
        position = end
    if position < len(text):
        yield Token(position, len(text), "space", text[position:])


def _tokenize_paragraph(text: str, language: str) -> Iterator[Token]:
    if language not in RECOGNIZED_LANGUAGES:
        position = 0
        for start, end in _split_paragraph(text, language):
            if start > position:
                yield Token(position, start, "space", text[position:start])
            yield Token(start, end, "text", text[start:end], "end")
            position = end
        return
    careless = _is_careless(text)
    position = 0
    for start, end in _windows(text, language):
        if start > position:
            yield Token(position, start, "space", text[position:start])
        for token in _tokenize_window(text[start:end], language, careless):
            yield Token(start + token.start, start + token.end, token.kind, token.value, token.stop)
        position = end


def _is_careless(text: str) -> bool:
    """Whether a text begins small, as one in which no sentence has a capital."""
    first = next((one for one in text[:200] if one.isalpha() and one not in "ªº"), "")
    if not first.islower():
        return False
    # Behind a number a sentence goes on small: 2e éd. Paris.
    return not (text.lstrip()[0].isdecimal() and _SECOND_SENTENCE.search(text[:400]))


_SECOND_SENTENCE = re.compile(r"[.:!?]\s+[A-ZÀ-Ý¿¡«—–]")


def _windows(text: str, language: str) -> Iterator[Span]:
    """The stretches between certain ends of sentences, without white space around them."""
    start = 0
    for match in _find_candidates(text):
        certain = match[2] or is_certain_end(text, match, language)
        if certain and not is_numbered_item(text, start, match.end(1)):
            yield from _bound(text, start, match.end() - len(match[0]) + len(match[0].rstrip()))
            start = match.end()
    if start < len(text):
        yield from _bound(text, start, len(text))


def _bound(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > _MAX_WINDOW:
        space = text.rfind(" ", start, start + _MAX_WINDOW)
        cut = space if space > start else start + _MAX_WINDOW
        yield start, cut
        start = cut + 1 if text[cut : cut + 1].isspace() else cut
    if start < end:
        yield start, end


def _tokenize_window(
    text: str, language: str, careless: bool, *, only_stopped: bool = False
) -> Iterator[Token]:
    """The tokens of a stretch that holds one sentence, or more with a doubtful stop between."""
    candidates: list[Candidate] = []
    if needs_recognizers(text, language):
        candidates = find_best(text, language, only_stopped=only_stopped)
    cuts = dict(
        _inner_ends(
            text, [(one.start, one.end, one.stop) for one in candidates], language, careless
        )
    )
    position = 0
    for one in candidates:
        yield from _plain_tokens(text, position, one.start, cuts)
        yield Token(one.start, one.end, one.kind, one.value, one.stop)
        position = one.end
    yield from _plain_tokens(text, position, len(text), cuts)


def _inner_ends(
    text: str, taken: Sequence[tuple[int, int, Stop]], language: str, careless: bool
) -> Iterator[Span]:
    """Where sentences end within a window: the end of one, and the beginning of the next."""
    index = 0
    begin = 0
    for match in _find_candidates(text):
        while index < len(taken) and taken[index][1] <= match.start():
            index += 1
        inside = index < len(taken) and taken[index][0] <= match.start()
        if inside:
            ends = taken[index][1] == match.end(1) and taken[index][2] in ("end", "both")
        elif index and taken[index - 1][1] == match.start() and match[1] == ".":
            # Behind a recognised token a full stop is the sentence's own: Henry V. He came.
            ends = not is_small(text[match.end() : match.end() + 12].lstrip(OPEN))
        else:
            ends = bool(match[2]) or ends_sentence(text, match, language, careless=careless)
        if ends and not is_numbered_item(text, begin, match.end(1)):
            closed = match.end() - len(match[0]) + len(match[0].rstrip())
            begin = match.end()
            if begin < len(text):
                yield closed, begin


def _plain_tokens(text: str, start: int, end: int, cuts: dict[int, int]) -> Iterator[Token]:
    """The text between two recognised tokens, cut where sentences end."""
    position = start
    for close, begin in cuts.items():
        if close < start or begin > end or close > end:
            continue
        if close > position:
            yield Token(position, close, "text", text[position:close], "end")
        yield Token(close, begin, "space", text[close:begin])
        position = begin
    if position < end:
        stop: Stop = "end" if end == len(text) else "none"
        yield Token(position, end, "text", text[position:end], stop)


def _split_paragraph(text: str, language: str) -> Iterator[Span]:
    if language not in RECOGNIZED_LANGUAGES:
        from anyrig.text.generic_sentences import find_cuts

        for start, end in pairwise([0, *find_cuts(text, language), len(text)]):
            if trimmed := _trim(text, start, end):
                yield trimmed
        return
    careless = _is_careless(text)
    cuts = _DoubtfulEnds(text, language, careless)
    position = 0
    for match in _find_candidates(text):
        if match[2] or is_certain_end(text, match, language):
            ends = not is_numbered_item(text, position, match.end(1))
            cuts.window = match.end() if ends else cuts.window
        elif is_certain_inside(text, match, language, careless=careless):
            continue
        elif is_after_plain_word(text, match, language):
            ends = ends_sentence(text, match, language, careless=careless)
            ends = ends and not is_numbered_item(text, position, match.end(1))
        else:
            ends = cuts.is_end(match)
        if ends:
            yield from _bound(text, position, match.start() + len(match[0].rstrip()))
            position = match.end()
    yield from _bound(text, position, len(text))


class _DoubtfulEnds:
    """Whether sentences of a paragraph end at doubtful stops, by the tokens around each.

    The tokens of a stretch are kept, so that stops in a row cost one look.
    """

    def __init__(self, text: str, language: str, careless: bool) -> None:
        self.window = 0
        """Behind the last certain end."""
        self._text, self._language, self._careless = text, language, careless
        self._read_from = self._read_to = 0
        self._spaces: list[Span] = []

    def is_end(self, match: re.Match[str]) -> bool:
        if match.end() + _BEHIND > self._read_to or self._read_from < self.window:
            self._read(match)
        return any(start < match.end() <= end for start, end in self._spaces)

    def _read(self, match: re.Match[str]) -> None:
        text = self._text
        low = max(self.window, match.start() - _AROUND)
        low = text.rfind(" ", self.window, low) + 1 or self.window if low > self.window else low
        high = match.end() + _AROUND
        high = text.find(" ", high) if high < len(text) else -1
        cleaned = clean(text[low : high if high > 0 else len(text)], self._language)
        self._read_from, self._read_to = low, high if high > 0 else len(text) + _BEHIND
        plain = cleaned.text.replace("\n", " ")
        self._spaces = [
            (low + cleaned.source_start(token.start), low + cleaned.source_end(token.end))
            for token in _tokenize_window(plain, self._language, self._careless, only_stopped=True)
            if token.kind == "space"
        ]


def _trace(cleaned: CleanText, tokens: Sequence[Token], length: int) -> Iterator[Token]:
    """Tokens of a cleaned text with their places in the source, and what was taken off between."""
    if cleaned.is_plain:
        yield from tokens
        return
    position = 0
    for token in tokens:
        parts: list[tuple[int, int, Value | str]]
        if isinstance(token.value, str):
            parts = [
                (low, high, token.value[low - token.start : high - token.start])
                for low, high in cleaned.cut(token.start, token.end)
            ]
        else:
            parts = [(token.start, token.end, token.value)]
        for number, (low, high, value) in enumerate(parts):
            start = max(position, cleaned.source_start(low))
            end = max(start, cleaned.source_end(high))
            if start > position:
                yield Token(position, start, "markup", "")
            last = number == len(parts) - 1
            yield Token(start, end, token.kind, value, token.stop if last else "none")
            position = end
    if position < length:
        yield Token(position, length, "markup", "")
