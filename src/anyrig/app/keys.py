"""API keys: who may call the server, for what, and how often.

    text, key = keys.add("laptop", scopes=("speech",))     # the text is shown once
    keys.check(text)                                       # the key, or None

A key is 256 random bits behind an id. Only its SHA-256 is stored: slow hashes protect passwords
that people make up, and these cannot be guessed. The file is read again when it changes, so a
running server refuses a key that was removed.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    InvalidSettingError,
    Message,
    OptionRef,
    StorageError,
)
from anyrig.options import Request, option
from anyrig.results import fields_to_json, in_json
from anyrig.storage.files import lock_file, make_folder, open_atomic

if TYPE_CHECKING:
    from anyrig.app.rig import Rig

SCOPES = {
    "speech": "speak and stream, transcribe, edit its own lexicon",
    "embeddings": "vectors of texts",
    "documents": "documents and their indexes",
    "jobs": "submit, follow and change jobs; books",
    "train": "training runs",
    "read": "devices, metrics, jobs and runs, read-only",
    "page": "the web page, which can do all of these",
    "admin": "everything, including choosing the device and changing a cluster's workers",
}
"""A scope and what it allows."""
_TEXT = re.compile(r"anyrig_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,60}")
_NO_DIGEST = hashlib.sha256(b"").hexdigest()
_LOCK_TIMEOUT_S = 10.0
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}


@dataclass(frozen=True, kw_only=True)
class AddKeyRequest(Request):
    """A new API key."""

    name: str = option(help="who uses the key", flag=False)
    scopes: tuple[str, ...] = option(
        ("admin",), "what the key allows, such as speech,read; default: everything",
        metavar="NAMES",
    )  # fmt: skip
    rate: int = option(
        0, "requests per minute; default: server.requests_per_minute", ge=0, le=1_000_000,
        metavar="N",
    )  # fmt: skip
    expires: str = option(
        "", "how long the key is valid (12h, 30d, 1y), or until when (2027-01-31);"
        " default: no limit", metavar="WHEN",
    )  # fmt: skip


@dataclass(frozen=True)
class ApiKey:
    """What is stored of a key; not the key itself."""

    id: str
    name: str
    digest: str = field(metadata=in_json(omit=True))
    scopes: tuple[str, ...]
    requests_per_minute: int = 0
    """0: as the settings say."""
    expires_at: float | None = None
    made_at: float = 0.0

    def has_scope(self, *scopes: str) -> bool:
        """Whether it has one of these scopes."""
        return "admin" in self.scopes or any(scope in self.scopes for scope in scopes)

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self) | {"requests_per_minute": self.requests_per_minute or None}


def open_keys(rig: Rig) -> ApiKeys:
    """The keys of this user's server."""
    return ApiKeys(rig.folders.api_keys)


def add_key(rig: Rig, request: AddKeyRequest) -> tuple[str, ApiKey]:
    """Add a key: its text, which cannot be shown again, and what is stored of it."""
    return open_keys(rig).add(
        request.name, scopes=request.scopes, requests_per_minute=request.rate,
        expires_at=parse_expiry(request.expires, time.time()),
    )  # fmt: skip


def parse_expiry(text: str, now: float) -> float | None:
    """Seconds since 1970 of a time span or a date; None if it is empty."""
    if not text:
        return None
    if match := re.fullmatch(r"(\d{1,6})([mhdwy])", text.strip().lower()):
        return now + int(match[1]) * _UNITS[match[2]]
    try:
        end = time.mktime(time.strptime(text.strip(), "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise InvalidOptionError(
            "expires", "must be a time span or a date", value=text,
            hint="Examples: 12h, 30d, 1y, 2027-01-31.",
        ) from None  # fmt: skip
    if end <= now:
        raise InvalidOptionError("expires", "is in the past", value=text, hint="Give a later date.")
    return end


def ensure_key(keys: ApiKeys, *, address: str, create: bool) -> tuple[str, ApiKey] | None:
    """Check that a server that requires keys has a valid one.

    Args:
        keys: of the server.
        address: what it is about to listen on, for the error.
        create: add a key if there is none, as in a container, where nobody can run `anyrig keys`.

    Returns:
        The text and the key that was added, if one was.
    """
    known = keys.list_keys()
    if any(keys.get(key.id) for key in known):
        return None
    if not create:
        reason = "all keys have expired" if known else "there are none"
        raise InvalidInputError(
            f"clients of {address} need API keys, and {reason}",
            hint=Message(
                "Run `anyrig keys add NAME`, or use {insecure} to allow everyone.",
                insecure=OptionRef("insecure"),
            ),
        )
    taken = {key.name for key in known}  # expired ones keep their names
    names = itertools.chain(["container"], (f"container {n}" for n in itertools.count(2)))
    return keys.add(next(name for name in names if name not in taken))


class ApiKeys:
    """The keys in a file.

    Args:
        path: of the file, which may not exist yet.
        clock: seconds since 1970.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._version: tuple[int, ...] = ()
        self._keys: dict[str, ApiKey] = {}

    def add(
        self, name: str, *, scopes: Iterable[str] = ("admin",), requests_per_minute: int = 0,
        expires_at: float | None = None,
    ) -> tuple[str, ApiKey]:  # fmt: skip
        """Add a key: its text, which cannot be shown again, and what is stored of it."""
        unique = tuple(dict.fromkeys(scopes))
        _validate(name, unique, requests_per_minute)
        key_id = secrets.token_hex(6)
        text = f"anyrig_{key_id}_{secrets.token_urlsafe(32)}"
        key = ApiKey(
            key_id, name, _digest(text), unique, requests_per_minute, expires_at, self._clock()
        )
        with self._edit() as keys:
            if any(known.name == name for known in keys.values()):
                raise InvalidInputError(
                    f"a key named {name} already exists",
                    hint=f"Choose another name, or run `anyrig keys remove {name}` first.",
                )
            keys[key_id] = key
        return text, key

    def remove(self, name_or_id: str) -> ApiKey:
        """Remove a key: it is refused from the next request on."""
        with self._edit() as keys:
            for key in keys.values():
                if name_or_id in (key.name, key.id):
                    return keys.pop(key.id)
            names = ", ".join(key.name for key in keys.values()) or "none"
        raise InvalidInputError(f"unknown key {name_or_id!r}", hint=f"Keys: {names}.")

    def list_keys(self) -> list[ApiKey]:
        """All keys, the oldest first; expired ones too."""
        return sorted(self._read().values(), key=lambda key: (key.made_at, key.id))

    def get(self, key_id: str) -> ApiKey | None:
        """The key with an id, if it is valid."""
        key = self._read().get(key_id)
        return key if key is not None and self._is_valid(key) else None

    def check(self, text: str) -> ApiKey | None:
        """The key that a client sent, if it is valid.

        How long that takes does not depend on how much of a wrong key is right.
        """
        key, matches = self._match(text)
        return key if matches and key is not None and self._is_valid(key) else None

    def explain(self, text: str) -> Literal["shape", "unknown", "expired"]:
        """Why a key is refused; that it has expired is told only to whoever has it."""
        key, matches = self._match(text)
        if not _TEXT.fullmatch(text):
            return "shape"
        return "expired" if matches and key is not None else "unknown"

    def _match(self, text: str) -> tuple[ApiKey | None, bool]:
        found = _TEXT.fullmatch(text)
        key = self._read().get(found[1]) if found else None
        return key, hmac.compare_digest(_digest(text), _NO_DIGEST if key is None else key.digest)

    def _is_valid(self, key: ApiKey) -> bool:
        return key.expires_at is None or self._clock() < key.expires_at

    def _read(self) -> dict[str, ApiKey]:
        """The contents of the file, read again if it has changed."""
        version = _file_version(self._path)
        with self._lock:
            if version != self._version:
                self._keys, self._version = _load(self._path), version
            return self._keys

    @contextmanager
    def _edit(self) -> Iterator[dict[str, ApiKey]]:
        make_folder(self._path.parent)
        lock_path = self._path.with_name(f"{self._path.name}.lock")
        with lock_file(lock_path, _LOCK_TIMEOUT_S) as locked:
            if not locked:
                raise StorageError("another process is changing the keys", hint="Try again.")
            keys = _load(self._path)
            yield keys
            rows = [asdict(key) for key in keys.values()]
            try:
                with open_atomic(self._path) as file:
                    if hasattr(os, "fchmod"):
                        os.fchmod(file.fileno(), 0o600)
                    file.write(json.dumps({"version": 1, "keys": rows}, indent=1).encode())
            except OSError as error:
                raise StorageError(
                    f"cannot write {self._path}: {error.strerror}",
                    hint="Check its permissions and the free space of the disk.",
                ) from error


def _validate(name: str, scopes: tuple[str, ...], requests_per_minute: int) -> None:
    if not _NAME.fullmatch(name) or not name.strip() or not name.isprintable():
        raise InvalidInputError(
            "the name of a key must be one line of 1 to 60 printable characters",
            hint="Name who uses it: anyrig keys add laptop",
        )
    for scope in scopes or ("",):
        if scope not in SCOPES:
            raise InvalidInputError(
                f"unknown scope {scope!r}", hint=f"Scopes: {', '.join(SCOPES)}."
            )
    if not 0 <= requests_per_minute <= 1_000_000:
        raise InvalidOptionError(
            "rate", "must be between 0 and 1000000", value=requests_per_minute,
            hint="0 means as the settings say.",
        )  # fmt: skip


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _file_version(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _load(path: Path) -> dict[str, ApiKey]:
    try:
        rows: Any = json.loads(path.read_text(encoding="utf-8"))["keys"]
        keys = [ApiKey(**{**row, "scopes": tuple(row["scopes"])}) for row in rows]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidSettingError(
            f"cannot read the API keys in {path}: {error}",
            hint="Fix the file, or delete it and add the keys again.",
        ) from error
    return {key.id: key for key in keys}
