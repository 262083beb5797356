"""The runs of a docx paragraph: what a reader of the printed page would see of it.

Insertions are kept and deletions are not, as if all changes had been accepted; hidden text,
comments and page numbers made by fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from anyrig.text.formats.office import attribute
from anyrig.text.formats.runs import Run
from anyrig.text.formats.xml import local

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_INTO = frozenset(
    "hyperlink ins moveto smarttag sdt sdtcontent customxml bdo dir fldsimple rubybase ruby"
    " alternatecontent choice r".split()
)
_SIGNS = {"tab": " ", "ptab": " ", "br": "\n", "cr": "\n", "nobreakhyphen": "\u2011"}
_PAGE_FIELDS = ("PAGE", "NUMPAGES", "PAGEREF", "SECTIONPAGES")
# The Greek of the font Symbol, at its Latin letters.
_SYMBOL = dict(
    zip(
        "ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprstufcyw",
        "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρστυφχψω",
        strict=True,
    )
)


class Paragraph:
    """The runs of one paragraph, with what else was met on the way."""

    def __init__(self, language: str = "", fields: list[str] | None = None) -> None:
        self.language = language
        """Of the file: a run in it is not marked."""
        self.fields = [] if fields is None else fields
        """The fields that are open, outermost first; one may span paragraphs."""
        self.runs: list[Run] = []
        self.boxes: list[Element] = []
        """Text boxes that hang on the paragraph."""
        self.pictures: list[str] = []
        """What is said of its pictures."""
        self.in_contents = False
        """Whether some of it is the result of a field that lists the contents."""

    def walk(self, element: Element) -> None:
        """Take up all that stands in an element."""
        stack: list[tuple[Element, str]] = [(child, "") for child in reversed(element)]
        while stack:
            child, language = stack.pop()
            name = local(child)
            if name == "r":
                language, hidden = _properties(child)
                if hidden:
                    continue
            if name == "fldsimple" and _is_page(attribute(child, "instr")):
                continue
            if name in _INTO:
                stack.extend((each, language) for each in reversed(_inside(child, name)))
            else:
                self._take(child, name, language)

    def _take(self, element: Element, name: str, language: str) -> None:
        if name == "fldchar":
            self._field(attribute(element, "fldCharType"))
        elif name == "instrtext":
            self._instruct(element.text or "")
        elif name in ("drawing", "pict", "object"):
            self._drawn(element)
        elif name in ("footnotereference", "endnotereference"):
            note = f"{name[:-9]}-{attribute(element, 'id')}"
            self.runs.append(Run(note, "noteref", note))
        else:
            self._say(_text(element, name), language)

    def _say(self, text: str, language: str) -> None:
        self.in_contents = self.in_contents or any(field.startswith("TOC") for field in self.fields)
        if text and not any(map(_is_page, self.fields)):
            own = language.split("-")[0].lower() == self.language.split("-")[0].lower()
            self.runs.append(Run(text, language="" if own else language))

    def _field(self, kind: str) -> None:
        if kind == "begin":
            self.fields.append("")
        elif kind == "end" and self.fields:
            self.fields.pop()

    def _instruct(self, text: str) -> None:
        if self.fields and len(self.fields[-1]) < 80:
            self.fields[-1] = (self.fields[-1] + text).lstrip()

    def _drawn(self, element: Element) -> None:
        self.boxes.extend(_boxes(element))
        for each in element.iter():
            if local(each) in ("docpr", "shape"):
                said = (
                    attribute(each, "descr") or attribute(each, "alt") or attribute(each, "title")
                )
                if said.strip() and said.strip() not in self.pictures:
                    self.pictures.append(said.strip())


def _boxes(element: Element) -> Iterator[Element]:
    """The text boxes in a drawing, not those in a box already found nor in a second version."""
    stack = [element]
    while stack:
        each = stack.pop()
        name = local(each)
        if name == "txbxcontent":
            yield each
        elif name != "fallback":
            stack.extend(reversed(each))


def _inside(element: Element, name: str) -> list[Element]:
    """The children that count: of several versions of one thing the first that is understood."""
    children = list(element)
    if name == "alternatecontent":
        chosen = [each for each in children if local(each) == "choice"]
        return chosen[:1] or [each for fall in children for each in fall]
    if name == "ruby":
        return [each for each in children if local(each) == "rubybase"]
    return children


def _properties(run: Element) -> tuple[str, bool]:
    """A run's language, and whether it is hidden."""
    language, hidden = "", False
    for properties in run:
        if local(properties) != "rpr":
            continue
        for each in properties:
            if local(each) == "lang":
                language = attribute(each, "val")
            elif local(each) in ("vanish", "specvanish"):
                hidden = attribute(each, "val") not in ("0", "false", "off")
    return language, hidden


def _text(element: Element, name: str) -> str:
    if name == "t":
        return element.text or ""
    if name == "sym":
        return _symbol(attribute(element, "char"), attribute(element, "font"))
    if name == "br" and attribute(element, "type") == "page":
        return " "
    if name in ("omath", "omathpara"):
        return _formula(element)
    return _SIGNS.get(name, "")


def _formula(element: Element) -> str:
    """The signs of a formula in a row."""
    return " ".join(each.text for each in element.iter() if local(each) == "t" and each.text)


def _symbol(code: str, font: str) -> str:
    try:
        value = int(code, 16)
    except ValueError:
        return ""
    if 0xF000 <= value <= 0xF0FF:
        value -= 0xF000
        if font.lower() == "symbol":
            return _SYMBOL.get(chr(value), chr(value) if 32 <= value < 127 else "")
        return ""  # a picture font: nothing to say
    return chr(value) if 32 <= value < 0x110000 and not 0xD800 <= value < 0xE000 else ""


def _is_page(instruction: str) -> bool:
    words = instruction.split(None, 1)
    return bool(words) and words[0].upper() in _PAGE_FIELDS
