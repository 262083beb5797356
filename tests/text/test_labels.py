"""Names from files of others: no line, no cell and no screen is harmed by them."""

from __future__ import annotations

import pytest

from anyrig.text.labels import cell, one_line


@pytest.mark.parametrize(
    "text", ["=cmd()", "@sum(1)", "\t=1", "+cmd|' /C calc'!A0", "-2+3+cmd|x", "-SUM(A1)", "\r=1"]
)
def test_a_formula_is_a_text_in_a_table(text: str) -> None:
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["+33 (0)1 42 68", "-€40", "-12.5", "a=b", "", "- a dash"])
def test_what_is_no_formula_stays_as_it_is(text: str) -> None:
    assert cell(text) == text


def test_a_name_is_one_line_without_codes() -> None:
    assert one_line("a\nb\x1b[2J\u202ec") == "a b [2Jc"
