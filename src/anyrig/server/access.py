"""What a client may see and open: this module alone decides.

    client = get_client(request)
    job = find_job(server, client, id)
    path = open_path(server, client, "upload:9f0c...", "models")

Uploads, jobs with their results and runs, and indexes belong to the key that made them. A key with
the scope `admin` sees everything, and so does everybody on a server that asks for no keys. What was
made without a key (on the command line, or before keys were asked for) has no owner: it is for
those who see everything. What a client may not see is answered as if it were not there.

A path that comes from a client, wherever it stands, is opened only if `open_path` allows it: it is
an upload of that client, or it lies, after following links, in a folder that a setting allows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.jobs import JobNotFoundError
from anyrig.text.folder import is_inside

if TYPE_CHECKING:
    from anyrig.jobs import Job
    from anyrig.server.state import ServerState
    from anyrig.server.uploads import Upload

_DRIVE = re.compile(r"[A-Za-z]:")
_MARK = "--"
_OWNED = re.compile(rf".*{_MARK}[0-9a-f]{{12}}", re.DOTALL)
"""An index of a key, as it is called on disk."""
_LONGEST_INDEX = 50
"""The id of a key stands behind the name of its index, and both together are a file's name."""


@dataclass(frozen=True)
class Client:
    """Whoever asks."""

    key: str = ""
    """The id of the key that was shown; empty without one."""
    sees_all: bool = False
    """Whether it has the scope `admin`, or no key is needed."""

    def may_see(self, owner: str) -> bool:
        """Whether something that a key made, or nobody's key, is there for this client."""
        return self.sees_all or (bool(self.key) and owner == self.key)


# -- files -----------------------------------------------------------------------------------------


def open_path(server: ServerState, client: Client, word: str, setting: str = "") -> Path:
    """The path that a client names, if it may be opened.

    `InvalidInputError` says nothing of what is there.

    Args:
        server: of the server.
        client: who asks.
        word: `upload:ID`, or a whole path where a setting allows folders.
        setting: `models` or `folders`; without it only uploads are taken.
    """
    if isinstance(word, str) and setting and not word.startswith("upload:"):
        return allowed_path(word, getattr(server.settings, setting), setting)
    return server.uploads.path(named_upload(server, client, word).id)


def allowed_path(word: str, roots: str, setting: str) -> Path:
    """A whole path that lies in one of the folders of a setting, its links followed.

    Args:
        word: as a client names it.
        roots: the setting's folders, with commas.
        setting: its name, for the hint.
    """
    path = Path(word)
    if word.isprintable() and path.is_absolute() and is_allowed(path, folders_of(roots)):
        return path.resolve()
    raise InvalidInputError(
        "that path may not be named by a request",
        hint="Send the file and name it as upload:ID; or the server's owner allows its folder by "
        f"the setting server.{setting}.",
    )


def looks_like_path(text: str) -> bool:
    """Whether a word may be taken for a path to something beside the folder that a job works in."""
    return (
        "/" in text or "\\" in text or ".." in text or text.startswith(("~", "upload:"))
        or _DRIVE.match(text) is not None
    )  # fmt: skip


def is_allowed(path: Path, roots: Iterable[Path]) -> bool:
    """Whether a path lies in one of some folders, after following its links and theirs."""
    return any(is_inside(path, root) for root in roots)


def folders_of(setting: str) -> list[Path]:
    """The folders of a setting, with commas; `~` is the home of whoever runs the server."""
    return [Path(os.path.expanduser(one.strip())) for one in setting.split(",") if one.strip()]


# -- uploads ---------------------------------------------------------------------------------------


def list_uploads(server: ServerState, client: Client) -> list[Upload]:
    """Those that a client may see, the newest first."""
    return [one for one in server.uploads.list_uploads() if client.may_see(one.owner)]


def find_upload(server: ServerState, client: Client, upload_id: str) -> Upload:
    """An upload by its id; `UploadNotFoundError` also for one of another key."""
    found = server.uploads.get(upload_id)
    if not client.may_see(found.owner):
        raise server.uploads.not_found()
    return found


def named_upload(server: ServerState, client: Client, word: str) -> Upload:
    """An upload that a request names as `upload:ID`."""
    return find_upload(server, client, server.uploads.parse_id(word))


# -- jobs ------------------------------------------------------------------------------------------


def find_job(server: ServerState, client: Client, id: str) -> Job:
    """A job by its id; `JobNotFoundError` also for one of another key."""
    job = server.jobs.get(id)
    if not client.may_see(job.client):
        raise JobNotFoundError(f"there is no job {id}", hint="`anyrig jobs` lists them.")
    return job


def jobs_filter(client: Client) -> str | None:
    """For `JobQueue.list_page`: whose jobs are listed; None lists all."""
    return None if client.sees_all else client.key


# -- indexes and classifiers -----------------------------------------------------------------------


def index_name(client: Client, name: str) -> str:
    """What an index is called on disk: each key has names of its own.

    Indexes of those who see everything, and of the command line, are called by their bare names.
    """
    if client.sees_all:
        return name
    if len(name) > _LONGEST_INDEX:
        raise InvalidInputError(
            f"{name[:40]!r}... is too long for the name of an index",
            hint=f"It may have {_LONGEST_INDEX} characters.",
        )
    return f"{name}{_MARK}{client.key}"


def shown_index(client: Client, stored: str) -> str | None:
    """What a client calls an index; None where it has none of that name on disk."""
    if client.sees_all:
        return stored
    name = stored.removesuffix(f"{_MARK}{client.key}")
    return name if client.key and name != stored else None


def hide_key(text: str, key: str) -> str:
    """A text in which the indexes of a key have their bare names."""
    return text.replace(f"{_MARK}{key}", "") if key else text


def is_shared(server: ServerState, client: Client, name: str) -> bool:
    """Whether an index or a classifier may be used by this client, though it is not its own.

    `*` shares what has no owner; an index of another key is shared by its whole name alone.
    """
    if client.sees_all:
        return True
    shared = [one.strip() for one in server.settings.shared.split(",")]
    return name in shared or ("*" in shared and not _OWNED.fullmatch(name))
