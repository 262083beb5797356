"""`anyrig voices`: the voices of the installed engines, and a sample of each."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from anyrig.app.voices import VoicesRequest, is_installed, list_voices, write_voice_samples
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, format_table, print_json
from anyrig.cli.rig import open_rig
from anyrig.units import pluralize

HELP = """List the voices of every installed engine, or of one (--engine), of a language
(--language) or by name (--match). With --samples FOLDER each says a sentence in its language into a
file there, named engine-voice.wav. `anyrig engines get kokoro` downloads more voices; `anyrig
engines` lists what else can be installed."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, VoicesRequest, exclude=("cluster", "cluster_local"))


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter() as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(VoicesRequest, **read_flags(arguments, VoicesRequest))
        if request.samples is not None:
            written = write_voice_samples(rig, request, printer)
            printer.pause()
            if arguments.json:
                names = [path.name for path in written]
                print_json({"folder": str(request.samples), "samples": names})
            else:
                print(f"{request.samples}: {pluralize(len(written), 'sample')}")
            return 0
        voices = list_voices(rig, request)
    if arguments.json:
        print_json({"voices": [asdict(voice) for voice in voices]})
        return 0
    rows = [["voice", "language", "engine", "", "licence"]]
    for voice in voices:
        title = ", ".join(filter(None, (voice.title, voice.gender)))
        more = f" +{len(voice.also)}" if voice.also else ""
        rows.append([voice.name, voice.language + more, voice.engine, title, voice.licence])
    print(format_table(rows))
    if not request.engine and not is_installed(rig, "kokoro"):
        print("\nMore: `anyrig engines get kokoro` gets 37 voices (26 MB) and what they need.")
    return 0
