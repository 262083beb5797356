"""How near a passage has to be to a question to be shown.

By its words a passage is found or not. By its vector every passage is found: something is nearest
to any question, however far. So a passage that has no word of the question is shown only where its
cosine is above a floor of the model, and not far below the best.

Chosen on 44 labelled questions among 280 passages, and 24 questions that none of them answers, some
of them no words at all, and counted on the same ones: others will fare somewhat worse. Of ten hits
each, three are left on average. By words and meaning together:

    model           floor   answers found, before and after   unanswered questions with no hit
    minilm          0.24    44, 42 of 44                      19 of 24
    multilingual    0.19    42, 40 of 44                      19 of 24
    hashing         0.36    28, 27 of 44                      21 of 24

No answer of minilm is below 0.72 of the best cosine, and two of multilingual are below 0.68. Where
nothing is near enough, the nearest is told as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FLOORS = {"minilm": 0.24, "all-MiniLM-L6-v2": 0.24, "multilingual": 0.19, "hashing": 0.36}
"""Cosines by the name of the model; for another, nothing is known but the share of the best."""
OF_BEST = 0.6


def floor(model: str) -> float:
    """The cosine below which passages of a model have nothing to do with a question."""
    return FLOORS.get(model, -1.0)


def near(
    order: Sequence[tuple[int, float]],
    by_words: Mapping[int, float],
    similar: Mapping[int, float],
    least: float,
) -> list[tuple[int, float]]:
    """Those of the texts found that are worth showing, in their order.

    Args:
        order: texts with their scores.
        by_words: those that have a word of the question; they stay.
        similar: cosines.
        least: the cosine that the others must have.
    """
    least = max(least, OF_BEST * max(similar.values(), default=0.0))
    return [
        (text, score) for text, score in order
        if text in by_words or similar.get(text, least) >= least
    ]  # fmt: skip
