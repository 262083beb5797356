"""Many texts, an audio file for each: the file of lines, the manifest, and the making.

`lines.jsonl` beside the audio files says what each was made from, so that a run that was
interrupted continues where it stopped, and a changed line makes only its file again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.units import parse_range

if TYPE_CHECKING:
    from anyrig.speech.segment import Script
    from anyrig.speech.synthesis import SpokenSegment, Synthesizer

MANIFEST = "lines.jsonl"
_FIELDS = ("id", "text", "voice", "language", "rate", "seed")
_EXAMPLE = '{"id": "a", "text": "Hello."}'
# A line ends with a new line only: U+2028 and U+2029 may stand inside a JSON string.
_LINE_END = re.compile(r"\r\n?|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: no file and no terminal takes it
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*\ufffd]')
_MAX_ID_BYTES = 200  # file systems allow 255, and a suffix is still to come


@dataclass(frozen=True)
class BatchLine:
    """One text of the file."""

    number: int
    """From 1; blank lines do not count."""
    text: str
    id: str = ""
    voice: str = ""
    language: str = ""
    rate: float = 0.0
    seed: int = 0

    @property
    def stem(self) -> str:
        """The name of its file, without a suffix."""
        return self.id or f"{self.number:04d}"


@dataclass(frozen=True)
class BatchItem:
    """A line that has to be spoken."""

    line: BatchLine
    script: Script
    key: str
    """Of everything that its file is made from."""
    path: Path
    again: bool
    requested_seed: int

    @property
    def spoken_text(self) -> str:
        return " ".join(segment.spoken for segment in self.script.segments)


class FailedLine(NamedTuple):
    line: BatchLine
    message: str
    hint: str = ""


# -- the file of lines -----------------------------------------------------------------------------


def read_lines(path: Path) -> list[BatchLine]:
    """Read a text on each line, or, from a .jsonl file, an object with text, id and voice."""
    from anyrig.text.decode import read_plain_text

    is_json = path.suffix.lower() in (".jsonl", ".ndjson")
    return parse_lines(read_plain_text(path), str(path), is_json=is_json)


def parse_lines(text: str, name: str, *, is_json: bool) -> list[BatchLine]:
    """Parse lines, each a text or a JSON object; errors call them by `name`."""
    pieces = _LINE_END.split(text)
    rows = [(n, row.strip()) for n, row in enumerate(pieces, 1) if row.strip()]
    if not rows:
        raise InvalidInputError(f"{name} is empty", hint="Write a line for each audio file.")
    if is_json:
        lines = [_parse_row(i, n, row, name) for i, (n, row) in enumerate(rows, 1)]
    else:
        lines = [BatchLine(i, row) for i, (_, row) in enumerate(rows, 1)]
    seen: dict[str, int] = {}
    for line in lines:
        stem = line.stem.lower()  # the same file where the file system ignores case
        if stem in seen:
            raise InvalidInputError(
                f"{name}: lines {seen[stem]} and {line.number} would both be written to"
                f" {line.stem}",
                hint="Give each its own id.",
            )
        seen[stem] = line.number
    return lines


def _parse_row(number: int, row: int, text: str, name: str) -> BatchLine:
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or not isinstance(data.get("text"), str):
            raise InvalidInputError("it has no text", hint=_EXAMPLE)
        for field_name in data:
            if field_name not in _FIELDS:
                hint = f"Valid fields: {', '.join(_FIELDS)}."
                raise InvalidInputError(f"unknown field {field_name[:40]!r}", hint=hint)
        spoken, id, voice, language = (
            _read_string(data, key) for key in ("text", "id", "voice", "language")
        )
        _check_id(id)
        rate, seed = _read_numbers(data)
        return BatchLine(number, spoken, id, voice, language, rate, seed)
    except InvalidInputError as error:
        error.message = Message(
            "{name}, line {row}: {problem}", name=name, row=row, problem=error.message
        )
        raise
    except ValueError as error:
        raise InvalidInputError(
            f"{name}, line {row} is not valid JSON: {error}", hint=_EXAMPLE
        ) from None


def _read_string(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str | None):
        raise InvalidInputError(f"{name} must be a string", hint=f'"{name}": "..."')
    return _SURROGATE.sub("\ufffd", value or "")


def _read_numbers(data: Mapping[str, Any]) -> tuple[float, int]:
    try:
        rate, seed = float(data.get("rate") or 0), int(data.get("seed") or 0)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError("rate and seed must be numbers", hint='"rate": 1.1') from None
    if rate and not 0.25 <= rate <= 4:
        raise InvalidInputError(
            f"rate must be between 0.25 and 4, not {rate:g}", hint="1 is the voice's own rate."
        )
    return rate, seed


def _check_id(id: str) -> None:
    if _FORBIDDEN.search(id) or id in (".", ".."):
        raise InvalidInputError(
            f"the id {id[:40]!r} is not a valid file name", hint="Use letters and digits."
        )
    if len(id.encode()) > _MAX_ID_BYTES:
        raise InvalidInputError(
            f"the id {id[:40]!r}... is too long for a file name",
            hint=f"Use at most {_MAX_ID_BYTES} bytes of UTF-8.",
        )


def select_lines(lines: Sequence[BatchLine], words: str) -> set[int]:
    """The numbers of the selected lines: 3,7 or 3-5, or ids."""
    by_id = {line.id: line.number for line in lines if line.id}
    numbers: set[int] = set()
    for word in filter(None, (part.strip() for part in words.split(","))):
        first, last = parse_range(word) or (0, 0)
        if word in by_id:
            numbers.add(by_id[word])
        elif 1 <= first <= last <= len(lines):
            numbers |= set(range(first, last + 1))
        else:
            raise InvalidInputError(
                Message("{only}: no line {word}", only=OptionRef("only"), word=word),
                hint=f"Lines are numbered from 1 to {len(lines)}, or have ids.",
            )
    if not numbers:
        raise InvalidInputError(
            Message("{only} is empty", only=OptionRef("only")), hint="Such as 3,7."
        )
    return numbers


# -- speaking and writing --------------------------------------------------------------------------


def speak_items(
    synthesizer: Synthesizer, items: Sequence[BatchItem], loudness: float, on_event: OnEvent
) -> Iterator[FailedLine | float]:
    """Speak items and write their files; for each the seconds of audio, or why it failed.

    A file is entered into the manifest when it is complete.
    """
    from anyrig.speech.chunks import write_takes

    total, made = len(items), 0
    num_characters, audio_s = sum(len(item.line.text) for item in items), 0.0
    on_event(ProgressEvent("loading the voice", 0, total))
    for count, (item, takes) in enumerate(_read_items(synthesizer, items), 1):
        failures = [take.failure for take in takes if take.failure is not None]
        if failures:
            message = "; ".join(failure.message for failure in failures)
            yield FailedLine(item.line, message, failures[0].hint)
            continue
        for problem in (problem for take in takes for problem in take.problems):
            on_event(WarningEvent(f"{item.path.name}: {problem}"))
        duration_s = write_takes(item.path, takes, synthesizer.rate, loudness)
        _append_to_manifest(item)
        audio_s += duration_s
        if all(take.cached for take in takes):
            num_characters -= len(item.line.text)
        else:
            made += len(item.line.text)
        yield duration_s
        on_event(
            ProgressEvent("speaking", count, total, item.line.text, audio_s, made, num_characters)
        )


def _read_items(
    synthesizer: Synthesizer, items: Sequence[BatchItem]
) -> Iterator[tuple[BatchItem, list[SpokenSegment]]]:
    """Each item once all its segments are made."""
    for again in (False, True):
        some = [item for item in items if item.again == again]
        scripts = [item.script for item in some]
        yield from zip(some, synthesizer.read_scripts(scripts, fresh=again), strict=True)


def _append_to_manifest(item: BatchItem) -> None:
    row = {
        "file": item.path.name, "key": item.key, "seed": item.line.seed,
        "requested_seed": item.requested_seed, "text": item.line.text,
    }  # fmt: skip
    data = json.dumps(row, ensure_ascii=False).encode() + b"\n"
    with (item.path.parent / MANIFEST).open("ab+") as file:
        # A row that a kill cut off must not swallow this one.
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
            data = b"\n" + data
        file.write(data)


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """What each file was made from, by name; the last row counts, and damaged rows do not."""
    found: dict[str, dict[str, Any]] = {}
    try:
        rows = (folder / MANIFEST).read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return found
    for row in rows:
        try:
            data = json.loads(row)
            found[str(data["file"])] = {**data, "seed": int(data["seed"])}
        except (ValueError, TypeError, KeyError):
            continue
    return found
