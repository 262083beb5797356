"""The French dictionary of the package g2p2-group-romance, in a form that opens at once.

The package has 1.6 million words with their IPA, from the French Wiktionary, in a compressed file
that takes ten seconds to read. A sentence looks up a few: the words are kept once, sorted, as a
derived file, and are searched there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import lzma
import re
from pathlib import Path

from anyrig.errors import MissingWeightsError
from anyrig.speech.phonemes.tables import find_line
from anyrig.storage import derived

PACKAGE = "g2p2-group-romance"
FILE = "fr.g2p.xz"
SHA256 = "4214afa02721d99d457341e1ea27667311e818bebca6715dc3769e56778b7c56"
"""Of the file in version 0.2.3."""
_FORM = "3"
# The signs that Kokoro was trained on; what is not here is not said.
_SIGNS = str.maketrans(
    {"ɥ": "y", "g": "ɡ", "r": "ʁ", "ɹ": "ʁ", "ʀ": "ʁ", "χ": "ʁ", "ɾ": "ʁ", "ʎ": "j", "ǝ": "ə",
    "ε": "ɛ",
     "ɪ": "i", "ʊ": "u", "ã": "ɑ\u0303", "ẽ": "ɛ\u0303", "õ": "ɔ\u0303"}
)  # fmt: skip
_UNKNOWN = re.compile("[^abdefijklmnopstuvwyzøœɔəɛɑɡɲŋʁʃʒ\u0303\n]+")
_BACK_A = re.compile("ɑ(?!\u0303)")


def find_file(folder: Path | None = None) -> Path | None:
    """The dictionary in a folder, or in the installed package; None if it is in neither."""
    if folder is not None and (folder / FILE).is_file():
        return folder / FILE
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    places = spec.submodule_search_locations if spec is not None else None
    path = Path(places[0]) / FILE if places else None
    return path if path is not None and path.is_file() else None


class FrenchWords:
    """Words with their phonemes."""

    def __init__(self, path: Path) -> None:
        packed = path.read_bytes()
        if hashlib.sha256(packed).hexdigest() != SHA256:
            raise MissingWeightsError(
                f"{path} is not the published dictionary: its SHA-256 differs",
                hint=f"Install {PACKAGE} again, version 0.2.3.",
            )
        self._lines = derived.derive("french-words", SHA256, _FORM, build=lambda: _convert(packed))

    def find(self, word: str) -> str:
        """Phonemes without stress; empty for a word that is not here."""
        return (find_line(self._lines, word.encode()) or b"").decode()


def _convert(packed: bytes) -> bytes:
    """Lines of a word, a tab and its phonemes, sorted."""
    data = lzma.decompress(packed)
    place = _skip_model(data)
    count, place = _read_number(data, place), place + 4
    words, sounds = [], []
    for _ in range(count):
        end = place + 2 + (data[place] | data[place + 1] << 8)
        words.append(data[place + 2 : end])
        place = end + 2 + (data[end] | data[end + 1] << 8)
        sounds.append(data[end + 2 : place])
    cleaned = _clean(b"\n".join(sounds)).split(b"\n")
    pairs = zip(words, cleaned, strict=True)
    lines = [b"%b\t%b" % pair for pair in pairs if pair[1] and pair[0].decode().isalpha()]
    lines.sort()
    return b"\n".join(lines)


def _clean(ipa: bytes) -> bytes:
    return _BACK_A.sub("a", _UNKNOWN.sub("", ipa.decode().translate(_SIGNS))).encode()


def _skip_model(data: bytes) -> int:
    """Where the words begin: after tokens and the tables of an n-gram model, which are not used."""
    num_tokens, place = _read_number(data, 8), 12
    for _ in range(2 * num_tokens):
        place += 2 + (data[place] | data[place + 1] << 8)
    for _table in range(2):
        num_entries, place = _read_number(data, place), place + 4
        for _ in range(num_entries):
            num_ids = data[place]
            place += 1
            while num_ids:
                num_ids -= data[place] < 0x80
                place += 1
            place += 2
    return place + 4


def _read_number(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 4], "little")
