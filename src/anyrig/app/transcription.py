"""Speech to text: recordings in, transcripts out, as text, captions or JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from anyrig.app.cache import open_cache
from anyrig.app.compute import ComputeOptions, describe_model_options, place
from anyrig.app.documents import FailedFile
from anyrig.app.files import normalize_format
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    OptionRef,
)
from anyrig.estimates import TimeLeft, WorkEstimate
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.text.language_names import language_code
from anyrig.transcription.formats import FORMATS, FormatName
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.audio.decode import AudioFile
    from anyrig.devices.choose import DeviceChoice
    from anyrig.jobs import Job
    from anyrig.placement import PlacementPlan, Workload
    from anyrig.storage.cache import Cache
    from anyrig.storage.keys import JsonValue
    from anyrig.transcription.models import RecognitionModel
    from anyrig.transcription.transcribe import RecordingProgress, Transcriber, Transcription

_MAX_DOUBTFUL = 5  # lines of a recording that are warned of one by one


@dataclass(frozen=True, kw_only=True)
class TranscriptionRequest(ComputeOptions):
    """Transcription."""

    files: tuple[Path, ...] = option(
        help="recordings, or folders with recordings", positional=True, upload=True, metavar="FILE"
    )
    names: tuple[str, ...] = option(
        (), "what the recordings are called in results and errors, if not by their own names",
        flag=False, http=False,
    )  # fmt: skip
    output: str = option(
        "", "the file, or the folder for several recordings", short="-o", http=False,
        metavar="PATH",
    )  # fmt: skip
    format: tuple[FormatName, ...] = option(
        (), "txt, md, srt, vtt, json; several as srt,txt", normalize=normalize_format
    )
    language: str = option(
        "", "spoken language, such as en; default: detected", normalize=language_code,
        metavar="CODE",
    )  # fmt: skip
    model: str = option(
        "", "a folder, a name on the hub, moonshine, whisper-base, or a size such as small",
        metavar="NAME",
    )  # fmt: skip
    fetch: bool = option(
        False, "download a model of the hub that is not on this machine", http=False
    )
    engine: Literal["moonshine", "whisper", "transformers"] | None = option(
        None, "what runs the model; default: by its files"
    )
    translate: bool = option(False, "translate into English")
    word_times: bool = option(False, "include word times (not with moonshine)")
    fresh: bool = option(False, "ignore cached results")


@dataclass(frozen=True)
class TranscriptionProgress(ProgressEvent):
    """How much of a recording has been transcribed."""

    file: str = ""
    number: int = 1
    """Of this recording, from 1."""
    num_files: int = 1
    heard_s: float = 0.0
    """Seconds of the recording, silence included."""
    duration_s: float | None = None
    """None if the file does not say."""
    speed: float | None = None
    """Seconds of this recording per second, loading and cached segments not counted; None if
    unknown."""
    left: TimeLeft | None = None
    """Until this recording is transcribed."""

    def to_json(self) -> dict[str, Any]:
        done = None
        if self.duration_s:
            share = min(1.0, self.heard_s / self.duration_s)
            done = round((self.number - 1 + share) / self.num_files, 4)
        return {
            "event": "progress", "stage": self.stage, "title": self.file, "done": done,
            "audio_s": round(self.heard_s, 2),
            "speed": None if self.speed is None else round(self.speed, 2),
            **(self.left.to_json() if self.left else {"left_s": None}), "text": self.detail,
        }  # fmt: skip


class RecordingFile(NamedTuple):
    path: Path
    name: Path
    """What its transcript is called below the output folder, without a suffix."""
    title: str = ""
    """What it is called in results and errors; its own name if empty."""


@dataclass(frozen=True)
class TranscribedFile:
    """The transcript of one recording, or why there is none."""

    path: Path
    transcript: Transcription | None = None
    outputs: tuple[Path, ...] = ()
    """The files that were written."""
    error: AnyrigError | None = None
    wall_s: float = 0.0


@dataclass(frozen=True)
class TranscriptionResult:
    files: tuple[TranscribedFile, ...]

    @property
    def text(self) -> str:
        """The text of all recordings, a paragraph for each."""
        return "\n\n".join(one.text for one in self.transcripts)

    @property
    def transcripts(self) -> tuple[Transcription, ...]:
        return tuple(one.transcript for one in self.files if one.transcript is not None)

    @property
    def failed(self) -> tuple[FailedFile, ...]:
        return tuple(FailedFile(str(one.path), one.error) for one in self.files if one.error)

    def to_json(self) -> dict[str, Any]:
        """The files that were written, and what they have in common."""
        transcripts = self.transcripts
        only = transcripts[0] if len(transcripts) == 1 else None
        return {
            "files": [str(path) for one in self.files for path in one.outputs],
            "language": only.language if only else None,
            "engine": only.model if only else None,
            "audio_s": round(sum(one.duration_s for one in transcripts), 3),
            "cached": sum(one.num_cached for one in transcripts),
        }

    def save(self, path: str | Path, format: FormatName | None = None) -> None:
        """Write the transcript of a single recording: txt, md, srt, vtt or json."""
        from anyrig.storage.files import write_atomic
        from anyrig.transcription.formats import format_transcription

        if len(self.transcripts) != 1:
            raise InvalidInputError(
                f"{len(self.transcripts)} transcripts do not go into one file",
                hint=Message(
                    "Pass {output} to write each into a folder.", output=OptionRef("output")
                ),
            )
        path = Path(path).expanduser()
        (name,) = (format,) if format else resolve_formats((), path)
        write_atomic(path, format_transcription(self.transcripts[0], name))


def transcribe(
    rig: Rig, request: TranscriptionRequest, on_event: OnEvent, plan: OutputPlan | None = None
) -> Iterator[TranscribedFile]:
    """Transcribe each recording, in order; one that cannot be read does not stop the others.

    What was transcribed is cached segment by segment: a run that was interrupted continues there.
    """
    plan = plan or plan_outputs(request, on_event)
    find_model(request)
    _choose_device(rig, request)  # a requested device that is missing is reported first
    with borrow_transcriber(rig, request) as transcriber:
        for number, recording in enumerate(plan.recordings, 1):
            on_event(TranscriptionProgress(
                "opening", file=recording.path.name, number=number, num_files=len(plan.recordings)
            ))  # fmt: skip
            yield _transcribe_file(plan, recording, number, transcriber, on_event)


def _transcribe_file(
    plan: OutputPlan,
    recording: RecordingFile,
    number: int,
    transcriber: Transcriber,
    on_event: OnEvent,
) -> TranscribedFile:
    from anyrig.audio.decode import open_audio
    from anyrig.storage.files import write_atomic
    from anyrig.transcription.formats import format_transcription

    began = time.monotonic()
    try:
        with open_audio(recording.path, recording.title) as sound:
            on_progress = _follow(plan, recording, number, sound, on_event)
            transcript = transcriber.transcribe(sound, on_progress)
        outputs = plan.list_outputs(recording)
        for form, path in outputs.items():
            plan.check_not_input(path)
            write_atomic(path, format_transcription(transcript, form))
    except InvalidInputError as error:
        return TranscribedFile(recording.path, error=error)
    except OSError as error:
        message = f"{recording.path}: {error.strerror or error}"
        failure = InvalidInputError(message, hint="Check that the file can be opened.")
        return TranscribedFile(recording.path, error=failure)
    for warning in list_warnings(transcript):
        on_event(WarningEvent(warning))
    wall_s = time.monotonic() - began
    return TranscribedFile(recording.path, transcript, tuple(outputs.values()), wall_s=wall_s)


def _follow(
    plan: OutputPlan, recording: RecordingFile, number: int, sound: AudioFile, on_event: OnEvent
) -> Callable[[RecordingProgress], None]:
    work, heard_s = WorkEstimate(sound.duration_s or 0.0), 0.0

    def report(progress: RecordingProgress) -> None:
        nonlocal heard_s
        if progress.cached:
            work.total -= progress.done_s - heard_s
        else:
            work.add(progress.done_s - heard_s)
        heard_s = progress.done_s
        left = work.left if sound.duration_s else None
        on_event(TranscriptionProgress(
            "listening", int(progress.done_s), int(sound.duration_s or 0), progress.text,
            file=recording.path.name, number=number, num_files=len(plan.recordings),
            heard_s=progress.done_s, duration_s=sound.duration_s,
            speed=work.rate.per_s if work.is_known else None, left=left,
        ))  # fmt: skip

    return report


def list_warnings(transcript: Transcription) -> Iterator[str]:
    """What is wrong with a recording, or doubtful in its transcript."""
    yield from transcript.warnings
    for gap in transcript.gaps:
        yield (
            Message(
                "{name}: {start_s:.1f} s to {end_s:.1f} s could not be transcribed: {why}",
                name=transcript.name,
                start_s=gap.start_s,
                end_s=gap.end_s,
                why=gap.reason,
            )
        )
    for line in transcript.doubtful[:_MAX_DOUBTFUL]:
        yield f"{transcript.name} at {line.start_s:.1f} s: {line.doubt}: {line.text[:50]!r}"
    more = len(transcript.doubtful) - _MAX_DOUBTFUL
    if more > 0:
        yield f"{transcript.name}: {pluralize(more, 'more doubtful line')}"


# -- the model -------------------------------------------------------------------------------------


@contextmanager
def borrow_transcriber(rig: Rig, request: TranscriptionRequest) -> Iterator[Transcriber]:
    """Models that load when the first recording needs them. If clients share them, nothing is
    cached of what they hear, and others are closed: each holds a model.
    """
    if not rig.models.shared:

        @contextmanager
        def load() -> Iterator[Transcriber]:
            with open_cache(rig) as cache, open_transcriber(rig, request, cache) as one:
                yield one

        with rig.models.borrow(
            f"transcription {_describe_model(request)}",
            load,
            version=f"{request.engine} {request.fresh} {describe_model_options(rig, request)}",
            exclusive=True,
        ) as transcriber:
            yield transcriber
        return
    name = f"transcription {_describe_model(request)}"
    for other in rig.models.loaded_models():
        if other.name.startswith("transcription ") and other.name != name:
            rig.models.unload(other.name)
    with rig.models.borrow(name, lambda: open_transcriber(rig, request)) as transcriber:
        yield transcriber


def _describe_model(request: TranscriptionRequest) -> str:
    """What `/health` shows: no two that differ in what is loaded have the same name."""
    words = [Path(request.model or find_model(request).name).name, request.language]
    words += ["translate"] if request.translate else []
    words += ["words"] if request.word_times else []
    if "/" in request.model:  # two folders may have one name
        words.append(sha256(request.model.encode()).hexdigest()[:6])
    return " ".join(filter(None, words))


def open_transcriber(
    rig: Rig, request: TranscriptionRequest, cache: Cache | None = None
) -> Transcriber:
    """Models that load when the first recording needs them; the caller closes it."""
    from anyrig.transcription.transcribe import Transcriber, TranscriptionOptions

    return Transcriber(
        lambda workload: _place(rig, request, workload),
        environment=rig.environment,
        folder=str(rig.folders.models / "recognise"),
        cache=cache,
        options=TranscriptionOptions(
            language=resolve_language(request),
            model=request.model,
            engine=request.engine or "",
            translate=request.translate,
            words=request.word_times,
            fresh=request.fresh,
            fetch=request.fetch,
        ),
    )


def resolve_language(request: TranscriptionRequest) -> str:
    """The requested language; empty to detect it."""
    return "" if request.language.lower() == "auto" else request.language


def find_model(request: TranscriptionRequest) -> RecognitionModel:
    """The model that a request names, or the usual one of its language. Raises if it is not here
    or does not fit the request.
    """
    from anyrig.transcription.models import find_model

    return find_model(
        request.model, language=resolve_language(request), engine=request.engine or "",
        translate=request.translate, words=request.word_times, fetch=request.fetch,
    )  # fmt: skip


def _place(rig: Rig, request: TranscriptionRequest, workload: Workload) -> PlacementPlan:
    """A model that runs on no GPU goes to the CPU without a warning, unless a device was named."""
    if not workload.gpu and not request.device:
        return place(rig, rig.choose_cpu(request), workload, request)
    return place(rig, _choose_device(rig, request), workload, request)


def _choose_device(rig: Rig, request: TranscriptionRequest) -> DeviceChoice:
    return rig.choose_device(replace(request, no_bench=True))


# -- files -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputPlan:
    """Which recordings there are, and which files their transcripts go to."""

    recordings: tuple[RecordingFile, ...]
    output: Path | None = None
    """A file if `is_single`, else a folder; None writes nothing."""
    formats: tuple[FormatName, ...] = ("txt",)
    is_single: bool = False

    def list_outputs(self, recording: RecordingFile) -> dict[FormatName, Path]:
        """The file of each format."""
        if self.output is None:
            return {}
        if not self.is_single:
            return {form: self.output / f"{recording.name}.{form}" for form in self.formats}
        if len(self.formats) == 1:
            return {self.formats[0]: self.output}
        return {form: self.output.with_name(f"{self.output.stem}.{form}") for form in self.formats}

    def check_not_input(self, path: Path) -> None:
        """Refuse to overwrite one of the recordings."""
        if path.exists() and any(path.samefile(one.path) for one in self.recordings):
            raise InvalidInputError(
                f"{path} is one of the recordings",
                hint=Message("Pass another {output}.", output=OptionRef("output")),
            )


def plan_outputs(request: TranscriptionRequest, on_event: OnEvent) -> OutputPlan:
    """Find the recordings, and decide what is written where."""
    for path in request.files:
        if not path.exists():
            raise InvalidInputError(f"no such file or folder: {path}", hint="Check the path.")
    recordings = find_recordings(request.files, on_event)
    if not recordings:
        raise InvalidInputError(
            "nothing to transcribe", hint="Give a recording, or a folder that has some."
        )
    if request.names:
        titles = dict(zip(request.files, request.names, strict=True))
        recordings = tuple(one._replace(title=titles.get(one.path, "")) for one in recordings)
    is_single = len(recordings) == 1
    output = Path(request.output).expanduser() if request.output else None
    if output is None:
        return OutputPlan(recordings, None, resolve_formats(request.format), is_single)
    is_folder = output.is_dir() or request.output.endswith(("/", "\\"))
    formats = resolve_formats(request.format, output if is_single and not is_folder else None)
    if is_single and (is_folder or (request.files[0].is_dir() and not output.suffix)):
        is_single = False
    if not is_single and output.is_file():
        raise InvalidInputError(f"{output} is a file", hint="Several transcripts need a folder.")
    return OutputPlan(recordings, output, formats, is_single)


def resolve_formats(
    requested: Sequence[FormatName], output: Path | None = None
) -> tuple[FormatName, ...]:
    """The formats that were requested, or that the output's name implies."""
    names: Sequence[str] = requested
    if not names and output is not None and output.suffix:
        names = [normalize_format(output.suffix)]
    for name in names:
        if name not in FORMATS:
            raise InvalidInputError(
                f"unknown format {name!r}",
                hint=Message(
                    "Valid formats: {forms}; pass {format}, or end the file's name in one of them.",
                    forms=", ".join(FORMATS),
                    format=OptionRef("format"),
                ),
            )
    return cast("tuple[FormatName, ...]", tuple(dict.fromkeys(names or ["txt"])))


def find_recordings(paths: Sequence[Path], on_event: OnEvent) -> tuple[RecordingFile, ...]:
    """The recordings in files and folders; transcripts of the same name get different ones.

    Links that lead out of their folder are not followed, which is a warning.
    """
    from anyrig.audio.decode import SUFFIXES
    from anyrig.text.folder import leads_out, not_followed

    found: dict[Path, Path] = {}
    outside: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found[path] = Path(path.name)
            continue
        inside = []
        for one in sorted(path.rglob("*")):
            name = one.relative_to(path)
            hidden = any(part.startswith(".") for part in name.parts)
            if hidden or one.suffix.lower() not in SUFFIXES or not one.is_file():
                continue
            if one.is_symlink() and leads_out(one, path):
                outside.append(one)
            else:
                inside.append((one, name))
        if not inside:
            raise InvalidInputError(
                f"{path} contains no recording",
                hint=f"Recordings end in {' '.join(SUFFIXES[:10])} ...",
            )
        found.update(inside)
    for warning in not_followed(outside):
        on_event(WarningEvent(warning))
    return tuple(_name_recordings(found))


def _name_recordings(found: Mapping[Path, Path]) -> Iterator[RecordingFile]:
    num_by_stem = Counter(name.with_suffix("") for name in found.values())
    num_by_name = Counter(found.values())
    for number, (path, name) in enumerate(found.items(), 1):
        stem = name.with_suffix("")
        if num_by_stem[stem] == 1:
            name = stem
        elif num_by_name[name] > 1:
            name = name.with_name(f"{name.name}-{number}")
        yield RecordingFile(path, name)


# -- for programs ----------------------------------------------------------------------------------


def to_verbose_json(transcript: Transcription, *, words: bool = False) -> dict[str, JsonValue]:
    """What OpenAI's `/v1/audio/transcriptions` answers as `verbose_json`, and more; with `words` a
    list of all words with their times as well.
    """
    from anyrig.transcription.formats import describe, describe_word

    answer = describe(transcript) | {"text": transcript.text}
    if words:
        answer["words"] = [describe_word(word) for line in transcript.lines for word in line.words]
    return answer


def queue_transcriptions(rig: Rig, options: Mapping[str, Any], on_event: OnEvent) -> list[Job]:
    """Queue a job for each recording; the options are fields of `TranscriptionRequest`."""
    request = rig.request(TranscriptionRequest, **options)
    plan = plan_outputs(request, on_event)
    if not request.model:  # the model may be fetched until then
        find_model(request)
    _choose_device(rig, request)
    jobs = []
    for recording in plan.recordings:
        outputs = plan.list_outputs(recording) or {
            form: Path(f"{recording.name.name}.{form}") for form in plan.formats
        }
        output = next(iter(outputs.values())).absolute()
        output.parent.mkdir(parents=True, exist_ok=True)
        changed = {"files": [recording.path], "output": str(output), "format": list(outputs)}
        jobs.append(rig.jobs.submit("transcribe", **{**options, **changed}))
    return jobs
