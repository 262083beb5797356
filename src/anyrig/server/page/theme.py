"""How the page looks: one small set of tokens, each with its light and its dark value.

Every pair of text and ground that the page uses reaches 4.5 to 1 (WCAG AA); a test reckons it.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "anyrig_theme"
LIGHT = {
    "ground": "#f5f4ef",
    "surface": "#ffffff",
    "sunken": "#edebe3",
    "line": "#d9d5c8",
    "edge": "#7f8580",
    "ink": "#1c2421",
    "soft": "#56605b",
    "accent": "#0e5f56",
    "accent-ink": "#ffffff",
    "accent-soft": "#dcebe6",
    "good": "#1d6a3b",
    "good-soft": "#dff0e3",
    "warn": "#7d4b00",
    "warn-soft": "#f9ebd0",
    "bad": "#a3241c",
    "bad-soft": "#fbe3df",
    "focus": "#0b57d0",
    "shadow": "0 1px 2px rgb(28 36 33 / .05), 0 8px 24px -12px rgb(28 36 33 / .14)",
}
DARK = {
    "ground": "#101513",
    "surface": "#181e1b",
    "sunken": "#0c100e",
    "line": "#2f3834",
    "edge": "#7c8882",
    "ink": "#e9eee9",
    "soft": "#a6b1ab",
    "accent": "#74d4c1",
    "accent-ink": "#05221d",
    "accent-soft": "#173430",
    "good": "#85d7a0",
    "good-soft": "#15301f",
    "warn": "#f0b964",
    "warn-soft": "#36280f",
    "bad": "#ffa396",
    "bad-soft": "#3d1b17",
    "focus": "#a8c7ff",
    "shadow": "0 1px 2px rgb(0 0 0 / .4), 0 8px 24px -12px rgb(0 0 0 / .6)",
}
PAIRS = (
    ("ink", "ground"), ("ink", "surface"), ("ink", "sunken"), ("soft", "ground"),
    ("soft", "surface"), ("soft", "sunken"), ("accent", "surface"), ("accent", "ground"),
    ("accent", "accent-soft"), ("accent-ink", "accent"), ("ink", "accent-soft"),
    ("good", "good-soft"), ("good", "surface"), ("warn", "warn-soft"), ("warn", "surface"),
    ("bad", "bad-soft"), ("bad", "surface"), ("ink", "bad-soft"), ("ink", "warn-soft"),
)  # fmt: skip
"""Text on ground, as the page pairs them."""
ASSETS = Path(__file__).parent / "assets"


def _variables(tokens: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in tokens.items())


def tokens() -> str:
    """The tokens alone; `data-theme` on the root says which: auto, light or dark."""
    dark = _variables(DARK)
    return (
        f":root{{{_variables(LIGHT)}color-scheme:light}}"
        f":root[data-theme=dark]{{{dark}color-scheme:dark}}"
        f"@media (prefers-color-scheme:dark){{:root[data-theme=auto]{{{dark}color-scheme:dark}}}}"
    )


def css() -> str:
    """The tokens and the rules, ready for a `<style>`."""
    sheets = sorted(ASSETS.glob("*.css"))
    return tokens() + "".join(path.read_text(encoding="utf-8") for path in sheets)


@lru_cache
def plain_css() -> str:
    """The same for pages without the framework, which are shown before anybody is let in.

    They may fetch nothing, so the letters that the framework brings are put into the sheet: a door
    in other letters than the house looks like somebody else's. Where there are none, the system's.
    """
    found = find_spec("nicegui")
    static = Path(found.origin).parent / "static" if found and found.origin else Path()
    try:
        faces = (static / "fonts.css").read_text(encoding="utf-8").split("@font-face")
        latin = next(one for one in faces if '"Roboto"' in one and "U+0000-00FF" in one)
        letters = (static / latin.partition("url(")[2].partition(")")[0]).read_bytes()
    except (OSError, StopIteration):
        return css()
    data = base64.b64encode(letters).decode("ascii")
    face = (f"@font-face{{font-family:Roboto;font-weight:100 900;"
            f"src:url(data:font/woff2;base64,{data}) format('woff2')}}")  # fmt: skip
    return face + css()


def contrast(one: str, other: str) -> float:
    """Of two colours, from 1 to 21, as WCAG reckons it."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
