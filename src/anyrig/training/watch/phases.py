"""How long each part of a step took, without waiting for the device.

On a GPU two events are recorded around a part on the stream and read once the device has passed
them; so `data` is the time in which the device really waited for data, not that of the host, which
runs ahead. On a CPU, and where a device has no events (DirectML), it is the host's clock.
"""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import NamedTuple, Protocol, cast

import torch

from anyrig.training.protocol import Phase

_HAS_EVENTS = frozenset({"cuda", "xpu", "mps"})


class Event(Protocol):
    """What torch's events of every device have in common."""

    def record(self, stream: object = ..., /) -> None:
        """Mark this place on a stream."""

    def query(self) -> bool:
        """Whether the device has passed it."""

    def synchronize(self) -> None:
        """Wait until it has."""

    def elapsed_time(self, end: Event, /) -> float:
        """Milliseconds to a later one."""


class StepTime(NamedTuple):
    """The time of one step."""

    step_s: float
    """From its first phase to its end; of the previous step's end when it had no phases. What
    happens between steps, a validation or a checkpoint, is not in it."""
    phases: dict[Phase, float]
    """Seconds by phase, added up where one came several times."""


class Clock(Protocol):
    """Measures phases and steps."""

    def begin(self, name: Phase) -> None:
        """A phase begins."""

    def end(self) -> None:
        """It ends."""

    def cut(self) -> Reading:
        """The step is over; what it took can be read a little later."""


class Reading(Protocol):
    """A step's time, perhaps not known yet."""

    def ready(self) -> bool:
        """Whether it can be read without waiting."""

    def wait(self) -> None:
        """Wait until it can."""

    def read(self) -> StepTime:
        """The time; once only."""


class Phases:
    """Times phases of steps: `with phases.phase("forward"):`, and `cut` after each step."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.clock = clock_of(torch.device(device))
        self._spans: dict[Phase, _Span] = {}

    def phase(self, name: Phase) -> _Span:
        """Around a part of a step."""
        span = self._spans.get(name)
        if span is None:
            span = self._spans[name] = _Span(self.clock, name)
        return span

    def cut(self) -> Reading:
        """The step is over."""
        return self.clock.cut()


class _Span:
    """One object a phase, used again and again: entering costs no allocation."""

    __slots__ = ("_clock", "_name")

    def __init__(self, clock: Clock, name: Phase) -> None:
        self._clock = clock
        self._name = name

    def __enter__(self) -> None:
        self._clock.begin(self._name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clock.end()


def clock_of(device: torch.device) -> Clock:
    """Events where the device has them, else the host's clock."""
    return EventClock(device) if device.type in _HAS_EVENTS else HostClock()


class HostClock:
    """The host's clock: what a phase took is known when it ends."""

    def __init__(self) -> None:
        self._sums: dict[Phase, float] = {}
        self._name: Phase = "data"
        self._begun = 0.0
        self._step_begun: float | None = None
        self._last_cut: float | None = None

    def begin(self, name: Phase) -> None:
        """A phase begins."""
        self._name = name
        self._begun = time.perf_counter()
        if self._step_begun is None:
            self._step_begun = self._begun

    def end(self) -> None:
        """It ends."""
        took = time.perf_counter() - self._begun
        self._sums[self._name] = self._sums.get(self._name, 0.0) + took

    def cut(self) -> Reading:
        """The step is over."""
        now = time.perf_counter()
        begun = self._last_cut if self._step_begun is None else self._step_begun
        took = StepTime(now - begun if begun is not None else 0.0, self._sums)
        self._last_cut, self._step_begun, self._sums = now, None, {}
        return Known(took)


class Known(NamedTuple):
    """A step's time that is known already."""

    time: StepTime

    def ready(self) -> bool:
        """It is."""
        return True

    def wait(self) -> None:
        """There is nothing to wait for."""

    def read(self) -> StepTime:
        """The time."""
        return self.time


class EventClock:
    """Events on the device's stream, taken from a pool and given back when they were read."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module = torch.get_device_module(device)
        self._pool: deque[Event] = deque()
        self._spans: list[tuple[Phase, Event, Event]] = []
        self._open: tuple[Phase, Event] | None = None
        self._last_cut: Event | None = None

    def begin(self, name: Phase) -> None:
        """A phase begins. While a graph is recorded nothing runs, so nothing is timed."""
        self._open = None if self._recording() else (name, self.mark())

    def end(self) -> None:
        """It ends."""
        if self._open is not None:
            self._spans.append((*self._open, self.mark()))
            self._open = None

    def mark(self) -> Event:
        """An event recorded here, on the stream of the moment."""
        event = self._pool.popleft() if self._pool else self._new()
        if self._device.type == "mps":  # it has one stream and takes no other
            event.record()
        else:
            event.record(self._module.current_stream(self._device))
        return event

    def cut(self) -> Reading:
        """The step is over."""
        end = self.mark()
        start = self._spans[0][1] if self._spans else self._last_cut
        reading = _Passed(self, self._spans, start, end, self._last_cut)
        self._spans, self._last_cut = [], end
        return reading

    def give_back(self, events: list[Event]) -> None:
        """Events that nobody reads any more."""
        self._pool.extend(events)

    def _recording(self) -> bool:
        return self._device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    def _new(self) -> Event:
        return cast("Event", self._module.Event(enable_timing=True))


class _Passed:
    """A step between events. Its end is the next one's start, so that one gives it back."""

    def __init__(
        self,
        clock: EventClock,
        spans: list[tuple[Phase, Event, Event]],
        start: Event | None,
        end: Event,
        before: Event | None,
    ) -> None:
        self._clock = clock
        self._spans = spans
        self._start = start
        self._end = end
        self._before = before

    def ready(self) -> bool:
        """Whether the device has passed the end."""
        return self._end.query()

    def wait(self) -> None:
        """Wait for this event alone, not for the device."""
        self._end.synchronize()

    def read(self) -> StepTime:
        """The time."""
        sums: dict[Phase, float] = {}
        used: list[Event] = [] if self._before is None else [self._before]
        for name, begun, ended in self._spans:
            sums[name] = sums.get(name, 0.0) + begun.elapsed_time(ended) / 1000.0
            used += (begun, ended)
        step_s = 0.0 if self._start is None else self._start.elapsed_time(self._end) / 1000.0
        self._clock.give_back(used)
        return StepTime(step_s, sums)
