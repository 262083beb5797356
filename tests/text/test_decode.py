"""Bytes as text."""

from __future__ import annotations

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.decode import decode

WORDS = "Élise paid 3 € for the “naïve” café, señor. " * 8


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "iso8859_15"]
)
def test_text_is_read_in_the_encodings_people_have(encoding: str) -> None:
    words = WORDS.replace("“", '"').replace("”", '"') if "8859" in encoding else WORDS
    read = decode(words.encode(encoding), "a.txt")
    assert read.split()[:3] == words.split()[:3]
    assert len(read) == len(words)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04rest", "zip archive"),
        (b"%PDF-1.7", "PDF"),
        (bytes(range(256)) * 8, "text"),
        (b"\xff\xfea", "damaged"),
    ],
)
def test_what_is_no_text_is_refused_in_words(data: bytes, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as caught:
        decode(data, "a.bin")
    assert caught.value.hint


def test_nothing_is_the_empty_text() -> None:
    assert decode(b"", "a.txt") == ""


def test_a_few_damaged_bytes_do_not_cost_the_text() -> None:
    whole = "“Où est-elle?” – “Là-bas, près du café.” " * 100
    data = whole.encode()
    broken = data[:2000] + b"\xff\xfe\x81" + data[2000:]
    assert decode(broken, "a file").replace("\ufffd", "") == whole
    old = ("The café was closed. " + "It rained and rained. " * 400).encode("latin-1")
    assert "café" in decode(old, "a file")


def test_an_accent_far_behind_is_read_like_one_in_front() -> None:
    text = "It was a dark night, and nobody came to the door of the house. " * 5000
    text += "She sat in the café and waited for the others. " * 50
    assert decode(text.encode("cp1252"), "a.txt") == text


def test_a_text_cut_within_its_last_letter_is_read() -> None:
    text = "It was a dark night, and nobody came. " * 6000
    assert decode(text.encode() + b"\xe2\x82", "a.txt").startswith(text)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Le garçon était très fâché, où qu'il aille; il rêvait déjà d'une île.", "latin-1"),
        ("Françoise ate crème brûlée with Zoë. " + "It rained all day. " * 300, "latin-1"),
        ("Zoë and François met the naïve señor at a café.", "cp1252"),
        ("“Où est-elle?” – “Là-bas, près de l’église.”", "cp1252"),
        ("El niño comió mañana. ¿Dónde está la señora Ibáñez?", "latin-1"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy. Byl jednou jeden král a měl tři syny.", "cp1250"),
        ("Zażółć gęślą jaźń. Był sobie król, który miał trzech synów i jedną córkę.", "cp1250"),
        ("Жил-был старик со старухой, и была у них курочка ряба.", "cp1251"),
    ],
)
def test_old_encodings_are_told_apart(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), "a file") == text
