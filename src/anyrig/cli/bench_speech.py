"""`anyrig bench --speech`: how fast an engine speaks, on each device and in each number format."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from anyrig.cli import compute, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.show import Progress, print_json, print_warning, table
from anyrig.devices.choose import choose
from anyrig.devices.describe import Device
from anyrig.errors import AnyrigError, KernelFailed
from anyrig.units import seconds_text

if TYPE_CHECKING:
    from anyrig.placement import Placed
    from anyrig.speech.script import Segment
    from anyrig.speech.synthesise import Studio

# Ten words each; different ones, so that nothing is found in a cache.
SENTENCES = (
    "The old keeper walked slowly down the long stone stairs.",
    "Nobody in the village had ever seen such heavy rain.",
    "She counted every coin twice and then closed the box.",
    "A quiet train crossed the bridge while the town slept.",
    "We shall meet again where the two small rivers join.",
    "His brother painted the kitchen walls in a pale yellow.",
    "The letter arrived three weeks after they had left home.",
    "Most of the garden was covered with fresh white snow.",
)
_ROUNDS = 5
_MANY = 64


@dataclass(frozen=True)
class Timed:
    """An engine on a device in a number format."""

    device: str
    through: str
    precision: str
    load_s: float
    """From nothing to an engine that can speak, its process included."""
    first_s: float
    """The first sentence after that: kernels are loaded, shapes are seen for the first time."""
    sentence_s: float
    """A sentence of ten words after that, one at a time; the median."""
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
    asked = compute.wanted(context).precision
    formats = engine.spec.precisions if asked == "auto" else (asked,)
    with Progress(len(devices) * len(formats), "run") as progress:
        for device in devices:
            for precision in formats:
                progress.step(f"{device.name}, {precision}")
                try:
                    found.append(_timed(context, engine, device, precision))
                except AnyrigError as error:
                    print_warning(f"{device.name} in {precision}: {error.message}")
                progress.done()
    if not found:
        raise KernelFailed(f"{engine.name} runs nowhere here", hint="Run `anyrig doctor`.")
    if context.options.json:
        print_json({"engine": engine.name, "speech": [asdict(timed) for timed in found]})
    else:
        print(report(engine.name, found))
    return 0


def _timed(context: Context, engine: speaker.Chosen, device: Device, precision: str) -> Timed:
    from anyrig.errors import DeviceUnusable
    from anyrig.speech.synthesise import Studio

    place = _placed(context, engine, device, precision)
    seat = place.placements[0]
    if seat.device.id != device.id or seat.precision != precision:
        why = place.passed_over[0].reason if place.passed_over else f"runs in {seat.precision}"
        raise DeviceUnusable(why, hint="Leave it out.")
    began = time.perf_counter()
    with Studio(
        engine=engine.name, found=engine.found, placed=replace(place, fallback=None),
        environment=context.environment, options=engine.options,
    ) as studio:  # fmt: skip
        studio.wait_ready()
        load_s = time.perf_counter() - began
        rounds = [_spoken(studio, [segment]) for segment in _segments(context, engine)]
        many = _segments(context, engine, _MANY)
        _spoken(studio, many)  # finds the batch size
        busy_s, audio_s = _spoken(studio, list(reversed(many)))
    times = [seconds for seconds, _ in rounds[1 : _ROUNDS + 1]]
    heard = sum(audio for _, audio in rounds[1 : _ROUNDS + 1])
    return Timed(
        device.name, seat.drive.word, precision, load_s, rounds[0][0], statistics.median(times),
        (min(times), max(times)), sum(times) / heard, audio_s / busy_s,
    )  # fmt: skip


def _placed(context: Context, engine: speaker.Chosen, device: Device, precision: str) -> Placed:
    from anyrig.devices.choose import Wish
    from anyrig.placement import place

    word = context.options.device if context.options.device not in (None, "all") else device.id
    return place(
        context.machine,
        choose(context.machine, (Wish(word, "flag"),)),
        engine.kind.need(engine.found),
        replace(compute.wanted(context), precision=precision),
        speeds=context.book.speeds(context.machine),
        failed=compute.failures(context),
        environment=context.environment,
    )


def _segments(context: Context, engine: speaker.Chosen, count: int = 0) -> list[Segment]:
    def texts() -> Iterator[str]:
        for number in range(count or len(SENTENCES)):
            yield SENTENCES[number % len(SENTENCES)] + " Yes." * (number // len(SENTENCES))

    language = engine.found.languages[0] if engine.found.languages else "en"
    given = {"language": context.options.language or language}
    return [voicing.script(context, engine, text, **given).segments[0] for text in texts()]


def _spoken(studio: Studio, segments: Sequence[Segment]) -> tuple[float, float]:
    """How long it took, and how long it is."""
    began = time.perf_counter()
    audio_s = 0.0
    for spoken in studio.takes(segments):
        if spoken.take is None:
            assert spoken.failure is not None
            raise KernelFailed(spoken.failure.said, hint=spoken.failure.hint or "Try again.")
        audio_s += spoken.take.duration_s
    return time.perf_counter() - began, audio_s


def report(engine: str, found: Sequence[Timed]) -> str:
    """The table."""
    rows = [["device", "through", "format", "load", "first", "ten words", "spread",
             "real-time factor", "many at once"]]  # fmt: skip
    for timed in found:
        low, high = (seconds_text(value) for value in timed.spread_s)
        rows.append([
            timed.device, timed.through, timed.precision, seconds_text(timed.load_s),
            seconds_text(timed.first_s), seconds_text(timed.sentence_s), f"{low} to {high}",
            f"{timed.real_time_factor:.3g}", f"{timed.many:.3g} times real time",
        ])  # fmt: skip
    told = (
        f"\n\n{engine}. load: a new process until it can speak. first: the first sentence after "
        "that. ten words: a sentence later on, one at a time, the median of "
        f"{_ROUNDS}."
    )
    return table(rows, right=(3, 4, 5, 7)) + told
