"""Whether a user's regular expression can be run on any text without harm.

Python's matcher tries every way to split a text among the parts of a pattern, and there is no clock
on it. The ways are counted on the pattern itself: a repeated group that holds another repetition or
a choice has exponentially many, so it is refused, though now and then one would do no harm.
"""

from __future__ import annotations

import re

_LONGEST = 200
_MOST_REPEATS = 4
"""One after another they cost a power of the text's length each."""
_REPEAT = re.compile(r"\*|\+|\{(\d*)(,?)(\d*)\}")
_FEW = 10


def problem(pattern: str, replacement: str = "") -> str:
    """What is wrong with it, or nothing."""
    if len(pattern) > _LONGEST:
        return f"is longer than {_LONGEST} characters"
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression: {error}"
    if any(found and not found[0] for found in map(compiled.search, ("", "a b 1 ."))):
        return "matches the empty text"
    if wrong := _repeats(pattern):
        return wrong
    return _replaced(compiled, replacement)


def _replaced(compiled: re.Pattern[str], replacement: str) -> str:
    """A group that the replacement names and the pattern lacks."""
    for name in re.findall(r"(?<!\\)\\(?:g<(\w+)>|(\d{1,2}))", replacement):
        group = name[0] or name[1]
        known = int(group) <= compiled.groups if group.isdigit() else group in compiled.groupindex
        if not known:
            return f"has no group {group}"
    try:
        re.compile("x").sub(re.sub(r"\\(?:g<\w+>|\d{1,2})", "", replacement), "x")
    except (re.error, IndexError) as error:
        return f"has a `say` that is not understood: {error}"
    return ""


def _repeats(pattern: str) -> str:
    """Repetitions inside repetitions, found without a parser: escapes, sets and groups suffice."""
    bare = re.sub(r"\\.", "x", pattern, flags=re.S)
    bare = re.sub(r"\[\^?\]?[^\]]*\]", "x", bare)
    depth: list[bool] = [False]
    total = position = 0
    while position < len(bare):
        sign = bare[position]
        repeat = _REPEAT.match(bare, position)
        position = repeat.end() if repeat else position + 1
        if sign == "(":
            depth.append(False)
            position += bare.startswith("?", position)
        elif sign in "|?":
            depth[-1] = True
        elif sign == ")" and len(depth) > 1:
            inner = depth.pop()
            if inner and _many(_REPEAT.match(bare, position)):
                return "repeats a group that holds a repetition or a choice"
            depth[-1] = depth[-1] or inner
        elif _many(repeat):
            depth[-1] = True
            total += 1
    return f"has more than {_MOST_REPEATS} repetitions" if total > _MOST_REPEATS else ""


def _many(repeat: re.Match[str] | None) -> bool:
    """Whether a repetition has no end, or a far one."""
    if repeat is None:
        return False
    if repeat[0] in "*+":
        return True
    most = repeat[3] if repeat[2] else repeat[1]
    return not most or int(most) > _FEW
