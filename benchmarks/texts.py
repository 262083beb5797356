"""Texts that benchmarks speak, embed and index: passages of a novel, and numbered sentences."""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.harness import ROOT

_WORDS = "tide clock lamp stone bell rope sail gull sand harbour lantern winter".split()


def read_novel() -> str:
    """The first chapters of Alice in Wonderland."""
    return (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")


def sample_passages(
    count: int, length: Callable[[random.Random], int], rng: random.Random
) -> list[str]:
    """Passages from random places of the novel; `length` draws the number of words of each."""
    words = read_novel().split()
    passages = []
    for _ in range(count):
        size = length(rng)
        start = rng.randrange(len(words) - size)
        passages.append(" ".join(words[start : start + size]))
    return passages


def draw_length(mean: float, spread: float, longest: int) -> Callable[[random.Random], int]:
    """Lognormal numbers of words: most passages are short, some long."""
    return lambda rng: min(longest, max(3, int(rng.lognormvariate(mean, spread))))


def numbered_book(num_sentences: int, per_chapter: int) -> str:
    """A plain text in chapters, in which no sentence occurs twice."""
    chapters: list[list[str]] = []
    for number in range(num_sentences):
        if number % per_chapter == 0:
            chapters.append([f"CHAPTER {len(chapters) + 1}"])
        one, other = _WORDS[number % 12], _WORDS[(number * 7 + 3) % 12]
        chapters[-1].append(f"Line {number} tells of the {one} and the {other} by the sea.")
    return "\n\n".join("\n\n".join(chapter) for chapter in chapters)


def numbered_sentence(number: int, tag: str) -> str:
    words = (_WORDS[(number * 5 + place * 7) % 12] for place in range(5))
    return f"Line {number} of the {tag}: {' '.join(words)}"
