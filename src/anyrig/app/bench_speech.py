"""How fast a speech engine is, on each device and in each precision."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.app.bench import BenchRequest, choose_devices
from anyrig.app.compute import place
from anyrig.app.engines import choose_engine
from anyrig.app.speech import prepare_script
from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.errors import AnyrigError, InvalidInputError, KernelError, Message
from anyrig.events import OnEvent, ProgressEvent
from anyrig.results import in_json
from anyrig.speech.choose import EngineChoice

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.devices.machine import Device, Precision
    from anyrig.placement import PlacementPlan
    from anyrig.speech.segment import Script, Segment
    from anyrig.speech.synthesis import Synthesizer

# Any beginning with any ending is a sentence of ten words. All are different, because a line that
# occurs twice is made once.
_BEGINNINGS = (
    "The old keeper walked slowly", "Nobody in the village waited", "She counted every coin twice",
    "A quiet train went onwards", "We shall meet again there", "His brother painted the walls",
    "The letter arrived three weeks", "Most of the garden slept",
)  # fmt: skip
_ENDINGS = (
    "down the long stone stairs.", "before the heavy rain came.", "and then closed the box.",
    "while all the town slept.", "where two small rivers join.", "under a pale yellow sky.",
    "after they had left home.", "beneath the fresh white snow.",
)  # fmt: skip
NUM_ROUNDS = 5
_NUM_PARAGRAPHS = 4  # the first is the first run, the others are the steady state
_MIN_BATCH, _MAX_BATCH = 4, 48
_BUDGET_S = 12.0
"""For each kind of measurement: a slow engine has fewer rounds, but at least two."""
_Round = TypeVar("_Round")


@dataclass(frozen=True)
class SpeechTiming:
    """An engine on a device in a precision."""

    device: str
    through: str
    precision: str
    load_s: float
    """Until the engine can speak, the start of its process included."""
    first_run_s: float
    """Until the first audio of the first paragraph: kernels are loaded, shapes are new."""
    first_audio_s: float
    """Until the first audio of a later paragraph; the median."""
    sentence_s: float
    """A sentence of ten words, one at a time; the median."""
    spread_s: tuple[float, float]
    real_time_factor: float
    """Time over audio, one sentence at a time; under 1 is faster than real time."""
    many: float
    """Seconds of audio per second, with as many sentences at a time as the engine likes."""


@dataclass(frozen=True)
class SpeechBenchResult:
    engine: str
    timings: tuple[SpeechTiming, ...] = field(metadata=in_json("speech"))


def bench_speech(rig: Rig, request: BenchRequest, on_event: OnEvent) -> SpeechBenchResult:
    """Time an engine on the requested devices, or on all that are usable."""
    devices = choose_devices(rig, request)
    language = request.language if request.language != "auto" else ""
    engine = choose_engine(rig, request, language)
    pairs = [(d, p) for d in devices for p in _list_precisions(request, engine)]
    timings = []
    for count, (device, precision) in enumerate(pairs):
        title = f"{device.name}, {precision}"

        def report(text: str = "", title: str = title, count: int = count) -> None:
            detail = f"{title}, {text}" if text else title
            on_event(ProgressEvent("measuring", count, len(pairs), detail))

        report()
        try:
            plan = _place(rig, request, engine, device, precision)
            if _is_placed(rig, request, plan, device, precision):
                timings.append(_time_engine(rig, request, engine, plan, report))
        except AnyrigError as error:
            rig.warn(
                Message(
                    "{name} in {precision}: {problem}",
                    name=device.name,
                    precision=precision,
                    problem=error.message,
                )
            )
    if not timings:
        raise KernelError(f"{engine.name} runs on no device here", hint="Run `anyrig doctor`.")
    return SpeechBenchResult(engine.name, tuple(timings))


def _list_precisions(request: BenchRequest, engine: EngineChoice) -> tuple[Precision, ...]:
    """The requested precision, or all that the engine has here."""
    supported: tuple[Precision, ...] = engine.engine_class.need(engine.weights).precisions
    if request.precision == "auto":
        return supported
    if request.precision not in supported:
        raise InvalidInputError(
            f"{engine.name} does not support {request.precision}",
            hint=f"It supports {', '.join(supported)}.",
        )
    return (request.precision,)


def _is_placed(
    rig: Rig, request: BenchRequest, plan: PlacementPlan, device: Device, precision: str
) -> bool:
    """Whether the plan is for this device and precision; a warning says why it is not."""
    placement = plan.placements[0]
    if placement.device.id == device.id and placement.precision == precision:
        return True
    if placement.device.id != device.id:
        reason = plan.skipped[0].reason if plan.skipped else "it is not used"
        rig.warn(f"{device.name}: {reason}")
    elif request.precision != "auto":
        rig.warn(f"{device.name}: it runs in {placement.precision}, not in {precision}")
    return False


def _place(
    rig: Rig, request: BenchRequest, engine: EngineChoice, device: Device, precision: Precision
) -> PlacementPlan:
    selector = request.device if request.device not in ("", "all") else device.id
    choice = choose_device(rig.machine, (DeviceRequest(selector, "flag"),))
    workload = engine.engine_class.need(engine.weights)
    return place(rig, choice, workload, replace(request, precision=precision))


def _time_engine(
    rig: Rig, request: BenchRequest, engine: EngineChoice, plan: PlacementPlan, report: Any
) -> SpeechTiming:
    from anyrig.speech.synthesis import Synthesizer

    def prepare(text: str) -> Script:
        own = engine.weights.languages
        language = request.language
        if language == "auto":
            language = "en" if "en" in own or not own else own[0]
        return prepare_script(rig, request, engine, text, language=language)

    def prepare_sentences(count: int, texts: Iterator[str]) -> list[Segment]:
        return [prepare(one).segments[0] for one in islice(texts, count)]

    placement = plan.placements[0]
    texts = list_sentences()
    report("loading")
    began = time.perf_counter()
    with Synthesizer(
        engine=engine.name, weights=engine.weights, plan=replace(plan, fallback=None),
        environment=rig.environment, options=engine.options,
    ) as synthesizer:  # fmt: skip
        synthesizer.wait_ready()
        load_s = time.perf_counter() - began
        report("speaking")
        first_audio = list(_within_budget(
            _time_first_audio(synthesizer, prepare(" ".join(islice(texts, 3))))
            for _ in range(_NUM_PARAGRAPHS)
        ))  # fmt: skip
        sentences = prepare_sentences(NUM_ROUNDS, texts)
        single = list(_within_budget(_time_sentences(synthesizer, [one]) for one in sentences))
        times = [seconds for seconds, _ in single]
        report("many at once")
        count = max(_MIN_BATCH, min(_MAX_BATCH, round(_BUDGET_S / statistics.median(times))))
        _time_sentences(synthesizer, prepare_sentences(count // 2, texts))  # finds the batch size
        busy_s, audio_s = _time_sentences(synthesizer, prepare_sentences(count, list_sentences()))
    return SpeechTiming(
        placement.device.name, placement.backend.selector, placement.precision, load_s,
        first_audio[0], statistics.median(first_audio[1:]), statistics.median(times),
        (min(times), max(times)), sum(times) / sum(audio for _, audio in single),
        audio_s / busy_s,
    )  # fmt: skip


def _within_budget(rounds: Iterable[_Round]) -> Iterator[_Round]:
    began = time.perf_counter()
    for number, one in enumerate(rounds, 1):
        yield one
        if number >= 2 and time.perf_counter() - began > _BUDGET_S:
            return


def list_sentences() -> Iterator[str]:
    """Sixty-four different sentences; neighbours share nothing."""
    for shift in range(len(_ENDINGS)):
        for number, beginning in enumerate(_BEGINNINGS):
            yield f"{beginning} {_ENDINGS[(number + shift) % len(_ENDINGS)]}"


def _time_first_audio(synthesizer: Synthesizer, script: Script) -> float:
    """How long a listener waits for a paragraph to begin; it is spoken to its end."""
    began = time.perf_counter()
    chunks = synthesizer.read(script.segments, lane="live").chunks()
    next(chunks)
    first_s = time.perf_counter() - began
    for _ in chunks:
        pass
    return first_s


def _time_sentences(synthesizer: Synthesizer, segments: Sequence[Segment]) -> tuple[float, float]:
    """Seconds of work and of audio."""
    began = time.perf_counter()
    audio_s = 0.0
    for spoken in synthesizer.read(segments):
        if spoken.take is None:
            assert spoken.failure is not None
            raise KernelError(spoken.failure.message, hint=spoken.failure.hint or "Try again.")
        audio_s += spoken.take.duration_s
    return time.perf_counter() - began, audio_s
