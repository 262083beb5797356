"""Jobs that clients submit: what each kind takes over HTTP, and the job that it becomes.

    with prepare_job(server, client, "book", {"file": "upload:9f0c...", "rate": 1.1}) as arguments:
        job = server.jobs.submit("book", arguments)

The command line trusts whoever types: a path is a path. Here files are uploads, `app.access`
decides which other paths may be named, and outputs go into a new folder of the server's data. What
was asked is stored beside what became of it, for whoever looks at the job.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyrig.app.access import (
    VOICE_NAME,
    Client,
    ResolvedOptions,
    copy_training_file,
    find_named_upload,
)
from anyrig.app.job_retention import JOBS_FOLDER, OUTPUT_FOLDER, RUN_FOLDER
from anyrig.app.jobs import JOB_KINDS, build_arguments, find_kind, list_settings
from anyrig.app.speech import resolve_format
from anyrig.app.training import require_torch
from anyrig.app.transcription import TranscriptionRequest
from anyrig.audiobooks.metadata import make_file_name
from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    LimitExceededError,
    UnknownOptionError,
)
from anyrig.options import json_schema, list_options
from anyrig.placement import check_num_processes
from anyrig.server.routes.speech import LANGUAGE
from anyrig.server.routes.transcriptions import resolve_model
from anyrig.server.state import ServerState
from anyrig.server.uploads import JOB_UPLOADS
from anyrig.speech.batch import parse_lines
from anyrig.storage.files import make_folder, opener
from anyrig.storage.keys import JsonValue
from anyrig.training.config_file import read_config
from anyrig.units import shorten

LINES_FILE = "lines.jsonl"
"""In the folder of a batch: its lines."""
SETTINGS_STEM = "anyrig"
"""The name of a settings file in the folder that a job runs in."""
_MAX_TEXT, _MAX_KEPT_LINES, _MAX_DEPTH = 10_000, 20_000, 6
_MAX_LINES, _MAX_LINES_BYTES, _MAX_LINE = 20_000, 32 << 20, 20_000
_MAX_SEED = 1 << 31
_LINE_EXAMPLE = '{"text": "Hello.", "voice": "...", "rate": 1.0}'
_VOICE_IN_SSML = re.compile(r"""name\s*=\s*["']([^"']*)""", re.IGNORECASE)


@contextmanager
def prepare_job(
    server: ServerState, client: Client, kind: str, given: Mapping[str, Any]
) -> Iterator[dict[str, JsonValue]]:
    """The arguments of a job; its folder is removed again if the block fails.

    Args:
        server: of the server.
        client: who asks.
        kind: one of `JOB_KINDS`.
        given: the options as they came.
    """
    find_kind(kind)
    _check_options(given)
    folder = server.data_folder.absolute() / JOBS_FOLDER / secrets.token_hex(12)
    make_folder(folder / OUTPUT_FOLDER)
    found = ResolvedOptions(server, client)
    try:
        title = _resolve(server, found, kind, given, folder)
        if kind == "book":
            _mark_book_uploads(server, found)
        arguments = build_arguments(kind, found.values, folder)
        _check_num_processes(server, kind, arguments)
        files = given.get("files")
        details: dict[str, JsonValue] = {
            "requested": _shorten(given), "called": title, JOB_UPLOADS: list(found.uploads),
            "num_more": len(files) - 1 if isinstance(files, list) else 0,
        }  # fmt: skip
        yield {**arguments, **details, **list_settings(server.rig)}
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, InvalidInputError | OSError):
            for upload_id in found.opened_uploads:  # one may have been deleted since
                server.uploads.path(upload_id)
        if isinstance(error, InvalidOptionError):
            error.hint = error.hint or "GET /docs lists the options of each kind of job."
        raise


def prepare_plan(
    server: ServerState, client: Client, given: Mapping[str, Any]
) -> dict[str, JsonValue]:
    """The arguments of a book that is only looked at: nothing is created for it."""
    _check_options(given)
    folder = server.data_folder.absolute() / JOBS_FOLDER / "plan"
    found = ResolvedOptions(server, client)
    _resolve(server, found, "book", given, folder)
    _mark_book_uploads(server, found)
    return build_arguments("book", found.values, folder)


def _check_num_processes(
    server: ServerState, kind: str, arguments: Mapping[str, JsonValue]
) -> None:
    """Refuse what the job would be refused for when it runs, and a run's processes that read."""
    counts = {name: arguments.get(name) for name in ("workers_per_device", "nproc")}
    if kind == "train":
        counts["train.loading.num_workers"] = _get_num_loading(arguments)
    for name, count in counts.items():
        if str(count).isdecimal():
            check_num_processes(server.rig.machine, name, int(str(count)))


def _get_num_loading(arguments: Mapping[str, Any]) -> JsonValue:
    """The `num_workers` of a training file: "auto" is within what the machine has."""
    config = read_config(Path(arguments["file"])).with_values(arguments["set"])
    loading = config.train.get("loading")
    found: JsonValue = loading.get("num_workers") if isinstance(loading, Mapping) else None
    return found


def _mark_book_uploads(server: ServerState, found: ResolvedOptions) -> None:
    for upload_id in found.uploads:
        server.uploads.set_purpose(upload_id, "book")


def check_uploads(server: ServerState, arguments: Mapping[str, JsonValue]) -> None:
    """That nobody has deleted a file of a job while it was prepared.

    That takes a while, and others must not wait for it; so it is checked when the job is queued,
    with `uploads.job_lock` held.
    """
    uses = arguments[JOB_UPLOADS]
    for upload_id in uses if isinstance(uses, list) else ():
        server.uploads.path(str(upload_id))


def _shorten(given: Mapping[str, Any]) -> dict[str, JsonValue]:
    """What is stored of a request; a long list of lines is in the job's folder alone."""
    kept = dict(given)
    lines = kept.get("lines")
    if isinstance(lines, list) and len(json.dumps(lines)) > _MAX_KEPT_LINES:
        kept["lines"] = len(lines)
    return kept


def _check_options(given: Mapping[str, Any]) -> None:
    """Refuse surrogates, nulls, and texts and nesting without end; `check_lines` limits lines."""
    _check_json({name: value for name, value in given.items() if name != "lines"}, _MAX_TEXT)
    _check_json(given.get("lines"), None)


def _check_json(value: Any, max_text: int | None, depth: int = 0) -> None:
    if isinstance(value, str):
        if max_text is not None and len(value) > max_text:
            raise InvalidInputError("a text is too long", hint="Upload it as a file.")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInputError(
                "a text contains an unpaired surrogate", hint="Send valid Unicode."
            ) from None
        if "\0" in value:
            raise InvalidInputError("a text contains a null", hint="Leave it out.")
    elif depth > _MAX_DEPTH:
        raise InvalidInputError("the options are nested too deeply", hint="See /docs.")
    elif isinstance(value, Mapping):
        for name, one in value.items():
            _check_json(str(name), max_text, depth + 1)
            _check_json(one, max_text, depth + 1)
    elif isinstance(value, Sequence):
        for one in value:
            _check_json(one, max_text, depth + 1)


# -- each kind: its files, and where its results go ------------------------------------------------


def _resolve(
    server: ServerState, found: ResolvedOptions, kind: str, given: Mapping[str, Any], folder: Path
) -> str:
    """Resolve the options of a job; returns what it is called."""
    inputs = _INPUTS[kind]
    allowed = list_arguments(kind)
    for name in given:
        if name not in allowed:
            raise UnknownOptionError(
                name,
                hint=f"Options of a job of the kind {kind}: {', '.join(allowed)}.",
            )
    options = {name: value for name, value in given.items() if name not in inputs}
    if kind == "transcribe" and isinstance(options.get("model"), str):
        options["model"] = resolve_model(server, found.client, options["model"]) or None
    replaced = options.pop("set", None) if kind == "train" else None  # its paths are resolved
    found.add(JOB_KINDS[kind].request, options)
    title = _PREPARE[kind](found, {**given, "set": replaced}, folder)
    if kind == "train":
        require_torch(server.rig)
    if kind in ("book", "batch", "bench"):
        values = found.values
        # A job that waits for its turn must not fail for a name.
        server.speech.check(
            engine=values.get("engine", ""), model=str(values.get("model") or ""),
            voices=found.voices, options=values.get("set"),
        )  # fmt: skip
    return title


def _prepare_file(found: ResolvedOptions, given: Mapping[str, Any]) -> str:
    """The file of a job; returns the name that its sender gave it."""
    found.values["file"] = found.resolve_upload("file", given.get("file"))
    return _get_upload_name(found, given["file"])


def _get_upload_name(found: ResolvedOptions, word: str) -> str:
    return str(find_named_upload(found.stores, found.client, word).name)


def _prepare_book(found: ResolvedOptions, given: Mapping[str, Any], folder: Path) -> str:
    title = _prepare_file(found, given)
    is_whole = found.values.get("format") in (None, "", "m4b")
    found.values["output"] = folder / OUTPUT_FOLDER / ("book.m4b" if is_whole else "chapters")
    found.values["untitled"] = make_file_name(Path(title).stem)
    if "chapters" in found.values:
        found.values["chapters"] = _check_chapters(found.values["chapters"])
    return title


def _check_chapters(value: Any) -> str:
    """Numbers of chapters, as a list or as `3-7,9`."""
    several = value if isinstance(value, list) else [value]
    words = [str(one).strip() for one in several if not isinstance(one, bool)]
    if not re.fullmatch(r"[\d\s,-]*", ",".join(words), re.ASCII):
        raise InvalidInputError(
            "'chapters' must be numbers of chapters", hint='Such as "3-7,9" or [3, 4].'
        )
    return ",".join(words)


def _prepare_transcription(found: ResolvedOptions, given: Mapping[str, Any], folder: Path) -> str:
    title = _prepare_file(found, given)
    found.values["files"] = [found.values.pop("file")]
    formats = found.values.get("format") or "txt"
    option = list_options(TranscriptionRequest)["format"]
    formats = option.parse_list(formats) if isinstance(formats, str) else option.check(formats)
    found.values["format"] = formats or ("txt",)
    first = found.values["format"][0]
    found.values["output"] = str(folder / OUTPUT_FOLDER / f"transcript.{first}")
    return title


def _prepare_index(found: ResolvedOptions, given: Mapping[str, Any], folder: Path) -> str:
    inputs = [name for name in _INPUTS["index"] if given.get(name) is not None]
    if len(inputs) > 1:
        raise InvalidInputError(
            f"{inputs[0]!r} and {inputs[1]!r} were both given", hint="Give one of them."
        )
    if "folder" in inputs:
        word = given["folder"]
        if not isinstance(word, str) or word.startswith("upload:"):
            word = ""  # refused as every other path that is not allowed
        path = found.resolve(word, "folders")
        found.values["folders"] = [path]
        return path.name
    if "files" not in inputs:
        title = _prepare_file(found, given)
        found.values["folders"] = [found.values.pop("file")]
        return title
    files = given["files"]
    if not isinstance(files, list) or not files:
        raise InvalidInputError("'files' must be a list of uploads", hint='["upload:ID", ...]')
    found.values["folders"] = [found.resolve_upload("files", one) for one in files]
    names = [_get_upload_name(found, one) for one in files]
    return names[0]


def _prepare_batch(found: ResolvedOptions, given: Mapping[str, Any], folder: Path) -> str:
    rows, title = given.get("lines"), ""
    if rows is None:
        title = _prepare_file(found, given)
        found.uploads.remove(str(given["file"]).partition(":")[2])  # its lines are copied
        rows = _read_rows(found.values["file"], title)
    elif given.get("file") is not None:
        raise InvalidInputError("'lines' and 'file' were both given", hint="Give one of them.")
    lines = check_lines(rows)
    found.voices += [str(line["voice"]) for line in lines if "voice" in line]
    file = folder / LINES_FILE
    with open(file, "w", encoding="utf-8", opener=opener) as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)
    found.values |= {"file": file, "output": folder / OUTPUT_FOLDER}
    found.values["format"] = resolve_format(found.values.get("format"))
    return title or shorten(str(lines[0]["text"]), 60)


def _prepare_training(found: ResolvedOptions, given: Mapping[str, Any], folder: Path) -> str:
    title = _prepare_file(found, given)
    found.uploads.clear()  # it is copied; what it names is needed
    stem = make_file_name(Path(title).stem).replace(" ", "-")[:60]
    if stem.lower() == SETTINGS_STEM:
        stem = f"{stem}-run"
    config = folder / f"{stem}.toml"
    options = given.get("set")
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            "'set' must be an object of texts and numbers", hint='{"train.batch": 8}'
        )
    found.values |= {
        "set": copy_training_file(
            found.values["file"], config, lambda word: found.resolve(word, "models"), options or {}
        ),
        "file": config,
        "run": folder / RUN_FOLDER,
    }
    return title


def _prepare_bench(found: ResolvedOptions, given: Mapping[str, Any], folder: Path) -> str:
    return "this machine"


_PREPARE: Mapping[str, Callable[[ResolvedOptions, Mapping[str, Any], Path], str]] = {
    "book": _prepare_book, "batch": _prepare_batch, "index": _prepare_index,
    "transcribe": _prepare_transcription, "train": _prepare_training, "bench": _prepare_bench,
}  # fmt: skip


# -- lines of a batch ------------------------------------------------------------------------------


def _read_rows(path: Path, name: str) -> list[Any]:
    """The lines of a file: texts, or JSON where each is an object."""
    from anyrig.text.decode import decode

    if path.stat().st_size > _MAX_LINES_BYTES:
        raise LimitExceededError(f"{name} is too long for a list of lines", hint="Split it.")
    rows = [row.strip() for row in re.split(r"\r\n?|\n", decode(path.read_bytes(), name))]
    rows = [row for row in rows if row]
    if name.lower().endswith((".jsonl", ".ndjson")) or all(row.startswith("{") for row in rows):
        try:
            return [json.loads(row) for row in rows]
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"a line of {name} is not valid JSON", hint=_LINE_EXAMPLE
            ) from error
    return rows


def check_lines(rows: Any) -> list[dict[str, Any]]:
    """The lines as a batch reads them. Ids are numbers from 1: a client's are not file names."""
    if not isinstance(rows, list) or not rows:
        raise InvalidInputError("there are no lines", hint='["Hello.", {"text": "Good bye."}]')
    if len(rows) > _MAX_LINES:
        raise LimitExceededError(f"there are {len(rows)} lines", hint=f"At most {_MAX_LINES}.")
    lines = []
    for number, row in enumerate(rows, 1):
        row = {"text": row} if isinstance(row, str) else row
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise InvalidInputError(f"line {number} has no text", hint=_LINE_EXAMPLE)
        _check_line(number, row)
        kept = {name: value for name, value in row.items() if value not in (None, "")}
        lines.append({**kept, "text": row["text"], "id": f"{number:04d}"})
    parse_lines("\n".join(map(json.dumps, lines)), "the batch", is_json=True)
    return lines


def _check_line(number: int, row: Mapping[str, Any]) -> None:
    """What would open a file, and what would fail only when the job runs."""
    text, voice, language, seed = (row.get(n) for n in ("text", "voice", "language", "seed"))
    assert isinstance(text, str)
    if len(text) > _MAX_LINE:
        raise InvalidInputError(
            f"line {number} has {len(text):,} characters",
            hint=f"A line may have {_MAX_LINE:,}: split it.",
        )
    if "\0" in text:
        raise InvalidInputError(f"line {number} contains a null", hint="Leave it out.")
    voices = [] if voice in (None, "") else [voice]
    if "<" in text and "voice" in text.lower():  # also <ssml:voice>
        voices += filter(None, _VOICE_IN_SSML.findall(text))
    for one in voices:
        if not isinstance(one, str) or not VOICE_NAME.fullmatch(one):
            raise InvalidInputError(
                f"line {number}: voice must be a name", hint="It may not be a path."
            )
    if language not in (None, "") and not (
        isinstance(language, str) and re.fullmatch(LANGUAGE, language)
    ):
        raise InvalidInputError(
            f"line {number}: language must be a code", hint="Such as en or es-MX."
        )
    if not _is_number(row.get("rate", 1.0)) or not 0.25 <= (row.get("rate") or 1.0) <= 4:
        raise InvalidInputError(
            f"line {number}: rate must be between 0.25 and 4", hint=_LINE_EXAMPLE
        )
    if seed is not None and not (_is_number(seed) and seed % 1 == 0 and 0 <= seed < _MAX_SEED):
        raise InvalidInputError(
            f"line {number}: seed must be a whole number", hint=f"From 0 to {_MAX_SEED - 1}."
        )


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


# -- what each kind takes, for /openapi.json -------------------------------------------------------

_UPLOAD = {"type": "string", "pattern": "^upload:[0-9a-f]{32}$"}
_LINE = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "required": ["text"], "additionalProperties": False,
         "properties": {"text": {"type": "string"}, "voice": {"type": "string"},
                        "language": {"type": "string"},
                        "rate": {"type": "number", "minimum": 0.25, "maximum": 4},
                        "seed": {"type": "integer", "minimum": 0}, "id": {}}},
    ]
}  # fmt: skip
_FILE = {**_UPLOAD, "description": "an uploaded file, as `upload:ID`"}
_INPUTS: Mapping[str, Mapping[str, Any]] = {
    "book": {"file": _FILE},
    "batch": {
        "file": {**_UPLOAD, "description": "an uploaded file of lines, instead of `lines`"},
        "lines": {
            "type": "array", "items": _LINE, "minItems": 1,
            "description": "texts, or objects with `text` and `voice`, `language`, `rate`, `seed`",
        },
    },
    "index": {
        "file": _FILE,
        "files": {
            "type": "array", "items": _UPLOAD, "minItems": 1, "description": "uploaded files",
        },
        "folder": {
            "type": "string",
            "description": "an absolute path in the folders of server.folders, instead of files",
        },
    },
    "transcribe": {"file": _FILE},
    "train": {
        "file": {
            **_UPLOAD,
            "description": "an uploaded TOML file; files in it are named as `upload:ID`",
        }
    },
    "bench": {},
}  # fmt: skip
"""Options that name what a job is of, instead of the request's own."""
DESCRIPTIONS: Mapping[str, str] = {
    "book": "An audiobook of a file: EPUB, PDF, Word, text, ...",
    "batch": "Many lines, an audio file for each.",
    "index": "Makes files or a folder searchable with POST /documents/search.",
    "transcribe": "Transcribes a recording.",
    "train": "Trains a model as a TOML file says.",
    "bench": "Measures the devices, or a speech engine.",
}
_EXAMPLE_FILE = "upload:9f0c1e2d3b4a59687786950413223140"
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "book": {"file": _EXAMPLE_FILE, "voice": "heart", "rate": 1.1, "chapters": [1, 2],
             "captions": ["srt"]},
    "batch": {"lines": ["Hello.", {"text": "Good bye.", "rate": 0.9}], "format": "mp3"},
    "index": {"files": [_EXAMPLE_FILE], "index": "letters"},
    "transcribe": {"file": _EXAMPLE_FILE, "language": "en", "format": ["srt", "txt"]},
    "train": {"file": _EXAMPLE_FILE, "steps": 100},
    "bench": {"quick": True},
}  # fmt: skip


def build_schema(kind: str) -> dict[str, Any]:
    """The JSON schema of what a kind of job takes over HTTP."""
    schema = json_schema(JOB_KINDS[kind].request, http=True)
    schema.pop("required", None)
    own = {name: one for name, one in schema["properties"].items() if name != JOB_KINDS[kind].input}
    if "chapters" in own:
        numbers = {"type": "array", "items": {"type": ["integer", "string"]}}
        own["chapters"] = {**own["chapters"], "anyOf": [{"type": "string"}, numbers]}
    return {**schema, "properties": {**_INPUTS[kind], **own}}


def list_arguments(kind: str) -> tuple[str, ...]:
    """The names of what a kind of job takes over HTTP."""
    if kind not in _arguments:
        _arguments[kind] = tuple(build_schema(kind)["properties"])
    return _arguments[kind]


_arguments: dict[str, tuple[str, ...]] = {}


def build_variants() -> list[dict[str, Any]]:
    """A schema for each kind of job."""
    return [
        {
            "title": kind, "description": DESCRIPTIONS[kind], "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"const": kind}, "arguments": build_schema(kind)},
            "example": {"kind": kind, "arguments": EXAMPLES[kind]},
        }
        for kind in JOB_KINDS
    ]  # fmt: skip
