"""What of a book is spoken: every character in a segment or in an omission that has a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.audiobooks.metadata import (
    Tracks,
    build_chapter_titles,
    build_file_names,
    make_file_name,
)
from anyrig.audiobooks.options import ContentOptions
from anyrig.audiobooks.plan import (
    NarrationPlan,
    add_title,
    build_plan,
    choose_titles,
    limit_depth,
    move_notes,
    select_chapters,
)
from anyrig.audiobooks.record import ChapterSpan
from anyrig.errors import (
    InvalidInputError,
    UnspeakableTextError,
    UnsupportedLanguageError,
    render,
)
from anyrig.speech.prepare import SpeechOptions
from anyrig.speech.segment import check_script
from anyrig.text.document import Block, Chapter, Document, Inline, Metadata

FRENCH = (
    "Il était une fois, dans une petite ville au bord de la mer, un horloger qui ne savait pas "
    "lire l'heure et que tout le monde aimait beaucoup."
)


def terms(*languages: str) -> SpeechOptions:
    return SpeechOptions(languages=languages or ("en",))


def book(*chapters: Chapter, **about: Any) -> Document:
    return Document(Metadata(title="A book", **about), chapters)


def chapter(*blocks: Block | str, title: str = "", **more: object) -> Chapter:
    made = tuple(Block(one) if isinstance(one, str) else one for one in blocks)
    return Chapter(title, made, **more)  # type: ignore[arg-type]


def planned(
    document: Document, ways: ContentOptions | None = None, *languages: str
) -> NarrationPlan:
    plan = build_plan(document, terms(*languages), language="en", content=ways or ContentOptions())
    for part in plan.parts:
        check_script(part.script)
    return plan


def said(plan: NarrationPlan) -> list[str]:
    return [segment.utterance.text for segment in plan.segments]


NOTED = chapter(
    Block("The clock1 struck nine.", inlines=(Inline(9, 10, "noteref", "n1"),)),
    "Nobody moved.",
    Block("1. It was made in 1890.", "note", id="n1"),
    title="",
)


def test_a_note_and_its_sign_are_left_out_and_named() -> None:
    plan = planned(book(NOTED))
    assert said(plan) == ["The clock struck nine.", "Nobody moved."]
    kinds = {omission.kind for omission in plan.parts[0].script.omissions}
    assert kinds == {"note", "space"}
    assert plan.count_omitted()["note"] == 1 + len("1.Itwasmadein1890.")


def test_a_note_is_heard_after_what_names_it_or_at_the_end() -> None:
    inline = said(planned(book(NOTED), ContentOptions(notes="inline")))
    assert inline[0] == "The clock struck nine."
    assert inline[1].startswith("Note: ")
    assert "Nobody moved." in inline[-1]
    end = said(planned(book(NOTED), ContentOptions(notes="end")))
    assert end[1] == "Nobody moved."
    assert end[2].startswith("Note: ")


def test_a_note_at_the_end_of_the_book_is_heard_where_it_is_named_and_only_there() -> None:
    notes = chapter(Block("It was made in 1890.", "note", id="n1"), title="Notes", role="notes")
    first = chapter(NOTED.blocks[0], "Nobody moved.")
    moved = move_notes(book(first, notes), ContentOptions(notes="inline"))
    assert [block.kind for block in moved.chapters[0].blocks] == ["paragraph", "note", "paragraph"]
    assert moved.chapters[1].blocks == ()


def test_a_note_is_heard_in_the_first_chapter_that_is_spoken() -> None:
    again = Block("The clock1 stopped.", inlines=(Inline(9, 10, "noteref", "n1"),))
    document = book(NOTED, chapter(again))
    plan = build_plan(
        document, terms(), language="en", content=ContentOptions(notes="inline"), chapters=[1]
    )
    assert any("eighteen ninety" in line for line in said(plan))


def test_a_chapter_of_which_nothing_is_spoken_is_among_the_omissions() -> None:
    plan = planned(book(chapter("Some words."), chapter(Block("x = 1", "code"))))
    assert len(plan.parts) == 1
    assert len(plan.silent) == 1
    assert plan.count_omitted()["code"] == 3


def test_a_note_of_two_paragraphs_is_moved_whole() -> None:
    first = Block("The clock1 struck.", inlines=(Inline(9, 10, "noteref", "n"),))
    note = (Block("It was old.", "note", id="n"), Block("It was slow.", "note", id="n"))
    moved = move_notes(book(chapter(first, "Nobody moved.", *note)), ContentOptions(notes="inline"))
    assert [block.text for block in moved.chapters[0].blocks] == [
        "The clock1 struck.", "It was old.", "It was slow.", "Nobody moved.",
    ]  # fmt: skip


def test_notes_that_only_notes_name_are_not_lost() -> None:
    one = Block("See2 also.", "note", id="a", inlines=(Inline(3, 4, "noteref", "b"),))
    other = Block("This one.", "note", id="b", inlines=(Inline(0, 4, "noteref", "b"),))
    for way in ("inline", "end"):
        moved = move_notes(book(chapter("Text.", one, other)), ContentOptions(notes=way))
        assert {block.text for block in moved.chapters[0].blocks} == {
            "Text.", "See2 also.", "This one.",
        }  # fmt: skip


def test_a_table_is_read_by_rows_and_a_poem_by_lines() -> None:
    table = Block("Day\tTide\nMonday\t9:15", "table")
    poem = Block("The sea came in\nand went away", "poem")
    plan = planned(book(chapter(table, poem)))
    assert said(plan)[:2] == ["Day, Tide", "Monday, nine fifteen"]
    assert said(plan)[2:] == ["The sea came in", "and went away"]
    prose = planned(book(chapter(poem)), ContentOptions(poems="prose"))
    assert said(prose) == ["The sea came in and went away"]


@pytest.mark.parametrize(
    ("kind", "ways", "omitted"),
    [
        ("table", ContentOptions(tables="skip"), "table"),
        ("code", ContentOptions(), "code"),
        ("note", ContentOptions(), "note"),
    ],
)
def test_each_kind_of_block_can_be_left_out(kind: str, ways: ContentOptions, omitted: str) -> None:
    odd = Block("a lighthouse at night", kind)  # type: ignore[arg-type]
    plan = planned(book(chapter("Before.", odd, "After that.")), ways)
    assert "lighthouse" not in " ".join(said(plan))
    assert dict(plan.count_omitted()) == {omitted: len("alighthouseatnight")}


def test_pictures_pages_and_code_are_announced_or_read_when_asked_for() -> None:
    blocks = (
        Block("a lighthouse", "image"),
        Block("23", "page"),
        Block("x = 1", "code"),
        Block("Then7 it ended.", inlines=(Inline(4, 5, "page", "7"),)),
    )
    first = chapter("It began.")
    told = said(
        planned(book(first, chapter(*blocks)), ContentOptions(code="speak", pages="speak"))
    )[1:]
    assert told[0] == "Image: a lighthouse"
    assert told[1].startswith("Page: twenty-three")
    assert any("equals" in line or "x" in line for line in told)
    assert "7" not in " ".join(said(planned(book(chapter(blocks[3])))))


def test_a_book_does_not_begin_with_what_pictures_show() -> None:
    picture = Block("a lighthouse at night", "image")
    opening = chapter(picture, Block("The Clock", "heading", 1), picture, "It began.", picture)
    plan = planned(book(opening, chapter(picture, "It ended.")))
    assert said(plan) == [
        "The Clock.", "It began.", "Image: a lighthouse at night", "Image: a lighthouse at night",
        "It ended.",
    ]  # fmt: skip
    assert dict(plan.count_omitted()) == {"image": 2 * len("alighthouseatnight")}
    assert (
        said(planned(book(opening), ContentOptions(matter="speak")))[0]
        == "Image: a lighthouse at night"
    )


def test_a_book_of_pictures_alone_tells_what_they_show() -> None:
    plan = planned(book(chapter(Block("a lighthouse", "image"), Block("a boat", "image"))))
    assert said(plan) == ["Image: a lighthouse", "Image: a boat"]


def test_a_row_of_stars_is_a_rest_and_not_spoken() -> None:
    plan = planned(book(chapter("One day.", Block("* * *", "rule"), "Another day.")))
    assert said(plan) == ["One day.", "Another day."]
    plain = planned(book(chapter("One day.", "Another day.")))
    assert plan.segments[0].pause_after_s > plain.segments[0].pause_after_s
    empty = planned(book(chapter("One day.", Block("", "rule"), "Another day.")))
    assert empty.segments[0].pause_after_s == plan.segments[0].pause_after_s


def test_a_paragraph_in_a_language_of_the_engine_is_spoken_in_it() -> None:
    document = book(chapter("The clock struck nine and nobody in the room said a word.", FRENCH))
    plan = build_plan(document, terms("en", "fr"), language="en")
    assert [segment.utterance.language for segment in plan.segments] == ["en", "fr"]


def test_a_marked_stretch_is_spoken_in_its_language() -> None:
    block = Block(
        "He said au revoir mes amis and left.", inlines=(Inline(8, 26, "language", "fr"),)
    )
    plan = build_plan(book(chapter(block)), terms("en", "fr"), language="en")
    assert "fr" in {segment.utterance.language for segment in plan.segments}
    alone = build_plan(book(chapter(block)), terms("en"), language="en")
    assert {segment.utterance.language for segment in alone.segments} == {"en"}


def test_what_no_voice_speaks_is_refused_skipped_or_read() -> None:
    document = book(chapter("The clock struck nine.", FRENCH))
    with pytest.raises(UnsupportedLanguageError) as refused:
        planned(document)
    assert refused.value.language == "fr"
    assert "1 passage" in refused.value.message
    assert "--foreign skip" in render(refused.value.hint, "command")
    skipped = planned(document, ContentOptions(foreign="skip"))
    assert said(skipped) == ["The clock struck nine."]
    assert set(skipped.count_omitted()) == {"foreign"}
    assert len(said(planned(document, ContentOptions(foreign="read")))) > 1


def test_a_wrong_mark_does_not_make_english_foreign() -> None:
    text = (
        "The clock struck nine and nobody in the room said a word about it for a long while, " * 2
    )
    plan = planned(book(chapter(Block(text.strip(), language="de"))))
    assert {segment.utterance.language for segment in plan.segments} == {"en"}


def test_a_title_that_only_the_contents_have_is_spoken_once() -> None:
    bare = chapter("It rained.", title="The Storm")
    assert said(planned(book(bare)))[0] == "The Storm."
    assert said(planned(book(bare), ContentOptions(titles="skip"))) == ["It rained."]
    printed = chapter(Block("THE STORM", "heading", 1), "It rained.", title="The Storm")
    assert add_title(printed) is printed
    run_in = chapter("The storm. It rained.", title="The Storm")
    assert add_title(run_in) is run_in
    told = chapter("I was born in a storm, and remember nothing of it.", title="I")
    assert add_title(told).blocks[0].text == "I"


def test_chapters_are_chosen_by_number_and_front_matter_is_left_out() -> None:
    document = book(
        chapter("A cover.", role="cover"),
        chapter("One.", title="I"),
        chapter("Two.", title="II"),
        chapter("Rights.", role="front"),
        chapter(title="Empty"),
    )
    assert select_chapters(document, "", ContentOptions()) == (1, 2)
    assert select_chapters(document, "", ContentOptions(matter="speak")) == (0, 1, 2, 3)
    assert select_chapters(document, "3-,1", ContentOptions()) == (0, 2, 3, 4)
    for wrong in ("0", "6", "2-1", "x", "1-9"):
        with pytest.raises(InvalidInputError):
            select_chapters(document, wrong, ContentOptions())


def test_a_book_of_nothing_is_an_error() -> None:
    with pytest.raises(UnspeakableTextError):
        planned(book(chapter(Block("* * *", "rule"))))


def test_one_changed_paragraph_changes_only_its_own_lines() -> None:
    before = planned(book(chapter("One is here.", "Two is here.", "Three is here.")))
    after = planned(book(chapter("One is here.", "Two was there.", "Three is here.")))
    kept = {segment.utterance for segment in before.segments} & {
        s.utterance for s in after.segments
    }
    assert len(kept) == 2


def test_what_is_asked_for_with_every_segment_is_counted_once() -> None:
    """A book of thousands of chapters tells its progress thousands of times."""
    plan = planned(book(NOTED))
    assert plan.segments is plan.segments
    assert plan.num_segments == len(plan.segments)
    assert "num_segments" in vars(plan)


def tracks(titles: Sequence[str]) -> Tracks:
    return Tracks(tuple(range(1, len(titles) + 1)), tuple(titles), len(titles))


def marks(*named: tuple[str, int]) -> list[ChapterSpan]:
    return [
        ChapterSpan(title, 10 * place, 10 * place + 10, level)
        for place, (title, level) in enumerate(named)
    ]  # noqa: E501


def test_nested_titles_stand_alone_unless_two_are_alike() -> None:
    given = marks(
        ("Part One", 1), ("Chapter 1", 2), ("The Storm", 2),
        ("Part Two", 1), ("chapter 1", 2), ("Afterword", 1),
    )  # fmt: skip
    assert build_chapter_titles(given) == [
        "Part One", "Part One: Chapter 1", "The Storm",
        "Part Two", "Part Two: chapter 1", "Afterword",
    ]  # fmt: skip


def test_titles_are_one_clean_line_of_bounded_length() -> None:
    long = "The very long account of all that befell " * 10
    made = build_chapter_titles(
        marks(("", 1), (" \n\t", 1), ("a\r\nb\0c", 1), (long, 1), ("漢" * 300, 1))
    )
    assert made[:3] == ["Chapter 1", "Chapter 2", "a b c"]
    assert all(len(title) <= 120 and len(title.encode()) <= 255 for title in made)
    assert made[3].endswith("of all that…")


SAFE_NAMES = [
    ("../../etc/passwd", "etc passwd"),
    ("C:\\Windows\\x", "C Windows x"),
    ("CON", "_CON"),
    ("LPT¹ ", "_LPT¹"),
    ("ends in dots...", "ends in dots"),
    ("What? <Yes> | \"No\" *", "What Yes No"),
    ("-rf", "rf"),
    ("a\nb\0c\x7f", "a b c"),
    ("evil\u202egnp.exe", "evil gnp.exe"),
    ("🎉 Fête", "🎉 Fête"),
    ("", "untitled"),
]  # fmt: skip


def test_names_are_safe(subtests: pytest.Subtests) -> None:
    for title, name in SAFE_NAMES:
        with subtests.test(title=title, name=name):
            assert make_file_name(title) == name


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=300), min_size=1, max_size=12))
def test_names_are_safe_and_unlike_whatever_the_titles(titles: list[str]) -> None:
    names = build_file_names(tracks(titles))
    assert len({name.casefold() for name in names}) == len(titles)
    for name in names:
        assert name == name.strip(" .")
        assert not set(name) & set('/\\:*?"<>|\0\n\r')
        assert 0 < len(name.encode()) <= 150
    assert names == build_file_names(tracks(titles))


def test_numbers_are_as_wide_as_they_must_be() -> None:
    names = build_file_names(tracks(["x"] * 120))
    assert (names[0], names[119]) == ("001 x", "120 x")
    assert build_file_names(tracks(["a", "", "#3"])) == ["01 a", "02", "03 3"]
    long = build_file_names(tracks(["漢" * 90] * 3))
    assert [name[:4] for name in long] == ["01 漢", "02 漢", "03 漢"]


def _manual(*levels: int, length: int = 30) -> Document:
    """Chapters of these levels, each with a heading and about so many words."""
    return book(*(
        chapter(
            Block(f"Entry {n}", "heading", level), "word " * length, title=f"Entry {n}", level=level
        )
        for n, level in enumerate(levels, 1)
    ))  # fmt: skip


def test_entries_of_a_manual_belong_to_the_chapter_above_them() -> None:
    document = _manual(*[1, *[2, 3, 3] * 4] * 4)
    found = limit_depth(document, 0, ContentOptions())
    assert [one.title for one in found.chapters] == ["Entry 1", "Entry 14", "Entry 27", "Entry 40"]
    assert [block.text for one in found.chapters for block in one.blocks] == [
        block.text for one in document.chapters for block in one.blocks
    ]
    assert len(limit_depth(document, 2, ContentOptions()).chapters) == 20
    assert len(limit_depth(document, 3, ContentOptions()).chapters) == 52
    long = _manual(*[1, 2, 2, 2] * 8, length=500)
    assert limit_depth(long, 0, ContentOptions()) == long
    short = _manual(1, 2, 2, 1, 2)
    assert limit_depth(short, 0, ContentOptions()) == short


def test_a_list_of_contents_within_a_chapter_does_not_part_it() -> None:
    chapters = list(_manual(*[1, 2, 2] * 10).chapters)
    chapters.insert(1, chapter("one", "two", role="contents"))
    found = limit_depth(book(*chapters), 1, ContentOptions())
    assert [one.role for one in found.chapters].count("contents") == 1
    assert [one.title for one in found.chapters if one.role == "body"][:2] == ["Entry 1", "Entry 4"]


def test_titles_that_only_the_contents_have_are_heard_in_joined_chapters_too() -> None:
    parts = [chapter("Words.", title=f"Part {n}", level=1 + (n > 0)) for n in range(3)]
    (found,) = limit_depth(book(*parts), 1, ContentOptions()).chapters
    assert [block.text for block in found.blocks] == [
        "Words.", "Part 1", "Words.", "Part 2", "Words."
    ]  # fmt: skip


def test_a_part_without_a_title_is_called_by_its_first_words() -> None:
    parts = [
        chapter("It was never meant to be a book about whales and the men who hunt them."),
        chapter("Call me Ishmael.", title="CHAPTER 1. Loomings"), chapter("©", role="front"),
    ]  # fmt: skip
    assert choose_titles(book(*parts)) == (
        "It was never meant to be a book about...", "CHAPTER 1. Loomings", "Front matter"
    )  # fmt: skip
    assert choose_titles(book(chapter("One."), chapter("Two."))) == ("Chapter 1", "Chapter 2")
