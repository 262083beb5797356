"""Names to redact: one too many costs a word, one too few a secret.

A small model misses people. Here a name is also what stands beside an e-mail address, in the header
of a letter, in its greeting or under it, and every run of two or more capitalised words that are
not common ones. A name that was found once is a name wherever it occurs: as a whole in any case, in
either order, across lines and without accents; each part of it where it is capitalised; and in user
names that are made of it.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from anyrig.documents.analyse.stop_words import is_stop
from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.labels import is_no_name

SOURCE = "cautious"
_SCORE = 0.4
Span = tuple[int, int]

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_ATOM = re.compile(r"[^\W\d_]+")
_GAP = re.compile(r"[ \t]{1,2}|[ \t]?\n[ \t]*(?=\S)")
_NAME_GAP = re.compile(r"[\s.,_>|*'-]{0,12}")
"""Between the words of a name that is known."""
_PARTICLES = frozenset(
    "de del la las los du des da dos di van von der den ter bin ibn al el y".split()
)
_LONGEST = 5
_SHORTEST_PART = 2
_SHORTEST_JOINED = 6
"""Letters of a name that is recognised with nothing between its words."""
_STOP_NAMES = frozenset(
    "will young may jan april june july august abril julio avril mai autumn summer".split()
)
"""Words with little meaning of their own, or of the calendar, that are given names too."""
_STOP_NAMES_IN_RUNS = frozenset(("will", "young"))
"""Those of them that no heading begins with, as `June Report` does."""
_SHORTEST_STEM = 4
"""Letters of a name inside a longer user name."""
_ROLES = frozenset(
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
_ADDRESS = re.compile(r"[@/\\]|\w[._]\w")
"""In a token that is written in lower case for its own reasons: an address, a path, a file."""
_LOCAL = re.compile(r"(?<![\w.+-])[\w.+'-]{2,64}(?=@)|(?<=[\s(]@)[\w.-]{2,64}")
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
_INITIALS = re.compile(r"(?<![\w.])(?:[A-Z]\.[ \t]?){2,4}")
_INITIALS_BEFORE = re.compile(r"(?<![\w.])(?:[A-Z]\.[ \t]?){1,3}$")
_INITIALS_BEHIND = re.compile(r",?[ \t](?:[A-Z]\.[ \t]?-?){1,3}(?<![ \t])")
_SENTENCE_START = re.compile(r"(?:[.!?:;\n]|^)[\s\"'(>*-]*$")


def cautious(text: str, found: Sequence[Entity], languages: Sequence[str] = ()) -> list[Entity]:
    """What was found, and whatever else may be a person's name; in order, none overlapping.

    Args:
        text: the whole.
        found: in order, none overlapping.
        languages: of the text, whose common words are no names.
    """
    view = _View(text)
    common = _CommonWords(view.plain, languages)
    written = [view.locate(*span) for span in _find_written(view.plain, common)]
    people = [(one.start, one.end) for one in found if one.kind == "person"]
    known = {
        _fold(word) for start, end in [*written, *people] for word in _ATOM.findall(text[start:end])
    }
    runs = [view.locate(*span) for span in _find_runs(view.plain, common, known)]
    spans = _beyond(sorted({*written, *runs}), found)
    names = _Names(common)
    for start, end in [*written, *people]:
        names.add(text[start:end])
    for start, end in runs:
        names.add(_drop_stop_word(text, start, end))
    names.add_local_parts(view.plain)
    spans += names.find(view)
    if broken := _View.of_broken_words(text):
        spans += names.find(broken)
    return _merge(text, found, spans)


def _drop_stop_word(text: str, start: int, end: int) -> str:
    """A run without a first word that may only begin a sentence: `Will Rose come?`."""
    name = text[start:end]
    first = _WORD.match(name)
    is_stop_word = first is not None and first[0].casefold() in _STOP_NAMES_IN_RUNS
    if is_stop_word and (not start or _SENTENCE_START.search(text, max(0, start - 8), start)):
        return name[first.end() :] if first else name
    return name


# -- the text --------------------------------------------------------------------------------------


class _View:
    """A text as it is compared: without accents, soft hyphens and characters of no width."""

    _OTHER = re.compile(r"[^\x00-\x7f]")
    _OTHER_OR_BREAK = re.compile(
        r"[^\x00-\x7f]?[-\u2010\u00ad][ \t]*\r?\n[ \t>]*(?=[^\W\d_])|[^\x00-\x7f]"
    )

    def __init__(self, text: str, pattern: re.Pattern[str] = _OTHER) -> None:
        self._text = text
        self._plain_at, self._text_at = [0], [0]
        pieces: list[str] = []
        last = size = 0
        for other in pattern.finditer(text):
            folded = _fold_character(other[0])
            pieces += [text[last : other.start()], folded]
            size += other.start() - last
            if len(folded) != len(other[0]):
                self._plain_at += [size, size + len(folded)]
                self._text_at += [other.start(), other.end()]
            size += len(folded)
            last = other.end()
        self.plain = "".join([*pieces, text[last:]])

    @classmethod
    def of_broken_words(cls, text: str) -> _View | None:
        """The text with the words whole that are hyphenated at ends of lines, if there are any."""
        found = re.search(r"[^\W\d_][-\u2010\u00ad][ \t]*\r?\n[ \t>]*[^\W\d_]", text)
        return cls(text, cls._OTHER_OR_BREAK) if found else None

    def locate(self, start: int, end: int) -> Span:
        """Where a stretch of the plain text stands in the text."""
        first, last = self._origin(start), self._origin(end - 1) + 1
        while last < len(self._text) and not _fold_character(self._text[last]):
            last += 1
        return first, last

    def _origin(self, at: int) -> int:
        number = bisect.bisect_right(self._plain_at, at) - 1
        origin = self._text_at[number] + at - self._plain_at[number]
        if number + 1 < len(self._text_at):
            origin = min(origin, self._text_at[number + 1] - 1)
        return max(origin, self._text_at[number])


def _fold_character(character: str) -> str:
    if len(character) > 1:  # a hyphen with the end of its line
        return _fold_character(character[0]) if character[0].isalpha() else ""
    if character.isascii():
        return character
    if character in "\u2018\u2019\u02bc":
        return "'"
    if character in "\u2010\u2011":
        return "-"
    category = unicodedata.category(character)
    if category in ("Cf", "Mn"):
        return ""
    return "".join(
        one for one in unicodedata.normalize("NFKD", character) if unicodedata.category(one) != "Mn"
    )


def _fold(word: str) -> str:
    return "".join(map(_fold_character, word)).casefold()


class _CommonWords:
    """Words that are no names, however they are written at the beginning of a sentence."""

    def __init__(self, plain: str, languages: Sequence[str]) -> None:
        self._languages = [name.partition("-")[0] for name in languages] or ["en", "es", "fr"]
        self._labels: dict[str, bool] = {}
        lower: Counter[str] = Counter()
        capitalised: Counter[str] = Counter()
        for token in plain.split():
            if not _ADDRESS.search(token):
                for word in _WORD.findall(token):
                    (lower if word[0].islower() else capitalised)[word.casefold()] += 1
        self._lower = frozenset(
            word for word, count in lower.items()
            if count >= capitalised[word] and word not in _PARTICLES
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


# -- where names stand -----------------------------------------------------------------------------


def _find_written(plain: str, common: _CommonWords) -> Iterator[Span]:
    """Names that their place tells: beside an address, in headers, greetings and signatures."""
    for address in _IN_BRACKETS.finditer(plain):
        before = _BEFORE_ADDRESS.search(plain, max(0, address.start() - 90), address.start())
        if before:
            yield from _find_beside_address(before[0], before.start(), address["local"], common)
    for found in _BEHIND_ADDRESS.finditer(plain):
        yield from _find_beside_address(found["name"], found.start("name"), found["local"], common)
    for found in _HEADER.finditer(plain):
        start = found.start("value")
        for item in _LISTED.finditer(found["value"]):
            yield from _find_name(item[0], start + item.start(), common)
    for pattern in (_SIGNATURE, _GREETING):
        for found in pattern.finditer(plain):
            yield from _find_name(found["name"], found.start("name"), common)


def _find_name(item: str, at: int, common: _CommonWords) -> Iterator[Span]:
    """A name that fills an item, less a title: capitalised words, none of which is a label."""
    if "@" in item:
        return
    words = list(_WORD.finditer(item))
    while words and is_no_name(words[0][0]) and words[0][0].casefold() not in _STOP_NAMES:
        words = words[1:]
    if not 1 <= len(words) <= _LONGEST:
        return
    for word in words:
        name = word[0].casefold()
        if name in _PARTICLES:
            continue
        if not word[0][0].isupper() or name in _ROLES:
            return
        if common.is_label(word[0]) and name not in _STOP_NAMES:
            return
    if any(len(word[0]) > 1 and word[0].casefold() not in _PARTICLES for word in words):
        yield at + words[0].start(), at + words[-1].end()


def _find_beside_address(beside: str, at: int, local: str, common: _CommonWords) -> Iterator[Span]:
    """The last words beside an address, as far as they are capitalised or in the address."""
    local = local.casefold()
    chosen: list[re.Match[str]] = []
    words = list(_WORD.finditer(beside))
    for word in reversed(words[-_LONGEST:]):
        name = word[0].casefold()
        in_address = len(name) >= _SHORTEST_PART and name in local
        named = word[0][0].isupper() and not (
            name in _ROLES or (common.is_label(word[0]) and name not in _STOP_NAMES)
        )
        if not (in_address and name not in _ROLES or named or (chosen and name in _PARTICLES)):
            break
        chosen.insert(0, word)
    while chosen and chosen[0][0] in _PARTICLES:
        chosen = chosen[1:]
    if chosen and any(len(word[0]) > 1 for word in chosen):
        yield at + chosen[0].start(), at + chosen[-1].end()


def _find_runs(plain: str, common: _CommonWords, known: Set[str]) -> Iterator[Span]:
    """Two or more capitalised words in a row, one of which is of a known name or no common word;
    particles and initials may be between them.
    """
    run: list[Span] = []
    for found in _WORD.finditer(plain):
        word = found[0]
        joined = bool(run) and _joins(plain[run[-1][1] : found.start()])
        named = word[:1].isupper() and (
            word.casefold() in _STOP_NAMES_IN_RUNS or not common.is_label(word)
        )
        if named and (joined or not run):
            run.append(found.span())
            continue
        if run and joined and word in _PARTICLES:
            run.append(found.span())
            continue
        yield from _close_run(plain, run, common, known)
        run = [found.span()] if named else []
    yield from _close_run(plain, run, common, known)


def _joins(between: str) -> bool:
    return _GAP.fullmatch(between) is not None or between in (". ", ".")


def _close_run(
    plain: str, run: list[Span], common: _CommonWords, known: Set[str]
) -> Iterator[Span]:
    while run and plain[slice(*run[-1])] in _PARTICLES:
        run = run[:-1]
    names = [span for span in run if plain[span[0]].isupper()]
    if len(names) > _LONGEST:  # a list of names, one in a line
        lines: dict[int, list[Span]] = {}
        for span in run:
            lines.setdefault(plain.count("\n", run[0][0], span[0]), []).append(span)
        if len(lines) > 1:
            for line in lines.values():
                yield from _close_run(plain, line, common, known)
        return
    words = [plain[slice(*span)] for span in names]
    if len(words) < 2 or all(len(word) == 1 for word in words):
        return
    if all(word.casefold() in _ROLES for word in words):
        return
    if words[0].casefold() in known or any(
        len(word) > 1 and not common.is_prose(word) and not common.is_label(word) for word in words
    ):
        yield run[0][0], run[-1][1]


# -- names that are known --------------------------------------------------------------------------


class _Names:
    """Names of people, and every form in which they are recognised again."""

    def __init__(self, common: _CommonWords) -> None:
        self._common = common
        self._parts: set[str] = set()
        self._stop_parts: set[str] = set()
        self._wholes: dict[str, set[tuple[str, ...]]] = {}
        """Words of names in either order, by the first."""
        self._dotted: set[tuple[str, str]] = set()
        self._joined: set[str] = set()
        self._user_names: set[str] = set()
        self._initials: set[str] = set()

    def add(self, name: str) -> None:
        atoms = [_fold(atom) for atom in _ATOM.findall(_View(name).plain)]
        for atom in atoms:
            self._add_part(atom)
        words = [atom for atom in atoms if len(atom) > 1 and atom not in _PARTICLES]
        if len(atoms) < 2 or not words:
            return
        self._add_whole(tuple(atoms))
        self._add_whole((atoms[-1], *atoms[:-1]))
        self._initials.add("".join(atom[0] for atom in atoms if atom not in _PARTICLES))
        if len(words) < 2:
            return
        first, last = words[0], words[-1]
        self._add_whole((first, last))
        self._add_whole((last, first))
        self._dotted |= {(first[0], last), (first, last[0]), (last, first[0])}
        self._user_names |= {
            f"{first[0]}{last}", f"{last}{first[0]}", f"{first}{last[0]}", first + last,
            last + first,
        }  # fmt: skip

    def add_local_parts(self, plain: str) -> None:
        """Names that addresses are made of: those of `maria.gonzalez@example.com`."""
        for local in set(_LOCAL.findall(plain)):
            atoms = [_fold(atom) for atom in _ATOM.findall(local)]
            if any(atom in _ROLES for atom in atoms):
                continue
            names = [atom for atom in atoms if len(atom) > _SHORTEST_PART]
            if len(names) >= 2 and len(names) == len(atoms):
                self._add_whole(tuple(names))
                self._add_whole((names[-1], *names[:-1]))
            for atom in names:
                if self._has_stem(atom):
                    self._joined.add(atom)
                if not self._common.is_label(atom) and not self._common.is_prose(atom):
                    self._parts.add(atom)

    def _has_stem(self, word: str) -> bool:
        """Whether a user name begins or ends with a part of a name: `mjgonzalez`."""
        return any(
            word[:size] in self._parts or word[-size:] in self._parts
            for size in range(_SHORTEST_STEM, len(word))
        )

    def _add_part(self, atom: str) -> None:
        if len(atom) < _SHORTEST_PART or atom in _PARTICLES:
            return
        if atom in _STOP_NAMES or not self._common.is_label(atom):
            self._parts.add(atom)
        else:
            self._stop_parts.add(atom)

    def _add_whole(self, atoms: tuple[str, ...]) -> None:
        if sum(map(len, atoms)) > _SHORTEST_PART:
            self._wholes.setdefault(atoms[0], set()).add(atoms)
            if sum(map(len, atoms)) >= _SHORTEST_JOINED and len(atoms) <= _LONGEST:
                self._joined.add("".join(atoms))

    def find(self, view: _View) -> list[Span]:
        """Where the names stand in the text."""
        plain = view.plain
        spans = [*self._find_words(plain), *self._find_local_parts(plain)]
        spans += [_absorb_initials(plain, *span, self._initials) for span in spans]
        for found in _INITIALS.finditer(plain):
            if _fold("".join(_ATOM.findall(found[0]))) in self._initials:
                spans.append((found.start(), found.start() + len(found[0].rstrip())))
        return [view.locate(*span) for span in set(spans)]

    def _find_words(self, plain: str) -> Iterator[Span]:
        atoms = [(found.start(), found.end()) for found in _ATOM.finditer(plain)]
        for number, (start, end) in enumerate(atoms):
            form = plain[start:end]
            word = form.casefold()
            if word in self._wholes:
                yield from self._match_wholes(plain, atoms, number, word)
            if number + 1 < len(atoms) and plain[end : atoms[number + 1][0]] in tuple("._-"):
                following = atoms[number + 1]
                if (word, plain[slice(*following)].casefold()) in self._dotted:
                    yield start, following[1]
            if (
                word in self._joined
                or (word in self._user_names and _is_user(plain, start, end))
                or (form[0].isupper() and self._is_part(plain, start, form, word))
            ):
                yield start, end

    def _match_wholes(
        self, plain: str, atoms: Sequence[Span], number: int, word: str
    ) -> Iterator[Span]:
        for whole in self._wholes[word]:
            span = atoms[number : number + len(whole)]
            if len(span) < len(whole):
                continue
            fits = all(
                plain[slice(*one)].casefold() == part
                and (not at or _NAME_GAP.fullmatch(plain, span[at - 1][1], one[0]))
                for at, (one, part) in enumerate(zip(span, whole, strict=True))
            )
            if fits:
                yield span[0][0], span[-1][1]

    def _is_part(self, plain: str, start: int, form: str, word: str) -> bool:
        if word in self._parts:
            return True
        if word in self._stop_parts:
            begins = _SENTENCE_START.search(plain, max(0, start - 8), start) or not start
            return form[1:].islower() and not begins
        # The Gonzalezes, the Smiths.
        return len(word) > 4 and (
            (word.endswith("s") and word[:-1] in self._parts)
            or (word.endswith("es") and word[:-2] in self._parts)
        )

    def _find_local_parts(self, plain: str) -> Iterator[Span]:
        """User names before an @ that are made of a name."""
        known = self._parts | self._joined | self._user_names
        for found in _LOCAL.finditer(plain):
            atoms = [_fold(atom) for atom in _ATOM.findall(found[0])]
            if any(len(atom) > _SHORTEST_PART and atom in known for atom in atoms):
                yield found.span()


def _is_user(plain: str, start: int, end: int) -> bool:
    """Whether a word stands where user names do: behind `@` or `/`, before `@`."""
    return plain[start - 1 : start] in tuple("@/\\~_") or plain[end : end + 1] in tuple("@_")


def _absorb_initials(plain: str, start: int, end: int, initials: Iterable[str]) -> Span:
    """The name with initials beside it: `M. Gonzalez`, `Gonzalez, M.`."""
    if before := _INITIALS_BEFORE.search(plain, max(0, start - 12), start):
        start = before.start()
    if behind := _INITIALS_BEHIND.match(plain, end, end + 12):
        letters = _fold("".join(_ATOM.findall(behind[0])))
        if any(letters[0] in known for known in initials):
            end = behind.end()
    return start, end


# -- together --------------------------------------------------------------------------------------


def _beyond(spans: Iterable[Span], found: Sequence[Entity]) -> list[Span]:
    """Spans of which no find has a part that the span has not; equal ones are known already."""
    ends = [one.end for one in found]
    kept = []
    for start, end in spans:
        first = bisect.bisect_right(ends, start)
        met = []
        for one in found[first:]:
            if one.start >= end:
                break
            met.append(one)
        if all(
            start <= one.start and one.end <= end and (one.start, one.end) != (start, end)
            for one in met
        ):
            kept.append((start, end))
    return kept


def _merge(text: str, found: Sequence[Entity], spans: Iterable[Span]) -> list[Entity]:
    """Finds and names as one list. Names that overlap are one; what a find covers is left to it,
    unless it is a person inside a longer name.
    """
    names: list[Span] = []
    for start, end in sorted(set(spans)):
        if names and start < names[-1][1]:
            names[-1] = (names[-1][0], max(names[-1][1], end))
        else:
            names.append((start, end))
    starts = [start for start, _ in names]
    kept: list[Entity] = []
    for one in found:
        at = bisect.bisect_right(starts, one.start) - 1
        inside = at >= 0 and one.end <= names[at][1] and (one.start, one.end) != names[at]
        if not (inside and one.kind == "person"):
            kept.append(one)
    taken = sorted((one.start, one.end) for one in kept)
    merged = list(kept)
    at = 0
    for start, end in names:
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        next_at = at
        while next_at < len(taken) and taken[next_at][0] < end and start < end:
            if taken[next_at][0] > start:
                merged += _build_entities(text, start, taken[next_at][0])
            start = max(start, taken[next_at][1])
            next_at += 1
        merged += _build_entities(text, start, end)
    return sorted(merged, key=lambda one: one.start)


def _build_entities(text: str, start: int, end: int) -> Iterator[Entity]:
    if start < end and any(map(str.isalpha, text[start:end])):
        yield Entity("person", text[start:end], start, end, "", SOURCE, _SCORE)
