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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.errors import MessageError
from email.message import EmailMessage
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anyrig.errors import AnyrigError, EmptyFileError, InvalidInputError, LimitExceededError
from anyrig.text.decode import check_charset, decode
from anyrig.text.document import Block, Chapter, Document, Metadata, Scan
from anyrig.text.formats import picture
from anyrig.text.formats.limits import Limits, OnPage
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
    return _MailReader(path, limits).read()


def read_pages(path: Path, limits: Limits, on_page: OnPage) -> Document:
    """The same with a page for each message, and the pages of what is attached."""
    return _MailReader(path, limits, on_page).read()


def render_pages(path: Path, numbers: Sequence[int], dpi: int, limits: Limits) -> Iterator[bytes]:
    """Pages of the attachments of a message; each run of one attachment's is drawn at once."""
    from anyrig.text import files

    reader = _MailReader(path, limits, lambda _page, _of: None)
    reader.read()
    for at, run in groupby(map(reader.find_place, numbers), key=lambda place: place.attachment):
        with tempfile.TemporaryDirectory() as folder:
            file = save_attachment(reader.attachments[at], Path(folder))
            within = limit_attachment(
                files.detect_format(file, limits=limits), limits, len(reader.attachments)
            )
            yield from files.render_pages(file, [place.number for place in run], dpi, within)


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

    def header_fetch_parse(self, name: str, value: str) -> str:
        return _parse_header(name, value)


@lru_cache(256)
def _parse_header(name: str, value: str) -> str:
    """A header as the standard library reads it; that parses it anew whenever it is asked for."""
    return cast(str, email.policy.default.header_fetch_parse(name, value))


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


# -- messages and their attachments as one document ------------------------------------------------

_SMALL_PIXELS = 60_000
"""A picture inside a message that is not a page: a logo, an icon."""


@dataclass(frozen=True)
class _PicturePlace:
    """Where the picture of a page lies: in which attachment, on which of its pages."""

    attachment: int
    number: int


class _MailReader:
    """The messages of a file, with those and the files that are attached to them.

    Args:
        path: of the file.
        limits: of all of it.
        on_page: called while pages are read; None for a book, in chapters without pages.
    """

    def __init__(self, path: Path, limits: Limits, on_page: OnPage | None = None) -> None:
        self._path, self._limits, self._on_page = path, limits, on_page
        tops = read_messages(path, limits)
        self._messages = [each for top in tops for each in iterate_thread(top)]
        self.attachments = [each for message in self._messages for each in message.attachments]
        self._chapters: list[Chapter] = []
        self._scans: list[Scan] = []
        self._warnings: list[str] = []
        self._places: list[_PicturePlace | None] = []
        """Of each page; None for that of a message."""

    def read(self) -> Document:
        at = 0
        for message in self._messages:
            self._places.append(None)
            blocks = message.blocks
            if self._on_page is not None:
                number = len(self._places)
                blocks = [replace(block, page=number) for block in blocks or [Block("")]]
            self._chapters.append(Chapter(message.subject, tuple(blocks)))
            self._warnings += message.warnings
            for attachment in message.attachments:
                self._add_attachment(attachment, at)
                at += 1
            self._check_page_count()
        has_text = any(block.text for chapter in self._chapters for block in chapter.blocks)
        if not (has_text or self._scans):
            raise build_empty_error(self._path.name)
        if len(self._places) == 1 and self._on_page is not None:
            bare = tuple(replace(block, page=0) for block in self._chapters[0].blocks)
            self._chapters = [replace(self._chapters[0], blocks=bare)]
        first = self._messages[0]
        authors = (first.sender,) if first.sender else ()
        return Document(
            Metadata(title=first.subject, authors=authors, year=first.year), tuple(self._chapters),
            format=detect_format(self._path), warnings=tuple(self._warnings),
            scans=tuple(self._scans),
        )  # fmt: skip

    def find_place(self, number: int) -> _PicturePlace:
        place = self._places[number - 1] if 1 <= number <= len(self._places) else None
        if place is None:
            raise InvalidInputError(
                f"{self._path.name} has no picture of page {number}", hint="Give another."
            )
        return place

    def _add_attachment(self, attachment: Attachment, at: int) -> None:
        document = self._read_attachment(attachment)
        if document is None:
            return
        name = attachment.name
        self._warnings += [f"{name}: {warning}" for warning in document.warnings]
        chapters = [
            replace(each, title=f"{name}: {each.title}" if each.title else name)
            for each in document.chapters
        ]
        if self._on_page is None:
            self._chapters += [Chapter(chapter.title, chapter.blocks) for chapter in chapters]
            return
        before = len(self._places)
        self._places += [_PicturePlace(at, part.page) for part in document.parts("page")]
        self._chapters += _number_pages(chapters, before, has_pages=document.has_pages)
        self._scans += [replace(scan, page=scan.page + before) for scan in document.scans]

    def _read_attachment(self, attachment: Attachment) -> Document | None:
        """None, and a warning, where it is not read."""
        from anyrig.text import files

        paged, limits = self._on_page is not None, self._limits
        with tempfile.TemporaryDirectory() as folder:
            try:
                path = save_attachment(attachment, Path(folder))
                format = files.detect_format(path, limits=limits)
                if paged and attachment.inside and _is_small(path, format, limits):
                    self._warnings.append(
                        "small pictures inside the message, as logos are, were left out"
                    )
                    return None
                within = limit_attachment(format, limits, len(self.attachments))
                return files.read(path, paged=paged, limits=within, on_page=self._on_page)
            except AnyrigError as error:
                self._warnings.append(describe_error(attachment, error))
                return None

    def _check_page_count(self) -> None:
        if len(self._places) > self._limits.pages:
            raise LimitExceededError(
                f"{self._path.name} has more than {self._limits.pages:,} pages with its"
                " attachments",
                hint="Save the attachments by themselves.",
                limit="pages",
            )


def _number_pages(
    chapters: Sequence[Chapter], before: int, *, has_pages: bool
) -> Iterator[Chapter]:
    """Chapters whose pages follow others; each chapter is a page where the file has none."""
    for chapter in chapters:
        kept = [block for block in chapter.blocks if block.kind != "page"]
        if not has_pages:
            if not any(block.text for block in kept):
                continue
            before += 1
        yield replace(
            chapter, blocks=tuple(replace(block, page=block.page + before) for block in kept)
        )


def _is_small(path: Path, format: str, limits: Limits) -> bool:
    if format not in picture.FORMATS:
        return False
    width, height = picture.read_size(path, format, limits)
    return width * height < _SMALL_PIXELS
