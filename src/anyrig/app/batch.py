"""Many texts, an audio file for each; a run that was interrupted continues where it stopped.

`lines.jsonl` beside the files says what each was made from. A file that exists and was made from
the same text, voice and options is left alone, so that a changed line makes only its file again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.app.cache import open_cache
from anyrig.app.engines import (
    check_voice,
    choose_engine,
    detect_language,
    resolve_voice,
    suggest_engines,
)
from anyrig.app.events import OnEvent
from anyrig.app.files import normalize_format
from anyrig.app.speech import (
    AudioOptions,
    SynthesisOptions,
    load_lexicon,
    open_synthesizer,
    prepare_script,
    resolve_format,
    warn_of_seed,
    warn_some,
    write_takes,
)
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    OptionRef,
    UnspeakableTextError,
    UnsupportedLanguageError,
)
from anyrig.events import ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.speech.choose import EngineChoice

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
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


@dataclass(frozen=True, kw_only=True)
class BatchRequest(SynthesisOptions, AudioOptions):
    """Many texts."""

    file: Path = option(help="a file of lines, or JSONL", metavar="FILE", upload=True, flag=False)
    output: Path | None = option(
        None, "folder for the audio files; the file's name without its suffix if not given",
        http=False, flag=False,
    )  # fmt: skip
    format: str = option(
        "wav", "wav, flac, mp3, opus, m4a, aac or pcm", flag=False, normalize=normalize_format
    )
    ssml: bool = option(False, "the texts are SSML; detected where one begins with <speak")
    only: str = option("", "make these again, as 3,7 or 3-5 or an id", metavar="LIST", http=False)


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


@dataclass
class BatchResult:
    """What was made, what existed, and what failed."""

    folder: Path
    engine: EngineChoice
    items: list[BatchItem] = field(default_factory=list)
    """Lines that had, or have, to be spoken."""
    num_existing: int = 0
    num_made: int = 0
    audio_s: float = 0.0
    failed: list[FailedLine] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder), "engine": self.engine.name, "made": self.num_made,
            "left": self.num_existing, "failed": [one.line.stem for one in self.failed],
            "audio_s": round(self.audio_s, 3),
        }  # fmt: skip


def plan_batch(rig: Rig, request: BatchRequest, on_event: OnEvent) -> BatchResult:
    """Decide which lines have to be spoken."""
    from anyrig.speech.synthesis import vary_script

    lines = read_lines(request.file)
    folder = request.output or Path(request.file.stem)
    format = resolve_format(request.format)
    only = _select(lines, request.only) if request.only else set()
    texts = [line.text for line in lines if not line.language] or [line.text for line in lines]
    # Of the list as a whole: a line of two words says little.
    language = detect_language(" ".join(texts), request)
    choice = choose_engine(rig, request, language)
    _check_common_options(rig, request, choice, language)
    warn_of_seed(request, choice, on_event)
    on_event(ProgressEvent("checking existing files"))
    known = _read_manifest(folder)
    result = BatchResult(folder, choice)
    for line in lines:
        if only and line.number not in only:
            continue
        path = folder / f"{line.stem}.{format}"
        last = known.get(path.name, {})
        # The seed of the existing take, unless the file requests another one.
        requested = last.get("requested_seed", last.get("asked"))  # the second is the name of 0.1.0
        seed = int(last["seed"]) if requested == line.seed else line.seed
        seeded = replace(line, seed=seed + (bool(only) and not request.seed))
        try:
            script = _prepare_line(rig, request, choice, seeded, language)
            script = vary_script(script, seeded.seed - line.seed, choice.info)
        except _LineError as error:
            result.failed.append(FailedLine(seeded, error.message, error.hint))
            continue
        key = _make_key(request, choice, script, format)
        if not only and path.exists() and last.get("key") == key:
            result.num_existing += 1
        else:
            again = bool(only) or request.fresh
            result.items.append(BatchItem(seeded, script, key, path, again, line.seed))
    warnings = [f"{one.path.name}: {text}" for one in result.items for text in one.script.warnings]
    warn_some(on_event, warnings, "of this kind")
    return result


def speak_lines(rig: Rig, request: BatchRequest, on_event: OnEvent) -> BatchResult:
    """Speak every line whose file does not exist yet."""
    result = plan_batch(rig, request, on_event)
    if not result.items:
        return result
    if result.folder.exists() and not result.folder.is_dir():
        raise InvalidInputError(
            f"{result.folder} is a file",
            hint=Message("{output} must name a folder.", output=OptionRef("output")),
        )
    result.folder.mkdir(parents=True, exist_ok=True)
    num_characters = sum(len(item.line.text) for item in result.items)
    with (
        open_cache(rig) as cache,
        open_synthesizer(rig, request, result.engine, num_characters, cache) as synthesizer,
    ):
        total, made = len(result.items), 0
        on_event(ProgressEvent("loading the voice", 0, total))
        for count, (item, takes) in enumerate(_speak_items(synthesizer, result.items), 1):
            failures = [take.failure for take in takes if take.failure is not None]
            if failures:
                message = "; ".join(failure.message for failure in failures)
                result.failed.append(FailedLine(item.line, message, failures[0].hint))
                continue
            for problem in (problem for take in takes for problem in take.problems):
                on_event(WarningEvent(f"{item.path.name}: {problem}"))
            result.audio_s += write_takes(item.path, takes, synthesizer.rate, request.loudness)
            _append_to_manifest(item)
            result.num_made += 1
            if all(take.cached for take in takes):
                num_characters -= len(item.line.text)
            else:
                made += len(item.line.text)
            on_event(
                ProgressEvent(
                    "speaking", count, total, item.line.text, result.audio_s, made, num_characters
                )
            )
    return result


# -- the file of lines -----------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Read a text file, whatever its encoding."""
    from anyrig.text.decode import decode

    if not path.is_file():
        raise InvalidInputError(f"no such file: {path}", hint="Check the path.")
    return decode(path.read_bytes(), str(path))


def read_lines(path: Path) -> list[BatchLine]:
    """Read a text on each line, or, from a .jsonl file, an object with text, id and voice."""
    is_json = path.suffix.lower() in (".jsonl", ".ndjson")
    return parse_lines(read_text(path), str(path), is_json=is_json)


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
        raise InvalidInputError(f"rate is {rate:g}", hint="It must be between 0.25 and 4.")
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


def _select(lines: Sequence[BatchLine], words: str) -> set[int]:
    """The numbers of the selected lines: 3,7 or 3-5, or ids."""
    by_id = {line.id: line.number for line in lines if line.id}
    numbers: set[int] = set()
    for word in filter(None, (part.strip() for part in words.split(","))):
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if word in by_id:
            numbers.add(by_id[word])
        elif span and 1 <= int(span[1]) <= int(span[2] or span[1]) <= len(lines):
            numbers |= set(range(int(span[1]), int(span[2] or span[1]) + 1))
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


# -- planning --------------------------------------------------------------------------------------


class _LineError(UnspeakableTextError):
    """A text that cannot be spoken: its own file fails, and no other."""


def _check_common_options(
    rig: Rig, request: BatchRequest, choice: EngineChoice, language: str
) -> None:
    """What is wrong with the options of all lines is one error, not one for each line."""
    from anyrig.speech.language import build_language_error, match_language

    resolve_voice(rig, request, choice)
    load_lexicon(rig, request)
    spoken = choice.found.languages
    if request.language != "auto" and not match_language(language, spoken):
        raise suggest_engines(rig, build_language_error(language, spoken), request, choice)


def _prepare_line(
    rig: Rig, request: BatchRequest, choice: EngineChoice, line: BatchLine, language: str
) -> Script:
    from anyrig.speech.language import PARAGRAPH_WORDS, excerpt, match_language, name_language
    from anyrig.text.language import detect, num_words

    if line.voice:
        try:
            check_voice(line.voice, choice)
        except AnyrigError as error:
            error.message = Message("line {stem}: {problem}", stem=line.stem, problem=error.message)
            raise
    given = {
        "voice": line.voice, "language": line.language, "rate": line.rate,
        "seed": line.seed + request.seed,
    }  # fmt: skip
    more: dict[str, Any] = {name: value for name, value in given.items() if value}
    try:
        return prepare_script(rig, request, choice, line.text, default_language=language, **more)
    except InvalidInputError as error:
        # A text that is too short to be sure of its language is read in that of the list.
        is_guess = isinstance(error.__cause__, UnsupportedLanguageError) and not line.language
        is_guess = is_guess and num_words(line.text) < PARAGRAPH_WORDS
        if not is_guess or not match_language(language, choice.found.languages):
            raise _LineError(error.message, hint=error.hint) from error
        script = prepare_script(rig, request, choice, line.text, **more, language=language)
        seems = name_language(detect(line.text, default=language).language)
        warning = f"{excerpt(line.text)!r} looks like {seems}; read as {name_language(language)}"
        return replace(script, warnings=(warning, *script.warnings))


def _make_key(request: BatchRequest, choice: EngineChoice, script: Script, format: str) -> str:
    from anyrig.storage.keys import make_key

    lines = [(segment.utterance, segment) for segment in script.segments]
    named = {line.voice for line, _ in lines}
    voices = [voice for voice in choice.found.voices if "" in named or voice.name in named]
    return make_key(
        lines=[
            [line.text, line.language, line.voice, line.rate, line.seed, segment.pause_before_s,
             segment.pause_after_s] for line, segment in lines
        ],
        engine=choice.name, version=choice.found.version, weights=choice.found.fingerprint,
        options=choice.options, format=format, loudness=request.loudness,
        # Another recording under the same name is another voice.
        recordings=[voice.digest for voice in voices if voice.digest],
    )  # fmt: skip


# -- speaking and writing --------------------------------------------------------------------------


def _speak_items(
    synthesizer: Synthesizer, items: Sequence[BatchItem]
) -> Iterator[tuple[BatchItem, list[SpokenSegment]]]:
    """Each item once all its segments are made; all items share the workers."""
    for again in (False, True):
        some = [item for item in items if item.again == again]
        segments = [segment for item in some for segment in item.script.segments]
        with synthesizer.read(segments, fresh=again) as reading:
            takes = iter(reading)
            for item in some:
                yield item, [next(takes) for _ in item.script.segments]


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


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
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
