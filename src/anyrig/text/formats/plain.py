"""Plain text: paragraphs and chapters found from how the lines lie; every character is kept.

Underscores around words (`_so_`) stay: a reader aloud takes them for emphasis by itself. Only a
hyphen at a line's end may go, where the text has the whole word elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from anyrig.errors import EmptyFileError, InvalidInputError, LimitExceededError
from anyrig.text.decode import decode
from anyrig.text.document import Block, Chapter, Document, Inline
from anyrig.text.formats import gutenberg
from anyrig.text.formats.divisions import DivisionEntry, cut_divisions
from anyrig.text.formats.limits import Limits, OnPage
from anyrig.text.formats.paragraphs import (
    LineGroup,
    PlainShape,
    find_shape,
    group_lines,
    join_text_lines,
    split_cells,
    split_group,
)
from anyrig.text.formats.paragraphs import build_vocabulary as words_of
from anyrig.text.formats.titles import HeadingLabel, parse_label
from anyrig.text.garbage import find_fault

_MOST_GAPS = 120_000  # paragraphs parted by blank lines; the whole Bible has 30,000
_MOST_LINES = 300_000  # a long novel has 50,000
_MOST_BLANK = 1_500_000  # lines with all blank ones
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_COUNT = re.compile(r"(?<=[^\s\d])(?:[ ]{3,}|[ ]*\t\s*)([1-9]\d{0,4})$")
_CONTROLS = "".join(map(chr, (*range(9), *range(14, 28), 127)))


def read(path: Path, limits: Limits) -> Document:
    """A text file as a document."""
    return build_document(decode(read_content(path, limits), path.name), path.name)


def read_pages(path: Path, limits: Limits, _on_page: OnPage | None) -> Document:
    """A text letter for letter, so that an offset in it is one in the file."""
    text = decode(read_content(path, limits), path.name).removeprefix("\ufeff")
    refuse_binary(text, path.name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise build_empty_error(path.name)
    fault = find_fault(text)
    warnings = (f"the text of {path.name} may be of no use: {fault}",) if fault else ()
    return replace(Document.from_text(text), warnings=warnings)


def read_content(path: Path, limits: Limits) -> bytes:
    """The bytes of a file that is text as a whole; too many, or none, are an error."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= limits.text_bytes else b""
    except OSError as error:
        raise InvalidInputError(
            f"{path.name} cannot be read: {error.strerror}",
            hint="Check the path and its permissions.",
        ) from error
    if size > limits.text_bytes:
        raise LimitExceededError(
            f"{path.name} is larger than {limits.text_bytes // 1_000_000} MB of text",
            hint="No book is that long; split the file.",
            limit="text_bytes",
        )
    if not data.strip():
        raise build_empty_error(path.name)
    return data


def build_empty_error(name: str) -> EmptyFileError:
    """What a file without a word is."""
    return EmptyFileError(f"{name} has no text in it", hint="Pass a file with text.")


def build_document(text: str, name: str, form: str = "txt") -> Document:
    """A document from a text, whatever held it.

    Args:
        text: all of it.
        name: of the file, for errors.
        form: what `Document.format` says.
    """
    refuse_binary(text, name)
    text = text.lstrip("\ufeff")
    if sum(map(text.count, _LINE_ENDS)) > _MOST_BLANK:
        raise InvalidInputError(
            f"{name} has more than {_MOST_BLANK:,} lines", hint="Split the file."
        )
    lines = text.splitlines()
    if text.count("\n\n") > _MOST_GAPS and sum(1 for _ in group_lines(lines)) > _MOST_GAPS:
        raise InvalidInputError(
            f"{name} has more than {_MOST_GAPS:,} paragraphs", hint="Split the file."
        )
    if len(lines) > _MOST_LINES and sum(map(bool, map(str.strip, lines))) > _MOST_LINES:
        raise InvalidInputError(
            f"{name} has more than {_MOST_LINES:,} lines", hint="Split the file."
        )
    core = gutenberg.find_frame(lines)
    words = words_of(text)
    made = [
        *_around(lines[: core.start], words, "front"),
        *_body(lines[core.start : core.end], words),
        *_around(lines[core.end :], words, "back"),
    ]
    if not made:
        raise build_empty_error(name)
    return Document(gutenberg.read_metadata(lines, core.start), tuple(made), format=form)


def refuse_binary(text: str, name: str) -> None:
    """What decodes and is no text all the same: more control characters than anyone types."""
    sample = text[:200_000]
    if sum(map(sample.count, _CONTROLS)) > len(sample) / 50:
        raise InvalidInputError(f"{name} is not text", hint="Pass a text file, or a book.")


def _around(lines: Sequence[str], words: frozenset[str], role: str) -> Iterator[Chapter]:
    """What stands before or after the text as one chapter."""
    blocks = tuple(entry.block for entry in _entries(lines, words))
    if not blocks:
        return
    if role == "front":
        yield Chapter("Project Gutenberg", blocks, role="front")
    else:
        yield Chapter("Project Gutenberg licence", blocks, role="back")


def _body(lines: Sequence[str], words: frozenset[str]) -> list[Chapter]:
    entries = list(_entries(lines, words))
    if not entries:
        return []
    named = gutenberg.mark_brackets([entry.block for entry in entries])
    return cut_divisions(
        [replace(entry, block=block) for entry, block in zip(entries, named, strict=True)]
    )


def _entries(lines: Sequence[str], words: frozenset[str]) -> Iterator[DivisionEntry]:
    runs = list(group_lines(lines))
    form = find_shape(runs)
    for run in runs:
        heads = [parse_label(line) for line in run.lines]
        listed = sum(head is not None for head in heads)
        if listed >= 2 and listed >= 0.6 * len(heads):
            yield from _listing(run, heads)
        else:
            yield from _cut_headings(run, heads, form, words)


def _listing(run: LineGroup, heads: Sequence[HeadingLabel | None]) -> Iterator[DivisionEntry]:
    """Lines that each look like a heading: a list of them, as in a table of contents."""
    for at, (line, head) in enumerate(zip(run.lines, heads, strict=True)):
        text = " ".join(line.split())
        yield DivisionEntry(Block(text, "item"), 1, 0 if at else run.gap, head, listing=True)


def _cut_headings(
    run: LineGroup, heads: Sequence[HeadingLabel | None], form: PlainShape, words: frozenset[str]
) -> Iterator[DivisionEntry]:
    """A run of lines, its headings cut off where they stand right above text."""
    start = 0
    for at, head in enumerate(heads):
        if at < start or head is None or not _stands_out(run, at, head, form):
            continue
        if at > start:
            yield from _parts(run, start, at, form, words)
        start = at + 1 + _more_title(run.lines[at + 1 :], head, form)
        text = join_text_lines(run.lines[at:start], words)
        yield DivisionEntry(
            Block(text), start - at, 0 if at else run.gap, parse_label(text) or head
        )
    yield from _parts(run, start, len(run.lines), form, words)


def _stands_out(run: LineGroup, at: int, head: HeadingLabel, form: PlainShape) -> bool:
    """Whether a line in a run is a heading: first in it or, without blank lines, a clear one."""
    if len(run.lines) == 1:
        return True
    if head.sort in {"numeral", "titled", "named"}:
        return not form.wrapped and not form.spaced or head.sort == "named" and at == 0
    return at == 0 or not form.spaced or not form.wrapped


def _more_title(lines: Sequence[str], head: HeadingLabel, form: PlainShape) -> int:
    """How many of the lines under a heading are its title still."""
    if not 1 <= len(lines) <= 3 or not form.wrapped and not all(map(str.isupper, lines)):
        return 0
    if all(line.isupper() for line in lines):
        return len(lines)
    if head.title or len(lines) > 2:
        return 0
    short = all(len(line.strip()) < 0.8 * max(form.width, 60) for line in lines)
    return len(lines) if short and lines[-1].rstrip()[-1] not in '.,;:!?"”' else 0


def _parts(
    run: LineGroup, start: int, end: int, form: PlainShape, words: frozenset[str]
) -> Iterator[DivisionEntry]:
    if start >= end:
        return
    for piece in split_group(LineGroup(run.lines[start:end], gap=0 if start else run.gap), form):
        yield DivisionEntry(_block(piece, words), len(piece.lines), piece.gap)


def _block(piece: LineGroup, words: frozenset[str]) -> Block:
    if piece.kind == "table":
        return Block("\n".join(map(split_cells, piece.lines)), "table")
    alone = len(piece.lines) == 1 and piece.lines[0][:1].isspace()
    if piece.kind == "poem" or alone:
        text = "\n".join(" ".join(line.split()) for line in piece.lines)
        return Block(text, piece.kind, inlines=tuple(_counts(piece.lines)))
    return Block(join_text_lines(piece.lines, words), piece.kind)


def _counts(lines: Sequence[str]) -> Iterator[Inline]:
    """The numbers of lines that editions of poems print in the margin: `... of Heaven.    600`."""
    end = -1
    for line in lines:
        end += len(" ".join(line.split())) + 1
        found = _COUNT.search(line)
        if found and int(found[1]) % 5 == 0:
            yield Inline(end - len(found[1]), end, "page", found[1])
