"""Where sentences begin and end, without losing a character.

sentencex proposes; a few rules correct it where it was measured to be wrong:

- It keeps a quotation or a bracket in one piece however many sentences it holds, in time that grows
  with the square of the brackets, so it is shown the text without those marks. A mark that closes
  stays with the sentence before, one that opens goes with the next.
- It drops the blank line between two of its inner pieces, so it is given one paragraph at a time.
- It ends sentences inside `One.Two`, after a French `M.`, before `y` in `a las 5 p. m. y`; and does
  not end them after an address or after `no.` in Spanish. The tables below say what holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

Span = tuple[int, int]
_STRETCH = 200_000

# Titles and the like: a name or a number follows, so no sentence ends there.
_LEADING = {
    "en": "mr mrs ms messrs dr prof rev hon fr gen col maj capt cmdr lt sgt cpl pvt sen rep gov "
    "pres mt ft supt insp det vs cf viz approx e.g i.e ed eds wm chas geo jas jos thos",
    "es": "sr sra srta sres dr dra d dña prof profa lic ing gral cap tte sto sta mons p.ej cf ud "
    "uds vd vds aprox excmo",
    "fr": "m mm mme mmes mlle mlles dr pr mgr st ste vve cf env p.ex ex",
    "de": "hr fr dr prof dipl ing hl st z.b d.h u.a bzw ca vgl evtl ggf inkl sog geb frl",
    "it": "sig sigg sig.ra dott dott.ssa prof prof.ssa ing avv on mons s ss geom rag cfr es p.es",
}
# These lead to a number only: `No. 5`, `p. 3`, and end a sentence elsewhere.
_BEFORE_NUMBER = frozenset(
    "no nos nº n° nr num núm fig figs vol vols p pp pg pág págs pag pagg art arts ch chap cap caps "
    "sec sect eq ex bd abb abs kap s seite § tel ext para bldg apt rte ste rm lot hwy tbl "
    "hab ap apdo dpto esc izq depto "
    "jan feb mar apr jun jul aug sep sept oct nov dec ene abr ago set dic janv févr avr juil déc "
    "mon tue wed thu fri sat sun lun mié jue vie sáb dom mer jeu ven sam dim "
    "max min máx mín".split()
)
# Words that open a sentence when they are capitalised: after `p.m.`, `etc.` or an initial they tell
# a new sentence from a name.
_STARTERS = {
    "en": "the a an he she it they we i you this that these those there then but and so what when "
    "where why how who if in on at after before my his her our their its as for yet no yes now",
    "es": "el la los las un una él ella ellos ellas yo tú nosotros esto esta este eso esa ese pero "
    "y no sí cuando como si en después antes luego entonces su mi qué quién por para se lo le aquí",
    "fr": "le la les l un une des il elle ils elles on je tu nous vous ce c cet cette ces mais et "
    "ou non oui quand comme si en après avant puis alors son sa ses mon ma mes que qui pour dans "
    "voilà",
    "de": "der die das ein eine er sie es wir ich ihr du dies diese dieser aber und so was wann wo "
    "warum wie wer wenn in im am nach vor dann doch nein ja sein mein man auf mit für",
    "it": "il lo la i gli le un una egli lui lei loro noi io tu questo questa quello ma e no sì "
    "quando come se in dopo prima poi allora suo sua mio che chi per non è",
}
# Abbreviations that may well be the last word.
_ENDING = frozenset(
    "etc ecc usw jr sr inc ltd co corp bros gmbh p.m a.m pm am m uu ss aa jj u.s u.k u.s.a e.u "
    "b.c a.d b.c.e c.e d.c ph.d m.d b.a m.a st ave rd blvd av avda s.a s.l".split()
)
# Abbreviations that stand within a sentence, in a text that has no capitals to tell.
_WITHIN = frozenset("govt dept lbs tsp tbsp temp tues thurs weds approx est misc avg".split())
# Plain words that sentencex takes for abbreviations.
_PLAIN = frozenset("no may me art ill miss ore ark del mar sobre entre fed pa".split())

_OPEN = "\"'`“‘«‹„‚([{¿¡*_"
_CLOSE = "\"'”’»›“)]}*_"
_MASKED = re.compile(
    r"\[\d{1,3}\]|[\"`“”„«»‹›()\[\]{}‘‚*_]|(?<!\w)['’]|['’](?!\w)|[\ud800-\udfff\x00]"
)
_BLANK = re.compile(r"\n\s*\n|\r[^\S\r\n]*+\r|[\u2029\f]")
# The end of a sentence as people write it: the mark, what closes, and white space.
_CANDIDATE = re.compile(
    rf"(?<![.!?…])[.!?…]++[{re.escape(_CLOSE)}]*+\s++(?=[{re.escape(_OPEN)}\-–—]*+[^\W\d_a-z])"
)
_LAST_WORD = re.compile(r"[^\s()\[\]\"“«]{1,40}\Z")
_NUMBER = re.compile(r"\s*\(?\d{1,3}[.)]\s*\Z")
_ROMAN = re.compile(r"[IVXLCDM]+\b")
_NOTE = re.compile(r"(?:\[\d{1,3}\])+")
_WEAK = ".!?…"


def paragraphs(text: str) -> list[Span]:
    """The spans between blank lines; what lies between them is white space."""
    found, start = [], 0
    for match in _BLANK.finditer(text):
        found.append((start, match.start()))
        start = match.end()
    found.append((start, len(text)))
    return [trimmed for span in found if (trimmed := _trimmed(text, span))]


def sentences(text: str, language: str = "en") -> list[Span]:
    """The sentences in order, without the white space around them; all else is in exactly one."""
    base = language.partition("-")[0].lower()
    found: list[Span] = []
    for start, end in paragraphs(text):
        cuts = _cuts(text[start:end], base)
        edges = [start, *(start + cut for cut in cuts), end]
        spans = (_trimmed(text, span) for span in pairwise(edges))
        found += [span for span in spans if span]
    return found


def stretches(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph in parts of bounded length, cut after a sentence or a word where that can be."""
    while end - start > _STRETCH:
        middle, most = start + _STRETCH // 2, start + _STRETCH
        cut = max(text.rfind(". ", middle, most), text.rfind("\u3002", middle, most)) + 1
        cut = cut or text.rfind(" ", middle, most) + 1 or most
        yield start, cut
        start = cut
    yield start, end


def _trimmed(text: str, span: Span) -> Span | None:
    start, end = span
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end -= len(piece) - len(piece.rstrip())
    return (start, end) if start < end else None


def _cuts(text: str, language: str) -> list[int]:
    """Where a paragraph is cut, in order."""
    from sentencex import get_sentence_boundaries

    shown = _MASKED.sub(lambda found: " " * len(found[0]), text)
    places = (each["end_index"] for each in get_sentence_boundaries(language, shown))
    proposed = {_moved(text, place) for place in places if place < len(text)}
    kept = {cut for cut in proposed if 0 < cut < len(text) and not _joined(text, cut, language)}
    added = {
        match.end() for match in _CANDIDATE.finditer(text)
        if match.end() not in proposed and _parted(text, match, language)
    }  # fmt: skip
    return _without_bare_numbers(text, sorted(kept | added))


def _without_bare_numbers(text: str, cuts: list[int]) -> list[int]:
    """The cuts without those that leave a list's `2.` alone."""
    starts = [0, *cuts]
    return [
        cut for start, cut in zip(starts, cuts, strict=False) if not _NUMBER.match(text, start, cut)
    ]


def _moved(text: str, cut: int) -> int:
    """A proposed cut, with closing marks on its left and opening ones on its right."""
    start = cut
    while start > 0 and (text[start - 1].isspace() or text[start - 1] in _OPEN + _CLOSE):
        start -= 1
    note = _NOTE.match(text, start)
    place = note.end() if note else start
    while place < len(text) and text[place] in _CLOSE:
        place += 1
    while place < len(text) and text[place].isspace():
        place += 1
    return place if place > 0 else cut


def _joined(text: str, cut: int, language: str) -> bool:
    """Whether a proposed cut is none."""
    before = text[max(0, cut - 60) : cut]
    bare = before.rstrip()
    core = bare.rstrip(_CLOSE)
    follows = text[cut : cut + 40].lstrip(_OPEN + "-–—")
    if not core or core[-1] not in _WEAK:
        return False
    if len(bare) == len(before) and not (bare.endswith("]")):
        return True  # One.Two
    quoted = core != bare
    if follows[:1].islower():
        if quoted or core.endswith(("...", "…")):
            return True
        return core[-1] == "." and (_abbreviated(core) or not _careless(text))
    return core[-1] == "." and not quoted and _leads_on(core, follows, language)


def _careless(text: str) -> bool:
    """Whether a text begins small, as one in which no sentence has a capital."""
    first = next((one for one in text[:200] if one.isalpha()), "")
    return first.islower()


def _abbreviated(core: str) -> bool:
    word = _last_word(core)
    return (
        len(word) <= 2
        or "." in word
        or word[0].isdigit()
        or word in _ENDING | _BEFORE_NUMBER | _WITHIN
    )


def _leads_on(core: str, follows: str, language: str) -> bool:
    """Whether the word before a full stop asks for what follows it."""
    word = _last_word(core)
    if word in _LEADING.get(language, "").split():
        return True
    if word in _BEFORE_NUMBER and (follows[:1].isdigit() or _ROMAN.match(follows)):
        return word != "no" or follows[:1].isdigit()
    if len(word) == 1 and word.isalpha() and core[-2:-1].isupper():  # an initial: J.-P. Sartre
        return language != "en" and not _starts(follows, language)
    # der 2. Weltkrieg
    return language == "de" and word.isdigit() and len(word) <= 2 and not _starts(follows, language)


def _parted(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a sentence ends where none was proposed."""
    core = text[max(0, match.start() - 60) : match.start() + 1]
    follows = text[match.end() : match.end() + 40].lstrip(_OPEN + "-–—")
    if core[-1] in "!?":
        return False
    word = _last_word(core)
    if "://" in word or word.startswith("www.") or word in _PLAIN:
        return True
    return word in _ENDING and _starts(follows, language)


def _last_word(core: str) -> str:
    found = _LAST_WORD.search(core[:-1])
    word = found[0].lower() if found else ""
    # Of `J.-P` and `l'art` the last piece counts.
    return re.split(r"[-–—/'’](?=\w+\Z)", word)[-1] if "://" not in word else word


def _starts(follows: str, language: str) -> bool:
    first = re.match(r"\w+", follows)
    return first is not None and first[0].lower() in _STARTERS.get(language, "").split()
