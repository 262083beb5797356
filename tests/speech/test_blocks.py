"""Headings, paragraphs and speeches of a plain text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.speech.blocks import blocks


def _kinds(text: str) -> list[tuple[str, str]]:
    return [(each.kind, text[each.start : each.end]) for each in blocks(text)]


HEADINGS = [
    "# Title", "### A longer title of it", "CHAPTER I", "Chapter IV", "Chapter 12: The End",
    "CHAPTER TWO", "Part Three", "DOWN THE RABBIT-HOLE", "Capítulo 3", "Chapitre XII",
    "Prologue", "Kapitel 7.", "Act I", "Acte premier", "Libro segundo", "Scene 2.",
    "Volume Two: The Sea", "Canto XII", "Chapter the Last", "PART FIRST.", "First Part",
    "Première partie", "Erster Teil", "Book One.", "Tome II", "Escena primera",
    "Title\n=====", "Smaller title\n---",
]  # fmt: skip


def test_headings(subtests: pytest.Subtests) -> None:
    for line in HEADINGS:
        with subtests.test(line=line):
            assert _kinds(f"{line}\n\nIt was so.") == [
                ("heading", line),
                ("sentence", "It was so."),
            ]


NO_HEADINGS = [
    "NO!", "OK.", "Act now.", "Book it.", "Act fast.", "Book now: rooms are few.", "Act first.",
    "Act mild.", "Act.", "Book.", "Part with it.", "Book them all.",
    "Scene set.", "Chapter closed.", "Volume up.", "Section off.",
    "Part I was over.", "One act.", "One letter.", "Section leaders only.",
    "Act. Do not wait.", "Parte ya.", "Parte mi pan.", "Actúa ya.", "Acto seguido.",
    "Libro abierto.", "Escena final.", "Canto mal.", "Canto yo.", "Parte di noi.",
    "Livre ouvert.", "Partie remise.", "Scène vide.", "Acte manqué.", "Un livre.", "Un acto.",
    "Una parte.", "Chant perdu.", "Tome ça.", "Teil mit mir.", "Buch das.",
    "He ate part of it.",
    "The chapter was long, and he read on.", "#hashtag",
    "IT IS A VERY LONG CRY IN CAPITALS THAT GOES ON AND ON AND NEVER STOPS",
]  # fmt: skip


def test_no_headings(subtests: pytest.Subtests) -> None:
    for line in NO_HEADINGS:
        with subtests.test(line=line):
            assert _kinds(line) == [("sentence", line)]


def test_a_heading_without_a_blank_line() -> None:
    assert [kind for kind, _ in _kinds("# One\nIt was so.\nAnd so.\n## Two\nMore.")] == [
        "heading", "sentence", "heading", "sentence",
    ]  # fmt: skip
    assert _kinds("CHAPTER I\nIt was so.")[0] == ("heading", "CHAPTER I")


def test_speeches() -> None:
    text = "He came in.\n— ¿Quién es?\n— Soy yo.\n“Go!” he said.\nThen he left."
    assert _kinds(text) == [
        ("sentence", "He came in."), ("dialogue", "— ¿Quién es?"), ("dialogue", "— Soy yo."),
        ("dialogue", "“Go!” he said.\nThen he left."),
    ]  # fmt: skip


def test_speakers() -> None:
    assert _kinds("ALICE: Who are you?\nThe Cat: A cat,\nof course.\nALICE: Oh.") == [
        ("dialogue", "ALICE: Who are you?"), ("dialogue", "The Cat: A cat,\nof course."),
        ("dialogue", "ALICE: Oh."),
    ]  # fmt: skip


def test_items() -> None:
    assert _kinds("Buy:\n- eggs\n- milk and\n  honey\n\n1. One\n2. Two") == [
        ("sentence", "Buy:"), ("dialogue", "- eggs"), ("dialogue", "- milk and\n  honey"),
        ("dialogue", "1. One\n2. Two"),
    ]  # fmt: skip


def test_wrapped_lines_are_one_paragraph() -> None:
    """A quotation mark that the wrapping put first is chance."""
    text = (
        "`I wonder how many miles I've fallen by this time?' she said aloud.\n"
        "`I must be getting somewhere near the centre of the earth.  Let\nme see.'"
    )
    assert len(blocks(text)) == 1


@settings(deadline=None)
@given(st.text(st.sampled_from('ab #-=*\n\r\u2029I."“—1)') | st.characters(), max_size=80))
def test_between_blocks_is_only_white_space(text: str) -> None:
    position = 0
    for each in blocks(text):
        assert not text[position : each.start].strip()
        assert text[each.start : each.end].strip() == text[each.start : each.end] != ""
        position = each.end
    assert not text[position:].strip()
