"""How French is read: words by a dictionary or by their spelling, with elision and liaison.

A word that the dictionary does not have is read by rules. Final consonants that are silent are
heard before a vowel where French always or usually joins the two words: after articles, pronouns,
numerals, short prepositions and adverbs, and adjectives before their noun; before a verb's pronoun.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from anyrig.speech.phonemes.french_words import FrenchWords

_UNSTRESSED = frozenset(
    "a à ai as au aux c ce ces cet cette chez comme d dans de des dont du elle elles en es est et "
    "eu il ils j je l la le les leur leurs lui m ma mais me mes mon n ne ni nos notre nous on ont "
    "ou où par pas pour plus qu quand que quel quelle quelles quels qui s sa sans se ses son sont "
    "sous sur t ta te tes ton toute tout très tu un une vers vos votre vous y".split()
)
_WEAK = frozenset("après avant avec beaucoup contre depuis entre jusque pendant pourquoi".split())
"""With a second stress only."""
# Words that the dictionary does not have, or has in another meaning.
_WORDS = {
    "a": "a", "à": "a", "as": "a", "au": "o", "aux": "o", "ai": "e", "est": "ɛ", "es": "ɛ",
    "et": "e", "y": "i", "les": "le", "des": "de", "ces": "se", "mes": "me", "tes": "te",
    "ses": "se", "lacs": "lak", "resta": "ʁɛsta", "eu": "y", "eus": "y", "eut": "y", "ô": "o",
    "ah": "a", "oh": "o", "monsieur": "məsjø", "messieurs": "mesjø", "aujourd'hui": "oʒuʁdyi",
    "quelqu'un": "kɛlkœ̃", "prud'homme": "pʁydɔm", "presqu'île": "pʁɛskil", "homme": "ɔm",
    "hommes": "ɔm", "huile": "yil", "hui": "yi", "fils": "fis", "os": "ɔs", "août": "ut",
    "pays": "pɛi", "mœurs": "mœʁs", "donc": "dɔ̃k", "plus": "ply", "tous": "tu", "six": "sis",
    "dix": "dis", "huit": "yit", "cinq": "sɛ̃k", "vingt": "vɛ̃", "week": "wik", "end": "ɛnd",
    "jazz": "ʤaz", "john": "ʤɔn", "google": "ɡuɡœl", "facebook": "fɛsbuk", "internet": "ɛ̃tɛʁnɛt",
    "new": "nju", "york": "jɔʁk", "shakespeare": "ʃɛkspiʁ", "washington": "waʃiŋtɔn", "t": "t",
    "l": "l",
}  # fmt: skip
_ELIDED = {
    "c": "s", "d": "d", "j": "ʒ", "l": "l", "m": "m", "n": "n", "s": "s", "t": "t", "qu": "k",
    "jusqu": "ʒysk", "lorsqu": "lɔʁsk", "puisqu": "pyisk", "quoiqu": "kwak", "quelqu": "kɛlk",
    "presqu": "pʁɛsk", "entr": "ɑ̃tʁ",
}  # fmt: skip

# What follows them is joined: their silent consonant is heard before a vowel.
_JOINED = frozenset(
    "les des ces mes tes ses nos vos leurs aux un aucun mon ton son quels quelles quelques "
    "plusieurs certains certaines divers diverses différents différentes nous vous ils elles on "
    "en dans chez sans sous très plus moins bien trop tout tous dont quand est sont ont vont font "
    "suis deux trois six dix neuf vingt cent cents pas petit petits petites grand grands grandes "
    "gros grosses bon bons bonnes beaux belles nouveaux nouvelles vieux vieilles ancien anciens "
    "anciennes premier premiers premières dernier derniers dernières mauvais mauvaises autres "
    "mêmes jeunes longs longues long second saint certain plein prochain léger moyen excellents "
    "excellentes principaux meilleurs meilleures".split()
)
_DENASAL = {
    "bon": "bɔn", "certain": "sɛʁtɛn", "ancien": "ɑ̃sjɛn", "plein": "plɛn", "prochain": "pʁɔʃɛn",
    "moyen": "mwajɛn",
}  # fmt: skip
_FINAL = {"s": "z", "x": "z", "z": "z", "t": "t", "d": "t", "n": "n", "p": "p", "r": "ʁ", "f": "v"}
_SUBJECTS = frozenset("il elle on ils elles".split())
# Words that begin so are not joined to the one before.
_ASPIRATED = tuple(
    "hach hagard haie hain haï hall halte hamac hameau hamburg hampe hamster hanch hand hangar "
    "hanneton hant happ harangu haras harcel hard harem hareng hargn haricot harna harp hasard "
    "hase hât hâl hâbl hauss haut havre henn herni hériss héron héros hêtre heurt hibou hideu "
    "hiérarch hippie hiss hit hobby hoch hockey holl homard hongr hont hoquet horde hors hott "
    "houblon houe houill houl houpp hourra houss houx hublot huch huée huer huguenot huit hulul "
    "hun hupp hurl hussard hutt oui onz ouistiti yaourt yacht yoga week whisky".split()
)
_MIN_NAME = 4
_VOWEL_SOUNDS = "aeiouyøœɔəɛɑ"


class _FrenchWord(NamedTuple):
    """A written word: what was elided before it, and the rest."""

    elided: str
    core: str
    hyphen: bool
    """Whether a hyphen follows."""


class FrenchRules:
    """Reads clauses with a dictionary."""

    def __init__(self, words: FrenchWords) -> None:
        self._words = words

    def read_clause(self, words: Sequence[str]) -> list[str]:
        pieces = [self._split(word) for word in words]
        return [
            self._read_piece(pieces, index, alone=len(words) == 1) for index in range(len(pieces))
        ]

    def _split(self, word: str) -> _FrenchWord:
        plain = word.rstrip("-").rstrip("'")
        hyphen = word.endswith("-")
        before, apostrophe, after = plain.partition("'")
        if apostrophe and after and before.lower() in _ELIDED and plain.lower() not in _WORDS:
            return _FrenchWord(_ELIDED[before.lower()], after, hyphen)
        return _FrenchWord("", plain, hyphen)

    def _read_piece(self, pieces: Sequence[_FrenchWord], index: int, *, alone: bool) -> str:
        piece = pieces[index]
        word = piece.core.lower()
        after = pieces[index + 1] if index + 1 < len(pieces) else None
        before = pieces[index - 1] if index else None
        sounds = _adapt_number(word, self._find(piece.core), before, after)
        if word == "tous" and (after is None or after.core.lower() not in _DETERMINERS):
            sounds = "tus"
        final = _find_liaison(piece, after)
        if final and word in _DENASAL:
            sounds, final = _DENASAL[word], ""
        if alone or word not in _UNSTRESSED:
            sounds = _stress(sounds, "ˌ" if word in _WEAK and not alone else "ˈ")
        if word == "plus" and after is None and before and before.core.lower() == "de":
            sounds, final = "plˈys", ""
        return piece.elided + sounds + final

    def _find(self, word: str) -> str:
        lower = word.lower()
        if lower in _WORDS:
            return _WORDS[lower]
        # A short word with a capital begins a sentence, and an abbreviation is written like it.
        spellings = (lower, word) if len(word) < _MIN_NAME else (word, lower, word.capitalize())
        known = next(filter(None, map(self._words.find, spellings)), "")
        return known or read_letters(lower)


_DETERMINERS = frozenset(
    "les mes tes ses nos vos leurs ces deux trois quatre cinq six nous vous ceux".split()
)
_UNITS = frozenset("et deux trois quatre cinq six sept huit neuf".split())


def _adapt_number(
    word: str, sounds: str, before: _FrenchWord | None, after: _FrenchWord | None
) -> str:
    """How a numeral ends before another word."""
    if after is None:
        return sounds
    following = after.core.lower()
    if word == "dix" and following in ("huit", "neuf"):
        return "diz"
    if word in ("six", "dix"):
        return sounds[:-1]
    if word == "huit" and not _starts_with_vowel(after):
        return "yi"
    if word == "neuf" and following in ("ans", "heures", "hommes", "autres"):
        return "nœv"
    if word == "vingt" and following in _UNITS and not _is_quatre(before):
        return "vɛ\u0303t"
    return sounds


def _is_quatre(piece: _FrenchWord | None) -> bool:
    return piece is not None and piece.core.lower() == "quatre"


def _find_liaison(piece: _FrenchWord, after: _FrenchWord | None) -> str:
    """The consonant that is heard between two words; empty for none."""
    if after is None or after.elided or not _starts_with_vowel(after):
        return ""
    word, following = piece.core.lower(), after.core.lower()
    final = _FINAL.get(word[-1:], "")
    if word == "neuf" or (word in ("vingt", "cent") and following in ("un", "une", "onze")):
        return ""
    if piece.hyphen:
        if following in _SUBJECTS:
            return "t" if word[-1:] in ("t", "d") else ""
        if following in ("y", "en"):
            return "z" if word[-1:] in ("s", "z", "x") else ""
    if word == "comment" and following.startswith("allez"):
        return "t"
    if word in _JOINED:
        if following == "et" or (word in ("nous", "vous", "ils", "elles", "on") and piece.hyphen):
            return ""
        return final
    return ""


def _starts_with_vowel(piece: _FrenchWord) -> bool:
    word = piece.core.lower()
    if word.startswith(_ASPIRATED):
        return False
    if word[:1] == "y":
        return word[1:2] not in tuple("aeiouéè")
    return word[:1] in tuple("aeiouhàâäéèêëîïôöùûüœæ")


def _stress(sounds: str, mark: str) -> str:
    """The mark before the last full vowel."""
    places = [index for index, sign in enumerate(sounds) if sign in _VOWEL_SOUNDS]
    full = [index for index in places if sounds[index] != "ə"] or places
    if not full:
        return sounds
    return sounds[: full[-1]] + mark + sounds[full[-1] :]


# ---------------------------------------------------------------- words by their spelling

_MUTE = re.compile("(?<=.)(?:es?|(?<=ai)ent)$")
"""A final e that is not said; % stands for it, since the consonant before it is said."""
_V = "aeiouyéèêëàâîïôöûüùœæ%"
_NO_NASAL = f"(?![{_V}nm])"
_F = "(?=[eiéèêîïy%])"
"""Before a front vowel, where c and g are soft."""
_RULES = [
    (re.compile(pattern), sounds)
    for pattern, sounds in (
        # endings
        ("(?<=..)ers?$", "e"), ("ez$", "e"), ("ets?$", "ɛ"), ("ents?$", "ɑ̃"), ("tions?$", "sjɔ̃"),
        ("(?<=n)c$", ""),
        ("[tdpxszg]+$", ""), ("%", ""),
        # vowels
        ("eau", "o"), ("au", "o"), ("œu|oeu", "œ"), ("eu(?=[xts]?$|s[aeiou%])", "ø"), ("eu", "œ"),
        ("ouill", "uj"), ("ou(?=[aeéèêio])", "w"), ("ou|oû|où", "u"), ("oin" + _NO_NASAL, "wɛ̃"),
        ("oi|oî", "wa"),
        ("oy(?=[aeiouéè])", "waj"), ("ay(?=[aeiouéè])", "ɛj"), ("uy(?=[aeiouéè])", "yij"),
        ("aill|ail$", "aj"), ("eill|eil$", "ɛj"), ("euill|euil$|ueill|ueil$", "œj"),
        ("(?:ain|ein|aim)" + _NO_NASAL, "ɛ̃"), ("(?<=[^aeou])ill(?=[aeéio%])", "ij"),
        ("ai|aî|ei|ê|è|ë", "ɛ"),
        ("(?<=i)en" + _NO_NASAL, "ɛ̃"), ("(?:an|am|en|em)" + _NO_NASAL, "ɑ̃"),
        ("(?:in|im|yn|ym)" + _NO_NASAL, "ɛ̃"), ("(?:on|om)" + _NO_NASAL, "ɔ̃"),
        ("(?:un|um)" + _NO_NASAL, "œ̃"),
        ("é", "e"), ("e(?=ll|tt|ss|nn|rr|mm|x|[rlcsptb][bcdfgjkmnpqstvz]|[rlcf]$)", "ɛ"),
        ("e", "ə"), ("[aàâ]", "a"),
        ("i(?=[aeoéèu])", "j"), ("[iîï]", "i"), ("y(?=[aeou])", "j"), ("y", "i"),
        ("ô|o$|o(?=s[aeiou%])", "o"),
        ("o", "ɔ"), ("(?<=[gq])u(?=[eiéèêîy%])", ""), ("(?<=q)u", ""), ("[uûùü]", "y"),
        ("[œæ]", "e"),
        ("ö", "ø"), ("ä", "ɛ"),
        # consonants
        ("sch|ch(?![rln])|sh", "ʃ"), ("ch", "k"), ("ph", "f"), ("th", "t"), ("gn", "ɲ"),
        ("c?qu", "k"), ("ck", "k"),
        ("cc" + _F, "ks"), ("sc" + _F, "s"), ("c" + _F, "s"), ("ç", "s"), ("cc|c|k|q", "k"),
        ("gg?" + _F, "ʒ"), ("ge(?=[aouâô])", "ʒ"), ("gu(?=[eiéèêîy%])", "ɡ"), ("gg|g", "ɡ"),
        ("j", "ʒ"),
        (f"ss|s(?![{_V}])|(?<![{_V}])s", "s"), ("s", "z"), ("t(?=i[oae][nu])", "s"), ("tt|t", "t"),
        ("(?<=^e)x(?=[aeiouéèhê])", "ɡz"), ("x", "ks"), ("zz|z", "z"), ("ll|l", "l"),
        ("mm|m", "m"), ("nn|n", "n"),
        ("pp|p", "p"), ("rr|rh|r", "ʁ"), ("bb|b", "b"), ("dd|d", "d"), ("ff|f", "f"), ("v", "v"),
        ("w", "w"),
    )
]  # fmt: skip


def read_letters(word: str) -> str:
    """A word's phonemes by its spelling alone."""
    word = _MUTE.sub("%", word) if re.search(f"[{_V}].+", word[:-1]) else word
    sounds, place = [], 0
    while place < len(word):
        matches = ((pattern.match(word, place), sounds) for pattern, sounds in _RULES)
        found = next(((match.end(), sound) for match, sound in matches if match), (place + 1, ""))
        place, sound = found
        sounds.append(sound)
    return "".join(sounds)
