"""`anyrig voices`: the voices of the installed engines, a sample of each, and more languages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from anyrig.app.engines import list_offers
from anyrig.app.rig import Rig
from anyrig.app.voice_downloads import (
    InstalledVoice,
    VoiceDownloadRequest,
    download_voice,
    is_downloaded,
    remove_voice,
)
from anyrig.app.voice_samples import MIN_NAME
from anyrig.app.voices import VoicesRequest, list_voices, write_voice_samples
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, PlainEventPrinter, format_table, print_json
from anyrig.cli.prompts import can_ask, confirm
from anyrig.cli.rig import open_rig
from anyrig.cli.voice_samples import ACTIONS, add_sample_flags, run_action
from anyrig.errors import InvalidInputError
from anyrig.results import to_json
from anyrig.speech.language import name_language
from anyrig.units import format_download, format_duration, pluralize

HELP = """List the voices of every installed engine, or of one (--engine), of a language
(--language) or by name (--match). With --samples FOLDER each says a sentence in its language into a
file there, named engine-voice.wav. `get LANGUAGE` (es, fr, it, pt, en) downloads natural voices for
a language into anyrig's own folder, with all that they need, and tries one; an interrupted download
is continued; --from FOLDER takes the files from a folder. `remove LANGUAGE` removes them again.
`add NAME FILE` makes a voice of a recording, for an engine that can; the recording is checked, and
who declares the speaker's consent (--consent-by) is recorded. `show NAME` prints that, `remove
NAME` deletes the voice, `nearest FILE` finds the installed voices that sound most like a recording.
`anyrig engines` lists what else can be installed."""
MIXED = True
RESUME = "What was downloaded is kept: the same command continues."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD",
        help="get LANGUAGE, add NAME FILE, show NAME, nearest FILE, remove LANGUAGE or NAME",
    )  # fmt: skip
    parser.add_argument(
        "--from", metavar="FOLDER", dest="source",
        help="with get: a folder that has the files, where there is no network",
    )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="with remove: do not ask")
    add_flags(parser, VoicesRequest, exclude=("cluster", "cluster_local"))
    add_sample_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    action, names = _read_action(arguments.words)
    if action == "get":
        return _get(arguments, *names)
    if action == "remove" and len(names[0]) < MIN_NAME:  # the code of a language
        return _remove(arguments, *names)
    with EventPrinter() as printer:
        rig = open_rig(arguments, printer)
        if action:
            return run_action(rig, action, names, arguments, printer)
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
    return _list(rig, request, is_json=arguments.json)


def _read_action(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    if not words:
        return "", ()
    action, *names = words
    known = {"get": "LANGUAGE", **ACTIONS}
    if action not in known:
        raise InvalidInputError(
            f"unknown action {action!r}",
            hint=f"Actions: {', '.join(known)}. --match {action} finds voices by name.",
        )
    expected = known[action].split()
    if len(names) != len(expected):
        example = {"get": "es", "add": "anna anna.wav", "nearest": "anna.wav"}.get(action, "anna")
        raise InvalidInputError(
            f"`anyrig voices {action}` takes {' and '.join(expected)}",
            hint=f"anyrig voices {action} {example}",
        )
    return action, names


def _list(rig: Rig, request: VoicesRequest, *, is_json: bool) -> int:
    voices = list_voices(rig, request)
    if is_json:
        print_json({"voices": [asdict(voice) for voice in voices]})
        return 0
    rows = [["voice", "language", "engine", "", "licence"]]
    for voice in voices:
        title = ", ".join(filter(None, (voice.title, voice.gender)))
        more = f" +{len(voice.also)}" if voice.also else ""
        rows.append([voice.name, voice.language + more, voice.engine, title, voice.licence])
    print(format_table(rows))
    others = [code for code in list_offers() if not is_downloaded(rig, code)]
    if others and not (request.engine or request.language or request.match or request.voice):
        print(f"\nMore natural voices: `anyrig voices get CODE` for {', '.join(others)}.")
    return 0


def _get(arguments: argparse.Namespace, language: str) -> int:
    with PlainEventPrinter() as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(VoiceDownloadRequest, language=language, source=arguments.source)
        made = download_voice(rig, request, printer)
    if arguments.json:
        print_json(to_json(made))
    else:
        print(_describe(made))
    return 0


def _describe(made: InstalledVoice) -> str:
    size = format_download(made.downloaded_bytes) if made.downloaded_bytes else "all was there"
    spoken = f"{made.voices[0]} said {made.sentence!r} ({format_duration(made.audio_s)})"
    return (
        f"{made.folder}: {pluralize(len(made.voices), 'voice')} for {name_language(made.language)}"
        f" ({', '.join(made.voices)}; {made.licence}; {size})\n{spoken}\nNext: {made.next_step}"
    )


def _remove(arguments: argparse.Namespace, language: str) -> int:
    def agree(notice: str) -> bool:
        print(notice, file=sys.stderr)
        if not arguments.yes and not can_ask():
            raise InvalidInputError(
                "this needs a confirmation, and there is no terminal to ask on",
                hint="--yes confirms.",
            )
        return arguments.yes or confirm("Continue?")

    rig = open_rig(arguments)
    removed = remove_voice(rig, language, agree)
    if arguments.json:
        print_json({"language": language, "removed": list(map(str, removed))})
    else:
        print("\n".join(f"removed {path}" for path in removed))
    return 0
