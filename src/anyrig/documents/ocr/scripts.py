"""Which characters a page may hold: those of its language's script, found out where not said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.documents.ocr.ctc import Alphabet
    from anyrig.documents.ocr.lines import Seen

_OTHER = {"zh", "ja", "ko", "ru", "uk", "be", "bg", "sr", "mk", "el", "ar", "he", "hi", "th"}
"""Languages that are written in other letters."""
_LATER = "ȘșȚțƠơƯưƏəǍǎǏǐǑǒǓǔǪǫ"
"""Latin letters of living languages beyond the first two blocks; the rest are phonetic signs."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz")
LETTERS = {
    "en": "ï", "es": "áéíóúüñ", "fr": "éèêëàâæçîïôœùûüÿ", "de": "äöüß", "it": "àèéìíîòóùú",
    "pt": "áâãàçéêíóôõú", "nl": "éëïö", "ca": "àçèéíïòóúüŀ", "gl": "áéíóúüñ",
}  # fmt: skip
"""Beyond a to z: what a language writes."""
_LOANS = "áàâäçéèêëíîïñóôöœæúûüåøß"
"""What stands in names and words that languages borrow from each other."""
_SAMPLE = 12
_FOREIGN = 0.02
"""A share of other letters that is no slip."""


class Alphabets:
    """All characters that a network knows, and those of Latin script."""

    def __init__(self, whole: Alphabet) -> None:
        self.whole = whole
        self.latin = whole.only(one for one in whole.characters if is_latin(one))
        self._known: dict[str, Alphabet] = {}

    def of(self, language: str, seen: Sequence[Seen]) -> Alphabet:
        """What a page is spelt with: its language's script, or that of its longest lines."""
        if language:
            return self.whole if language in _OTHER else self.latin
        sample = sorted(seen, key=lambda one: -len(one.columns) * one.share)[:_SAMPLE]
        text = "".join(char.text for one in sample for char in one.spelt(self.whole))
        letters = [char for char in text if char.isalpha()]
        foreign = sum(not is_latin(char) for char in letters)
        return self.whole if foreign > _FOREIGN * len(letters) else self.latin

    def expecting(self, language: str, alphabet: Alphabet) -> Alphabet:
        """An alphabet for a language that is known by now: letters foreign to it become rare."""
        if alphabet is not self.latin or language not in LETTERS:
            return alphabet
        if language not in self._known:
            self._known[language] = alphabet.expecting(
                _PLAIN | frozenset(LETTERS[language]), frozenset(_LOANS)
            )
        return self._known[language]


def is_latin(text: str) -> bool:
    """Whether a character may stand in a text of Latin script: no sign of Chinese, no emoji."""
    if len(text) != 1:
        return False
    code = ord(text)
    if code < 0x180:
        return True
    if text.isalpha():
        return text in _LATER
    return 0x2000 <= code < 0x2070 or 0x20A0 <= code < 0x20D0 or text in "™№√≤≥≠≈−∞→←↑↓•■□●○◆★☆✓"


def language_of(text: str) -> str:
    """The language of what was read; empty where it says too little."""
    from anyrig.text.language import detect

    found = detect(text)
    return found.language if found.sure else ""
