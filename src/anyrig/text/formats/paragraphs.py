"""The lines of a plain text as paragraphs, verse, tables and rules: no character is lost.

Nothing in a text file says where a paragraph ends. The test for hard-wrapped prose is the one that
the wrapping program used: a line was ended because the next word did not fit. Where most lines
end so, lines are joined and blank lines, indents or short lines part paragraphs; where they do
not, a line is a paragraph, or verse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from anyrig.text.document import BlockKind

_WIDEST_WRAP = 132  # columns; a longer line was never wrapped by hand or by a terminal
_RAGGED = 48  # characters; a line of blank verse has about 43
_LAST = re.compile(r"""[.!?:;…。！？]['"”’»)\]*_]*$""")
_RULE = re.compile(r"^(?=.*\S.*)(?:[*\-_~#=+•·∙◆◇○●—–⁂❦❧✻✽※☙\s]+|[.…]{4,}|(?:[.…o]\s+){2,}[.…o])$")
_LETTERS_END = re.compile(r"([^\W\d_]+)-$")
_LETTERS_START = re.compile(r"[^\W\d_]+")
_WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_CELLS = re.compile(r"\s*\t\s*|\s{3,}")


class PlainShape(NamedTuple):
    """How the whole text is set."""

    width: int
    wrapped: bool
    """Lines end where the next word did not fit."""
    spaced: bool
    """Blank lines part paragraphs."""


class LineGroup(NamedTuple):
    """Some lines that belong together."""

    lines: tuple[str, ...]
    kind: BlockKind = "paragraph"
    gap: int = 0
    """Blank lines before it."""


def group_lines(lines: Sequence[str]) -> Iterator[LineGroup]:
    """The runs of lines between blank ones."""
    run: list[str] = []
    gap = blank = 0
    for line in lines:
        if line.strip():
            if not run:
                gap = blank
            run.append(line.rstrip())
            blank = 0
            continue
        if run:
            yield LineGroup(tuple(run), gap=gap)
            run = []
        blank += 1
    if run:
        yield LineGroup(tuple(run), gap=gap)


def find_shape(runs: Sequence[LineGroup]) -> PlainShape:
    """How a text is set, from all its runs of lines."""
    pairs = [pair for run in runs for pair in pairwise(_widths(run.lines))]
    if not pairs:
        return PlainShape(width=0, wrapped=False, spaced=True)
    lengths = sorted(first.length for first, _ in pairs)
    width = lengths[int(0.98 * (len(lengths) - 1))]
    full = sum(first.length + 1 + second.word > width - 10 for first, second in pairs)
    # Blank verse fills its lines as prose does, but begins each with a capital.
    following = [line for run in runs for line in run.lines[1:]]
    verse = len(following) >= 5 and _capitals(following) >= 0.85
    num_lines = sum(len(run.lines) for run in runs)
    return PlainShape(
        width=width,
        wrapped=30 <= width <= _WIDEST_WRAP and full >= len(pairs) / 2 and not verse,
        spaced=num_lines <= 25 * len(runs),
    )


def split_group(run: LineGroup, form: PlainShape) -> Iterator[LineGroup]:
    """The paragraphs, stanzas, tables and rules in one run of lines."""
    lines = run.lines
    gap = run.gap
    start = 0
    for at, line in enumerate(lines):
        if is_rule(line):
            yield from _sort_lines(lines[start:at], gap if not start else 0, form)
            yield LineGroup((line,), "rule", gap if not at else 0)
            start = at + 1
    yield from _sort_lines(lines[start:], 0 if start else gap, form)


def is_rule(line: str) -> bool:
    """Whether a line is a row of signs, as between two scenes."""
    bare = line.strip()
    if not _RULE.match(bare):
        return False
    return len(bare.replace(" ", "")) >= 3 or bare in {
        "*",
        "#",
        "⁂",
        "❦",
        "❧",
        "※",
        "✻",
        "✽",
        "* *",
    }


def join_text_lines(lines: Sequence[str], words: frozenset[str] = frozenset()) -> str:
    """Hard-wrapped lines as one paragraph.

    Args:
        lines: as the file has them.
        words: all words of the text; a word parted by a hyphen at a line's end is made whole only
            if the text has it whole elsewhere, and never with the hyphen.
    """
    parts: list[str] = []
    for line in lines:
        bare = " ".join(line.split())
        if parts:
            parts[-1] += _glue(parts[-1], bare)
            cut = _LETTERS_END.search(parts[-1][-40:])
            follow = _LETTERS_START.match(bare[:40])
            if cut and follow and _is_parted(cut[1], follow[0], words):
                parts[-1] = parts[-1][:-1]
        parts.append(bare)
    return "".join(parts)


def build_vocabulary(text: str) -> frozenset[str]:
    """The words of a text, needed only where lines end with a hyphen."""
    if not re.search(r"[^\W\d_]-[ \t]*\n", text):
        return frozenset()
    return frozenset(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text.lower()))


def split_cells(line: str) -> str:
    """A table's row with one tab between cells."""
    return "\t".join(" ".join(cell.split()) for cell in _CELLS.split(line.strip()))


class _Width(NamedTuple):
    length: int
    word: int


def _widths(lines: Sequence[str]) -> list[_Width]:
    """Of each line its length with indent, and that of its first word."""
    return [_Width(len(line.expandtabs(4)), len(line.split(None, 1)[0])) for line in lines]


def _indent(line: str) -> int:
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


def _is_parted(first: str, second: str, words: frozenset[str]) -> bool:
    whole, hyphened = f"{first}{second}".lower(), f"{first}-{second}".lower()
    return second[0].islower() and whole in words and hyphened not in words


def _glue(before: str, after: str) -> str:
    if before.endswith("—") or before[-1:] == "\u00ad":
        return ""
    if before.endswith("-") and len(before) > 1 and not before[-2].isspace():
        return ""
    return "" if _WIDE.match(before[-1:]) and _WIDE.match(after) else " "


def _sort_lines(lines: tuple[str, ...], gap: int, form: PlainShape) -> Iterator[LineGroup]:
    """Lines without a rule among them, by what they are."""
    if not lines:
        return
    if _is_table(lines):
        yield LineGroup(lines, "table", gap)
    elif len(lines) == 1:
        yield LineGroup(lines, "paragraph", gap)
    elif _is_ragged(lines):
        yield from _build_groups(_paragraphs(lines, form), gap)
    elif form.wrapped:
        if _is_verse(lines, form.width):
            yield LineGroup(lines, "poem", gap)
        else:
            yield from _build_groups(_paragraphs(lines, form), gap)
    elif _is_loose_verse(lines):
        whole = (" ".join((group[0], *map(str.strip, group[1:]))) for group in _join_cut(lines))
        yield LineGroup(tuple(whole), "poem", gap)
    else:
        yield from _build_groups(_join_cut(lines, prose=True), gap)


def _join_cut(lines: tuple[str, ...], *, prose: bool = False) -> list[tuple[str, ...]]:
    """Short lines, those together that the line's end cuts within one thing: `12 / Oct. 1999`.

    In prose a line that ends no sentence goes on with a small letter too.
    """
    groups: list[list[str]] = [[lines[0]]]
    for line, after in pairwise(lines):
        end, start = line.rstrip()[-20:], after.lstrip()[:20]
        counted = _ENDS_WITH_NUMBER.search(end) and _MONTH_OR_UNIT.match(start)
        titled = _ENDS_WITH_TITLE.search(end) and start[:1].isupper()
        small = prose and start[:1].islower() and not _LAST.search(end)
        if counted or titled or small:
            groups[-1].append(after)
        else:
            groups.append([after])
    return [tuple(group) for group in groups]


_ENDS_WITH_NUMBER = re.compile(r"(?<![\w.,:/])\d{1,4}$")
_MONTH_OR_UNIT = re.compile(
    r"(?:de )?(?:(?:jan|feb|fév|mar|apr|avr|abr|may|mai|jun|juin|jul|juil|aug|ago|aoû|sep|oct|nov|"
    r"dec|dic|déc|ene)[a-zéû]*\.?(?!\w)|[ap]\. ?m\.|o['’]clock|percent|(?:km|kg|cm|mm|ft|lbs?|mi|"
    r"min|miles?|years?|ans|años|euros?|dollars?)(?!\w)|[%€°])",
    re.IGNORECASE,
)
_ENDS_WITH_TITLE = re.compile(
    r"(?<![\w.])(?:Mrs?|Ms|Dra?|Prof|Gen|Col|Capt|Lt|Sgt|St|Sra?|Srta|Mme|Mlle|Gral|MM)\.$"
)


def _build_groups(parts: Sequence[tuple[str, ...]], gap: int) -> Iterator[LineGroup]:
    for at, part in enumerate(parts):
        quoted = len(part) > 1 and min(map(_indent, part)) >= 4
        yield LineGroup(part, "quote" if quoted else "paragraph", 0 if at else gap)


def _is_table(lines: Sequence[str]) -> bool:
    if len(lines) < 2:
        return False
    counts = [len(_CELLS.split(line.strip())) for line in lines]
    usual = max(set(counts), key=counts.count)
    return usual >= 2 and counts.count(usual) >= 0.8 * len(counts)


def _is_ragged(lines: Sequence[str]) -> bool:
    """Whether lines are prose that somebody broke unevenly: long, and most go on in small letters.

    Verse that begins its lines in small letters is there too, but its lines are short.
    """
    if len(lines) < 3 or max(map(len, lines)) > _WIDEST_WRAP:
        return False
    lengths = sorted(len(line.strip()) for line in lines[:-1])
    return lengths[len(lengths) // 2] >= _RAGGED and _capitals(lines[1:]) < 0.4


def _is_verse(lines: Sequence[str], width: int) -> bool:
    """Whether the lines of a hard-wrapped text end before they must, and not as a narrow quote."""
    if len(lines) == 2 and min(map(_indent, lines)) < 2:
        return False
    pairs = list(pairwise(_widths(lines)))
    early = sum(first.length + 1 + second.word < width - 4 for first, second in pairs)
    if early < 0.7 * len(pairs):
        return False
    own = max(len(line.expandtabs(4)) for line in lines)
    filled = sum(first.length + 1 + second.word > own for first, second in pairs)
    return _capitals(lines) >= 0.8 or filled < 0.6 * len(pairs)


def _is_loose_verse(lines: Sequence[str]) -> bool:
    """Whether lines of an unwrapped text are verse: short, and not a sentence each."""
    if len(lines) < 3 or max(map(len, lines)) > 75:
        return False
    return sum(bool(_LAST.search(line[-20:])) for line in lines) < 0.7 * len(lines)


def _capitals(lines: Sequence[str]) -> float:
    firsts = [re.sub(r"^[\W\d_]+", "", line)[:1] for line in lines]
    return sum(first.isupper() for first in firsts) / len(firsts)


def _paragraphs(lines: tuple[str, ...], form: PlainShape) -> list[tuple[str, ...]]:
    """Wrapped lines cut where a first line is indented or, with no blank lines, a last is short."""
    indents = [_indent(line) for line in lines]
    base = min(indents)
    marked = [indent >= base + 2 for indent in indents]
    by_indent = any(marked) and sum(marked) <= len(lines) / 2 + 1 and not all(marked[1:])
    starts = [0]
    for at in range(1, len(lines)):
        fresh = by_indent and marked[at] and not (marked[at - 1] and at > 1)
        if fresh or (not form.spaced and not by_indent and _ends(lines[at - 1], lines[at], form)):
            starts.append(at)
    return [lines[start:end] for start, end in pairwise([*starts, len(lines)])]


def _ends(line: str, after: str, form: PlainShape) -> bool:
    """Whether a paragraph ends with this line: the next word would have fitted."""
    first, second = _widths((line, after))
    return first.length + 1 + second.word < 0.85 * form.width and bool(_LAST.search(line[-20:]))
