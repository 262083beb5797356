"""Messages as Outlook saves them (.msg), taken apart as `eml.py` does those of all others."""

from __future__ import annotations

import datetime
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.text.decode import decode
from anyrig.text.formats.eml import Email, MessageCounter, build_email, read_html, split_paragraphs
from anyrig.text.labels import one_line

if TYPE_CHECKING:
    from olefile import OleFileIO

_SUBJECT, _BODY, _HTML = 0x0037, 0x1000, 0x1013
_SENDER, _SENDER_ADDRESS, _SENDER_SMTP = 0x0C1A, 0x0C1F, 0x5D01
_TO, _CC, _SUBMITTED, _DELIVERED = 0x0E04, 0x0E03, 0x0039, 0x0E06
_CODE_PAGE, _HTML_CODE_PAGE = 0x3FFD, 0x3FDE
_DATA, _LONG_NAME, _SHORT_NAME, _CONTENT_ID = 0x3701, 0x3707, 0x3704, 0x3712
_BINARY, _EMBEDDED = 0x0102, 0x000D
_UNICODE, _ANSI = 0x001F, 0x001E
_TOP_HEADER, _EMBEDDED_HEADER, _ATTACHMENT_HEADER = 32, 24, 8
_UTF8_PAGE = 65001
_EPOCH = datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)


def read_message(path: Path, counter: MessageCounter) -> Email:
    """The message of a file, with those that are attached to it."""
    import olefile

    try:
        with olefile.OleFileIO(path) as file:
            return _MsgReader(file, path.name, counter).read((), 0)
    except (OSError, struct.error, IndexError, TypeError) as error:
        raise InvalidInputError(
            f"{path.name} is damaged ({error})", hint="Save the message again from Outlook."
        ) from error


class _MsgReader:
    def __init__(self, file: OleFileIO, name: str, counter: MessageCounter) -> None:
        self._file, self._name, self._counter = file, name, counter

    def read(self, place: tuple[str, ...], depth: int) -> Email:
        self._counter.add_part(self._name)
        header = _EMBEDDED_HEADER if place else _TOP_HEADER
        numbers = self._read_numbers(place, header)
        page = int.from_bytes(numbers.get(_CODE_PAGE, b"")[:4], "little")
        address = self._text(place, _SENDER_SMTP, page) or self._text(place, _SENDER_ADDRESS, page)
        sender = self._text(place, _SENDER, page)
        if "@" in address and address not in sender:
            sender = f"{sender} <{address}>".strip()
        sent = _parse_time(numbers.get(_SUBMITTED) or numbers.get(_DELIVERED) or b"")
        email = build_email(
            self._text(place, _SUBJECT, page),
            {
                "From": sender,
                "To": self._text(place, _TO, page),
                "Cc": self._text(place, _CC, page),
                "Date": f"{sent:%a, %d %b %Y %H:%M} UTC" if sent else "",
            },
        )
        self._add_body(place, email, page, numbers)
        self._add_attachments(place, email, depth)
        return email

    def _add_body(
        self, place: tuple[str, ...], email: Email, page: int, numbers: dict[int, bytes]
    ) -> None:
        text = self._text(place, _BODY, page, lines=True)
        if text.strip():
            email.blocks += split_paragraphs(text)
            return
        data = self._stream(place, _HTML, _BINARY) or b""
        html_page = int.from_bytes(numbers.get(_HTML_CODE_PAGE, b"")[:4], "little") or page
        try:
            written = _decode(data, html_page, self._name) if data else ""
            written = written or self._text(place, _HTML, page, lines=True)
            email.blocks += read_html(written, self._name, self._counter.limits)
        except AnyrigError as error:
            email.warnings.append(f"the message was not read: {error.message}")

    def _add_attachments(self, place: tuple[str, ...], email: Email, depth: int) -> None:
        folders = {
            entry[len(place)]
            for entry in self._file.listdir(streams=True, storages=True)
            if len(entry) > len(place)
            and tuple(entry[: len(place)]) == place
            and entry[len(place)].startswith("__attach_version1.0_")
        }
        for folder in sorted(folders):
            inside = (*place, folder)
            embedded = (*inside, _stream_name(_DATA, _EMBEDDED))
            if self._file.exists("/".join((*embedded, "__properties_version1.0"))):
                if depth >= self._counter.limits.depth:
                    email.warnings.append(self._counter.too_deep)
                else:
                    email.inner.append(self.read(embedded, depth + 1))
                continue
            name = self._text(inside, _LONG_NAME, 0) or self._text(inside, _SHORT_NAME, 0)
            name = one_line(Path(name.replace("\\", "/")).name, 200)
            data = self._stream(inside, _DATA, _BINARY) or b""
            shown = bool(self._text(inside, _CONTENT_ID, 0))
            self._counter.add_attachment(email, name, data, inside=shown)

    def _read_numbers(self, place: tuple[str, ...], header: int) -> dict[int, bytes]:
        """The values of properties that have a fixed length."""
        name = "/".join((*place, "__properties_version1.0"))
        data = self._file.openstream(name).read() if self._file.exists(name) else b""
        return {
            struct.unpack_from("<H", data, at + 2)[0]: data[at + 8 : at + 16]
            for at in range(header, len(data) - 15, 16)
        }

    def _stream(self, place: tuple[str, ...], identifier: int, kind: int) -> bytes | None:
        name = "/".join((*place, _stream_name(identifier, kind)))
        if not self._file.exists(name):
            return None
        data: bytes = self._file.openstream(name).read()
        return data

    def _text(
        self, place: tuple[str, ...], identifier: int, page: int, *, lines: bool = False
    ) -> str:
        data = self._stream(place, identifier, _UNICODE)
        if data is not None:
            text = data.decode("utf-16-le", "replace")
        else:
            data = self._stream(place, identifier, _ANSI)
            text = _decode(data, page, self._name) if data else ""
        text = text.replace("\x00", "")
        return text if lines else " ".join(text.split())


def _stream_name(identifier: int, kind: int) -> str:
    return f"__substg1.0_{identifier:04X}{kind:04X}"


def _decode(data: bytes, page: int, name: str) -> str:
    try:
        return data.decode("utf-8" if page in (0, _UTF8_PAGE) else f"cp{page}")
    except (LookupError, UnicodeError):
        return decode(data, name)


def _parse_time(data: bytes) -> datetime.datetime | None:
    """Tenths of microseconds since 1601."""
    ticks = int.from_bytes(data, "little")
    try:
        return _EPOCH + datetime.timedelta(microseconds=ticks // 10) if ticks else None
    except OverflowError:
        return None
