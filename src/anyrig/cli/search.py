"""`anyrig search`: what folders say on a question, with file, page and passage."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.search import SearchRequest, answer_to_json, search
from anyrig.app.uploads import get_display_name
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, paint, print_json
from anyrig.cli.rig import open_rig
from anyrig.units import pluralize, shorten

if TYPE_CHECKING:
    from anyrig.documents.index.search import Hit, SearchResult

HELP = """Search what `anyrig index` has read: by meaning and by words in all their forms at once,
or by one of them with --mode; also in names and titles of files. A question may have "exact
phrases", prefix*, -excluded words, path:PART and type:pdf; put it in single quotes then. Each hit
has its file, page and passage, with the best sentence and the words of the question highlighted;
files with the same text are shown once. Filters: --folder, --type, --language, --after and
--before, which go by the day a file was last changed: 2026-03-01, 2026-03, 2026, or 30d for thirty
days ago. A passage is shown only if its similarity is at least the model's minimum and 0.6 of the
best, or if it has nearly as many of the words as the passage that has most; --min sets another
minimum, --all shows the rest too. --json has offsets in page and file, and links."""
_MAX_LINES = 6
_CONTEXT = 80
_MAX_ROW = 60
"""Characters of a row that stays a line: running text is broken at 65 and more."""
_ON, _OFF, _SENTENCE = "\ue000", "\ue001", "\ue002"  # private characters, until lines are wrapped


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="WORDS", help="what to search for")
    parser.add_argument("--full", action="store_true", help="print whole passages")
    add_flags(parser, SearchRequest)


def run(arguments: argparse.Namespace) -> int:
    """Search, and show what was found; 0 also if nothing was."""
    question = " ".join(arguments.words)
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        flags = read_flags(arguments, SearchRequest)
        answer = search(rig, rig.request(SearchRequest, question=question, **flags), events)
    if arguments.json:
        found = answer_to_json(answer)
        for one, hit in zip(found["hits"], answer.hits, strict=True):
            one["link"] = hit.place.link
        print_json({"question": question, **found})
        return 0
    if not answer.hits:
        _print_nearest(answer, full=arguments.full)
    for number, hit in enumerate(answer.hits, 1):
        print(f"{number}. {format_place(hit)}{_format_remarks(hit)}")
        _print_passage(hit, full=arguments.full)
    return 0


def _print_nearest(answer: SearchResult, *, full: bool) -> None:
    hit = answer.nearest
    if hit is None:
        print("Nothing was found.")
        return
    similarity = "" if hit.similarity is None else f", similarity {hit.similarity:.2f}"
    print(f"Nothing close was found; --all shows all passages. The nearest{similarity}:")
    print(format_place(hit))
    _print_passage(hit, full=full)


def format_place(hit: Hit) -> str:
    place = hit.place
    file = place.file
    with suppress(ValueError, OSError):
        file = file.relative_to(Path.cwd())
    name = get_display_name(place.file)
    shown = str(file) if name == place.file.name else f"{name} (uploaded)"
    parts = [paint(shown, "bold")]
    if place.page:
        parts.append(f"page {place.page}")
    if place.title:
        parts.append(shorten(place.title, 60))
    return ", ".join(parts)


def _format_remarks(hit: Hit) -> str:
    remarks = [] if hit.similarity is None else [f"similarity {hit.similarity:.2f}"]
    others = len({one.file for one in hit.places} - {hit.place.file})
    remarks += [f"also in {pluralize(others, 'file')}"] if others else []
    remarks += [f"{pluralize(hit.num_more, 'more passage')}"] if hit.num_more else []
    return paint(f"  ({', '.join(remarks)})", "dim") if remarks else ""


def _print_passage(hit: Hit, *, full: bool) -> None:
    """The passage in lines, or what stands around its first match."""
    start = 0 if full else _find_start(hit)
    text = ("... " if start else "") + _mark_matches(hit, start)
    width = max(40, min(110, shutil.get_terminal_size().columns) - 4)
    lines = list(_wrap_passage(text, width))
    if not full and len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], "..."]
    on, _, off = paint("\0", "bright").partition("\0")
    for line in lines:
        mark = "> " if _SENTENCE in line else "  "
        print(f" {mark}{line.replace(_SENTENCE, '').replace(_ON, on).replace(_OFF, off)}")


def _find_start(hit: Hit) -> int:
    """A little before the best sentence, or the first match."""
    first = hit.sentence[0] if hit.sentence else hit.matches[0][0] if hit.matches else 0
    if first <= 2 * _CONTEXT:
        return 0
    space = hit.text.find(" ", first - _CONTEXT)
    return space + 1 if 0 <= space < first else first - _CONTEXT


def _mark_matches(hit: Hit, start: int) -> str:
    """The text with its matches marked, and each word of the best sentence."""
    marks = [(first, _ON) for first, _ in hit.matches] + [(last, _OFF) for _, last in hit.matches]
    if hit.sentence:
        first, last = hit.sentence
        marks += [(first + word.start(), _SENTENCE)
                  for word in re.finditer(r"\S+", hit.text[first:last])]  # fmt: skip
    parts, at = [], start
    for position, mark in sorted(marks, key=lambda one: (one[0], one[1] != _OFF)):
        if position >= start:
            parts += [hit.text[at:position], mark]
            at = position
    return "".join([*parts, hit.text[at:]])


def _wrap_passage(text: str, width: int) -> Iterator[str]:
    """A passage in lines: paragraphs, and the rows of tables, lists and heads of letters, stay
    apart; lines of running text are joined.
    """
    for paragraph in re.split(r"\n\s*\n", text):
        rows = paragraph.splitlines()
        if "\t" not in paragraph and max(map(len, rows), default=0) > _MAX_ROW:
            rows = [" ".join(rows)]
        for row in rows:
            cells = (" ".join(cell.split()) for cell in row.split("\t"))
            yield from textwrap.wrap("  ".join(cells), width, break_on_hyphens=False)
