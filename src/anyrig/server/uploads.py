"""Forms that stream into the store of uploads, files as responses, and who needs an upload."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio
from anyio import to_thread
from fastapi import Request
from fastapi.responses import FileResponse, Response
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from anyrig.app.access import (
    UPLOAD_PREFIX,
    find_named_upload,
    find_upload,
    get_index_name,
    get_shown_index,
    is_shared,
    resolve_path,
)
from anyrig.app.index import find_stored_name
from anyrig.app.uploads import Upload, Uploads, UploadWriter
from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError
from anyrig.jobs import ACTIVE_STATES
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem

if TYPE_CHECKING:
    from anyrig.app.access import Client
    from anyrig.jobs import Job
    from anyrig.server.state import ServerState

# -- uploads that jobs need ------------------------------------------------------------------------
# A job could have its own link to each file instead. But deleting an upload means that it is gone,
# and an index remembers the paths of its files: so deleting is refused while a job needs the file,
# and whoever wants it gone cancels the job first.

JOB_UPLOADS = "uses"
"""Among a job's arguments: the ids of the uploads that it reads while it runs."""


def delete_upload(server: ServerState, client: Client, upload_id: str) -> Upload:
    """Delete an upload of a client; a 409 problem while an unfinished job needs it."""
    with server.uploads.job_lock:
        upload = find_upload(server, client, upload_id)
        job = _map_uploads_to_jobs(server).get(upload.id)
        if job is not None and not client.may_see(job.client):
            raise Problem(409, "an unfinished job needs this file", hint="Try again later.")
        if job is not None:
            raise Problem(
                409, f"a {job.kind} job that is {job.state} needs this file",
                hint=f"Wait for it, or cancel it: POST /jobs/{job.id}/cancel.", job=job.id,
            )  # fmt: skip
        return server.uploads.delete(upload.id)


def delete_unneeded_uploads(server: ServerState, upload_ids: Collection[str]) -> list[str]:
    """Delete those uploads that no unfinished job needs; which they were."""
    with server.uploads.job_lock:
        needed = _map_uploads_to_jobs(server) if upload_ids else {}
        deleted = [upload_id for upload_id in upload_ids if upload_id not in needed]
        for upload_id in deleted:
            server.uploads.delete(upload_id)
    return deleted


def _map_uploads_to_jobs(server: ServerState) -> dict[str, Job]:
    found: dict[str, Job] = {}
    for job in server.jobs.list(states=ACTIVE_STATES):
        upload_ids = job.arguments.get(JOB_UPLOADS)
        if isinstance(upload_ids, list):
            found |= {str(upload_id): job for upload_id in upload_ids}
    return found


# -- forms -----------------------------------------------------------------------------------------

MAX_FILES = 500
"""In one form."""
_MAX_PARTS = 1000
_FLUSH_BYTES = 1 << 20
_FORM_HINT = "Send multipart/form-data, as an HTML form or curl -F does."


@dataclass
class UploadForm:
    """A form with its files, which are stored."""

    files: list[Upload] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)

    def value(self, name: str, default: str = "") -> str:
        """The last value of a field."""
        return self.fields.get(name, [default])[-1]


async def receive_form(
    request: Request, uploads: Uploads, *, names: tuple[str, ...] = ("files", "file"),
    max_field_bytes: int = 1 << 20, max_files: int = MAX_FILES,
) -> UploadForm:  # fmt: skip
    """Read a form, streaming its files into the store; if anything is wrong, none is kept.

    starlette's own parser writes whole files of any size to other places first. Here the limits
    hold while the bytes come in.

    Args:
        request: whose body was not read yet.
        uploads: where the files go.
        names: of fields that may contain files.
        max_field_bytes: of all other fields.
        max_files: checked when a file begins, before any of them is written.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise Problem(415, "the request is not a multipart form", hint=_FORM_HINT)
    owner = get_client(request).key
    num_free = await to_thread.run_sync(uploads.count_free, owner)
    length = request.headers.get("content-length", "")
    num_bytes = int(length) if length.isdigit() else 0
    reader = _FormReader(uploads, names, max_field_bytes, owner, max_files, num_free, num_bytes)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        async for chunk in request.stream():
            parser.write(chunk)
            if reader.pending_bytes >= _FLUSH_BYTES:
                await to_thread.run_sync(reader.flush)
        parser.finalize()
        await to_thread.run_sync(reader.flush)
        if not reader.is_complete:
            raise InvalidInputError("the form is incomplete", hint=_FORM_HINT)
    except (FormParserError, ClientDisconnect) as error:
        await to_thread.run_sync(reader.undo)
        raise InvalidInputError("the form is not valid or incomplete", hint=_FORM_HINT) from error
    except BaseException:
        with anyio.CancelScope(shield=True):  # also if the client disconnects
            await to_thread.run_sync(reader.undo)
        raise
    return reader.form


class _FormReader:
    """Collects a parser's events on the event loop, and handles them in a thread."""

    def __init__(
        self, uploads: Uploads, names: tuple[str, ...], max_field_bytes: int, owner: str,
        max_files: int, num_free: int, request_bytes: int,
    ) -> None:  # fmt: skip
        self.form = UploadForm()
        self._request_bytes = request_bytes
        self.pending_bytes = 0
        self.is_complete = False
        self._uploads, self._names, self._owner = uploads, names, owner
        self._field_bytes_left = max_field_bytes
        self._max_files, self._num_free = max_files, num_free
        self._events: list[tuple[str, Any]] = []
        self._header = [b"", b""]
        self._disposition = b""
        self._num_parts = self._num_files = 0
        self._file: UploadWriter | None = None
        self._field: tuple[str, bytearray] | None = None

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._add_header(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._add_header(1, data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_data,
            "on_part_end": lambda: self._events.append(("end", None)),
            "on_end": self._complete,
        }

    def _complete(self) -> None:
        self.is_complete = True

    def _begin_part(self) -> None:
        self._num_parts += 1
        self._header, self._disposition = [b"", b""], b""
        if self._num_parts > _MAX_PARTS:
            raise LimitExceededError(
                f"the form has more than {_MAX_PARTS} parts", hint="Send fewer at once."
            )

    def _add_header(self, which: int, data: bytes) -> None:
        self._header[which] += data

    def _end_header(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = [b"", b""]

    def _end_headers(self) -> None:
        self._num_files += b"filename" in self._disposition.lower()
        if self._num_files > self._max_files:
            raise LimitExceededError(
                f"the form has more than {self._max_files} files", hint="Send fewer at once."
            )
        if self._num_files > self._num_free:
            raise self._uploads.too_many(self._owner)
        self._events.append(("begin", self._disposition))

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self.pending_bytes += end - start
        self._events.append(("data", data[start:end]))

    # -- in a thread -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Handle the events so far."""
        events, self._events, self.pending_bytes = self._events, [], 0
        for event, value in events:
            if event == "begin":
                self._open(value)
            elif event == "data":
                self._write(value)
            else:
                self._close()

    def undo(self) -> None:
        """Delete the files of the form."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        for upload in self.form.files:
            self._uploads.delete(upload.id)
        self.form.files.clear()

    def _open(self, disposition: bytes) -> None:
        _, options = parse_options_header(disposition)
        name = _decode(options.get(b"name", b""))
        if b"filename" not in options:
            self._field = (name, bytearray())
            return
        if name not in self._names:
            expected = self._names[0]
            raise InvalidInputError(
                f"files belong in the field {expected!r}", hint=f"curl -F {expected}=@book.epub"
            )
        self._file = self._uploads.receive(
            _decode(options[b"filename"]), self._owner, self._request_bytes
        )

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
        elif self._field is not None:
            self._field_bytes_left -= len(data)
            if self._field_bytes_left < 0:
                raise LimitExceededError(
                    "the fields of the form are too long", hint="Send a file instead."
                )
            self._field[1].extend(data)

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self.form.files.append(file.finish())
        elif self._field is not None:
            name, value = self._field
            self._field = None
            self.form.fields.setdefault(name, []).append(_decode(bytes(value)))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# -- files as responses ----------------------------------------------------------------------------

_MEDIA_TYPES: Mapping[str, str] = {
    ".m4b": "audio/mp4", ".m4a": "audio/mp4", ".mp3": "audio/mpeg", ".opus": "audio/ogg",
    ".ogg": "audio/ogg", ".flac": "audio/flac", ".wav": "audio/wav", ".aac": "audio/aac",
    ".srt": "application/x-subrip", ".vtt": "text/vtt; charset=utf-8",
    ".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8",
    ".json": "application/json", ".jsonl": "application/x-ndjson", ".m3u": "audio/x-mpegurl",
    ".m3u8": "application/vnd.apple.mpegurl", ".epub": "application/epub+zip",
    ".png": "image/png", ".jpg": "image/jpeg",
}  # fmt: skip
_RANGE = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII | re.IGNORECASE)


def guess_media_type(path: Path) -> str:
    return _MEDIA_TYPES.get(path.suffix.lower(), "application/octet-stream")


async def file_response(
    request: Request, path: Path, name: str, *, media_type: str = "", inline: bool = False
) -> Response:
    """A file, or the range of it that a request wants; 304 if the client has it already.

    starlette's `FileResponse` sends it, but answers invalid ranges in plain text.

    Args:
        request: its headers say what is wanted.
        path: of the file.
        name: to save it under.
        media_type: guessed from the suffix if empty.
        inline: whether a browser may show it; never for HTML or SVG, which have scripts.
    """
    try:
        found = await to_thread.run_sync(os.stat, path)
    except OSError as error:
        raise _gone() from error
    if not stat.S_ISREG(found.st_mode):
        raise _gone()
    etag = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
    headers = {
        "ETag": etag,
        "Content-Disposition": content_disposition(name, inline=inline),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
    }
    known = request.headers.get("if-none-match", "")
    if etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    condition = request.headers.get("if-range")
    wanted = request.headers.get("range") if condition in (None, etag) else None
    if not _is_valid_range(wanted, found.st_size):
        kept = [one for one in request.scope["headers"] if one[0] not in (b"range", b"if-range")]
        request.scope["headers"] = kept
    return FileResponse(
        path, headers=headers, media_type=media_type or guess_media_type(path), stat_result=found
    )


_VIEWED_TYPES: Mapping[str, str] = {
    ".pdf": "application/pdf", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
    ".gif": "image/gif", ".webp": "image/webp", ".avif": "image/avif", ".bmp": "image/bmp",
}  # fmt: skip
_TEXT_SUFFIXES = (".txt", ".md", ".csv", ".tsv", ".log", ".json", ".jsonl", ".srt", ".vtt", ".rst")


def is_viewable(suffix: str) -> bool:
    """Whether browsers show files with this suffix."""
    return suffix.lower() in (*_VIEWED_TYPES, *_TEXT_SUFFIXES)


async def view_response(request: Request, path: Path, name: str) -> Response:
    """A document that the browser shows if it can: a PDF, an image, plain text; or saves."""
    suffix = path.suffix.lower()
    media_type = _VIEWED_TYPES.get(suffix, "")
    if suffix in _TEXT_SUFFIXES:
        media_type = f"text/plain; charset={await to_thread.run_sync(_detect_charset, path)}"
    return await file_response(
        request, path, name, inline=bool(media_type),
        media_type=media_type or "application/octet-stream",
    )  # fmt: skip


def _detect_charset(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.read(1 << 16).decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data"
        return "utf-8" if is_cut else "windows-1252"
    except OSError as error:
        raise _gone() from error
    return "utf-8"


def content_disposition(name: str, *, inline: bool = False) -> str:
    """RFC 6266: the name in ASCII for old clients, and as it is for all others."""
    kind = "inline" if inline else "attachment"
    plain = re.sub(r"[^\w .,()+-]", "_", name.encode("ascii", "replace").decode(), flags=re.ASCII)
    if plain == name:
        return f'{kind}; filename="{name}"'
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _is_valid_range(header: str | None, size: int) -> bool:
    """Whether a header wants one range of the file; 416 if the file ends before it.

    An invalid header is ignored, and several ranges get the whole file, as RFC 9110 allows.
    """
    match = _RANGE.fullmatch(header) if header else None
    if match is None:
        return False
    first, last = match[1], match[2]
    if (not first and not last) or (first and last and int(last) < int(first)):
        return False
    if (first and int(first) >= size) or (not first and int(last) == 0):
        raise Problem(
            416, "range not satisfiable", hint=f"The file has {size} bytes.",
            headers={"Content-Range": f"bytes */{size}"},
        )  # fmt: skip
    return True


def _gone() -> Problem:
    return Problem(404, "the file is gone", hint="Make it again.")


# -- uploads in indexes ----------------------------------------------------------------------------

_UPLOAD_FILE = re.compile(r"([0-9a-f]{32})(\.[a-z0-9]+)?")
_REFERENCE = re.compile(r"upload:[0-9a-f]{32}")


class IndexFiles:
    """The indexes that a client may use, and which of their files are uploads."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._folder = server.rig.folders.indexes

    def find_index(self, client: Client, name: str, *, change: bool = False) -> str:
        """The name of an index on disk; a 404 problem if the client has none of that name.

        Args:
            client: who is calling.
            name: the client's name for it.
            change: whether it is to be changed, which needs more than a shared one.
        """
        if not ("/" in name or "\\" in name or "\0" in name):
            with contextlib.suppress(InvalidInputError):  # too long
                if own := find_stored_name(self._server.rig, get_index_name(client, name)):
                    return own
            stored = None if change else find_stored_name(self._server.rig, name)
            if stored is not None and is_shared(self._server, client, stored):
                return stored
        raise Problem(
            404, "index not found",
            hint="GET /documents/indexes lists them; a job of the kind index makes one.",
        )  # fmt: skip

    def show_name(self, client: Client, stored: str) -> str | None:
        """The client's name for an index; None if it may not see it."""
        name = get_shown_index(client, stored)
        if name is None and is_shared(self._server, client, stored):
            return stored
        return name

    def find_upload_id(self, path: str) -> str:
        """The id of the upload that a path in an index is; empty if it is another file."""
        found = _UPLOAD_FILE.fullmatch(Path(path).name)
        return found[1] if found and self._is_ours(Path(path)) else ""

    def _is_ours(self, path: Path) -> bool:
        with contextlib.suppress(OSError, RuntimeError):
            return path.resolve().is_relative_to(self._server.data_folder.resolve())
        return False

    def add_names(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add `name` to rows that have a `file`, and name uploads by their ids. Reads the disk."""
        for row in rows:
            path = row["file"]
            row["name"] = Path(path).name
            if upload_id := self.find_upload_id(path):
                row["file"] = f"upload:{upload_id}"
                with contextlib.suppress(AnyrigError):
                    row["name"] = self._server.uploads.get(upload_id).name
            self.add_names(row.get("also", ()))

    def check_names(self, files: Iterable[str]) -> list[str]:
        """Check that files are named as an index may contain them."""
        found = list(files)
        for name in found:
            is_whole = Path(name).is_absolute() or _REFERENCE.fullmatch(name)
            if "\0" in name or not is_whole or not name.isprintable():
                raise InvalidInputError(
                    "files of an index are named as upload:ID or by an absolute path",
                    hint="GET /documents/indexes/{name}/files lists them.",
                )
        return found

    def find_file(self, client: Client, stored: str, file: str) -> tuple[Path, str]:
        """The path and the name of a file of an index; a 404 problem if it is not in it.

        Args:
            client: who is calling.
            stored: the name of the index on disk.
            file: `upload:ID`, or a path in a folder that `server.folders` allows: an index made on
                the command line may contain files of any folder.
        """
        from anyrig.app.index import list_files

        (file,) = self.check_names([file])
        if file.startswith(UPLOAD_PREFIX):
            upload = find_named_upload(self._server, client, file)
            path, name = self._server.uploads.path(upload.id), upload.name
        else:
            resolve_path(self._server, client, file, "folders")
            path, name = Path(file), Path(file).name
        if path not in {one for one, _ in list_files(self._server.rig, stored)}:
            raise Problem(404, "the file is not in this index",
                          hint="GET /documents/indexes/{name}/files lists them.")  # fmt: skip
        return path, name

    def add_urls(self, client: Client, index: str, rows: Iterable[dict[str, Any]]) -> None:
        """Add `url` to rows that have a `file`: where a client opens it; None if it may not."""
        for row in rows:
            file, may_open = str(row["file"]), False
            with contextlib.suppress(AnyrigError):
                if file.startswith(UPLOAD_PREFIX):
                    find_named_upload(self._server, client, file)
                else:
                    resolve_path(self._server, client, file, "folders")
                may_open = True
            row["url"] = self.build_url(index, file) if may_open else None

    @staticmethod
    def build_url(index: str, file: str) -> str:
        """Where a file of an index is opened, if that is allowed."""
        return f"/documents/indexes/{quote(index, safe='')}/content?file={quote(file)}"

    def delete_uploads(
        self, client: Client, paths: Iterable[str], still_indexed: Iterable[str] = ()
    ) -> list[str]:
        """Delete a client's uploads among files that were removed from an index; which they were.

        Args:
            client: who is calling.
            paths: of the files.
            still_indexed: those of them that another index has, which stay.
        """
        keep = set(still_indexed)
        removed = [self.find_upload_id(path) for path in paths if path not in keep]
        found = []
        for upload_id in filter(None, removed):
            with contextlib.suppress(AnyrigError):
                found.append(find_upload(self._server, client, upload_id).id)
        return [f"upload:{one}" for one in delete_unneeded_uploads(self._server, found)]
