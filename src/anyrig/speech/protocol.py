"""What speech asks of an engine, and what it says of itself before anything is loaded.

An engine is a light class: importing its file loads no framework, so that `anyrig engines` can list
them all. It finds its weights (`find`), is made for a placement in a worker (`__init__`), and turns
lines into takes (`run`). It knows nothing of sentences, pauses, files or HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from anyrig.devices.machine import Library, Precision
from anyrig.errors import InvalidInputError, OptionRef
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.placement import Placement, Workload
    from anyrig.speech.audio import Take

Value = bool | int | float | str


@dataclass(frozen=True)
class Option:
    """Something a person may set with `--set name=value`."""

    name: str
    default: Value
    """Its type is the option's type."""
    help: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    saves_memory: Value | None = None
    """A value that needs less memory than the default, for the advice when memory runs out."""


@dataclass(frozen=True)
class Spec:
    """What an engine is, for lists, choices and keys."""

    name: str
    summary: str
    languages: tuple[str, ...]
    """ISO 639-1 codes, the main one first; empty when the weights decide."""
    libraries: tuple[Library, ...] = ("onnx",)
    precisions: tuple[Precision, ...] = ("fp32",)
    gpu: bool = True
    """Whether a GPU is of any use to it."""
    code_licence: str = ""
    weights_licence: str = ""
    modules: tuple[str, ...] = ()
    """What must be importable."""
    install: str = ""
    """The line that installs those, where the default install does not bring them."""
    weights: str = ""
    """How to get its weights, in a sentence; empty when they come with the packages."""
    repository: str = ""
    """On the model hub, where there is one."""
    package_bytes: int = 0
    weights_bytes: int = 0
    """About what its packages, without torch, and its weights take; 0 when that is not known."""
    limit: int = 400
    """The most characters of one line."""
    phonemes: bool = False
    """Whether it takes IPA between [[ and ]] in a line's text."""
    word_times: bool = False
    seeded: bool = False
    """Whether another seed gives another take."""
    streams: bool = False
    """Whether `stream` gives parts of a line while the rest is made."""
    cloud: bool = False
    """Whether the text leaves the machine."""
    options: tuple[Option, ...] = ()
    unverified: str = ""
    """What nobody has run yet, in a sentence; empty when it was run with real weights."""


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
class Found:
    """An engine's weights on this machine, found without loading them."""

    engine: str
    version: str
    """Of the adapter and of its library: another one may sound differently."""
    fingerprint: str
    """The hash of the weights."""
    voices: tuple[Voice, ...]
    folder: str = ""
    """Where they lie; empty when a package holds them."""
    environment: str = ""
    """The engine's own environment; empty for one that runs in ours."""
    sample_rate: int = 24000
    worker_bytes: int = 0
    """What one worker holds at least."""

    @property
    def languages(self) -> tuple[str, ...]:
        """What its voices speak, in their order."""
        spoken = (code for voice in self.voices for code in (voice.language, *voice.also))
        return tuple(dict.fromkeys(spoken))


@dataclass(frozen=True)
class Line:
    """What an engine is given to say at a time: a sentence or a part of one."""

    text: str
    """Words as they are said; IPA between [[ and ]] for an engine that takes it."""
    language: str = "en"
    voice: str = ""
    """A name of its voices, or a blend such as `af_heart:2+am_michael`; its first when empty."""
    rate: float = 1.0
    """2.0 is twice as fast."""
    seed: int = 0

    @property
    def cost(self) -> float:
        """What it costs to say: characters, with a little for each call."""
        return len(self.text) + 8.0


class SpeechEngine(BaseEngine):
    """What every speech engine inherits. `spec`, `find` and `run` must be given."""

    spec: ClassVar[Spec]
    hosted: ClassVar[bool] = False
    """Whether it is a `speech.hosting.engine.Hosted`, which runs in an environment of its own."""
    clones: ClassVar[bool] = False
    """Whether a recording serves as a voice."""
    pads = True
    sample_rate: int = 24000
    cores: ClassVar[int | None] = 1
    """How many cores of a CPU one process keeps busy with lines: more than one where `run` may be
    called from several threads at once and leaves the interpreter to the others; None where the
    library spreads one line over all cores itself."""

    def __init__(self, placement: Placement, *, folder: str = "", **options: Value) -> None:
        """Load into a placement.

        Args:
            placement: where it runs.
            folder: `Found.folder`.
            options: of `spec.options`, checked and complete.
        """

    @classmethod
    def find(cls, folder: Path | None = None) -> Found:
        """Its weights: in `folder`, or where it knows them to be.

        MissingPackageError says what to install, MissingWeightsError how to get them.
        """
        raise NotImplementedError

    @classmethod
    def voices_with(cls, found: Found, options: Mapping[str, Value]) -> tuple[Voice, ...]:
        """Its voices, for an engine whose options can name more of them."""
        return found.voices

    @classmethod
    def need(cls, found: Found) -> Workload:
        """What it asks of a device."""
        from anyrig.placement import Workload

        spec = cls.spec
        return Workload(
            name=f"the voice engine {spec.name}",
            libraries=spec.libraries,
            precisions=spec.precisions,
            worker_bytes=found.worker_bytes,
            gpu=spec.gpu,
            cores=cls.cores,
        )

    def run(self, batch: Sequence[Line]) -> Sequence[Take]:
        """A take of each line, in order."""
        raise NotImplementedError

    def stream(self, line: Line) -> Iterator[Take]:
        """A line's audio in parts that follow on each other without a gap."""
        yield from self.run([line])


def list_memory_options(
    spec: Spec, placement: Placement, options: Mapping[str, Value], *, hosted: bool = False
) -> tuple[OptionRef, ...]:
    """What of an engine's own options needs less memory than what is in use.

    Args:
        spec: of the engine.
        placement: where it runs.
        options: of `spec.options`, complete.
        hosted: whether its own torch computes, whatever library the placement names.
    """
    found = [
        OptionRef("set", f"{option.name}={option.saves_memory}")
        for option in spec.options
        if option.saves_memory is not None and options.get(option.name) == option.default
    ]
    on_gpu = placement.device.kind == "gpu"
    half = next((name for name in spec.precisions if name in ("fp16", "bf16")), "")
    casts = hosted or placement.backend.library == "torch"
    if half and casts and on_gpu and placement.precision in ("fp32", "tf32"):
        found.append(OptionRef("precision", half))
    return (*found, OptionRef("device", "cpu")) if on_gpu else tuple(found)


def options_of(spec: Spec, given: Mapping[str, Any]) -> dict[str, Value]:
    """Every option of an engine with its value: what was given, checked, over the defaults."""
    known = {option.name: option for option in spec.options}
    for name in given:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise InvalidInputError(
                f"{spec.name} has no option {name!r}", hint=f"It has: {listed}. See "
                f"`anyrig engines show {spec.name}`.",
            )  # fmt: skip
    return {
        name: _checked(spec.name, option, given[name]) if name in given else option.default
        for name, option in known.items()
    }


def _checked(engine: str, option: Option, value: object) -> Value:
    kind = type(option.default)
    try:
        typed = _typed(kind, value)
    except ValueError:
        raise InvalidInputError(
            f"{engine}: {option.name} is {kind.__name__}, not {value!r}", hint=f"{option.help}"
        ) from None
    if option.choices and typed not in option.choices:
        raise InvalidInputError(
            f"{engine}: {option.name} cannot be {typed!r}",
            hint=f"It is one of: {', '.join(option.choices)}.",
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


_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _typed(kind: type, value: object) -> Value:
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
