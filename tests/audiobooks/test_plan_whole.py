"""Plans of documents that nobody would write: not a character is lost or told twice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import get_args

import pytest

from anyrig.audiobooks.cast import Cast
from anyrig.audiobooks.casting import Casting
from anyrig.audiobooks.options import CONTENT_CHOICES, ContentOptions
from anyrig.audiobooks.plan import NarrationPlan, build_plan, move_notes
from anyrig.errors import UnspeakableTextError
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.segment import check_script
from anyrig.speech.source_text import VoiceStyle
from anyrig.text.document import (
    Block,
    BlockKind,
    Chapter,
    Document,
    Inline,
    InlineKind,
    Metadata,
)

WORDS = (
    "Hello world 1984 Dr. Smith said, “Yes!” — ... *** $3.50 a@b.com http://x.org/a?b=c [[ko]] "
    "[[Kokoro|ko-KO-ro]] [[ ]] &amp; \u200b \u00ad 😀 日本語 naïve I. II (aside) “ ” 'tis 3rd "
    "12:30 ½ x² \0 … _ ~ e.g. end. Well; ﬁ \u0301 \ud800 \ue000"
).split(" ")
KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
INLINES: tuple[InlineKind, ...] = get_args(InlineKind)
LINED = {"poem": " \n", "code": " \n", "table": " \n\t"}


def terms(limit: int, *languages: str, phonemes: bool = False) -> SpeechOptions:
    return SpeechOptions(limit, reads=("ipa",) if phonemes else (), languages=languages or ("en",))


class Chance:
    """Documents by the throw of a die; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.die = random.Random(seed)

    def text(self, kind: str) -> str:
        words = [self.die.choice(WORDS) for _ in range(self.die.choice([0, 1, 2, 5, 40, 120]))]
        between = LINED.get(kind)
        if between is None:
            return " ".join(words)
        return "".join(word + self.die.choice(between) * self.die.choice([1, 2]) for word in words)

    def inline(self, length: int) -> Inline:
        """It may reach past the end of its block."""
        start = self.die.randint(0, length + 3)
        end = start + self.die.choice([0, 1, 3, 50, 500])
        kind = self.die.choice(INLINES)
        return Inline(start, end, kind, self.die.choice(["n1", "n2", "fr", "de", "xx", ""]))

    def block(self) -> Block:
        kind = self.die.choice(KINDS)
        text = self.text(kind)
        inlines = [self.inline(len(text)) for _ in range(self.die.choice([0, 0, 1, 3]))]
        return Block(
            text, kind, self.die.randint(0, 3), self.die.choice(["", "", "fr", "en-GB", "xx"]),
            self.die.choice(["n1", "n2", ""]) if kind == "note" else "",
            inlines=tuple(sorted(inlines, key=lambda one: one.start)),
        )  # fmt: skip

    def document(self) -> Document:
        chapters = tuple(
            Chapter(
                self.die.choice(["", "A title", "***"]),
                tuple(self.block() for _ in range(self.die.randint(0, 6))),
            )
            for _ in range(self.die.randint(1, 3))
        )
        return Document(Metadata(), chapters)

    def ways(self) -> ContentOptions:
        drawn = {name: self.die.choice(choices) for name, choices in CONTENT_CHOICES.items()}
        return ContentOptions(**{**drawn, "foreign": self.die.choice(["skip", "read"])})  # type: ignore[arg-type]


class Voices(Casting):
    """Gives a stretch of each block another voice, by the throw of a die."""

    def __init__(self, die: random.Random) -> None:
        super().__init__(Cast(), "en")
        self._die = die

    def chapter(
        self, blocks: Sequence[Block], number: int
    ) -> tuple[tuple[tuple[int, int, VoiceStyle], ...], ...]:
        found: list[tuple[tuple[int, int, VoiceStyle], ...]] = []
        for block in blocks:
            start = self._die.randint(0, len(block.text))
            end = self._die.randint(start, len(block.text))
            found.append(((start, end, VoiceStyle("", "tono", 1.2)),) if start < end else ())
        return tuple(found)


def assert_whole(plan: NarrationPlan) -> None:
    for part in plan.parts:
        check_script(part.script)
        assert part.script.source == "\n\n".join(block.text for block in part.chapter.blocks)
        starts = [segment.span[0] for segment in part.script.segments if segment.spans]
        assert starts == sorted(starts)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_every_character_of_any_document_is_accounted_for_once(first: int) -> None:
    for seed in range(first, first + 20):
        chance = Chance(seed)
        document, ways = chance.document(), chance.ways()
        limit = chance.die.choice([20, 60, 400])
        languages = chance.die.choice([("en",), ("en", "fr", "es")])
        casting = Voices(chance.die) if chance.die.random() < 0.4 else None
        try:
            plan = build_plan(
                document, terms(limit, *languages), language="en", content=ways,
                casting=casting,
            )  # fmt: skip
        except UnspeakableTextError:
            continue
        assert_whole(plan)
        moved = move_notes(document, ways)
        assert sum(one.num_characters for one in moved.chapters) == sum(
            one.num_characters for one in document.chapters
        )


def test_the_tab_at_the_end_of_a_part_of_a_row_is_told_once() -> None:
    rows = "one\t\tthree\n" + "\t".join(f"a longer cell, number {n}," for n in range(20))
    table = Document(Metadata(), (Chapter("", (Block(rows, "table"),)),))
    assert_whole(build_plan(table, terms(60), language="en"))


def test_a_word_that_announces_and_what_it_announces_may_be_two_segments() -> None:
    picture = Document(Metadata(), (Chapter("", (Block("1984", "image"),)),))
    plan = build_plan(picture, terms(20), language="en")
    assert [segment.utterance.text for segment in plan.segments] == [
        "Image:",
        "nineteen eighty-four",
    ]
    assert_whole(plan)


def test_what_is_said_for_one_sign_may_take_several_lines() -> None:
    script = prepare(f"[[x|{'a long saying ' * 20}]] it is.", SpeechOptions(max_chars=60))
    check_script(script)
    assert any(not segment.spans for segment in script.segments)
    assert all(segment.span[1] >= segment.span[0] for segment in script.segments)
