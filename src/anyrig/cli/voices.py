"""`anyrig voices`: every voice that is here, and a sample of each."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import compute, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.deliver import checked_format, write_samples
from anyrig.cli.show import Progress, print_json, print_warning, table
from anyrig.errors import AnyrigError, InvalidInputError, WorkError
from anyrig.speech import engines
from anyrig.speech.protocol import Voice
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.speech.maker import Spoken
    from anyrig.speech.script import Script

HELP = """List the voices of every engine that is ready, or of one (--engine), of a language
(--language) or by name (--match). With --samples FOLDER each says a sentence in its
language into a file there, named engine-voice.wav. `anyrig engines get kokoro` fetches
more voices; `anyrig engines` says what else can be got."""
_LOUDNESS = -19.0  # all alike, so that voices are compared and not volumes
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


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("--samples", metavar="FOLDER", help="write a sample of each voice there")
    parser.add_argument(
        "--format", metavar="NAME", default="wav", help="of the samples: wav, flac, mp3, opus, m4a"
    )
    parser.add_argument("--text", metavar="TEXT", help="what the samples say")
    parser.add_argument(
        "--match", metavar="WORD", help="only voices with this in their name, or `female`"
    )
    voicing.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """List, and write samples."""
    context = Context(options)
    found = [voice for voice in _voices(context) if _wanted(voice, options)]
    if not found:
        raise InvalidInputError(
            "no such voice is here", hint="`anyrig engines` says what can be got."
        )
    if options.samples:
        return _samples(context, found, Path(options.samples).expanduser())
    if options.json:
        print_json({"voices": [asdict(voice) for voice in found]})
        return 0
    rows = [["voice", "language", "engine", "", "licence"]]
    for voice in found:
        title = ", ".join(filter(None, (voice.title, voice.gender)))
        more = f" +{len(voice.also)}" if voice.also else ""
        rows.append([voice.name, voice.language + more, voice.engine, title, voice.licence])
    print(table(rows))
    if not options.engine and not _is_ready(context, "kokoro"):
        print("\nMore: `anyrig engines get kokoro` fetches 37 voices (26 MB).")
    return 0


def _is_ready(context: Context, name: str) -> bool:
    try:
        speaker.found(context, name, engines.engine_class(name))
    except AnyrigError:
        return False
    return True


def _voices(context: Context) -> list[Voice]:
    named = context.options.engine
    found: list[Voice] = []
    for name in [named] if named else engines.names():
        if not named and name == "tone":
            continue
        try:
            found += speaker.found(context, name, engines.engine_class(name)).voices
        except AnyrigError:
            if named:
                raise
    return found


def _wanted(voice: Voice, options: argparse.Namespace) -> bool:
    word = (options.match or options.voice or "").lower()
    told = f"{voice.name} {voice.title} {voice.gender}".lower().split()
    fits = not word or word in voice.name.lower() or any(part.startswith(word) for part in told)
    language = (options.language or "").lower()
    return fits and any(code.lower().startswith(language) for code in (voice.language, *voice.also))


def _samples(context: Context, found: Sequence[Voice], folder: Path) -> int:
    checked_format(None, context.options.format)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file", hint="--samples names a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with Progress(len(found), "voice") as progress:
        for name in dict.fromkeys(voice.engine for voice in found):
            own = [voice for voice in found if voice.engine == name]
            written += _of_engine(context, name, own, folder, progress)
    if not written:
        raise WorkError("no sample could be made", hint="The warnings above say why.")
    if context.options.json:
        print_json({"folder": str(folder), "samples": [path.name for path in written]})
    else:
        print(f"{folder}: {pluralize(len(written), 'sample')}")
    return 0


def _of_engine(
    context: Context, name: str, voices: Sequence[Voice], folder: Path, progress: Progress
) -> Iterator[Path]:
    context.options.engine, context.options.voice = name, None
    engine = speaker.chosen(context)
    pairs = list(_scripts(context, engine, voices))
    segments = [segment for _, script in pairs for segment in script.segments]
    length = sum(len(segment.text) for segment in segments)
    with voicing.studio(context, engine, length, None) as studio:
        takes = studio.takes(segments)
        for voice, script in pairs:
            progress.step(f"{name}, {voice.name}")
            parts = [next(takes) for _ in script.segments]
            progress.done()
            path = folder / f"{name}-{_file_name(voice.name)}.{context.options.format}"
            if _written(path, parts, studio.rate, voice, context.options.format):
                yield path


def _scripts(
    context: Context, engine: speaker.Chosen, voices: Sequence[Voice]
) -> Iterator[tuple[Voice, Script]]:
    """What each voice says, in its language or in the one that was asked for."""
    for voice in voices:
        language = context.options.language or voice.language
        text = context.options.text or SENTENCES.get(language.partition("-")[0])
        if text is None:
            print_warning(f"{voice.name}: no sentence in {language}; --text gives one")
            continue
        yield voice, voicing.script(context, engine, text, voice=voice.name, language=language)


def _file_name(voice: str) -> str:
    return re.sub(r'[\x00-\x1f<>:"/\\|?* ]', "_", voice)


def _written(path: Path, parts: Sequence[Spoken], rate: int, voice: Voice, format: str) -> bool:
    from anyrig.speech.synthesise import chunk_of

    failed = [part.failure.message for part in parts if part.failure is not None]
    if failed:
        print_warning(f"{voice.name}: {failed[0]}")
        return False
    chunks = [chunk_of(part, rate, 0).samples for part in parts]
    write_samples(path, format, rate, chunks, loudness=_LOUDNESS)
    return True
