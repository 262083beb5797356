"""Two ranked lists as one: by the places in them, as products and word counts have no common scale.

A text has 1 / (60 + place) from each list it stands in, the reciprocal rank fusion of Cormack,
Clarke and Büttcher.
"""

from __future__ import annotations

from collections.abc import Sequence

K = 60
VECTORS, WORDS = 1.0, 1.0
"""What a place in each list weighs."""


def fused(
    by_vectors: Sequence[int], by_words: Sequence[int], mode: str = "hybrid"
) -> list[tuple[int, float]]:
    """Texts with their scores, the best first; 1 is the first place in every list asked."""
    weights = {"vectors": (1.0, 0.0), "keywords": (0.0, 1.0)}.get(mode, (VECTORS, WORDS))
    scores: dict[int, float] = {}
    for weight, order in zip(weights, (by_vectors, by_words), strict=True):
        for place, text in enumerate(order, 1):
            scores[text] = scores.get(text, 0.0) + weight / (K + place)
    best = sum(weights) / (K + 1)
    return sorted(
        ((text, score / best) for text, score in scores.items() if score),
        key=lambda pair: (-pair[1], pair[0]),
    )
