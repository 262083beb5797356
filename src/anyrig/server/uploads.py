"""Files that people sent: kept under random names, found by id, deleted for good.

    with uploads.receive("My book.epub") as file:
        file.write(some_bytes)
    uploads.path(file.made.id)

What a sender calls a file is shown to people and never used as a path. A file is looked at to tell
what kind it is; it is never run, unpacked or unpickled here. It is there once its last byte is: one
that broke off leaves nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import threading
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, StorageError
from anyrig.server.file_types import detect_type, get_suffix, guess_type

_ID = re.compile(r"[0-9a-f]{32}")
_LONGEST_NAME = 150
_SPARE_BYTES = 256 << 20
"""So much of the disk stays free: a full one stops jobs, the queue and the log as well."""


_LOOK_S = 1.0


class UploadNotFoundError(InvalidInputError):
    """An id that no uploaded file has."""


@dataclass(frozen=True)
class Upload:
    """A file that somebody sent."""

    id: str
    name: str
    """What its sender called it, made fit to be shown."""
    size: int
    kind: str
    """Told by its content: epub, pdf, wav, ...; `other` where nothing is known of it."""
    made_at: float
    owner: str = ""
    """The id of the key that sent it; empty for one that came without a key."""


class Uploads:
    """A folder of them.

    Args:
        folder: theirs alone.
        most_bytes: of one file.
        most_files: kept at once.
        most_total: bytes of all files together, those that are coming included.
    """

    def __init__(
        self, folder: Path, *, most_bytes: int, most_files: int, most_total: int = 1 << 60
    ) -> None:
        self.most_bytes, self.most_files, self.most_total = most_bytes, most_files, most_total
        self._folder = folder
        self._lock = threading.Lock()
        self.steady = threading.Lock()
        """Held for a moment: while a job that names uploads is queued, having looked that they are
        still there, and while one is deleted for a client. So no job is queued whose file has just
        gone."""
        self._coming = 0
        self._total, self._looked_at = 0, float("-inf")
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
        self._tidy()

    def receive(self, name: str, owner: str = "") -> Receiving:
        """A place for a file that is coming; `owner` is the id of the key that sends it."""
        with self._lock:
            if len(self._ids()) + self._coming >= self.most_files:
                raise self.full()
            self._coming += 1
        return Receiving(self, self._folder, clean(name), owner)

    def full(self) -> LimitExceededError:
        """The answer to one file too many."""
        return LimitExceededError(
            f"only {self.most_files} files are kept at once",
            hint="Delete some that are done with, or raise server.upload_files.",
        )

    def room(self) -> int:
        """How many files may still come."""
        with self._lock:
            return max(0, self.most_files - len(self._ids()) - self._coming)

    def get(self, upload_id: str) -> Upload:
        """What is known of one."""
        try:
            return Upload(**json.loads(self._card(upload_id).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise self.unknown() from None

    @staticmethod
    def unknown() -> UploadNotFoundError:
        """The answer to an id that no upload has."""
        return UploadNotFoundError(
            "there is no such upload", hint="GET /uploads lists what is kept."
        )

    def all(self) -> list[Upload]:
        """All of them, the newest first."""
        found = []
        for upload_id in self._ids():
            with contextlib.suppress(UploadNotFoundError):  # deleted a moment ago
                found.append(self.get(upload_id))
        return sorted(found, key=lambda one: (-one.made_at, one.id))

    def path(self, upload_id: str) -> Path:
        """Where the file of an id lies; its name tells nothing but what kind it is."""
        path = self._data(self.get(upload_id))
        if not path.is_file():
            raise UploadNotFoundError("the upload is gone", hint="Send it again.")
        with contextlib.suppress(OSError):  # whoever asks for the path uses the file
            os.utime(self._card(upload_id))
        return path

    def unused(self, before: float) -> list[str]:
        """Ids of those that nobody asked for since a time, in seconds since 1970."""
        found = []
        for upload_id in self._ids():
            with contextlib.suppress(OSError):  # deleted a moment ago
                if self._card(upload_id).stat().st_mtime < before:
                    found.append(upload_id)
        return found

    def check_total(self) -> None:
        """`LimitExceededError` where all files together are too much.

        Looks at every file once a second.
        """
        if time.monotonic() - self._looked_at > _LOOK_S:
            total = 0
            with os.scandir(self._folder) as rows:
                for row in rows:
                    with contextlib.suppress(OSError):
                        total += row.stat().st_size if not row.name.endswith(".json") else 0
            self._total, self._looked_at = total, time.monotonic()
        if self._total > self.most_total:
            raise LimitExceededError(
                f"the files that are kept are over {self.most_total / 1e6:,.6g} MB together",
                hint="Delete some that are done with, or raise server.upload_total_mb.",
            )

    def named(self, word: str) -> Upload:
        """The upload that a request names as `upload:ID`, whoever sent it."""
        return self.get(self.id_of(word))

    def id_of(self, word: str) -> str:
        """The id in `upload:ID`."""
        start, _, upload_id = word.partition(":") if isinstance(word, str) else ("", "", "")
        if start != "upload" or not _ID.fullmatch(upload_id):
            raise InvalidInputError(
                "a file is named by upload:ID",
                hint="POST /uploads takes files and tells their ids.",
            )
        return upload_id

    def delete(self, upload_id: str) -> Upload:
        """Remove one for good."""
        upload = self.get(upload_id)
        with self._lock:
            self._data(upload).unlink(missing_ok=True)  # first: a card alone is harmless
            self._card(upload.id).unlink(missing_ok=True)
            self._looked_at = float("-inf")
        return upload

    def _keep(self, part: Path, name: str, size: int, owner: str) -> Upload:
        upload_id = part.stem.removeprefix("part-")
        upload = Upload(upload_id, name, size, detect_type(part), time.time(), owner)
        card = part.with_name(f"card-{upload.id}")
        card.write_text(json.dumps(asdict(upload)), encoding="utf-8")
        os.replace(part, self._data(upload))
        os.replace(card, self._card(upload.id))
        return upload

    def _arrived(self) -> None:
        with self._lock:
            self._coming -= 1

    def _ids(self) -> list[str]:
        return [one.stem for one in self._folder.glob("*.json") if _ID.fullmatch(one.stem)]

    def _card(self, upload_id: str) -> Path:
        if not isinstance(upload_id, str) or not _ID.fullmatch(upload_id):
            raise UploadNotFoundError("that is no id of an upload", hint="GET /uploads lists them.")
        return self._folder / f"{upload_id}.json"

    def _data(self, upload: Upload) -> Path:
        # ID.json is what is known of it: a file of that kind must lie elsewhere.
        suffix = ".jsonl" if upload.kind == "json" else get_suffix(upload.kind)
        return self._folder / f"{upload.id}{suffix}"

    def _tidy(self) -> None:
        """Remove what broke off, an hour ago or more: another server may be receiving right now."""
        known = {f"{one}.json" for one in self._ids()}
        before = time.time() - 3600
        for path in self._folder.iterdir():
            upload_id = path.name.partition(".")[0].removeprefix("part-").removeprefix("card-")
            if not _ID.fullmatch(upload_id) or f"{upload_id}.json" in known:
                continue
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()


class Receiving:
    """A file that is coming: `write` its bytes; `made` once all are there."""

    made: Upload

    def __init__(self, uploads: Uploads, folder: Path, name: str, owner: str = "") -> None:
        self._uploads, self._name, self._owner = uploads, name, owner
        # How it ends is one of our own words, whatever the sender called it.
        self._part = folder / f"part-{secrets.token_hex(16)}{get_suffix(guess_type(name))}"
        self._size = self._checked = 0
        self._over = False
        try:
            self._room(0)
            self._file = os.fdopen(
                os.open(self._part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb"
            )
        except BaseException:
            uploads._arrived()
            raise

    def __enter__(self) -> Receiving:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if kind is None:
            self.finish()
        else:
            self.abandon()

    def write(self, data: bytes) -> None:
        """The next bytes."""
        self._size += len(data)
        if self._size > self._uploads.most_bytes:
            raise LimitExceededError(
                f"{self._name} is larger than {self._uploads.most_bytes / 1e6:,.6g} MB",
                hint="Split it, or raise server.upload_mb.",
            )
        with self._disk():
            if self._size - self._checked > 32 << 20:
                self._room(self._size)
            self._file.write(data)
            self._uploads._total += len(data)

    def finish(self) -> Upload:
        """All is there."""
        if not self._size:
            self.abandon()
            raise InvalidInputError(
                f"{self._name} is empty", hint="Send a file with something in it."
            )
        try:
            with self._disk():
                self._file.flush()
                self._uploads.check_total()
                os.fsync(self._file.fileno())
                self._file.close()
                self.made = self._uploads._keep(self._part, self._name, self._size, self._owner)
        except BaseException:
            self.abandon()
            raise
        self._end()
        return self.made

    def abandon(self) -> None:
        """Leave nothing of it."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)
        self._part.with_name(self._part.stem.replace("part-", "card-")).unlink(missing_ok=True)
        self._uploads._looked_at = float("-inf")
        self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._uploads._arrived()

    def _room(self, size: int) -> None:
        self._checked = size
        if shutil.disk_usage(self._part.parent).free < _SPARE_BYTES:
            raise StorageError("the disk is nearly full", hint="Free some space on the server.")
        self._uploads.check_total()

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except AnyrigError:
            raise
        except OSError as error:
            raise StorageError(
                f"the file cannot be kept: {error.strerror or error}",
                hint="Look at the disk's space on the server.",
            ) from error


def clean(name: str) -> str:
    """What a file is called, fit to be shown: one line, no folders, nothing invisible."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name.replace("\x00", "")))[-1]
    # Letters that turn the direction of writing make "exe.fdp" read as "pdf.exe".
    kept = "".join(one for one in last if unicodedata.category(one)[0] != "C" or one == " ")
    kept = " ".join(kept.split()).strip(". ") or "file"
    if len(kept) <= _LONGEST_NAME:
        return kept
    stem, dot, suffix = kept.rpartition(".")
    if not dot or len(suffix) > 10:
        return kept[:_LONGEST_NAME]
    return f"{stem[: _LONGEST_NAME - len(suffix) - 1]}.{suffix}"
