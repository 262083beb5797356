"""The kinds of jobs, by name: what each may be told, and how it is done.

    checked = check("book", {"file": "/books/alice.epub", "voice": "af_heart"})
    work(jobs, runner(environment))

A job's arguments are plain JSON with the long names of the command's flags, `read_along` for
`--read-along`. An unknown name, or a value of another kind, is refused before it is queued.
"""

from __future__ import annotations

import difflib
import math
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anyrig.errors import InvalidInputError
from anyrig.jobs import Job, JobHandler, ReportEvent, StopSignal
from anyrig.services.command import run_command
from anyrig.storage.keys import JsonValue

Type = Literal["text", "path", "number", "whole", "yes", "list", "options"]
_TOLD: dict[Type, str] = {
    "text": "a text", "path": "a path", "number": "a number", "whole": "a whole number",
    "yes": "true or false", "list": "a text or a list of texts",
    "options": "an object of texts and numbers",
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A command that can be a job."""

    command: str
    flags: Mapping[str, Type]
    result: tuple[str, ...]
    """What is kept of the last thing it says."""
    folders: bool = False
    """Whether its file may be a folder."""
    own_folder: str = ""
    """A flag for where it works: chosen when it is queued, so that another try goes on there."""
    partly: str = ""
    """The event that, said last, means that it is done, though files had to be left out."""
    file_flag: str | None = ""
    """The flag that names its file; the first word where empty; None for one that has no file."""
    many: bool = False
    """Whether it may have several: `files` instead of `file`."""
    words: tuple[str, ...] = ()
    """What is always said, beside `--json`."""


_COMPUTING: dict[str, Type] = {
    "device": "text", "strict": "yes", "no_bench": "yes", "config": "path", "precision": "text",
    "profile": "text", "memory_gb": "number", "memory_fraction": "number",
    "workers_per_device": "whole",
}  # fmt: skip
_SPEAKING: dict[str, Type] = {
    "engine": "text", "voice": "text", "model": "path", "language": "text", "rate": "number",
    "seed": "whole", "set": "options", "lexicon": "path", "cluster": "text",
}  # fmt: skip
_BOOK: dict[str, Type] = {
    "output": "path", "format": "text", "chapters": "list", "again": "list", "allow_gaps": "yes",
    "fresh": "yes", "levels": "text", "title": "text", "untitled": "text",
    "author": "text", "narrator": "text",
    "cover": "path", "captions": "list", "read_along": "yes", "loudness": "number",
    "bitrate": "text", "cast": "path", "notes": "text", "tables": "text", "images": "text",
    "poems": "text", "code": "text", "pages": "text", "titles": "text", "matter": "text",
    "foreign": "text",
}  # fmt: skip
_TRANSCRIPT: dict[str, Type] = {
    "output": "path", "format": "list", "language": "text", "model": "text", "engine": "text",
    "translate": "yes", "word_times": "yes", "fresh": "yes", "fetch": "yes",
}  # fmt: skip
_INDEX: dict[str, Type] = {
    "index": "text", "model": "text", "ocr": "text", "type": "list", "retry": "yes",
}  # fmt: skip
_TRAIN: dict[str, Type] = {
    "run": "path", "set": "options", "steps": "whole", "nproc": "text", "strategy": "text",
    "export": "path", "tensorboard": "yes",
    **{name: type for name, type in _COMPUTING.items() if name != "workers_per_device"},
}  # fmt: skip
_BATCH: dict[str, Type] = {
    "output": "path", "format": "text", "only": "text", "fresh": "yes", "loudness": "number",
}  # fmt: skip
_BENCH: dict[str, Type] = {
    "quick": "yes", "device": "text", "speech": "yes", "no_save": "yes", "engine": "text",
    "voice": "text", "precision": "text",
}  # fmt: skip
KINDS: Mapping[str, Kind] = {
    "batch": Kind(
        "speak",
        {**_BATCH, **_SPEAKING, **_COMPUTING},
        ("folder", "engine", "made", "left", "failed", "audio_s", "warnings"),
        partly="done",
        file_flag="--lines",
        words=("--events",),
    ),
    "bench": Kind(
        "bench",
        _BENCH,
        ("devices", "engine", "speech", "warnings"),
        file_flag=None,
        words=("--events",),
    ),
    "train": Kind(
        "train",
        _TRAIN,
        ("run", "files", "steps", "loss", "validation", "seconds", "precision", "micro_batch",
         "left_out", "warnings"),
        own_folder="run",
        partly="done",
    ),
    "index": Kind(
        "index",
        {**_INDEX, **_COMPUTING},
        ("index", "model", "new", "changed", "moved", "same", "gone", "passages", "failed",
         "wall_s", "warnings"),
        folders=True,
        many=True,
        partly="done",
    ),
    "transcribe": Kind(
        "transcribe",
        {**_TRANSCRIPT, **_COMPUTING},
        ("files", "engine", "language", "audio_s", "wall_s", "kept", "failed", "warnings"),
    ),
    "book": Kind(
        "book",
        {**_BOOK, **_SPEAKING, **_COMPUTING},
        ("files", "beside", "engine", "language", "audio_s", "wall_s", "kept", "chapters",
         "omitted", "warnings"),
    ),
}  # fmt: skip


def check(kind: str, arguments: Mapping[str, JsonValue], folder: Path) -> dict[str, JsonValue]:
    """The arguments as they are queued, every path whole; `InvalidInputError` says what is wrong.

    Args:
        kind: one of `KINDS`.
        arguments: what is asked for; `file` must be there, where the kind has one.
        folder: where paths begin, and where the job will run.
    """
    entry = _kind(kind)
    flags = entry.flags
    own = () if entry.file_flag is None else ("file", "files") if entry.many else ("file",)
    known = (*own, *flags)
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise InvalidInputError(
                f"a {kind} takes no {name!r}",
                hint=(f"Did you mean {near[0]!r}? " if near else "")
                + f"It takes: {', '.join(known)}.",
            )
    found: dict[str, JsonValue] = {"folder": str(folder.absolute())}
    if entry.file_flag is not None:
        found |= _files(kind, entry, arguments, folder)
    for name, type in flags.items():
        if arguments.get(name) is not None:
            found[name] = _value(kind, name, type, arguments[name], folder)
    if entry.own_folder and entry.own_folder not in found:
        day = time.strftime("%Y-%m-%d-%H%M")
        name = f"{Path(str(found['file'])).stem}-{day}-{secrets.token_hex(2)}"
        found[entry.own_folder] = os.path.abspath(folder / "runs" / name)
    return found


def _files(
    kind: str, entry: Kind, arguments: Mapping[str, JsonValue], folder: Path
) -> dict[str, JsonValue]:
    """The file it is of, whole and there; or several, the first of them also as `file`."""
    several = arguments.get("files") if entry.many else None
    if several is None:
        given: Sequence[JsonValue] = [arguments.get("file")]
    elif arguments.get("file") is not None:
        raise InvalidInputError(f"a {kind} has 'file' or 'files'", hint="Give one of them.")
    elif isinstance(several, Sequence) and not isinstance(several, str) and several:
        given = several
    else:
        raise InvalidInputError(
            f"'files' of a {kind} is a list of paths", hint="Name at least one."
        )
    paths = [_value(kind, "file", "path", one, folder) for one in given]
    for path in paths:
        there = Path(str(path))
        if not (there.is_file() or (entry.folders and there.is_dir())):
            raise InvalidInputError(f"there is no file {path}", hint="Name one that is there.")
    return {"file": paths[0]} if several is None else {"file": paths[0], "files": paths}


def words_of(kind: str, arguments: Mapping[str, JsonValue]) -> list[str]:
    """The command line of checked arguments."""
    entry = _kind(kind)
    words = [entry.command, *_named(entry, arguments), "--json", *entry.words]
    for name, type in entry.flags.items():
        value, flag = arguments.get(name), f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if type == "yes":
            words.append(flag)
        elif type == "options" and isinstance(value, Mapping):
            words += [f"{flag}={key}={_word(one)}" for key, one in value.items()]
        elif type == "list" and not isinstance(value, str) and isinstance(value, Sequence):
            words.append(f"{flag}={','.join(map(str, value))}")
        else:
            words.append(f"{flag}={value}")  # one word: a value may begin with a dash
    return words


def _named(entry: Kind, arguments: Mapping[str, JsonValue]) -> list[str]:
    """Its files, as its command takes them."""
    if entry.file_flag is None:
        return []
    several = arguments.get("files")
    if isinstance(several, Sequence) and not isinstance(several, str):
        return [str(one) for one in several]
    file = str(arguments["file"])
    return [f"{entry.file_flag}={file}" if entry.file_flag else file]


def runner(environment: Mapping[str, str]) -> JobHandler:
    """Does a job of any kind, as its command does, in a process of its own."""

    def run(job: Job, tell: ReportEvent, stop: StopSignal) -> JsonValue:
        entry = _kind(job.kind)
        words = words_of(job.kind, job.arguments)
        folder = str(job.arguments["folder"])
        said = run_command(words, folder, environment, tell, stop, partly=entry.partly)
        result: dict[str, JsonValue] = {name: said[name] for name in entry.result if name in said}
        for name in ("files", "beside"):  # the command speaks of them from its folder
            paths = said.get(name)
            if isinstance(paths, list):
                result[name] = [os.path.join(folder, str(path)) for path in paths]
        return result

    return run


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise InvalidInputError(
            f"there are no jobs of the kind {name!r}", hint=f"{', '.join(KINDS)}."
        )
    return KINDS[name]


def _value(kind: str, name: str, type: Type, value: JsonValue, folder: Path) -> JsonValue:
    if not _fits(type, value):
        raise InvalidInputError(
            f"{name!r} of a {kind} is {_TOLD[type]}, not {value!r}"[:300],
            hint=f"Give it as {_TOLD[type]}.",
        )
    if type != "path":
        return value
    return os.path.abspath(folder / Path(str(value)).expanduser())


def _fits(type: Type, value: JsonValue) -> bool:
    if type in ("text", "path"):
        return _is_text(value) and (type == "text" or bool(value))
    if type == "yes":
        return isinstance(value, bool)
    if type == "list":
        several = isinstance(value, Sequence) and not isinstance(value, str)
        return _is_text(value) or (several and all(map(_is_text, value)))  # type: ignore[arg-type]
    if type == "options":
        return isinstance(value, Mapping) and all(
            _is_text(key) and "=" not in key and isinstance(one, str | int | float)
            for key, one in value.items()
        )
    if isinstance(value, bool):
        return False
    if type == "whole":
        return isinstance(value, int)
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number that is larger than any other
        return False


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str) and "\0" not in value


def _word(value: JsonValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
