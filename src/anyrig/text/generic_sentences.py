"""Where a paragraph is cut into sentences in languages without recognisers.

sentencex proposes; a few rules correct it where it was measured to be wrong. It keeps a quotation
or a bracket in one piece however many sentences it holds, in time that grows with the square of the
brackets, so it is shown the text without those marks. A mark that closes stays with the sentence
before, one that opens goes with the next.
"""

from __future__ import annotations

import re

from anyrig.text.recognizers.stops import CLOSE, OPEN, is_numbered_item, last_word

# Titles and the like: a name or a number follows, so no sentence ends there.
_LEADING = {
    "de": "hr fr dr prof dipl ing hl st z.b d.h u.a bzw ca vgl evtl ggf inkl sog geb frl",
    "it": "sig sigg sig.ra dott dott.ssa prof prof.ssa ing avv on mons s ss geom rag cfr es p.es",
}
# These lead to a number only, and end a sentence elsewhere.
_BEFORE_NUMBER = frozenset(
    "no nos nº n° nr num fig figs vol vols p pp pg pag pagg art arts cap caps sec sect bd abb abs "
    "kap s seite § tel jan feb mar apr jun jul aug sep sept oct nov dec max min".split()
)
# Words that open a sentence when they have a capital.
_STARTERS = {
    "de": "der die das ein eine er sie es wir ich ihr du dies diese dieser aber und so was wann wo "
    "warum wie wer wenn in im am nach vor dann doch nein ja sein mein man auf mit für",
    "it": "il lo la i gli le un una egli lui lei loro noi io tu questo questa quello ma e no sì "
    "quando come se in dopo prima poi allora suo sua mio che chi per non è",
}
# Abbreviations that may well be the last word.
_ENDING = frozenset("etc ecc usw jr sr inc ltd co corp bros gmbh p.m a.m pm am s.a".split())
# Plain words that sentencex takes for abbreviations.
_PLAIN = frozenset("no may me art ill miss ore ark del mar sobre entre fed pa".split())
_MASKED = re.compile(
    r"\[\d{1,3}\]|[\"`“”„«»‹›()\[\]{}‘‚*_]|(?<!\w)['’]|['’](?!\w)|[\ud800-\udfff\x00]"
)
_CANDIDATE = re.compile(
    rf"(?<![.!?…])[.!?…]++[{re.escape(CLOSE)}]*+\s++(?=[{re.escape(OPEN)}\-–—]*+[^\W\d_a-z])"
)
_ROMAN = re.compile(r"[IVXLCDM]+\b")
_NOTE = re.compile(r"(?:\[\d{1,3}\])+")


def find_cuts(text: str, language: str) -> list[int]:
    """Where a paragraph is cut, in order."""
    from sentencex import get_sentence_boundaries

    shown = _MASKED.sub(lambda masked: " " * len(masked[0]), text)
    places = (each["end_index"] for each in get_sentence_boundaries(language, shown))
    proposed = {_move(text, place) for place in places if place < len(text)}
    cuts = {cut for cut in proposed if 0 < cut < len(text) and not _is_joined(text, cut, language)}
    cuts |= {
        match.end()
        for match in _CANDIDATE.finditer(text)
        if match.end() not in proposed and _is_parted(text, match, language)
    }
    ordered = sorted(cuts)
    return [
        cut
        for start, cut in zip([0, *ordered], ordered, strict=False)
        if not is_numbered_item(text, start, cut)
    ]


def _move(text: str, cut: int) -> int:
    """A proposed cut, with closing marks on its left and opening ones on its right."""
    start = cut
    while start > 0 and (text[start - 1].isspace() or text[start - 1] in OPEN + CLOSE):
        start -= 1
    note = _NOTE.match(text, start)
    place = note.end() if note else start
    while place < len(text) and text[place] in CLOSE:
        place += 1
    while place < len(text) and text[place].isspace():
        place += 1
    return place if place > 0 else cut


def _is_joined(text: str, cut: int, language: str) -> bool:
    """Whether a proposed cut is none."""
    before = text[max(0, cut - 60) : cut]
    bare = before.rstrip()
    core = bare.rstrip(CLOSE)
    follows = text[cut : cut + 40].lstrip(OPEN + "-–—")
    if not core or core[-1] not in ".!?…":
        return False
    if len(bare) == len(before) and not bare.endswith("]"):
        return True  # One.Two
    quoted = core != bare
    word = last_word(core, len(core) - 1)
    if follows[:1].islower():
        if quoted or core.endswith(("...", "…")):
            return True
        first = next((one for one in text[:200] if one.isalpha()), "")
        return core[-1] == "." and (_is_abbreviated(word) or not first.islower())
    return core[-1] == "." and not quoted and _leads_on(core, word, follows, language)


def _is_abbreviated(word: str) -> bool:
    short = len(word) <= 2 or "." in word or word[0].isdigit()
    return short or word in _ENDING or word in _BEFORE_NUMBER


def _leads_on(core: str, word: str, follows: str, language: str) -> bool:
    """Whether the word before a full stop asks for what follows it."""
    if word in _LEADING.get(language, "").split():
        return True
    if word in _BEFORE_NUMBER and (follows[:1].isdigit() or _ROMAN.match(follows)):
        return word != "no" or follows[:1].isdigit()
    if len(word) == 1 and word.isalpha() and core[-2:-1].isupper():  # an initial
        return not _starts(follows, language)
    # der 2. Weltkrieg
    return language == "de" and word.isdigit() and len(word) <= 2 and not _starts(follows, language)


def _is_parted(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a sentence ends where none was proposed."""
    if text[match.start()] in "!?":
        return False
    word = last_word(text, match.start())
    if "://" in word or word.startswith("www.") or word in _PLAIN:
        return True
    follows = text[match.end() : match.end() + 40].lstrip(OPEN + "-–—")
    return word in _ENDING and _starts(follows, language)


def _starts(follows: str, language: str) -> bool:
    first = re.match(r"\w+", follows)
    return first is not None and first[0].lower() in _STARTERS.get(language, "").split()
