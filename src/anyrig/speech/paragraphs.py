"""The paragraphs of a plain text, and which of them are headings and speeches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from anyrig.speech.segment import SegmentKind
from anyrig.speech.source_text import SourceText
from anyrig.text.formats.titles import parse_label
from anyrig.text.tokens import split_paragraphs

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
class SpokenParagraph:
    """A paragraph of the text, a heading, or one speech."""

    start: int
    end: int
    kind: SegmentKind


def find_paragraphs(text: str) -> list[SpokenParagraph]:
    """The paragraphs of a plain text in order; between them is only white space.

    A heading is a line of its own that begins with `#`, is underlined with `===` or `---`, names a
    chapter (`Chapter IV`, `Capítulo 3`), or is short and in capitals. Speeches and items of a list
    begin with a dash, a quotation mark, a bullet, or a speaker's name and a colon; each is a
    paragraph, so that the voice rests between them. In a paragraph of wrapped lines a quotation
    mark at the start of a line is mere chance, so there only a line after a short one counts.
    """
    found: list[SpokenParagraph] = []
    for start, end in split_paragraphs(text):
        found += _split_lines(text, start, end)
    return found


def _split_lines(text: str, start: int, end: int) -> list[SpokenParagraph]:
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
        found.append(
            SpokenParagraph(low, high, _paragraph_kind(text, group, alone=len(group) == 1))
        )
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
    found = parse_label(line) if len(line) <= 2 * _LONGEST_TITLE else None
    return found is not None and found.sort in _NUMBERED and len(found.title) <= _LONGEST_TITLE


def _line_text(text: str, line: tuple[int, int]) -> str:
    return text[line[0] : line[1]].strip()


def _is_in_capitals(line: str) -> bool:
    """Short and in capitals, as titles are; `OK.` or `NO!` is a cry."""
    letters = sum(map(str.isalpha, line))
    return letters > 3 and len(line) <= _MOST_CAPITALS and line.isupper() and line[-1] not in "!?,;"


def find_source_paragraphs(source: SourceText) -> list[SpokenParagraph]:
    """The paragraphs of a text, those that its markup asks for among them."""
    edges = {position for position, kind in source.edges if kind == "paragraph"}
    paragraphs: list[SpokenParagraph] = []
    for start, end in pairwise(sorted({0, len(source.text)} | edges)):
        paragraphs += [
            SpokenParagraph(start + each.start, start + each.end, each.kind)
            for each in find_paragraphs(source.text[start:end])
        ]
    return paragraphs
