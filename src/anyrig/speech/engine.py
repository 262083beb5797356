"""The protocol of speech engines: what one declares before it is loaded, and what it must do.

An engine is a light class: importing its file loads no framework, so that `anyrig engines` can list
them all. It finds its weights (`find_weights`), is loaded for a placement in a worker (`__init__`),
and turns utterances into audio (`synthesize`). It knows nothing of pauses, files or HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from anyrig.devices.machine import Library, Precision
from anyrig.errors import InvalidInputError, OptionRef
from anyrig.work.engine import BaseEngine, Interpreter

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.placement import Placement, Workload
    from anyrig.speech.environments import EnvironmentSpec
    from anyrig.storage.weights import WeightSource

OptionValue = bool | int | float | str
VOICE = "{voice}"


@dataclass(frozen=True)
class EngineOption:
    """Something a user may set with `--set name=value`."""

    name: str
    default: OptionValue
    """Its type is the option's type."""
    help: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    saves_memory: OptionValue | None = None
    """A value that needs less memory than the default, for the advice when memory runs out."""
    per_utterance: bool = False
    """Whether it may differ from one utterance to the next: `Utterance.options` has it, and one
    loaded model serves all values."""


VerifiedWeights = Literal["published", "random", "small random", "not needed", "not run"]


@dataclass(frozen=True)
class Verification:
    """What an engine was run with before it was released."""

    weights: VerifiedWeights
    """`random` ones have the shape of the published ones."""
    original: str = ""
    """The code that ran the same random weights, to compare."""
    figure: str = ""
    """How closely the two agree."""
    note: str = ""
    """What else was run, or was not."""

    def describe(self) -> str:
        lead = {
            "published": "run with its published weights",
            "random": "run on random weights of the real shape",
            "small random": "run on small random weights",
            "not needed": "run; it has no weights",
            "not run": "not run",
        }[self.weights]
        if self.original:
            lead += f" (against {self.original}: {self.figure})"
        return f"{lead}; {self.note}" if self.note else lead


@dataclass(frozen=True)
class EngineInfo:
    """What an engine is: for listings, for choosing one, for the keys of the cache."""

    name: str
    summary: str
    languages: tuple[str, ...]
    """ISO 639-1 codes, the main one first; empty when the weights decide."""
    libraries: tuple[Library, ...] = ("onnx",)
    precisions: tuple[Precision, ...] = ("fp32",)
    gpu: bool = True
    """Whether a GPU is of any use to it."""
    quality: int = 3
    """How natural it sounds, from 1 to 5: of the engines that speak a language the best is used."""
    real_time_factor: float = 0.0
    """Seconds of one CPU core for a second of speech, as measured; 0 where it was not."""
    code_licence: str = ""
    weights_licence: str = ""
    licence_notice: str = ""
    """One line for a person before the weights are downloaded or used, where their licence
    restricts the use: its terms, and where to read it."""
    modules: tuple[str, ...] = ()
    """What must be importable."""
    install: str = ""
    """The line that installs those, where the default install does not bring them."""
    weights: str = ""
    """How to get its weights, in a sentence; empty when they come with the packages."""
    repository: str = ""
    """On the model hub, where there is one."""
    sources: tuple[WeightSource, ...] = ()
    """What is downloaded, the repository's files first; where this is empty, all of it that engines
    usually read. `{voice}` in a pattern is the voice that a person names."""
    package_bytes: int = 0
    weights_bytes: int = 0
    """About what its packages, without torch, and its weights take; 0 when that is not known."""
    max_chars: int = 400
    """Of one utterance."""
    reads: tuple[str, ...] = ()
    """What it takes beside plain words: `ipa` (IPA between [[ and ]]), `acronyms` ("CIA" is
    spelled, not read as a word)."""
    word_times: bool = False
    varies_with_seed: bool = False
    """Whether another seed gives another take."""
    streams: bool = False
    """Whether `synthesize` yields parts of an utterance while the rest is made."""
    cloud: bool = False
    """Whether the text leaves the machine."""
    options: tuple[EngineOption, ...] = ()
    verification: Verification | None = None
    """None where a plugin does not say."""

    @property
    def has_voice_files(self) -> bool:
        """Whether each voice of its repository is a download of its own."""
        return any(VOICE in pattern for source in self.sources for pattern in source.files)


@dataclass(frozen=True)
class Voice:
    """A voice an engine has."""

    name: str
    language: str
    engine: str
    title: str = ""
    gender: str = ""
    licence: str = ""
    also: tuple[str, ...] = ()
    """Other languages that it speaks as well."""
    digest: str = ""
    """The hash of the recording it is made from, where that is not among the weights."""
    region: str = ""
    """Of its accent, as a code of ISO 3166: `US`."""
    short_title: str = ""
    """Its title without the accent, if it has one."""


@dataclass(frozen=True)
class EngineWeights:
    """The weights of an engine on this machine, not loaded."""

    engine: str
    version: str
    """Of the adapter and of its library: another one may sound differently."""
    fingerprint: str
    """The hash of the weights."""
    voices: tuple[Voice, ...]
    folder: str = ""
    """Where they lie; empty when a package holds them."""
    interpreter: Interpreter | None = None
    """That of the engine's own environment; None for one that runs in ours."""
    torch_flavour: str = ""
    """Of the torch in that environment."""
    sample_rate: int = 24000
    worker_bytes: int = 0
    """What one worker holds at least."""
    unusable: tuple[str, ...] = ()
    """Voices among the weights that cannot be used, each with the reason."""

    @property
    def voices_key(self) -> str:
        """Another one with other voices: a worker has those that were there when it loaded."""
        return " ".join(f"{voice.name}:{voice.digest}" for voice in self.voices)

    @property
    def languages(self) -> tuple[str, ...]:
        """What its voices speak, in their order."""
        spoken = (code for voice in self.voices for code in (voice.language, *voice.also))
        return tuple(dict.fromkeys(spoken))


@dataclass(frozen=True)
class Utterance:
    """What an engine speaks at a time: a sentence or a part of one."""

    text: str
    """Words as they are spoken; IPA between [[ and ]] for an engine that reads it."""
    language: str = "en"
    voice: str = ""
    """A name of its voices, or a blend such as `af_heart:2+am_michael`; its first when empty."""
    rate: float = 1.0
    """2.0 is twice as fast."""
    seed: int = 0
    options: tuple[tuple[str, OptionValue], ...] = ()
    """Those of the engine's options that are `per_utterance` and differ from what was loaded."""

    @property
    def cost(self) -> float:
        """What it costs to say: characters, with a little for each call."""
        return len(self.text) + 8.0


class WordTime(NamedTuple):
    """When a word is heard, in seconds from the beginning of the take."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Take:
    """The audio of one utterance."""

    samples: Samples
    rate: int
    """Samples per second."""
    words: tuple[WordTime, ...] = ()
    """Empty where the engine gives no durations."""

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class TakePart:
    """Audio of one utterance of a batch, as soon as it exists."""

    index: int
    """Of the utterance in its batch."""
    samples: Samples
    words: tuple[WordTime, ...] = ()
    """In seconds from the beginning of the take."""
    last: bool = True
    """Whether the take is whole with it."""


def whole_parts(takes: Iterable[Take]) -> Iterator[TakePart]:
    """The takes of a batch in one part each, for an engine that does not stream."""
    for index, take in enumerate(takes):
        yield TakePart(index, take.samples, take.words)


def stream_parts(index: int, parts: Iterable[Samples]) -> Iterator[TakePart]:
    """The take of one utterance whose last part is known only when nothing more comes."""
    import numpy as np

    for samples in parts:
        yield TakePart(index, samples, last=False)
    yield TakePart(index, np.zeros(0, np.float32))


def join_parts(parts: Iterable[TakePart], num_takes: int, rate: int) -> list[Take]:
    """The takes of a batch, from their parts."""
    import numpy as np

    found: list[list[TakePart]] = [[] for _ in range(num_takes)]
    for part in parts:
        found[part.index].append(part)
    takes = []
    for index, some in enumerate(found):
        if not some or not some[-1].last:
            raise RuntimeError(f"the engine did not finish item {index} of {num_takes}")
        samples = [part.samples for part in some]
        words = tuple(word for part in some for word in part.words)
        takes.append(Take(samples[0] if len(some) == 1 else np.concatenate(samples), rate, words))
    return takes


class SpeechEngine(BaseEngine):
    """Base class of speech engines. Required: `info`, `find_weights`, `synthesize`."""

    info: ClassVar[EngineInfo]
    environment: ClassVar[EnvironmentSpec | None] = None
    """What it needs an environment of its own for: its worker runs there, and sees of anyrig's
    packages anyrig alone."""
    clones: ClassVar[bool] = False
    """Whether a recording serves as a voice."""
    voice_samples: ClassVar[bool] = False
    """Whether audio files in `voices` beside its weights are voices: `anyrig voices add`."""
    pads = True
    sample_rate: int = 24000
    cores: ClassVar[int | None] = 1
    """How many cores of a CPU one process keeps busy: more than one where `synthesize` may be
    called from several threads at once and leaves the interpreter to the others; None where the
    library spreads one utterance over all cores itself."""

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        """Load into a placement.

        Args:
            placement: where it runs.
            folder: `EngineWeights.folder`.
            options: of `info.options`, checked and complete.
        """

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """Its weights: in `folder`, or where it knows them to be.

        MissingPackageError says what to install, MissingWeightsError how to get them.
        """
        raise NotImplementedError

    @classmethod
    def need(cls, found: EngineWeights) -> Workload:
        """What it asks of a device."""
        from anyrig.placement import Workload

        info = cls.info
        return Workload(
            name=f"the voice engine {info.name}",
            # Its own torch computes: a device will do that any library here can use.
            libraries=("torch", "onnx") if cls.environment else info.libraries,
            torch_flavour=found.torch_flavour,
            precisions=info.precisions,
            worker_bytes=found.worker_bytes,
            gpu=info.gpu,
            cores=cls.cores,
        )

    @classmethod
    def prepare(
        cls, found: EngineWeights, placements: Sequence[Placement],
        options: Mapping[str, OptionValue], on_progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        """Make what its workers need on this machine and is made once, before they start.

        A worker that finds it missing makes it itself, without anybody seeing the progress.
        """

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        """The audio of each utterance, in one part (`whole_parts`) or in several as it is made.

        Parts of one utterance come in order and follow on each other without a gap; those of
        several may alternate. All are at `sample_rate`.
        """
        raise NotImplementedError

    def run(self, batch: Sequence[Utterance]) -> list[Take]:
        """The take of each utterance, in order: all parts of `synthesize`."""
        return join_parts(self.synthesize(batch), len(batch), self.sample_rate)


def list_memory_options(
    engine: type[SpeechEngine], placement: Placement, options: Mapping[str, OptionValue]
) -> tuple[OptionRef, ...]:
    """What of an engine's own options needs less memory than what is in use.

    Args:
        engine: its class.
        placement: where it runs.
        options: of `info.options`, complete.
    """
    info = engine.info
    found = [
        OptionRef("set", f"{option.name}={option.saves_memory}")
        for option in info.options
        if option.saves_memory is not None and options.get(option.name) == option.default
    ]
    on_gpu = placement.device.kind == "gpu"
    half = next((name for name in info.precisions if name in ("fp16", "bf16")), "")
    casts = engine.environment is not None or placement.backend.library == "torch"
    if half and casts and on_gpu and placement.precision in ("fp32", "tf32"):
        found.append(OptionRef("precision", half))
    return (*found, OptionRef("device", "cpu")) if on_gpu else tuple(found)


def resolve_options(info: EngineInfo, given: Mapping[str, Any]) -> dict[str, OptionValue]:
    """Every option of an engine with its value: what was given, checked, over the defaults."""
    known = {option.name: option for option in info.options}
    for name in given:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise InvalidInputError(
                f"{info.name} has no option {name!r}", hint=f"It has: {listed}. See "
                f"`anyrig engines show {info.name}`.",
            )  # fmt: skip
    return {
        name: _check_option(info.name, option, given[name]) if name in given else option.default
        for name, option in known.items()
    }


def _check_option(engine: str, option: EngineOption, value: object) -> OptionValue:
    kind = type(option.default)
    try:
        typed = _parse_value(kind, value)
    except ValueError:
        raise InvalidInputError(
            f"{engine}: {option.name} must be {_KIND_NAMES[kind]}, not {value!r}", hint=option.help
        ) from None
    if option.choices and typed not in option.choices:
        raise InvalidInputError(
            f"{engine}: invalid {option.name} {typed!r}",
            hint=f"Valid values: {', '.join(option.choices)}.",
        )
    if isinstance(typed, (int, float)) and not isinstance(typed, bool):
        low = float("-inf") if option.low is None else option.low
        high = float("inf") if option.high is None else option.high
        if not low <= typed <= high:
            raise InvalidInputError(
                f"{engine}: {option.name} must be between {low:g} and {high:g}, not {typed}",
                hint=option.help,
            )
    return typed


_KIND_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _parse_value(kind: type, value: object) -> OptionValue:
    if kind is bool:
        word = str(value).lower()
        if word not in _YES + _NO:
            raise ValueError(word)
        return word in _YES
    if kind is str:
        return str(value)
    if kind is int:
        return int(str(value))
    return float(str(value))
