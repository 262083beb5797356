"""The order in which lines are read, and readings of a line made into one."""

from __future__ import annotations

from anyrig.documents.ocr.ctc import Char, joined
from anyrig.documents.ocr.mend import mended
from anyrig.documents.ocr.order import Place, blocks
from anyrig.documents.ocr.vote import voted


def order(places: list[Place]) -> list[int]:
    return [place.number for rows in blocks(places) for row in rows for place in row]


def column(left: float, right: float, top: float, count: int, first: int) -> list[Place]:
    return [Place(left, top + 30 * n, right, top + 30 * n + 28, first + n) for n in range(count)]


def test_two_columns_under_a_title_with_a_note_across_the_foot() -> None:
    title, foot = Place(100, 10, 900, 50, 0), Place(100, 500, 900, 528, 99)
    left, right = column(100, 480, 80, 10, 1), column(520, 900, 91, 12, 20)
    found = order([foot, *right, title, *left])
    assert found == [0, *range(1, 11), *range(20, 32), 99]


def test_three_columns_of_unequal_length() -> None:
    parts = [column(x, x + 280, 50, n, f) for x, n, f in ((0, 8, 0), (320, 12, 20), (640, 5, 40))]
    assert order(sum(reversed(parts), [])) == [*range(8), *range(20, 32), *range(40, 45)]


def test_a_table_of_short_cells_is_read_row_by_row() -> None:
    cells = [
        Place(x, 50 + 40 * row, x + 60, 78 + 40 * row, 10 * row + n)
        for row in range(5)
        for n, x in enumerate((0, 200, 400))
    ]
    assert order(list(reversed(cells))) == [10 * row + n for row in range(5) for n in range(3)]


def test_words_of_one_row_stay_together_and_wide_white_begins_a_block() -> None:
    first = [Place(0, 0, 200, 28, 0), Place(215, 2, 400, 30, 1), *column(0, 400, 30, 4, 2)]
    second = column(0, 400, 200, 3, 6)
    found = blocks([*second, *first])
    assert [[[place.number for place in row] for row in rows] for rows in found] == [
        [[0, 1], [2], [3], [4], [5]], [[6], [7], [8]],
    ]  # fmt: skip
    assert blocks([]) == []


def said(text: str, sure: float = 0.9) -> list[Char]:
    return [Char(char, (n + 0.5) / len(text), sure) for n, char in enumerate(text)]


def test_a_word_is_what_most_readings_saw() -> None:
    readings = [said("du mais frais", 0.93), said("du maïs frais", 0.8), said("du maïs frais", 0.8)]
    assert joined(voted(readings)) == "du maïs frais"
    assert joined(voted([said("one two", 0.5), said("onetwo", 0.9)])) == "onetwo"


def test_one_stroke_is_the_letter_that_the_language_allows() -> None:
    for language, wrong, right in (
        ("fr", "et I'eau", "et l'eau"), ("en", "and I'm here", "and I'm here"),
        ("en", "weIl made", "well made"), ("fr", "fini. II vint", "fini. Il vint"),
        ("fr", "Henri II vint", "Henri II vint"), ("en", "the FBI said", "the FBI said"),
    ):  # fmt: skip
        assert joined(mended(said(wrong), language)) == right
