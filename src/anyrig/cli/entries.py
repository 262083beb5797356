"""The file of `anyrig speak --lines`: a text on each row, or a JSON object with an id and a voice.

A row ends with a new line and with nothing else: the separators U+2028 and U+2029 may stand inside
a string of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyrig.cli.voicing import read_text
from anyrig.errors import InvalidInputError

_KNOWN = ("id", "text", "voice", "language", "rate", "seed")
_ROW_END = re.compile(r"\r\n?|\n")
_HALF = re.compile("[\ud800-\udfff]")  # of a character of two; no file and no terminal takes one
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*\ufffd]')
_LONGEST_ID = 200  # bytes: systems allow 255, and an ending is still to come


@dataclass(frozen=True)
class Entry:
    """One text of the file."""

    number: int
    """From 1, blank lines not counted."""
    text: str
    id: str = ""
    voice: str = ""
    language: str = ""
    rate: float = 0.0
    seed: int = 0

    @property
    def stem(self) -> str:
        """The name of its file."""
        return self.id or f"{self.number:04d}"


def read(path: Path) -> list[Entry]:
    """The entries of a file: lines of text, or of JSON where the name says so."""
    pieces = _ROW_END.split(read_text(path))
    rows = [(n, row.strip()) for n, row in enumerate(pieces, 1) if row.strip()]
    if not rows:
        raise InvalidInputError(f"{path} holds no line", hint="A line for each audio file, please.")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        entries = [_entry(i, n, row, path) for i, (n, row) in enumerate(rows, 1)]
    else:
        entries = [Entry(i, row) for i, (_, row) in enumerate(rows, 1)]
    seen: dict[str, int] = {}
    for entry in entries:
        low = entry.stem.lower()  # one file on systems that do not tell the case
        if low in seen:
            raise InvalidInputError(
                f"{path}: entries {seen[low]} and {entry.number} would both be {entry.stem}",
                hint="Give each its own id.",
            )
        seen[low] = entry.number
    return entries


def _entry(number: int, row: int, text: str, path: Path) -> Entry:
    where = f"{path}, line {row}"
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{where} is no JSON: {error}", hint='{"id": "a", "text": "Hello."}'
        ) from None
    if not isinstance(data, dict) or not isinstance(data.get("text"), str):
        raise InvalidInputError(f"{where} has no text", hint='{"id": "a", "text": "Hello."}')
    for name in data:
        if name not in _KNOWN:
            raise InvalidInputError(
                f"{where}: no field {name!r}", hint=f"There are: {', '.join(_KNOWN)}."
            )
    entry_id = _name(data, "id", where, whole=True)
    if _FORBIDDEN.search(entry_id) or entry_id in (".", ".."):
        raise InvalidInputError(
            f"{where}: the id {entry_id[:40]!r} is no file name", hint="Letters, digits."
        )
    if len(entry_id.encode()) > _LONGEST_ID:
        raise InvalidInputError(
            f"{where}: the id {entry_id[:40]!r}... is too long for a file name",
            hint=f"At most {_LONGEST_ID} bytes of UTF-8.",
        )
    speed, seed = _numbers(data, where)
    voice, language = (_name(data, field, where) for field in ("voice", "language"))
    text = _HALF.sub("\ufffd", data["text"])
    return Entry(number, text, entry_id, voice, language, speed, seed)


def _name(data: Mapping[str, Any], field: str, where: str, *, whole: bool = False) -> str:
    """A field that is a string, or with `whole` a whole number; null is as if it were not there."""
    value = data.get(field)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and whole:
        return str(value)
    if not isinstance(value, str):
        raise InvalidInputError(f"{where}: {field} is no string", hint=f'"{field}": "..."')
    return _HALF.sub("\ufffd", value)


def _numbers(data: Mapping[str, Any], where: str) -> tuple[float, int]:
    """The rate and the seed; 0 where none is given."""
    try:
        speed, seed = float(data.get("rate") or 0), int(data.get("seed") or 0)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{where}: rate and seed are numbers", hint='"rate": 1.1') from None
    if speed and not 0.25 <= speed <= 4:
        raise InvalidInputError(f"{where}: rate is {speed:g}", hint="It goes from 0.25 to 4.")
    return speed, seed


def chosen(entries: Sequence[Entry], asked: str) -> set[int]:
    """The numbers that `--only` names: 3,7 or 3-5, or ids."""
    by_id = {entry.id: entry.number for entry in entries if entry.id}
    found: set[int] = set()
    for word in filter(None, (part.strip() for part in asked.split(","))):
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if word in by_id:
            found.add(by_id[word])
        elif span and 1 <= int(span[1]) <= int(span[2] or span[1]) <= len(entries):
            found |= set(range(int(span[1]), int(span[2] or span[1]) + 1))
        else:
            raise InvalidInputError(
                f"--only {word}: no such entry", hint=f"There are 1 to {len(entries)}, or ids."
            )
    if not found:
        raise InvalidInputError("--only names nothing", hint="Such as --only 3,7.")
    return found
