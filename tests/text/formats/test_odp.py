"""Slides of LibreOffice: as those of PowerPoint, a page for each slide."""

# ruff: noqa: E501 - a piece of XML is a line

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.files import detect_format, read
from anyrig.text.folder import find

_NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "draw", "presentation", "table", "svg", "manifest", "meta")
)
_META = '<office:meta xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The talk</dc:title></office:meta>'


def odp(path: Path, slides: str, *, manifest: str = "") -> Path:
    content = f"<office:document-content {_NAMES}><office:body><office:presentation>{slides}</office:presentation></office:body></office:document-content>"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.presentation")
        archive.writestr("content.xml", content)
        archive.writestr(
            "meta.xml", f"<office:document-meta {_NAMES}>{_META}</office:document-meta>"
        )
        if manifest:
            archive.writestr(
                "META-INF/manifest.xml",
                f"<manifest:manifest {_NAMES}>{manifest}</manifest:manifest>",
            )
    return path


def _box(*paragraphs: str, kind: str = "") -> str:
    inside = "".join(f"<text:p>{text}</text:p>" for text in paragraphs)
    return f'<draw:frame presentation:class="{kind}"><draw:text-box>{inside}</draw:text-box></draw:frame>'


def test_each_slide_is_a_page_with_title_points_table_and_notes(tmp_path: Path) -> None:
    points = "<text:list>" + "".join(
        f"<text:list-item><text:p>{text}</text:p></text:list-item>"
        for text in ("Grain<text:s/><text:span>and</text:span> peas", "Timber")
    ) + "</text:list>"  # fmt: skip
    table = "<draw:frame><table:table><table:table-row><table:table-cell><text:p>Oil</text:p></table:table-cell><table:table-cell><text:p>40</text:p></table:table-cell></table:table-row></table:table></draw:frame>"
    picture = "<draw:frame><draw:image><text:p/></draw:image><svg:desc>A map of the port</svg:desc></draw:frame>"
    shape = "<draw:custom-shape><text:p>An arrow</text:p></draw:custom-shape>"
    notes = f"<presentation:notes><draw:page-thumbnail/>{_box('Say it slowly.', kind='notes')}</presentation:notes>"
    second = (
        _box("Cargo", kind="title")
        + f"<draw:frame><draw:text-box>{points}</draw:text-box></draw:frame>"
    )
    second += table + picture + shape + _box("7", kind="page-number") + notes
    path = odp(
        tmp_path / "a.odp",
        f"<draw:page>{_box('Boats of', 'the year', kind='title')}</draw:page><draw:page>{second}</draw:page><draw:page/>",
    )
    document = read(path)
    assert (document.format, detect_format(path), document.metadata.title) == (
        "odp",
        "odp",
        "The talk",
    )
    assert [chapter.title for chapter in document.chapters] == ["Boats of the year", "Cargo", ""]
    assert [(b.kind, b.text, b.page) for b in document.chapters[1].blocks] == [
        ("heading", "Cargo", 2), ("item", "Grain and peas", 2), ("item", "Timber", 2),
        ("table", "Oil\t40", 2), ("image", "A map of the port", 2), ("paragraph", "An arrow", 2),
        ("note", "Say it slowly.", 2),
    ]  # fmt: skip
    assert [file.name for file in find(tmp_path).files] == ["a.odp"]


def test_slides_that_are_empty_or_locked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="a.odp"):
        read(odp(tmp_path / "a.odp", "<draw:page/>"))
    locked = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
    with pytest.raises(ProtectedFileError, match="password"):
        read(odp(tmp_path / "b.odp", "<draw:page/>", manifest=locked))
