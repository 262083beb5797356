"""What the attributes of SSML mean in figures."""

from __future__ import annotations

import re

LONGEST_S = 10.0
"""A break is no longer than this, so that a slip of the pen does not make an hour of silence."""
EMPHASIS = {"strong": 0.85, "moderate": 0.92, "none": 1.0, "reduced": 1.08}
_RATES = {
    "x-slow": 0.6, "slow": 0.8, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.5,
}  # fmt: skip
_STRENGTHS = {
    "none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.2,
}  # fmt: skip
_SLOWEST, _FASTEST = 0.25, 4.0
_TIME = re.compile(r"\s*\+?(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*(ms|s)\s*")
_RATE = re.compile(r"\s*([+-]?)(\d{1,6}(?:\.\d{0,6})?|\.\d{1,6})\s*(%?)\s*")


def silence_s(time: str | None, strength: str | None) -> float | None:
    """How long a break is; None when it is not understood."""
    if time is None:
        return _STRENGTHS.get(strength or "medium")
    found = _TIME.fullmatch(time)
    return float(found[1]) * (0.001 if found[2] == "ms" else 1.0) if found else None


def rate(written: str) -> float | None:
    """How much faster: a word, `90%` of the usual, `+10%` above it, or a factor."""
    if written.strip() in _RATES:
        return _RATES[written.strip()]
    found = _RATE.fullmatch(written)
    if not found:
        return None
    value = float(found[2]) * (0.01 if found[3] else 1.0)
    if found[1]:
        value = 1.0 + (value if found[1] == "+" else -value)
    return value if value > 0 else None


def bounded(factor: float) -> float:
    """A rate that a voice can still be asked for."""
    return round(min(_FASTEST, max(_SLOWEST, factor)), 4)
