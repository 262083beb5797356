"""`anyrig engines`: who can speak here, what the others lack, and how to get it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from anyrig.cli import speaker
from anyrig.cli.context import Context
from anyrig.cli.pick import can_ask
from anyrig.cli.show import Progress, local_fix, paint, print_json, table
from anyrig.errors import AnyrigError, BadInput, MissingPackage, NeedsWeights
from anyrig.speech import engines
from anyrig.speech.protocol import Option, Spec, SpeechEngine
from anyrig.units import bytes_text

HELP = """List the speech engines: which are ready, what the others lack and how to get it,
the licences of code and weights, languages, devices. `show NAME` tells all of one,
with the options that --set takes. `install NAME` makes the environment of an engine
whose packages clash with others. `get NAME` fetches weights from the model hub into
anyrig's own folder, or into --to FOLDER; what was cut off goes on. `remove NAME` removes
both again."""
MIXED = True
_ACTIONS = ("show", "install", "get", "remove")
State = Literal["ready", "needs extra", "needs weights", "broken"]


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
        "words", nargs="*", metavar="WORD", help="show, install, get or remove, and a NAME"
    )
    parser.add_argument("--to", metavar="FOLDER", help="with get: another folder for the weights")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="with get: another repository")
    parser.add_argument("--revision", metavar="NAME", default="main", help="with get: which one")
    parser.add_argument("--model", metavar="FOLDER", help="look for weights in this folder")
    parser.add_argument("--yes", action="store_true", help="agree to licences; do not ask")


def run(options: argparse.Namespace) -> int:
    """List, show, install, get or remove."""
    context = Context(options)
    if not options.words:
        return _list(context)
    action, *names = options.words
    if action not in _ACTIONS:
        if action in engines.names() and not names:
            action, names = "show", [action]
        else:
            raise BadInput(f"no action {action!r}", hint=f"There are: {', '.join(_ACTIONS)}.")
    if len(names) != 1:
        raise BadInput(f"`engines {action}` wants one name", hint=f"anyrig engines {action} NAME")
    kind = engines.engine_class(names[0])
    return {"show": _show, "install": _install, "get": _get, "remove": _remove}[action](
        context, names[0], kind
    )


def row_of(context: Context, name: str) -> Row:
    """How an engine stands."""
    try:
        kind = engines.engine_class(name)
    except AnyrigError as error:
        return Row(Spec(name, error.message, ()), "broken", error.message, error.hint)
    spec = kind.spec
    try:
        found = speaker.found(context, name, kind)
    except NeedsWeights as error:
        return Row(spec, "needs weights", error.message, error.hint)
    except MissingPackage as error:
        return Row(spec, "needs extra", error.message, local_fix(error.hint))
    except AnyrigError as error:
        return Row(spec, "broken", error.message, error.hint)
    return Row(spec, "ready", num_voices=len(found.voices), languages=found.languages)


def _list(context: Context) -> int:
    rows = [row_of(context, name) for name in engines.names()]
    if context.options.json:
        print_json({"engines": [_plain(row) for row in rows]})
        return 0
    lines = [["engine", "state", "languages", "runs on", "code", "weights"]]
    for row in rows:
        lines.append([
            row.spec.name, _state(row), _languages(row), _ways(row.spec),
            row.spec.code_licence, row.spec.weights_licence,
        ])  # fmt: skip
    print(table(lines))
    lacking = [row for row in rows if row.state != "ready"]
    if lacking:
        print()
    for row in lacking:
        print(f"{row.spec.name}: {row.fix}")
    print("\nunverified: the code was run on small models, never with the real weights.")
    return 0


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
    return ", ".join(names[backend] for backend in spec.backends)


# ---------------------------------------------------------------- one engine


def _show(context: Context, name: str, kind: type[SpeechEngine]) -> int:
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
        "licences": f"code {spec.code_licence}, weights {spec.weights_licence}",
        "weights": spec.weights or "come with its packages",
        "hub": spec.repository,
        "can do": _abilities(spec),
    }
    width = max(map(len, facts))
    for label, text in facts.items():
        if text:
            print(f"  {label:<{width}}  {text}")
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
        rows.append([option.name, kind, f"{option.default!s}", option.help])
    print(table(rows))


def _get(context: Context, name: str, kind: type[SpeechEngine]) -> int:
    from anyrig.speech import weights

    options, spec = context.options, kind.spec
    repository = options.repository or spec.repository
    if not repository:
        raise BadInput(
            f"{name} has no repository on the hub",
            hint=spec.weights or "Its weights come with its packages.",
        )
    folder = Path(options.to).expanduser() if options.to else context.folders.models / name
    if spec.weights_licence:
        _agree(options, f"The weights of {name} are under: {spec.weights_licence}.")
    if context.environment.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        raise NeedsWeights(
            f"HF_HUB_OFFLINE is set: {repository} is not fetched", hint=f"Fill {folder} yourself."
        )
    with Progress(1, "weights") as progress:
        paths = weights.fetch(
            repository, folder, revision=options.revision,
            endpoint=context.environment.get("HF_ENDPOINT", ""),
            token=context.environment.get("HF_TOKEN", ""),
            tell=lambda file, done, total: progress.step(
                f"{file}, {bytes_text(done)} of {bytes_text(total)}"
            ),
        )  # fmt: skip
    print(f"{folder}: {len(paths)} files of {repository}")
    return 0


def _agree(options: argparse.Namespace, notice: str) -> None:
    if not agreed(options, notice):
        raise BadInput("not agreed", hint="--yes agrees.")


def agreed(options: argparse.Namespace, notice: str) -> bool:
    """Whether the person says yes to a notice: by a flag, or asked."""
    print(notice, file=sys.stderr)
    if options.yes:
        return True
    if not can_ask():
        raise BadInput("this needs a yes, and nobody can be asked", hint="--yes says it.")
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _install(context: Context, name: str, kind: type[SpeechEngine]) -> int:
    from anyrig.speech.hosting import environments, recipes

    if name not in recipes.NAMES:
        line = local_fix(kind.spec.install) or "nothing: it comes with anyrig"
        raise BadInput(f"{name} needs no environment of its own", hint=f"What it needs: {line}")
    options = context.options
    with Progress(1, "environment") as progress:
        folder = environments.install(
            name, context.folders.environments,
            yes=lambda notice: agreed(options, notice),
            tell=progress.step, environment=context.environment, kind=_torch_kind(context),
        )  # fmt: skip
    print(f"{name} is installed in {folder}.")
    print(f"Next: {row_of(context, name).fix or f'anyrig speak --engine {name} ...'}")
    return 0


def _torch_kind(context: Context) -> Any:
    """For which devices the engine's torch is fetched."""
    for gpu in context.machine.gpus:
        if gpu.vendor == "nvidia":
            return "cuda"
        if gpu.vendor == "amd":
            return "rocm"
    return "cpu"


def _remove(context: Context, name: str, kind: type[SpeechEngine]) -> int:
    import shutil

    from anyrig.speech.hosting import environments, recipes

    weights = context.folders.models / name
    there = [weights] if weights.is_dir() else []
    hosted = name in recipes.NAMES and environments.state(name, context.folders.environments)
    if not there and hosted in (False, "absent"):
        raise BadInput(f"nothing of {name} is here", hint="`anyrig engines` lists what is.")
    _agree(context.options, f"The weights and the environment of {name} will be removed.")
    if there:
        shutil.rmtree(weights)
    if hosted:
        environments.remove(name, context.folders.environments)
    print(f"{name} is removed.")
    return 0
