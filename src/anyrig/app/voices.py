"""The voices of the installed engines, and samples of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.app.engines import choose_engine, find_weights
from anyrig.app.speech import (
    SynthesisOptions,
    open_synthesizer,
    prepare_script,
    resolve_format,
)
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef, WorkError
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.speech import engines
from anyrig.speech.choose import TEST_ENGINE
from anyrig.text.language_names import language_code

if TYPE_CHECKING:
    from anyrig.app.engines import EngineStatus
    from anyrig.app.rig import Rig
    from anyrig.speech.engine import Voice
    from anyrig.speech.segment import Script

DEFAULT_VOICE = "default"
_LOUDNESS = -19.0  # of all, so that voices are compared and not volumes
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?* ]')
SENTENCES = {
    "en": "Good morning. This is how I sound when I read to you.",
    "es": "Buenos días. Así sueno cuando leo para usted.",
    "fr": "Bonjour. Voici ma voix quand je vous fais la lecture.",
    "de": "Guten Morgen. So klinge ich, wenn ich Ihnen vorlese.",
    "it": "Buongiorno. Ecco la mia voce quando leggo per voi.",
    "pt": "Bom dia. É assim que eu soo quando leio para você.",
    "nl": "Goedemorgen. Zo klink ik wanneer ik u voorlees.",
    "ja": "おはようございます。このような声で読み上げます。",
    "zh": "早上好。这就是我朗读时的声音。",
}


@dataclass(frozen=True, kw_only=True)
class VoicesRequest(SynthesisOptions):
    """Voices."""

    language: str = option(
        "", "only voices of this language: en, es, fr", normalize=language_code, metavar="CODE"
    )
    match: str = option("", "only voices with this in their name, or `female`", metavar="WORD")
    samples: Path | None = option(
        None, "write a sample of each voice into this folder", http=False, metavar="FOLDER"
    )
    format: str = option("wav", "format of the samples: wav, flac, mp3, opus, m4a", metavar="NAME")
    text: str = option("", "text of the samples")
    ssml: bool = option(False, "the text is SSML; detected if it begins with <speak")


def list_voices(rig: Rig, request: VoicesRequest) -> list[Voice]:
    """The voices of the named engine, or of every engine that is installed."""
    found: list[Voice] = []
    for name in [request.engine] if request.engine else engines.list_names():
        if not request.engine and name == TEST_ENGINE:
            continue
        try:
            found += find_weights(rig, request, name, engines.engine_class(name)).voices
        except AnyrigError:
            if request.engine:
                raise
    voices = [voice for voice in found if _matches(voice, request)]
    if not voices:
        raise InvalidInputError(
            "no installed voice matches", hint="`anyrig engines` lists what can be installed."
        )
    return voices


class VoiceSample(NamedTuple):
    """What a voice says in a sample."""

    voice: str
    text: str
    language: str


def find_sample(
    installed: Sequence[EngineStatus], engine: str, voice: str, language: str = ""
) -> VoiceSample | None:
    """The sample of a voice of an engine; None if there is no such voice.

    It is in the requested language if the voice speaks that, else in its own. `default` is the
    engine's first voice for the language.
    """
    base = language.lower().partition("-")[0]
    voices = [one for status in installed if status.info.name == engine for one in status.voices]
    named = [one for one in voices if one.name == voice]
    if voice == DEFAULT_VOICE:
        named = [one for one in voices if speaks(one, base)] or voices
    if not named:
        return None
    found = named[0]
    spoken = [code for code in (found.language, *found.also) if code.partition("-")[0] == base]
    chosen = spoken[0] if spoken else found.language
    text = SENTENCES.get(chosen.partition("-")[0]) or f"{found.title or found.name}."
    return VoiceSample(found.name, text, chosen)


@dataclass(frozen=True)
class LanguageCheck:
    """Whether a voice speaks the language of a text."""

    language: str
    """Of the text; empty if that is not sure."""
    is_spoken: bool
    voices: tuple[Voice, ...]
    """Those that speak it, if the voice does not."""


def check_language(
    installed: Sequence[EngineStatus], text: str, engine: str, voice: str
) -> LanguageCheck:
    """Compare the language of a text with those of a voice."""
    from anyrig.text.language import detect

    language = detect(text, default="").language.partition("-")[0]
    voices = [one for status in installed for one in status.voices if one.engine != TEST_ENGINE]
    own = next((one for one in voices if (one.engine, one.name) == (engine, voice)), None)
    if not language or own is None or speaks(own, language):
        return LanguageCheck(language, True, ())
    return LanguageCheck(language, False, tuple(one for one in voices if speaks(one, language)))


def speaks(voice: Voice, language: str) -> bool:
    """Whether a voice speaks a language, by its code without a region."""
    return any(code.partition("-")[0] == language for code in (voice.language, *voice.also))


def _matches(voice: Voice, request: VoicesRequest) -> bool:
    word = (request.match or request.voice).lower()
    parts = f"{voice.name} {voice.title} {voice.gender}".lower().split()
    fits = not word or word in voice.name.lower() or any(part.startswith(word) for part in parts)
    language = request.language.lower()
    return fits and any(code.lower().startswith(language) for code in (voice.language, *voice.also))


def write_voice_samples(rig: Rig, request: VoicesRequest, on_event: OnEvent) -> list[Path]:
    """Write a file for each voice, in which it says a sentence in its language."""
    assert request.samples is not None
    voices, format = list_voices(rig, request), resolve_format(request.format)
    if request.samples.exists() and not request.samples.is_dir():
        raise InvalidInputError(
            f"{request.samples} is a file",
            hint=Message("{samples} must be a folder.", samples=OptionRef("samples")),
        )
    request.samples.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name in dict.fromkeys(voice.engine for voice in voices):
        own = [voice for voice in voices if voice.engine == name]
        one = replace(request, engine=name, voice="", format=format, cluster="no")
        for path in _sample_engine(rig, one, request.samples, own, on_event):
            written.append(path)
            on_event(ProgressEvent("speaking", len(written), len(voices), path.stem))
    if not written:
        raise WorkError("no sample could be made", hint="The warnings say why.")
    return written


def _sample_engine(
    rig: Rig, request: VoicesRequest, folder: Path, voices: Sequence[Voice], on_event: OnEvent
) -> Iterator[Path]:
    """Each voice speaks its own language, or the requested one."""
    engine = choose_engine(rig, request)
    scripts: list[tuple[Voice, Script]] = []
    for voice in voices:
        language = request.language or voice.language
        text = request.text or SENTENCES.get(language.partition("-")[0])
        if text is None:
            message = Message(
                "{name}: no sentence in {language}; pass {text}",
                name=voice.name,
                language=language,
                text=OptionRef("text"),
            )
            on_event(WarningEvent(message))
            continue
        script = prepare_script(rig, request, engine, text, voice=voice.name, language=language)
        scripts.append((voice, script))
    length = sum(len(script.source) for _, script in scripts)
    with open_synthesizer(rig, request, engine, length, None) as synthesizer:
        read = synthesizer.read_scripts([script for _, script in scripts])
        for (voice, _), parts in zip(scripts, read, strict=True):
            failed = [part.failure.message for part in parts if part.failure is not None]
            if failed:
                on_event(WarningEvent(f"{voice.name}: {failed[0]}"))
                continue
            name = _FORBIDDEN.sub("_", voice.name)
            path = folder / f"{engine.name}-{name}.{request.format}"
            from anyrig.speech.chunks import write_takes

            write_takes(path, parts, synthesizer.rate, _LOUDNESS)
            yield path
