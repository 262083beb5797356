"""The files of an EPUB 3 with media overlays: pages, package, contents, overlays, archive.

What stands in them is decided in `readalong.py`. The same content gives the same bytes.
"""

from __future__ import annotations

import re
import shutil
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import StorageError
from anyrig.storage.files import open_atomic

if TYPE_CHECKING:
    from anyrig.text.document import Metadata

ACTIVE = "-epub-media-overlay-active"
_DATE = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?")
_MODIFIED = "2000-01-01T00:00:00Z"
"""Always the same, so that the same book is the same bytes."""
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
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]"
)
_LANGUAGE = re.compile(  # its name, script, region and variants
    r"[A-Za-z]{2,3}(?:-[A-Za-z]{4})?(?:-(?:[A-Za-z]{2}|[0-9]{3}))?"
    r"(?:-(?:[A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*"
)
_RIGHT_TO_LEFT = frozenset(("ar", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"))


@dataclass(frozen=True)
class Highlight:
    """A stretch of text that is highlighted while it is heard: a word, or a sentence."""

    id: str
    segment: int
    """Which segment of the part, from 0."""
    weight: int
    """Its characters: its share of the segment's time, where words have no times."""
    type: str = ""
    """In the words of EPUB, where a listener may want to skip it."""
    start: float | None = None
    """Of a word: when it is heard, in samples of the book."""


@dataclass(frozen=True)
class PageBreak:
    """Where a page of the printed book begins."""

    id: str
    label: str


@dataclass(frozen=True)
class XhtmlPage:
    """A part of the book as XHTML."""

    name: str
    title: str
    level: int
    is_body: bool
    """Whether it is the book itself, not what stands before or after."""
    xhtml: str
    pieces: tuple[Highlight, ...]
    """As they stand on the page."""
    breaks: tuple[PageBreak, ...]


@dataclass(frozen=True)
class Clip:
    """What of a part's audio belongs to a piece of its text, in milliseconds."""

    piece: Highlight
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class OverlayTrack:
    """A part that is heard: its audio and its clips."""

    file: str
    media_type: str
    clips: tuple[Clip, ...]

    @property
    def duration_ms(self) -> int:
        """Of all clips: they follow on each other."""
        return sum(clip.end_ms - clip.start_ms for clip in self.clips)


# -- text ------------------------------------------------------------------------------------------


def escape_text(text: str) -> str:
    """A text without what XML cannot hold, its marks escaped."""
    return escape(_UNPRINTABLE.sub("", text))


def escape_label(text: str) -> str:
    """A name or a title in one line, escaped."""
    return escape(" ".join(_UNPRINTABLE.sub("", text).split()))


def parse_language(language: str) -> str:
    """A language as XML takes it, or nothing."""
    language = language.strip().replace("_", "-")
    return language if _LANGUAGE.fullmatch(language) else ""


def is_right_to_left(language: str) -> bool:
    """Whether it is written from the right."""
    return language.lower().partition("-")[0] in _RIGHT_TO_LEFT


def build_xhtml(title: str, language: str, body: str, *, depth: str = "../", kind: str = "") -> str:
    """A whole XHTML file."""
    turned = ' dir="rtl"' if is_right_to_left(language) else ""
    typed = f' epub:type="{kind}"' if kind else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" '
        f'lang="{language}" xml:lang="{language}"{turned}>\n'
        f"<head>\n<title>{escape_label(title)}</title>\n"
        f'<link rel="stylesheet" type="text/css" href="{depth}style.css"/>\n</head>\n'
        f"<body{typed}>\n{body}</body>\n</html>\n"
    )


def language_attributes(language: str, around: str) -> str:
    """What names a language where it is another than around it."""
    language = parse_language(language)
    if not language or language == around:
        return ""
    turned = ' dir="rtl"' if is_right_to_left(language) and not is_right_to_left(around) else ""
    return f' lang="{language}" xml:lang="{language}"{turned}'


# -- contents and package --------------------------------------------------------------------------


def build_contents(pages: Sequence[XhtmlPage], language: str, title: str, *, cover: bool) -> str:
    """The table of contents, nested as the book's is, and the pages of the printed book."""
    body = f'<nav epub:type="toc" role="doc-toc" id="toc">\n{_nest_contents(pages)}</nav>\n'
    stops = [
        f'<li><a href="text/{page.name}.xhtml#{stop.id}">{escape_label(stop.label)}</a></li>\n'
        for page in pages
        for stop in page.breaks
        if escape_label(stop.label)
    ]
    if stops:
        body += (
            f'<nav epub:type="page-list" hidden="hidden">\n<ol>\n{"".join(stops)}</ol>\n</nav>\n'
        )
    marks = [("cover", "text/cover.xhtml", "Cover")] if cover else []
    marks.append(("bodymatter", _find_body(pages), "Text"))
    listed = "".join(
        f'<li><a epub:type="{kind}" href="{address}">{label}</a></li>\n'
        for kind, address, label in marks
    )
    body += f'<nav epub:type="landmarks" hidden="hidden">\n<ol>\n{listed}</ol>\n</nav>\n'
    return build_xhtml(title, language, body, depth="")


def _find_body(pages: Sequence[XhtmlPage]) -> str:
    first = next((page for page in pages if page.is_body), pages[0])
    return f"text/{first.name}.xhtml"


def _nest_contents(pages: Sequence[XhtmlPage]) -> str:
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
        made.append(f'<li><a href="text/{page.name}.xhtml">{escape_label(page.title)}</a>')
    made.append("</li>\n</ol>\n" * len(open_levels))
    return "".join(made)


def build_identifier(about: Metadata, text: str) -> str:
    """The name of this very book: the same for the same words under the same title."""
    what = "\n".join((about.title, *about.authors, about.identifier, text))
    digest = uuid.uuid5(uuid.NAMESPACE_URL, what.encode("utf-8", "replace").decode())
    return f"urn:uuid:{digest}"


def build_metadata(about: Metadata, language: str, name: str, narrator: str) -> str:
    """Who wrote it, what it is called, and that it can be heard."""
    made = [
        f'<dc:identifier id="uid">{name}</dc:identifier>',
        f'<dc:title id="title">{escape_label(about.title) or "Untitled"}</dc:title>',
        f"<dc:language>{language}</dc:language>",
        f'<meta property="dcterms:modified">{_MODIFIED}</meta>',
    ]
    for number, author in enumerate(filter(escape_label, about.authors), 1):
        made.append(f'<dc:creator id="author-{number}">{escape_label(author)}</dc:creator>')
        made.append(
            f'<meta refines="#author-{number}" property="role" scheme="marc:relators">aut</meta>'
        )
    for element in ("description", "publisher", "rights"):
        if value := escape_label(getattr(about, element)):
            made.append(f"<dc:{element}>{value}</dc:{element}>")
    if source := escape_label(about.identifier):
        made.append(f"<dc:source>{source}</dc:source>")
    if _DATE.fullmatch(about.year.strip()):
        made.append(f"<dc:date>{about.year.strip()}</dc:date>")
    made += [
        f"<dc:subject>{escape_label(each)}</dc:subject>"
        for each in about.subjects
        if escape_label(each)
    ]
    made += _describe_series(about)
    if escaped := escape_label(narrator):
        made.append(f'<meta property="media:narrator">{escaped}</meta>')
    made += [
        f'<meta property="schema:accessMode">{each}</meta>' for each in ("textual", "auditory")
    ]
    made += [f'<meta property="schema:accessibilityFeature">{each}</meta>' for each in _FEATURES]
    made.append('<meta property="schema:accessibilityHazard">none</meta>')
    return "".join(f"{each}\n" for each in made)


def _describe_series(about: Metadata) -> list[str]:
    if not (series := escape_label(about.series)):
        return []
    made = [
        f'<meta property="belongs-to-collection" id="series">{series}</meta>',
        '<meta refines="#series" property="collection-type">series</meta>',
    ]
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)*", about.series_index.strip()):
        place = about.series_index.strip()
        made.append(f'<meta refines="#series" property="group-position">{place}</meta>')
    return made


def build_package(
    pages: Sequence[XhtmlPage],
    tracks: Sequence[OverlayTrack | None],
    described: str,
    language: str,
    cover: tuple[str, str] | None,
) -> str:
    """The package file: metadata, every file of the book, and their order.

    Args:
        pages: the parts.
        tracks: the audio of each, None where nothing is heard.
        described: what `build_metadata` returned.
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
        items.append(_manifest_page("cover"))
        order.append('<itemref idref="text-cover"/>')
        described += '<meta name="cover" content="cover"/>\n'
    for page, track in zip(pages, tracks, strict=True):
        items.append(_manifest_page(page.name, heard=track is not None))
        order.append(f'<itemref idref="text-{page.name}"/>')
        if track:
            items.append(
                _manifest_item(
                    f"smil-{page.name}", f"smil/{page.name}.smil", "application/smil+xml"
                )
            )
            items.append(_manifest_item(f"audio-{page.name}", track.file, track.media_type))
            described += _describe_duration(track.duration_ms, f"smil-{page.name}")
            heard_ms += track.duration_ms
    if heard_ms:
        described += _describe_duration(heard_ms)
        described += f'<meta property="media:active-class">{ACTIVE}</meta>\n'
    turned = ' page-progression-direction="rtl"' if is_right_to_left(language) else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="uid" '
        f'xml:lang="{language}">\n'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">\n{described}</metadata>\n'
        f"<manifest>\n{_join_lines(items)}</manifest>\n<spine{turned}>\n{_join_lines(order)}</spine>\n"
        "</package>\n"
    )


def _manifest_item(name: str, file: str, media_type: str) -> str:
    return f'<item id="{name}" href="{file}" media-type="{media_type}"/>'


def _manifest_page(name: str, *, heard: bool = False) -> str:
    overlaid = f' media-overlay="smil-{name}"' if heard else ""
    return (
        f'<item id="text-{name}" href="text/{name}.xhtml" '
        f'media-type="application/xhtml+xml"{overlaid}/>'
    )


def _describe_duration(milliseconds: int, refines: str = "") -> str:
    of = f' refines="#{refines}"' if refines else ""
    return f'<meta property="media:duration"{of}>{format_smil_time(milliseconds)}</meta>\n'


def _join_lines(made: Sequence[str]) -> str:
    return "".join(f"{each}\n" for each in made)


# -- overlays --------------------------------------------------------------------------------------


def format_smil_time(milliseconds: int) -> str:
    """A time as SMIL writes it: 1:02:03.456."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"


def build_overlay(page: XhtmlPage, track: OverlayTrack) -> str:
    """The SMIL file of a part."""
    text, sound = f"../text/{page.name}.xhtml", f"../{track.file}"
    pars = "".join(
        f'<par id="{clip.piece.id}"{_epub_type(clip.piece)}>'
        f'<text src="{text}#{clip.piece.id}"/>'
        f'<audio src="{sound}" clipBegin="{format_smil_time(clip.start_ms)}"'
        f' clipEnd="{format_smil_time(clip.end_ms)}"/>'
        "</par>\n"
        for clip in track.clips
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<smil xmlns="http://www.w3.org/ns/SMIL" xmlns:epub="http://www.idpf.org/2007/ops" '
        f'version="3.0">\n<body>\n<seq id="all" epub:textref="{text}#part" epub:type="chapter">\n'
        f"{pars}</seq>\n</body>\n</smil>\n"
    )


def _epub_type(piece: Highlight) -> str:
    return f' epub:type="{piece.type}"' if piece.type else ""


# -- the archive -----------------------------------------------------------------------------------


def write_archive(path: Path, files: Mapping[str, str | bytes | Path]) -> None:
    """The archive: its type first, text packed, sound and pictures as they are."""
    try:
        with open_atomic(path) as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(_build_entry("mimetype"), "application/epub+zip")
            for name, content in files.items():
                if isinstance(content, Path):
                    _copy_file(archive, name, content)
                else:
                    packed = zipfile.ZIP_DEFLATED if isinstance(content, str) else 0
                    archive.writestr(_build_entry(name, packed), content)
    except OSError as error:
        raise StorageError(
            f"{path} was not written: {error}", hint="Free disk space, or write to another disk."
        ) from error


def _copy_file(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """A file into the archive, without having it in memory."""
    entry = _build_entry(name)
    entry.file_size = path.stat().st_size
    with path.open("rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _build_entry(name: str, compression: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
    """An entry that carries nothing of the machine or the moment."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = compression
    entry.external_attr = 0o644 << 16
    entry.create_system = 3
    return entry
