"""What a book says of itself, under the names that encoders take."""

from __future__ import annotations

import pytest

from anyrig.audiobooks.tags import Tags, named, shortened, three_letters
from anyrig.speech.sound.labels import NAMES


def test_a_book_and_its_chapters() -> None:
    book = Tags(title="Emma", author="Jane Austen", narrator="Hibari", year="1815", language="en")
    assert named(book) == {
        "title": "Emma", "artist": "Jane Austen", "album_artist": "Jane Austen", "album": "Emma",
        "composer": "Hibari", "genre": "Audiobook", "date": "1815", "language": "eng",
        "media_type": "2",
    }  # fmt: skip
    chapter = named(book.of_chapter("Volume I", 1, 55))
    assert (chapter["title"], chapter["album"], chapter["track"]) == ("Volume I", "Emma", "1/55")


def test_every_name_is_one_that_encoders_take() -> None:
    full = Tags("t", "a", "n", "s", "2.5", "1900", "fr-CA", "d", "p", track=1, num_tracks=2)
    made = named(full)
    assert set(made) == set(NAMES)
    assert (made["grouping"], made["series_part"]) == ("s #2.5", "2.5")
    assert "series_part" not in named(Tags("t", series_index="3"))


@pytest.mark.parametrize(
    ("written", "code"),
    [("en", "eng"), ("de-AT", "deu"), ("pt_BR", "por"), ("ENG", "eng"), ("zh-Hant", "zho"),
     ("", ""), ("xx", ""), ("english", ""), ("né", "")],
)  # fmt: skip
def test_languages_have_three_letters(written: str, code: str) -> None:
    assert three_letters(written) == code


def test_texts_are_cut_between_words() -> None:
    assert shortened("one two three", 20) == "one two three"
    assert shortened("one two three four", 15) == "one two three…"
    assert shortened("x" * 50, 10) == "x" * 9 + "…"
    cut = shortened("書" * 200, 120, num_bytes=250)
    assert len(cut.encode()) <= 250
    assert cut.endswith("書…")
