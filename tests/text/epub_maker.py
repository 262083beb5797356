"""EPUBs made by code, whole or with any piece of them wrong.

    path = epub(tmp_path / "book.epub", [Page("c1.xhtml", "<h1>One</h1><p>Text.</p>")])

A book is right unless told otherwise: a container, a package, a navigation page (or an NCX),
and pages. Every piece can be replaced or left out by its name in the archive through `files`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" '
    'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="{path}" media-type="application/oebps-package+xml"/>'
    "</rootfiles></container>"
)
# The smallest picture there is: one white pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a4944415478da63f80f00010101001b3d8f640000000049454e44ae426082"
)
JPEG = b"\xff\xd8\xff\xe0" + b"\x00" * 60


@dataclass(frozen=True)
class Page:
    name: str
    body: str
    title: str | None = ""
    """In the table of contents; by default the page's name, None to leave it out."""
    linear: bool = True
    body_type: str = ""
    language: str = "en"
    head: str = ""
    raw: bytes | None = None
    """The whole file, in place of what is made of the body."""


@dataclass(frozen=True)
class Line:
    """A line of the table of contents."""

    title: str
    href: str
    children: tuple[Line, ...] = ()


def epub(
    path: Path,
    pages: Sequence[Page],
    *,
    contents: Sequence[Line] | None = None,
    version: int = 3,
    metadata: str = "<dc:title>A Book</dc:title><dc:language>en</dc:language>",
    manifest: str = "",
    spine: str = "",
    guide: str = "",
    files: Mapping[str, bytes | str | None] | None = None,
    mimetype: bytes | None = b"application/epub+zip",
    prefix: bytes = b"",
) -> Path:
    """Contents have a line for each page by default; None in `files` leaves a member out."""
    lines = _lines(pages) if contents is None else contents
    members: dict[str, bytes | str | None] = {
        "META-INF/container.xml": CONTAINER.format(path="OEBPS/content.opf"),
        "OEBPS/content.opf": package(
            pages, version=version, metadata=metadata, manifest=manifest, spine=spine, guide=guide,
            with_contents=bool(lines),
        ),
        **{f"OEBPS/{page.name}": page.raw or xhtml(page) for page in pages},
        **(files or {}),
    }  # fmt: skip
    if lines:
        name = "OEBPS/nav.xhtml" if version == 3 else "OEBPS/toc.ncx"
        members.setdefault(name, navigation(lines) if version == 3 else ncx(lines))
    return write(path, members, mimetype=mimetype, prefix=prefix)


def write(
    path: Path,
    members: Mapping[str, bytes | str | None],
    *,
    mimetype: bytes | None = b"application/epub+zip",
    prefix: bytes = b"",
) -> Path:
    with path.open("wb") as file:
        file.write(prefix)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            if mimetype is not None:
                archive.writestr("mimetype", mimetype, zipfile.ZIP_STORED)
            for name, data in members.items():
                if data is not None:
                    archive.writestr(name, data)
    return path


def xhtml(page: Page) -> str:
    kind = f' epub:type="{page.body_type}"' if page.body_type else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" '
        f'xml:lang="{page.language}"><head><title>{escape(page.name)}</title>{page.head}</head>'
        f"<body{kind}>{page.body}</body></html>"
    )


def package(
    pages: Iterable[Page], *, version: int, metadata: str, manifest: str = "", spine: str = "",
    guide: str = "", with_contents: bool = True,
) -> str:  # fmt: skip
    items, references = [], []
    for number, page in enumerate(pages):
        items.append(
            f'<item id="p{number}" href="{page.name}" media-type="application/xhtml+xml"/>'
        )
        linear = "" if page.linear else ' linear="no"'
        references.append(f'<itemref idref="p{number}"{linear}/>')
    toc = ""
    if with_contents and version == 3:
        items.append(
            '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
        )
    elif with_contents:
        items.append('<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>')
        toc = ' toc="ncx"'
    return (
        f'<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="{version}.0" '
        'unique-identifier="uid"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/" '
        f'xmlns:opf="http://www.idpf.org/2007/opf">{metadata}</metadata>'
        f"<manifest>{''.join(items)}{manifest}</manifest>"
        f"<spine{toc}>{''.join(references)}{spine}</spine>{guide}</package>"
    )


def navigation(lines: Sequence[Line]) -> str:
    return (
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f'<head><title>n</title></head><body><nav epub:type="toc"><h1>Contents</h1>{_list(lines)}'
        "</nav></body></html>"
    )


def ncx(lines: Sequence[Line]) -> str:
    return (
        '<?xml version="1.0"?><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1">'
        f"<docTitle><text>Not this</text></docTitle><navMap>{_points(lines)}</navMap></ncx>"
    )


def _lines(pages: Iterable[Page]) -> list[Line]:
    return [
        Line(page.title or page.name, page.name)
        for page in pages
        if page.title is not None and page.linear
    ]


def _list(lines: Sequence[Line]) -> str:
    made = "".join(
        f"<li>{_link(line)}{_list(line.children) if line.children else ''}</li>" for line in lines
    )
    return f"<ol>{made}</ol>"


def _link(line: Line) -> str:
    if not line.href:
        return f"<span>{escape(line.title)}</span>"
    return f'<a href="{line.href}">{escape(line.title)}</a>'


def _points(lines: Sequence[Line]) -> str:
    return "".join(
        f'<navPoint id="n{number}"><navLabel><text>{escape(line.title)}</text></navLabel>'
        f'<content src="{line.href}"/>{_points(line.children)}</navPoint>'
        for number, line in enumerate(lines)
    )
