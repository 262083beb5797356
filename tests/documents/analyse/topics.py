"""A small folder whose subjects are known, made by code."""

from __future__ import annotations

import random
from pathlib import Path

TOPICS = {
    "gardening": "The garden needs compost and mulch before the tomato seedlings are planted. "
    "Tomato seedlings like warm soil. Slugs eat lettuce at night unless the garden is watched. "
    "Pruning roses in March keeps the rose bushes strong. Compost heaps must be turned. "
    "Rain water is better for seedlings than tap water. Weeds return after every summer shower. "
    "A greenhouse gives seedlings a head start.",
    "astronomy": "The telescope showed four moons of the planet. A space telescope sees galaxies "
    "that no observatory on the ground can see. Stars form in clouds of hydrogen. Astronomers "
    "measured the orbit of a distant planet. The observatory stands in a desert without clouds. "
    "Galaxies collide slowly. The telescope mirror was polished for two years. A comet crosses "
    "the orbit of the planet.",
    "banking": "The bank raised the interest rate on every mortgage. Mortgage lending fell after "
    "the interest rate went up. Inflation worries the central bank. Savers move deposits to "
    "another bank. The loan was repaid early. Credit cards are refused when income is low. "
    "Regulators ask banks to hold more capital. Deposits are insured by the state.",
}


def text_of(topic: str, seed: int) -> str:
    dice = random.Random(f"{topic} {seed}")
    known = [one.strip().rstrip(".") + "." for one in TOPICS[topic].split(". ")]
    return " ".join(dice.sample(known, 5))


def make(folder: Path, each: int = 4) -> dict[str, str]:
    """Files of every subject; by file name, its subject."""
    made = {}
    for topic in TOPICS:
        for number in range(each):
            name = f"{topic[:2]}{number}.txt"
            (folder / name).write_text(text_of(topic, number), encoding="utf-8")
            made[name] = topic
    return made
