"""Forms with files, read as they come: each file goes straight to its place among the uploads.

The framework's own form reader keeps whole files in its own places first, of any size. Here limits
hold while bytes come in, and whatever breaks off leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem
from anyrig.server.uploads import Upload, Uploads, UploadWriter

_MOST_PARTS = 1000
MAX_FILES = 500
"""In one form."""
_FLUSH_BYTES = 1 << 20
_HINT = "Send multipart/form-data, as a browser's form or curl's -F does."


@dataclass
class Form:
    """What was sent."""

    files: list[Upload] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)

    def value(self, name: str, default: str = "") -> str:
        """The last value of a field."""
        return self.fields.get(name, [default])[-1]


async def received(
    request: Request, uploads: Uploads, *, names: tuple[str, ...] = ("files", "file"),
    most_field_bytes: int = 1 << 20, most_files: int = MAX_FILES,
) -> Form:  # fmt: skip
    """The form of a request; its files are kept. Where anything is wrong none of them is.

    Args:
        request: whose body nobody has read.
        uploads: where the files go.
        names: fields that may hold files.
        most_field_bytes: of all fields that are no files.
        most_files: refused as soon as one more begins, before any of them is written.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise Problem(415, "that is no form with files", hint=_HINT)
    reader = _Reader(uploads, names, most_field_bytes, get_client(request).key)
    reader.most_files, reader.room = most_files, await anyio.to_thread.run_sync(uploads.room)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        async for chunk in request.stream():
            parser.write(chunk)
            if reader.waiting_bytes >= _FLUSH_BYTES:
                await anyio.to_thread.run_sync(reader.work)
        parser.finalize()
        await anyio.to_thread.run_sync(reader.work)
        if not reader.ended:
            raise InvalidInputError("the form broke off", hint=_HINT)
    except (FormParserError, ClientDisconnect) as error:
        await _undone(reader)
        raise InvalidInputError("the form cannot be read, or broke off", hint=_HINT) from error
    except BaseException:
        with anyio.CancelScope(shield=True):  # a client who has gone leaves nothing behind
            await _undone(reader)
        raise
    return reader.form


async def _undone(reader: _Reader) -> None:
    await anyio.to_thread.run_sync(reader.undo)


class _Reader:
    """Takes a parser's events on the loop, and works them off in a thread."""

    def __init__(
        self, uploads: Uploads, names: tuple[str, ...], most_field_bytes: int, owner: str
    ) -> None:
        self.form = Form()
        self.waiting_bytes = 0
        self.ended = False
        self._uploads, self._names, self._left_bytes = uploads, names, most_field_bytes
        self._owner = owner
        self._events: list[tuple[str, Any]] = []
        self._header = [b"", b""]
        self._disposition = b""
        self._num_parts = self._num_files = 0
        self.most_files = self.room = MAX_FILES
        self._file: UploadWriter | None = None
        self._field: tuple[str, bytearray] | None = None

    def callbacks(self) -> Any:
        """For the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._add(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._add(1, data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._head,
            "on_part_data": self._data,
            "on_part_end": lambda: self._events.append(("end", None)),
            "on_end": self._end,
        }

    def _end(self) -> None:
        self.ended = True

    def _begin(self) -> None:
        self._num_parts += 1
        self._header, self._disposition = [b"", b""], b""
        if self._num_parts > _MOST_PARTS:
            raise LimitExceededError(
                f"a form of over {_MOST_PARTS} parts", hint="Send fewer at once."
            )

    def _head(self) -> None:
        self._num_files += b"filename" in self._disposition.lower()
        if self._num_files > self.most_files:
            raise LimitExceededError(
                f"a form of over {self.most_files} files", hint="Send fewer at once."
            )
        if self._num_files > self.room:
            raise self._uploads.full()
        self._events.append(("head", self._disposition))

    def _add(self, which: int, data: bytes) -> None:
        self._header[which] += data

    def _header_end(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = [b"", b""]

    def _data(self, data: bytes, start: int, end: int) -> None:
        self.waiting_bytes += end - start
        self._events.append(("data", data[start:end]))

    # -- in a thread -------------------------------------------------------------------------------

    def work(self) -> None:
        """Do what came in."""
        events, self._events, self.waiting_bytes = self._events, [], 0
        for what, value in events:
            if what == "head":
                self._open(value)
            elif what == "data":
                self._write(value)
            else:
                self._close()

    def undo(self) -> None:
        """Remove whatever was kept."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        for upload in self.form.files:
            self._uploads.delete(upload.id)
        self.form.files.clear()

    def _open(self, disposition: bytes) -> None:
        _, options = parse_options_header(disposition)
        name = _text(options.get(b"name", b""))
        if b"filename" not in options:
            self._field = (name, bytearray())
            return
        if name not in self._names:
            wanted = self._names[0]
            raise InvalidInputError(
                f"files are sent in the field {wanted}", hint=f"curl -F {wanted}=@book.epub"
            )
        self._file = self._uploads.receive(_text(options[b"filename"]), self._owner)

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
        elif self._field is not None:
            self._left_bytes -= len(data)
            if self._left_bytes < 0:
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
            self.form.fields.setdefault(name, []).append(_text(bytes(value)))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
