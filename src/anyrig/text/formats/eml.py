"""Messages (eml, mbox, msg): subject, who wrote to whom, what it says, what is attached.

A message says its text once: of a plain and a marked-up version the plain one is taken, unless it
is empty. What is attached is a file like any other and is handed on as bytes; attached messages
are taken apart here, down to a depth. A mailbox (mbox) is messages one after the other.
"""

from __future__ import annotations

import contextlib
import email
import email.policy
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.errors import MessageError
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anyrig.errors import AnyrigError, EmptyFileError, InvalidInputError
from anyrig.text.decode import check_charset, decode
from anyrig.text.document import Block, Chapter, Document, Metadata
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.ole import MAGIC
from anyrig.text.formats.plain import build_empty_error, read_content
from anyrig.text.labels import one_line

if TYPE_CHECKING:
    _Policy = email.policy.EmailPolicy[EmailMessage]
else:
    _Policy = email.policy.EmailPolicy

FORMATS = ("eml", "msg")
_SHOWN = (("from", "From"), ("to", "To"), ("cc", "Cc"), ("date", "Date"))
_MOST_LABEL = 2_000
_MOST_PARTS = 5_000
_LONGEST, _LONGEST_KIND = 20_000, 2_000  # characters of a header, and of one on the content
_BLANKS = re.compile(r"\n[ \t]*\n\s*")
_FROM = re.compile(rb"^From .*\r?\n(?=[!-9;-~]+:)", re.MULTILINE)
_MARK_UP = ("text/html", "application/xhtml+xml")
_NO_FILE = ("application/pgp-signature", "application/pkcs7-signature")
_CHARSET = re.compile(rb"""charset\s*=\s*["']?([\w.:-]{2,40})""", re.IGNORECASE)


@dataclass(frozen=True)
class Attachment:
    """A file that came with a message."""

    name: str
    data: bytes = field(repr=False)
    inside: bool = False
    """Whether it can be shown inside the text, as a logo is."""


@dataclass
class Email:
    """A message taken apart, with the files of those attached to it."""

    subject: str = ""
    blocks: list[Block] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    inner: list[Email] = field(default_factory=list)
    """Attached messages."""
    warnings: list[str] = field(default_factory=list)
    sender: str = ""
    year: str = ""


def read(path: Path, limits: Limits) -> Document:
    """A message or a mailbox as a document: a chapter for each message and each file with it."""
    found = read_messages(path, limits)
    num_attachments = sum(
        len(each.attachments) for message in found for each in iterate_thread(message)
    )
    chapters: list[Chapter] = []
    warnings: list[str] = []
    for message in found:
        for each in iterate_thread(message):
            chapters.append(Chapter(each.subject, tuple(each.blocks)))
            warnings += each.warnings
            _read_attachments(each, limits, num_attachments, chapters, warnings)
    if not any(block.text for chapter in chapters for block in chapter.blocks):
        raise build_empty_error(path.name)
    first = found[0]
    authors = (first.sender,) if first.sender else ()
    about = Metadata(title=first.subject, authors=authors, year=first.year)
    unique = tuple(dict.fromkeys(warnings))
    return Document(about, tuple(chapters), None, detect_format(path), unique)


def iterate_thread(message: Email) -> Iterator[Email]:
    """A message and all that are attached to it, in order."""
    yield message
    for inner in message.inner:
        yield from iterate_thread(inner)


def read_messages(path: Path, limits: Limits) -> list[Email]:
    """The messages of a file: one, or those of a mailbox."""
    counter = MessageCounter(limits)
    if detect_format(path) == "msg":
        from anyrig.text.formats import msg

        return [msg.read_message(path, counter)]
    data = read_content(path, limits)
    try:
        return [_message(one, path.name, counter, 0) for one in _parse(data)]
    except RecursionError:
        raise InvalidInputError(
            f"{path.name} nests messages without end", hint="Save the message you want by itself."
        ) from None


def save_attachment(attachment: Attachment, folder: Path) -> Path:
    """The file of an attachment, in a folder, under an ending that tells its kind."""
    path = folder / f"attachment{_find_ending(attachment)}"
    path.write_bytes(attachment.data)
    return path


def _find_ending(attachment: Attachment) -> str:
    """`.eml.gz` of a.eml.gz; empty if it has none that is safe in a path."""
    found = re.search(r"(?:\.[A-Za-z0-9]{1,11}){1,2}$", attachment.name)
    return found[0] if found else ""


def limit_attachment(format: str, limits: Limits, num_attachments: int) -> Limits:
    """The limits of an attachment that may hold others: one level deeper, and its share of those
    that are left.
    """
    if format not in (*FORMATS, "gz"):
        return limits
    if limits.depth <= 0:
        raise InvalidInputError("it is a message in too many others", hint="Save it by itself.")
    share = max(0, limits.attachments - num_attachments) // max(1, num_attachments)
    return replace(limits, depth=limits.depth - 1, attachments=share)


def describe_error(attachment: Attachment, error: AnyrigError) -> str:
    """Why an attachment was not read, by the name its sender gave it."""
    ending = re.escape(_find_ending(attachment))
    reason = re.sub(rf"\S*attachment(?:{ending})?", "it", error.message, count=1)
    return f"the attachment {attachment.name} was not read: {reason}"


class _Clipped(_Policy):
    """Headers of no more than a sensible length: the parser's time grows with its square."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[: _LONGEST_KIND if name.lower().startswith("content-") else _LONGEST]


class MessageCounter:
    """What all messages of one file may hold together."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._num_attachments = 0
        self._num_parts = 0

    @property
    def too_deep(self) -> str:
        return f"messages that are attached more than {self.limits.depth} deep are left out"

    def add_part(self, name: str) -> None:
        self._num_parts += 1
        if self._num_parts > _MOST_PARTS:
            raise InvalidInputError(
                f"{name} has more than {_MOST_PARTS:,} parts", hint="Save its messages one by one."
            )

    def add_attachment(
        self, email: Email, name: str, data: bytes, *, inside: bool, kind: str = ""
    ) -> None:
        self._num_attachments += 1
        most = self.limits.attachments
        if self._num_attachments > most:
            email.warnings.append(
                f"there are more than {most:,} attachments; the rest are left out"
                if most
                else "its attachments are left out: too many messages are attached to each other"
            )
            return
        name = name or f"part {self._num_attachments}" + (f" ({kind})" if kind else "")
        if data:
            email.attachments.append(Attachment(name, data, inside))
        else:
            email.warnings.append(f"the attachment {name} is empty or damaged")


def build_email(subject: str, rows: Mapping[str, str]) -> Email:
    """A message with its subject and what stands above its text.

    Args:
        subject: on one line.
        rows: what is shown of the header, such as `From`; an empty one is left out.
    """
    email = Email(subject, sender=rows.get("From", ""))
    year = re.search(r"\b(?:19|20)\d\d\b", rows.get("Date", ""))
    email.year = year[0] if year else ""
    if subject:
        email.blocks.append(Block(subject, "heading", 1))
    lines = [f"{label}: {value}" for label, value in rows.items() if value]
    if lines:
        email.blocks.append(Block("\n".join(lines), "table"))
    return email


def split_paragraphs(text: str) -> list[Block]:
    """The paragraphs of a plain message, whose lines stay."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return [Block(piece.strip("\n"), "poem") for piece in _BLANKS.split(text) if piece.strip()]


def read_html(source: str | bytes, name: str, limits: Limits) -> list[Block]:
    """What a message in HTML says."""
    from anyrig.text.formats import html
    from anyrig.text.formats.xml import parse_page

    if not source.strip():
        return []
    data = source.encode("utf-8", "replace") if isinstance(source, str) else source
    try:
        document = html.build_document(parse_page(data, name=name, limits=limits), name, "html")
    except EmptyFileError:
        return []
    return [block for chapter in document.chapters for block in chapter.blocks if block.text]


def detect_format(path: Path) -> str:
    """Which of `FORMATS` a message is."""
    with path.open("rb") as file:
        return "msg" if file.read(len(MAGIC)) == MAGIC else "eml"


def _parse(data: bytes) -> Iterator[EmailMessage]:
    starts = [found.start() for found in _FROM.finditer(data)] if data[:5] == b"From " else []
    if not starts:
        yield _of(data)
    for start, end in zip(starts, [*starts[1:], len(data)], strict=False):
        whole = data[start:end]
        yield _of(whole[whole.find(b"\n") + 1 :])


def _of(data: bytes) -> EmailMessage:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:3] == b"\xef\xbb\xbf":
        data = decode(data, "the message").lstrip("\ufeff").encode()
    return email.message_from_bytes(data.lstrip(b"\r\n"), policy=_Clipped())


def _message(part: EmailMessage, name: str, counter: MessageCounter, depth: int) -> Email:
    rows = {label: _header(part, key) for key, label in _SHOWN}
    email = build_email(_header(part, "subject"), rows)
    _walk(part, email, name, counter, depth)
    return email


def _header(part: EmailMessage, key: str) -> str:
    """A header with its encoded words read; empty where there is none or it makes no sense."""
    raw = next((value for name, value in part.raw_items() if name.lower() == key), "")
    if re.search("[\udc80-\udcff]", raw):  # bytes, against the rules
        return one_line(_as_any(raw.encode("utf-8", "surrogateescape")), _MOST_LABEL)
    try:
        value = str(part.get(key, ""))
    except Exception:  # noqa: BLE001 - the parser raises many kinds on headers made to break it
        return ""
    return one_line(value, _MOST_LABEL)


def _as_any(data: bytes) -> str:
    """Bytes of a line: too few to guess by, unless most are no ASCII."""
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode("utf-8")
    if 3 * sum(byte > 127 for byte in data) > len(data) > 20:
        with contextlib.suppress(InvalidInputError):
            return decode(data, "a header")
    return data.decode("cp1252", "replace")


def _walk(part: EmailMessage, made: Email, name: str, counter: MessageCounter, depth: int) -> None:
    """What a part holds, put where it belongs."""
    counter.add_part(name)
    kind = part.get_content_type()
    if kind == "message/rfc822" or (kind.startswith("message/") and part.is_multipart()):
        _inner(part, made, name, counter, depth)
    elif kind == "multipart/alternative":
        _walk_best(part, made, name, counter, depth)
    elif part.is_multipart():
        for each in part.iter_parts():
            _walk(cast(EmailMessage, each), made, name, counter, depth)
    elif _is_body(part, kind):
        made.blocks += _body(part, kind, name, counter.limits, made.warnings)
    elif kind not in _NO_FILE:
        _keep(part, made, counter)


def _is_body(part: EmailMessage, kind: str) -> bool:
    """Whether a part is read with the message, and is not a file that came with it."""
    if part.get_content_disposition() == "attachment" or _filename(part):
        return False
    return kind in ("text/plain", *_MARK_UP) or kind.startswith("text/enriched")


def _inner(part: EmailMessage, made: Email, name: str, counter: MessageCounter, depth: int) -> None:
    for each in part.get_payload():
        if not isinstance(each, EmailMessage):
            continue
        if depth >= counter.limits.depth:
            made.warnings.append(counter.too_deep)
            return
        made.inner.append(_message(each, name, counter, depth + 1))


def _walk_best(
    part: EmailMessage, made: Email, name: str, counter: MessageCounter, depth: int
) -> None:
    """Of versions that say the same: the plain one, if it says anything; else the richest.

    What is attached to any of them is kept: some programs put all files under the richest.
    """
    versions = [cast(EmailMessage, each) for each in part.iter_parts()]
    plain = [one for one in versions if one.get_content_type() == "text/plain"]
    others = [one for one in versions if one.get_content_type() != "text/plain"]
    shown: list[Block] = []
    for one in (*plain, *reversed(others)):
        version = Email()
        _walk(one, version, name, counter, depth)
        shown = shown or version.blocks
        made.attachments += version.attachments
        made.inner += version.inner
        made.warnings += version.warnings
    made.blocks += shown


def _body(
    part: EmailMessage, kind: str, name: str, limits: Limits, warnings: list[str]
) -> list[Block]:
    data = _payload(part)
    try:
        if kind in _MARK_UP:
            # The message says the encoding where the page does not.
            named = _CHARSET.search(data[:4096])
            return read_html(data if named else _text(data, part, name), name, limits)
        text = _text(data, part, name)
    except AnyrigError as error:
        warnings.append(f"a part of the message was not read: {error.message}")
        return []
    return split_paragraphs(text)


def _text(data: bytes, part: EmailMessage, name: str) -> str:
    """By the encoding that the part names, if it fits; else as any file."""
    try:
        text = data.decode(check_charset(part.get_content_charset() or "utf-8"))
    except (LookupError, UnicodeError, ValueError):
        text = decode(data, name) if data else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def _payload(part: EmailMessage) -> bytes:
    try:
        data = part.get_payload(decode=True)
    except (MessageError, ValueError, LookupError, TypeError):
        return b""
    return data if isinstance(data, bytes) else b""


def _filename(part: EmailMessage) -> str:
    try:
        return one_line(Path((part.get_filename() or "").replace("\\", "/")).name, 200)
    except Exception:  # noqa: BLE001 - as with headers
        return ""


def _keep(part: EmailMessage, made: Email, counter: MessageCounter) -> None:
    # A file with an id is what the text shows by it.
    counter.add_attachment(
        made, _filename(part), _payload(part),
        inside="content-id" in part, kind=part.get_content_type(),
    )  # fmt: skip


def _read_attachments(
    message: Email,
    limits: Limits,
    num_attachments: int,
    chapters: list[Chapter],
    warnings: list[str],
) -> None:
    """The files that came with a message, as chapters."""
    from anyrig.text import files

    for attachment in message.attachments:
        with tempfile.TemporaryDirectory() as folder:
            try:
                path = save_attachment(attachment, Path(folder))
                format = files.detect_format(path, limits=limits)
                within = limit_attachment(format, limits, num_attachments)
                document = files.read(path, limits=within)
            except AnyrigError as error:
                warnings.append(describe_error(attachment, error))
                continue
        warnings.extend(f"{attachment.name}: {warning}" for warning in document.warnings)
        for chapter in document.chapters:
            title = f"{attachment.name}: {chapter.title}" if chapter.title else attachment.name
            chapters.append(Chapter(title, chapter.blocks))
