"""Markdown (CommonMark with tables, footnotes and front matter) as the page it would become.

markdown-it makes HTML of it, and that is read as any page is: so HTML inside the text, links and
pictures come out as in a book. A link to a note that is not there stays as it is written.

Of what stands above a text, `title: ...` between lines of `---`, only what such heads of books are
made of is understood: names and values, lists in brackets or on lines with a dash, texts on
indented lines.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.decode import decode
from anyrig.text.document import Document, Metadata
from anyrig.text.formats import html
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.plain import build_empty_error, read_content
from anyrig.text.formats.xml import parse_page_text

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline


_DEFINITION = re.compile(r"\[\^([^\]\s]{1,60})\]:[ \t]*")
_REFERENCE = re.compile(r"\[\^([^\]\s]{1,60})\]")
_DEFINED = re.compile(r"^ {0,3}\[\^([^\]\s]{1,60})\]:", re.M)
_MOST_MARKS, _MOST_LINES = 50_000, 120_000  # each costs markdown-it a tenth of a millisecond
_MOST_SIGNS = 200_000  # of emphasis, code, tags and entities together
_DEEPEST = 60  # quotes in lists in quotes; markdown-it's own way goes by recursion


def read(path: Path, limits: Limits) -> Document:
    """A Markdown file as a document."""
    text = decode(read_content(path, limits), path.name).lstrip("\ufeff")
    values, body = split_front_matter(text)
    if not body.strip():
        raise build_empty_error(path.name)
    root = parse_page_text(
        f"<html><body>{render_html(body, path.name)}</body></html>", name=path.name
    )
    return html.build_document(root, path.name, "md", read_metadata(values))


def render_html(text: str, name: str) -> str:
    """Markdown as HTML, its footnotes as EPUB marks them."""
    from markdown_it import MarkdownIt

    marks = max(text.count("["), text.count("|"))
    signs = sum(map(text.count, "*_~`<&\\"))
    if marks > _MOST_MARKS or signs > _MOST_SIGNS or text.count("\n") > _MOST_LINES:
        raise InvalidInputError(
            f"{name} has more lines, links, cells or signs than any text", hint="Split the file."
        )
    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST, "html": True})
    parser.enable(["table", "strikethrough"])
    noted = frozenset(_DEFINED.findall(text))
    if noted:
        parser.block.ruler.before("reference", "footnote", _note, {"alt": ["paragraph"]})
        parser.inline.ruler.before("link", "footnote_reference", _reference)
    try:
        return str(parser.render(text, {"notes": noted}))
    except (RecursionError, ValueError, IndexError) as error:
        raise InvalidInputError(
            f"{name} cannot be read as Markdown ({error})", hint="Pass it as plain text (.txt)."
        ) from error


def _reference(state: StateInline, silent: bool) -> bool:
    found = _REFERENCE.match(state.src, state.pos)
    if not found or found[1] not in state.env["notes"]:
        return False
    if not silent:
        token = state.push("html_inline", "", 0)
        mark = entities.escape(found[1])
        token.content = f'<a role="doc-noteref" href="#fn-{mark}">{mark}</a>'
    state.pos = found.end()
    return True


def _note(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A footnote: its first line, and those under it that are indented."""
    begins = state.bMarks[start] + state.tShift[start]
    found = _DEFINITION.match(state.src, begins, state.eMarks[start])
    if not found or state.is_code_block(start):
        return False
    if silent:
        return True
    last = start + 1
    while last < end and (state.isEmpty(last) or state.sCount[last] >= 4):
        last += 1
    lines = [state.src[found.end() : state.eMarks[start]]]
    lines += [state.getLines(at, at + 1, 4, False) for at in range(start + 1, last)]
    opening = state.push("html_block", "", 0)
    opening.content = f'<aside role="doc-footnote" id="fn-{entities.escape(found[1])}">\n'
    state.md.block.parse("\n".join(lines), state.md, state.env, state.tokens)
    closing = state.push("html_block", "", 0)
    closing.content = "</aside>\n"
    state.line = last
    return True


_PAIR = re.compile(r"([A-Za-z][\w .-]{0,40}?)\s*[:=](?:\s+(.*)|$)")
_MOST_HEAD_LINES = 500


def split_front_matter(text: str) -> tuple[dict[str, list[str]], str]:
    """The names and values above a text, and the text itself."""
    lines = text.splitlines(keepends=True)
    fence = lines[0].strip() if lines else ""
    if fence in ("---", "+++"):
        closing = {"---": ("---", "..."), "+++": ("+++",)}[fence]
        for at, line in enumerate(lines[1:_MOST_HEAD_LINES], 1):
            if line.rstrip() in closing:
                values = _values([each.rstrip() for each in lines[1:at]])
                return (values, "".join(lines[at + 1 :])) if values else ({}, text)
    return _title_block(lines) if fence.startswith("% ") else ({}, text)


def read_metadata(values: dict[str, list[str]]) -> Metadata:
    """What the names and values say of a book."""

    def first(*names: str) -> str:
        return next((values[name][0] for name in names if values.get(name)), "")

    def every(*names: str) -> tuple[str, ...]:
        return next((tuple(values[name]) for name in names if values.get(name)), ())

    year = re.search(r"\d{4}", first("year", "date", "published", "pubdate"))
    return Metadata(
        title=first("title"),
        authors=every("authors", "author", "creator", "by"),
        language=first("language", "lang", "locale"),
        series=first("series", "belongs-to-collection", "collection"),
        series_index=first("series_index", "series-index", "group-position", "volume"),
        year=year[0] if year else "",
        description=first("description", "abstract", "summary", "subtitle"),
        publisher=first("publisher"),
        identifier=first("identifier", "isbn", "doi"),
        rights=first("rights", "license", "licence", "copyright"),
        subjects=every("tags", "keywords", "subjects", "subject", "categories"),
    )


def _values(lines: Sequence[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        found = _PAIR.match(line)
        bare = line.strip()
        if found:
            name = found[1].strip().lower()
            values[name] = _parts((found[2] or "").strip())
        elif name and bare.startswith("- "):
            item = re.sub(r"^(?:name|text|given)\s*:\s*", "", bare[2:].strip())
            values[name].append(_bare(item))
        elif name and bare and line[:1].isspace() and not _PAIR.match(bare):
            values[name] = [" ".join([*values[name], bare])]
    return {name: [each for each in found if each] for name, found in values.items()}


def _parts(value: str) -> list[str]:
    if value in ("|", ">", "|-", ">-", ""):
        return []
    if value.startswith("[") and value.endswith("]"):
        return [_bare(each) for each in value[1:-1].split(",")]
    return [_bare(value)]


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _title_block(lines: Sequence[str]) -> tuple[dict[str, list[str]], str]:
    """Pandoc's own form: up to three lines that begin with a percent sign."""
    names = ("title", "author", "date")
    values: dict[str, list[str]] = {}
    for at, line in enumerate(lines[:3]):
        if not line.startswith("%"):
            return values, "".join(lines[at:])
        rest = line[1:].strip()
        values[names[at]] = [each.strip() for each in rest.split(";")] if rest else []
    return values, "".join(lines[3:])
