"""Which voice a line is read with: the one named, or an engine's first for the line's language."""

from __future__ import annotations

from collections.abc import Sequence

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech.engine import Utterance, Voice


def choose_voice(voices: Sequence[Voice], line: Utterance) -> Voice:
    """The voice of a line; an error when there is none, or when it speaks another language."""
    if not line.voice:
        return _find_first(voices, line.language)
    for voice in voices:
        if voice.name == line.voice:
            if not _speaks(voice, line.language):
                raise _wrong_language_error(voices, voice, line.language)
            return voice
    raise unknown_voice_error(line.voice, [voice.name for voice in voices])


RECORDING_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg")


def is_recording(voice: str) -> bool:
    """Whether a voice is the path of a recording, by its look: `me.wav`, `voices/me`.

    A plain word is a name, whatever lies in the working directory.
    """
    return "/" in voice or "\\" in voice or voice.lower().endswith(RECORDING_SUFFIXES)


def unknown_voice_error(name: str, known: Sequence[str], *, more: str = "") -> InvalidInputError:
    """The error for a voice that nobody has, with the names nearest to it."""
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    guess = f"Did you mean {' or '.join(near)}? " if near else ""
    listed = ", ".join(known[:12]) + (" ..." if len(known) > 12 else ".")
    return InvalidInputError(
        f"unknown voice {name!r}", hint=f"{guess}Valid names: {listed} {more}".strip()
    )


def base_language(language: str) -> str:
    """`en` of `en-GB`."""
    return language.replace("_", "-").partition("-")[0].lower()


def _speaks(voice: Voice, language: str) -> bool:
    return base_language(language) in map(base_language, (voice.language, *voice.also))


def _find_first(voices: Sequence[Voice], language: str) -> Voice:
    requested = language.replace("_", "-").lower()
    fits = [voice for voice in voices if _speaks(voice, language)]
    if not fits:
        raise _no_voice_error(voices, language)
    return next((voice for voice in fits if voice.language.lower() == requested), fits[0])


def _wrong_language_error(
    voices: Sequence[Voice], voice: Voice, language: str
) -> UnspeakableTextError:
    """A voice was named that speaks another language than the text."""
    if not any(_speaks(each, language) for each in voices):
        return _no_voice_error(voices, language)
    able = ", ".join(each.name for each in voices if _speaks(each, language))
    return UnspeakableTextError(
        f"the voice {voice.name} speaks {voice.language}, but the text is in {language}",
        hint=f"These speak {language}: {able}.",
    )


def _no_voice_error(voices: Sequence[Voice], language: str) -> UnspeakableTextError:
    spoken = (code for voice in voices for code in (voice.language, *voice.also))
    speaks = dict.fromkeys(base_language(code) for code in spoken)
    return UnspeakableTextError(
        f"no installed voice speaks {language or 'this language'}",
        hint=f"Installed: {', '.join(speaks) or 'none'}. `anyrig engines` lists other engines.",
    )
