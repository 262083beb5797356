"""English words for values, the American way where the ways differ."""

from __future__ import annotations

from anyrig.speech.normalize import words
from anyrig.text.values import Number, Value


def speak(value: Value) -> str:
    """The words for a value."""
    if isinstance(value, Number):
        return words.integer(value.digits, "en").replace(",", "")
    raise TypeError(f"no words for {type(value).__name__}")
