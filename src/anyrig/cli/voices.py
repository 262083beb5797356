"""`anyrig voices`: every voice that is here, and a sample of each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from anyrig.cli import compute, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.deliver import checked_format, write_samples
from anyrig.cli.show import Progress, print_json, print_warning, table
from anyrig.errors import AnyrigError, BadInput
from anyrig.speech import engines
from anyrig.speech.protocol import Voice
from anyrig.units import plural

HELP = """List the voices of every engine that is ready, or of one. With --samples FOLDER
each says a sentence in its language into a file there, named engine-voice.wav."""
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
    parser.add_argument("--match", metavar="WORD", help="only voices whose name holds this")
    voicing.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """List, and write samples."""
    context = Context(options)
    found = [voice for voice in _voices(context) if _wanted(voice, options)]
    if not found:
        raise BadInput("no such voice is here", hint="`anyrig engines` says what can be got.")
    if options.samples:
        return _samples(context, found, Path(options.samples).expanduser())
    if options.json:
        print_json({"voices": [asdict(voice) for voice in found]})
        return 0
    rows = [["voice", "language", "engine", "", "licence"]]
    for voice in found:
        title = ", ".join(filter(None, (voice.title, voice.gender)))
        rows.append([voice.name, voice.language, voice.engine, title, voice.licence])
    print(table(rows))
    return 0


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
    fits = word in voice.name.lower() or word in voice.title.lower()
    return fits and (not options.language or voice.language.startswith(options.language))


def _samples(context: Context, found: Sequence[Voice], folder: Path) -> int:
    checked_format(None, context.options.format)
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    with Progress(len(found), "voice") as progress:
        for name in dict.fromkeys(voice.engine for voice in found):
            own = [voice for voice in found if voice.engine == name]
            written += _of_engine(context, name, own, folder, progress)
    print(f"{folder}: {plural(written, 'sample')}")
    return 0


def _of_engine(
    context: Context, name: str, voices: Sequence[Voice], folder: Path, progress: Progress
) -> int:
    from anyrig.speech.script import Script
    from anyrig.speech.synthesise import chunk_of

    context.options.engine = name
    engine = speaker.chosen(context)
    pairs = []
    for voice in voices:
        text = context.options.text or SENTENCES.get(voice.language.partition("-")[0])
        if text is None:
            print_warning(f"{voice.name}: no sentence in {voice.language}; --text gives one")
            continue
        script: Script = voicing.script(
            context, engine, text, voice=voice.name, language=voice.language
        )
        pairs.append((voice, script))
    segments = [segment for _, script in pairs for segment in script.segments]
    with voicing.studio(context, engine, 100 * len(segments), None) as studio:
        takes = studio.takes(segments)
        for voice, script in pairs:
            progress.step(voice.name)
            parts = [next(takes) for _ in script.segments]
            progress.done()
            failed = [part.failure.said for part in parts if part.failure is not None]
            if failed:
                print_warning(f"{voice.name}: {failed[0]}")
                continue
            chunks = [chunk_of(part, studio.rate, 0).samples for part in parts]
            path = folder / f"{name}-{voice.name}.{context.options.format}"
            write_samples(path, context.options.format, studio.rate, chunks, loudness=-19.0)
    return len(pairs)
