"""Front and back matter: told at the ends of a book, and only there."""

from __future__ import annotations

import pytest

from anyrig.text.document import Block, Chapter, Document, Metadata, Role
from anyrig.text.matter import apply_matter

_PROSE = "He walked along the road for a long time and thought of nothing at all. " * 40
_IMPRINT = "Copyright © 2019 by Jane Roe. All rights reserved. ISBN 978-3-16-148410-0."


def _chapter(title: str, *texts: str, role: Role = "body") -> Chapter:
    blocks = (Block(title, "heading", level=1),) if title else ()
    return Chapter(title, (*blocks, *(Block(text) for text in texts or (_PROSE,))), role=role)


def _book(*chapters: Chapter, title: str = "The Road", author: str = "Jane Roe") -> Document:
    return Document(Metadata(title=title, authors=(author,)), chapters, format="epub")


def _roles(*chapters: Chapter) -> list[Role]:
    return [chapter.role for chapter in apply_matter(_book(*chapters)).chapters]


_STORY = tuple(_chapter(name) for name in ("One", "Two", "Three", "Four", "Five", "Six"))


# Title, role before the story, role behind it; a word that is nothing special is body in both.
_TABLE: list[tuple[str, Role, Role]] = [
    ("Cover", "cover", "cover"),
    ("Title Page", "title", "body"),
    ("Contents", "contents", "contents"),
    ("Copyright", "front", "back"),
    ("Praise for The Road", "front", "back"),
    ("Also by Jane Roe", "front", "back"),
    ("Acknowledgements", "front", "back"),
    ("About the Author", "front", "back"),
    ("Index", "front", "back"),
    ("Appendix D: Function and Variable Index", "front", "back"),
    ("8. References", "front", "back"),
    ("Appendix D: The Index Card", "body", "body"),
    ("Notes", "notes", "notes"),
    ("Preface", "body", "body"),
    ("Prologue", "body", "body"),
    ("Dedication", "body", "body"),
    ("Appendix A", "body", "body"),
    ("Contents of the box", "body", "body"),
    ("The Index Card", "body", "body"),
    ("Table des matières", "contents", "contents"),
    ("Mentions légales", "front", "back"),
    ("Índice", "contents", "contents"),
    ("Agradecimientos", "front", "back"),
    ("Inhaltsverzeichnis", "contents", "contents"),
    ("Impressum", "front", "back"),
    ("Über die Autorin", "front", "back"),
    ("Anmerkungen", "notes", "notes"),
]


def test_a_title_tells_at_the_ends(subtests: pytest.Subtests) -> None:
    for title, front, back in _TABLE:
        with subtests.test(title=title, front=front):
            chapter = _chapter(title)
            assert _roles(chapter, *_STORY)[0] == front
            assert _roles(*_STORY, chapter)[-1] == back
            assert _roles(*_STORY[:3], chapter, *_STORY[3:])[3] == "body"


def test_the_ends_reach_over_what_is_read_there() -> None:
    names = ("Cover", "Preface", "Contents", "One", "Contents", "Two", "Epilogue", "Index")
    wanted = ["cover", "body", "contents", "body", "body", "body", "body", "back"]
    assert _roles(*map(_chapter, names)) == wanted


def test_what_the_file_says_wins() -> None:
    middle = _chapter("Three", role="notes")
    assert _roles(*_STORY[:2], middle, *_STORY[3:])[2] == "notes"
    assert _roles(_chapter("Contents", role="front"), *_STORY)[0] == "front"
    # `front` of a preface only says where it stands.
    assert _roles(_chapter("Preface", role="front"), *_STORY)[0] == "body"


def test_content_tells_where_no_title_does() -> None:
    imprint = _chapter("", _IMPRINT)
    assert _roles(imprint, *_STORY)[0] == "front"
    assert _roles(*_STORY, imprint)[-1] == "back"
    assert _roles(*_STORY[:3], imprint, *_STORY[3:])[3] == "body"
    title = _chapter("", "THE ROAD", "A Novel", "Jane Roe")
    assert _roles(title, *_STORY)[0] == "title"
    rows = _chapter("", "One ........ 1", "Two ........ 17", "3. Three", "Four\t40", "Five", "Six")
    assert _roles(rows, *_STORY)[0] == "contents"
    picture = Chapter("", (Block("", "image"),))
    assert _roles(picture, *_STORY)[0] == "cover"


def test_a_story_of_copyright_is_a_story() -> None:
    long = _chapter("One", "“All rights reserved,” she read. ISBN 1. " + _PROSE * 3)
    assert _roles(long, *_STORY[1:])[0] == "body"


def test_something_of_a_book_is_always_its_body() -> None:
    assert _roles(_chapter("Notes"), _chapter("Index", "A, 1"))[0] == "body"
    assert _roles(_chapter("Contents")) == ["body"]
    assert apply_matter(Document(Metadata(), ())).chapters == ()


def _licensed() -> Document:
    blocks = [
        "The Project Gutenberg eBook of The Road",
        "*** START OF THE PROJECT GUTENBERG EBOOK THE ROAD ***",
        _PROSE,
        _PROSE,
        "*** END OF THE PROJECT GUTENBERG EBOOK THE ROAD ***",
        "Section 1. General Terms of Use",
    ]
    return _book(Chapter("The Road", tuple(map(Block, blocks))))


def test_a_licence_is_cut_off_and_nothing_is_lost() -> None:
    before = _licensed()
    after = apply_matter(before)
    assert [chapter.role for chapter in after.chapters] == ["front", "body", "back"]
    assert [len(chapter.blocks) for chapter in after.chapters] == [2, 2, 2]
    assert [b for c in after.chapters for b in c.blocks] == list(before.chapters[0].blocks)
    assert after.chapters[1].title == "The Road"
    assert apply_matter(after) == after


def test_chapters_around_the_marks_are_not_the_book() -> None:
    start = _chapter("", "*** START OF THIS PROJECT GUTENBERG EBOOK X ***", "By Jane Roe.")
    end = _chapter("Six", _PROSE, "End of the Project Gutenberg EBook of X, by Jane Roe")
    found = _roles(_chapter("Header"), start, *_STORY, end, _chapter("Donations"))
    assert found == ["front", "front", "body", *["body"] * 7, "back", "back"]


def test_an_epilogue_that_no_contents_name_is_a_chapter() -> None:
    last = _chapter("Six", _PROSE, "Epilogue", _PROSE, _PROSE)
    found = apply_matter(_book(*_STORY[:5], last)).chapters
    assert [(one.title, len(one.blocks)) for one in found[-2:]] == [("Six", 2), ("Epilogue", 3)]
    assert (found[-1].blocks[0].kind, found[-1].role) == ("heading", "body")
    assert [b.text for one in found for b in one.blocks] == [
        b.text for one in (*_STORY[:5], last) for b in one.blocks
    ]


@pytest.mark.parametrize(
    "texts",
    [
        ("Prologue", "One", "Two", "Epilogue", "Index"),  # a list
        (_PROSE, "Epilogue", "Index"),
        (_PROSE, "The epilogue is long.", _PROSE),
    ],
)
def test_the_word_alone_makes_no_chapter(texts: tuple[str, ...]) -> None:
    assert len(apply_matter(_book(*_STORY, _chapter("Seven", *texts))).chapters) == 7
