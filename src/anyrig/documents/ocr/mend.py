"""Letters that look the same in many fonts, set right where a language leaves no doubt.

`I` and `l` are one stroke in most fonts without serifs. No word has a capital I after a small
letter; before an apostrophe, French, Italian and Catalan have an `l`, never an `I`; and a French
sentence begins with `Il`, not with the number II.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrig.documents.ocr.ctc import Char

_ELISION = ("fr", "it", "ca")
_MARKS = "'’"


def mended(chars: Sequence[Char], language: str) -> list[Char]:
    """A line with strokes that can only be the other letter set right."""
    found = list(chars)
    for at, char in enumerate(found):
        before = found[at - 1].text if at else " "
        after = found[at + 1].text if at + 1 < len(found) else " "
        third = found[at + 2].text if at + 2 < len(found) else " "
        inside = before.isalpha() and before.islower() and not after.isupper()
        elided = language in _ELISION and not before.isalpha() and after in _MARKS
        he = language == "fr" and before == "I" and not after.isalpha() and _starts(found, at - 1)
        if char.text == "I" and (inside or he or (elided and third.islower())):
            found[at] = replace(char, text="l")
    return found


def _starts(chars: Sequence[Char], at: int) -> bool:
    """Whether a sentence may begin here: no king's number does."""
    before = [char.text for char in chars[max(0, at - 2) : at] if not char.text.isspace()]
    return not before or before[-1] in '.!?…«“"—–:;('
