"""A text as it will be spoken: its segments in order, and what was left out and why.

Every character of the input is in exactly one segment or in exactly one omission (`check_script`).
A take is cached under its utterance alone, so a change of the lexicon or of one sentence renders
again only what it touches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from anyrig.speech.engine import Utterance

Span = tuple[int, int]
OmissionKind = Literal[
    "space", "markup", "comment", "unsupported", "symbol", "unspeakable", "control",
    # Of books, where a setting says what is done with each:
    "note", "page", "table", "image", "code", "poem", "foreign",
]  # fmt: skip
SegmentKind = Literal["sentence", "heading", "dialogue"]


@dataclass(frozen=True)
class Pauses:
    """Seconds of silence, each after the thing it is named for; all can be set."""

    clause_s: float = 0.12
    """Where a long sentence was cut at a comma, a dash or a colon."""
    sentence_s: float = 0.3
    dialogue_s: float = 0.45
    """Between the speeches of a dialogue, and between the lines of a list."""
    paragraph_s: float = 0.6
    heading_s: float = 0.9
    """Before a heading and after it."""

    def choose(self, kind: str, other: str) -> float:
        """Between two paragraphs of these kinds."""
        if "heading" in (kind, other):
            return self.heading_s
        return self.dialogue_s if kind == other == "dialogue" else self.paragraph_s


@dataclass(frozen=True)
class Omission:
    """Characters that are not spoken."""

    span: Span
    kind: OmissionKind


@dataclass(frozen=True)
class Segment:
    """The unit of work: a sentence, a part of a long one, or several very short ones."""

    utterance: Utterance
    """What the engine is given."""
    spans: tuple[Span, ...]
    """The characters of the input it speaks, in order. Empty if a token is spoken in several
    segments, as a number of many digits: only the first of them has its characters."""
    text: str
    """Those characters, with references such as `&amp;` resolved."""
    spoken: str = ""
    """What is said, for people to read: `five P M.`; the utterance may have IPA for it."""
    kind: SegmentKind = "sentence"
    pause_before_s: float = 0.0
    pause_after_s: float = 0.0
    readings: tuple[tuple[int, int, str], ...] = ()
    """Stretches of `text` that are not read as written: from, to, and what is said for them."""

    @property
    def span(self) -> Span:
        """From its first character to its last; (0, 0) if it has none of its own."""
        return (self.spans[0][0], self.spans[-1][1]) if self.spans else (0, 0)


@dataclass(frozen=True)
class Script:
    """A whole text, ready to be spoken."""

    source: str
    segments: tuple[Segment, ...]
    omissions: tuple[Omission, ...] = ()
    warnings: tuple[str, ...] = ()
    """What could not be done as written, each once."""
    languages: tuple[str, ...] = field(default=())
    """Found in it, in order."""


def check_script(script: Script) -> None:
    """Assert that every character of the input is accounted for exactly once."""
    spans = [span for segment in script.segments for span in segment.spans]
    spans += [omission.span for omission in script.omissions]
    position = 0
    for start, end in sorted(spans):
        assert start == position, f"characters {position} to {start} are lost or spoken twice"
        assert end > start, f"an empty span at {start}"
        position = end
    assert position == len(script.source), f"characters from {position} on are lost"
