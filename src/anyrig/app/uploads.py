"""Files that clients have uploaded.

    with uploads.receive("My book.epub") as writer:
        writer.write(some_bytes)
    uploads.path(writer.upload.id)

Files are stored under random names; the client's name is shown to people and never used as a path.
The type of a file is detected from its content; it is never run, unpacked or unpickled here. A file
exists once it is complete: an upload that breaks off leaves nothing.
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
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from types import TracebackType

from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, StorageError
from anyrig.storage.files import make_folder, opener, write_atomic
from anyrig.text.files import FORMATS, detect_format, guard_reading, guess_format
from anyrig.text.formats.limits import Limits

_ID = re.compile(r"[0-9a-f]{32}")
_MAX_NAME = 150
_RESERVED_BYTES = 256 << 20
"""Free space that uploads leave: a full disk stops jobs, the queue and the log as well."""
_CHECK_BYTES = 32 << 20
"""An upload checks the free space again after this much."""
_TOTAL_INTERVAL_S = 1.0
_STALE_S = 3600.0


class UploadNotFoundError(InvalidInputError):
    """No uploaded file has this id."""


@dataclass(frozen=True)
class Upload:
    id: str
    name: str
    """The client's name for it, safe to show."""
    size: int
    kind: str
    """Detected from its content: epub, pdf, wav, ...; `other` if unknown."""
    made_at: float
    owner: str = ""
    """The id of the client's key; empty if it needed none."""
    purpose: str = ""
    """`book` once it was planned or made as an audiobook."""


class Uploads:
    """A folder of uploaded files.

    Args:
        folder: for these only.
        max_bytes: of one file.
        max_files: at once.
        max_total: bytes of all files together, those that are being received included.
        owner_share: how much of `max_files` and `max_total` one key may use.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        max_files: int,
        max_total: int = 1 << 60,
        owner_share: float = 1.0,
    ) -> None:
        self.max_bytes, self.max_files, self.max_total = max_bytes, max_files, max_total
        self._max_owner_files = max(1, int(owner_share * max_files))
        self._max_owner_total = int(owner_share * max_total)
        self.job_lock = threading.Lock()
        """Held while a job that names uploads is queued, having checked that they exist, and while
        an upload is deleted for a client, so that no job is queued without its files."""
        self._folder = folder
        self._lock = threading.RLock()
        self._receiving: Counter[str] = Counter()
        """Files that are being received, by owner."""
        self._received_bytes: Counter[str] = Counter()
        """Of these files."""
        self._owners: dict[str, tuple[str, int]] = {}
        """Owner and size of every file, by id."""
        self._total, self._total_at = 0, float("-inf")
        make_folder(folder)
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
        self._delete_incomplete()

    def receive(self, name: str, owner: str = "", request_bytes: int = 0) -> UploadWriter:
        """Start an upload; `owner` is the id of the client's key, `request_bytes` the size of the
        whole request, if that is known.
        """
        with self._lock:
            if not self._count_free(owner):
                raise self.too_many(owner)
            self._receiving[owner] += 1
        return UploadWriter(self, self._folder, clean_name(name), owner, request_bytes)

    def too_many(self, owner: str) -> LimitExceededError:
        num_left = self.max_files - len(self._list_ids()) - self._receiving.total()
        if owner and self._max_owner_files - self._count_files(owner) < num_left:
            return LimitExceededError(
                f"a key may have at most {self._max_owner_files} files here",
                hint="Delete some; or raise server.upload_files or server.client_share.",
            )
        return LimitExceededError(
            f"the server keeps at most {self.max_files} files",
            hint="Delete some, or raise server.upload_files.",
        )

    def count_free(self, owner: str = "") -> int:
        """How many more files an owner may upload."""
        with self._lock:
            return self._count_free(owner)

    def _count_free(self, owner: str) -> int:
        free = self.max_files - len(self._list_ids()) - self._receiving.total()
        if owner:
            free = min(free, self._max_owner_files - self._count_files(owner))
        return max(0, free)

    def _count_files(self, owner: str) -> int:
        return len(self._list_sizes(owner)) + self._receiving[owner]

    def _list_sizes(self, owner: str) -> list[int]:
        """The sizes of an owner's files. Each file's metadata is read once."""
        with self._lock:
            ids = set(self._list_ids())
            for upload_id in self._owners.keys() - ids:
                del self._owners[upload_id]
            for upload_id in ids - self._owners.keys():
                with contextlib.suppress(UploadNotFoundError):  # deleted a moment ago
                    upload = self.get(upload_id)
                    self._owners[upload_id] = (upload.owner, upload.size)
            return [size for one, size in self._owners.values() if one == owner]

    def get(self, upload_id: str) -> Upload:
        try:
            text = self._metadata_path(upload_id).read_text(encoding="utf-8")
            return Upload(**json.loads(text))
        except (OSError, ValueError, TypeError):
            raise self.not_found() from None

    @staticmethod
    def not_found() -> UploadNotFoundError:
        return UploadNotFoundError("upload not found", hint="GET /uploads lists them.")

    def list_uploads(self) -> list[Upload]:
        """All of them, the newest first."""
        found = []
        for upload_id in self._list_ids():
            with contextlib.suppress(UploadNotFoundError):  # deleted a moment ago
                found.append(self.get(upload_id))
        return sorted(found, key=lambda upload: (-upload.made_at, upload.id))

    def path(self, upload_id: str) -> Path:
        """The path of a file, for whoever uses it: that counts as use."""
        path = self._data_path(self.get(upload_id))
        if not path.is_file():
            raise UploadNotFoundError("the uploaded file is gone", hint="Upload it again.")
        with contextlib.suppress(OSError):
            os.utime(self._metadata_path(upload_id))
        return path

    def list_unused(self, before: float) -> list[str]:
        """Ids of files not used since a time, in seconds since 1970."""
        found = []
        for upload_id in self._list_ids():
            with contextlib.suppress(OSError):  # deleted a moment ago
                if self._metadata_path(upload_id).stat().st_mtime < before:
                    found.append(upload_id)
        return found

    def check_total(self, owner: str = "") -> None:
        """Raise `LimitExceededError` if all files together are too large, or those of an owner."""
        if owner and self._max_owner_total < self.max_total:
            own = sum(self._list_sizes(owner)) + self._received_bytes[owner]
            if own > self._max_owner_total:
                raise LimitExceededError(
                    f"the files of this key exceed {self._max_owner_total / 1e6:,.6g} MB in total",
                    hint="Delete some; or raise server.upload_total_mb or server.client_share.",
                )
        if time.monotonic() - self._total_at > _TOTAL_INTERVAL_S:
            total = 0
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        total += entry.stat().st_size if not entry.name.endswith(".json") else 0
            self._total, self._total_at = total, time.monotonic()
        if self._total > self.max_total:
            raise LimitExceededError(
                f"the uploaded files exceed {self.max_total / 1e6:,.6g} MB in total",
                hint="Delete some, or raise server.upload_total_mb.",
            )

    def find(self, reference: str) -> Upload:
        """The upload that `upload:ID` names, whoever owns it."""
        return self.get(self.parse_id(reference))

    def parse_id(self, reference: str) -> str:
        """The id in `upload:ID`."""
        text = reference if isinstance(reference, str) else ""
        scheme, _, upload_id = text.partition(":")
        if scheme != "upload" or not _ID.fullmatch(upload_id):
            raise InvalidInputError(
                "files are named as upload:ID",
                hint="POST /uploads takes files and returns their ids.",
            )
        return upload_id

    def set_purpose(self, upload_id: str, purpose: str) -> None:
        """Remember what an upload is used for."""
        with self._lock:
            upload = self.get(upload_id)
            if upload.purpose != purpose:
                text = json.dumps(asdict(replace(upload, purpose=purpose)))
                write_atomic(self._metadata_path(upload_id), text)

    def delete(self, upload_id: str) -> Upload:
        upload = self.get(upload_id)
        with self._lock:
            self._data_path(upload).unlink(missing_ok=True)  # first: metadata alone is harmless
            self._metadata_path(upload.id).unlink(missing_ok=True)
            self._total_at = float("-inf")
        return upload

    def _store(self, part: Path, name: str, size: int, owner: str) -> Upload:
        upload_id = part.stem.removeprefix("part-")
        upload = Upload(upload_id, name, size, _detect_type(part), time.time(), owner)
        metadata = part.with_name(f"card-{upload.id}")
        with open(metadata, "w", encoding="utf-8", opener=opener) as file:
            file.write(json.dumps(asdict(upload)))
        os.replace(part, self._data_path(upload))
        os.replace(metadata, self._metadata_path(upload.id))
        return upload

    def _finish_receiving(self, owner: str, num_bytes: int) -> None:
        with self._lock:
            self._receiving[owner] -= 1
            self._received_bytes[owner] -= num_bytes
            if not self._receiving[owner]:
                del self._receiving[owner], self._received_bytes[owner]

    def _list_ids(self) -> list[str]:
        return [path.stem for path in self._folder.glob("*.json") if _ID.fullmatch(path.stem)]

    def _metadata_path(self, upload_id: str) -> Path:
        if not isinstance(upload_id, str) or not _ID.fullmatch(upload_id):
            raise UploadNotFoundError("invalid upload id", hint="GET /uploads lists them.")
        return self._folder / f"{upload_id}.json"

    def _data_path(self, upload: Upload) -> Path:
        # ID.json is the metadata, so an uploaded .json file needs another suffix.
        suffix = ".jsonl" if upload.kind == "json" else _get_suffix(upload.kind)
        plain = self._folder / f"{upload.id}{suffix}"
        if suffix or plain.exists():  # 0.1.0 stored damaged files without a suffix
            return plain
        # A damaged PDF is still to be refused as a PDF.
        return self._folder / f"{upload.id}{_get_suffix(_guess_type(upload.name))}"

    def _delete_incomplete(self) -> None:
        """Delete uploads that broke off over an hour ago: another server may be receiving now."""
        known = set(self._list_ids())
        before = time.time() - _STALE_S
        for path in self._folder.iterdir():
            upload_id = path.name.partition(".")[0].removeprefix("part-").removeprefix("card-")
            if not _ID.fullmatch(upload_id) or upload_id in known:
                continue
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()


class UploadWriter:
    """A file that is being received: `write` its bytes; `upload` once it is complete."""

    upload: Upload

    def __init__(
        self, uploads: Uploads, folder: Path, name: str, owner: str = "", request_bytes: int = 0
    ) -> None:
        self._uploads, self._name, self._owner = uploads, name, owner
        self._request_bytes = request_bytes
        # The suffix is one of ours, whatever the client calls the file.
        self._part = folder / f"part-{secrets.token_hex(16)}{_get_suffix(_guess_type(name))}"
        self._size = self._checked_size = self._written = 0
        self._ended = False
        try:
            self._check_space()
            self._file = os.fdopen(
                os.open(self._part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb"
            )
        except BaseException:
            uploads._finish_receiving(owner, 0)
            raise

    def __enter__(self) -> UploadWriter:
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
        self._size += len(data)
        if self._size > self._uploads.max_bytes:
            size, limit = self._request_bytes / 1e6, self._uploads.max_bytes / 1e6
            request = f" (the request has {size:,.4g} MB)" if size else ""
            raise LimitExceededError(
                f"{self._name} is larger than the limit of {limit:,.6g} MB{request}",
                hint="Split it, or raise server.upload_mb.",
            )
        with _storage_errors():
            if self._size - self._checked_size > _CHECK_BYTES:
                self._check_space()
            self._file.write(data)
            self._uploads._total += len(data)
            self._uploads._received_bytes[self._owner] += len(data)
            self._written += len(data)

    def finish(self) -> Upload:
        """The file is complete."""
        if not self._size:
            self.abandon()
            raise InvalidInputError(f"{self._name} is empty", hint="Send a file with content.")
        try:
            with _storage_errors():
                self._file.flush()
                self._uploads.check_total(self._owner)
                os.fsync(self._file.fileno())
                self._file.close()
                self.upload = self._uploads._store(self._part, self._name, self._size, self._owner)
        except BaseException:
            self.abandon()
            raise
        self._end()
        return self.upload

    def abandon(self) -> None:
        """Delete what was received."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)
        self._part.with_name(self._part.stem.replace("part-", "card-")).unlink(missing_ok=True)
        self._uploads._total_at = float("-inf")
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._uploads._finish_receiving(self._owner, self._written)

    def _check_space(self) -> None:
        self._checked_size = self._size
        if shutil.disk_usage(self._part.parent).free < _RESERVED_BYTES:
            raise StorageError(
                "the server's disk is nearly full", hint="Free some space on the server."
            )
        self._uploads.check_total(self._owner)


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except AnyrigError:
        raise
    except OSError as error:
        raise StorageError(
            f"cannot store the file: {error.strerror or error}",
            hint="Check the free space of the server's disk.",
        ) from error


def get_display_name(path: Path) -> str:
    """The client's name for a file if it was uploaded, else its own name."""
    if _ID.fullmatch(path.stem):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            text = path.with_name(f"{path.stem}.json").read_text(encoding="utf-8")
            return str(json.loads(text)["name"])
    return path.name


def clean_name(name: str) -> str:
    """A file name that is safe to show: one line, no folders, nothing invisible."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name.replace("\x00", "")))[-1]
    # Characters that change the direction of writing make "exe.fdp" read as "pdf.exe".
    kept = "".join(c for c in last if unicodedata.category(c)[0] != "C" or c == " ")
    kept = " ".join(kept.split()).strip(". ") or "file"
    if len(kept) <= _MAX_NAME:
        return kept
    stem, dot, suffix = kept.rpartition(".")
    if not dot or len(suffix) > 10:
        return kept[:_MAX_NAME]
    return f"{stem[: _MAX_NAME - len(suffix) - 1]}.{suffix}"


# -- types: by content, or by name if the content does not tell ------------------------------------

_OTHER = "other"
_HEAD_BYTES = 64
_AUDIO = (
    (b"fLaC", "flac"), (b"OggS", "ogg"), (b"ID3", "mp3"), (b"\xff\xfb", "mp3"),
    (b"\xff\xf3", "mp3"), (b"\xff\xf2", "mp3"), (b"\xff\xf1", "aac"), (b"\xff\xf9", "aac"),
    (b"\x1aE\xdf\xa3", "webm"), (b"FORM", "aiff"), (b"#!AMR", "amr"),
)  # fmt: skip
_TEXT_TYPES = ("toml", "json", "jsonl", "ndjson", "yaml", "yml", "srt", "vtt", "xml")
"""Text formats that only their names tell apart."""
_FILE_TYPES = (
    *FORMATS, *dict.fromkeys(kind for _, kind in _AUDIO), "wav", "m4a", "mp4", "zip", *_TEXT_TYPES,
    _OTHER,
)  # fmt: skip


def _detect_type(path: Path) -> str:
    """One of `_FILE_TYPES`. The suffix of the path helps, as `_get_suffix(_guess_type(...))`."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if audio := _detect_audio(head):
        return audio
    suffix = path.suffix.lstrip(".")
    if suffix in _TEXT_TYPES and b"\x00" not in head:
        return suffix
    return _detect_document(path, head)


def _guess_type(name: str) -> str:
    """The type that a file's name suggests; `other` if none."""
    suffix = PurePosixPath(name).suffix.lower().lstrip(".")
    return suffix if suffix in _TEXT_TYPES else guess_format(name) or _OTHER


def _get_suffix(file_type: str) -> str:
    """The suffix of a stored file, by which readers recognise it; empty if unknown."""
    return f".{file_type}" if file_type in _FILE_TYPES and file_type != _OTHER else ""


def _detect_audio(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "wav"
    if head[4:8] == b"ftyp" and head[8:12] not in (b"avif", b"avis", b"heic", b"mif1"):
        return "m4a" if head[8:11] in (b"M4A", b"M4B") else "mp4"
    return next((kind for magic, kind in _AUDIO if head.startswith(magic)), "")


def _detect_document(path: Path, head: bytes) -> str:
    try:
        with guard_reading(path, Limits()):
            found = detect_format(path)
    except AnyrigError:  # a program, an archive, a video: stored, and refused where it is used
        return "zip" if head.startswith(b"PK\x03\x04") else _OTHER
    if found == "txt" and b"\x00" in head:
        return _OTHER
    return found if found in FORMATS else _OTHER
