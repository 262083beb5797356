"""What is inside an element that is not walked through: pictures, drawings, formulas."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from anyrig.text.formats import markup_elements as elements
from anyrig.text.formats.markup_kinds import LOOKED_AT
from anyrig.text.formats.xml import local

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".svg", ".webp")


def alternative(image: Element) -> str:
    """What stands for a picture in words; empty if that says nothing."""
    alt = " ".join((image.get("alt") or "").split())
    names_file = " " not in alt and alt.lower().endswith(_PICTURES)
    return "" if names_file or not any(map(str.isalnum, alt)) else alt


def drawing(svg: Element) -> str:
    """The words of a drawing: its title, what it says of itself, what is written in it."""
    words = [svg.get("aria-label") or ""]
    words += [
        "".join(each.itertext())
        for each in islice(svg.iter(), LOOKED_AT)
        if local(each) in ("title", "desc", "text")
    ]
    return " ".join(" ".join(words).split())


def formula(math: Element) -> str:
    """A formula as its author says it, else sign by sign."""
    said = (math.get("alttext") or "").strip()
    return said or " ".join(
        (each.text or "").strip()
        for each in islice(math.iter(), LOOKED_AT)
        if local(each) in ("mi", "mn", "mo", "mtext", "ms")
    )


def holds_notes(element: Element) -> bool:
    """Whether there are notes in it: they are often hidden until they are asked for."""
    return any(
        elements.said("", each.attrib, elements.Style()).note
        for each in islice(element.iter(), LOOKED_AT)
        if each.attrib
    )
