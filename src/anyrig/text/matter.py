"""What each chapter is: the book itself, or the pages that stand around it.

What the reader found marked in the file stands. Else a chapter is told by its title, then by what
it holds, and only at the ends of the book: a chapter called `Index` in the middle is a chapter.

Only what the publisher put there counts as front matter: imprint, praise, lists of pictures. A
dedication, an epigraph, a preface or an introduction are the author's words and stay in the body,
as do prologue, epilogue, afterword and appendix: to leave out what was meant to be heard is the
worse mistake. Acknowledgements are front or back matter, by where they stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from anyrig.text.document import Block, Chapter, Document, Metadata, Role

# Titles, in small letters and without marks; each must be the whole title.
_TITLES: dict[Role, str] = {
    "cover": r"(?:front )?cover(?: page| image)?|couverture|cubierta|portada|umschlag|titelbild|"
    r"(?:premi[eè]re|quatri[eè]me) de couverture|copertina",
    "title": r"(?:half )?title ?page|half ?title|page de titre|faux titre|p[aá]gina del t[ií]tulo|"
    r"portadilla|titelseite|titelblatt|schmutztitel|frontispiece|frontispicio|frontispice",
    "contents": r"(?:table of )?contents|toc|table des mati[eè]res|sommaire|"
    r"[ií]ndice(?: general)?|"
    r"tabla de contenidos?|contenidos?|inhalt(?:sverzeichnis|s[uü]bersicht)?|indice|brief contents|"
    r"contents at a glance|short contents|list of chapters|sommario|inhoud(?:sopgave)?|sum[aá]rio|"
    r"содержание|оглавление|spis tre[sś]ci|obsah|inneh[aå]ll|indhold|sis[aä]llys|tartalom|"
    r"目次|目录|目錄|المحتويات|فهرس المحتويات",
    "front": r"copyright(?: page| notice| information)?|rights|imprint|imprimatur|"
    r"legal(?: notice)?|"
    r"disclaimer|colophon|mentions l[eé]gales|droits d auteur|cr[eé]ditos|p[aá]gina de cr[eé]ditos|"
    r"derechos(?: de autor)?|aviso legal|impressum|urheberrecht|(?:advance )?praise(?: for .*)?|"
    r"what (?:people|readers|critics) are saying.*|reviews|critical acclaim.*|"
    r"(?:list|table) of (?:illustrations|figures|tables|maps|plates|abbreviations)|illustrations|"
    r"(?:table|liste) des (?:illustrations|figures|tableaux)|(?:lista|[ií]ndice) de "
    r"(?:ilustraciones|figuras|tablas|l[aá]minas)|(?:abbildungs|tabellen)verzeichnis|"
    r"transcriber s notes?|produced by|newsletter.*|series page|about (?:this|the) e?book|"
    r"project gutenberg.*|the project gutenberg.*|note de transcription|nota del transcriptor|"
    r"anmerkungen zur transkription|erratum|errata",
    "notes": r"(?:end|foot)?notes|notes and references|notas(?: (?:al pie|finales))?|"
    r"notes (?:de bas de page|de fin|et r[eé]f[eé]rences)|(?:anmerkungen|fu(?:ss|ß)noten|endnoten)",
    "back": r"(?:(?:appendix|anhang|annexe|ap[eé]ndice) )?(?:(?:[a-z]|\d{1,2}) )?(?:"
    r"about the (?:author|authors|publisher|editor|translator|illustrator)s?|"
    r"about the (?:type|typeface)|author s? ?bio(?:graphy)?|also by .*|"
    r"other (?:books|works|titles) by .*|(?:more )?(?:books|titles|works) by .*|"
    r"by the same author|(?:(?:general|subject|name|concept|function|variable|command|key|keyword|"
    r"program|type|option|topic|author|symbol|and) ){0,6}index(?: of .*)?|"
    r"(?:selected |select )?bibliograph(?:y|ie|ies)|works cited|references|"
    r"further reading|glossary|credits|(?:photo|picture|text|image) credits|permissions|"
    r"(?:the )?full project gutenberg licen[cs]e.*|licen[cs]e|backlist|back cover|advertisements?|"
    r"catalogue|(?:a )?(?:preview|excerpt) (?:of|from) .*|du m[eê]me auteur.*|"
    r"(?:[aà] propos de|sur) l auteur.*|(?:sobre|acerca de) (?:el|la|los) autora?e?s?.*|"
    r"(?:otros libros|otras obras|del mismo autor|de la misma autora).*|bibliograf[ií]a|glosario|"
    r"glossaire|[ií]ndice (?:anal[ií]tico|onom[aá]stico|alfab[eé]tico)|"
    r"index (?:des .*|g[eé]n[eé]ral)|[uü]ber "
    r"(?:den autor|die autorin|die autoren|das buch).*|"
    r"weitere (?:b[uü]cher|titel).*|literatur(?:verzeichnis)?|(?:personen|sach|namens)?register|"
    r"glossar|bildnachweis|quellenverzeichnis)",
}
_THANKS = re.compile(
    r"acknowledge?ments?|remerciements|agradecimientos|danksagung(?:en)?|danke|thanks|thank you"
)
# Author's words around the story: they are read, and the ends of the book reach over them.
_AROUND = re.compile(
    r"(?:author s |editor s |translator s |publisher s )?(?:preface|foreword|introduction|note)"
    r"(?: to .*| by .*)?|prologue|epilogue|afterword|postscript|dedication|epigraphs?|"
    r"append(?:ix|ices)(?: .*)?|chronology|dramatis personae|pr[eé]face|avant propos|"
    r"introducci[oó]n|prefacio|pr[oó]logo|ep[ií]logo|dedicatoria|ep[ií]grafe|nota del autor|"
    r"ap[eé]ndices?|[eé]pilogue|d[eé]dicace|postface|annexes?|vorwort|einleitung|einf[uü]hrung|"
    r"geleitwort|nachwort|prolog|epilog|widmung|anhang"
)
_ENDS = re.compile(
    r"prologue|epilogue|epilog|prolog|pr[oó]logo|ep[ií]logo|[eé]pilogue|afterword|postscript|nachwort"
)
_MOST_END = 30
"""Characters of a line that says "Epilogue" and no more."""
_PATTERNS = {role: re.compile(words) for role, words in _TITLES.items()}
_RIGHTS = re.compile(
    r"all rights reserved|tous droits r[eé]serv[eé]s|todos los derechos|alle rechte vorbehalten|"
    r"(?:copyright|©)\s*(?:\(c\)|©)?\s*(?:by\s)?\D{0,40}(?:1[5-9]|20)\d\d|d[eé]p[oô]t l[eé]gal|"
    r"dep[oó]sito legal|library of congress|british library catalogu|bibliografische information",
    re.IGNORECASE,
)
_ISBN = re.compile(r"\bISBN\b|\bISSN\b|\bASIN\b", re.IGNORECASE)
_GUTENBERG_START = re.compile(r"\**\s*START OF (?:THE|THIS) PROJECT GUTENBERG", re.IGNORECASE)
_GUTENBERG_END = re.compile(
    r"(?:\**\s*END OF (?:THE|THIS) PROJECT GUTENBERG|End of (?:the )?Project Gutenberg)",
    re.IGNORECASE,
)
_LICENCE = re.compile(r"project gutenberg", re.IGNORECASE)
_LEADER = re.compile(r"(?:\s*\.){2,}\s*|\s*[\divxlc]+\s*$|^\s*(?:chapter\s)?[\divxlc]+[.:)]?\s+")
_SHORT = 6000
"""Characters of the longest imprint; a chapter that cites a copyright is longer."""
_TITLE_PAGE = 500
_FEWEST_ROWS = 4
_MOST_ROW = 120
_SHARE = 0.6
_OF_BOOK = 0.25
"""Matter known by its content alone is no more of the book than this."""


class _BookFacts(NamedTuple):
    """What is known of all chapters together, found once: there may be tens of thousands."""

    metadata: Metadata
    num_characters: int
    titles: Counter[str]
    """As rows of a table of contents have them."""


def is_titled(title: str, role: Role) -> bool:
    """Whether a title is one that matter of this kind has: `Contents`, `Index`."""
    return bool(_PATTERNS[role].fullmatch(_bare(title)))


def apply_matter(document: Document) -> Document:
    """The document with a role for each chapter; where a licence is part of one, it is cut off."""
    chapters = _cut(document.chapters)
    if len(chapters) > 1:
        chapters = tuple(part for chapter in chapters for part in _split_ends(chapter))
    if len(chapters) < 2:
        return replace(document, chapters=chapters)
    roles = [chapter.role for chapter in chapters]
    book = _BookFacts(
        document.metadata,
        sum(chapter.num_characters for chapter in chapters),
        Counter(_row(_title(chapter)) for chapter in chapters),
    )
    found = [_find_role(book, chapter, number) for number, chapter in enumerate(chapters)]
    for number in _front(chapters, found):
        roles[number] = _at_front(found[number] or "body")
    for number in _back(chapters, found):
        if roles[number] == "body":
            roles[number] = _at_back(found[number] or "body", chapters[number])
    roles = [
        _resolve_role(chapter.role, role, _bare(_title(chapter)))
        for chapter, role in zip(chapters, roles, strict=True)
    ]
    if "body" not in roles:  # a book of nothing but notes is a book
        longest = max(range(len(chapters)), key=lambda n: chapters[n].num_characters)
        roles[longest] = "body"
    settled = (replace(c, role=role) for c, role in zip(chapters, roles, strict=True))
    return replace(document, chapters=tuple(settled))


def _resolve_role(given: Role, found: Role, title: str) -> Role:
    """What the file says of a chapter comes before what it looks like.

    But `front` only says where a preface stands, not that nobody wants to hear it.
    """
    if given in ("front", "back") and _AROUND.fullmatch(title):
        return given if _PATTERNS["back"].fullmatch(title) else "body"
    return given if given != "body" else found


# The ends of the book


def _front(chapters: Sequence[Chapter], found: Sequence[Role | None]) -> list[int]:
    """The chapters before the story: up to the first that is nothing but a chapter."""
    return _end(chapters, found, range(len(chapters)))


def _back(chapters: Sequence[Chapter], found: Sequence[Role | None]) -> list[int]:
    return _end(chapters, found, range(len(chapters) - 1, -1, -1))


def _end(chapters: Sequence[Chapter], found: Sequence[Role | None], order: range) -> list[int]:
    reached: list[int] = []
    for number in order:
        chapter = chapters[number]
        known = found[number] is not None or chapter.role != "body"
        if not known and not _AROUND.fullmatch(_bare(_title(chapter))) and not _blank(chapter):
            break
        reached.append(number)
    return reached


def _at_front(role: Role) -> Role:
    """What stands before the story is not behind it."""
    return "front" if role == "back" else role


def _at_back(role: Role, chapter: Chapter) -> Role:
    if role == "title":
        return "body"
    return "back" if role == "front" or _THANKS.fullmatch(_bare(_title(chapter))) else role


# One chapter


def _find_role(book: _BookFacts, chapter: Chapter, number: int) -> Role | None:
    """What a chapter's title or content say it is; None: nothing but text."""
    if chapter.role != "body":
        return chapter.role
    title = _bare(_title(chapter))
    if title and _THANKS.fullmatch(title):
        return "front"
    for role, pattern in _PATTERNS.items():
        if title and pattern.fullmatch(title):
            return role
    if title and _AROUND.fullmatch(title):
        return None
    return _by_content(book, chapter, number)


def _by_content(book: _BookFacts, chapter: Chapter, number: int) -> Role | None:
    if number == 0 and chapter.blocks and all(block.kind == "image" for block in chapter.blocks):
        return "cover"
    if chapter.num_characters > max(_TITLE_PAGE, _OF_BOOK * book.num_characters):
        return None
    if _lists(book, chapter):
        return "contents"
    text = "\n".join(block.text for block in chapter.blocks)
    if len(text) <= _SHORT and (_RIGHTS.search(text) and (_ISBN.search(text) or len(text) < 1500)):
        return "front"
    if len(_LICENCE.findall(text)) >= 3 and re.search(r"licen[cs]e|trademark", text, re.I):
        return "front"
    return "title" if _is_title_page(book.metadata, text) else None


def _is_title_page(metadata: Metadata, text: str) -> bool:
    """Little more than the name of the book and of its author."""
    bare = _bare(text)
    named = bool(metadata.title) and _bare(metadata.title) in bare
    by = any(_bare(author) in bare for author in metadata.authors if author)
    return named and by and len(text) < _TITLE_PAGE and not text.rstrip().endswith((".", "!", "?"))


def _lists(book: _BookFacts, chapter: Chapter) -> bool:
    """Whether it is rows of the other chapters' titles."""
    rows = [row for block in chapter.blocks for row in _rows(block)]
    if len(rows) < _FEWEST_ROWS:
        return False
    own = _row(_title(chapter))
    others = (row for row in map(_row, rows) if row and book.titles[row] > (row == own))
    return sum(1 for _ in others) >= _SHARE * len(rows)


def _rows(block: Block) -> list[str]:
    if block.kind in ("heading", "image", "rule", "page"):
        return []
    return [line for line in block.text.splitlines() if line.strip()] or []


def _row(text: str) -> str:
    """A row of a table of contents without its number, its dots and its page."""
    return _bare(_LEADER.sub(" ", text[:_MOST_ROW].casefold().replace("\t", " ")))


def _title(chapter: Chapter) -> str:
    headings = (block.text for block in chapter.blocks if block.kind == "heading")
    return chapter.title or next(headings, "")


def _bare(text: str) -> str:
    """Small letters and digits with single spaces, and nothing else."""
    return " ".join(re.sub(r"[^\w]+|_+", " ", text.casefold().replace("ß", "ss")).split())


def _blank(chapter: Chapter) -> bool:
    return not any(any(map(str.isalnum, block.text)) for block in chapter.blocks)


# A prologue or an epilogue inside of a chapter


def _split_ends(chapter: Chapter) -> Iterator[Chapter]:
    """A chapter, cut where a prologue or an epilogue begins that no table of contents names."""
    start = 0
    for number in range(1, len(chapter.blocks)):
        if chapter.role == "body" and _begins_end(chapter.blocks, number, start):
            yield _cut_out(chapter, start, number)
            start = number
    yield _cut_out(chapter, start, len(chapter.blocks))


def _begins_end(blocks: Sequence[Block], number: int, start: int) -> bool:
    block = blocks[number]
    if block.kind not in ("heading", "paragraph") or len(block.text) > _MOST_END:
        return False
    if not _ENDS.fullmatch(_bare(block.text)):
        return False
    # Not where the chapter is named so itself, nor in a list of chapters.
    before = any(one.kind != "heading" and one.text.strip() for one in blocks[start:number])
    after = next((len(one.text) for one in blocks[number + 1 :] if one.text.strip()), 0)
    return before and after > _MOST_END


def _cut_out(chapter: Chapter, start: int, end: int) -> Chapter:
    if (start, end) == (0, len(chapter.blocks)):
        return chapter
    blocks = chapter.blocks[start:end]
    if not start:
        return replace(chapter, blocks=blocks)
    head = replace(blocks[0], kind="heading", level=chapter.level)
    title = " ".join(head.text.split())
    return replace(chapter, title=title, blocks=(head, *blocks[1:]))


# A licence in the text


def _cut(chapters: Sequence[Chapter]) -> tuple[Chapter, ...]:
    """With what Project Gutenberg puts before and after a text as chapters of their own."""
    start = _find(chapters, _GUTENBERG_START) or (0, -1)
    end = _find(chapters, _GUTENBERG_END) or (len(chapters), 0)
    if start >= end:
        return tuple(chapters)
    made: list[Chapter] = []
    for number, chapter in enumerate(chapters):
        size = len(chapter.blocks)
        low = size if number < start[0] else (start[1] + 1) * (number == start[0])
        high = 0 if number > end[0] else end[1] if number == end[0] else size
        made += _pieces(chapter, low, max(low, high))
    return tuple(made)


def _pieces(chapter: Chapter, low: int, high: int) -> list[Chapter]:
    """A chapter, cut at two of its blocks; what is cut off is front and back matter."""
    size = len(chapter.blocks)
    pieces: list[Chapter] = []
    for start, end, role in ((0, low, "front"), (low, high, "body"), (high, size, "back")):
        if start < end or (size == 0 and role == "body"):
            whole = (start, end) == (0, size)
            title = chapter.title if whole or role == "body" else _ABOUT
            kept = _resolve_role(chapter.role, cast("Role", role), "")
            blocks = chapter.blocks[start:end]
            pieces.append(replace(chapter, title=title, blocks=blocks, role=kept))
    return pieces


_ABOUT = "Project Gutenberg"


def _find(chapters: Sequence[Chapter], pattern: re.Pattern[str]) -> tuple[int, int] | None:
    for number, chapter in enumerate(chapters):
        for place, block in enumerate(chapter.blocks):
            if len(block.text) < 400 and pattern.match(block.text.lstrip()):
                return number, place
    return None
