"""How Spanish is read: by its spelling, in Castilian or in American Spanish.

Castilian has θ and ʎ; American Spanish says s and ʝ for them. Voices were trained on Castilian.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from anyrig.speech.phonemes.spelling import mark_stress, strip_accents

_UNSTRESSED = frozenset(
    "a al con de del e el en la las le les lo los me mi mis ni nos o os por que se si sin su sus "
    "te tu tus u y".split()
)
_WEAK = frozenset(
    "aunque bajo como cuando desde donde entre hacia hasta mientras para pero porque pues sino "
    "sobre".split()
)
"""With a second stress only."""
_X_AS_J = re.compile(r"^(mexi[ck]|mexiq|oaxa|texa[ns]|ximen|xalap|xavier)")
# Words of other languages, as they are spelled for these rules.
_FOREIGN = {
    "beatles": "bítels", "blues": "blus", "boeing": "bóing", "byte": "bait", "bytes": "baits",
    "chef": "chef", "club": "club", "email": "ímeil", "facebook": "féisbuk", "football": "fútbol",
    "google": "gúguel", "hall": "jol", "hardware": "járgüer", "hobby": "jobi",
    "hollywood": "jóligud",
    "iphone": "áifon", "jazz": "yas", "jeans": "yins", "john": "yon", "marketing": "márketin",
    "michael": "máikel", "microsoft": "máicrosoft", "mouse": "maus", "new": "niu",
    "online": "onlain",
    "peter": "píter", "pizza": "pitsa", "pizzas": "pitsas", "rock": "rok", "sándwich": "sánguich",
    "shakespeare": "shéikspir", "show": "shou", "software": "sófgüer", "sheriff": "shérif",
    "twitter": "tuíter", "washington": "guáshinton", "whatsapp": "guátsap", "whisky": "güiski",
    "wifi": "güifi", "windows": "güíndous", "york": "york", "youtube": "yutub", "zoom": "sum",
}  # fmt: skip
_NO_ADVERBS = frozenset("aumente clemente comente demente fomente vehemente".split())
_VOWELS = "aeiouáéíóúüy"
_PLAIN = str.maketrans("áéíóúüy", "aeiouui")
_FALLING = {"ai": "I", "ei": "A", "au": "W", "oi": "oɪ", "eu": "eʊ", "ou": "ow"}
_ACCENTED_FALLING = {"ai": "ai", "ei": "ei", "au": "au", "oi": "oɪ", "eu": "eʊ", "ou": "ow"}
_CONSONANTS = (
    ("ch", "ʧ"), ("ll", "ʎ"), ("rr", "r"), ("sh", "ʃ"), ("ph", "f"), ("th", "t"),
    ("tz", "ʦ"), ("b", "b"), ("v", "b"), ("d", "d"), ("f", "f"), ("j", "x"),
    ("k", "k"), ("l", "l"), ("m", "m"), ("n", "n"), ("ñ", "ɲ"), ("p", "p"), ("s", "s"),
    ("t", "t"), ("z", "θ"), ("ç", "s"),
)  # fmt: skip
_SOFT = {"b": "β", "d": "ð", "ɡ": "ɣ"}
_SILENT_STARTS = ("ps", "pn", "pt", "gn", "mn", "cn", "wr")


def is_american(language: str) -> bool:
    """Whether a language tag names a Spanish with seseo and yeísmo: any region but Spain."""
    _, _, region = language.replace("_", "-").partition("-")
    return bool(region) and region.upper().split("-")[-1] not in ("ES", "EA", "IC")


def read_clause(words: Sequence[str], *, american: bool = False) -> list[str]:
    sounds = [_read_word(word, alone=len(words) == 1) for word in words]
    for index, sound in enumerate(sounds):
        before = sounds[index - 1] if index else ""
        after = sounds[index + 1] if index + 1 < len(sounds) else ""
        sounds[index] = _join(before, sound, after)
    if american:
        sounds = [sound.replace("θ", "s").replace("ʎ", "ʝ") for sound in sounds]
    return sounds


def _join(before: str, sound: str, after: str) -> str:
    """b, d, g after anything but a pause or a nasal are soft; n before lips is m."""
    first, rest = sound[:1], sound[1:]
    if first in _SOFT and before and before[-1] not in "mnŋ":
        first = _SOFT[first]
    sound = first + rest
    start = after.lstrip("ˈˌ")[:1]
    if sound.endswith("n") and start in tuple("bpβ"):
        sound = sound[:-1] + "m"
    elif sound.endswith("n") and start == "ɡ":
        sound = sound[:-1] + "ŋ"
    elif sound.endswith("d") and start in tuple("aeiouIAWɛ"):
        sound = sound[:-1] + "ð"
    return sound


def _read_word(word: str, *, alone: bool) -> str:
    plain = word.lower().replace("'", "").rstrip("-")
    plain = _FOREIGN.get(plain, plain)
    if len(plain) > 6 and plain.endswith("mente") and strip_accents(plain) not in _NO_ADVERBS:
        return _read_stem(plain[:-5], "ˈ") + "mˈente"
    if not alone and plain in _UNSTRESSED:
        return _read_stem(plain, "")
    return _read_stem(plain, "ˌ" if not alone and plain in _WEAK else "ˈ")


def _read_stem(word: str, stress: str) -> str:
    units, nuclei, accented = _parse(word)
    if not nuclei:
        return "".join(units)
    stressed = accented
    if accented < 0:
        is_penultimate = re.search("[aeiouü][ns]?$", word) is not None
        stressed = max(0, len(nuclei) - 1 - is_penultimate)
    if stress != "ˈ":
        marked = mark_stress(units, nuclei, -1, [stressed] if stress else [])
    else:
        marked = mark_stress(units, nuclei, stressed, range(0, stressed - 1, 2))
    return _apply_allophones(marked)


def _parse(word: str) -> tuple[list[str], list[int], int]:
    """Sounds, which of them are vowels of syllables, and which of those is accented, or -1."""
    if _X_AS_J.match(strip_accents(word)):
        word = word.replace("x", "j")
    if word.startswith(_SILENT_STARTS):
        word = word[1:]
    units: list[str] = []
    nuclei: list[int] = []
    accented = -1
    place = 0
    while place < len(word):
        run = _find_vowels(word, place)
        for syllable in _split_vowels(run):
            units += syllable.glide
            if syllable.accented:
                accented = len(nuclei)
            nuclei.append(len(units))
            units.append(syllable.vowel)
        place += len(run)
        if not run:
            sound, length = _read_consonant(word, place)
            units += sound
            place += length
    return units, nuclei, accented


def _find_vowels(word: str, place: int) -> str:
    """The vowels from a place on; y is one at the end of a word and before a consonant."""
    end = place
    while end < len(word) and word[end] in _VOWELS:
        if word[end] == "y" and word[end + 1 : end + 2] in tuple("aeiouáéíóú"):
            break
        end += 1
    return word[place:end]


class _Syllable(NamedTuple):
    glide: str
    vowel: str
    """Or a falling diphthong."""
    accented: bool


def _split_vowels(run: str) -> list[_Syllable]:
    """The syllables of vowels that follow each other."""
    syllables = []
    place = 0
    while place < len(run):
        glide = ""
        if _is_glide(run, place):
            glide = "j" if run[place] in "iy" else "w"
            place += 1
        letter = run[place]
        vowel = letter.translate(_PLAIN)
        after = run[place + 1 :].translate(_PLAIN)
        is_accented = letter in "áéíóú"
        if vowel in "aeo" and run[place + 1 :] in ("i", "u", "y"):
            vowel = (_ACCENTED_FALLING if is_accented else _FALLING)[vowel + after]
            place += 1
        elif run[place:] == "uy":
            vowel = "uj"
            place += 1
        syllables.append(_Syllable(glide, vowel, is_accented))
        place += 1
    return syllables


def _is_glide(run: str, place: int) -> bool:
    """Whether an i or u without an accent begins the syllable of the next vowel."""
    letter, after = run[place], run[place + 1 : place + 2]
    if letter not in "iuüy" or not after or run[place:] == "uy":
        return False
    return after in "aeoáéó" or after.translate(_PLAIN) != letter.translate(_PLAIN)


def _read_consonant(word: str, place: int) -> tuple[str, int]:
    """The sound at a place, and how many letters it is written with."""
    letter, after = word[place], word[place + 1 : place + 2]
    soft = after != "" and after in "eiéíy"
    if letter == "y":
        return "ʝ", 1
    if letter == "c" and after != "h":
        return ("θ" if soft else "k"), 1
    if letter == "g":
        return _read_g(word, place, soft)
    if letter == "q" and after == "u":
        return "k", 2 if word[place + 2 : place + 3] in tuple("eiéí") else 1
    if letter == "x":
        return ("s" if place == 0 else "ks"), 1
    if letter == "w":
        return "w", 1
    if letter == "r" and after != "r":
        is_strong = place == 0 or word[place - 1] in "nls"
        return ("r" if is_strong else "ɾ"), 1
    for letters, sound in _CONSONANTS:
        if word.startswith(letters, place) and not (letters == "sh" and word.startswith("desh")):
            doubled = len(letters) == 1 and after == letter and letter != "n"
            return sound, 2 if doubled else len(letters)
    return "", 1


def _read_g(word: str, place: int, soft: bool) -> tuple[str, int]:
    if soft:
        return "x", 1
    if word[place + 1 : place + 2] == "u" and word[place + 2 : place + 3] in tuple("eiéí"):
        return "ɡ", 2
    return "ɡ", 1


_OPEN_E = re.compile("ˈe(?=n[tdθsʧɡk])")


def _apply_allophones(sounds: str) -> str:
    sounds = re.sub("n(?=ˈ?[bpβ])", "m", sounds)
    sounds = re.sub("(?<=[^mnŋˈˌ])b|(?<=[^mnŋ][ˈˌ])b", "β", sounds)
    sounds = re.sub("(?<=[^mnŋ])ɡ", "ɣ", sounds)
    sounds = re.sub("(?<=[^mnŋ])d(?=[ˈˌ]?[aeiouɛIAWjwɾ])", "ð", sounds)
    sounds = _OPEN_E.sub("ˈɛ", sounds)
    return re.sub("n(?=[ɡx])", "ŋ", sounds)
