r"""A user's own pronunciations.

A TOML file, each entry a table:

    [[say]]
    word = "Kokoro"              # or a phrase; whole words only
    say = "ko-KO-ro"             # a respelling ...

    [[say]]
    word = "tomato"
    ipa = "təˈmɑːtəʊ"            # ... or IPA, for engines that take it
    language = "en"              # only in English text; any language when left out
    case = "insensitive"         # "sensitive", "insensitive", or "smart", which is the default

    [[say]]
    pattern = 'v(\d+)'            # a regular expression; \1 in `say` is its first group
    say = 'version \1'

or a table of tab- or comma-separated lines `word, say, language, case` (.tsv, .csv), where IPA
stands between slashes (`/təˈmɑːtəʊ/`) and lines that begin with # are remarks.

A smart entry in small letters matches any capitals; one with a capital only what is written so.
Where two entries match, the one that begins first is taken, then the longer. A respelling is spoken
as it stands: nothing in it is read as a number or an abbreviation.
"""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from anyrig.errors import InvalidInputError, Message
from anyrig.settings.toml import parse_toml
from anyrig.speech.source_text import Mark, overlaps_any, select_outermost
from anyrig.speech.user_pattern import UserPattern, compile_pattern
from anyrig.text.decode import read_text
from anyrig.units import pluralize

Case = Literal["sensitive", "insensitive", "smart"]
_FIELDS = frozenset({"word", "pattern", "say", "ipa", "language", "case"})
_COLUMNS = ("word", "say", "language", "case")
_MAX_ENTRIES = 100_000
_MAX_VALUE_CHARS = 400
_MAX_PATTERNS = 1000
_HEAD = re.compile(r"\w+|[^\w\s]")
_TABLE = re.compile(r"\s*\[\[\s*say\s*\]\]")


@dataclass(frozen=True)
class LexiconEntry:
    """How a word, a phrase or all that a pattern matches is said."""

    word: str = ""
    pattern: str = ""
    say: str = ""
    ipa: str = ""
    language: str = ""
    case: Case = "smart"

    @property
    def any_case(self) -> bool:
        """Whether capitals do not matter."""
        written = self.word or re.sub(r"\\.", "", self.pattern)
        return self.case == "insensitive" or (self.case == "smart" and written == written.lower())

    @cached_property
    def compiled(self) -> UserPattern:
        """Its pattern; `InvalidInputError` where it is refused."""
        pattern = compile_pattern(self.pattern, ignore_case=self.any_case)
        pattern.check_template(self.say)
        return pattern

    def applies_to(self, language: str) -> bool:
        """Whether it holds in text of this language."""
        own, given = self.language.lower(), language.lower()
        return not own or given == own or given.startswith(f"{own}-")


@dataclass(frozen=True)
class Lexicon:
    """Entries, ready to be found in a text."""

    entries: tuple[LexiconEntry, ...] = ()
    left_out: tuple[str, ...] = ()
    """Why entries were left out, where it was read so."""

    def find_marks(self, text: str, start: int, end: int, language: str) -> list[Mark]:
        """What it knows to say in a stretch of a text, from left to right without overlap."""
        found = [*self._find_words(text, start, end, language)]
        found += self._find_patterns(text, start, end, language)
        return select_outermost(found)

    def _find_words(self, text: str, start: int, end: int, language: str) -> Iterator[Mark]:
        index = self._by_head
        if not index:
            return
        for match in _HEAD.finditer(text, start, end):
            for entry in index.get(match[0].casefold(), ()):
                right = _match_end(entry, text, match.start(), end)
                if right and entry.applies_to(language):
                    yield Mark(match.start(), right, entry.say, entry.ipa)
                    break

    def _find_patterns(self, text: str, start: int, end: int, language: str) -> Iterator[Mark]:
        for entry in self._with_pattern:
            if entry.applies_to(language):
                for left, right, reading in entry.compiled.find_all(text, start, end, entry.say):
                    if reading or entry.ipa:
                        yield Mark(left, right, reading, entry.ipa)

    @cached_property
    def _by_head(self) -> Mapping[str, Sequence[LexiconEntry]]:
        """The entries of words by their first word, longer ones first."""
        index: dict[str, list[LexiconEntry]] = {}
        for entry in self.entries:
            if entry.word and (head := _HEAD.match(entry.word)):
                index.setdefault(head[0].casefold(), []).append(entry)
        for found in index.values():
            found.sort(key=lambda entry: (-len(entry.word), entry.any_case, not entry.language))
        return index

    @cached_property
    def _with_pattern(self) -> Sequence[LexiconEntry]:
        return [entry for entry in self.entries if entry.pattern]


@dataclass(frozen=True)
class LayeredLexicon:
    """Several lexicons: where entries of two match the same text, that of the first one counts."""

    layers: tuple[Lexicon, ...]

    def find_marks(self, text: str, start: int, end: int, language: str) -> list[Mark]:
        marks: list[Mark] = []
        for layer in self.layers:
            found = layer.find_marks(text, start, end, language)
            marks += [mark for mark in found if not overlaps_any(mark, marks)] if marks else found
            marks.sort(key=lambda mark: mark.start)
        return marks


def _match_end(entry: LexiconEntry, text: str, start: int, limit: int) -> int:
    """Where an entry that begins here ends, or 0: whole words, any white space between them."""
    position = start
    for number, word in enumerate(entry.word.split()):
        if number:
            after = position
            while after < limit and text[after].isspace():
                after += 1
            if after == position:
                return 0
            position = after
        piece = text[position : min(limit, position + len(word))]
        same = piece == word or (entry.any_case and piece.casefold() == word.casefold())
        if not same:
            return 0
        position += len(word)
    before = start > 0 and _is_one_word(text[start - 1], text[start])
    behind = position < len(text) and _is_one_word(text[position - 1], text[position])
    return 0 if before or behind else position


def _is_one_word(left: str, right: str) -> bool:
    """Whether two characters belong to one word."""
    return bool(re.fullmatch(r"[\w\u0300-\u036f]{2}", left + right))


# Reading a file


def load(path: Path, *, lenient: bool = False) -> Lexicon:
    """The lexicon of a file; InvalidInputError names the line or the entry that is wrong.

    With `lenient` an entry that is wrong, or the whole of a file that cannot be read, is left out
    and named in `left_out`: for a file that whoever speaks cannot fix.
    """
    form = path.suffix.lower().lstrip(".")
    try:
        text = read_text(path, "the lexicon", hint="Pass a UTF-8 .toml, .tsv or .csv.")
        return parse(text, name=str(path), form=form, lenient=lenient)
    except InvalidInputError as error:
        if not lenient:
            raise
        return Lexicon(left_out=(error.message,))


def parse(
    text: str, *, name: str = "lexicon", form: str = "toml", lenient: bool = False
) -> Lexicon:
    """The same, from the text of a file, which must be a whole. `form` is toml, tsv or csv."""
    is_table = form in ("tsv", "csv", "lex", "txt")
    if is_table:
        rows = list(_read_rows(text, name, "," if form == "csv" else "\t"))
    else:
        rows = list(_read_tables(text, name))
    if len(rows) > _MAX_ENTRIES:
        raise InvalidInputError(
            f"{name} has {len(rows)} entries", hint=f"The maximum is {_MAX_ENTRIES}."
        )
    if sum("pattern" in given for _, given in rows) > _MAX_PATTERNS:
        raise InvalidInputError(
            f"{name} has more than {_MAX_PATTERNS} patterns",
            hint="Use `word` instead where possible.",
        )
    entries: list[LexiconEntry] = []
    left_out: list[str] = []
    lines = _find_table_lines(text, len(rows)) if not is_table else []
    for number, (place, given) in enumerate(rows):
        try:
            entries.append(_parse_entry(given, place))
        except InvalidInputError as error:
            if lines:
                error.message = Message(
                    "{problem} (line {line})", problem=error.message, line=lines[number]
                )
            if not lenient:
                raise
            left_out.append(error.message)
    return Lexicon(tuple(entries), tuple(left_out))


def _read_tables(text: str, name: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    try:
        data = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        last = f"at the end, line {len(text.splitlines())}"
        problem = str(error).replace("at end of document", last)
        raise InvalidInputError(
            f"{name} is not valid TOML: {problem}", hint="docs/lexicon.md has an example."
        ) from None
    tables = data.pop("say", [])
    if data or not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        extra = f"unknown key {next(iter(data))!r}" if data else "`say` is not a list of tables"
        raise InvalidInputError(f"{name}: {extra}", hint="Begin each entry with a line [[say]].")
    for number, table in enumerate(tables, 1):
        yield f"{name}, entry {number}", table


def _find_table_lines(text: str, count: int) -> list[int]:
    """The line on which each table begins; nothing where that is not certain."""
    found = [number for number, line in enumerate(text.split("\n"), 1) if _TABLE.match(line)]
    return found if len(found) == count else []


def _read_rows(text: str, name: str, mark: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    reader = csv.reader(io.StringIO(text), delimiter=mark, strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#") or cells[:2] == ["word", "say"]:
                continue
            place = f"{name}, line {reader.line_num}"
            if not 2 <= len(cells) <= len(_COLUMNS):
                columns = pluralize(len(cells), "column")
                raise InvalidInputError(
                    f"{place}: {columns}, expected 2 to {len(_COLUMNS)}",
                    hint=f"Columns: {', '.join(_COLUMNS)}.",
                )
            given = {key: cell for key, cell in zip(_COLUMNS, cells, strict=False) if cell}
            say = given.get("say", "")
            if len(say) > 2 and say[0] == say[-1] == "/":
                given["ipa"] = given.pop("say").strip("/ ")
            yield place, given
    except csv.Error as error:
        raise InvalidInputError(
            f"{name}, line {reader.line_num}: {error}", hint="Check the quotation marks."
        ) from None


def _parse_entry(given: Mapping[str, object], place: str) -> LexiconEntry:
    """An entry, checked."""
    for key, value in given.items():
        if key not in _FIELDS:
            raise InvalidInputError(
                f"{place}: unknown key {key!r}", hint=f"Valid keys: {', '.join(sorted(_FIELDS))}."
            )
        if not isinstance(value, str) or not value.strip() or len(value) > _MAX_VALUE_CHARS:
            raise InvalidInputError(
                f"{place}: invalid {key} {value!r:.60}",
                hint=f"It must be a string of 1 to {_MAX_VALUE_CHARS} characters.",
            )
    texts = {key: str(value).strip() for key, value in given.items()}
    if ("word" in texts) == ("pattern" in texts):
        raise InvalidInputError(
            f"{place}: needs either `word` or `pattern`", hint="Set one of them."
        )
    if ("say" in texts) == ("ipa" in texts):
        raise InvalidInputError(f"{place}: needs either `say` or `ipa`", hint="Set one of them.")
    case = texts.pop("case", "smart")
    if case not in get_args(Case):
        raise InvalidInputError(
            f"{place}: unknown case {case!r}", hint=f"Valid values: {', '.join(get_args(Case))}."
        )
    if any(sign in texts.get("ipa", "") for sign in "[]|\n"):
        raise InvalidInputError(f"{place}: IPA is written without brackets", hint="Remove them.")
    entry = LexiconEntry(**texts, case=case)  # type: ignore[arg-type]  # checked against Case above
    if entry.pattern:
        try:
            entry.compiled  # noqa: B018 - it is held by the entry
        except InvalidInputError as error:
            problem = Message("{place}: {problem}", place=place, problem=error.message)
            raise InvalidInputError(problem, hint=error.hint) from None
    return entry
