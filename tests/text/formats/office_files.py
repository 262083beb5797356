"""Small docx, odt and fb2 files, made by code."""

from __future__ import annotations

import zipfile
from pathlib import Path

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT_W = "http://purl.oclc.org/ooxml/wordprocessingml/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STYLES = """<w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="en-GB"/></w:rPr></w:rPrDefault>
</w:docDefaults>
<w:style w:type="paragraph" w:default="1" w:styleId="Standard"><w:name w:val="Normal"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/>
  <w:basedOn w:val="Standard"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>
<w:style w:type="paragraph" w:styleId="Eigen"><w:name w:val="My own"/>
  <w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>
<w:style w:type="paragraph" w:styleId="Zitat"><w:name w:val="Quote"/></w:style>
<w:style w:type="paragraph" w:styleId="Vers"><w:name w:val="Verse"/></w:style>"""


def p(text: str, style: str = "") -> str:
    """A paragraph of a docx; `text` may hold runs of its own."""
    inner = text if text.startswith("<w:") else f"<w:r><w:t>{text}</w:t></w:r>"
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}{inner}</w:p>"


def r(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def docx(
    path: Path,
    body: str,
    *,
    footnotes: str = "",
    endnotes: str = "",
    core: str = "",
    strict: bool = False,
    thumbnail: bytes = b"",
) -> Path:
    """A docx with the styles above, as a German Word writes it."""
    space = STRICT_W if strict else W

    def root(name: str, inner: str) -> str:
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><w:{name} xmlns:w="{space}"'
            ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
            ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
            ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
            f' xmlns:wps="urn:wps" xmlns:v="urn:schemas-microsoft-com:vml">{inner}</w:{name}>'
        )

    files = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": (
            f'<Relationships><Relationship Type="{_OFFICE}/officeDocument"'
            ' Target="word/document.xml"/>'
            f'<Relationship Type="{_OFFICE}/thumbnail" Target="docProps/thumbnail.png"/>'
            "</Relationships>"
        ),
        "word/document.xml": root("document", f"<w:body>{body}</w:body>"),
        "word/styles.xml": root("styles", _STYLES),
        "word/footnotes.xml": root("footnotes", footnotes),
        "word/endnotes.xml": root("endnotes", endnotes),
        "docProps/core.xml": (
            '<cp:coreProperties xmlns:cp="urn:cp" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"{core}</cp:coreProperties>"
        ),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        if thumbnail:
            archive.writestr("docProps/thumbnail.png", thumbnail)
    return path


_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_ODT_STYLES = """<style:style style:name="P1" style:parent-style-name="Quotations"/>
<style:style style:name="P2" style:parent-style-name="Title"/>
<style:style style:name="T1"><style:text-properties fo:language="fr" fo:country="FR"/></style:style>
<style:default-style><style:text-properties fo:language="en" fo:country="GB"/>
</style:default-style>"""


def odt(path: Path, body: str, *, meta: str = "", encrypted: bool = False) -> Path:
    spaces = " ".join(
        f'xmlns:{name}="{_ODF}:{name}:1.0"'
        for name in ("office", "text", "table", "style", "draw", "meta", "manifest")
    )
    spaces += ' xmlns:fo="urn:fo" xmlns:svg="urn:svg" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    secret = "<manifest:encryption-data/>" if encrypted else ""
    files = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "META-INF/manifest.xml": f"<manifest:manifest {spaces}><manifest:file-entry>{secret}"
        "</manifest:file-entry></manifest:manifest>",
        "content.xml": f"<office:document-content {spaces}><office:automatic-styles>{_ODT_STYLES}"
        f"</office:automatic-styles><office:body><office:text>{body}</office:text></office:body>"
        "</office:document-content>",
        "meta.xml": f"<office:document-meta {spaces}><office:meta>{meta}</office:meta>"
        "</office:document-meta>",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def fb2(body: str, *, info: str = "", notes: str = "", binary: str = "", more: str = "") -> str:
    """The text of an fb2 without its XML declaration."""
    return (
        '<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"'
        ' xmlns:l="http://www.w3.org/1999/xlink">'
        f"<description><title-info>{info}</title-info>{more}</description><body>{body}</body>"
        + (f'<body name="notes">{notes}</body>' if notes else "")
        + f"{binary}</FictionBook>"
    )
