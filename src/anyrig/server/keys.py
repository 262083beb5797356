"""API keys: who may call the server, for what, and how often.

    text, key = keys.add("laptop", scopes=("speech",))     # the text is shown once
    keys.check(text)                                       # the key, or None

A key is 256 random bits behind an id that finds it. Only its SHA-256 is kept: a slow hash guards
what people make up, and nobody can guess these. The file is read again when it changes, so a key
that was removed is refused by a server that runs.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from anyrig.errors import InvalidInputError, InvalidSettingError, StorageError
from anyrig.storage import files
from anyrig.storage.files import lock_file

SCOPES = {
    "speech": "speak and stream, transcribe, edit the lexicon",
    "embeddings": "vectors of texts",
    "documents": "documents and their indexes",
    "jobs": "queue, watch and change jobs; books",
    "train": "training runs",
    "read": "devices, figures, jobs and runs, without changing any",
    "page": "the page in the browser, which can do all of these",
    "admin": "everything: choosing the device and changing a cluster's workers too",
}
"""A scope and what it lets a caller do."""
_TEXT = re.compile(r"anyrig_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,60}")
_NOBODY = hashlib.sha256(b"").hexdigest()
_WAIT_S = 10.0


@dataclass(frozen=True)
class Key:
    """What is known of a key; not the key."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    requests_per_minute: int = 0
    """0: as the settings say."""
    expires_at: float | None = None
    made_at: float = 0.0

    def may(self, *scopes: str) -> bool:
        """Whether it has one of these scopes."""
        return "admin" in self.scopes or any(one in self.scopes for one in scopes)


class Keys:
    """Those of a file.

    Args:
        path: of the file; it need not be there.
        clock: seconds since 1970.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] = ()
        self._keys: dict[str, Key] = {}

    def add(
        self, name: str, *, scopes: Iterable[str] = ("admin",), requests_per_minute: int = 0,
        expires_at: float | None = None,
    ) -> tuple[str, Key]:  # fmt: skip
        """A new key: its text, which nobody can tell again, and what is kept of it."""
        wanted = tuple(dict.fromkeys(scopes))
        _check(name, wanted, requests_per_minute)
        key_id = secrets.token_hex(6)
        text = f"anyrig_{key_id}_{secrets.token_urlsafe(32)}"
        key = Key(
            key_id, name, _digest(text), wanted, requests_per_minute, expires_at, self._clock()
        )
        with self._changing() as keys:
            if any(one.name == name for one in keys.values()):
                raise InvalidInputError(
                    f"there is a key called {name} already",
                    hint=f"Choose another name, or `anyrig keys remove {name}` first.",
                )
            keys[key_id] = key
        return text, key

    def remove(self, word: str) -> Key:
        """Take a key away, by its name or id: it is refused from the next request on."""
        with self._changing() as keys:
            found = [one for one in keys.values() if word in (one.name, one.id)]
            if not found:
                names = ", ".join(one.name for one in keys.values()) or "none"
                raise InvalidInputError(f"there is no key {word!r}", hint=f"There are: {names}.")
            return keys.pop(found[0].id)

    def all(self) -> list[Key]:
        """All of them, the oldest first; those that have expired too."""
        return sorted(self._read().values(), key=lambda one: (one.made_at, one.id))

    def get(self, key_id: str) -> Key | None:
        """The key of an id, while it holds."""
        key = self._read().get(key_id)
        return key if key is not None and self._holds(key) else None

    def check(self, text: str) -> Key | None:
        """The key that a caller showed, if it is one and holds.

        What takes time does not depend on what is right about a wrong one.
        """
        match = _TEXT.fullmatch(text)
        key = self._read().get(match[1]) if match else None
        right = hmac.compare_digest(_digest(text), _NOBODY if key is None else key.digest)
        return key if right and key is not None and self._holds(key) else None

    def why_not(self, text: str) -> Literal["shape", "unknown", "expired"]:
        """Why a key is not good; that it has expired is told only to who holds it."""
        match = _TEXT.fullmatch(text)
        if not match:
            return "shape"
        key = self._read().get(match[1])
        right = hmac.compare_digest(_digest(text), _NOBODY if key is None else key.digest)
        return "expired" if right and key is not None else "unknown"

    def _holds(self, key: Key) -> bool:
        return key.expires_at is None or self._clock() < key.expires_at

    def _read(self) -> dict[str, Key]:
        """What the file says, read again where it has changed."""
        stamp = _stamp(self._path)
        with self._lock:
            if stamp != self._stamp:
                self._keys, self._stamp = _loaded(self._path), stamp
            return self._keys

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Key]]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(self._path.with_name(f"{self._path.name}.lock"), _WAIT_S) as alone:
            if not alone:
                raise StorageError("another process changes the keys", hint="Try again.")
            keys = _loaded(self._path)
            yield keys
            rows = [asdict(one) for one in keys.values()]
            try:
                with files.open_atomic(self._path) as file:
                    if hasattr(os, "fchmod"):
                        os.fchmod(file.fileno(), 0o600)
                    file.write(json.dumps({"version": 1, "keys": rows}, indent=1).encode())
            except OSError as error:
                raise StorageError(
                    f"cannot write {self._path}: {error.strerror}",
                    hint="Check its permissions, and that the disk is not full.",
                ) from error


def _check(name: str, scopes: tuple[str, ...], requests_per_minute: int) -> None:
    if not _NAME.fullmatch(name) or not name.strip():
        raise InvalidInputError(
            "a key needs a name of one line", hint="Who uses it: anyrig keys add laptop"
        )
    if unknown := [one for one in scopes if one not in SCOPES] or not scopes:
        said = unknown[0] if isinstance(unknown, list) else ""
        raise InvalidInputError(
            f"there is no scope {said!r}", hint=f"There are: {', '.join(SCOPES)}."
        )
    if not 0 <= requests_per_minute <= 1_000_000:
        raise InvalidInputError("no such rate", hint="Requests a minute; 0 as the settings say.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _loaded(path: Path) -> dict[str, Key]:
    try:
        rows: Any = json.loads(path.read_text(encoding="utf-8"))["keys"]
        keys = [Key(**{**row, "scopes": tuple(row["scopes"])}) for row in rows]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidSettingError(
            f"the keys in {path} cannot be read: {error}",
            hint="Mend the file, or delete it and add keys anew.",
        ) from error
    return {one.id: one for one in keys}
