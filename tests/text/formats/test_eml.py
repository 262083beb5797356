"""Messages: headers, the one text of several versions, attachments; nothing nests for ever."""

from __future__ import annotations

import base64
from email.message import EmailMessage
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.files import detect_format, read
from anyrig.text.formats.limits import Limits
from tests.text.formats.pdf_making import pdf
from tests.text.formats.test_pdf import leaf


def message(text: str = "Dear Bo,\n\nthe boats are in.\n\nAnn", **headers: str) -> EmailMessage:
    made = EmailMessage()
    made["Subject"] = headers.get("subject", "The boats")
    made["From"] = headers.get("sender", "Ann Writer <ann@example.org>")
    made["To"] = "bo@example.org"
    made["Date"] = "Mon, 05 Feb 2024 10:00:00 +0100"
    made.set_content(text)
    return made


def _read(path: Path, data: bytes | EmailMessage) -> Document:
    path.write_bytes(bytes(data))
    return read(path)


def _text(document: Document) -> str:
    return "\n".join(block.text for chapter in document.chapters for block in chapter.blocks)


def test_a_message_says_what_who_and_when(tmp_path: Path) -> None:
    document = _read(tmp_path / "a.eml", message())
    head, about, *body = document.chapters[0].blocks
    assert (head.text, head.kind, document.metadata.title) == ("The boats", "heading", "The boats")
    assert about.text.splitlines() == [
        "From: Ann Writer <ann@example.org>", "To: bo@example.org",
        "Date: Mon, 05 Feb 2024 10:00:00 +0100",
    ]  # fmt: skip
    assert [block.text for block in body] == ["Dear Bo,", "the boats are in.", "Ann"]
    assert document.metadata.year == "2024"


def test_of_two_versions_the_plain_one_is_taken_once(tmp_path: Path) -> None:
    both = message("Plain words.")
    both.add_alternative("<p>Marked <b>words</b>.</p>", subtype="html")
    assert "Plain words." in _text(_read(tmp_path / "a.eml", both))
    assert "Marked" not in _text(read(tmp_path / "a.eml"))
    bare = message("  \n")
    bare.add_alternative("<p>Marked <b>words</b>.</p><script>x()</script>", subtype="html")
    said = _text(_read(tmp_path / "b.eml", bare))
    assert "Marked words." in said
    assert "x()" not in said


@pytest.mark.parametrize(
    ("charset", "words", "way"),
    [
        ("utf-8", "Ça coûte 5 €", "quoted-printable"),
        ("utf-16", "Él comió piñón", "base64"),
        ("iso-2022-jp", "田中さん、こんにちは", "quoted-printable"),
    ],
)
def test_encodings_of_texts_and_headers(tmp_path: Path, charset: str, words: str, way: str) -> None:
    import quopri

    raw = words.encode(charset)
    coded = base64.encodebytes(raw) if way == "base64" else quopri.encodestring(raw)
    subject = base64.b64encode(words.encode(charset)).decode()
    data = (
        f"Subject: =?{charset}?B?{subject}?=\nFrom: a@example.org\nMIME-Version: 1.0\n"
        f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {way}\n\n"
    ).encode() + coded
    document = _read(tmp_path / "a.eml", data)
    assert document.metadata.title == words
    assert document.chapters[0].blocks[-1].text == words


@pytest.mark.parametrize("said", ["; charset=no-such-thing", "; charset=us-ascii"])
def test_bytes_that_no_charset_explains_are_read_as_any_file(tmp_path: Path, said: str) -> None:
    head = f"Subject: Été\nFrom: a@b.c\nContent-Type: text/plain{said}\n"
    body = "L'été dernier, René était à Besançon avec sa mère."
    data = head.encode("latin-1") + b"Content-Transfer-Encoding: 8bit\n\n" + body.encode("latin-1")
    document = _read(tmp_path / "a.eml", data)
    assert document.chapters[0].blocks[-1].text == body
    assert document.metadata.title == "Été"


def test_attachments_are_read_by_what_they_are(tmp_path: Path) -> None:
    made = message()
    made.add_attachment(pdf([leaf()]), maintype="application", subtype="pdf", filename="net.pdf")
    made.add_attachment("a,b\n1,2\n", subtype="csv", filename="t.csv")
    made.add_attachment(b"\x7fELF" + bytes(99), maintype="application", subtype="x", filename="p")
    made.add_attachment(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png", filename="é.png")
    document = _read(tmp_path / "a.eml", made)
    assert [chapter.title for chapter in document.chapters] == ["The boats", "net.pdf", "t.csv"]
    assert "harbour lay still" in document.chapters[1].blocks[0].text
    assert document.warnings == (
        "the attachment p was not read: it is a program, not text",
        "the attachment é.png was not read: it is an image, not text",
    )


def test_attached_messages_are_taken_apart_to_a_depth(tmp_path: Path) -> None:
    made = message("the innermost", subject="level 0")
    for level in range(1, 12):
        outer = message(f"of level {level}", subject=f"level {level}")
        outer.add_attachment(made)
        made = outer
    (tmp_path / "a.eml").write_bytes(bytes(made))
    document = read(tmp_path / "a.eml", limits=Limits(depth=3))
    assert [c.title for c in document.chapters] == [f"level {n}" for n in (11, 10, 9, 8)]
    assert any("more than 3 deep" in said for said in document.warnings)


@pytest.mark.parametrize("depth", [60, 5_000])
def test_endless_nesting_is_one_error_or_a_warning(tmp_path: Path, depth: int) -> None:
    rows = [
        f"Subject: {n}\nContent-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n"
        "Content-Type: message/rfc822\n\n"
        for n in range(depth)
    ]
    (tmp_path / "a.eml").write_text("".join(rows) + "Subject: end\n\nwords\n")
    try:
        assert read(tmp_path / "a.eml").warnings
    except InvalidInputError as error:
        assert "nest" in error.message  # noqa: PT017 - either is right, by the depth of the stack


def test_parts_and_attachments_without_end_are_bounded(tmp_path: Path) -> None:
    made = message()
    for number in range(20):
        made.add_attachment(f"text {number}", filename=f"{number}.txt")
    (tmp_path / "a.eml").write_bytes(bytes(made))
    document = read(tmp_path / "a.eml", limits=Limits(attachments=5))
    assert len(document.chapters) == 6
    assert any("more than 5 attachments" in said for said in document.warnings)
    many = "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nx\n" * 6_000
    (tmp_path / "b.eml").write_text(many)
    with pytest.raises(InvalidInputError, match="more than 5,000 parts"):
        read(tmp_path / "b.eml")


def test_a_mailbox_is_its_messages(tmp_path: Path) -> None:
    one, two = bytes(message(subject="one")), bytes(message("From here on", subject="two"))
    date = b"From ann@example.org Mon Feb  5 10:00:00 2024\n"
    for name in ("box.mbox", "Inbox"):
        (tmp_path / name).write_bytes(date + one + b"\n" + date + two)
        assert detect_format(tmp_path / name) == "eml"
        assert [c.title for c in read(tmp_path / name).chapters] == ["one", "two"]


@pytest.mark.parametrize(
    "head",
    [
        b"Subject: =?utf-8?B?!!!!?=\n",
        b"From: " + b"<" * 3000 + b"\n",
        b"To: " + b"a@b.c, " * 3000 + b"\n",
        b'Content-Type: text/plain; charset="\x00\xff"\n',
        b"Content-Type: " + b"x;" * 5000 + b"\n",
        b"Content-Disposition: inline; filename*=utf-9''%ff%fe\n",
        b"Date: not a date\n",
        b"Subject: \x1b[2J\xe2\x80\xaeevil\n",
    ],
)
def test_headers_made_to_break_a_reader(tmp_path: Path, head: bytes) -> None:
    document = _read(tmp_path / "a.eml", b"X-Y: z\nSubject: s\n" + head + b"\nwords of it\n")
    assert "\x1b" not in document.metadata.title


@pytest.mark.parametrize("data", [b"\n\n\n", b"X: y\n\n", b"\x00" * 100])
def test_a_message_of_nothing_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        _read(tmp_path / "a.eml", data)


def test_notes_that_begin_like_a_header_are_text(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("Subject: boats\nThey came in.\n")
    assert detect_format(tmp_path / "notes") == "txt"
    (tmp_path / "mail").write_bytes(bytes(message()))
    assert detect_format(tmp_path / "mail") == "eml"
