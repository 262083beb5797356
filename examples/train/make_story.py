"""Write data/harbour.txt: a long, plain made-up chronicle that a small language model can learn.

    python examples/train/make_story.py

The same every time, so that the loss that language.toml states holds.
"""

from __future__ import annotations

import random
from pathlib import Path

PEOPLE = (
    "Ana Bruno Clara Davit Elin Farid Greta Hugo Ines Jon Kaja Leo Mira Nils Olga Pavel".split()
)
BOATS = ["the Heron", "the Old Ferry", "the Marigold", "the Two Sisters", "the Lantern"]
GOODS = ["salt", "rope", "dried fish", "lamp oil", "timber", "honey", "letters", "glass", "wool"]
PLACES = ["the pier", "the lighthouse", "the market", "the boat shed", "the upper road", "the mill"]
WEATHER = ["fog", "a north wind", "steady rain", "thin snow", "a clear sky", "a heavy swell"]
FEELINGS = [
    "was glad",
    "was worried",
    "said nothing",
    "laughed",
    "wrote it down",
    "went home early",
]
MONTHS = ["January", "March", "April", "June", "August", "September", "November", "December"]
FORMS = (
    "On {day} {month} {boat} came in with {count} crates of {good}.",
    "{person} met it at {place}, and {feeling}.",
    "There was {weather} over the harbour until noon.",
    "{person} asked {other} for {count} coils of rope, but there were only {fewer}.",
    "Because of {weather}, {boat} stayed at {place} for {fewer} days.",
    "{person} sold {good} at {place} and {feeling}.",
    "Nobody had seen {other} since {month}; {person} {feeling}.",
    "When the tide turned, {boat} left for the islands with {good} and {more_good}.",
    '"If there is {weather} tomorrow," said {person}, "we will wait at {place}."',
    "{other} counted the crates again: {count}, not {fewer}.",
)


def sentence(chance: random.Random) -> str:
    """One sentence."""
    person, other = chance.sample(PEOPLE, 2)
    good, more_good = chance.sample(GOODS, 2)
    count = chance.randint(4, 40)
    return chance.choice(FORMS).format(
        person=person, other=other, good=good, more_good=more_good,
        boat=chance.choice(BOATS), place=chance.choice(PLACES), weather=chance.choice(WEATHER),
        feeling=chance.choice(FEELINGS), month=chance.choice(MONTHS),
        day=chance.randint(1, 28), count=count, fewer=chance.randint(2, count - 1),
    )  # fmt: skip


def story(num_paragraphs: int = 700, seed: int = 7) -> str:
    """The whole text; sentences begin with a capital."""
    chance = random.Random(seed)
    paragraphs = []
    for number in range(num_paragraphs):
        told = [sentence(chance) for _ in range(chance.randint(3, 6))]
        joined = " ".join(one[0].upper() + one[1:] for one in told)
        head = f"Year {number // 20 + 1}\n\n" if number % 20 == 0 else ""
        paragraphs.append(head + joined)
    return "\n\n".join(paragraphs) + "\n"


if __name__ == "__main__":
    target = Path(__file__).parent / "data" / "harbour.txt"
    target.parent.mkdir(exist_ok=True)
    target.write_text(story(), encoding="utf-8")
