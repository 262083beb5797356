"""`anyrig engines install, get, convert, remove`: what an engine lacks, brought or taken away."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import speaker
from anyrig.cli.context import Context
from anyrig.cli.pick import can_ask
from anyrig.cli.show import Progress, print_json
from anyrig.errors import AnyrigError, InvalidInputError, MissingPackageError, MissingWeightsError
from anyrig.install import localize_install_commands
from anyrig.speech.protocol import SpeechEngine
from anyrig.units import format_bytes, pluralize

if TYPE_CHECKING:
    from anyrig.speech.hosting.recipes import Kind

log = logging.getLogger(__name__)
_IN_ARCHIVE = "kokoro"
"""Its voices come in an archive on the package index, not from the hub."""


class Told:
    """Progress that steps aside while a person is asked."""

    def __init__(self, context: Context, what: str) -> None:
        self._options, self._what = context.options, what
        self._progress: Progress | None = None

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside()

    def step(self, line: str) -> None:
        """Say what is being done now."""
        log.info("%s", line)
        if self._progress is None:
            self._progress = Progress(1, self._what)
        self._progress.step(line.strip())

    def agreed(self, notice: str) -> bool:
        """Whether the person says yes: by a flag, or asked."""
        self._aside()
        print(notice, file=sys.stderr)
        if self._options.yes:
            return True
        if not can_ask():
            raise InvalidInputError(
                "this needs a yes, and nobody can be asked", hint="--yes says it."
            )
        return asked()

    def trusted(self, warning: str) -> bool:
        """Whether files are read that can run code: `--yes` does not say so, a person or
        `--trust-pickles` does.
        """
        self._aside()
        print(warning, file=sys.stderr)
        if self._options.trust_pickles:
            return True
        return can_ask() and asked()

    def _aside(self) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None


def asked() -> bool:
    """What a person answers; anything but a yes is a no."""
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _must_agree(told: Told, notice: str) -> None:
    if not told.agreed(notice):
        raise InvalidInputError("not agreed", hint="--yes agrees.")


# ---------------------------------------------------------------- weights


def get(context: Context, name: str, kind: type[SpeechEngine]) -> int:
    """Weights into anyrig's folder or another."""
    options, spec = context.options, kind.spec
    folder = Path(options.to).expanduser() if options.to else speaker.own_folder(context, name)
    if options.archive and name != _IN_ARCHIVE:
        raise InvalidInputError(f"--from is not for {name}", hint=f"It is for {_IN_ARCHIVE}.")
    packs = name == _IN_ARCHIVE and not options.repository
    repository = options.repository or spec.repository
    if not repository and not packs:
        raise InvalidInputError(
            f"{name} has no repository on the hub",
            hint=spec.weights or "Its weights come with its packages.",
        )
    with Told(context, "weights") as told:
        notice = f"The weights of {name} are under: {spec.weights_licence}."
        if speaker.is_restricted(spec):
            _must_agree(told, notice)
        elif spec.weights_licence:
            print(notice, file=sys.stderr)
        fetch = _packs if packs else _from_hub
        paths = fetch(context, folder, repository, told)
    return _report_got(context, name, folder, paths)


def _report_got(context: Context, name: str, folder: Path, paths: list[Path]) -> int:
    if context.options.json:
        print_json({"engine": name, "folder": str(folder), "files": [path.name for path in paths]})
        return 0
    print(f"{folder}: {pluralize(len(paths), 'file')} of {name}")
    print(f"Next: {_next(context, name, folder)}")
    return 0


def _next(context: Context, name: str, folder: Path) -> str:
    """What is still to be done, or how it is used now."""
    from anyrig.speech.engines import engine_class

    if context.options.to:
        context.options.model = str(folder)
    try:
        speaker.found(context, name, engine_class(name))
    except AnyrigError as error:
        return localize_install_commands(error.hint)
    where = f" --model {folder}" if context.options.to else ""
    return f'anyrig speak "Hello." --engine {name}{where}'


def _steps(told: Told) -> Callable[[str, int, int], None]:
    def step(file: str, done: int, total: int) -> None:
        told.step(f"{file}, {format_bytes(done)} of {format_bytes(total)}")

    return step


def _packs(context: Context, folder: Path, _repository: str, told: Told) -> list[Path]:
    from anyrig.speech.engines import kokoro_fetch

    if context.options.archive:
        return kokoro_fetch.unpack(Path(context.options.archive).expanduser(), folder)
    index = context.environment.get("PIP_INDEX_URL", "")
    return kokoro_fetch.fetch(folder, index=index, tell=_steps(told))


def _from_hub(context: Context, folder: Path, repository: str, told: Told) -> list[Path]:
    from anyrig.storage import weights

    if context.environment.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        raise MissingWeightsError(
            f"HF_HUB_OFFLINE is set: {repository} is not fetched", hint=f"Fill {folder} yourself."
        )
    return weights.download_weights(
        repository, folder, revision=context.options.revision,
        endpoint=context.environment.get("HF_ENDPOINT", ""),
        token=context.environment.get("HF_TOKEN", ""), on_progress=_steps(told),
    )  # fmt: skip


# ---------------------------------------------------------------- environments


def install(context: Context, name: str, kind: type[SpeechEngine]) -> int:
    """The environment of an engine whose packages clash with ours."""
    from anyrig.speech.hosting import environments, recipes

    if name not in recipes.NAMES:
        line = localize_install_commands(kind.spec.install) or "nothing: it comes with anyrig"
        raise InvalidInputError(
            f"{name} needs no environment of its own", hint=f"What it needs: {line}"
        )
    with Told(context, "environment") as told:
        folder = environments.install(
            name, context.folders.environments, yes=told.agreed, tell=told.step,
            environment=context.environment, kind=_torch_kind(context),
        )  # fmt: skip
    if context.options.json:
        print_json({"engine": name, "environment": str(folder)})
        return 0
    print(f"{name} is installed in {folder}.")
    print(f"Next: {_next(context, name, folder)}")
    return 0


def _torch_kind(context: Context) -> Kind:
    """For which devices the engine's torch is fetched."""
    kinds: dict[str, Kind] = {"nvidia": "cuda", "amd": "rocm"}
    for gpu in context.machine.gpus:
        if gpu.vendor in kinds:
            return kinds[gpu.vendor]
    return "cpu"


def convert(context: Context, name: str, kind: type[SpeechEngine]) -> int:
    """Pickled voices to safetensors, inside the engine's own environment, after a yes."""
    from anyrig.speech.hosting import environments
    from anyrig.speech.hosting.convert import convert as convert_pickles
    from anyrig.speech.hosting.engine import Hosted

    if not issubclass(kind, Hosted):
        raise InvalidInputError(f"{name} reads no pickles", hint="There is nothing to convert.")
    folder = speaker.folder_of(context, name)
    if folder is None:
        raise MissingWeightsError(
            f"{name} has no weights here",
            hint=f"{kind.spec.weights} The folder is {speaker.own_folder(context, name)}.",
        )
    home = context.folders.environments
    if environments.state(name, home) != "ready":
        raise MissingPackageError(f"{name} has no environment yet", hint=kind.spec.install)
    with Told(context, "voices") as told:
        answers = iter((told.agreed,))  # the first question; all others are about trust
        made = convert_pickles(
            kind.recipe, kind.pickles(folder), environments.place(home, name),
            yes=lambda question: next(answers, told.trusted)(question), tell=told.step,
            environment=context.environment,
        )  # fmt: skip
    return _report_got(context, name, folder, made)


def remove(context: Context, name: str, _kind: type[SpeechEngine]) -> int:
    """Weights and environment, after a yes."""
    from anyrig.speech.hosting import environments, recipes

    weights = speaker.own_folder(context, name)
    home = context.folders.environments
    hosted = name in recipes.NAMES and environments.state(name, home) != "absent"
    places = [weights] if weights.is_dir() else []
    places += [environments.place(home, name)] if hosted else []
    if not places:
        raise InvalidInputError(
            f"nothing of {name} is here", hint="`anyrig engines` lists what is."
        )
    with Told(context, "remove") as told:
        _must_agree(told, f"To be removed: {', '.join(map(str, places))}.")
    if weights in places:
        shutil.rmtree(weights)
    if hosted:
        environments.remove(name, home)
    if context.options.json:
        print_json({"engine": name, "removed": [str(place) for place in places]})
    else:
        print(f"{name} is removed.")
    return 0
