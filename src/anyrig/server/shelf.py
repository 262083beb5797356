"""The user's indexes as routes see them: which there are, and which of their files are uploads."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.access import find_upload, get_index_name, get_shown_index, is_shared
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.server.errors import Problem
from anyrig.server.uploads import delete_unneeded_uploads

if TYPE_CHECKING:
    from anyrig.app.access import Client
    from anyrig.server.state import ServerState

_UPLOAD = re.compile(r"([0-9a-f]{32})(\.[a-z0-9]+)?")
_WORD = re.compile(r"upload:[0-9a-f]{32}")
_ENDING = ".sqlite"


class Shelf:
    """Indexes by name."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._folder = server.rig.folders.indexes

    def stored(self, client: Client, name: str, *, change: bool = False) -> str:
        """What an index that a client names is called on disk; a problem of 404 where it has none.

        Args:
            client: who asks.
            name: as the client calls it.
            change: whether it is to be changed: one that is only shared may not be.
        """
        if not ("/" in name or "\\" in name or "\0" in name):
            with contextlib.suppress(InvalidInputError):  # too long for a name
                if self._is_there(own := get_index_name(client, name)):
                    return own
            if not change and is_shared(self._server, client, name) and self._is_there(name):
                return name
        raise Problem(
            404, "there is no such index",
            hint="GET /documents/indexes lists them; a job of the kind index makes one.",
        )  # fmt: skip

    def shown(self, client: Client, stored: str) -> str | None:
        """What a client calls an index; None for one that it may not see."""
        name = get_shown_index(client, stored)
        if name is None and is_shared(self._server, client, stored):
            return stored
        return name

    def _is_there(self, name: str) -> bool:
        try:
            return (self._folder / f"{name}{_ENDING}").is_file()
        except (OSError, ValueError):
            return False

    # -- files -------------------------------------------------------------------------------------

    def upload(self, path: str) -> str:
        """The id of the upload that a path of an index is; nothing where it is none."""
        found = _UPLOAD.fullmatch(Path(path).name)
        return found[1] if found and self._is_ours(Path(path)) else ""

    def _is_ours(self, path: Path) -> bool:
        with contextlib.suppress(OSError, RuntimeError):
            return path.resolve().is_relative_to(self._server.data_folder.resolve())
        return False

    def name(self, row: dict[str, Any]) -> None:
        """Say of a row with a `file` what that is called; an upload by its id."""
        path = row["file"]
        row["name"] = Path(path).name
        if upload := self.upload(path):
            row["file"] = f"upload:{upload}"
            with contextlib.suppress(AnyrigError):
                row["name"] = self._server.uploads.get(upload).name
        for place in row.get("also", ()):
            self.name(place)

    def named(self, rows: Iterable[dict[str, Any]]) -> None:
        """The same of many: in a thread, as it looks at the disk."""
        for row in rows:
            self.name(row)

    def words(self, files: Iterable[str]) -> list[str]:
        """Files as a request names them, if they may be files of an index."""
        found = list(files)
        for word in found:
            whole = Path(word).is_absolute() or _WORD.fullmatch(word)
            if "\0" in word or not whole or not word.isprintable():
                raise InvalidInputError(
                    "a file of an index is named by upload:ID, or by its whole path",
                    hint="GET /documents/indexes/{name}/files lists them.",
                )
        return found

    def drop_uploads(
        self, client: Client, paths: Iterable[str], still: Iterable[str] = ()
    ) -> list[str]:
        """Delete a client's uploads among files that are no longer indexed; which they were.

        Args:
            client: who asks.
            paths: of the files.
            still: those of them that another index holds: they keep their names and stay.
        """
        stay = set(still)
        found = [self.upload(path) for path in paths if path not in stay]
        there = []
        for upload in filter(None, found):
            with contextlib.suppress(AnyrigError):
                there.append(find_upload(self._server, client, upload).id)
        return [f"upload:{one}" for one in delete_unneeded_uploads(self._server, there)]
