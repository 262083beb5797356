"""`anyrig bench --speech`: how fast an engine speaks, on each device and in each number format."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from anyrig.cli import compute, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.events import Events
from anyrig.cli.show import Progress, paint, print_warning, table, wrapped
from anyrig.devices.choose import choose_device
from anyrig.devices.machine import Device
from anyrig.errors import AnyrigError, InvalidInputError, KernelError
from anyrig.units import format_duration

if TYPE_CHECKING:
    from anyrig.devices.machine import Precision
    from anyrig.placement import PlacementPlan
    from anyrig.speech.script import Script, Segment
    from anyrig.speech.synthesise import Studio

# Any of the first with any of the second is a sentence of ten words: all are different, because a
# line that stands there twice is made once.
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
_ROUNDS = 5
_PARAGRAPHS = 4  # the first is the first run, the others are the steady state
_LEAST, _MOST = 4, 48  # sentences at once
_PATIENCE_S = 12.0
"""What each kind of measurement may take: a slow engine has fewer rounds, at least two."""


_Round = TypeVar("_Round")


@dataclass(frozen=True)
class Timed:
    """An engine on a device in a number format."""

    device: str
    through: str
    precision: str
    load_s: float
    """From nothing to an engine that can speak, its process included."""
    first_run_s: float
    """The first audio of the first paragraph: kernels are loaded, shapes are new."""
    first_audio_s: float
    """The first audio of a paragraph after that, as a listener waits for it; the median."""
    sentence_s: float
    """A sentence of ten words, one at a time; the median."""
    spread_s: tuple[float, float]
    real_time_factor: float
    """Time over audio, one sentence at a time; under 1 is faster than it is spoken."""
    many: float
    """Seconds of audio a second, with as many sentences at a time as it likes."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that go with `--speech`."""
    voicing.arguments(parser)
    compute.arguments(parser)


def run(context: Context, devices: Sequence[Device]) -> int:
    """Measure and print."""
    engine = speaker.chosen(context, context.options.language or "")
    found: list[Timed] = []
    pairs = [(device, precision) for device in devices for precision in _formats(context, engine)]
    told = Events(context, len(pairs), "measuring")
    with Progress(len(pairs), "run") as progress:
        for count, (device, precision) in enumerate(pairs):
            told.progress(count, f"{device.name}, {precision}")
            progress.step(f"{device.name}, {precision}")
            try:
                plan = _placed(context, engine, device, precision)
                if _is_there(context, plan, device, precision):
                    found.append(_timed(context, engine, plan, progress))
            except AnyrigError as error:
                print_warning(f"{device.name} in {precision}: {error.message}")
            progress.done()
    if not found:
        raise KernelError(f"{engine.name} runs nowhere here", hint="Run `anyrig doctor`.")
    if context.options.json:
        Events(context).end({"engine": engine.name, "speech": [asdict(one) for one in found]})
    else:
        print(report(engine.name, found))
    return 0


def _formats(context: Context, engine: speaker.Chosen) -> tuple[Precision, ...]:
    """What is measured: the format that was asked for, else all that the engine has here."""
    asked = compute.wanted(context).precision
    has = engine.kind.need(engine.found).precisions
    if asked == "auto":
        return has
    if asked not in has:
        raise InvalidInputError(
            f"{engine.name} does not speak in {asked}", hint=f"It has {', '.join(has)}."
        )
    return (asked,)


def _is_there(context: Context, plan: PlacementPlan, device: Device, precision: str) -> bool:
    """Whether the device was given in that format; told where the person asked for it."""
    seat = plan.placements[0]
    if seat.device.id == device.id and seat.precision == precision:
        return True
    if seat.device.id != device.id:
        why = plan.skipped[0].reason if plan.skipped else "it is not used"
        print_warning(f"{device.name}: {why}")
    elif compute.wanted(context).precision != "auto":
        print_warning(f"{device.name}: it runs in {seat.precision}, not in {precision}")
    return False


def _placed(
    context: Context, engine: speaker.Chosen, device: Device, precision: Precision
) -> PlacementPlan:
    from anyrig.devices.choose import DeviceRequest
    from anyrig.placement import plan_placement

    word = context.options.device if context.options.device not in (None, "all") else device.id
    found = plan_placement(
        context.machine,
        choose_device(context.machine, (DeviceRequest(word, "flag"),)),
        engine.kind.need(engine.found),
        replace(compute.wanted(context), precision=precision),
        speeds=context.measurements.speeds(context.machine),
        failed=compute.failures(context),
        environment=context.environment,
    )
    return compute.with_known_faults(context, found)


def _timed(
    context: Context, engine: speaker.Chosen, plan: PlacementPlan, progress: Progress
) -> Timed:
    from anyrig.speech.stage import Stage
    from anyrig.speech.synthesise import Studio

    seat = plan.placements[0]
    texts = _texts()
    title = f"{seat.device.name}, {seat.precision}"
    progress.step(f"{title}, loading")
    began = time.perf_counter()
    stage = Stage(
        engine=engine.name, found=engine.found, placed=replace(plan, fallback=None),
        environment=context.environment, options=engine.options,
    )  # fmt: skip
    with Studio(stage) as studio:
        studio.wait_ready()
        load_s = time.perf_counter() - began
        progress.step(f"{title}, speaking")
        heard = list(_patiently(
            _first_audio(studio, _paragraph(context, engine, texts)) for _ in range(_PARAGRAPHS)
        ))  # fmt: skip
        alone = (_spoken(studio, [s]) for s in _segments(context, engine, texts, _ROUNDS))
        one = list(_patiently(alone))
        times = [seconds for seconds, _ in one]
        progress.step(f"{title}, many at once")
        count = max(_LEAST, min(_MOST, round(_PATIENCE_S / statistics.median(times))))
        _spoken(studio, _segments(context, engine, texts, count // 2))  # finds the batch size
        busy_s, audio_s = _spoken(studio, _segments(context, engine, _texts(), count))
    return Timed(
        seat.device.name, seat.backend.selector, seat.precision, load_s, heard[0],
        statistics.median(heard[1:]), statistics.median(times), (min(times), max(times)),
        sum(times) / sum(audio for _, audio in one), audio_s / busy_s,
    )  # fmt: skip


def _patiently(rounds: Iterable[_Round]) -> Iterator[_Round]:
    """Rounds until there are enough, or until they took too long."""
    began = time.perf_counter()
    for number, figure in enumerate(rounds, 1):
        yield figure
        if number >= 2 and time.perf_counter() - began > _PATIENCE_S:
            return


def _texts() -> Iterator[str]:
    """Sixty-four sentences, neighbours as different as can be."""
    for shift in range(len(_ENDINGS)):
        for number, beginning in enumerate(_BEGINNINGS):
            yield f"{beginning} {_ENDINGS[(number + shift) % len(_ENDINGS)]}"


def _script(context: Context, engine: speaker.Chosen, text: str, *, first_short: bool) -> Script:
    own = engine.found.languages
    language = context.options.language or ("en" if "en" in own or not own else own[0])
    return voicing.script(context, engine, text, language=language, first_short=first_short)


def _paragraph(context: Context, engine: speaker.Chosen, texts: Iterator[str]) -> Script:
    return _script(context, engine, " ".join(islice(texts, 3)), first_short=True)


def _segments(
    context: Context, engine: speaker.Chosen, texts: Iterator[str], count: int
) -> list[Segment]:
    return [
        _script(context, engine, text, first_short=False).segments[0]
        for text in islice(texts, count)
    ]


def _first_audio(studio: Studio, script: Script) -> float:
    """How long a listener waits for a paragraph to begin; it is spoken to its end."""
    began = time.perf_counter()
    chunks = studio.speak(script, early=True)
    next(chunks)
    first_s = time.perf_counter() - began
    for _ in chunks:
        pass
    return first_s


def _spoken(studio: Studio, segments: Sequence[Segment]) -> tuple[float, float]:
    """How long it took, and how long it is."""
    began = time.perf_counter()
    audio_s = 0.0
    for spoken in studio.takes(segments):
        if spoken.take is None:
            assert spoken.failure is not None
            raise KernelError(spoken.failure.message, hint=spoken.failure.hint or "Try again.")
        audio_s += spoken.take.duration_s
    return time.perf_counter() - began, audio_s


def report(engine: str, found: Sequence[Timed]) -> str:
    """A table for each device, narrow enough for any terminal, and what its columns mean."""
    blocks = []
    for device in dict.fromkeys(timed.device for timed in found):
        rows = [["format", "through", "load", "first run", "first audio", "ten words", "factor",
                 "at once"]]  # fmt: skip
        for timed in found:
            if timed.device == device:
                rows.append([
                    timed.precision, timed.through, format_duration(timed.load_s),
                    format_duration(timed.first_run_s), format_duration(timed.first_audio_s),
                    format_duration(timed.sentence_s), f"{timed.real_time_factor:.3g}",
                    f"{timed.many:.3g}x",
                ])  # fmt: skip
        title = f"{engine} on {device}"
        blocks.append(f"{paint(title, 'bold')}\n{table(rows, right=range(2, 8))}")
    notes = {
        "load": "a new process until it can speak",
        "first run": "until the first paragraph after that begins",
        "first audio": "until a later one does",
        "ten words": f"a sentence, one at a time, the median of up to {_ROUNDS}",
        "factor": "time over audio of those; under 1 is faster than real time",
        "at once": "audio over time, with as many sentences at a time as it likes",
    }
    told = [wrapped(f"  {name + ':':<13}", text) for name, text in notes.items()]
    return "\n\n".join([*blocks, "\n".join(told)])
