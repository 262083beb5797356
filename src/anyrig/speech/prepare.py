"""From a text to a script: the front door of speech.

    script = prepare("Dr. Lee paid $3.50.", SpeechOptions(languages=("en",)))
    script.segments[0].utterance.text  # Doctor Lee paid three dollars and fifty cents.

A pure function: the same text and arguments give the same script in any process. A segment's line
depends on its own words alone, seed included, so a change renders again only what it touches.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Literal

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech import ssml
from anyrig.speech.engine import Utterance
from anyrig.speech.language import (
    ParagraphLanguages,
    detect_languages,
    match_language,
    use_language,
)
from anyrig.speech.lexicon import LayeredLexicon, Lexicon
from anyrig.speech.recite import Reciter, Spoken
from anyrig.speech.segment import Omission, OmissionKind, Pauses, Script, Segment, SegmentKind, Span
from anyrig.speech.source_text import SourceText, read_plain
from anyrig.speech.split import SHORT_WORDS, first_clause
from anyrig.text.formats.titles import label
from anyrig.text.sentences import paragraphs as split_paragraphs

_MIN_CHARS = 20
"""An utterance may be so long whatever an engine says."""
_MARKS, _MAX_MARKS = ("Mn", "Me"), 6
"""Categories of combining marks, and how many a letter may have; Tibetan has stacks of five."""
_ROW = re.compile(r"\s+|\S++(?:[^\S\n\r]++\S++)*+")


_NAMED = re.compile(
    r"(?:prologue|epilogue|preface|introduction|appendix|prólogo|epílogo|épilogue|préface"
    r"|prologo|epilogo)\s*[.:]?(?:\s*[-–—:.]\s*\S.{0,60})?",
    re.I,
)
_NUMBERED = ("volume", "book", "part", "chapter", "scene")
_LONGEST_TITLE = 62
_HASHES = re.compile(r"#{1,6}\s+\S")
_UNDERLINE = re.compile(r"\s*(?:={3,}|-{3,})\s*")
_SPEECH = re.compile(r"[\"“«‘„`—–]|-{1,2}\s|[*+•‣◦▪●]\s|\d{1,3}[.)]\s|'(?=[A-Z])")
_SPEAKER = re.compile(r"[^\W\d_a-z][\w.'’-]{0,20}(?: [^\W\d_a-z][\w.'’-]{0,20}){0,2}:\s+\S")
_LINE = re.compile(r"[^\n\r]*(?:\r\n|\n|\r)?")
_BULLETS, _DASHES = "-*+•‣◦▪●", "-–—"
_MOST_CAPITALS = 60


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of the text, a heading, or one speech."""

    start: int
    end: int
    kind: SegmentKind


@dataclass(frozen=True)
class SpeechOptions:
    """What the caller wants, and what the engine can."""

    max_chars: int = 400
    """Spoken characters of an utterance (`EngineInfo.max_chars`)."""
    reads: Collection[str] = frozenset()
    """What the engine reads besides words (`EngineInfo.reads`): `ipa`, `acronyms`."""
    languages: tuple[str, ...] = ()
    """What it speaks; empty is anything."""
    language: str = "auto"
    """Of the text; `auto` detects it by paragraph."""
    default_language: str = "en"
    """What a text too short to tell is taken for."""
    voice: str = ""
    """For the main language, and for any other that `voices` does not name."""
    voices: Mapping[str, str] = field(default_factory=dict)
    """The voice for text in each language."""
    rate: float = 1.0
    """2.0 is twice as fast."""
    seed: int = 0
    """Another one gives other takes of every segment."""
    lexicon: Lexicon | LayeredLexicon = field(default_factory=Lexicon)
    pauses: Pauses = field(default_factory=Pauses)
    ssml: bool | Literal["auto"] = "auto"
    """Whether the text is SSML; `auto` looks whether it begins with <speak."""
    join_words: int = SHORT_WORDS
    """Sentences of so few words are joined with a neighbour."""
    first_short: bool = False
    """Cut the first segment after a short clause, so that it is heard early."""
    on_step: Callable[[], None] | None = field(default=None, compare=False)
    """Called before each sentence; it may raise an error to stop."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_chars", max(_MIN_CHARS, self.max_chars))
        if not 0.25 <= self.rate <= 4.0:
            raise InvalidInputError(
                f"the rate must be between 0.25 and 4, not {self.rate:g}",
                hint="1 is the voice's own rate.",
            )


def prepare(text: str, options: SpeechOptions | None = None) -> Script:
    """The script of a text, plain or SSML.

    UnspeakableTextError when there is nothing in it that the engine can say.
    """
    options = options or SpeechOptions()
    marked = ssml.is_ssml(text) if options.ssml == "auto" else options.ssml
    source = ssml.read_ssml(text) if marked else read_plain(text)
    script = prepare_paragraphs(source, _find_paragraphs(source), options)
    if not script.segments:
        raise UnspeakableTextError(
            "There is nothing to say in the text", hint="Pass a text with words or numbers in it."
        )
    return script


def prepare_paragraphs(
    source: SourceText, paragraphs: Sequence[Paragraph], options: SpeechOptions
) -> Script:
    """The script of a text whose paragraphs are known; what lies between them is not spoken.

    It has no segments when there is nothing to say.
    """
    reciter = Reciter(source, options, dict.fromkeys(source.warnings))
    languages = _choose_languages(reciter, paragraphs)
    reciter.main = languages.main
    reciter.warnings.update(dict.fromkeys(languages.warnings))
    spoken: list[Spoken] = []
    for number, (paragraph, language) in enumerate(zip(paragraphs, languages.each, strict=True)):
        spoken += reciter.recite(paragraph, number, language)
    if options.first_short and spoken:
        one = spoken[0]
        spoken[:1] = [
            Spoken(part, one.style, one.kind, one.block) for part in first_clause(one.part)
        ]
    segments = tuple(_segments(source, spoken, options))
    return Script(
        source.source, segments, tuple(_omissions(source, spoken)), tuple(reciter.warnings),
        tuple(dict.fromkeys(segment.utterance.language for segment in segments)),
    )  # fmt: skip


def seed_of(words: str, seed: int) -> int:
    """The seed of a line, made of its words: it sounds the same wherever it stands."""
    data = f"{seed}\n{words}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "big") >> 1


def limit_marks(text: str) -> str:
    """A text without combining marks where a letter has more than any language writes.

    Engines that take marks one by one would say each of them, or fail.
    """
    if text.isascii():
        return text
    kept: list[str] = []
    for is_mark, run in groupby(text, lambda char: unicodedata.category(char) in _MARKS):
        found = "".join(run)
        if is_mark and len(found) > _MAX_MARKS:
            composed = unicodedata.normalize("NFC", (kept.pop() if kept else "") + found)
            kept += [char for char in composed if unicodedata.category(char) not in _MARKS]
        else:
            kept += found
    return "".join(kept)


def _find_paragraphs(source: SourceText) -> list[Paragraph]:
    """The paragraphs of a text, those that its markup asks for among them."""
    edges = {position for position, kind in source.edges if kind == "paragraph"}
    paragraphs: list[Paragraph] = []
    for start, end in pairwise(sorted({0, len(source.text)} | edges)):
        paragraphs += [
            Paragraph(start + each.start, start + each.end, each.kind)
            for each in find_paragraphs(source.text[start:end])
        ]
    return paragraphs


def _choose_languages(reciter: Reciter, paragraphs: Sequence[Paragraph]) -> ParagraphLanguages:
    """Of each paragraph; what markup names is not guessed, and tells nothing about the rest."""
    options = reciter.terms
    if options.language != "auto":
        return use_language(options.language, options.languages, len(paragraphs))
    named = [reciter.style_at(paragraph.start).language for paragraph in paragraphs]
    texts = [reciter.unnamed(paragraph) for paragraph in paragraphs]
    default = options.default_language
    if not any(text.strip() for text in texts) and any(named):
        default = match_language(named[0], options.languages) or default
    return detect_languages(texts, options.languages, default)


def _segments(
    flow: SourceText, spoken: Sequence[Spoken], terms: SpeechOptions
) -> Iterator[Segment]:
    silences = _silences(flow, spoken)
    for number, one in enumerate(spoken):
        after = spoken[number + 1] if number + 1 < len(spoken) else None
        rest = silences.get(number)
        start, end = _trimmed(flow.text, one)
        yield Segment(
            _line(one, terms, last=after is None or after.block != one.block),
            flow.spans(start, end),
            flow.text[start:end],
            one.kind,
            pause_before_s=silences.get(-1, 0.0) if number == 0 else 0.0,
            pause_after_s=_rest(one, after, terms.pauses) if rest is None else rest,
        )


def _line(one: Spoken, terms: SpeechOptions, *, last: bool) -> Utterance:
    words = limit_marks(one.part.spoken)
    if one.kind == "heading" and last and words[-1].isalnum() and len(words) < terms.max_chars:
        words += "."  # a title has no full stop on paper and needs one in the voice
    style = one.style
    return Utterance(words, style.language, style.voice, style.rate, seed_of(words, terms.seed))


def _trimmed(text: str, one: Spoken) -> Span:
    start, end = one.part.start, one.part.end
    piece = text[start:end]
    bare = piece.strip()
    if not bare:
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _silences(flow: SourceText, spoken: Sequence[Spoken]) -> dict[int, float]:
    """The breaks that the text asks for, by the segment they follow; -1 is before the first."""
    starts = [one.part.start for one in spoken]
    found: dict[int, float] = {}
    for position, seconds in flow.breaks:
        number = bisect_right(starts, position - 1) - 1
        found[number] = found.get(number, 0.0) + seconds
    return found


def _rest(one: Spoken, after: Spoken | None, pauses: Pauses) -> float:
    """How long the voice rests after a part."""
    if after is None:
        return 0.0
    if after.block > one.block + 1:  # a row of stars or a line between them
        return pauses.heading_s
    if after.block != one.block:
        return pauses.between(one.kind, after.kind)
    core = one.part.spoken.rstrip("\"'”’»)]")
    turn = one.style.voice != after.style.voice
    if one.part.ends or turn or core.endswith((".", "!", "?", "…")):
        return pauses.sentence_s
    return pauses.clause_s if core.endswith((",", ";", ":", "—", "–", "-")) else 0.0


def _omissions(flow: SourceText, spoken: Sequence[Spoken]) -> Iterator[Omission]:
    """All that no segment speaks: the markup, and what is left of the text between segments."""
    yield from flow.omissions
    position = 0
    for one in spoken:
        start, end = _trimmed(flow.text, one)
        yield from _unspoken(flow, position, start)
        position = end
    yield from _unspoken(flow, position, len(flow.text))


def _unspoken(flow: SourceText, start: int, end: int) -> Iterator[Omission]:
    """What lies between two segments, each row of signs by itself."""
    for match in _ROW.finditer(flow.text, start, end):
        kind = _kind(match[0]) if match[0].strip() else "space"
        for span in flow.spans(*match.span()):
            yield Omission(span, kind)


def _kind(text: str) -> OmissionKind:
    """Signs that no one reads, or characters that stand for nothing."""
    meaningless = all(unicodedata.category(one) in ("Cs", "Co", "Cn") for one in text[:100])
    return "unspeakable" if meaningless else "symbol"


# Paragraphs of a plain text


def find_paragraphs(text: str) -> list[Paragraph]:
    """The paragraphs of a plain text in order; between them is only white space.

    A heading is a line of its own that begins with `#`, is underlined with `===` or `---`, names a
    chapter (`Chapter IV`, `Capítulo 3`), or is short and in capitals. Speeches and items of a list
    begin with a dash, a quotation mark, a bullet, or a speaker's name and a colon; each is a
    paragraph, so that the voice rests between them. In a paragraph of wrapped lines a quotation
    mark at the start of a line is mere chance, so there only a line after a short one counts.
    """
    found: list[Paragraph] = []
    for start, end in split_paragraphs(text):
        found += _split_lines(text, start, end)
    return found


def _split_lines(text: str, start: int, end: int) -> list[Paragraph]:
    lines = [match.span() for match in _LINE.finditer(text, start, end) if match[0].strip()]
    longest = max(right - left for left, right in lines)
    edges = [0, *(at for at in range(1, len(lines)) if _begins_paragraph(text, lines, at, longest))]
    found = []
    for left, right in zip(edges, [*edges[1:], len(lines)], strict=True):
        group = lines[left:right]
        low, high = group[0][0], group[-1][1]
        piece = text[low:high]
        low += len(piece) - len(piece.lstrip())
        high -= len(piece) - len(piece.rstrip())
        found.append(Paragraph(low, high, _paragraph_kind(text, group, alone=len(group) == 1)))
    return found


def _begins_paragraph(text: str, lines: list[tuple[int, int]], number: int, longest: int) -> bool:
    """Whether a block begins with this line of a paragraph."""
    line = _line_text(text, lines[number])
    before = _line_text(text, lines[number - 1])
    if _HASHES.match(line) or _HASHES.match(before):
        return True
    if number > 1 and _UNDERLINE.fullmatch(before):
        return True
    if (
        number == 1
        and (_opens_chapter(before) or _is_in_capitals(before))
        and not _is_in_capitals(line)
    ):
        return True
    if _SPEAKER.match(line) and _SPEAKER.match(_line_text(text, lines[0])):
        return True
    if not _SPEECH.match(line):
        return False
    if line[:1] in _BULLETS and _SPEECH.match(before):
        return True
    ends = before.rstrip("\"'”’»)*_ ").endswith((".", "!", "?", "…", ":", ";"))
    return ends and (len(before) < 0.75 * longest or line[:1] in _DASHES)


def _paragraph_kind(text: str, group: list[tuple[int, int]], *, alone: bool) -> SegmentKind:
    first = _line_text(text, group[0])
    if _HASHES.match(first) and alone:
        return "heading"
    underlined = len(group) == 2 and _UNDERLINE.fullmatch(_line_text(text, group[1])) is not None
    if underlined and len(first) <= _MOST_CAPITALS and first[:1].isalnum():
        return "heading"
    if alone and (_opens_chapter(first) or _is_in_capitals(first)):
        return "heading"
    return "dialogue" if _SPEECH.match(first) or _SPEAKER.match(first) else "sentence"


def _opens_chapter(line: str) -> bool:
    """`Chapter IV`, `Acte premier`, `Prologue`; not `Act now.` or `Part of it was lost.`."""
    if _NAMED.fullmatch(line):
        return True
    found = label(line) if len(line) <= 2 * _LONGEST_TITLE else None
    return found is not None and found.sort in _NUMBERED and len(found.title) <= _LONGEST_TITLE


def _line_text(text: str, line: tuple[int, int]) -> str:
    return text[line[0] : line[1]].strip()


def _is_in_capitals(line: str) -> bool:
    """Short and in capitals, as titles are; `OK.` or `NO!` is a cry."""
    letters = sum(map(str.isalpha, line))
    return letters > 3 and len(line) <= _MOST_CAPITALS and line.isupper() and line[-1] not in "!?,;"
