"""Lexicon files: read once until they change, and on a server one for each client.

`LexiconFiles` holds what is read; `ClientLexicons` says which files apply to a client of a server.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import InvalidInputError, LimitExceededError

if TYPE_CHECKING:
    from anyrig.app.access import Client
    from anyrig.app.rig import Rig
    from anyrig.speech.lexicon import LayeredLexicon, Lexicon

_MAX_FILES, _MAX_ENTRIES = 64, 200_000
"""What is held of them. A pattern, of which a lexicon may have 1,000, counts as 100 entries."""
_ENTRIES_PER_PATTERN = 100
_MAX_CHARACTERS = 1_000_000
_OWNER_FILE, _CLIENT_FOLDER = "lexicon.toml", "lexicons"
_KEY_ID = re.compile(r"[0-9a-f]{12}")


class _FileState(NamedTuple):
    """What changes when a file does."""

    inode: int
    modified_ns: int
    num_bytes: int


class LexiconFiles:
    """Lexicons of files, each read again only if its file has changed. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: OrderedDict[tuple[Path, bool], tuple[_FileState | None, Lexicon]] = (
            OrderedDict()
        )

    def load(self, path: Path, *, lenient: bool = False) -> tuple[Lexicon, bool]:
        """The lexicon of a file, and whether it was read now; `lenient` as in `lexicon.load`."""
        from anyrig.speech.lexicon import load

        state = _get_state(path)
        with self._lock:
            loaded_state, loaded = self._loaded.get((path, lenient), (None, None))
            if loaded is not None and loaded_state == state:
                self._loaded.move_to_end((path, lenient))
                return loaded, False
        lexicon = load(path, lenient=lenient)
        with self._lock:
            self._loaded[path, lenient] = (state, lexicon)
            self._loaded.move_to_end((path, lenient))
            self._evict()
        return lexicon, True

    def _evict(self) -> None:
        size = sum(_count(lexicon) for _, lexicon in self._loaded.values())
        while len(self._loaded) > 1 and (size > _MAX_ENTRIES or len(self._loaded) > _MAX_FILES):
            _, (_, lexicon) = self._loaded.popitem(last=False)
            size -= _count(lexicon)


class ClientLexicons:
    """The lexicons of a server: its owner's, which applies to all, and one of each API key.

    The owner's is a file in the server's folder, which those who see everything may replace, or
    that of the settings. Where a key's own lexicon and the owner's have the same word, its own
    counts. A file that is damaged is reported, and speech goes on without it.
    """

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._folder = rig.folders.server
        self._writing = threading.Lock()

    def load(self, key: str, owner_file: Path | None = None) -> LayeredLexicon:
        """What applies to the client with a key; `owner_file` takes the place of the owner's."""
        from anyrig.speech.lexicon import LayeredLexicon

        own, owner = self._find_file(key), owner_file or self._find_owner_file()
        files = [own if own is not None and own.exists() else None, owner]
        return LayeredLexicon(tuple(self._load(file) for file in files if file is not None))

    def read(self, client: Client) -> tuple[str, int]:
        """The text of the lexicon that a client may replace, and how many entries of it are valid.

        Empty if there is none, or if it is not TOML.
        """
        file = self._find_file(get_lexicon_key(client)) or self._find_owner_file()
        if file is None or file.suffix.lower() != ".toml" or not file.is_file():
            return "", 0
        text = file.read_bytes().decode("utf-8-sig", "replace")
        return text, len(self._load(file).entries)

    def save(self, client: Client, text: str) -> int:
        """Replace the lexicon of a client by a valid one; the number of its entries."""
        from anyrig.speech.lexicon import parse
        from anyrig.storage.files import write_atomic

        if len(text) > _MAX_CHARACTERS:
            raise LimitExceededError(
                f"the lexicon has {len(text):,} characters",
                hint=f"The limit is {_MAX_CHARACTERS:,}.",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                "the lexicon is not valid Unicode", hint="Remove lone surrogates."
            ) from None
        lexicon = parse(text, name="the lexicon")
        file = self._find_file(get_lexicon_key(client)) or self._folder / _OWNER_FILE
        with self._writing:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(file, text)
        return len(lexicon.entries)

    def _load(self, file: Path) -> Lexicon:
        lexicon, is_new = self._rig.lexicons.load(file, lenient=True)
        if is_new and lexicon.left_out:
            first, *more = lexicon.left_out
            others = f", and {len(more)} more" if more else ""
            ignored = "the rest is used" if lexicon.entries else "the file is ignored"
            self._rig.warn(
                f"{first}{others}; {ignored}. Correct the file, or replace it with PUT /lexicon or"
                " on the page."
            )
        return lexicon

    def _find_file(self, key: str) -> Path | None:
        """The file of a key; None for the owner."""
        is_id = _KEY_ID.fullmatch(key) is not None
        return self._folder / _CLIENT_FOLDER / f"{key}.toml" if is_id else None

    def _find_owner_file(self) -> Path | None:
        file = self._folder / _OWNER_FILE
        if file.exists():
            return file
        name = self._rig.settings.speech.lexicon
        return Path(name).expanduser() if name else None


def get_lexicon_key(client: Client) -> str:
    """The id of the key whose lexicon a client has; empty for those whose it is the owner's."""
    return "" if client.sees_all else client.key


def _get_state(path: Path) -> _FileState | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _FileState(found.st_ino, found.st_mtime_ns, found.st_size)


def _count(lexicon: Lexicon) -> int:
    return sum(_ENTRIES_PER_PATTERN if one.pattern else 1 for one in lexicon.entries)
