"""`anyrig voices add`, `show`, `remove` and `nearest`: voices from samples."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from anyrig.app.rig import Rig
from anyrig.app.speech import SynthesisOptions
from anyrig.app.voice_samples import (
    AddedVoice,
    AddVoiceRequest,
    NearestVoiceRequest,
    SampleOptions,
    add_voice,
    describe_voice,
    find_nearest_voices,
    remove_sample_voice,
)
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, format_table, print_json
from anyrig.cli.prompts import can_ask, confirm
from anyrig.options import list_options

ACTIONS = {"add": "NAME FILE", "show": "NAME", "remove": "NAME", "nearest": "FILE"}
"""Each with the words that follow it."""
_QUESTION = (
    "Did the person whose voice this is agree that it is used to synthesise speech?"
    " Your answer is recorded beside the voice."
)


def add_sample_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of these actions that listing voices does not have."""
    add_flags(parser, AddVoiceRequest, exclude=("name", "sample", *list_options(SampleOptions)))
    add_flags(parser, NearestVoiceRequest, exclude=("sample", *list_options(SynthesisOptions)))


def run_action(
    rig: Rig, action: str, words: Sequence[str], arguments: argparse.Namespace,
    printer: EventPrinter,
) -> int:  # fmt: skip
    if action == "nearest":
        return _nearest(rig, Path(words[0]), arguments, printer)
    if action == "add":
        return _add(rig, words[0], Path(words[1]), arguments, printer)
    options = rig.request(SampleOptions, **read_flags(arguments, SampleOptions))
    if action == "show":
        return _show(rig, words[0], options, as_json=arguments.json)
    engine = remove_sample_voice(rig, words[0], options)
    printer.pause()
    if arguments.json:
        print_json({"removed": words[0], "engine": engine})
    else:
        print(f"Removed the voice {words[0]} of {engine}.")
    return 0


def _add(
    rig: Rig, name: str, sample: Path, arguments: argparse.Namespace, printer: EventPrinter
) -> int:
    def ask_consent() -> str:
        printer.pause()
        return input("Your name: ") if can_ask() and confirm(_QUESTION) else ""

    given = read_flags(arguments, AddVoiceRequest) | {"name": name, "sample": sample}
    added = add_voice(rig, rig.request(AddVoiceRequest, **given), printer, ask_consent=ask_consent)
    printer.pause()
    if arguments.json:
        print_json(added.to_json())
        return 0
    print(_format_checks(added))
    print(f"Added the voice {added.name} to {added.engine}.")
    print(f'Try it: anyrig speak --engine {added.engine} --voice {added.name} "Hello."')
    return 0


def _show(rig: Rig, name: str, options: SampleOptions, *, as_json: bool) -> int:
    voice, added = describe_voice(rig, name, options)
    if as_json:
        print_json({**asdict(voice), "sample": added.to_json() if added else None})
        return 0
    rows = [
        ["voice", voice.name],
        ["engine", voice.engine],
        ["language", ", ".join((voice.language, *voice.also))],
    ]
    rows += [["title", voice.title]] if voice.title else []
    rows += [["licence", voice.licence]] if voice.licence else []
    if added is not None:
        rows += [
            ["sample", f"{added.file}, {added.duration_s:g} s, sha256 {added.sample_sha256}"],
            ["consent", f"declared by {added.consent_by} at {added.consent_at}"],
        ]
    print(format_table(rows))
    if added is not None:
        print(_format_checks(added))
    return 0


def _format_checks(added: AddedVoice) -> str:
    states = {True: "ok", False: "failed", None: "not checked"}
    rows = [["check", "", ""]]
    rows += [[one["name"], states[one["passed"]], one["measured"]] for one in added.checks]
    return format_table(rows)


def _nearest(rig: Rig, sample: Path, arguments: argparse.Namespace, printer: EventPrinter) -> int:
    given = {**read_flags(arguments, NearestVoiceRequest), "sample": sample}
    found = find_nearest_voices(rig, rig.request(NearestVoiceRequest, **given), printer)
    printer.pause()
    if arguments.json:
        print_json({"nearest": [asdict(one) for one in found]})
        return 0
    rows = [["nearest voice", "engine", "likeness"]]
    rows += [[one.voice, one.engine, f"{one.likeness:.2f}"] for one in found]
    print(format_table(rows))
    print("\nThese are the voices there are, compared with the sample; none is made from it.")
    return 0
