"""Pages drawn by code, so that what stands on them is known to the letter.

The text is drawn with a font that Debian installs with any browser; English also with the one that
comes inside Pillow, which has no accents.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

FONTS = Path("/usr/share/fonts/truetype/dejavu")
SERIF = str(FONTS / "DejaVuSerif.ttf")
SANS = str(FONTS / "DejaVuSans.ttf")
has_fonts = pytest.mark.system("fonts-dejavu-core", SERIF)

TEXTS = {
    "en": "The two engineers met every Friday at 7:30 in the small café beside the station. \"It"
    " won't last,\" said one of them; the other only smiled, and paid (£4.20 for both). Why should"
    " it not? They had built 16 bridges since 1971, and every one of them was still standing!"
    " Their first, a narrow thing of oak & iron, crossed a stream that nobody had ever named.",
    "es": "¿Quién escribió esta página? Mi abuelo, que vivió en Cádiz hasta los 82 años, la guardó"
    " en un cajón. ¡Qué alegría encontrarla! «El corazón no envejece», decía; y también: «¡Nunca"
    " vendas el piano!». Según él, ningún pingüino cantaría así. La señora Núñez, más prudente,"
    " pagó 1.250,75 € y se marchó sin decir adiós. ¿No es extraño? El niño soñó con peces de oro.",
    "fr": "Où étiez-vous, demanda le garçon, quand la cloche a sonné ? « Près de l'église », dit sa"
    " sœur ; elle avait déjà reçu la lettre du 14 août. Noël approchait, l'hôtel était plein, et le"
    " maître d'œuvre cherchait une clé sous le paillasson. Ça coûte 2,50 € la pièce, même à crédit."
    " Il n'y avait là ni forêt ni château : peut-être s'était-on trompé d'île. L'âme naïve espère.",
}  # fmt: skip


def font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """A font by its file; Pillow's own without one."""
    made = ImageFont.truetype(name, size) if name else ImageFont.load_default(size=size)
    assert isinstance(made, ImageFont.FreeTypeFont)
    return made


def wrapped(text: str, drawn: ImageFont.FreeTypeFont, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and drawn.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def page(
    text: str, *, dpi: int = 200, name: str = SERIF, points: float = 11, length: int = 0,
    inches: float = 8.27,
) -> tuple[Image.Image, str]:  # fmt: skip
    """A page with a text, and the text in its lines; `length` repeats it up to so many letters."""
    while len(text) < length:
        text = f"{text} {text}"
    text = text[:length].rsplit(" ", 1)[0] if length else text
    size = round(points * dpi / 72)
    drawn = font(name, size)
    margin = round(0.7 * dpi)
    lines = wrapped(text, drawn, inches * dpi - 2 * margin)
    height = 2 * margin + round(len(lines) * size * 1.45)
    image = Image.new("L", (round(inches * dpi), height), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((margin, margin + number * size * 1.45), line, font=drawn, fill=0)
    return image, "\n".join(lines)


def noisy(
    image: Image.Image, *, seed: int = 1, sigma: float = 20, specks: float = 0.01
) -> Image.Image:
    dice = np.random.default_rng(seed)
    values = np.asarray(image, np.float64) + dice.normal(0, sigma, (image.height, image.width))
    where = dice.random(values.shape)
    values[where < specks / 2] = 0
    values[where > 1 - specks / 2] = 255
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def askew(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)


def png(image: Image.Image, form: str = "PNG", **options: int) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def error(wanted: str, found: str) -> float:
    """Characters to insert, drop or change, as a share of those wanted; white counts as one."""
    one, other = " ".join(wanted.split()), " ".join(found.split())
    row = np.arange(len(one) + 1)
    for number, char in enumerate(other, 1):
        same = np.array([char != each for each in one], np.int64)
        new = np.minimum(row[1:] + 1, row[:-1] + same)
        best = np.concatenate([[number], new]) - np.arange(len(row))
        row = np.minimum.accumulate(best) + np.arange(len(row))
    return int(row[-1]) / max(1, len(one))
