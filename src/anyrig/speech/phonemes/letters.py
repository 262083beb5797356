"""The names of letters in IPA, for abbreviations that are spelled: CIA, a.m., HTML."""

from __future__ import annotations

import unicodedata

_ENGLISH = {
    "a": "eɪ", "b": "biː", "c": "siː", "d": "diː", "e": "iː", "f": "ɛf", "g": "dʒiː",
    "h": "eɪtʃ", "i": "aɪ", "j": "dʒeɪ", "k": "keɪ", "l": "ɛl", "m": "ɛm", "n": "ɛn",
    "o": "oʊ", "p": "piː", "q": "kjuː", "r": "ɑːr", "s": "ɛs", "t": "tiː", "u": "juː",
    "v": "viː", "w": "ˈdʌbᵊljuː", "x": "ɛks", "y": "waɪ", "z": "ziː",
}  # fmt: skip
_BRITISH = _ENGLISH | {"r": "ɑː", "z": "zɛd"}
_SPANISH = {
    "a": "a", "b": "be", "c": "θe", "d": "de", "e": "e", "f": "ˈefe", "g": "xe",
    "h": "ˈatʃe", "i": "i", "j": "ˈxota", "k": "ka", "l": "ˈele", "m": "ˈeme", "n": "ˈene",
    "ñ": "ˈeɲe", "o": "o", "p": "pe", "q": "ku", "r": "ˈere", "s": "ˈese", "t": "te",
    "u": "u", "v": "ˈuβe", "w": "ˈuβe ˈðoβle", "x": "ˈekis", "y": "je", "z": "ˈθeta",
}  # fmt: skip
_FRENCH = {
    "a": "a", "b": "be", "c": "se", "d": "de", "e": "ə", "é": "e", "f": "ɛf", "g": "ʒe",
    "h": "aʃ",
    "i": "i", "j": "ʒi", "k": "ka", "l": "ɛl", "m": "ɛm", "n": "ɛn", "o": "o", "p": "pe",
    "q": "ky", "r": "ɛʁ", "s": "ɛs", "t": "te", "u": "y", "v": "ve", "w": "dubləˈve",
    "x": "iks", "y": "iˈɡʁɛk", "z": "zɛd",
}  # fmt: skip
_ITALIAN = {
    "a": "a", "b": "bi", "c": "tʃi", "d": "di", "e": "e", "f": "ˈɛffe", "g": "dʒi", "h": "ˈakka",
    "i": "i", "j": "iˈlunɡa", "k": "ˈkappa", "l": "ˈɛlle", "m": "ˈɛmme", "n": "ˈɛnne", "o": "o",
    "p": "pi", "q": "ku", "r": "ˈɛrre", "s": "ˈɛsse", "t": "ti", "u": "u", "v": "vu",
    "w": "doppjoˈvu", "x": "iks", "y": "ˈipsilon", "z": "ˈdzɛta",
}  # fmt: skip
_PORTUGUESE = {
    "a": "a", "b": "be", "c": "se", "d": "de", "e": "e", "f": "ˈɛfi", "g": "ʒe", "h": "aˈɡa",
    "i": "i", "j": "ˈʒɔta", "k": "ka", "l": "ˈɛli", "m": "ˈemi", "n": "ˈeni", "o": "ɔ", "p": "pe",
    "q": "ke", "r": "ˈɛxi", "s": "ˈɛsi", "t": "te", "u": "u", "v": "ve", "w": "ˈdablju", "x": "ʃis",
    "y": "ˈipsilon", "z": "ze",
}  # fmt: skip
_NAMES = {
    "en": _ENGLISH, "en-gb": _BRITISH, "es": _SPANISH, "fr": _FRENCH, "it": _ITALIAN,
    "pt": _PORTUGUESE,
}  # fmt: skip
_MAX_JOINED = 5
"""A longer string is a code, not an abbreviation: a space after each letter slows it down."""
_VOICELESS, _SIBILANT = ("f", "k", "p", "t"), ("s", "z", "ʃ", "tʃ")


def spell_ipa(letters: str, language: str) -> str:
    """IPA of the names of letters, stressed as an abbreviation is: CIA is `ˌsiːˌaɪˈeɪ`.

    An `s` or `'s` in lower case after capitals is an ending (PCs, the BBC's). Full stops and spaces
    are ignored. Empty if the language has no letter names here, or a character is not a letter.

    Args:
        letters: "CIA", "a.m.", "PCs".
        language: "en", "es", "fr", "it", "pt" or with a region; "en-GB" says zed.
    """
    names = _NAMES.get(language.lower().replace("_", "-")) or _NAMES.get(language[:2].lower())
    if names is None:
        return ""
    stem, ending = _split_ending(letters) if names in (_ENGLISH, _BRITISH) else (letters, False)
    spelled = []
    for letter in stem.lower():
        if letter in ". ":
            continue
        name = names.get(letter) or names.get(unicodedata.normalize("NFD", letter)[0])
        if name is None:
            return ""
        spelled.append(name)
    if not spelled:
        return ""
    weak = [_stress(name, "ˌ") for name in spelled[:-1]]
    whole = ("" if len(spelled) <= _MAX_JOINED else " ").join([*weak, _stress(spelled[-1], "ˈ")])
    return whole + (_plural_ending(whole) if ending else "")


def _split_ending(letters: str) -> tuple[str, bool]:
    for ending in ("'s", "’s", "s"):
        stem = letters.removesuffix(ending)
        if stem != letters and stem.isupper():
            return stem, True
    return letters, False


def _stress(name: str, mark: str) -> str:
    return name.replace("ˈ", mark) if "ˈ" in name else mark + name


def _plural_ending(ipa: str) -> str:
    if ipa.endswith(_SIBILANT):
        return "ɪz"
    return "s" if ipa.endswith(_VOICELESS) else "z"
