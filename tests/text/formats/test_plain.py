"""Plain text: paragraphs, chapters, verse and notes, and nothing lost."""

from __future__ import annotations

import contextlib
import csv
import random
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text.document import Block, Document
from anyrig.text.files import read
from anyrig.text.formats import plain
from anyrig.text.formats.csv import ROWS, detect_dialect
from anyrig.text.formats.limits import Limits

PROSE = """The rain fell on the roof of the old house all through the long night, and the
people in it lay awake and listened to it for hours, until the morning came at
last and the light grew strong enough to read by."""


def doc(text: str) -> Document:
    return plain.build_document(text, "a.txt")


def blocks(text: str) -> list[Block]:
    return [block for chapter in doc(text).chapters for block in chapter.blocks]


def titles(text: str) -> list[tuple[int, str]]:
    return [(chapter.level, chapter.title) for chapter in doc(text).chapters]


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_hard_wrapped_lines_become_one_paragraph() -> None:
    made = blocks(f"{PROSE}\n\n{PROSE}\n")
    assert [block.text for block in made] == [" ".join(PROSE.split())] * 2


def test_a_long_line_is_a_paragraph_where_nothing_is_wrapped() -> None:
    line = " ".join(PROSE.split())
    assert len(blocks(f"{line}\n“Yes,” he said.\n{line}\n{line} {line}\n")) == 4


def test_indented_first_lines_part_paragraphs() -> None:
    text = "\n".join(f"    {PROSE}" for _ in range(12))
    assert len(blocks(text)) == 12


def test_a_short_last_line_parts_paragraphs_where_nothing_else_does() -> None:
    assert len(blocks("\n".join([PROSE] * 12))) == 12


def test_a_word_parted_at_a_line_end_is_whole_if_the_text_has_it_whole() -> None:
    wrapped = PROSE.replace("morning", "morn-\ning") + "\n\nIn the morning a well-\nknown man came."
    joined = " ".join(block.text for block in blocks(wrapped))
    assert "until the morning came" in joined
    assert "well-known" in joined


def test_verse_keeps_its_lines() -> None:
    stanza = "How doth the little crocodile\n  Improve his shining tail,\nAnd pour the waters"
    made = blocks(f"{PROSE}\n\n{stanza}\n\n{PROSE}\n")
    assert [block.kind for block in made] == ["paragraph", "poem", "paragraph"]
    assert made[1].text.count("\n") == 2


def test_blank_verse_is_no_wrapped_prose() -> None:
    verse = """Of Man's first disobedience, and the fruit
Of that forbidden tree whose mortal taste
Brought death into the World, and all our woe,
With loss of Eden, till one greater Man
Restore us, and regain the blissful seat,
Sing, Heavenly Muse, that, on the secret top"""
    made = blocks(f"{verse}\n\n{verse}\n")
    assert [(block.kind, block.text) for block in made] == [("poem", verse)] * 2


def test_the_margin_numbers_of_verse_are_no_part_of_it() -> None:
    verse = """Against the opposing will and arm    595
    Of Heaven may never this just sword
    Be lifted up; but, for that damned    605
    Magician in the wood of 600"""
    made = blocks(f"{PROSE}\n\n{verse}\n\n{PROSE}\n")[1]
    assert made.kind == "poem"
    assert [(made.text[one.start : one.end], one.kind) for one in made.inlines] == [
        ("595", "page"), ("605", "page"),
    ]  # fmt: skip


def test_prose_that_was_broken_unevenly_is_no_verse() -> None:
    ragged = """The author of these lines had them copied by a friend, who broke
each of them where it pleased him and now and then
rather early, as the reader of the following pages will see for himself, or
at times where a page of the first edition came to its end without a stop,
and so on."""
    verse = "\n\n".join("Of stones\nAnd rain\nWe sing\nA song" for _ in range(20))
    made = blocks(f"{ragged}\n\n{verse}")
    assert (made[0].text, made[0].kind) == (" ".join(ragged.split()), "paragraph")
    assert {block.kind for block in made[1:]} == {"poem"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("He left on 12\nOct. 1999. She stayed.", ["He left on 12 Oct. 1999. She stayed."]),
        ("Then he met Dr.\nLee at 5\np.m. in town.", ["Then he met Dr. Lee at 5 p.m. in town."]),
        ("Salió el 3\nde nov. con su tía.", ["Salió el 3 de nov. con su tía."]),
        ("Milk\n12\nOct. 1999\nBread", ["Milk\n12 Oct. 1999\nBread"]),
        ("We closed in 12.\nOctober was cold.", ["We closed in 12.", "October was cold."]),
        ("Room 12\nRoom 14", ["Room 12", "Room 14"]),
    ],
)
def test_short_lines_that_cut_one_thing_are_joined(text: str, wanted: list[str]) -> None:
    assert [block.text for block in blocks(text)] == wanted


def test_a_row_of_signs_is_a_rule() -> None:
    made = blocks(f"{PROSE}\n\n     *     *     *\n\n{PROSE}\n-----\n{PROSE}")
    assert [block.kind for block in made] == ["paragraph", "rule", "paragraph", "rule", "paragraph"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("CHAPTER I", "CHAPTER II"),
        ("Chapitre IV", "Chapitre V : La nuit"),
        ("Erstes Kapitel", "Zweites Kapitel"),
        ("第一章 出發", "第二章 歸來"),
        ("I. A SCANDAL IN BOHEMIA", "II. THE RED-HEADED LEAGUE"),
        ("Prologue", "Epilogue"),
    ],
)  # fmt: skip
def test_headings(first: str, second: str) -> None:
    text = f"{first}\n\n{PROSE}\n\n{PROSE}\n\n\n{second}\n\n{PROSE}\n"
    assert titles(text) == [(1, first), (1, second)]
    assert doc(text).chapters[0].blocks[0].kind == "heading"


def test_parts_stand_above_chapters() -> None:
    text = "".join(
        f"PART {part}\n\n" + "".join(f"CHAPTER {n}\n\n{PROSE}\n\n" for n in ("I", "II"))
        for part in ("ONE", "TWO")
    )
    assert [level for level, _ in titles(text)] == [1, 2, 2, 1, 2, 2]


def test_a_title_under_the_number_belongs_to_it() -> None:
    text = f"CHAPTER I\n\nThe Long Way Home\n\n{PROSE}\n\nCHAPTER II\nThe Short Way\n\n{PROSE}\n"
    assert titles(text) == [(1, "CHAPTER I. The Long Way Home"), (1, "CHAPTER II The Short Way")]


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_a_printed_table_of_contents_is_no_chapters(gap: str) -> None:
    names = ["CHAPTER I. The Rain", "CHAPTER II. The Sun", "CHAPTER III. The Snow"]
    text = f"CONTENTS\n\n{gap.join(names)}\n\n\n" + "".join(f"{n}\n\n{PROSE}\n\n" for n in names)
    made = doc(text).chapters
    assert [chapter.role for chapter in made] == ["contents", "body", "body", "body"]
    assert [chapter.title for chapter in made[1:]] == names


def test_a_contents_list_without_a_heading_is_known_by_its_like_coming_again() -> None:
    names = ["PART ONE", "CHAPTER I", "CHAPTER II", "PART TWO", "CHAPTER I", "CHAPTER II"]
    text = "\n\n".join(names) + "\n\n" + "".join(f"{name}\n\n{PROSE}\n\n" for name in names)
    assert [chapter.role for chapter in doc(text).chapters] == ["contents", *["body"] * 6]


def test_numbers_that_interrupt_sentences_are_pages() -> None:
    half = " ".join(PROSE.split()[:20])
    text = f"{half}\n\n12\n\nand so on, {half}\n\n13\n\nuntil it was {half}\n\n14\n\nthe end.\n"
    made = doc(text)
    assert len(made.chapters) == 1
    assert [block.kind for block in made.chapters[0].blocks].count("page") == 3


def test_what_project_gutenberg_adds_stands_apart() -> None:
    text = f"""The Project Gutenberg eBook of Rain

Title: Rain
Author: Ann Other
Language: French

*** START OF THE PROJECT GUTENBERG EBOOK RAIN ***

CHAPTER I

{PROSE}

CHAPTER II

{PROSE}

*** END OF THE PROJECT GUTENBERG EBOOK RAIN ***

License text.
"""
    made = doc(text)
    assert [chapter.role for chapter in made.chapters] == ["front", "body", "body", "back"]
    assert (made.metadata.title, made.metadata.authors, made.metadata.language) == (
        "Rain", ("Ann Other",), "fr",
    )  # fmt: skip
    text = f"[Emma by Jane Austen 1816]\n\n{PROSE}\n"
    assert doc(text).metadata.title == "Emma"
    assert doc(text).metadata.year == "1816"


def test_notes_pages_and_pictures_in_brackets() -> None:
    made = blocks(f"{PROSE}[1] More [Pg 23] of it.\n\n[1] A note.\n\n[Illustration: A cat]\n")
    assert [(one.kind, one.value) for one in made[0].inlines] == [
        ("noteref", "note-1"), ("page", "23"),
    ]  # fmt: skip
    assert (made[1].kind, made[1].id) == ("note", "note-1")
    assert made[2].kind == "image"


def test_a_heading_of_footnotes_goes_with_them_and_the_chapter_goes_on() -> None:
    made = doc(
        f"_CHAPTER I._{{22:A}}\n\n{PROSE}{{22:A}}\n\nFOOTNOTES:\n\n{{22:A}} A note.\n\n{PROSE}\n\n"
        f"_CHAPTER II._\n\n{PROSE}\n\n     _I. N._\n\nApril 1, 1704.\n"
    )
    assert [chapter.title for chapter in made.chapters] == ["CHAPTER I.", "CHAPTER II."]
    kinds = [block.kind for block in made.chapters[0].blocks]
    assert kinds == ["heading", "paragraph", "note", "note", "paragraph"]
    assert made.chapters[0].blocks[1].inlines[0].value == "note-22:A"


_LINES = st.sampled_from(
    ["", "", "  ", PROSE, "CHAPTER I", "CHAPTER II.", "Contents", "IV", "3", "* * *", "[1] a note",
     "it is[1] so [Pg 3]", "    indented line of text", "a\tb   c", "PART ONE", "Prologue", "“Oh!”",
     "well-", "known", "_so_ it is", "THE END", "[Illustration]", "*** START OF THE PROJECT "
     "GUTENBERG EBOOK X ***", "[Footnote 2: open", "closed]", "\x0c", "1. One", "2. Two"]
)  # fmt: skip


@given(st.lists(st.one_of(_LINES, st.text(max_size=30)), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_nothing_is_lost_and_order_stays(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        made = plain.build_document(text, "a.txt")
    except InvalidInputError:
        return
    kept = [block.text for chapter in made.chapters for block in chapter.blocks]
    assert squeezed("".join(kept)) == squeezed(text.lstrip("\ufeff"))
    for chapter in made.chapters:
        for block in chapter.blocks:
            assert all(0 <= one.start < one.end <= len(block.text) for one in block.inlines)


@pytest.mark.parametrize(
    "line",
    ["Chapter 3 was hard to write.", "Un livre.", "Act first.", "Parte mi pan.", "I went home."],
)
def test_a_short_sentence_opens_no_chapter(line: str) -> None:
    text = f"Chapter 1\n\n{PROSE}\n\n{line}\n\n{PROSE}\n\nChapter 2\n\n{PROSE}\n"
    assert titles(text) == [(1, "Chapter 1"), (1, "Chapter 2")]


def _text(path: Path, data: bytes | str) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return "\n".join(b.text for chapter in read(path).chapters for b in chapter.blocks)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("name;price\nAnn;1,50\nBo;2,75\n", ";"),
        ('a,b\n"x; y; z",1\n"p; q; r",2\n', ","),
        ("sep=|\na|b;c\n1|2;3\n", "|"),
        ("when\twhat\n10:30, Monday\ta, b\n11:00, Friday\tc, d, e\n", "\t"),
    ],
)
def test_marks_inside_of_cells_do_not_mislead(text: str, mark: str) -> None:
    assert detect_dialect(text).mark == mark


def test_cells_may_hold_quotes_marks_and_lines(tmp_path: Path) -> None:
    text = 'title,said\n"Smith, Ann","first\nsecond"\n"He said ""no""",x\n'
    said = 'title\tsaid\nSmith, Ann\tfirst second\nHe said "no"\tx'
    assert _text(tmp_path / "a.csv", text) == said


@pytest.mark.parametrize(
    ("encoding", "name", "city"),
    [
        ("cp1252", "Zoë", "Nîmes – “Gare”"),
        ("utf-16-be", "Иван", "Москва"),
        ("shift_jis", "田中太郎", "東京都千代田区"),
    ],
)
def test_encodings_are_found(tmp_path: Path, encoding: str, name: str, city: str) -> None:
    rows = [["nom", "ville"], *([name, city] for _ in range(6))]
    data = "\n".join(";".join(row) for row in rows).encode(encoding)
    assert _text(tmp_path / "a.csv", data) == "\n".join("\t".join(row) for row in rows)


def test_a_long_table_is_cut_in_pages_with_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,word\n" + "".join(f"{n},w{n}\n" for n in range(2 * ROWS + 5)))
    chapters = read(path).chapters
    assert [chapter.title for chapter in chapters] == [
        f"rows 1-{ROWS}", f"rows {ROWS + 1}-{2 * ROWS}", f"rows {2 * ROWS + 1}-{2 * ROWS + 5}",
    ]  # fmt: skip
    assert all(chapter.blocks[0].text.startswith("id\tword\n") for chapter in chapters)
    assert chapters[2].blocks[0].text.splitlines()[-1] == f"{2 * ROWS + 4}\tw{2 * ROWS + 4}"


def test_a_million_columns_and_zeros_and_giant_cells_are_read(tmp_path: Path) -> None:
    assert len(_text(tmp_path / "a.csv", ",".join("x" * 1_000_000)).split("\t")) == 1_000_000
    assert _text(tmp_path / "b.csv", b"a,b\n\x00one\x00,two\n") == "a\tb\none\ttwo"
    assert len(_text(tmp_path / "c.csv", 'a,"' + "z" * 3_000_000 + '"\n')) == 3_000_002


def test_the_limit_of_cells_holds_and_python_s_own_is_put_back(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = tmp_path / "a.csv"
    path.write_text("1,2,3\n" * 1000)
    with pytest.raises(LimitExceededError, match="2,000 cells") as caught:
        read(path, limits=Limits(cells=2000))
    assert caught.value.limit == "cells"
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("data", [b"\n\n\n", b",,,,\n,,,\n", b"\x00\x00\x00\x00"])
def test_a_table_of_nothing_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"empty|no text|no table"):
        read(tmp_path / "a.csv")


def test_noise_is_read_or_refused_in_little_time(tmp_path: Path) -> None:
    chance = random.Random(5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for number in range(30):
        path = tmp_path / f"{number}.csv"
        signs = b'",;\t|\n\r\x00ab1' if number % 2 else bytes(range(256))
        path.write_bytes(bytes(chance.choice(signs) for _ in range(20_000)))
        with contextlib.suppress(InvalidInputError):
            read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_what_printed_contents_name_is_a_chapter() -> None:
    text = (
        f"CONTENTS\n\nETYMOLOGY.\n\nCHAPTER 1. Loomings.\n\nCHAPTER 2. The Bag.\n\nEpilogue\n\n\n"
        f"ETYMOLOGY.\n\n{PROSE}\n\n\nCHAPTER 1. Loomings.\n\n{PROSE}\n\n\nCHAPTER 2. The Bag.\n\n"
        f"{PROSE}\n\n\nEpilogue\n\n{PROSE}\n"
    )  # fmt: skip
    assert [title for _, title in titles(text)] == [
        "CONTENTS", "ETYMOLOGY.", "CHAPTER 1. Loomings.", "CHAPTER 2. The Bag.", "Epilogue",
    ]  # fmt: skip
