"""Dialogue: which words are spoken, and by whom."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.audiobooks.dialogue import QuotedSpeech, find_speeches
from anyrig.audiobooks.speakers import attribute_speeches

TABLES = sorted((Path(__file__).parent / "dialogue").glob("*.txt"))
_MARKED = re.compile(r"\{([^|{}]*)\|([^{}]*)\}")


def _scenes() -> Iterator[tuple[str, int, list[str]]]:
    for path in TABLES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, scene in enumerate("\n".join(lines).split("\n---\n"), 1):
            wanted = [line for line in scene.splitlines() if line and not line.startswith("#")]
            if "# each" in scene:
                yield from ((path.stem, number, [line]) for line in wanted)
            else:
                yield path.stem, number, wanted


SCENES = list(_scenes())


def _shown(text: str, said: list[tuple[int, int, str]]) -> str:
    shown, position = "", 0
    for start, end, name in said:
        shown += f"{text[position:start]}{{{name}|{text[start:end]}}}"
        position = end
    return shown + text[position:]


def test_a_scene_is_told_apart(subtests: pytest.Subtests) -> None:
    for language, scene in [(s[0], s[2]) for s in SCENES]:
        with subtests.test(language=language, scene=scene):
            plain = [_MARKED.sub(r"\2", line) for line in scene]
            found = attribute_speeches(plain, language)
            shown = [
                _shown(text, [(each.start, each.end, each.speaker) for each in said])
                for text, said in zip(plain, found, strict=True)
            ]
            assert shown == scene


def test_a_speech_goes_on_in_the_next_paragraph_only_where_that_takes_it_up() -> None:
    (first,) = find_speeches("“It was dark.")
    assert first == QuotedSpeech(0, 13, continued=False, open=True)
    (second,) = find_speeches("“And cold.”", open=first.open)
    assert (second.continued, second.open) == (True, False)
    assert find_speeches("The wind blew.", open=True) == ()
    assert not find_speeches("Tom sighed. “And cold.”", open=True)[0].continued


def test_names_that_are_one_person_are_one() -> None:
    found = attribute_speeches(["“Yes,” said Tom Sawyer.", "“No,” said Mary.", "“Why?” asked Tom."])
    assert [said[0].speaker for said in found] == ["Tom Sawyer", "Mary", "Tom Sawyer"]
    titled = attribute_speeches(["“Yes,” said Mrs. Long.", "“No,” said Long."])
    assert [said[0].speaker for said in titled] == ["Mrs. Long", "Long"]


def test_a_language_for_each_paragraph() -> None:
    found = attribute_speeches(["“Yes,” said Tom.", None, "— Non, dit Pierre."], ["en", "en", "fr"])
    assert [[each.speaker for each in said] for said in found] == [["Tom"], [], ["Pierre"]]


_PIECES = st.lists(
    st.sampled_from(
        ["“", "”", "‘", "’", '"', "'", "`", "``", "''", "«", "»", "„", "—", "- ", " ", "said ",
         "Tom ", "he ", ", ", ". ", "! ", "dit-il", "dijo ", ": ", "(", ")", "A", "é", "\n", "5"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(_PIECES | st.text(max_size=80), st.sampled_from(["en", "es", "fr", "de", "it", ""]))
def test_any_text_gives_spans_in_order(text: str, language: str) -> None:
    found = attribute_speeches([text, text], language)
    for said in found:
        position = 0
        for each in said:
            assert position <= each.start < each.end <= len(text)
            assert text[each.start : each.end].strip()
            position = each.end


_HOSTILE = (
    "'" * 20_000, "' a" * 7000, "`a " * 7000, "— " * 9000, ", dit-il " * 3000,
    "Tom and " * 5000 + "said, “a.”",
)  # fmt: skip


@pytest.mark.parametrize("text", _HOSTILE)
@pytest.mark.parametrize("language", ["en", "fr", "es"])
def test_a_hostile_paragraph_does_not_hang(text: str, language: str) -> None:
    before = time.process_time()
    attribute_speeches([text], language)
    assert time.process_time() - before < 5
