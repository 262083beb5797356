"""Messages of Outlook: text, people, files and attached messages, as those of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.files import detect_format, read
from tests.text.formats.office_binary import attachment, msg, ole, properties
from tests.text.formats.pdf_making import pdf
from tests.text.formats.test_pdf import leaf
from tests.text.page_reading import read_pages

SENT = 133_516_224_000_000_000  # 5 February 2024, 16:00 UTC


def _write(path: Path, streams: dict[str, bytes]) -> Path:
    path.write_bytes(ole(streams))
    return path


def test_a_message_says_what_who_and_when(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.msg", msg("The boats", "Dear Bo,\r\n\r\nin the port.", sent=SENT))
    document = read(path)
    assert (detect_format(path), document.format) == ("msg", "msg")
    head, about, *body = document.chapters[0].blocks
    assert (head.text, head.kind, document.metadata.year) == ("The boats", "heading", "2024")
    assert about.text.splitlines() == [
        "From: Ann Writer <ann@example.org>", "To: Bo Reader", "Date: Mon, 05 Feb 2024 16:00 UTC",
    ]  # fmt: skip
    assert [block.text for block in body] == ["Dear Bo,", "in the port."]


def test_one_that_is_html_alone_in_the_code_page_it_names(tmp_path: Path) -> None:
    streams = msg(
        "Häfen", "", more={"__substg1.0_10130102": "<p>für <b>alle</b></p>".encode("cp1252")}
    )
    streams["__properties_version1.0"] = properties({0x3FDE: 1252})
    assert "für alle" in read(_write(tmp_path / "a.msg", streams)).text


def test_files_and_messages_that_are_attached(tmp_path: Path) -> None:
    inner = msg(
        "Inner", "Words inside.", place="__attach_version1.0_#00000001/__substg1.0_3701000D/"
    )
    streams = msg("Outer", "See below.", more=attachment(0, "list.csv", b"a,b\n1,2\n")) | inner
    streams |= attachment(2, "report.pdf", pdf([leaf()]))
    path = _write(tmp_path / "a.msg", streams)
    text = read(path).text
    for words in ("See below.", "1\t2", "Inner", "Words inside.", "harbour lay still"):
        assert words in text
    pages = read_pages(path)
    assert pages.format == "msg"
    assert "harbour lay still" in pages.text


@pytest.mark.parametrize(
    ("stream", "message"),
    [("WordDocument", "an old Word file"), ("PowerPoint Document", "an old PowerPoint file")],
)
def test_other_files_of_office_are_named(tmp_path: Path, stream: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read(_write(tmp_path / "a.msg", {stream: b"x" * 5000}))


def test_a_locked_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProtectedFileError, match="encrypted with a password"):
        read(_write(tmp_path / "a.docx", {"EncryptedPackage": b"x" * 5000, "EncryptionInfo": b"x"}))
