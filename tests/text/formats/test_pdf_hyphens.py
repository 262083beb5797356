"""What a document writes elsewhere decides on a hyphen at a line's end."""

from __future__ import annotations

import pytest

from anyrig.text.formats.pdf_hyphens import Words, joined
from anyrig.text.formats.pdf_page import Line

SEEN = (
    "we know that they re-enter a well known house of cooperation, long and winding, by hand made"
)


def line(text: str) -> Line:
    return Line(text, 0, 100, 0, 10, 10, 1)


@pytest.mark.parametrize(
    ("one", "two", "whole"),
    [
        ("coop-", "eration", "cooperation"),
        ("re-", "enter", "re-enter"),
        ("hand-", "made", "hand-made"),
        ("un-", "usual", "unusual"),
        ("any-", "thing", "anything"),
        ("twenty-", "one", "twenty-one"),
        ("mother-in-", "law", "mother-in-law"),
        ("Anglo-", "Saxon", "Anglo-Saxon"),
        ("1914-", "1918", "1914-1918"),
        ("under\u00ad", "standing", "understanding"),
        ("pre-", "and post-war", "pre- and post-war"),
        ("stopped\u2014", "then", "stopped\u2014then"),
        ("plain", "words", "plain words"),
        ("a -", "b", "a - b"),
        ("\u6f22\u5b57", "\u4eee\u540d", "\u6f22\u5b57\u4eee\u540d"),
    ],
)  # fmt: skip
def test_lines_are_put_together(one: str, two: str, whole: str) -> None:
    text, _ = joined([line(one), line(two)], Words([SEEN]))
    assert text == whole


def test_raised_stretches_move_with_the_text() -> None:
    lines = [line("co\u00adop\u00ad"), Line("erate1 now", 0, 9, 0, 10, 10, 7, raised=((5, 6),))]
    text, raised = joined(lines, Words([]))
    assert text == "cooperate1 now"
    assert [(text[each.start : each.end], each.page) for each in raised] == [("1", 7)]
