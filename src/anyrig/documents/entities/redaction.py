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
from collections.abc import Iterable, Iterator, Sequence, Set

from anyrig.documents.entities.entity import Entity, redact
from anyrig.documents.entities.marked_names import is_place
from anyrig.documents.entities.people import (
    PARTICLES,
    ROLES,
    STOP_NAMES,
    WORD,
    CommonWords,
    find_written,
    fold,
    is_single_name,
    load_lists,
)
from anyrig.documents.entities.people import SOURCE as LISTED

SOURCE = "redaction"
_SCORE = 0.4
Span = tuple[int, int]

_ATOM = re.compile(r"[^\W\d_]+")
_GAP = re.compile(r"[ \t]{1,2}")
_LINE_BREAK = re.compile(r"[ \t]?\r?\n[ \t]*")
_NAME_GAP = re.compile(
    r"[ \t.,_>|*'-]{0,6}(?:\r?\n[ \t>|*-]{0,8})?|\s{1,2}[(\[]?(?:dot|punto|point)[)\]]?\s{1,2}",
    re.IGNORECASE,
)
"""Between the words of a name that is known."""
_CAMEL = re.compile(r"[A-Z]?[a-z]+")
_SPOKEN_DOTS = frozenset(("dot", "punto", "point"))
_LONGEST = 5
_LONGEST_ABBREVIATION = 4
"""Letters of `Fco.` and `Alex.`: a longer word with a stop ends its sentence."""
_SHORTEST_PART = 2
_SHORTEST_JOINED = 6
"""Letters of a name that is recognised with nothing between its words."""
_STOP_NAMES_IN_RUNS = frozenset(("will", "young"))
"""Those of them that no heading begins with, as `June Report` does."""
_SHORTEST_STEM = 4
"""Letters of a name inside a longer user name."""
_LOCAL = re.compile(r"(?<![\w.+-])[\w.+'-]{2,64}(?=@)|(?<=[\s(]@)[\w.-]{2,64}")
_NAMES_AND_WORDS = frozenset(
    "amber angel april archer arenas august autumn baker banks barber barker bass bean beard"
    " bell bella berry bird bishop blanc blanca blanco bois bond booth branch brand bravo"
    " brewer bridges bright brook brooks brown brun bud bueno bull burns bush butcher butler"
    " camino campo cannon carpenter carter casa casas cash castillo celeste chambers charity"
    " chase cherry chevalier christian claire clay cliff constant conte cook costa crane"
    " cross cruise cruz crystal curry daisy dawn dean destiny dolores domingo don dove downs"
    " drew drum duke dusty dyer earl earnest english estrella faith farmer fields finch"
    " fisher fleet fleur flint flood forest foster fox france franco frank franks"
    " freeman french frost fuente fuller gallo gates gay german ginger gore grace gracia grand"
    " grant graves gray grey gros gross grove guard guerra hall ham hammer hare harmony hart"
    " hay heath hill hills holder hook horn hunt hunter innocent iris ivory jack joy judge"
    " june jung junior justice justo king klein knight lago lamb lane leal limon linda"
    " lobo lord love luna maire manzano mar marin mark marsh mason mast master max mayor"
    " meadow melody mercy merry miles miller mills monte moody moon moss mouton nail neu"
    " nieves noble nova olive palm palma palmer pardo park parker parks pastor pat patience"
    " paz pearl peck penny pepper petit petty pike plaza pleasant pole pope porter post"
    " potter powers precious press priest prince puente puerta queen raven reader reed reina"
    " reine rey rice ring rio river rivers rob rod rojo roll roman rose royal rush sage sal"
    " sala sands santo savage sera serra shade sharp shepherd silk silver singer skinner sky"
    " slater smart smith snow sparks squire stack stark starling stern steward stone storm sue"
    " summers sun sunny swift tailor till toro victoire violet walker walls ward warren"
    " waters weeks wells wheeler wild winter winters wise wolf wood woods worth".split()
)
"""Names that are common in lower case too: `smith` may be a craft, `gonzalez` is somebody."""
_ARTICLE = re.compile(
    r"\b(?:the|an?|el|un|una|los|las|le|les|une|des|il|lo|gli|os|as|um|uma|der|die|das|eine?)[ ]$",
    re.IGNORECASE,
)
_INITIALS = re.compile(r"(?<![\w.])(?:[A-Z]\.[ \t]?){2,4}")
_INITIALS_BEFORE = re.compile(r"(?<![\w.])(?:[A-Z]\.[ \t]?){1,3}$")
_INITIALS_BEHIND = re.compile(r",?[ \t](?:[A-Z]\.[ \t]?-?){1,3}(?<![ \t])")
_LAST_FIRST = re.compile(
    r"(?:^|(?<=[\t|;\"]))[ \t]*(?P<name>[^\W\d_][\w '-]{1,40},[ \t]*[^\W\d_][\w '.-]{1,40}?)"
    r"(?=[ \t]*(?:$|[\t|;\"(]))",
    re.MULTILINE,
)
_BARE_INITIALS = re.compile(r"(?<![\w'.&-])[A-Z]{2,4}(?![\w&]|['-][A-Za-z])")
"""`JD`."""
_ABBREVIATION_BEHIND = re.compile(
    r"[ \t]?[(\[](?:[^()\[\]\n]{0,40}?[\s'\"\u201c])?(?P<letters>[A-Z]{2,4})['\"\u201d]?[)\]]"
)
"""`Quentin Tarantino (QT)`."""
_LAST_BEFORE = re.compile(r"(?:^|[^\w \t]|(?<![^\W_])[a-z]\w*)[ \t]*\b([A-Z][\w'-]{2,40}),[ \t]$")
_CELL_MARK = re.compile(r"[\t;|]|,(?=\S)")
_CELL_EDGE = " \t\r\n\"'*"
_NAME_COLUMNS = frozenset(
    "full name|first name|firstname|given name|forename|middle name|last name|lastname|surname"
    "|family name|employee name|customer name|contact name|patient|apellido|apellidos|nombre propio"
    "|primer apellido|segundo apellido|nombre y apellidos|nombre completo|apellidos y nombre"
    "|paciente|prenom|nom de famille|vorname|nachname|familienname|cognome|sobrenome|apelido"
    "|voornaam|achternaam".split("|")
)
_OTHER_COLUMNS = frozenset(
    "name names author authors person people contact customer employee student member attendee"
    " attendees speaker owner assignee reporter manager first last nombre nombres autor titular"
    " contacto cliente alumno empleado nom noms auteur titulaire client naam nome".split()
)
"""Headings of columns with names, and of such that may have others: there a cell counts that has a
first name or surname."""
_COUPLE_TITLE = re.compile(
    r"\b(?:Messrs|Messieurs|Mesdames|MM|Mmes|Sres|Sras|Mr|Mrs|Ms|Señores|Herren)\.?[ \t]"
    r"(?:[^\W\d_][\w'-]*,?[ \t]){1,6}?(?:and|et|y|und|&)[ \t](?P<name>[A-Z][\w'-]+)"
)
_SENTENCE_START = re.compile(r"(?:[.!?:;\n]|^)[\s\"'(>*-]*$")


def add_possible_names(
    text: str, found: Sequence[Entity], languages: Sequence[str] = ()
) -> list[Entity]:
    """What was found, and whatever else may be a person's name; in order, none overlapping.

    Args:
        text: the whole.
        found: in order, none overlapping.
        languages: of the text, whose common words are no names.
    """
    view = _FoldedText(text)
    common = CommonWords(view.plain, languages)
    written = [view.locate(*span) for span in find_written(view.plain, common)]
    people = [(one.start, one.end) for one in found if one.kind == "person"]
    known = {
        _fold(word) for start, end in [*written, *people] for word in _ATOM.findall(text[start:end])
    }
    runs = [view.locate(*span) for span in _find_runs(view.plain, common, known)]
    written += [view.locate(*span) for span in _find_marked(view.plain, common)]
    spans = _list_uncovered(sorted({*written, *runs}), found)
    names = _Names(common)
    for start, end in written:
        names.add(text[start:end], is_certain=True)
    for one in found:
        if one.kind == "person":
            is_listed = one.source == LISTED
            name = _drop_stop_word(text, one.start, one.end) if is_listed else one.text
            names.add(name, is_certain=True)
    for start, end in runs:
        names.add(_drop_stop_word(text, start, end))
    names.add_local_parts(view.plain)
    spans += names.find(view)
    if broken := _FoldedText.join_hyphens(text):
        spans += names.find(broken)
    return _merge(text, found, spans)


def redact_file_name(name: str, found: Iterable[Entity], languages: Sequence[str] = ()) -> str:
    """The name of a file without the people that its text names, and without first names."""
    common = CommonWords("", languages)
    names = _Names(common)
    for one in found:
        if one.kind == "person":
            names.add(one.text)
    for word in _ATOM.findall(_FoldedText(name).plain):
        if common.is_first_name(word):
            names.add(word)
    # Every word with a capital, as parts of names are recognised by theirs.
    spread = _ATOM.sub(lambda word: word[0].title(), name)
    view = _FoldedText(spread if len(spread) == len(name) else name)
    spans = sorted(names.find(view))
    people = [Entity("person", name[start:end], start, end) for start, end in spans]
    return redact(name, people).replace("[PERSON]", "PERSON")


def _drop_stop_word(text: str, start: int, end: int) -> str:
    """A run without a first word that may only begin a sentence: `Will Rose come?`."""
    name = text[start:end]
    first = WORD.match(name)
    is_stop_word = first is not None and first[0].casefold() in _STOP_NAMES_IN_RUNS
    if is_stop_word and (not start or _SENTENCE_START.search(text, max(0, start - 8), start)):
        return name[first.end() :] if first else name
    return name


# -- the text --------------------------------------------------------------------------------------


class _FoldedText:
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
    def join_hyphens(cls, text: str) -> _FoldedText | None:
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


# -- where names stand -----------------------------------------------------------------------------


def _find_runs(plain: str, common: CommonWords, known: Set[str]) -> Iterator[Span]:
    """Two or more capitalised words in a row, one of which is of a known name or no common word;
    particles and initials may be between them.
    """
    run: list[Span] = []
    for found in WORD.finditer(plain):
        word = found[0]
        if not run and word[0].islower():
            continue
        joined = bool(run) and _joins(plain, run[-1], found.start(), common)
        named = word[:1].isupper() and (
            word.casefold() in _STOP_NAMES_IN_RUNS or not common.is_label(word)
        )
        if named and (joined or not run):
            run.append(found.span())
            continue
        if run and joined and word in PARTICLES:
            run.append(found.span())
            continue
        if len(run) > 1:
            yield from _close_run(plain, run, common, known)
        run = [found.span()] if named else []
    yield from _close_run(plain, run, common, known)


def _joins(plain: str, last: Span, start: int, common: CommonWords) -> bool:
    """Whether a word belongs to the run before it: a stop is part of an initial or abbreviation, a
    line ends within a name only behind a first name.
    """
    between, word = plain[last[1] : start], plain[slice(*last)]
    if between == ". ":
        is_short = len(word) <= _LONGEST_ABBREVIATION
        return is_short and not common.is_common(word)
    if between == "." or _GAP.fullmatch(between):
        return True
    return _LINE_BREAK.fullmatch(between) is not None and common.is_first_name(word)


def _find_marked(plain: str, common: CommonWords) -> Iterator[Span]:
    """First names alone, `PEREZ, LUIS` in a line or a cell, `Messrs Brown and Green`."""
    for found in WORD.finditer(plain):
        start, end = found.start(), found.start() + len(found[0].removesuffix("'s"))
        if (
            found[0][0].isupper()
            and end - start > 2
            and is_single_name(plain, (start, end), common)
        ):
            yield start, end
            if (last := _LAST_BEFORE.search(plain, max(0, start - 44), start)) and not (
                common.is_label(last[1]) or common.is_common(last[1]) or is_place(last[1])
            ):
                yield last.start(1), end
    for found in _LAST_FIRST.finditer(plain):
        words = [WORD.findall(part) for part in found["name"].split(",")]
        if all(words) and fold(words[1][0]) in load_lists().first and all(
            word[0].isupper() and not common.is_label(word) for some in words for word in some
            if word.casefold() not in PARTICLES
        ):  # fmt: skip
            yield found.span("name")
    for found in _COUPLE_TITLE.finditer(plain):
        yield found.span("name")
    yield from _find_in_tables(plain)


def _find_in_tables(plain: str) -> Iterator[Span]:
    """Cells of rows of text below a heading such as `surname`."""
    mark, columns, start = "", dict[int, bool](), 0
    for line in plain.splitlines(keepends=True):
        if not mark or line.count(mark) < max(1, *columns):
            found = _CELL_MARK.search(line)
            mark = found[0] if found else ""
            columns = dict(_list_name_columns(line.split(mark))) if mark else {}
            mark = mark if columns else ""
        else:
            at = start
            for number, cell in enumerate(line.split(mark)):
                name = cell.strip(_CELL_EDGE)
                if number in columns and _is_name_cell(name, is_certain=columns[number]):
                    begin = at + cell.index(name)
                    yield begin, begin + len(name)
                at += len(cell) + len(mark)
        start += len(line)


def _list_name_columns(cells: Sequence[str]) -> Iterator[tuple[int, bool]]:
    """The columns with names, and whether each cell is one, as in a table with surnames."""
    headings = [fold(cell.strip(_CELL_EDGE)).replace("_", " ") for cell in cells]
    is_certain = any(heading in _NAME_COLUMNS for heading in headings)
    for number, heading in enumerate(headings):
        if heading in _NAME_COLUMNS or heading in _OTHER_COLUMNS:
            yield number, is_certain


def _is_name_cell(text: str, *, is_certain: bool) -> bool:
    if sum(map(str.isalpha, text)) < 2 or "@" in text:
        return False
    lists = load_lists()
    return is_certain or any(
        word[0].isupper() and fold(word) in lists.first | lists.last for word in WORD.findall(text)
    )


def _close_run(plain: str, run: list[Span], common: CommonWords, known: Set[str]) -> Iterator[Span]:
    while run and plain[slice(*run[-1])] in PARTICLES:
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
    if all(word.casefold() in ROLES for word in words):
        return
    if words[0].casefold() in known or any(
        len(word) > 1 and not common.is_label(word)
        and (not common.is_prose(word) or common.is_first_name(word))
        for word in words
    ):  # fmt: skip
        yield run[0][0], run[-1][1]


# -- names that are known --------------------------------------------------------------------------


class _Names:
    """Names of people, and every form in which they are recognised again."""

    def __init__(self, common: CommonWords) -> None:
        self._common = common
        self._parts: set[str] = set()
        self._stop_parts: set[str] = set()
        self._wholes: dict[str, set[tuple[str, ...]]] = {}
        """Words of names in either order, by the first."""
        self._dotted: set[tuple[str, str]] = set()
        self._joined: set[str] = set()
        self._user_names: set[str] = set()
        self._initials: set[str] = set()
        self._bare_initials: set[str] = set()
        """Of names that are certain: those of a heading would be of no one."""

    def add(self, name: str, *, is_certain: bool = False) -> None:
        atoms = [_fold(atom) for atom in _ATOM.findall(_FoldedText(name).plain)]
        for atom in atoms:
            self._add_part(atom)
        words = [atom for atom in atoms if len(atom) > 1 and atom not in PARTICLES]
        for joined in WORD.findall(_FoldedText(name).plain):
            if "-" in joined:  # a double name is recognised without the rest
                self._add_whole(tuple(_fold(atom) for atom in _ATOM.findall(joined)))
        if len(atoms) < 2 or not words:
            return
        self._add_whole(tuple(atoms))
        self._add_whole((atoms[-1], *atoms[:-1]))
        initials = "".join(atom[0] for atom in atoms if atom not in PARTICLES)
        self._initials.add(initials)
        if is_certain and not (self._common.is_label(initials) or self._common.is_daily(initials)):
            self._bare_initials.add(initials.upper())
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
            if any(atom in ROLES for atom in atoms):
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
        if len(atom) < _SHORTEST_PART or atom in PARTICLES:
            return
        if atom in STOP_NAMES or not self._common.is_label(atom):
            self._parts.add(atom)
        else:
            self._stop_parts.add(atom)

    def _add_whole(self, atoms: tuple[str, ...]) -> None:
        if sum(map(len, atoms)) > _SHORTEST_PART:
            self._wholes.setdefault(atoms[0], set()).add(atoms)
            if sum(map(len, atoms)) >= _SHORTEST_JOINED and len(atoms) <= _LONGEST:
                self._joined.add("".join(atoms))

    def find(self, view: _FoldedText) -> list[Span]:
        """Where the names stand in the text."""
        plain = view.plain
        spans = [*self._find_words(plain), *self._find_local_parts(plain)]
        known = self._bare_initials | self._find_abbreviations(plain, spans)
        spans += [found.span() for found in _BARE_INITIALS.finditer(plain) if found[0] in known]
        spans += [_absorb_initials(plain, *span, self._initials) for span in spans]
        for found in _INITIALS.finditer(plain):
            if _fold("".join(_ATOM.findall(found[0]))) in self._initials:
                spans.append((found.start(), found.start() + len(found[0].rstrip())))
        return [view.locate(*span) for span in set(spans)]

    def _find_abbreviations(self, plain: str, spans: Iterable[Span]) -> set[str]:
        """Letters in brackets that stand for the name before them: `Quentin Tarantino (QT)`."""
        behind = (_ABBREVIATION_BEHIND.match(plain, end) for _, end in spans)
        return {one["letters"] for one in behind
                if one and one["letters"].casefold() in self._initials}  # fmt: skip

    def _find_words(self, plain: str) -> Iterator[Span]:
        atoms = [
            found.span() for found in _ATOM.finditer(plain)
            if found[0].casefold() not in _SPOKEN_DOTS or found[0].casefold() in self._parts
        ]  # fmt: skip
        dotted = {first for first, _ in self._dotted}
        for number, (start, end) in enumerate(atoms):
            form = plain[start:end]
            word = form.casefold()
            if word in self._wholes:
                yield from self._match_wholes(plain, atoms, number, word)
            if word in dotted and number + 1 < len(atoms):
                following = atoms[number + 1]
                if (
                    plain[end : following[0]] in tuple("._-")
                    and (word, plain[slice(*following)].casefold()) in self._dotted
                ):
                    yield start, following[1]
            if word in self._joined or self._is_mention(plain, start, end, word):
                yield start, end

    def _is_mention(self, plain: str, start: int, end: int, word: str) -> bool:
        """Whether a word alone is a part of a name, or is made of one."""
        form = plain[start:end]
        if word in self._user_names and (
            len(word) >= _SHORTEST_JOINED or _is_user(plain, start, end)
        ):
            return True
        if form.islower():
            return word in self._parts and self._is_name_in_lower_case(plain, start, end, word)
        return self._has_part(form) or (
            form[0].isupper() and self._is_part(plain, start, form, word)
        )

    def _is_name_in_lower_case(self, plain: str, start: int, end: int, word: str) -> bool:
        """`john` anywhere, but `smith` only where nothing but a user name is meant."""
        lists = load_lists()
        if self._common.is_daily(word) or not (word in lists.first or word in lists.last):
            return False
        return _is_user(plain, start, end) or (
            word not in _NAMES_AND_WORDS and not _ARTICLE.search(plain, max(0, start - 6), start)
        )

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

    def _has_part(self, form: str) -> bool:
        """Whether a word in mixed case is made of a name: `TeamGonzalez`."""
        words = _CAMEL.findall(form)
        return len(words) > 1 and any(
            len(word) >= _SHORTEST_STEM
            and word.casefold() in self._parts
            and not self._common.is_daily(word)
            for word in words
        )

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


def _list_uncovered(spans: Iterable[Span], found: Sequence[Entity]) -> list[Span]:
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
