"""Voices from samples: add one, show what is known of it, remove it; and the nearest voice.

A sample is an audio file in `voices` beside the weights of an engine that makes a voice of it. A
file of the same name with `.json` records who said that the speaker agreed, when, the hash of the
sample, and what the checks found.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.engines import (
    VoiceOptions,
    check_engine,
    choose_engine,
    find_cached_weights,
    find_weights,
)
from anyrig.app.speech import SynthesisOptions, open_synthesizer, prepare_script
from anyrig.app.voices import SENTENCES, VoicesRequest, list_voices, speaks
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    MissingPackageError,
    MissingWeightsError,
    OptionRef,
)
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import Request, option
from anyrig.speech import engines
from anyrig.speech.choose import TEST_ENGINE
from anyrig.speech.voices import RECORDING_SUFFIXES, unknown_voice_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.app.rig import Rig
    from anyrig.audio.samples import Samples
    from anyrig.speech.engine import Voice
    from anyrig.speech.sample_checks import SampleReport

MIN_NAME = 3
"""Letters of a name: two are the code of a language."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{2,63}")
_RESERVED = ("default", "own")
_READ_S = 130.0
_EDGE_S = 0.3
_MAX_BLENDED = 3


@dataclass(frozen=True, kw_only=True)
class SampleOptions(Request):
    """The engine that makes a voice of a sample."""

    engine: str = option("", "engine that makes a voice of the sample", metavar="NAME")
    model: Path | None = option(None, "folder with the engine's weights", metavar="FOLDER")


@dataclass(frozen=True, kw_only=True)
class AddVoiceRequest(SampleOptions):
    """A voice from a sample."""

    name: str = option(help="name of the voice", positional=True, metavar="NAME")
    sample: Path = option(help="recording of one person", positional=True, metavar="FILE")
    consent_by: str = option(
        "", "your name: you declare that the speaker agreed to the use of their voice",
        metavar="PERSON",
    )  # fmt: skip
    force: bool = option(False, "add the voice despite failed checks")


@dataclass(frozen=True)
class AddedVoice:
    """What is recorded of a voice from a sample."""

    name: str
    engine: str
    file: str
    """The sample's own name."""
    sample_sha256: str
    """Of the file that was given."""
    consent_by: str
    consent_at: str
    """In UTC, ISO 8601."""
    duration_s: float
    checks: tuple[dict[str, Any], ...]
    forced: bool = False
    """Whether checks failed, and it was added all the same."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def add_voice(
    rig: Rig,
    request: AddVoiceRequest,
    on_event: OnEvent,
    *,
    file_name: str = "",
    ask_consent: Callable[[], str] = lambda: "",
) -> AddedVoice:
    """Check a sample and add it as a voice; nothing is stored without consent.

    Args:
        rig: this machine.
        request: the sample, and the name of the voice.
        on_event: gets progress and warnings.
        file_name: what messages and the record call the sample; its own name if empty.
        ask_consent: asks who declares the speaker's consent, if the request does not say so: when
            nothing else is in the way. Empty if nobody does.
    """
    file_name = file_name or request.sample.name
    name = _check_name(request.name)
    engine = _choose_engine(rig, request)
    folder = _find_folder(rig, request, engine)
    taken = {**_list_names(rig), **dict.fromkeys(_list_samples(folder), engine)}
    if name in taken:
        raise InvalidInputError(
            f"there is a voice {name!r} of {taken[name]} already",
            hint=f"Use another name, or `anyrig voices remove {name}` first.",
        )
    on_event(ProgressEvent("checking the sample"))
    samples, rate, digest = read_sample(request.sample, file_name)
    report = check(samples, rate)
    if report.failures and not request.force:
        raise _build_refusal(file_name, report)
    for one in report.unchecked:
        on_event(WarningEvent(f"{one.name} {one.measured}. {one.hint}"))
    consent_by = " ".join((request.consent_by.strip() or ask_consent()).split())[:200]
    if not consent_by:
        raise InvalidInputError(
            "the speaker's consent was not declared",
            hint=Message(
                "Ask the speaker, then pass {consent}; name, time and the sample's hash are"
                " recorded beside the voice.",
                consent=OptionRef("consent_by", "YOUR NAME"),
            ),
        )
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    added = AddedVoice(
        name, engine, file_name, digest, consent_by, now,
        round(report.duration_s, 2), tuple(asdict(one) for one in report.checks),
        forced=bool(report.failures),
    )  # fmt: skip
    _store(folder, added, samples, rate)
    try:
        found = find_weights(
            rig, VoiceOptions(engine=engine, model=request.model), engine,
            engines.engine_class(engine),
        ).voices  # fmt: skip
        if not any(voice.name == name for voice in found):
            raise InvalidInputError(
                f"{engine} does not list the voice", hint=f"`anyrig engines show {engine}`."
            )
    except AnyrigError:
        _delete(folder, name)
        raise
    return added


def check(samples: Samples, rate: int) -> SampleReport:
    """What speaks for a sample and against it."""
    from anyrig.speech.sample_checks import check_sample

    return check_sample(samples, rate)


def read_sample(path: Path, name: str = "") -> tuple[Samples, int, str]:
    """The samples of a recording at its own rate, and the hash of its file."""
    import numpy as np

    from anyrig.audio.decode import open_audio

    path = path.expanduser()
    if not path.is_file():
        raise InvalidInputError(f"no such file: {path}", hint="Name a recording, such as me.wav.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with open_audio(path, name) as audio:
        parts = list(audio.read(0, round(_READ_S * audio.rate)))
        rate = audio.rate
    samples = np.concatenate([np.zeros(0, np.float32), *parts]).astype(np.float32)
    if not len(samples):
        raise InvalidInputError(f"{name or path.name} has no audio", hint="Name another recording.")
    return np.nan_to_num(samples), rate, digest


def describe_voice(rig: Rig, name: str, options: SampleOptions) -> tuple[Voice, AddedVoice | None]:
    """A voice, and what is recorded of its sample."""
    request = VoicesRequest(engine=options.engine, model=options.model)
    voices = list_voices(rig, request)
    if not options.engine:
        voices += _list_test_voices(rig)
    for voice in voices:
        if voice.name == name:
            folder = _try_folder(rig, replace(options, engine=voice.engine), voice.engine)
            return voice, load_record(folder, name) if folder else None
    raise unknown_voice_error(name, [voice.name for voice in voices])


def remove_sample_voice(rig: Rig, name: str, options: SampleOptions) -> str:
    """Delete the sample of a voice and its record; the engine it was of."""
    names = [options.engine] if options.engine else list_sample_engines()
    added: list[str] = []
    for engine in names:
        folder = _try_folder(rig, options, engine)
        if folder is None:
            continue
        files = _list_samples(folder)
        added += files
        if name in files:
            _delete(folder, name)
            return engine
    if not added:
        raise InvalidInputError(
            f"no voice {name!r} from a sample",
            hint="`anyrig voices add NAME FILE` adds one; other voices come with their engines.",
        )
    raise unknown_voice_error(name, added)


def load_record(folder: Path, name: str) -> AddedVoice | None:
    """What is recorded of a voice; None for a file that somebody put there."""
    path = folder / f"{name}.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return AddedVoice(**{**found, "checks": tuple(found["checks"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def list_sample_engines() -> list[str]:
    """Engines that make a voice of a sample; the fake one last."""
    found = []
    for name in engines.list_names():
        try:
            if engines.engine_class(name).voice_samples:
                found.append(name)
        except AnyrigError:
            continue
    return sorted(found, key=lambda name: name == TEST_ENGINE)


# -- engines and folders ---------------------------------------------------------------------------


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
        raise InvalidInputError(
            f"{name[:80]!r} is not a valid name of a voice",
            hint="Use 3 to 64 letters of a to z, figures, - and _; not `default` or `own`.",
        )
    return name


def _choose_engine(rig: Rig, request: SampleOptions) -> str:
    known = list_sample_engines()
    if request.engine:
        if request.engine not in known:
            engines.engine_class(request.engine)  # an unknown one raises its own error
            raise InvalidInputError(
                f"{request.engine} cannot make a voice of a sample",
                hint=f"These can: {', '.join(known)}. `anyrig voices nearest FILE` finds the"
                " voice that is nearest to a sample.",
            )
        return request.engine
    options = VoiceOptions(model=request.model)
    ready = [name for name in known if name != TEST_ENGINE and _has_weights(rig, options, name)]
    if len(ready) == 1:
        return ready[0]
    if ready:
        raise InvalidInputError(
            f"several engines can make a voice of a sample: {', '.join(ready)}",
            hint=Message("Pass {engine}.", engine=OptionRef("engine", ready[0])),
        )
    listed = ", ".join(name for name in known if name != TEST_ENGINE)
    raise MissingPackageError(
        "no installed engine can make a voice of a sample",
        hint=f"These can: {listed}; `anyrig engines show NAME` says how to get one. `anyrig voices"
        " nearest FILE` finds the voice that is nearest to a sample.",
    )


def _has_weights(rig: Rig, options: VoiceOptions, name: str) -> bool:
    return _try_folder(rig, SampleOptions(engine=name, model=options.model), name) is not None


def _find_folder(rig: Rig, request: SampleOptions, engine: str) -> Path:
    """Where the samples of an engine lie."""
    folder = _try_folder(rig, request, engine)
    if folder is None:  # what is missing is said by the engine itself
        options = VoiceOptions(engine=engine, model=request.model)
        find_weights(rig, options, engine, engines.engine_class(engine))
        raise MissingWeightsError(
            f"{engine} has no weights here", hint=f"`anyrig engines show {engine}`."
        )
    return folder


def _try_folder(rig: Rig, request: SampleOptions, engine: str) -> Path | None:
    """The same; None if the engine has no weights here."""
    options = VoiceOptions(engine=engine, model=request.model)
    try:
        found = find_weights(rig, options, engine, engines.engine_class(engine))
        return Path(found.folder or rig.folders.models / engine) / "voices"
    except MissingWeightsError:  # perhaps only a voice is missing, and this is the first
        own = rig.folders.models / engine
        folder = request.model or (own if own.is_dir() else find_cached_weights(rig, engine))
        return folder / "voices" if folder is not None else None
    except AnyrigError:
        return None


def _list_names(rig: Rig) -> dict[str, str]:
    """Every voice, and its engine."""
    try:
        voices = list_voices(rig, VoicesRequest())
    except InvalidInputError:  # none is installed
        voices = []
    return {voice.name: voice.engine for voice in [*voices, *_list_test_voices(rig)]}


def _list_test_voices(rig: Rig) -> list[Voice]:
    return list_voices(rig, VoicesRequest(engine=TEST_ENGINE))


def _list_samples(folder: Path) -> list[str]:
    paths = sorted(folder.glob("*")) if folder.is_dir() else []
    return [path.stem for path in paths if path.suffix.lower() in RECORDING_SUFFIXES]


def _store(folder: Path, added: AddedVoice, samples: Samples, rate: int) -> None:
    """The record first: no voice may be without one."""
    from anyrig.audio.encode import open_encoder
    from anyrig.audio.samples import find_sound
    from anyrig.storage.atomic_file import write_file

    start, end = find_sound(samples, rate, keep_s=_EDGE_S)
    data = io.BytesIO()
    with open_encoder(data, "wav", rate) as output:
        output.write(samples[start:end])
    record = json.dumps(added.to_json(), indent=2, ensure_ascii=False) + "\n"
    write_file(folder / f"{added.name}.json", record)
    write_file(folder / f"{added.name}.wav", data.getvalue())


def _delete(folder: Path, name: str) -> None:
    """The audio first: a record without a voice does no harm."""
    own = [path for path in folder.iterdir() if path.stem == name] if folder.is_dir() else []
    for path in sorted(own, key=lambda path: path.suffix == ".json"):
        if path.suffix.lower() in (*RECORDING_SUFFIXES, ".json"):
            path.unlink(missing_ok=True)


def _build_refusal(name: str, report: SampleReport) -> InvalidInputError:
    problems = "; ".join(f"{one.name}: {one.measured}" for one in report.failures)
    hints = " ".join(one.hint for one in report.failures)
    return InvalidInputError(
        f"{name} will not do as a sample ({problems})",
        hint=Message("{hints} {force} adds it all the same.", hints=hints,
                     force=OptionRef("force")),
    )  # fmt: skip


# -- the nearest voice -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NearestVoiceRequest(SynthesisOptions):
    """The voices that sound most like a sample."""

    sample: Path = option(help="recording of one person", positional=True, metavar="FILE")
    limit: int = option(5, "how many voices to show", ge=1, le=100, metavar="N")
    blend: bool = option(True, "try blends of the nearest two, where the engine can blend")


@dataclass(frozen=True)
class NearestVoice:
    """A voice, or a blend of two, and how much like the sample it sounds."""

    voice: str
    engine: str
    likeness: float
    """1 is the same; two recordings of one person have more than 0.9."""


def find_nearest_voices(
    rig: Rig, request: NearestVoiceRequest, on_event: OnEvent
) -> list[NearestVoice]:
    """Rank the voices of an engine by a speaker encoder, the nearest first.

    It is a choice among the voices there are: nothing is made from the sample.
    """
    from anyrig.speech.sample_checks import find_speech, read_speech
    from anyrig.speech.speaker_embedding import SpeakerEmbedder, normalize

    embedder = SpeakerEmbedder()
    samples, rate, _ = read_sample(request.sample)
    at_speech_rate = _resample(samples, rate)
    spans = find_speech(at_speech_rate)
    if not spans:
        raise InvalidInputError(
            f"no speech was found in {request.sample.name}", hint="Name another recording."
        )
    target = normalize(embedder.embed(read_speech(at_speech_rate, spans)).mean(axis=0))
    language = "" if request.language == "auto" else request.language
    engine = request.engine or _choose_nearest_engine(rig)
    listed = list_voices(rig, VoicesRequest(engine=engine, model=request.model, language=language))
    if not language:
        languages = [voice.language.partition("-")[0] for voice in listed]
        language = "en" if "en" in languages else languages[0]
        listed = [voice for voice in listed if speaks(voice, language)]

    def embed(names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
        for number, (name, audio, own_rate) in enumerate(
            _speak_voices(rig, replace(request, engine=engine), names, language), 1
        ):
            on_event(ProgressEvent("comparing voices", number, len(names), name))
            yield name, normalize(embedder.embed(_resample(audio, own_rate)).mean(axis=0))

    vectors = dict(embed([voice.name for voice in listed]))
    ranked = sorted(vectors, key=lambda name: -float(vectors[name] @ target))
    if request.blend and len(ranked) > 1 and engine == "kokoro":
        vectors |= dict(embed(_list_blends(ranked[:_MAX_BLENDED])))
    found = [
        NearestVoice(name, engine, round(float(vector @ target), 3))
        for name, vector in vectors.items()
    ]
    return sorted(found, key=lambda one: -one.likeness)[: request.limit]


def _choose_nearest_engine(rig: Rig) -> str:
    """Kokoro, which has the most voices; else the default."""
    if check_engine(rig, VoiceOptions(), "kokoro").is_ready:
        return "kokoro"
    return engines.DEFAULT


def _list_blends(names: Sequence[str]) -> list[str]:
    """The nearest with each of those that follow, in two proportions."""
    first, *others = names
    return [f"{first}{weight}+{other}" for other in others for weight in ("", ":2")]


def _speak_voices(
    rig: Rig, request: NearestVoiceRequest, names: Sequence[str], language: str
) -> Iterator[tuple[str, Samples, int]]:
    """Each voice says the sentences of samples."""
    from anyrig.app.cache import open_cache
    from anyrig.speech.chunks import build_chunk

    text = SENTENCES.get(language.partition("-")[0], SENTENCES["en"])
    plain = replace(request, voice="")
    choice = choose_engine(rig, plain)
    scripts = [
        prepare_script(rig, plain, choice, text, voice=name, language=language) for name in names
    ]
    with (
        open_cache(rig) as cache,
        open_synthesizer(rig, plain, choice, len(text) * len(names), cache) as synthesizer,
    ):
        for name, spoken in zip(names, synthesizer.read_scripts(scripts), strict=True):
            chunks = [build_chunk(one, synthesizer.rate, 0).samples for one in spoken if one.take]
            if chunks:
                import numpy as np

                yield name, np.concatenate(chunks), synthesizer.rate


def _resample(samples: Samples, rate: int) -> Samples:
    from anyrig.audio import SPEECH_RATE
    from anyrig.audio.resample import resample

    return resample(samples, rate, SPEECH_RATE)
