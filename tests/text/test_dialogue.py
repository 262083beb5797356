"""Who says what: files of paragraphs with their speeches marked; a new line is a new test."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.text.attribution import speaker
from anyrig.text.dialogue import Speech, speeches
from anyrig.text.saying import gender
from anyrig.text.speakers import converse
from tests.conftest import ROOT

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
            found = converse(plain, language)
            shown = [
                _shown(text, [(each.start, each.end, each.speaker) for each in said])
                for text, said in zip(plain, found, strict=True)
            ]
            assert shown == scene


def test_the_tables_hold_enough() -> None:
    lines = {language: 0 for language, _, _ in SCENES}
    for language, _, scene in SCENES:
        lines[language] += len(scene)
    assert min(lines[language] for language in ("en", "es", "fr")) >= 15
    assert sum(lines.values()) >= 100


def test_a_speech_goes_on_in_the_next_paragraph_only_where_that_takes_it_up() -> None:
    (first,) = speeches("“It was dark.")
    assert first == Speech(0, 13, continued=False, open=True)
    (second,) = speeches("“And cold.”", open=first.open)
    assert (second.continued, second.open) == (True, False)
    assert speeches("The wind blew.", open=True) == ()
    assert not speeches("Tom sighed. “And cold.”", open=True)[0].continued


def test_a_known_name_before_a_colon_speaks() -> None:
    assert speeches("Tom: I am here.") == ()
    assert speeches("Tom: I am here.", names={"tom"}) == (Speech(5, 15, name="Tom"),)


def test_one_speech_names_its_speaker() -> None:
    text = "“Yes,” said Tom. “No,” said Mary."
    first, second = speeches(text)
    assert speaker(text, second) == "Mary"
    assert speaker("“Yes.”", Speech(0, 6)) == ""
    assert first.end < second.start


def test_names_that_are_one_person_are_one() -> None:
    found = converse(["“Yes,” said Tom Sawyer.", "“No,” said Mary.", "“Why?” asked Tom."])
    assert [said[0].speaker for said in found] == ["Tom Sawyer", "Mary", "Tom Sawyer"]
    titled = converse(["“Yes,” said Mrs. Long.", "“No,” said Long."])
    assert [said[0].speaker for said in titled] == ["Mrs. Long", "Long"]


def test_a_language_for_each_paragraph() -> None:
    found = converse(["“Yes,” said Tom.", None, "— Non, dit Pierre."], ["en", "en", "fr"])
    assert [[each.speaker for each in said] for said in found] == [["Tom"], [], ["Pierre"]]


@pytest.mark.parametrize(
    ("name", "language", "wanted"),
    [("Mrs. Long", "en", "f"), ("Tom Sawyer", "en", "m"), ("the old man", "en", "m"),
     ("la señora Pérez", "es", "f"), ("M. Fogg", "fr", "m"), ("Dr. Watson", "en", ""),
     ("the Rabbit", "en", ""), ("", "en", "")],
)  # fmt: skip
def test_gender_is_told_only_where_it_is_plain(name: str, language: str, wanted: str) -> None:
    assert gender(name, language) == wanted


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
    found = converse([text, text], language)
    for said in found:
        position = 0
        for each in said:
            assert position <= each.start < each.end <= len(text)
            assert text[each.start : each.end].strip()
            position = each.end


def test_a_long_book_costs_little() -> None:
    """100,000 words of a novel in well under a second; ten times that is a fault."""
    source = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    book = [" ".join(part.split()) for part in re.split(r"\n\s*\n", source) if part.strip()] * 12
    before = time.process_time()
    found = converse(book)
    assert time.process_time() - before < 5
    assert sum(len(said) for said in found) > 2000


_HOSTILE = (
    "'" * 20_000, "“" * 20_000, "' a" * 7000, "`a " * 7000, "— " * 9000, "«" * 20_000,
    "a' 'b " * 4000, "dit " * 9000, ", dit-il " * 3000, "Tom and " * 5000 + "said, “a.”",
)  # fmt: skip


def test_a_hostile_paragraph_does_not_hang(subtests: pytest.Subtests) -> None:
    for number in range(len(_HOSTILE)):
        for language in ["en", "fr", "es"]:
            with subtests.test(number=number, language=language):
                before = time.process_time()
                converse([_HOSTILE[number]], language)
                assert time.process_time() - before < 5
