"""Where numbers lie on a chart and how its axes are labelled: round ticks, units that fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Unit(NamedTuple):
    """What values are divided by to be shown, and how that is called."""

    size: float
    name: str


class Axis(NamedTuple):
    """A range of values along a stretch of the page."""

    low: float
    high: float
    begin: float
    """Where `low` lies on the page."""
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies; beyond the range, at its end."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(one, 1e-300)) for one in (value, low, high))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)


def nice_step(span: float, most: int) -> float:
    """A round step of which at most so many fit into a span."""
    rough = max(span, 1e-300) / most
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough * (1 - 1e-9))


def ticks(low: float, high: float, most: int = 5, *, whole: bool = False) -> list[float]:
    """Round numbers within a range."""
    step = nice_step(high - low, most)
    if whole:
        step = max(1.0, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers within a range of a logarithmic axis."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        every = [digit * 10.0**power for power in powers for digit in digits]
        found = [one for one in every if low <= one <= high]
        if len(found) <= most:
            break
    if len(found) > most:
        found = found[:: math.ceil(len(found) / most)]
    return found if len(found) >= 2 else ticks(low, high)


def labels(values: Sequence[float]) -> list[str]:
    """Numbers with as many digits as tell them apart, and no more."""
    for digits in range(7):
        shown = [f"{value:.{digits}f}" for value in values]
        exact = all(
            abs(float(text) - value) <= 1e-6 * max(abs(value), 1e-12)
            for text, value in zip(shown, values, strict=True)
        )
        if exact and len(set(shown)) == len(set(values)):
            return [text.replace("-", "−") for text in shown]
    return [f"{value:g}" for value in values]


def step_label(step: float) -> str:
    """A number of steps: `800`, `1.5k`, `20k`, `1.2M`."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if step >= size:
            return f"{step / size:g}{unit}"
    return f"{step:g}"


def count_unit(highest: float, name: str) -> Unit:
    """Thousands and millions where numbers are large."""
    for size, word in ((1e9, "thousand million"), (1e6, "million"), (1e3, "thousand")):
        if highest >= size * 10:
            return Unit(size, f"{word} {name}")
    return Unit(1.0, name)


def seconds_unit(highest: float) -> Unit:
    """Microseconds, milliseconds, seconds or minutes."""
    if highest < 1e-3:
        return Unit(1e-6, "µs")
    if highest < 2.0:
        return Unit(1e-3, "ms")
    return Unit(60.0, "min") if highest >= 600 else Unit(1.0, "s")


def bytes_unit(highest: float) -> Unit:
    """MiB or GiB."""
    return Unit(2.0**30, "GiB") if highest >= 2**31 else Unit(2.0**20, "MiB")


def power_unit(highest: float) -> Unit:
    """Powers of ten for very small and very large numbers, such as learning rates."""
    if highest <= 0 or 0.01 <= highest < 1e5:
        return Unit(1.0, "")
    power = math.floor(math.log10(highest) + 1e-9)
    return Unit(10.0**power, "×10" + str(power).translate(_SUPERSCRIPTS))
