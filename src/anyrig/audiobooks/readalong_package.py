"""What an EPUB says of itself: package, metadata, table of contents, style."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyrig.audiobooks.readalong_overlay import clock
from anyrig.audiobooks.readalong_pages import Page
from anyrig.audiobooks.readalong_words import right_to_left, root, words

if TYPE_CHECKING:
    from anyrig.audiobooks.readalong_overlay import Track
    from anyrig.text.document import Metadata

ACTIVE = "-epub-media-overlay-active"
_DATE = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?")
_FEATURES = ("synchronizedAudioText", "tableOfContents", "readingOrder")

CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles>
<rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/>
</rootfiles>
</container>
"""

STYLE = f"""body {{ line-height: 1.5; margin: 0 5%; }}
h1, h2, h3, h4, h5, h6 {{ line-height: 1.2; }}
p {{ margin: 0 0 0.6em 0; }}
blockquote, .poem {{ margin: 1em 2em; }}
pre {{ white-space: pre-wrap; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
td {{ border: 1px solid #999; padding: 0.2em 0.6em; }}
aside {{ border-left: 3px solid #999; font-size: 0.9em; margin: 1em 0; padding-left: 1em; }}
figure {{ font-style: italic; margin: 1em 2em; }}
.rule {{ text-align: center; }}
.page {{ color: #666; font-size: 0.75em; }}
.cover {{ margin: 0; text-align: center; }}
.cover img {{ max-height: 100%; max-width: 100%; }}
.{ACTIVE} {{ background-color: #ffe08a; color: #000; }}
"""


def contents(pages: Sequence[Page], language: str, title: str, *, cover: bool) -> str:
    """The table of contents, nested as the book's is, and the pages of the printed book."""
    body = f'<nav epub:type="toc" role="doc-toc" id="toc">\n{_nested(pages)}</nav>\n'
    stops = [
        f'<li><a href="text/{page.name}.xhtml#{stop.id}">{words(stop.label)}</a></li>\n'
        for page in pages
        for stop in page.stops
        if words(stop.label)
    ]
    if stops:
        body += (
            f'<nav epub:type="page-list" hidden="hidden">\n<ol>\n{"".join(stops)}</ol>\n</nav>\n'
        )
    marks = [("cover", "text/cover.xhtml", "Cover")] if cover else []
    marks.append(("bodymatter", _begin(pages), "Text"))
    listed = "".join(
        f'<li><a epub:type="{kind}" href="{address}">{label}</a></li>\n'
        for kind, address, label in marks
    )
    body += f'<nav epub:type="landmarks" hidden="hidden">\n<ol>\n{listed}</ol>\n</nav>\n'
    return root(title, language, body, depth="")


def _begin(pages: Sequence[Page]) -> str:
    first = next((page for page in pages if page.body), pages[0])
    return f"text/{first.name}.xhtml"


def _nested(pages: Sequence[Page]) -> str:
    """Lists within lists; a level that is jumped over makes no empty one."""
    made: list[str] = []
    open_levels: list[int] = []
    for page in pages:
        if not open_levels or page.level > open_levels[-1]:
            made.append("<ol>\n")
            open_levels.append(page.level)
        else:
            made.append("</li>\n")
            while len(open_levels) > 1 and page.level <= open_levels[-2]:
                made.append("</ol>\n</li>\n")
                open_levels.pop()
            open_levels[-1] = page.level
        made.append(f'<li><a href="text/{page.name}.xhtml">{words(page.title)}</a>')
    made.append("</li>\n</ol>\n" * len(open_levels))
    return "".join(made)


def identifier(about: Metadata, text: str) -> str:
    """The name of this very book: the same for the same words under the same title."""
    what = "\n".join((about.title, *about.authors, about.identifier, text))
    digest = uuid.uuid5(uuid.NAMESPACE_URL, what.encode("utf-8", "replace").decode())
    return f"urn:uuid:{digest}"


def metadata(about: Metadata, language: str, name: str, *, narrator: str, modified: str) -> str:
    """Who wrote it, what it is called, and that it can be heard."""
    made = [
        f'<dc:identifier id="uid">{name}</dc:identifier>',
        f'<dc:title id="title">{words(about.title) or "Untitled"}</dc:title>',
        f"<dc:language>{language}</dc:language>",
        f'<meta property="dcterms:modified">{modified}</meta>',
    ]
    for number, author in enumerate(filter(words, about.authors), 1):
        made.append(f'<dc:creator id="author-{number}">{words(author)}</dc:creator>')
        made.append(
            f'<meta refines="#author-{number}" property="role" scheme="marc:relators">aut</meta>'
        )
    for element in ("description", "publisher", "rights"):
        if value := words(getattr(about, element)):
            made.append(f"<dc:{element}>{value}</dc:{element}>")
    if source := words(about.identifier):
        made.append(f"<dc:source>{source}</dc:source>")
    if _DATE.fullmatch(about.year.strip()):
        made.append(f"<dc:date>{about.year.strip()}</dc:date>")
    made += [f"<dc:subject>{words(each)}</dc:subject>" for each in about.subjects if words(each)]
    made += _series(about)
    if said := words(narrator):
        made.append(f'<meta property="media:narrator">{said}</meta>')
    made += [
        f'<meta property="schema:accessMode">{each}</meta>' for each in ("textual", "auditory")
    ]
    made += [f'<meta property="schema:accessibilityFeature">{each}</meta>' for each in _FEATURES]
    made.append('<meta property="schema:accessibilityHazard">none</meta>')
    return "".join(f"{each}\n" for each in made)


def _series(about: Metadata) -> list[str]:
    if not (series := words(about.series)):
        return []
    made = [
        f'<meta property="belongs-to-collection" id="series">{series}</meta>',
        '<meta refines="#series" property="collection-type">series</meta>',
    ]
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)*", about.series_index.strip()):
        place = about.series_index.strip()
        made.append(f'<meta refines="#series" property="group-position">{place}</meta>')
    return made


def package(
    pages: Sequence[Page],
    tracks: Sequence[Track | None],
    described: str,
    language: str,
    cover: tuple[str, str] | None,
) -> str:
    """The package file: metadata, every file of the book, and their order.

    Args:
        pages: the parts.
        tracks: the audio of each, None where nothing is heard.
        described: what `metadata` wrote.
        language: of the book.
        cover: the picture's file and media type.
    """
    items = [
        '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>',
        '<item id="style" href="style.css" media-type="text/css"/>',
    ]
    order, heard_ms = [], 0
    if cover:
        items.append(
            f'<item id="cover" href="{cover[0]}" media-type="{cover[1]}" properties="cover-image"/>'
        )
        items.append(_document("cover"))
        order.append('<itemref idref="text-cover"/>')
        described += '<meta name="cover" content="cover"/>\n'
    for page, track in zip(pages, tracks, strict=True):
        items.append(_document(page.name, heard=track is not None))
        order.append(f'<itemref idref="text-{page.name}"/>')
        if track:
            items.append(
                _item(f"smil-{page.name}", f"smil/{page.name}.smil", "application/smil+xml")
            )
            items.append(_item(f"audio-{page.name}", track.file, track.media_type))
            described += _duration(track.duration_ms, f"smil-{page.name}")
            heard_ms += track.duration_ms
    if heard_ms:
        described += _duration(heard_ms)
        described += f'<meta property="media:active-class">{ACTIVE}</meta>\n'
    turned = ' page-progression-direction="rtl"' if right_to_left(language) else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="uid" '
        f'xml:lang="{language}">\n'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">\n{described}</metadata>\n'
        f"<manifest>\n{_lines(items)}</manifest>\n<spine{turned}>\n{_lines(order)}</spine>\n"
        "</package>\n"
    )


def _item(name: str, file: str, media_type: str) -> str:
    return f'<item id="{name}" href="{file}" media-type="{media_type}"/>'


def _document(name: str, *, heard: bool = False) -> str:
    overlaid = f' media-overlay="smil-{name}"' if heard else ""
    return (
        f'<item id="text-{name}" href="text/{name}.xhtml" '
        f'media-type="application/xhtml+xml"{overlaid}/>'
    )


def _duration(milliseconds: int, refines: str = "") -> str:
    of = f' refines="#{refines}"' if refines else ""
    return f'<meta property="media:duration"{of}>{clock(milliseconds)}</meta>\n'


def _lines(made: Sequence[str]) -> str:
    return "".join(f"{each}\n" for each in made)
