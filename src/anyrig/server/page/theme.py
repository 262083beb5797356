"""The colours of the light and the dark theme, and the style sheet.

Every pair of text and background that the page uses has a contrast of 4.5 to 1 (WCAG AA).
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
ASSETS = Path(__file__).parent / "assets"


def _declare(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


@lru_cache
def css() -> str:
    """The style sheet; `data-theme` on the root element is auto, light or dark."""
    dark = f"{_declare(DARK)}color-scheme:dark"
    return (
        f":root{{{_declare(LIGHT)}color-scheme:light}}"
        f":root[data-theme=dark]{{{dark}}}"
        f"@media (prefers-color-scheme:dark){{:root[data-theme=auto]{{{dark}}}}}"
        + (ASSETS / "style.css").read_text(encoding="utf-8")
    )


@lru_cache
def plain_css() -> str:
    """The style sheet of pages without NiceGUI, which may fetch nothing before the login.

    They include NiceGUI's font, so that they look like the others.
    """
    found = find_spec("nicegui")
    static = Path(found.origin).parent / "static" if found and found.origin else Path()
    try:
        faces = (static / "fonts.css").read_text(encoding="utf-8").split("@font-face")
        latin = next(one for one in faces if '"Roboto"' in one and "U+0000-00FF" in one)
        font = (static / latin.partition("url(")[2].partition(")")[0]).read_bytes()
    except (OSError, StopIteration):
        return css()
    data = base64.b64encode(font).decode("ascii")
    face = (f"@font-face{{font-family:Roboto;font-weight:100 900;"
            f"src:url(data:font/woff2;base64,{data}) format('woff2')}}")  # fmt: skip
    return face + css()
