"""Lines to be spoken that came from outside: each looked at, and written down by us.

What a sender calls a line is never a file's name: lines are numbered from 1, and their files too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.server.routes.speech import LANGUAGE

MOST_LINES = 20_000
_MOST_BYTES = 32 << 20
_LONGEST = 20_000
_FIELDS = ("text", "voice", "language", "rate", "seed", "id")
_LANGUAGE = re.compile(LANGUAGE)
_MOST_SEED = 1 << 31
_SLOWEST, _FASTEST = 0.25, 4.0
_HINT = '{"text": "Hello.", "voice": "...", "rate": 1.0}'


def read(path: Path, name: str) -> list[Any]:
    """The lines of a file: of text, or of JSON where each is an object."""
    if path.stat().st_size > _MOST_BYTES:
        raise LimitExceededError(f"{name} is too long for a list of lines", hint="Split it.")
    from anyrig.text.decode import decode

    rows = [row.strip() for row in re.split(r"\r\n?|\n", decode(path.read_bytes(), name))]
    rows = [row for row in rows if row]
    if name.lower().endswith((".jsonl", ".ndjson")) or all(row.startswith("{") for row in rows):
        try:
            return [json.loads(row) for row in rows]
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"{name} holds a line that is no JSON", hint=_HINT) from error
    return rows


def checked(rows: Any, voice: re.Pattern[str]) -> list[dict[str, Any]]:
    """The lines as `anyrig speak --lines` reads them; `InvalidInputError` says which is wrong."""
    if not isinstance(rows, list) or not rows:
        raise InvalidInputError("there are no lines", hint='["Hello.", {"text": "Good bye."}]')
    if len(rows) > MOST_LINES:
        raise LimitExceededError(
            f"there are {len(rows)} lines", hint=f"At most {MOST_LINES} at once."
        )
    return [_line(number, row, voice) for number, row in enumerate(rows, 1)]


def _line(number: int, row: Any, voice: re.Pattern[str]) -> dict[str, Any]:
    row = {"text": row} if isinstance(row, str) else row
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise InvalidInputError(f"line {number} has no text", hint=_HINT)
    for name in row:
        if name not in _FIELDS:
            raise InvalidInputError(
                f"line {number} has a field {name[:40]!r}", hint=", ".join(_FIELDS)
            )
    if len(row["text"]) > _LONGEST or "\0" in row["text"]:
        raise InvalidInputError(f"line {number} is too long, or holds a null", hint="Split it.")
    named = row.get("voice")
    if named not in (None, "") and not (isinstance(named, str) and voice.fullmatch(named)):
        raise InvalidInputError(f"line {number}: the voice is a name", hint=_HINT)
    _check_fields(number, row)
    if "<" in row["text"] and "voice" in row["text"].lower():  # also <ssml:voice>
        _refuse_marked(number, row["text"], voice)
    kept = {name: row[name] for name in _FIELDS if row.get(name) not in (None, "")}
    return {**kept, "id": f"{number:04d}"}


def _check_fields(number: int, row: dict[str, Any]) -> None:
    """That what else is said of a line is of its kind: a job must not fail for it in the end."""
    language, rate, seed = (row.get(name) for name in ("language", "rate", "seed"))
    if language not in (None, "") and not (
        isinstance(language, str) and _LANGUAGE.fullmatch(language)
    ):
        raise InvalidInputError(
            f"line {number}: the language is no code", hint="Such as en or es-MX."
        )
    if rate is not None and not (_is_number(rate) and _SLOWEST <= rate <= _FASTEST):
        raise InvalidInputError(
            f"line {number}: the rate is no number from {_SLOWEST:g} to {_FASTEST:g}", hint=_HINT
        )
    if seed is not None and not (_is_number(seed) and seed % 1 == 0 and 0 <= seed < _MOST_SEED):
        raise InvalidInputError(
            f"line {number}: the seed is no whole number", hint=f"From 0 to {_MOST_SEED - 1}."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse_marked(number: int, text: str, voice: re.Pattern[str]) -> None:
    """A marked-up text may name a voice, and a recording's path is one."""
    for name in re.findall(r"""name\s*=\s*["']([^"']*)""", text, re.IGNORECASE):
        if name and not voice.fullmatch(name):
            raise InvalidInputError(f"line {number}: the voice is a name", hint=_HINT)


def written(lines: Sequence[dict[str, Any]]) -> str:
    """As a file of `--lines`."""
    return "".join(json.dumps(line) + "\n" for line in lines)
