"""What stands above a Markdown text: `title: ...` between lines of `---`, as YAML or TOML would.

Only what such heads of books are made of is understood: names and values, quoted or not, lists
in brackets or on lines with a dash, texts on indented lines. Anything else in it is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anyrig.text.document import Metadata

_PAIR = re.compile(r"([A-Za-z][\w .-]{0,40}?)\s*[:=](?:\s+(.*)|$)")
_MOST_LINES = 500


def parted(text: str) -> tuple[dict[str, list[str]], str]:
    """The names and values above a text, and the text itself."""
    lines = text.splitlines(keepends=True)
    fence = lines[0].strip() if lines else ""
    if fence in ("---", "+++"):
        closing = {"---": ("---", "..."), "+++": ("+++",)}[fence]
        for at, line in enumerate(lines[1:_MOST_LINES], 1):
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
        said = line[1:].strip()
        values[names[at]] = [each.strip() for each in said.split(";")] if said else []
    return values, "".join(lines[3:])
