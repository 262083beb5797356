"""How long the voice rests between two segments."""

from __future__ import annotations

from dataclasses import dataclass


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

    def between(self, kind: str, other: str) -> float:
        """Between two paragraphs of these kinds."""
        if "heading" in (kind, other):
            return self.heading_s
        return self.dialogue_s if kind == other == "dialogue" else self.paragraph_s
