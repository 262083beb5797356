"""What a client of the server may see and use: this module alone decides.

    job = find_job(server, client, id)
    path = resolve_path(server, client, "upload:9f0c...", "models")
    options = ResolvedOptions(server, client)
    options.add(BookRequest, {"file": "upload:9f0c...", "rate": 1.1})

Uploads, jobs with their results and runs, and indexes belong to the key that made them. A key with
the scope `admin` sees everything, and so does everyone on a server that needs no keys. What was
made without a key (on the command line, or before keys were needed) has no owner: only those who
see everything see it. What a client may not see is answered as if it did not exist.

A path that comes from a client, wherever it stands, is opened only if `resolve_path` allows it: it
is an upload of that client, or it lies, after following links, in a folder that a setting allows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    Message,
    MissingWeightsError,
    OptionRef,
)
from anyrig.jobs import JobNotFoundError
from anyrig.options import Option, list_options
from anyrig.storage.files import opener
from anyrig.storage.weights import find_cached_repository
from anyrig.text.folder import is_inside
from anyrig.text.manifest import is_manifest

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.app.settings import ServerSettings
    from anyrig.app.uploads import Upload, Uploads
    from anyrig.jobs import Job, JobQueue
    from anyrig.training.config_file import ConfigFile

UPLOAD_PREFIX = "upload:"
TRAINING_FILES = "files.json"
"""Beside a client's training file: where the files are that its examples name."""
_MANIFESTS = {"classifier": "examples", "images": "data", "language": "data"}
"""The key of [task] that may name a manifest of files, by kind of task."""
_DRIVE = re.compile(r"[A-Za-z]:")
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_KEY_MARK = "--"
_OWNED_INDEX = re.compile(rf".*{_KEY_MARK}[0-9a-f]{{12}}", re.DOTALL)
"""An index of a key, as it is called on disk."""
_MAX_INDEX_NAME = 50
"""The id of a key follows the name of its index, and both together are a file's name."""
_MAX_CAST_BYTES, _MAX_TRAINING_BYTES = 1_000_000, 1 << 20
_NAME = re.compile(r"[\w][\w .@-]{0,99}")
VOICE_NAME = re.compile(r"[\w][\w .:+@-]{0,199}")
_KEY_NAME = re.compile(r"[\w][\w.-]{0,99}")
_MODEL_NAME = re.compile(r"[\w][\w.@-]{0,99}")
_PLAIN_NAMES = {
    "voice": (VOICE_NAME, "a voice"), "device": (VOICE_NAME, "a device"),
    "engine": (_NAME, "an engine"), "index": (_NAME, "an index"),
}  # fmt: skip
"""Options that are names, and never paths."""
_UPLOAD_IN_TOML = re.compile(r"""(["'])(upload:[0-9a-f]+)\1""")


@dataclass(frozen=True)
class Client:
    """Who calls the server."""

    key: str = ""
    """The id of the key that was presented; empty without one."""
    sees_all: bool = False
    """Whether it has the scope `admin`, or no key is needed."""
    address: str = ""
    """Of its connection."""

    @property
    def id(self) -> str:
        """By which clients take turns and share: the key; without keys the address, empty for this
        machine.
        """
        if self.key:
            return self.key
        try:
            return "" if ip_address(self.address).is_loopback else self.address
        except ValueError:  # no network
            return ""

    def may_see(self, owner: str) -> bool:
        """Whether something that a key made, or nobody's key, exists for this client."""
        return self.sees_all or (bool(self.key) and owner == self.key)


current_client: ContextVar[Client] = ContextVar("current_client", default=Client())  # noqa: B039
"""Whose request this is, for those who share out models and workers. What a client may see is not
decided by it."""


class Stores(Protocol):
    """What the server has that belongs to clients."""

    settings: ServerSettings
    uploads: Uploads
    jobs: JobQueue


# -- paths -----------------------------------------------------------------------------------------


def resolve_path(stores: Stores, client: Client, word: str, setting: str = "") -> Path:
    """The path that a client names, if it may be opened; the error does not say what exists.

    Args:
        stores: of the server.
        client: who asks.
        word: `upload:ID`, or an absolute path where a setting allows folders.
        setting: `models` or `folders`; without it only uploads are accepted.
    """
    if isinstance(word, str) and setting and not word.startswith(UPLOAD_PREFIX):
        return resolve_allowed_path(word, getattr(stores.settings, setting), setting)
    return stores.uploads.path(find_named_upload(stores, client, word).id)


def resolve_allowed_path(word: str, roots: str, setting: str) -> Path:
    """An absolute path in one of the folders of a setting, its links followed.

    Args:
        word: as a client names it.
        roots: the setting's folders, separated by commas.
        setting: its name, for the hint.
    """
    path = Path(word)
    if word.isprintable() and path.is_absolute() and is_allowed(path, parse_folders(roots)):
        return path.resolve()
    raise InvalidInputError(
        "that path may not be named by a request",
        hint="Upload the file and name it as upload:ID; or the server's owner allows its folder"
        f" with the setting server.{setting}.",
    )


def looks_like_path(text: str) -> bool:
    """Whether a text could be the path of something outside the folder that a job works in."""
    return (
        "/" in text or "\\" in text or ".." in text or text.startswith(("~", UPLOAD_PREFIX))
        or _DRIVE.match(text) is not None
    )  # fmt: skip


def is_allowed(path: Path, roots: Iterable[Path]) -> bool:
    """Whether a path lies in one of some folders, after following its links and theirs."""
    return any(is_inside(path, root) for root in roots)


def parse_folders(setting: str) -> list[Path]:
    """The folders of a setting, separated by commas; `~` is the home of whoever runs the server."""
    return [Path(os.path.expanduser(one.strip())) for one in setting.split(",") if one.strip()]


def resolve_document_model(rig: Rig, name: str) -> str:
    """A model of documents that a client names, as the rest of anyrig takes it: one of a package,
    one that was downloaded, or a folder below those of `server.models`.
    """
    from anyrig.documents.packaged import PACKAGED

    if name in ("", "auto") or name in PACKAGED:
        return name
    for root in parse_folders(rig.settings.server.models) if name.isprintable() else ():
        folder = root / name
        if is_allowed(folder, [root]) and folder.exists() and not folder.samefile(root):
            return str(folder.resolve())
    if _HUB_NAME.fullmatch(name):
        folder = rig.folders.models / "documents" / name.replace("/", "--")
        if not folder.is_dir():
            folder = find_cached_repository(name) or folder
        if not folder.is_dir():
            raise MissingWeightsError(
                f"{name} is not on this machine",
                hint=f"`anyrig embed --model {name} --fetch` downloads it.",
            )
        return str(folder)
    raise InvalidInputError(
        f"unknown model {name!r}",
        hint=f"Valid models: {', '.join(PACKAGED)}, and folders below `server.models`.",
    )


# -- uploads and jobs ------------------------------------------------------------------------------


def list_uploads(stores: Stores, client: Client) -> list[Upload]:
    """The uploads that a client may see, the newest first."""
    return [one for one in stores.uploads.list_uploads() if client.may_see(one.owner)]


def find_upload(stores: Stores, client: Client, upload_id: str) -> Upload:
    """An upload by its id; `UploadNotFoundError` also for one of another key."""
    found = stores.uploads.get(upload_id)
    if not client.may_see(found.owner):
        raise stores.uploads.not_found()
    return found


def find_named_upload(stores: Stores, client: Client, word: str) -> Upload:
    """An upload that a request names as `upload:ID`."""
    return find_upload(stores, client, stores.uploads.parse_id(word))


def find_job(stores: Stores, client: Client, id: str) -> Job:
    """A job by its id; `JobNotFoundError` also for one of another key."""
    job = stores.jobs.get(id)
    if not client.may_see(job.client):
        raise JobNotFoundError(f"job {id} not found", hint="`anyrig jobs` lists them.")
    return job


def get_jobs_filter(client: Client) -> str | None:
    """For `JobQueue.list_page`: whose jobs are listed; None lists all."""
    return None if client.sees_all else client.key


# -- indexes and classifiers -----------------------------------------------------------------------


def get_index_name(client: Client, name: str) -> str:
    """What an index is called on disk: each key has names of its own.

    Indexes of those who see everything, and of the command line, have their bare names.
    """
    if client.sees_all:
        return name
    if len(name) > _MAX_INDEX_NAME:
        raise InvalidInputError(
            f"{name[:40]!r}... is too long for the name of an index",
            hint=f"It may have {_MAX_INDEX_NAME} characters.",
        )
    return f"{name}{_KEY_MARK}{client.key}"


def get_shown_index(client: Client, stored: str) -> str | None:
    """What a client calls an index; None if the client has none of that name on disk."""
    if client.sees_all:
        return stored
    mark = f"{_KEY_MARK}{client.key}"
    if client.key and stored.casefold().endswith(mark.casefold()):
        return stored[: -len(mark)]
    return None


def hide_folders(rig: Rig, client: Client, value: Any) -> Any:
    """JSON without the folders of the server's user, which are not for every key to know."""
    if client.sees_all:
        return value
    if isinstance(value, Mapping):
        return {name: hide_folders(rig, client, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [hide_folders(rig, client, one) for one in value]
    if not isinstance(value, str):
        return value
    folders = rig.folders
    for folder in (folders.config, folders.cache, folders.data, folders.state):
        value = value.replace(str(folder), folder.name)
    home = str(folders.home)
    return value.replace(home, "~") if len(home) > 1 else value


def hide_key(text: str, key: str) -> str:
    """A text in which the indexes of a key have their bare names."""
    return text.replace(f"{_KEY_MARK}{key}", "") if key else text


def is_shared(stores: Stores, client: Client, name: str) -> bool:
    """Whether a client may use an index or a classifier that is not its own.

    `*` shares what has no owner; an index of another key is shared by its whole name alone.
    """
    if client.sees_all:
        return True
    shared = [one.strip() for one in stores.settings.shared.split(",")]
    return name in shared or ("*" in shared and not _OWNED_INDEX.fullmatch(name.casefold()))


# -- options of a request --------------------------------------------------------------------------


@dataclass
class ResolvedOptions:
    """Options as they came from a client, their uploads and paths resolved."""

    stores: Stores
    client: Client
    values: dict[str, Any] = field(default_factory=dict)
    uploads: list[str] = field(default_factory=list)
    """Ids of the uploads that the work will read."""
    opened_uploads: list[str] = field(default_factory=list)
    """Those, and the ones that are read before."""
    voices: list[str] = field(default_factory=list)
    """Voices that the values or their files name."""

    def resolve(self, word: str, setting: str = "") -> Path:
        """A path that will be opened: an upload, or one in the folders of a setting."""
        path = resolve_path(self.stores, self.client, word, setting)
        if word.startswith(UPLOAD_PREFIX):
            upload_id = word.removeprefix(UPLOAD_PREFIX)
            self.uploads.append(upload_id)
            self.opened_uploads.append(upload_id)
        return path

    def resolve_upload(self, name: str, value: Any) -> Path:
        """The file of an option that must be an upload."""
        if not isinstance(value, str) or not value.startswith(UPLOAD_PREFIX):
            raise InvalidOptionError(
                name,
                "must be an uploaded file",
                hint='POST /uploads accepts it; name it as "upload:ID".',
            )
        return self.resolve(value)

    def add(self, request: type, given: Mapping[str, Any]) -> None:
        """Check what the client gives for the options of a request, and resolve uploads and paths.

        Names and paths are checked here, and words with several spellings get their usual one
        (`M4B` is `m4b`); the rest is checked by the request when it is built.
        """
        options = {name: one for name, one in list_options(request).items() if one.http}
        for name, value in given.items():
            if name not in options:
                raise InvalidInputError(
                    f"unknown option {name[:40]!r}", hint=f"Valid options: {', '.join(options)}."
                )
            if value is not None:
                self.values[name] = _resolve_option(self, options[name], value)
        if not self.client.sees_all and "index" in options:
            index = self.values.get("index") or options["index"].default
            self.values["index"] = get_index_name(self.client, index)
        if voice := self.values.get("voice"):
            self.voices.append(voice)


def _resolve_option(found: ResolvedOptions, option: Option, value: Any) -> Any:
    name = option.name
    if option.upload:
        return _resolve_uploads(found, option, value)
    if option.kind is Path and option.shape == "list":
        raise InvalidInputError(
            Message("{name} may not be given", name=OptionRef(name)), hint="Upload the files."
        )
    if name == "model":
        return _resolve_model(found, option, value)
    if option.kind is Path:
        return found.resolve(str(value), "models")
    if name in _PLAIN_NAMES:
        form, what = _PLAIN_NAMES[name]
        return check_name(name, value, form, what)
    if option.shape == "mapping" and isinstance(value, Mapping):
        check_no_paths(name, value)
    if option.normalize and option.shape == "single":
        return option.check(value)
    return value


def _resolve_uploads(found: ResolvedOptions, option: Option, value: Any) -> Any:
    if option.shape == "list":
        words = value if isinstance(value, list) else [value]
        return tuple(found.resolve_upload(option.name, word) for word in words)
    path = found.resolve_upload(option.name, value)
    if option.name == "cast":
        found.voices += _read_cast_voices(path)
    return path


def check_no_paths(name: str, values: Mapping[str, Any]) -> None:
    """Refuse values that could be taken for paths, in the mapping of an option."""
    for key, one in values.items():
        if not _KEY_NAME.fullmatch(key):
            raise InvalidInputError(
                Message(
                    "{key!r} in {name} is not a valid name", key=key[:40], name=OptionRef(name)
                ),
                hint="Use letters.",
            )
        if isinstance(one, str) and looks_like_path(one):
            raise InvalidInputError(
                Message(
                    "the value of {key!r} in {name} may not be a path",
                    key=key[:40],
                    name=OptionRef(name),
                ),
                hint="Give a plain word.",
            )


def check_name(name: str, value: Any, form: re.Pattern[str], what: str) -> str:
    """Refuse a value that could be taken for a path."""
    if not isinstance(value, str) or not form.fullmatch(value) or ".." in value:
        raise InvalidOptionError(name, f"must be the name of {what}", hint="It may not be a path.")
    return value


def _resolve_model(found: ResolvedOptions, option: Option, value: Any) -> Any:
    """A model by its name, or a folder in those of `server.models`."""
    if isinstance(value, str) and ("/" in value or "\\" in value):
        return option.check(found.resolve(value, "models"))
    if option.kind is Path:
        raise InvalidOptionError(
            "model", "must be a folder", hint="Name one of the folders of server.models."
        )
    return check_name("model", value, _MODEL_NAME, "a model")


def _read_cast_voices(path: Path) -> list[str]:
    """The voices of a cast file; a voice that is a path would open a recording of this machine."""
    from anyrig.audiobooks.cast import parse_cast

    if path.stat().st_size > _MAX_CAST_BYTES:
        raise InvalidInputError("the cast is too long", hint="Send a TOML file; see docs/cast.md.")
    text = path.read_bytes().decode("utf-8-sig", "replace")  # the job reports what is not UTF-8
    voices = list(parse_cast(text, name="the cast").voices)
    for voice in voices:
        if not VOICE_NAME.fullmatch(voice) or ".." in voice:
            raise InvalidInputError(
                "a voice of the cast is not a valid name", hint="GET /config lists voices."
            )
    return voices


# -- training files --------------------------------------------------------------------------------

Resolve = Callable[[str], Path]
"""The path that a client names, if it may be opened; `InvalidInputError` else."""


def copy_training_file(
    source: Path, target: Path, resolve: Resolve, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Copy a client's training file with its uploads as paths; refuses one that names other paths.

    Nothing in the file may look like a path unless it lies in an allowed folder; nor may a file
    that its examples name. Where those are is written beside the copy, and the run opens no others.

    Args:
        source: the TOML file as it was sent.
        target: where the copy goes.
        resolve: the path that a word names, if it may be opened.
        options: values that replace the file's, by `[table.]name`.

    Returns:
        The options with which the run is started.
    """
    from anyrig.settings.toml import parse_toml

    data = source.read_bytes()
    if len(data) > _MAX_TRAINING_BYTES:
        raise InvalidInputError("the file is too long for settings", hint="Send a TOML file.")
    paths: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        path = str(resolve(match[2]))
        paths.add(path)
        return json.dumps(path)

    try:
        text = _UPLOAD_IN_TOML.sub(replace, data.decode("utf-8-sig"))
        parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            "the file is not a valid TOML file of a training run",
            hint="docs/training.md shows the layout.",
        ) from error
    with open(target, "w", encoding="utf-8", opener=opener) as out:
        out.write(text)
    checked = dict(options)
    for name, value in options.items():
        if isinstance(value, str) and value.startswith(UPLOAD_PREFIX):
            checked[name] = str(resolve(value))
            paths.add(checked[name])
    config = _read_copied_config(target, checked)
    for value in (*_list_texts(config.task), *_list_texts(config.train), *_list_texts(checked)):
        if value not in paths and looks_like_path(value):
            resolve(value)
    return {**checked, **_write_example_files(config, resolve)}


def _read_copied_config(path: Path, options: Mapping[str, Any]) -> ConfigFile:
    """The run's tables, with the options in place of the file's values."""
    from anyrig.training.config_file import read_config

    try:
        return read_config(path).with_values(options)
    except InvalidInputError as error:  # it names the copy
        raise InvalidInputError(
            error.message.replace(str(path), "the file"), hint=error.hint.replace(str(path), "it")
        ) from error


def _write_example_files(config: ConfigFile, resolve: Resolve) -> dict[str, Any]:
    """Write down where the files are that examples name; the option that says so."""
    kind = config.task.get("kind")
    examples = config.task.get(_MANIFESTS.get(str(kind), ""))
    is_named = isinstance(examples, str) and is_manifest(Path(examples))
    if not (is_named or kind == "classifier"):
        return {}
    if "files" in config.task:
        raise InvalidInputError("'files' of [task] may not be given", hint="Leave it out.")
    files = {}
    if isinstance(examples, str):
        path = config.base / examples
        files = _find_example_files(path, resolve, labelled=kind != "language")
    listed = config.path.parent / TRAINING_FILES
    with open(listed, "w", encoding="utf-8", opener=opener) as out:
        out.write(json.dumps(files))
    return {"task.files": TRAINING_FILES}


def _find_example_files(path: Path, resolve: Resolve, *, labelled: bool) -> dict[str, str]:
    """Where the files are that a file of examples names; refuses one that may not be read.

    Whatever else is wrong with the examples is reported by the run.
    """
    from anyrig.text.manifest import read_manifest

    if not path.is_file():
        return {}  # a walk through a folder does not leave it
    files: dict[str, str] = {}
    refused: set[str] = set()

    def resolve_example(name: str) -> Path:
        try:
            found = resolve(name)
        except InvalidInputError as error:
            refused.add(error.message)
            raise
        files[name] = str(found)
        return found

    try:
        found = read_manifest(path, labelled=labelled, resolve=resolve_example)
    except InvalidInputError:
        if refused:
            raise _refuse_example("the examples") from None
        return {}
    # The texts of a table without a header are tried as names: only rows that are files count.
    wrong = next((one for one in found.troubles if one.reason in refused), None)
    if wrong is not None:
        raise _refuse_example(wrong.place.partition(", ")[2] or "the examples")
    used = {str(one.file) for one in found.examples if one.file is not None}
    return {name: path for name, path in files.items() if path in used}


def _refuse_example(place: str) -> InvalidInputError:
    """The same error whether the file exists or not."""
    return InvalidInputError(
        f"{place}: that file may not be named by a request",
        hint='Upload each file and name it as "upload:ID".',
    )


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _list_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _list_texts(one)
