"""Which reader makes phonemes of a language for Kokoro's voices.

Spanish, Italian and Portuguese are read by rules; French by rules and the dictionary of a package.
espeak-ng (GPL), from the `espeak` extra, reads French where that dictionary is missing, and any of
them on request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from anyrig.speech.phonemes import PhonemeReader, french_words, has_espeak
from anyrig.speech.phonemes.spelling import ReadClause, SpellingReader

_RULES_ONLY = ("es", "it", "pt")
_ESPEAK_NAMES = {"es": "es", "fr": "fr-fr", "it": "it", "pt": "pt-br"}
# espeak-ng's signs of one sound, joined by ^, and the one sign for them in Kokoro's alphabet.
_SIGNS = (("a^ɪ", "I"), ("a^ʊ", "W"), ("e^ɪ", "A"), ("o^ʊ", "O"), ("ə^ʊ", "Q"), ("ɔ^ɪ", "Y"),
          ("d^z", "ʣ"), ("d^ʒ", "ʤ"), ("t^s", "ʦ"), ("t^ʃ", "ʧ"), ("s^s", "S"), ("^", ""),
          ("-", ""))  # fmt: skip
_UNTIED = re.compile("tʃ|dʒ|ts|dz")


def can_read(language: str, folder: Path | None) -> bool:
    """Whether a text in a language, without its region, can be read aloud."""
    if language in _RULES_ONLY:
        return True
    return language == "fr" and (french_words.find_file(folder) is not None or has_espeak())


def open_reader(language: str, folder: Path | None, *, use_espeak: bool = False) -> PhonemeReader:
    """A reader of Spanish, French, Italian or Portuguese.

    Args:
        language: with or without a region: `es-MX` is read with seseo.
        folder: that may have the French dictionary.
        use_espeak: read it with espeak-ng, if that is installed or not.
    """
    base = language.replace("_", "-").partition("-")[0].lower()
    if use_espeak or (base == "fr" and french_words.find_file(folder) is None):
        return _open_espeak(_ESPEAK_NAMES[base])
    rules = _load_rules(base, language, folder)
    return SpellingReader(rules, language=base, from_ipa=_map_inline)


def _load_rules(base: str, language: str, folder: Path | None) -> ReadClause:
    if base == "es":
        from anyrig.speech.phonemes import spanish

        return partial(spanish.read_clause, american=spanish.is_american(language))
    if base == "it":
        from anyrig.speech.phonemes import italian

        return italian.read_clause
    if base == "pt":
        from anyrig.speech.phonemes import portuguese

        return portuguese.read_clause
    from anyrig.speech.phonemes import french

    path = french_words.find_file(folder)
    assert path is not None
    return french.FrenchRules(french_words.FrenchWords(path)).read_clause


def _open_espeak(name: str) -> PhonemeReader:
    from anyrig.speech.phonemes.espeak import Espeak

    inline: Callable[[str], str] = partial(_map_signs, tie="͡")
    return Espeak(name, map_phonemes=_map_signs, map_inline=inline, tie=True)


def _map_signs(text: str, *, tie: str = "^") -> str:
    text = text.replace(tie, "^")
    for theirs, ours in _SIGNS:
        text = text.replace(theirs, ours)
    return text


def _map_inline(ipa: str) -> str:
    """IPA as people write it, in Kokoro's alphabet."""
    tied = _UNTIED.sub(lambda found: "͡".join(found[0]), ipa.replace("g", "ɡ").replace("͡", ""))
    return _map_signs(tied, tie="͡")
