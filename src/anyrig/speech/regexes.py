r"""Regular expressions that users write, matched by RE2 in time linear in the text.

The syntax and the meaning are those of Python's `re`, without lookaround, backreferences and the
other parts that need backtracking. RE2 knows only ASCII letters in `\w`, `\b` and `(?i)`, so it
never sees the text itself: characters that no part of the pattern tells apart become one byte, an
ASCII letter or digit for what `\w` matches and another byte for the rest. Python's `re` decides
for each single character which parts match it; RE2 does all that could take long.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, Message

if TYPE_CHECKING:
    import re2

_MAX_PATTERN_CHARS = 200
_MAX_PROGRAM = 500
"""RE2 instructions. A long counted repetition is written out: `a{1,100}` has 200."""
_MAX_REPEAT = 1000
"""RE2's own limit."""
_MAX_MEMORY_BYTES = 1 << 19
_WINDOW_WORK = 100_000
"""Characters searched at a time, times instructions: each match may look at a whole window."""
_WINDOW_CHARS = 2000
_MAX_KNOWN = 400
"""Characters whose kind a pattern remembers: a lexicon may have 1,000 patterns."""
_WIDE, _MAX_WIDE = 2048, 4
"""Python needs 10 ms for a range of characters as wide as that."""

_WORD = re.compile(r"\w")
_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[0-7]{3}|\d{1,2}|.)",
    re.DOTALL,
)
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(
    r"\(\?(?:P<\w+>|#[^)]*\)|([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])|.{1,2})?", re.DOTALL
)
_RANGE = re.compile(r"(\\[uUN]|.)-(\\[uUN]|.)", re.DOTALL)
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_ANCHORS = {"A": rb"\A", "Z": rb"\z", "b": rb"\b", "B": rb"\B"}
_FLAGS = {"i": re.I, "m": re.M, "s": re.S}
_TEMPLATE = re.compile(r"\\(?:g<(\w+)>|(0[0-7]{0,2}|[0-7]{3})|([1-9]\d?)|(.))", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_ASCII_CASE = str.maketrans({"\u0130": "i", "\u0131": "i", "\u017f": "s", "\u212a": "k"})
"""What Python's `re` takes for an ASCII letter if case does not matter, but for its capital."""
_NEWLINE = 0x0A
_WORD_BYTES = tuple(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_OTHER_BYTES = tuple(one for one in range(256) if one not in _WORD_BYTES and one != _NEWLINE)
_SAMPLE = "".join(map(chr, range(9, 127))) + "\xa0\xb2\xdf\xe9\xc9\u0130\u0301\u2019\u4e2d"

_LOOKAROUND_HINT = (
    r"Use \b for the edge of a word, or match the text around it in a group and repeat it "
    r"with \1 in `say`."
)
_BACKREFERENCE_HINT = "Write out what is repeated, or make one entry for each case."
_SIMPLER_HINT = "Make it simpler, or split it into several entries."


class UserPattern:
    """A user's pattern, ready to be matched. It may be used from many threads."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Raises InvalidInputError with the reason."""
        self.pattern = pattern
        compiled = _parse(pattern, re.I if ignore_case else 0)
        self.groups = compiled.groups
        self.group_names: Mapping[str, int] = compiled.groupindex
        self._parts = _translate(pattern, compiled.flags)
        atoms = list(dict.fromkeys(part for part in self._parts if not isinstance(part, bytes)))
        self._atoms = [(atom, re.compile(*atom)) for atom in atoms]
        self._multiline = any(b"m:" in part for part in self._parts if isinstance(part, bytes))
        self._at_end = "$" in pattern
        self.literal = _find_literal(self._parts)
        """ASCII text, folded by `fold_case`, that is part of every match; empty if none is known.
        Where it is not in a text there is no need to search."""
        self._sample = _SAMPLE + pattern
        self._growing = threading.Lock()
        kinds = {self._find_kind(char) for char in self._sample}
        self._program = self._build(kinds, self._sample, _MAX_PROGRAM)

    def finditer(self, text: str, start: int = 0, end: int | None = None) -> Iterator[PatternMatch]:
        r"""All matches in a stretch of a text, none of them empty.

        As with `re`, `\b` sees the character before `start`, and the text ends at `end`.
        """
        offset = max(0, start - 1)
        view = text[offset:end]
        if self._at_end:
            view = view.removesuffix("\n")
        program = self._program
        if not program.table.keys() >= set(map(ord, view)):
            program = self._learn(view)
        width = program.width
        data = view.translate(program.table).encode("latin-1")
        for found in _search_all(program, data, (start - offset) * width):
            spans = [found.span(group) for group in range(self.groups + 1)]
            yield PatternMatch(
                text, tuple((a // width + offset, b // width + offset) if a >= 0 else None
                            for a, b in spans), self.group_names,
            )  # fmt: skip

    def search(self, text: str) -> PatternMatch | None:
        """The first match."""
        return next(self.finditer(text), None)

    def _learn(self, text: str) -> _Program:
        """The program with a table that has every character of a text.

        It is compiled again only for a kind of character that it has not met.
        """
        with self._growing:
            program = self._program
            new = {char for char in text if ord(char) not in program.table}
            kinds = {self._find_kind(char) for char in new}
            if not kinds <= program.codes.keys():
                known = "".join(map(chr, program.table))
                program = self._build(kinds | program.codes.keys(), known, 4 * _MAX_PROGRAM)
            elif len(program.table) + len(new) > _MAX_KNOWN:
                program = replace(program, table=self._encode(self._sample, program.codes))
            table = {**program.table, **self._encode(new, program.codes)}
            self._program = replace(program, table=table)
            return self._program

    def _build(self, kinds: Iterable[int], text: Iterable[str], limit: int) -> _Program:
        """A program for some kinds of characters; its table has those of a text."""
        codes = self._assign_codes(sorted(kinds))
        sets = {
            atom: _byte_set([code for kind, code in codes.items() if kind >> place & 1])
            for place, (atom, _) in enumerate(self._atoms, 2)
        }
        source = b"".join(p if isinstance(p, bytes) else sets[p] for p in self._parts)
        return _compile(source, codes, self._encode(text, codes), limit)

    def _encode(self, text: Iterable[str], codes: Mapping[int, bytes]) -> dict[int, str]:
        return {ord(char): codes[self._find_kind(char)].decode("latin-1") for char in set(text)}

    def _find_kind(self, char: str) -> int:
        """A bit for each part of the pattern that matches a character: equal ones are one kind."""
        bits = [char == "\n", bool(_WORD.match(char))]
        bits += [bool(atom.match(char)) for _, atom in self._atoms]
        return sum(bit << place for place, bit in enumerate(bits))

    def _assign_codes(self, kinds: Sequence[int]) -> dict[int, bytes]:
        """A byte for each kind of character, or two where one has not enough values.

        The first of two is never a second one, so that no match begins within a character.
        """
        newline = [kind for kind in kinds if kind & 1]
        word = [kind for kind in kinds if kind & 2]
        other = [kind for kind in kinds if not kind & 3]
        codes = {kind: bytes([_NEWLINE]) for kind in newline}
        if len(word) <= len(_WORD_BYTES) and len(other) <= len(_OTHER_BYTES):
            for group, values in ((word, _WORD_BYTES), (other, _OTHER_BYTES)):
                codes |= {kind: bytes([value]) for kind, value in zip(group, values, strict=False)}
            return codes
        if self._multiline:
            raise InvalidInputError("too many different characters", hint=_SIMPLER_HINT)
        codes = {}
        for group, values in ((word, _WORD_BYTES), ([*newline, *other], _OTHER_BYTES)):
            half = len(values) // 2
            pairs = (bytes([a, b]) for a in values[:half] for b in values[half:])
            codes |= dict(zip(group, pairs, strict=False))
        if len(codes) < len(kinds):
            raise InvalidInputError("too many different characters", hint=_SIMPLER_HINT)
        return codes


@dataclass(frozen=True)
class PatternMatch:
    """Where a pattern matched."""

    text: str
    spans: tuple[tuple[int, int] | None, ...]
    """Of the whole and of each group; None for a group that took no part."""
    group_names: Mapping[str, int]

    def span(self) -> tuple[int, int]:
        assert self.spans[0] is not None
        return self.spans[0]

    def group(self, number: int = 0) -> str:
        """The text of a group, empty for one that took no part."""
        span = self.spans[number]
        return self.text[slice(*span)] if span else ""

    def expand(self, template: str) -> str:
        r"""A template with `\1`, `\g<name>` and the escapes of `re` filled in."""
        return _TEMPLATE.sub(self._filled, template)

    def _filled(self, found: re.Match[str]) -> str:
        name, octal, number, sign = found.groups()
        if octal:
            return chr(int(octal, 8))
        if name or number:
            group = name or number
            return self.group(int(group) if group.isdigit() else self.group_names[group])
        return _CONTROLS.get(sign, sign if sign == "\\" else found[0])


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> UserPattern:
    """A user's pattern, which whoever uses it keeps; InvalidInputError says why it is refused."""
    try:
        made = UserPattern(pattern, ignore_case=ignore_case)
        if any(_matches_empty(made, text) for text in ("", "a b 1 .")):
            raise InvalidInputError(
                "matches the empty text", hint="Let it match at least one character."
            )
    except InvalidInputError as error:
        told = Message(
            "the pattern {pattern!r:.300} {problem}", pattern=pattern, problem=error.message
        )
        raise InvalidInputError(told, hint=error.hint) from None
    return made


def check_template(pattern: UserPattern, template: str) -> None:
    """InvalidInputError where a `say` names a group that its pattern lacks, or an unknown
    escape.
    """
    for found in _TEMPLATE.finditer(template):
        group = found[1] or found[3]
        if group:
            known = (
                int(group) <= pattern.groups if group.isdigit() else group in pattern.group_names
            )
            if not known:
                raise InvalidInputError(
                    f"the pattern {pattern.pattern!r} has no group {group}",
                    hint="Put the part that is meant into brackets: (...).",
                )
    try:
        re.compile("x").sub(re.sub(r"\\(?:g<\w+>|[1-9]\d?)", "", template), "x")
    except (re.error, IndexError) as error:
        raise InvalidInputError(
            f"the pattern {pattern.pattern!r} has a `say` that is not understood: {error}",
            hint=r"Write a backslash as \\.",
        ) from None


# Reading a pattern


def _parse(pattern: str, flags: int) -> re.Pattern[str]:
    """What Python makes of it. It is not matched against more than a character."""
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise InvalidInputError(
            f"is longer than {_MAX_PATTERN_CHARS} characters", hint=_SIMPLER_HINT
        )
    ranges = (found.groups() for found in _RANGE.finditer(pattern))
    if sum(len(high) > 1 or ord(high) - ord(low[-1]) > _WIDE for low, high in ranges) > _MAX_WIDE:
        raise InvalidInputError("has too many wide ranges of characters", hint=_SIMPLER_HINT)
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidInputError(
            f"is not a valid regular expression: {error}",
            hint=r"Put a backslash before a sign that is meant as it stands, such as \( or \*.",
        ) from None


def _translate(pattern: str, flags: int) -> list[bytes | tuple[str, int]]:
    """Its structure, as RE2 writes it, and between it the parts that match one character."""
    _refuse_flags(flags)
    scopes: list[int] = [flags & (re.I | re.M | re.S)]
    parts: list[bytes | tuple[str, int]] = []
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\":
            token = _token(_ESCAPE, pattern, position)
            parts.append(_escaped(token, scopes[-1]))
        elif sign == "[":
            token = _token(_CLASS, pattern, position)
            parts.append((token, scopes[-1]))
        elif sign == "(":
            token = _token(_GROUP, pattern, position) if pattern[position + 1] == "?" else sign
            opened = _opened(token, scopes[-1])
            if opened is not None:
                parts.append(b"(" if token == "(" or token.startswith("(?P<") else b"(?:")
                scopes.append(opened)
        elif sign == ")":
            token = sign
            scopes.pop()
            parts.append(b")")
        elif sign in "*+?" or (sign == "{" and _is_count(pattern, position)):
            token, written = _repeated(pattern, position)
            parts.append(written)
        elif sign in "^$|":
            token = sign
            plain = {"^": rb"\A", "$": rb"\z", "|": b"|"}[sign]
            lines = sign != "|" and scopes[-1] & re.M
            parts.append(b"(?m:" + sign.encode() + b")" if lines else plain)
        else:
            token = sign
            parts.append(("." if sign == "." else re.escape(sign), scopes[-1]))
        position += len(token)
    return parts


def fold_case(text: str) -> str:
    """A text in which letters that match an ASCII letter regardless of case are that letter."""
    return text.translate(_ASCII_CASE).lower()


def _find_literal(parts: Sequence[bytes | tuple[str, int]]) -> str:
    """The longest run of ASCII characters outside groups that every match contains."""
    runs, depth = [""], 0
    for part, following in zip(parts, [*parts[1:], b""], strict=True):
        if isinstance(part, bytes):
            if part == b"|" and not depth:
                return ""
            depth += (part in (b"(", b"(?:")) - (part == b")")
            if part not in _ANCHORS.values():
                runs.append("")
            continue
        char = part[0].removeprefix("\\")
        is_itself = char != "." if char == part[0] else not char.isalnum()
        optional = isinstance(following, bytes) and following[:1] in (b"*", b"?", b"{")
        if len(char) == 1 and char.isascii() and is_itself and not depth and not optional:
            runs[-1] += char
        else:
            runs.append("")
    return max(map(fold_case, runs), key=len)


def _token(form: re.Pattern[str], pattern: str, position: int) -> str:
    found = form.match(pattern, position)
    assert found is not None, "Python took the pattern"
    return found[0]


def _escaped(token: str, flags: int) -> bytes | tuple[str, int]:
    if token[1] in _ANCHORS:
        return _ANCHORS[token[1]]
    if token[1] in "123456789" and len(token) < 4:
        raise InvalidInputError(
            "uses a backreference, which is not supported", hint=_BACKREFERENCE_HINT
        )
    return token, flags


def _opened(token: str, flags: int) -> int | None:
    """The flags inside a group that begins here; None where nothing is opened."""
    if token == "(" or token.startswith("(?P<"):
        return flags
    if token.startswith(("(?=", "(?!", "(?<=", "(?<!")):
        raise InvalidInputError(
            "uses a lookahead or lookbehind, which is not supported", hint=_LOOKAROUND_HINT
        )
    if token.startswith("(?#"):
        return None
    if token.startswith("(?P="):
        raise InvalidInputError(
            "uses a backreference, which is not supported", hint=_BACKREFERENCE_HINT
        )
    found = _GROUP.fullmatch(token)
    if found is None or found[3] is None:
        kind = "an atomic group" if token.startswith("(?>") else "a conditional group"
        raise InvalidInputError(f"uses {kind}, which is not supported", hint=_SIMPLER_HINT)
    for sign in (found[1] or "") + (found[2] or ""):
        _refuse_flags(0 if sign in "imsu" else re.X if sign == "x" else re.A)
    if found[3] == ")":
        return None
    for sign in found[1] or "":
        flags |= _FLAGS.get(sign, 0)
    for sign in found[2] or "":
        flags &= ~_FLAGS.get(sign, 0)
    return flags


def _refuse_flags(flags: int) -> None:
    for flag, name in ((re.X, "x"), (re.A, "a")):
        if flags & flag:
            raise InvalidInputError(
                f"uses the flag {name}, which is not supported", hint="Use i, m and s only."
            )


def _is_count(pattern: str, position: int) -> bool:
    return bool(_COUNT.match(pattern, position)) and pattern[position + 1] != "}"


def _repeated(pattern: str, position: int) -> tuple[str, bytes]:
    """A repetition, as it stands and as RE2 writes it."""
    count = _COUNT.match(pattern, position)
    token = count[0] if count else pattern[position]
    written = token
    if count:
        low = count[1] or "0"
        high = count[3] if count[2] else low
        if max(int(low), int(high or "0")) > _MAX_REPEAT:
            raise InvalidInputError(
                f"repeats a part more than {_MAX_REPEAT} times", hint=_SIMPLER_HINT
            )
        written = f"{{{low},{high}}}"
    follows = pattern[position + len(token) : position + len(token) + 1]
    if follows == "+":
        raise InvalidInputError(
            "uses a possessive repetition, which is not supported", hint=_SIMPLER_HINT
        )
    lazy = "?" if follows == "?" else ""
    return token + lazy, (written + lazy).encode()


# Matching


@dataclass(frozen=True)
class _Program:
    regexp: re2._Regexp
    codes: Mapping[int, bytes]
    """Of each kind of character."""
    table: Mapping[int, str]
    """The code of each character that was met."""
    width: int
    """Bytes for a character."""
    window: int
    """Bytes."""


def _compile(
    source: bytes, codes: Mapping[int, bytes], table: Mapping[int, str], limit: int
) -> _Program:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        regexp = re2.compile(source, options)
        size = max(regexp.programsize, regexp.reverseprogramsize)
    except re2.error:
        size = limit + 1
    if size > limit:
        raise InvalidInputError("is too large", hint=f"Repeat fewer times. {_SIMPLER_HINT}")
    window = max(100, min(_WINDOW_CHARS, _WINDOW_WORK // size))
    width = len(next(iter(codes.values())))
    return _Program(regexp, codes, table, width, window * width)


def _byte_set(codes: Sequence[bytes]) -> bytes:
    """What matches one of these codes."""
    if not codes:
        return rb"[^\x00-\xff]"
    if len(codes[0]) > 1:
        firsts: dict[int, list[bytes]] = {}
        for code in codes:
            firsts.setdefault(code[0], []).append(code[1:])
        pairs = (rb"\x%02x" % first + _byte_set(seconds) for first, seconds in firsts.items())
        return b"(?:" + b"|".join(pairs) + b")"
    ranges: list[list[int]] = []
    for value in sorted(code[0] for code in codes):
        if ranges and ranges[-1][1] == value - 1:
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    return b"[" + b"".join(rb"\x%02x-\x%02x" % (low, high) for low, high in ranges) + b"]"


def _search_all(program: _Program, data: bytes, position: int) -> Iterator[re2._Match]:
    """Every match, window by window: each search may look at a whole one."""
    while position < len(data):
        limit = min(len(data), position + program.window)
        found = program.regexp.search(data, position, limit)
        if found is None:
            if limit == len(data):
                return
            position += program.window // 2 // program.width * program.width
            continue
        start, end = found.span()
        if end == limit < len(data) and start > position:  # it may go on behind the window
            position = start
            continue
        if end > start:
            yield found
        position = max(end, start + program.width)


def _matches_empty(pattern: UserPattern, text: str) -> bool:
    program = pattern._program
    found = program.regexp.search(text.translate(program.table).encode("latin-1"))
    return found is not None and found.start() == found.end()
