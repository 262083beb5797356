r"""Regular expressions that users write, in lexicons and cast files.

RE2 matches them, in time linear in the text. It is written as in Python: `\w`, `\d` and `\s` match
beyond ASCII; what RE2 does not have is refused with a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, Message

if TYPE_CHECKING:
    import re2

_MAX_PATTERN_CHARS = 200
_MAX_PROGRAM = 500
"""RE2 instructions. A long counted repetition is written out: `a{1,100}` has 200."""
_MAX_MEMORY_BYTES = 1 << 20
_WINDOW = 2000
"""Characters searched at a time: RE2 may look at all of them for each match."""
_TOKEN = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[^:)]*:|\(\?P<\w+>"
    r"|\{,\d+\}|\{\d+(?:,\d*)?\}|.",
    re.DOTALL,
)
_CLASSES = {
    "w": r"\p{L}\p{N}_", "d": r"\p{Nd}", "s": r"\t-\r\x1c-\x20\x{85}\p{Z}",
}  # fmt: skip
"""What they match in Python; in RE2 they match ASCII only."""
_LETTERS = {r"[^\W\d_]": r"\p{L}", r"[^\W_]": r"[\p{L}\p{N}]", r"[^\W\d]": r"[\p{L}_]"}
_SURROGATES = re.compile("[\ud800-\udfff]")
_TEMPLATE = re.compile(r"\\(?:g<(\w+)>|([1-9]\d?)|(.))", re.DOTALL)
_SIMPLER_HINT = "Make it simpler, or split it into several entries."
_REASONS = (
    (r"invalid perl operator: \(\?<?[=!]", "uses a lookahead or lookbehind, which is not supported",
     r"Use \b for the edge of a word, or match the text around it in a group and repeat it "
     r"with \1 in `say`."),
    (r"invalid escape sequence: \\[1-9]|invalid perl operator: \(\?P=",
     "uses a backreference, which is not supported",
     "Write out what is repeated, or make one entry for each case."),
    (r"bad repetition operator: .*\+$", "uses a possessive repetition, which is not supported",
     _SIMPLER_HINT),
    (r"invalid perl operator: \(\?>", "uses an atomic group, which is not supported",
     _SIMPLER_HINT),
    (r"invalid perl operator: \(\?\(", "uses a conditional group, which is not supported",
     _SIMPLER_HINT),
    (r"invalid perl operator: \(\?[a-z]*[xau]", "uses a flag that is not supported",
     "Use i, m and s only."),
    (r"invalid repetition size", "repeats a part more than 1000 times", _SIMPLER_HINT),
    (r"too large", "is too large", f"Repeat fewer times. {_SIMPLER_HINT}"),
)  # fmt: skip
"""RE2's error, what is said of it, and the hint."""


class UserPattern:
    """A user's regular expression, matched by RE2 in time linear in the text."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Raises InvalidInputError with the reason."""
        import re2

        if len(pattern) > _MAX_PATTERN_CHARS:
            raise InvalidInputError(
                f"is longer than {_MAX_PATTERN_CHARS} characters", hint=_SIMPLER_HINT
            )
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY_BYTES
        options.case_sensitive = not ignore_case
        self.pattern = pattern
        try:
            translated = _translate(_SURROGATES.sub("\ufffd", pattern))
            self._regexp = re2.compile(translated, options)
            size = self._regexp.programsize
            if size > _MAX_PROGRAM:  # a class beyond ASCII is large, and costs little
                size = re2.compile(re.sub(r"\\[pP]\{\w+\}", "a", translated), options).programsize
        except re2.error as error:
            raise _explain(error.args[0].decode("utf-8", "replace")) from None
        if size > _MAX_PROGRAM:
            raise _explain("too large")
        for text in ("", "a b 1 ."):
            match = self._regexp.search(text)
            if match is not None and match.start() == match.end():
                raise InvalidInputError(
                    "matches empty text", hint="Make it match at least one character."
                )

    def matches(self, text: str) -> bool:
        """Whether it is found anywhere in a text."""
        return next(self.find_all(text, 0, len(text)), None) is not None

    def find_all(
        self, text: str, start: int, end: int, template: str = ""
    ) -> Iterator[tuple[int, int, str]]:
        """All matches in a stretch of a text, none of them empty, with the template filled in."""
        position = start
        while position < end:
            limit = min(end, position + _WINDOW)
            offset = max(0, position - 1)  # \b looks at the character before
            window = _SURROGATES.sub("\ufffd", text[offset:limit])
            resume = limit if limit == end else limit - _WINDOW // 2
            for match in self._regexp.finditer(window, position - offset):
                left, right = match.start() + offset, match.end() + offset
                if right == limit < end and left > position:  # it may go on behind the window
                    resume = left
                    break
                if right > left:
                    yield left, right, _fill(template, match).strip()
                    resume = max(resume, right)
            position = resume

    def check_template(self, template: str) -> None:
        """InvalidInputError where a `say` names a group that is not there, or has an escape."""
        names = self._regexp.groupindex
        for name, number, sign in _TEMPLATE.findall(template):
            group = name or number
            if sign and sign != "\\":
                raise InvalidInputError(
                    f"the pattern {self.pattern!r} has an invalid escape in its `say`: \\{sign}",
                    hint=r"Write a backslash as \\.",
                )
            if group and (
                int(group) > self._regexp.groups if group.isdigit() else group not in names
            ):
                raise InvalidInputError(
                    f"the pattern {self.pattern!r} has no group {group}",
                    hint="Put that part of the pattern in parentheses: (...).",
                )


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> UserPattern:
    """A user's pattern; InvalidInputError says why it is refused."""
    try:
        return UserPattern(pattern, ignore_case=ignore_case)
    except InvalidInputError as error:
        message = Message(
            "the pattern {pattern!r:.300} {problem}", pattern=pattern, problem=error.message
        )
        raise InvalidInputError(message, hint=error.hint) from None


def _translate(pattern: str) -> str:
    r"""A pattern as RE2 writes it: `\w`, `\d` and `\s` match beyond ASCII, as in Python."""
    tokens = [match[0] for match in _TOKEN.finditer(pattern)]
    _refuse_foreign_edges(tokens)
    return "".join(map(_translate_token, tokens))


def _translate_token(token: str) -> str:
    if token in _LETTERS:
        return _LETTERS[token]
    if token.startswith("[") and len(token) > 1:
        return re.sub(r"\\.", lambda found: _translate_in_class(found[0]), token)
    if token.startswith("{,"):
        return "{0" + token[1:]
    if token == r"\Z":
        return r"\z"
    if code := re.fullmatch(r"\\[uU]([0-9a-fA-F]+)", token):
        return rf"\x{{{code[1]}}}"
    if token[:1] == "\\" and token[1:].lower() in _CLASSES:
        return f"[{'^' * token[1].isupper()}{_CLASSES[token[1].lower()]}]"
    return token


def _translate_in_class(escape: str) -> str:
    if escape == r"\D":
        return r"\P{Nd}"
    if escape in (r"\W", r"\S"):
        raise InvalidInputError(
            f"has {escape} within [...], which is not supported",
            hint=r"Write the characters that are meant, or [^\w...] for all but those.",
        )
    return _CLASSES.get(escape[1:], escape)


def _refuse_foreign_edges(tokens: Sequence[str]) -> None:
    r"""RE2's `\b` knows ASCII letters only: `\bÁvila\b` would find nothing."""
    for index, token in enumerate(tokens):
        if token != r"\b":
            continue
        before, after = _neighbour(tokens[:index][::-1], ")", "("), _neighbour(tokens[index + 1 :])
        for sign in before + after:
            if sign.isalpha() and not sign.isascii():
                raise InvalidInputError(
                    rf"has \b beside {sign!r}: \b knows the letters a to z only",
                    hint="Use `word` instead of `pattern`: it matches whole words.",
                )


def _neighbour(tokens: Sequence[str], opening: str = "(", closing: str = ")") -> str:
    """The characters that may stand first: those of a token, or of a whole group."""
    depth, text = 0, ""
    for token in tokens:
        depth += token[0] == opening
        depth -= token[0] == closing
        if token[0] not in "()*+?{":
            code = re.fullmatch(r"\\[uU]([0-9a-fA-F]+)", token)
            text += chr(int(code[1], 16)) if code else token
        if depth <= 0 and text:
            break
    return text


def _explain(problem: str) -> InvalidInputError:
    for reason, message, hint in _REASONS:
        if re.search(reason, problem):
            return InvalidInputError(message, hint=hint)
    return InvalidInputError(
        f"is not a valid regular expression: {problem}",
        hint=r"Escape special characters with a backslash, such as \( or \*.",
    )


def _fill(template: str, match: re2._Match) -> str:
    r"""A template with `\1` and `\g<name>` filled in; a group that took no part is empty."""

    def fill(found: re.Match[str]) -> str:
        name, number, sign = found.groups()
        if sign:
            return str(sign)
        return match[int(number or name) if (number or name).isdigit() else name] or ""

    return _TEMPLATE.sub(fill, template)
