"""Names of people without a model, in English, Spanish, French and their neighbours.

A name is a run of capitalised words. What tells it from other such runs: lists of first names and
surnames (`names.txt.gz`, made of Faker's by scripts/names_table), a title, an e-mail address beside
it, the header, greeting or signature of a letter, words such as `by` and `thanks to` before it, and
that none of its words is common or is written in lower case elsewhere in the text.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.labels import is_no_name
from anyrig.documents.entities.plain_text import PlainText, Span
from anyrig.documents.words import is_stop, strip_accents

SOURCE = "names"
LANGUAGES = frozenset("en es fr it pt nl ca gl".split())
"""In which a capital tells a name; elsewhere fewer are found."""
CAPITAL_NOUNS = frozenset(("de", "lb"))
"""Languages that write every noun with a capital: a capital tells nothing there."""
PARTICLES = frozenset(
    "de del della la las los du des da dos di van von der den ter ten bin ibn al el y e i"
    " le".split()
)
WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_MAX_WORDS = 5
_MIN_SINGLE = 4
"""Letters of a first name that is found alone; shorter ones are redacted only."""
_TITLES = frozenset("herr herrn frau dr prof professor".split())
STOP_NAMES = frozenset(
    "will young may jan april june july august abril julio avril mai autumn summer".split()
)
"""Words with little meaning of their own, or of the calendar, that are given names too."""
ROLES = frozenset(
    "account accounting accounts admin administracion administration administrator all"
    " archive atencion bank billing board booking bureau business care client cliente clients"
    " colleague colleagues commercial committee company contact contacts customer customers"
    " data departamento department desk direction editor email equipe equipo everybody"
    " everyone example finance folks friend friends gmbh group hello help helpdesk hotline hr"
    " human inc info information invoice invoices jobs legal limited list ltd madam mail"
    " mailer mailing management manager marketing member members news newsletter noreply"
    " notification notifications office oficina online operations order orders partner"
    " partners people post postmaster press privacy reception recipient recipients"
    " registration reply resources sales secretary security service services shop sir soporte"
    " staff student students subscriber support system team tech technical there undisclosed"
    " user users ventas webmaster welcome world www".split()
)
"""Words of mailboxes and greetings that name nobody."""


# -- lists -----------------------------------------------------------------------------------------


class NameLists(NamedTuple):
    first: frozenset[str]
    last: frozenset[str]
    common: dict[str, frozenset[str]]
    """Words of daily use by language."""


def is_plausible(text: str) -> bool:
    """Whether what a model takes for a person may be one: `Debian Linux` and `Git` are none."""
    words = WORD.findall(text)
    lists = load_lists()
    names = [fold(word) for word in words if word.casefold() not in PARTICLES]
    if not names or any(name in _TECHNICAL for name in names):
        return False
    if any(character.isdigit() or character in "\\<>=_*/|" for character in text):
        return False
    if any(word[0].islower() and word.casefold() not in PARTICLES for word in words):
        return False
    return any(set(name.split("-")) & (lists.first | lists.last) for name in names) or (
        len(names) > 1 and not any(name in common for common in lists.common.values()
                                   for name in names)
    )  # fmt: skip


@lru_cache(maxsize=1)
def load_lists() -> NameLists:
    data = files("anyrig.documents.entities").joinpath("names.txt.gz").read_bytes()
    _licence, first, last, *others = gzip.decompress(data).decode().split("\n")
    common = {words[:2]: frozenset(words[3:].split()) for words in others}
    return NameLists(frozenset(first.split()), frozenset(last.split()), common)


_BODY = frozenset(
    "academy agency agreement airport army asociacion association associates authority avenue bank"
    " board boulevard bridge brothers campus center centre charter church city club college"
    " commission committee community companies company conference congress consortium contract"
    " convention corporation council county court department design developers directive district"
    " division edition enterprise estate faculty federation festival fondation forum foundation"
    " fund fundacion gallery group guidelines guide handbook hills holdings hospital hotel"
    " industries institute institut instituto international islands lab laboratories laboratory"
    " lake lane language languages league library licence license licencia magazine manual market"
    " ministry mountain museum network news office organisation organization palace paper park"
    " partners party police policy press products programme project projet proyecto protocol"
    " publications railway reference report republic research river road school sea"
    " security server services society software solutions specification square standard standards"
    " station street studio studios suite summit supreme system systems team technologies"
    " technology tower treaty trust union universidad universite university valley village war"
    " workshop works world inc incorporated ltd llc gmbh corp plc sarl".split()
)
"""A word of a body, a place or a document: no person is a part of its name."""
_TECHNICAL = _BODY | frozenset(
    "access alpha api april archive argument array authentication author authors basic binary bit"
    " block bug bugs build bullseye buster changes character chinese class classes client code"
    " command common compiler computer configuration control core css custom cvs data database"
    " debcamp debconf debian default deprecated desktop development device dictionary directory"
    " document documentation driver email engine english environment error errors event exception"
    " extension fails features file files fixes font fools format frame free french ftp full"
    " function functions general generic german git gnome gnu guest hardware header hello html"
    " http image implementation index input install installation interface internal internet"
    " italian japanese java jessie job junior kde kernel key keyboard leader lenny level library"
    " line linux list local lock log mac machine mail maintainer makefile map mark master memory"
    " message method microsoft mode model module multiple name named native notes nuevo object"
    " online open operating option oracle output package packages page parser patch path perl plan"
    " platform pod policy port potato public python qt query quick red regular release releases"
    " reporters repository request resource role root ruby rule runtime russian sample sarge"
    " script secure selected server session set shell signed social source space spanish squeeze"
    " stable static story strawberry stretch string structure subversion summary support switch"
    " symbol table tag task template terminal test text thread time token tool toolkit tools toy"
    " toys tree type ubuntu unicode unix update upstream user utilities value vector version view"
    " virtual visual warning wayland web wheezy window windows wireless woody xml zone".split()
)
"""Words of computing, of bodies and of releases that begin with a capital in running text."""


# -- words -----------------------------------------------------------------------------------------

_IN_ADDRESS = re.compile(r"[@/\\]|\w[._]\w")
"""In a token that is written in lower case for its own reasons: an address, a path, a file."""


@lru_cache(maxsize=1 << 16)
def fold(word: str) -> str:
    return strip_accents(word).casefold()


class CommonWords:
    """Words that are no names, however they are written at the beginning of a sentence."""

    def __init__(self, plain: str, languages: Sequence[str]) -> None:
        self._languages = [name.partition("-")[0] for name in languages] or ["en", "es", "fr"]
        self._labels: dict[str, bool] = {}
        lower: Counter[str] = Counter()
        capitalised: Counter[str] = Counter()
        for token, count in Counter(plain.split()).items():
            if not _IN_ADDRESS.search(token):
                for word in WORD.findall(token):
                    (lower if word[0].islower() else capitalised)[word.casefold()] += count
        self._lower = frozenset(
            word for word, count in lower.items()
            if count >= capitalised[word] and word not in PARTICLES
        )  # fmt: skip

    def is_label(self, word: str) -> bool:
        """Whether a word is known to name nobody."""
        known = self._labels.get(word)
        if known is None:
            low = word.casefold()
            stop = any(is_stop(low, language) for language in self._languages)
            known = self._labels[word] = stop or is_no_name(word)
        return known

    def is_prose(self, word: str) -> bool:
        """Whether a word is mostly written in lower case here."""
        return word.casefold() in self._lower

    def is_common(self, word: str) -> bool:
        """Whether a word is of daily use in the text's languages, or in lower case here."""
        return self.is_prose(word) or self.is_daily(word)

    def is_daily(self, word: str) -> bool:
        """Whether a word is of daily use in the text's languages."""
        low = fold(word)
        if low in _TECHNICAL:
            return True
        lists = load_lists().common
        return any(low in lists.get(language, ()) for language in self._languages)

    def is_first_name(self, word: str) -> bool:
        """Whether a word is a first name, and none of daily use."""
        return fold(word) in load_lists().first and not (self.is_label(word) or self.is_daily(word))


# -- names that their place tells ------------------------------------------------------------------

_BEFORE_ADDRESS = re.compile(r"[^\W\d_][^<>@\"\n;:()\[\]|]{0,80}(?=[\"']?[ \t]*\n?[ \t]*$)")
_IN_BRACKETS = re.compile(r"[<(\[][ \t]?(?:mailto:)?(?P<local>[\w.+'-]{1,64})@")
_BEHIND_ADDRESS = re.compile(
    r"(?<![\w.+'-])(?P<local>[\w.+'-]{1,64})@[\w.-]{1,253}>?[ \t]?\((?P<name>[^()<>@\n]{2,80})\)"
)
_HEADER = re.compile(
    r"^[ \t>*|#]*(?:from|to|cc|bcc|reply-to|sender|attn|attention|name|full name|first name"
    r"|last name|surname|signed|signed by|author|von|an|de|para|pour|nom|prenom|nombre|apellidos"
    r"|expediteur|destinataire|remitente|destinatario|autor|auteur)\*{0,2}[ \t]*:\*{0,2}[ \t]*"
    r"(?P<value>[^\n]{1,2000}(?:\n[ \t]+[^\n]{1,2000}){0,20})",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED = re.compile(r"[^,;<(\[]+")
_CAPITALISED = r"(?:[A-Z]\.|[A-Z][\w'-]*)"
_NAME_LINE = (
    rf"(?P<name>{_CAPITALISED}"
    rf"(?:[ \t]+(?:(?:de|del|la|van|von|der|di|da)[ \t]+)?{_CAPITALISED}){{0,4}})"
)
_SIGNATURE = re.compile(
    r"^[ \t>]*(?i:(?:(?:with|kind|best|warm|warmest|many)[ \t]+){0,3}(?:regards|wishes|thanks)"
    r"|all the best|best|sincerely|yours(?:[ \t]+\w+)?|cheers|thanks(?:[ \t]+again)?|thank you|love"
    r"|(?:bien[ \t]+)?cordialement|bien a vous|amicalement|salutations|(?:un )?saludos?|atentamente"
    r"|(?:un )?abrazos?|mit freundlichen gruss?en|--)[,.!]?[ \t]*\n[\s>]*[-~]{0,2}[ \t]*"
    rf"{_NAME_LINE}(?=[ \t]*(?:[\n,|(]|$))",
    re.MULTILINE,
)
_GREETING = re.compile(
    r"^[ \t>]*(?i:dear|hi|hello|hey|good (?:morning|afternoon|evening)|hola|estimad[oa]|querid[oa]"
    r"|bonjour|bonsoir|chere?|salut|liebe[rs]?|hallo)[ \t]+"
    rf"{_NAME_LINE}(?=[ \t]*(?:[\n,!:.-]|and\b|&|$))",
    re.MULTILINE,
)


def find_written(plain: str, common: CommonWords) -> Iterator[Span]:
    """Names beside an address, in headers, greetings and signatures."""
    for address in _IN_BRACKETS.finditer(plain):
        before = _BEFORE_ADDRESS.search(plain, max(0, address.start() - 90), address.start())
        if before:
            yield from _find_beside_address(before[0], before.start(), address["local"], common)
    for found in _BEHIND_ADDRESS.finditer(plain):
        yield from _find_beside_address(found["name"], found.start("name"), found["local"], common)
    for found in _HEADER.finditer(plain):
        start = found.start("value")
        for item in _LISTED.finditer(found["value"]):
            yield from _find_listed(item[0], start + item.start(), common)
    for pattern in (_SIGNATURE, _GREETING):
        for found in pattern.finditer(plain):
            yield from _find_listed(found["name"], found.start("name"), common)


def _find_listed(item: str, at: int, common: CommonWords) -> Iterator[Span]:
    """A name that fills an item, less a title: capitalised words, none of which is a label."""
    if "@" in item:
        return
    words = list(WORD.finditer(item))
    while words and is_no_name(words[0][0]) and words[0][0].casefold() not in STOP_NAMES:
        words = words[1:]
    if not 1 <= len(words) <= _MAX_WORDS:
        return
    for word in words:
        name = word[0].casefold()
        if name in PARTICLES:
            continue
        if not word[0][0].isupper() or name in ROLES:
            return
        if common.is_label(word[0]) and name not in STOP_NAMES:
            return
    if any(len(word[0]) > 1 and word[0].casefold() not in PARTICLES for word in words):
        yield at + words[0].start(), at + words[-1].end()


def _find_beside_address(beside: str, at: int, local: str, common: CommonWords) -> Iterator[Span]:
    """The last words beside an address, as far as they are capitalised or in the address."""
    local = local.casefold()
    chosen: list[re.Match[str]] = []
    for word in reversed(list(WORD.finditer(beside))[-_MAX_WORDS:]):
        name = word[0].casefold()
        in_address = len(name) >= 2 and name in local
        named = word[0][0].isupper() and not (
            name in ROLES or (common.is_label(word[0]) and name not in STOP_NAMES)
        )
        if not (in_address and name not in ROLES or named or (chosen and name in PARTICLES)):
            break
        chosen.insert(0, word)
    while chosen and chosen[0][0] in PARTICLES:
        chosen = chosen[1:]
    if chosen and any(len(word[0]) > 1 for word in chosen):
        yield at + chosen[0].start(), at + chosen[-1].end()


# -- names in running text -------------------------------------------------------------------------

_TOKEN = re.compile(r"[A-Z](?:\.(?=[ A-Z]))|[^\W\d_]+(?:['-][^\W\d_]+)*|[^\w\s]|\n|[\d_]+")
_CREDIT = re.compile(
    r"(?:\b(?:by|from|to|thanks|thank you|courtesy of|author|authors|maintainer|patch from|cc"
    r"|copyright|\(c\)|©|suggested by|par|por|merci a|gracias a|auteur|autor|autora|traductor"
    r"|traduction|traduccion de|creator|inventor|chairman|ceo|director|president|presidente"
    r"|minister|ministro|ministre|met|told|asked|with|hired|named)[ :,]{0,2}"
    r"|[0-9]{4}(?:[-,] ?[0-9]{2,4})*,? |\b(?:and|et|y|und|e|&)[ ])$",
    re.IGNORECASE,
)
_SPEAKS = re.compile(
    r" (?:said|says|wrote|writes|told|asked|replied|reported|announced|noted|explained|added|thinks"
    r"|joined|resigned|was born|died|married|succeeded|et al|dijo|escribio|afirmo|explico|nacio"
    r"|murio|a dit|a ecrit|declare|explique|est ne|est mort|quitta|nomma)\b"
)
_STARTS = re.compile(r"(?:[.!?:;\u00bb)]|\n|^)[\s\"'(\u00ab\u201c*>-]*$")


_IN_NAME = re.compile(r"[-/_.(][A-Za-z0-9]|::|'[^\Ws]| ?[0-9]| ?\(| ?& ")
_NO_SINGLE_NAME = re.compile(r"[0-9] $|[-/_.:]$|[A-Z][\w']* (?:of )?$|\b(?:in|at|of|en|near) $")


class _NameRun(NamedTuple):
    """Capitalised words in a row, with particles and initials between them."""

    words: list[re.Match[str]]

    @property
    def span(self) -> Span:
        return self.words[0].start(), self.words[-1].end()

    def names(self) -> list[str]:
        """Its words without particles and initials."""
        return [one[0] for one in self.words if one[0][0].isupper() and len(one[0].strip(".")) > 1]


def find(source: PlainText) -> Iterator[Entity]:
    """People whose names are in running text, in order of certainty; they may overlap."""
    plain = source.plain
    common = CommonWords(plain, source.languages)
    spans = {
        span: 0.9 for span in find_written(plain, common)
        if not _has_noun_capitals(source, span[0]) or _begins_with_name(plain[slice(*span)])
    }  # fmt: skip
    pieces = list(_find_pieces(plain, common))
    single: list[_NameRun] = []
    for piece in pieces:
        if len(piece.names()) > 1 or len(piece.words) > 1:
            score = _score(plain, piece, common)
            start, end = piece.span
            if score and _has_noun_capitals(source, start):
                score *= _begins_with_name(plain[start:end])
            if score:
                spans.setdefault(piece.span, score)
        else:
            single.append(piece)
    known = {
        fold(word)
        for start, end in spans
        for word in WORD.findall(plain[start:end])
        if len(word) > 2 and word.casefold() not in PARTICLES and not common.is_common(word)
    }
    for piece in single:
        word = piece.words[0][0]
        if fold(word) in known and not word.isupper():
            spans.setdefault(piece.span, 0.8)
        elif not _has_noun_capitals(source, piece.span[0]) and _is_single_name(
            plain, piece, common
        ):
            spans.setdefault(piece.span, 0.6)
    for span, score in sorted(spans.items()):
        yield replace(source.build_entity("person", span, score=score), source=SOURCE)


_GENITIVE = re.compile(r"(?<! von)(?<! van)(?<! zu) (?:der|den) ")


def _has_noun_capitals(source: PlainText, at: int) -> bool:
    return source.language(at).partition("-")[0] in CAPITAL_NOUNS


def _begins_with_name(text: str) -> bool:
    """Whether a first name or a title is the first word, and no article follows: others may be
    nouns, and `Tore der Halle` are.
    """
    if _GENITIVE.search(text):
        return False
    first = WORD.match(text)
    name = fold(first[0]) if first else ""
    return name in _TITLES or bool({name, *name.split("-")} & load_lists().first)


def _is_place(text: str) -> bool:
    from anyrig.documents.entities.marked_names import is_place

    return is_place(text)


def _find_pieces(plain: str, common: CommonWords) -> Iterator[_NameRun]:
    """Runs of capitalised words on a line, parted at words that are no part of a name."""
    words: list[re.Match[str]] = []
    last_end = -1
    for token in _TOKEN.finditer(plain):
        text = token[0]
        gap = plain[last_end : token.start()] if words else " "
        is_joined = gap in (" ", "  ", "") and (gap or (words and words[-1][0].endswith(".")))
        is_initial = len(text) == 2 and text[1] == "." and text[0].isupper()
        is_particle = bool(words) and text in PARTICLES
        is_word = text[0].isupper() and (len(text) > 1 or is_initial) and text[0].isalpha()
        is_stop_word = is_word and not is_initial and common.is_label(text)
        if is_stop_word and text.casefold() in STOP_NAMES and not words:
            is_stop_word = False
        if words and not is_joined:
            yield from _close(words)
            words = []
        if is_initial or is_particle or (is_word and not is_stop_word):
            words.append(token)
        else:
            yield from _close(words, behind=text if is_word else "")
            words = []
        last_end = token.end()
    yield from _close(words)


def _close(words: list[re.Match[str]], behind: str = "") -> Iterator[_NameRun]:
    """The names in a run: words of bodies and of computing part it, and a body takes what stands
    before it: `Johns Hopkins University`.
    """
    piece: list[re.Match[str]] = []
    for word in words:
        low = fold(word[0])
        if low in _BODY:
            piece = []
        elif low in _TECHNICAL and low not in load_lists().first:
            yield from _trim(piece)
            piece = []
        else:
            piece.append(word)
    if fold(behind) not in _BODY:
        yield from _trim(piece)


def _trim(words: list[re.Match[str]]) -> Iterator[_NameRun]:
    """A run without particles at its ends; `Ana Ruiz y Luis Gil` are two people."""
    parts: list[list[re.Match[str]]] = [[]]
    for at, word in enumerate(words):
        if word[0] in ("y", "e") and len(parts[-1]) > 1 and len(words) - at > 2:
            parts.append([])
        else:
            parts[-1].append(word)
    for part in parts:
        first, last = 0, len(part)
        while first < last and part[first][0] in PARTICLES:
            first += 1
        while last > first and part[last - 1][0] in PARTICLES:
            last -= 1
        if any(len(one[0].strip(".")) > 1 for one in part[first:last]):
            yield _NameRun(part[first:last])


def _score(plain: str, piece: _NameRun, common: CommonWords) -> float:
    """How sure a piece of several words is a person; 0 for something else."""
    lists = load_lists()
    start, end = piece.span
    written = piece.names()
    names = [fold(name) for name in written]
    if not 1 <= len(names) <= _MAX_WORDS or _is_place(plain[start:end]):
        return 0.0
    parts = [set(name.split("-")) | {name} for name in names]
    is_first = bool(parts[0] & lists.first)
    is_last = any(one & (lists.last | lists.first) for one in parts[1:])
    before = plain[max(0, start - 40) : start]
    is_credited = bool(_CREDIT.search(before)) or bool(_SPEAKS.match(plain, end))
    upper = [name.isupper() and len(name) > 1 for name in written]
    if all(upper) and not (is_first and (is_last or is_credited)):
        return 0.0
    if upper[0] and not is_first and not is_credited:
        return 0.0
    first, *rest = (common.is_common(word) for word in written)
    if first and all(rest):
        return 0.0
    if not rest:  # initials, and one name
        return 0.7 if names[0] in lists.last or is_first else 0.0
    if is_first:
        return _score_first_name(first, rest, is_last=is_last, is_credited=is_credited)
    if first or any(rest) or any(upper):
        has_initial = any(len(word[0]) == 2 and word[0][1] == "." for word in piece.words)
        certain = is_last and (is_credited or has_initial)
        return 0.75 if certain and not first and not any(rest) else 0.0
    return 0.75 if is_last and is_credited else 0.65 if is_credited else 0.6 if is_last else 0.0


def _score_first_name(
    first: bool, rest: Sequence[bool], *, is_last: bool, is_credited: bool
) -> float:
    """Of a known first name and more words, which may be common ones."""
    if is_last and not first and not any(rest):
        return 0.95
    if not first and (is_last or not any(rest)):
        return 0.85
    return 0.75 if is_credited or (is_last and not all(rest)) else 0.0


def _is_single_name(plain: str, piece: _NameRun, common: CommonWords) -> bool:
    word = piece.words[0][0]
    return len(word) >= _MIN_SINGLE and is_single_name(plain, piece.span, common)


def is_single_name(plain: str, span: Span, common: CommonWords) -> bool:
    """Whether a word is a first name by itself: nothing else is meant by it."""
    start, end = span
    word = plain[start:end]
    if word.isupper() or not common.is_first_name(word) or common.is_prose(word):
        return False
    if _is_place(word) or _IN_NAME.match(plain, end):
        return False
    return not _NO_SINGLE_NAME.search(plain, max(0, start - 20), start)
