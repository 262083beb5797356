"""How Italian is read: by its spelling, with tables for stress and open vowels.

Spelling does not say where words without an accent are stressed, nor whether a stressed e or o is
open. Both are decided by endings, with tables of common words that differ (`italian_words`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anyrig.speech.phonemes.italian_words import (
    CLOSED_E,
    CLOSED_O,
    EARLY,
    LATE,
    OPEN_E,
    OPEN_O,
    VERBS,
)
from anyrig.speech.phonemes.spelling import mark_stress

_UNSTRESSED = frozenset(
    "a ad ai al ci che chi col con da dai dal degli dei del di e ed è fra gli ha hai ho i il in "
    "la le lo ma mi ne nei nel non o per più quel se si su sul ti tra un vi".split()
)
_WEAK = frozenset(
    "abbiamo agli alla alle allo dagli dalla dalle dallo della delle dello era hanno lei lui "
    "mentre mia mie miei mio negli nella nelle nello nessuno perché senza sia siano sono sua sue "
    "sugli sui sulla sulle sullo suo suoi tua tue tuo tuoi una uno verso".split()
)
"""With a second stress only."""
_FOREIGN = {
    "computer": "compiùter", "facebook": "feisbùc", "google": "gùgol", "hotel": "otèl",
    "internet": "ìnternet",
    "jazz": "gez", "jeans": "gìns", "john": "giòn", "manager": "mànager", "new": "niù",
    "shakespeare": "scèspir",
    "show": "sciò", "software": "sòftuer", "taxi": "tàcsi", "washington": "uòscinton", "web": "uèb",
    "weekend": "uichènd", "whisky": "uìschi", "york": "iòrc", "youtube": "iutùb",
}  # fmt: skip

# Endings with the stress on the last syllable but two.
_EARLY_ENDINGS = re.compile(
    r"(?:[aei]vano|[aei]rono|[aei]ssero|[aei]ssimo|ebbero|issim[aeio]|esim[aeio]"
    r"|[aiu]bil[ei]|evol[aeio]|ace[aei]|ane[aoie]|[^aeiou]ic[aoi]|[^aeiou]ich[ei]"
    r"|[aeiou][tnlrmsfp]ic[aoi]|[aeiou][tnlrm]iche"
    r"|(?:log|graf|fon|metr|fil)[oi]|ologhi|(?:[gd]|[^a]m)in[ei]|[bcfglmprtv]id[aeio]"
    r"|[cpbt]ol[aeio]|[ctd]ul[aeio]"
    r"|ordici|[sg]cono|ggono|[ln]gono|[rn]dono"
    r"|(?:gen|pot|int|tet)esi|(?:nom|tom|trop|crat|mach|fag)[oia]"
    r"|(?:criv|[dn]d|gg|[nlr]g|nc|sc|tt|gli|rr|gn|mp|[iu]d|prim|ist|u?ov|lv|tend)ere)$"
)
_ENCLITIC = re.compile(r"(?<=.er)(?:si|mi|ti|ci|vi|l[oaie]|ne)$")
"""After an infinitive, which keeps its stress: `muoversi` as `muovere`."""
# Stressed on the i of -ia, -ie and -io.
_STRESSED_I = re.compile(
    r"(?:logi|grafi|nomi|tropi|nesi|giuri|sofi|fobi|metri|pati|archi|crazi|tomi|teori|gori"
    r"|tratto?ri|[^tsf]eri|ggeri|polizi|pulizi|"
    r"pazzi|anzi|garanzi|energi|allergi|magi|bugi|strategi|nostalgi|farmaci|terapi|follì|folli"
    r"|poesi|fantasi|"
    r"gelosi|cortesi|ipocrisi|borghesi|allegri|compagni|malatti|simpati|armoni|sinfoni|ironi"
    r"|maci)[ae]$"
    r"|^(?:v|z|m|d|p|r|s|sp|sc|mar|luc|sof|add|pend|brus|legg|obl|ronz|mormor|frusc|inv|avv|rinv"
    r"|cigol|lavor)i[aeo]$"
    r"|^siano$|^zii$"
)
_PLAIN_I = re.compile(
    r"(?:materi|miseri|arteri|feri|seri|iberi|siberi|nigeri|germani|romani|campani|gloria"
    r"|stori)[ae]$"
)
_STRESSED_U = re.compile(r"(?:^|nta|enti|nto|mila?|e)due$|^(?:[st]u[oae]|bue)$")

# Endings with an open e or o where they are stressed.
_OPEN_E_ENDINGS = re.compile(
    r"(?:ent[eio]|enz[ae]|ell[aeio]|ier[aeio]|ern[aeio]|ers[aeio]|ert[aeio]|ev[ao]|endere|endono"
    r"|est[aeoi]|ergo|"
    r"erm[oi]|err[aeo]|e[oi]|elm[oi]|eggere|e[nz]zi[aoe]|ezi[ao]|edic[oai]|[mtr]?etic[aoi]"
    r"|eric[aoi]|enic[aoi]|end[ao]|"
    r"erci?o|ebbero|esim[oaei]|enne|eni[oa]|eri[oa])$"
)
_CLOSED_E_ENDINGS = re.compile(r"(?:ment[eoi]|ett[oaie]|ezz[ae]|es[eai]|evol[ei])$")
_OPEN_O_ENDINGS = re.compile(
    r"(?:ori[aoe]|ologo|ologi|oni[ao]|ozi[ao]|ott[aeo]|ort[aeio]|[iu]ol[aeio]|omen[oi]"
    r"|o[mnrtlgf]ic[aoi]|ofono|"
    r"ografo|ometro|uo[a-z]+)$"
)
_VOICED_ZZ = re.compile(
    r"mezz|azzurr|gazz|razz[oi]$|bizzarr|brezz|orizzont|pranz|romanz|zanz|garz|ronz|magazz|izzare"
    r"|izzat|izzazi"
)
_HARD_GLI = re.compile(r"glic|glif|gliss|anglic|neglig|gangli")

_VOWELS = "aeiouàèéìíòóùú"
_PLAIN = str.maketrans("àéìíóùú", "aeiiouu")
_LETTERS = {"b": "b", "d": "d", "f": "f", "j": "j", "k": "k", "l": "l", "m": "m", "n": "n",
    "p": "p",
            "q": "k", "t": "t", "v": "v", "w": "w", "x": "ks", "y": "i"}  # fmt: skip
_CLUSTERS = (("cqu", "kːw"), ("qqu", "kːw"), ("qu", "kw"), ("gn", "ɲ"), ("sch", "sk"),
("cch", "kː"), ("ggh", "ɡː"),
             ("ch", "k"), ("gh", "ɡ"), ("ph", "f"), ("th", "t"), ("sh", "ʃ"))  # fmt: skip


def read_clause(words: Sequence[str]) -> list[str]:
    return [_read_word(word, alone=len(words) == 1) for word in words]


def _read_word(word: str, *, alone: bool) -> str:
    plain = word.lower().rstrip("-")
    before, apostrophe, after = plain.partition("'")
    if apostrophe and after:  # l'amico, dell'inverno, dov'è: one word, stressed in its second part
        elided = "ʧ" if before == "c" else _read_letters(before, "")
        return elided + _read_letters(_FOREIGN.get(after, after), "ˈ")
    plain = _FOREIGN.get(before, before)
    if not alone and plain in _UNSTRESSED:
        return _read_letters(plain, "")
    return _read_letters(plain, "ˌ" if not alone and plain in _WEAK else "ˈ")


def _read_letters(word: str, stress: str) -> str:
    units, nuclei, accented = _parse(word)
    if not nuclei:
        return "".join(units)
    stressed = accented if accented >= 0 else _find_stress(word, len(nuclei))
    place = nuclei[stressed]
    if stress and accented < 0:
        units[place] = _open_vowel(_ENCLITIC.sub("e", word), units, place)
    if stress == "ˈ":
        marked = mark_stress(units, nuclei, stressed)
    else:
        marked = mark_stress(units, nuclei, -1, [stressed] if stress else [])
    return _apply_allophones(marked, bool(stress))


def _find_stress(word: str, num_syllables: int) -> int:
    """Which syllable of a word without an accent."""
    infinitive = _ENCLITIC.sub("e", word)
    if infinitive != word and num_syllables > 2:
        return _find_stress(infinitive, num_syllables)
    last = num_syllables - 1
    if re.search(r"[aeo]i$|[^aeiou]ui$|[rln]$", word):  # vorrei, operai; dottor, andar
        return last
    if num_syllables < 3 or word in LATE:
        return max(0, last - 1)
    if word.endswith("no") and word[:-2] in EARLY and num_syllables > 3:
        return last - 3
    is_early = (
        word in EARLY or (word.endswith("no") and word[:-2] in VERBS) or _EARLY_ENDINGS.search(word)
    )
    return last - 2 if is_early else last - 1


def _open_vowel(word: str, units: Sequence[str], place: int) -> str:
    """A stressed e or o, open or closed."""
    vowel = units[place]
    if vowel == "e":
        if word in CLOSED_E or word in OPEN_E:
            return "e" if word in CLOSED_E else "ɛ"
        if place and units[place - 1] == "j":
            return "ɛ"
        is_open = _OPEN_E_ENDINGS.search(word) and not _CLOSED_E_ENDINGS.search(word)
        return "ɛ" if is_open else "e"
    if vowel == "o":
        if word in CLOSED_O:
            return "o"
        if word in OPEN_O or (place and units[place - 1] == "w") or _OPEN_O_ENDINGS.search(word):
            return "ɔ"
    return vowel


def _parse(word: str) -> tuple[list[str], list[int], int]:
    """Sounds, which of them are vowels of syllables, and which of those has a written accent."""
    units: list[str] = []
    nuclei: list[int] = []
    accented = -1
    place = 0
    while place < len(word):
        letter, after = word[place], word[place + 1 : place + 2]
        if letter not in _VOWELS:
            sounds, length = _read_consonant(word, place)
            units += sounds
            place += length
            continue
        if letter in "iu" and _is_glide(word, place):
            units.append("j" if letter == "i" else "w")
            place += 1
            continue
        if letter not in "aeiou":
            accented = len(nuclei)
        nuclei.append(len(units))
        units.append({"è": "ɛ", "ò": "ɔ"}.get(letter, letter.translate(_PLAIN)))
        place += 1
        is_falling = letter in "aeoàèéòó" and after in ("i", "u") and not _is_vowel(word, place + 1)
        if is_falling or (letter == "u" and word[place:] == "i"):
            units.append("i" if after == "i" else "ʊ")
            place += 1
    return units, nuclei, accented


def _is_vowel(word: str, place: int) -> bool:
    return word[place : place + 1] != "" and word[place] in _VOWELS


def _is_glide(word: str, place: int) -> bool:
    """Whether an i or u is said as the beginning of the next vowel."""
    if not _is_vowel(word, place + 1):
        return False
    if word[place] == "u":
        return word[place + 1 :] != "i" and not _STRESSED_U.search(word)
    return not _has_stressed_i(word, place)


def _has_stressed_i(word: str, place: int) -> bool:
    is_last = place + 2 == len(word) or word == "siano"
    return is_last and bool(_STRESSED_I.search(word)) and not _PLAIN_I.search(word)


def _read_consonant(word: str, place: int) -> tuple[list[str], int]:
    """The sounds at a place, and how many letters they are written with."""
    letter, after = word[place], word[place + 1 : place + 2]
    if word.startswith("gli", place) and not _HARD_GLI.match(word, place):
        return ["ʎ"], 3 if _is_vowel(word, place + 3) and not _has_stressed_i(
            word, place + 2
        ) else 2
    if word.startswith(("sce", "sci", "scé", "scè", "scì"), place):
        is_silent = word[place + 2] == "i" and _is_vowel(word, place + 3)
        return ["ʃ"], 3 if is_silent and not _has_stressed_i(word, place + 2) else 2
    for letters, sounds in _CLUSTERS:
        if word.startswith(letters, place):
            return list(sounds), len(letters)
    doubled = after == letter
    if letter in "cg":
        return _read_cg(word, place, doubled)
    if letter == "z":
        sound = "ʣ" if place == 0 or _VOICED_ZZ.search(word) else "ʦ"
    elif letter == "s":
        return (["S"], 2) if doubled else (["z" if _is_voiced_s(word, place) else "s"], 1)
    elif letter in "rlmnfv" and doubled:
        return [letter, "ɾ" if letter == "r" else letter], 2
    else:
        sound = "r" if letter == "r" else _LETTERS.get(letter, "")
    return [*sound, *("ː" if doubled and sound else "")], 1 + doubled


def _read_cg(word: str, place: int, doubled: bool) -> tuple[list[str], int]:
    at = place + doubled
    after = word[at + 1 : at + 2]
    is_soft = after != "" and after in "eiéèìí"
    sound = ("ʧ" if is_soft else "k") if word[place] == "c" else ("ʤ" if is_soft else "ɡ")
    is_silent = after == "i" and _is_vowel(word, at + 2) and not _has_stressed_i(word, at + 1)
    return [sound, *("ː" if doubled else "")], 1 + doubled + is_silent


def _is_voiced_s(word: str, place: int) -> bool:
    after = word[place + 1 : place + 2]
    if after and after in "bdgvlmnr":
        return True
    return place > 0 and _is_vowel(word, place - 1) and _is_vowel(word, place + 1)


def _apply_allophones(sounds: str, is_stressed: bool) -> str:
    """Unstressed final i and all unstressed u are slack; ɲ after a stressed vowel is long."""
    if not is_stressed:
        sounds = sounds.replace("ɛ", "e").replace("ɔ", "o")
        sounds = re.sub("(?<=[aeo])i$", "j", sounds)
    if len(sounds) > 1:
        sounds = re.sub(r"(?<![ˈˌaeoɛɔuʊ])i$", "ɪ", sounds)
    sounds = re.sub("(ˈ[aeiouɛɔ])ɲ", r"\1ɲɲ", sounds)
    return re.sub("(?<!ˈ)u", "ʊ", sounds)
