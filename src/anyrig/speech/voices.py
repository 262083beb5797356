"""Which voice a line is read with: the one named, or an engine's first for the line's language."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from anyrig.errors import BadInput, CannotSpeak
from anyrig.speech.protocol import Line, Voice


def pick(voices: Sequence[Voice], line: Line) -> Voice:
    """The voice of a line; an error when there is none, or when it speaks another language."""
    if not line.voice:
        return _first(voices, line.language)
    for voice in voices:
        if voice.name == line.voice:
            if primary(voice.language) != primary(line.language):
                raise _foreign(voices, line.language)
            return voice
    raise unknown(line.voice, [voice.name for voice in voices])


def unknown(name: str, known: Sequence[str]) -> BadInput:
    """The error for a voice that nobody has, with the names nearest to it."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    guess = f"Did you mean {' or '.join(near)}? " if near else ""
    listed = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return BadInput(f"no voice {name!r}", hint=f"{guess}There are: {listed}.")


def primary(language: str) -> str:
    """`en` of `en-GB`."""
    return language.replace("_", "-").partition("-")[0].lower()


def _first(voices: Sequence[Voice], language: str) -> Voice:
    wanted = language.replace("_", "-").lower()
    fits = [voice for voice in voices if primary(voice.language) == primary(language)]
    if not fits:
        raise _foreign(voices, language)
    return next((voice for voice in fits if voice.language.lower() == wanted), fits[0])


def _foreign(voices: Sequence[Voice], language: str) -> CannotSpeak:
    speaks = dict.fromkeys(primary(voice.language) for voice in voices)
    return CannotSpeak(
        f"no voice here speaks {language or 'a language without a name'}",
        hint=f"These speak {', '.join(speaks) or 'nothing'}; `anyrig engines` lists the others.",
    )
