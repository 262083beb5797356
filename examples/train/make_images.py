"""Draw a data set of shapes: `python examples/train/make_images.py [FOLDER]`.

Circles, squares, triangles and stars of any colour, place, size and turn, on a noisy ground: a
folder for each. The same arguments give the same pictures, whatever the machine.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

FOLDER = Path(__file__).resolve().parent / "shapes"
SHAPES = ("circle", "square", "star", "triangle")
_FINE = 4  # drawn so much larger, and made small for smooth edges


def draw(shape: str, number: int, size: int = 32, seed: int = 0) -> Image.Image:
    """One picture of a shape."""
    from PIL import Image, ImageDraw

    chance = random.Random(f"{seed}/{shape}/{number}")
    ground, colour = _colours(chance)
    large = size * _FINE
    image = Image.new("RGB", (large, large), ground)
    pen = ImageDraw.Draw(image)
    radius = large * chance.uniform(0.22, 0.36)
    place = [large * chance.uniform(0.4, 0.6) for _ in range(2)]
    turn = chance.uniform(0, 2 * math.pi)
    if shape == "circle":
        left, top = place[0] - radius, place[1] - radius
        pen.ellipse((left, top, left + 2 * radius, top + 2 * radius), fill=colour)
    else:
        pen.polygon(_corners(shape, place, radius, turn), fill=colour)
    return _noisy(image.resize((size, size), Image.Resampling.BOX), chance)


def _colours(chance: random.Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A dark ground and a lighter colour."""
    while True:
        ground, colour = (tuple(chance.randrange(256) for _ in range(3)) for _ in range(2))
        bright = [0.3 * red + 0.6 * green + 0.1 * blue for red, green, blue in (ground, colour)]
        if bright[1] - bright[0] > 70:
            return ground, colour


def _corners(
    shape: str, place: list[float], radius: float, turn: float
) -> list[tuple[float, float]]:
    if shape == "star":
        radii = [radius, radius * 0.42] * 5
    else:
        radii = [radius] * {"square": 4, "triangle": 3}[shape]
    step = 2 * math.pi / len(radii)
    return [
        (
            place[0] + far * math.cos(turn + step * corner),
            place[1] + far * math.sin(turn + step * corner),
        )
        for corner, far in enumerate(radii)
    ]


def _noisy(image: Image.Image, chance: random.Random) -> Image.Image:
    from PIL import Image

    data = bytearray(image.tobytes())
    for place, value in enumerate(data):
        data[place] = min(255, max(0, value + chance.randint(-12, 12)))
    return Image.frombytes("RGB", image.size, bytes(data))


def make(folder: Path, count: int = 200, size: int = 32, seed: int = 0) -> int:
    """So many pictures of each shape; how many there are in all."""
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            draw(shape, number, size, seed).save(folder / shape / f"{number:04}.png")
    return count * len(SHAPES)


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description="Draw a data set of shapes.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="default: %(default)s")
    parser.add_argument("--count", type=int, default=200, help="pictures of each shape (200)")
    parser.add_argument("--size", type=int, default=32, help="pixels of a side (32)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws others (0)")
    asked = parser.parse_args()
    made = make(asked.folder, asked.count, asked.size, asked.seed)
    sys.stdout.write(f"{made} pictures in {asked.folder}\n")


if __name__ == "__main__":
    main()
