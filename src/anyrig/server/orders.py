"""What may be asked of a job from outside: files by their uploads, places of our own choosing.

    with ordered(server, client, "book", {"file": "upload:9f0c...", "rate": 1.1}) as checked:
        job = server.jobs.submit("book", checked)

The command line trusts whoever types: a path is a path. Here nothing that a request says is ever
used as one without `access.open_path`. A file is `upload:ID`; outputs go below a fresh folder of
the server's data; models and folders to be indexed lie below those that the settings allow;
everything else is a plain word.
Arguments are kept as they were asked, beside what became of them, for whoever looks at the job.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyrig.audiobooks.names import safe_name
from anyrig.errors import InvalidInputError
from anyrig.server import orders_lines, orders_train
from anyrig.server.access import Client, index_name, looks_like_path, named_upload, open_path
from anyrig.server.hearing import model_of
from anyrig.server.schemas.job_arguments import CHOICES
from anyrig.server.state import ServerState
from anyrig.server.uploads import JOB_UPLOADS
from anyrig.server.working import FOLDER
from anyrig.services.jobs import KINDS, check
from anyrig.storage.keys import JsonValue

DEFAULT_INDEX = "default"
SETTINGS = "anyrig"
"""The name of a file of settings in the folder that a command is started in."""
OUT = "out"
"""Below a job's folder: what it made."""
_LONGEST, _LONGEST_LINES, _LONGEST_CAST = 10_000, 20_000, 1_000_000
_NAME = re.compile(r"[\w][\w .@-]{0,99}")
_VOICE = re.compile(r"[\w][\w .:+@-]{0,199}")
_MODEL = re.compile(r"[\w][\w.@-]{0,99}")
_NEVER = ("config", "output", "run", "export", "again", "untitled", "fetch", "no_save", "only",
          "cluster")  # fmt: skip
"""Flags of commands that write elsewhere, read settings, or go out to the network."""


@dataclass(frozen=True)
class Asked:
    """A request, while it is looked at."""

    server: ServerState
    client: Client
    kind: str
    folder: Path
    arguments: Mapping[str, Any]
    uses: list[str] = field(default_factory=list)
    """Ids of uploads that the job itself will read."""
    read: list[str] = field(default_factory=list)
    """Those, and the ones that are read before it is queued."""
    voices: list[str] = field(default_factory=list)
    """That its lines or its cast name."""


@contextmanager
def ordered(
    server: ServerState, client: Client, kind: str, arguments: Mapping[str, Any]
) -> Iterator[dict[str, JsonValue]]:  # fmt: skip
    """What is queued for a request; its folder is gone again where the block fails.

    Args:
        server: of the server.
        client: who asks.
        kind: one of `services.jobs.KINDS`.
        arguments: as they came.
    """
    if kind not in KINDS:
        raise InvalidInputError(
            f"there are no jobs of the kind {kind[:40]!r}", hint=f"{', '.join(KINDS)}."
        )
    _sound(arguments)
    folder = server.data_folder.absolute() / FOLDER / secrets.token_hex(12)
    (folder / OUT).mkdir(parents=True)
    asked = Asked(server, client, kind, folder, arguments)
    try:
        found, called = _translated(asked)
        checked = check(kind, found, folder)
        told: dict[str, JsonValue] = {"asked": _remembered(arguments), "called": called}
        yield {**checked, **told, JOB_UPLOADS: list[JsonValue](asked.uses)}
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, InvalidInputError | OSError):
            for upload_id in asked.read:  # somebody may have deleted it since it was named
                server.uploads.path(upload_id)
        raise


def still_there(server: ServerState, checked: Mapping[str, JsonValue]) -> None:
    """That nobody has deleted a file of an order while it was looked at.

    That takes a while, and others must not wait for it; so it is asked again when the job is
    queued, with `uploads.job_lock` held.
    """
    uses = checked[JOB_UPLOADS]
    for upload_id in uses if isinstance(uses, list) else ():
        server.uploads.path(str(upload_id))


def _remembered(arguments: Mapping[str, Any]) -> dict[str, JsonValue]:
    """What is kept of a request; a long list of lines lies in the job's folder alone."""
    kept = dict(arguments)
    lines = kept.get("lines")
    if isinstance(lines, list) and len(json.dumps(lines)) > _LONGEST_LINES:
        kept["lines"] = f"{len(lines)} lines"
    return kept


def looked_at(
    server: ServerState, client: Client, arguments: Mapping[str, Any]
) -> dict[str, JsonValue]:  # fmt: skip
    """What would be queued for a book; nothing is made for it."""
    _sound(arguments)
    folder = server.data_folder.absolute() / FOLDER / "plan"
    found, _ = _translated(Asked(server, client, "book", folder, arguments))
    return check("book", found, folder)


def takes(kind: str) -> tuple[str, ...]:
    """The names of what a kind of job takes from outside."""
    own = {"batch": ("file", "lines"), "index": ("file", "files", "folder"), "bench": ()}
    first = own.get(kind, ("file",))
    return (*first, *(name for name in KINDS[kind].flags if name not in _NEVER))


# -- what was said ---------------------------------------------------------------------------------


def _sound(value: Any, depth: int = 0) -> None:
    """Refuse what no command line carries: half characters, nulls, texts and nests without end."""
    if isinstance(value, str):
        if len(value) > _LONGEST and depth < 3:
            raise InvalidInputError(
                "a text among the arguments is too long", hint="Send it as a file."
            )
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInputError(
                "a text holds half a character", hint="Send whole ones."
            ) from None
        if "\0" in value:
            raise InvalidInputError("a text holds a null", hint="Leave it out.")
    elif depth > 6:
        raise InvalidInputError(
            "the arguments are nested too deeply", hint="See /docs for what is taken."
        )
    elif isinstance(value, Mapping):
        for name, one in value.items():
            _sound(str(name), depth + 1)
            _sound(one, depth + 1)
    elif isinstance(value, Sequence):
        for one in value:
            _sound(one, depth + 1)


def _translated(asked: Asked) -> tuple[dict[str, JsonValue], str]:
    """Arguments for `services.jobs.check`, and what the job is of."""
    kind, known = asked.kind, takes(asked.kind)
    for name in asked.arguments:
        if name not in known:
            raise InvalidInputError(
                f"a job of the kind {kind} takes no {name[:40]!r}",
                hint=f"It takes {', '.join(known)}.",
            )
    found: dict[str, JsonValue] = {}
    for name, value in asked.arguments.items():
        if value is None or name in ("file", "files", "folder", "lines"):
            continue
        if name in CHOICES and value not in CHOICES[name]:
            raise InvalidInputError(
                f"that value of {name!r} is not known", hint=f"One of {', '.join(CHOICES[name])}."
            )
        rule = _RULES.get(name)
        found[name] = rule(asked, name, value) if rule is not None else value
    called = _WHAT.get(kind, _one_file)(asked, found)
    if kind in ("book", "batch", "bench"):
        _heard_of(asked, found)
    return found, called


def _heard_of(asked: Asked, found: Mapping[str, JsonValue]) -> None:
    """That who shall speak is here: a job that waits for its turn must not fail for a name."""
    options, voice = found.get("set"), found.get("voice")
    asked.server.speech.check(
        engine=str(found.get("engine") or ""), model=str(found.get("model") or ""),
        voices=[*([str(voice)] if voice else []), *asked.voices],
        options=options if isinstance(options, Mapping) else None,
    )  # fmt: skip


def upload(asked: Asked, name: str, value: Any) -> str:
    """The path of a file that is named by its upload."""
    if not isinstance(value, str) or not value.startswith("upload:"):
        raise InvalidInputError(
            f"{name!r} of a {asked.kind} is a file that was sent",
            hint='POST /uploads takes it; name it as "upload:ID".',
        )
    return _used(asked, value)


def _used(asked: Asked, word: str, setting: str = "") -> str:
    """A path that the job will open: an upload, or what lies in the folders of a setting."""
    path = open_path(asked.server, asked.client, word, setting)
    if word.startswith("upload:"):
        upload_id = word.partition(":")[2]
        asked.uses.append(upload_id)
        asked.read.append(upload_id)
    return str(path)


def _name_of(asked: Asked, word: Any) -> str:
    """What the sender of an upload calls it."""
    return named_upload(asked.server, asked.client, str(word)).name


def _cast(asked: Asked, name: str, value: Any) -> str:
    """A file of voices; one that is a path would have a recording of this machine looked at."""
    from anyrig.audiobooks.cast_file import parse

    path = Path(upload(asked, name, value))
    if path.stat().st_size > _LONGEST_CAST:
        raise InvalidInputError("the cast is too long", hint="Send a TOML file; see docs/cast.md.")
    text = path.read_bytes().decode("utf-8-sig", "replace")  # the job says where it is no UTF-8
    for voice in parse(text, name="the cast").voices:
        if not _VOICE.fullmatch(voice) or ".." in voice:
            raise InvalidInputError(
                "the cast names a voice that is no name", hint="GET /config lists them."
            )
        asked.voices.append(voice)
    return str(path)


def _plain_word(form: re.Pattern[str], what: str) -> Callable[[Asked, str, Any], JsonValue]:
    def rule(asked: Asked, name: str, value: Any) -> JsonValue:
        if not isinstance(value, str) or not form.fullmatch(value) or ".." in value:
            raise InvalidInputError(
                f"{name!r} is {what}", hint="No path, and nothing that looks like one."
            )
        return value

    return rule


def _model(asked: Asked, name: str, value: Any) -> JsonValue:
    """A model by its name, or a folder below those that are allowed."""
    if asked.kind == "transcribe" and isinstance(value, str):
        return model_of(asked.server, asked.client, value) or None
    if isinstance(value, str) and ("/" in value or "\\" in value):
        return _used(asked, value, "models")
    if KINDS[asked.kind].flags.get(name) == "path":
        raise InvalidInputError(
            f"{name!r} of a {asked.kind} is a folder", hint="One of those in server.models."
        )
    return _plain_word(_MODEL, "the name of a model")(asked, name, value)


def _options(asked: Asked, name: str, value: Any) -> JsonValue:
    """An engine's options: numbers and plain words."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"{name!r} is an object of texts and numbers", hint='{"pitch": 1.1}'
        )
    for key, one in value.items() if asked.kind != "train" else ():  # those are looked at with it
        if isinstance(one, str) and looks_like_path(one):
            raise InvalidInputError(
                f"the option {key[:40]!r} names a path", hint="Give a plain word."
            )
    return dict(value)


def _chapters(asked: Asked, name: str, value: Any) -> JsonValue:
    """Numbers of chapters, as a list or as `3-7,9`."""
    several = value if isinstance(value, list) else [value]
    words = [str(one).strip() for one in several if not isinstance(one, bool)]
    if not re.fullmatch(r"[\d\s,-]*", ",".join(words), re.ASCII):
        raise InvalidInputError(
            f"{name!r} are numbers of chapters", hint='Such as "3-7,9" or [3, 4].'
        )
    return ",".join(words)


_RULES: Mapping[str, Callable[[Asked, str, Any], JsonValue]] = {
    "cover": upload, "cast": _cast, "lexicon": upload, "model": _model, "set": _options,
    "voice": _plain_word(_VOICE, "the name of a voice"),
    "engine": _plain_word(_NAME, "the name of an engine"),
    "index": _plain_word(_NAME, "the name of an index"),
    "device": _plain_word(_VOICE, "the name of a device"),
    "chapters": _chapters,
}  # fmt: skip


# -- what it is of, and where it goes --------------------------------------------------------------


def _one_file(asked: Asked, found: dict[str, JsonValue]) -> str:
    """The file of a book or a recording; its output lies in the job's folder."""
    value = asked.arguments.get("file")
    found["file"] = upload(asked, "file", value)
    return _name_of(asked, value)


def _book(asked: Asked, found: dict[str, JsonValue]) -> str:
    called = _one_file(asked, found)
    whole = found.get("format") in (None, "", "m4b")
    found["output"] = str(asked.folder / OUT / ("book.m4b" if whole else "chapters"))
    found["untitled"] = safe_name(Path(called).stem)
    return called


def _transcript(asked: Asked, found: dict[str, JsonValue]) -> str:
    called = _one_file(asked, found)
    forms = found.get("format") or "txt"
    words = forms.split(",") if isinstance(forms, str) else list(forms)  # type: ignore[arg-type]
    first = str(words[0]).strip() if words else "txt"
    if not first.isalnum() or len(first) > 8:
        raise InvalidInputError("'format' names no format", hint="txt, md, srt, vtt or json.")
    found["output"] = str(asked.folder / OUT / f"transcript.{first}")
    return called


def _index(asked: Asked, found: dict[str, JsonValue]) -> str:
    given = asked.arguments
    if not asked.client.sees_all:
        found["index"] = index_name(asked.client, str(found.get("index") or DEFAULT_INDEX))
    if given.get("folder") is not None:
        if given.get("file") is not None or given.get("files") is not None:
            raise InvalidInputError("an index has files or a folder", hint="Give one of them.")
        folder = given["folder"]
        if not isinstance(folder, str) or folder.startswith("upload:"):
            folder = ""  # which is refused as any other that is not allowed
        found["file"] = _used(asked, folder, "folders")
        return Path(str(found["file"])).name
    if given.get("files") is None:
        return _one_file(asked, found)
    files = given["files"]
    if not isinstance(files, list) or not files or given.get("file") is not None:
        raise InvalidInputError(
            "'files' is a list of files that were sent", hint='["upload:ID", ...]'
        )
    found["files"] = [upload(asked, "files", one) for one in files]
    names = [_name_of(asked, one) for one in files]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _batch(asked: Asked, found: dict[str, JsonValue]) -> str:
    called = "lines"
    rows = asked.arguments.get("lines")
    if rows is None:
        path = Path(upload(asked, "file", asked.arguments.get("file")))
        asked.uses.clear()  # its lines are written down below
        called = _name_of(asked, asked.arguments["file"])
        rows = orders_lines.read(path, called)
    elif asked.arguments.get("file") is not None:
        raise InvalidInputError("a batch has lines or a file of them", hint="Give one of them.")
    lines = orders_lines.checked(rows, _VOICE)
    asked.voices.extend(str(line["voice"]) for line in lines if "voice" in line)
    (asked.folder / "lines.jsonl").write_text(orders_lines.written(lines), encoding="utf-8")
    found["file"] = str(asked.folder / "lines.jsonl")
    found["output"] = str(asked.folder / OUT)
    return called if called != "lines" else str(lines[0]["text"])[:60]


def _train(asked: Asked, found: dict[str, JsonValue]) -> str:
    called = _one_file(asked, found)
    asked.uses.clear()  # it is copied below; what it names is needed
    stem = safe_name(Path(called).stem).replace(" ", "-")[:60]
    if stem.lower() == SETTINGS:  # the job's command would take it for its settings
        stem = f"{stem}-run"
    config = asked.folder / f"{stem}.toml"
    options = found.get("set")
    found["set"] = orders_train.copied(
        Path(str(found["file"])), config, lambda word: Path(_used(asked, word, "models")),
        options if isinstance(options, Mapping) else {},
    )  # fmt: skip
    found["file"] = str(config)
    found["run"] = str(asked.folder / "run")
    return called


def _bench(asked: Asked, found: dict[str, JsonValue]) -> str:
    return "this machine"


_WHAT: Mapping[str, Callable[[Asked, dict[str, JsonValue]], str]] = {
    "book": _book, "transcribe": _transcript, "index": _index, "batch": _batch, "train": _train,
    "bench": _bench,
}  # fmt: skip
