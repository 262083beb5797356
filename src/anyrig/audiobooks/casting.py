"""The words of a book by voice: who of the cast speaks each stretch of a chapter.

    casting = Casting(load_cast(Path("cast.toml")))
    voices = casting.list_voice_spans(chapter.blocks, 1)     # for each block

A pure function of the cast and the chapter: nothing is remembered from one chapter to the next, so
a changed chapter changes no other. Headings, tables, notes and the like are the narrator's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anyrig.audiobooks.cast import Cast, CastRule
from anyrig.audiobooks.speakers import AttributedSpeech, attribute_speeches
from anyrig.speech.language import match_language
from anyrig.speech.source_text import VoiceStyle
from anyrig.text.document import Block, Document
from anyrig.text.language import detect

NARRATOR = ""
"""The role of all that nobody says."""
DIALOGUE = "dialogue"
"""Of what somebody says who has no role."""
_TALK = frozenset({"paragraph", "quote"})
_BREAKS = frozenset({"heading", "rule"})
"""Where a conversation ends; a page number or a picture does not end one."""
_EXAMPLE = 80
_SAMPLE = 20_000


class VoiceSpan(NamedTuple):
    """Words of a block in one voice."""

    start: int
    end: int
    role: str
    """A role's name, `dialogue`, or nothing for the narrator."""
    style: VoiceStyle


@dataclass(frozen=True)
class RoleShare:
    """How much of a book somebody speaks."""

    role: str
    voice: str
    num_words: int
    num_speeches: int


@dataclass(frozen=True)
class RoleSuggestion:
    """Somebody who speaks in a book."""

    name: str
    num_speeches: int
    example: str
    """The beginning of the first speech."""


class Casting:
    """Gives a book's words their voices.

    Args:
        cast: From the file.
        language: Of blocks that are not marked; found out for each chapter when empty.
        spoken: What each voice speaks; a voice that is not in it is taken to speak everything.
    """

    def __init__(
        self, cast: Cast, language: str = "", spoken: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.cast = cast
        self._language = language
        self._spoken = spoken or {}

    def can_speak(self, voice: str, language: str) -> bool:
        """Whether a voice can read a paragraph in a language."""
        known = self._spoken.get(voice)
        return known is None or bool(match_language(language, known))

    def list_voice_spans(
        self, blocks: Sequence[Block], number: int
    ) -> tuple[tuple[tuple[int, int, VoiceStyle], ...], ...]:
        """For each block the stretches that another voice than the default one speaks."""
        return tuple(
            tuple((s.start, s.end, s.style) for s in found if s.style != VoiceStyle())
            for found in self.split(blocks, number)
        )

    def split(self, blocks: Sequence[Block], number: int) -> list[tuple[VoiceSpan, ...]]:
        """For each block of a chapter all its stretches, in order and without a gap.

        Args:
            blocks: Of the chapter, in order.
            number: Of the chapter, from 1, as rules count.
        """
        speeches = self._find_speeches(blocks)
        return [
            tuple(self._split_block(block, number, found))
            for block, found in zip(blocks, speeches, strict=True)
        ]

    def count_words(self, document: Document) -> list[RoleShare]:
        """How many words each voice speaks, the most first; roles that never speak have none."""
        words: Counter[tuple[str, str]] = Counter()
        times: Counter[tuple[str, str]] = Counter()
        for number, chapter in enumerate(document.chapters, 1):
            found = self.split(chapter.blocks, number)
            for block, stretches in zip(chapter.blocks, found, strict=True):
                for stretch in stretches:
                    key = (stretch.role, stretch.style.voice)
                    words[key] += len(block.text[stretch.start : stretch.end].split())
                    times[key] += 1
        spoken = {role for role, _ in words}
        silent = [role for role in self.cast.roles if role.name not in spoken]
        shares = [RoleShare(*key, num, times[key]) for key, num in words.most_common()]
        return shares + [RoleShare(role.name, role.style.voice, 0, 0) for role in silent]

    def _find_speeches(self, blocks: Sequence[Block]) -> list[tuple[AttributedSpeech, ...]]:
        def who(name: str) -> str:
            role = self.cast.find_role(name)
            return role.name if role else name

        return _find_speeches(blocks, self._language, who=who, cast=self.cast)

    def _split_block(
        self, block: Block, number: int, speeches: Sequence[AttributedSpeech]
    ) -> Iterable[VoiceSpan]:
        reader = NARRATOR
        style = self.cast.narrator
        rule = self._find_rule(block, number)
        if rule is not None:
            reader, style = rule.role, rule.style
        position = 0
        for each in () if rule is not None and rule.whole else speeches:
            role, own = self._choose_speaker(each.speaker, style)
            if position < each.start:
                yield VoiceSpan(position, each.start, reader, style)
            yield VoiceSpan(each.start, each.end, role, own)
            position = each.end
        if position < len(block.text):
            yield VoiceSpan(position, len(block.text), reader, style)

    def _find_rule(self, block: Block, number: int) -> CastRule | None:
        rules = self.cast.rules if block.kind in _TALK | {"poem", "item"} else ()
        return next((rule for rule in rules if rule.fits(number, block.text)), None)

    def _choose_speaker(self, name: str, narrator: VoiceStyle) -> tuple[str, VoiceStyle]:
        role = self.cast.find_role(name)
        if role is not None:
            return role.name, role.style
        return DIALOGUE, self.cast.dialogue or narrator


def suggest_roles(document: Document, cast: Cast | None = None) -> list[RoleSuggestion]:
    """Who speaks in a book and has no role yet, the most frequent first."""
    cast = cast or Cast()
    times: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for chapter in document.chapters:
        speeches = _find_speeches(chapter.blocks, document.metadata.language, cast=cast)
        for block, found in zip(chapter.blocks, speeches, strict=True):
            for each in found:
                if each.speaker and cast.find_role(each.speaker) is None:
                    times[each.speaker] += 1
                    examples.setdefault(
                        each.speaker, _shorten_example(block.text[each.start : each.end])
                    )
    return [RoleSuggestion(name, num, examples[name]) for name, num in times.most_common()]


def _shorten_example(text: str) -> str:
    if len(text) <= _EXAMPLE:
        return text
    return text[: text.rfind(" ", 1, _EXAMPLE) if " " in text[1:_EXAMPLE] else _EXAMPLE] + " …"


def _find_speeches(
    blocks: Sequence[Block], language: str, *, cast: Cast, who: Callable[[str], str] | None = None
) -> list[tuple[AttributedSpeech, ...]]:
    """The speeches of each block; what stands between and ends no talk is passed over."""
    places = [n for n, block in enumerate(blocks) if block.kind in _TALK | _BREAKS]
    texts = [blocks[n].text if blocks[n].kind in _TALK else None for n in places]
    if not any(texts):
        return [()] * len(blocks)
    language = language or detect("\n\n".join(filter(None, texts))[:_SAMPLE]).language
    codes = [blocks[n].language or language for n in places]
    found: list[tuple[AttributedSpeech, ...]] = [()] * len(blocks)
    talk = attribute_speeches(texts, codes, who=who, genders=cast.genders, names=cast.names)
    for place, speeches in zip(places, talk, strict=True):
        found[place] = speeches
    return found
