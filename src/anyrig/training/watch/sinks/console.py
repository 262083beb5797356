"""A run on a console: one live line on a terminal, a plain line now and then elsewhere.

Who prints hands in `write`; nothing is printed here by itself.
"""

from __future__ import annotations

import shutil
import time
import unicodedata
from collections.abc import Callable

from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.figures import Figures, Validation
from anyrig.training.watch.sinks import Told
from anyrig.units import format_bytes, format_duration

Write = Callable[[str], object]
_REDRAW_S = 0.1
_BAR = 12
# A person reading a terminal sees these in the live line.
_QUIET_EVENTS = frozenset({"epoch", "start", "end"})


class Console:
    """A live line, or plain lines.

    Args:
        write: takes text with its line ends, such as a stream's `write`.
        tty: whether that is a terminal, where a line can be drawn over.
        total_steps: for the bar.
        unit: what units are: tokens, samples.
        every_s: between two plain lines, where there is no terminal.
        width: columns of the terminal; asked for each time when None.
    """

    name = "console"

    def __init__(
        self,
        write: Write,
        *,
        tty: bool = False,
        total_steps: int | None = None,
        unit: str = "samples",
        every_s: float = 10.0,
        width: int | None = None,
    ) -> None:
        self._write = write
        self._tty = tty
        self._total = total_steps
        self._unit = unit
        self._every_s = _REDRAW_S if tty else every_s
        self._width = width
        self._drawn_at: float | None = None
        self._live = ""
        self._waiting: Figures | None = None

    def take(self, told: Told) -> None:
        """Show it."""
        if isinstance(told, Figures):
            self._waiting = told
            now = time.monotonic()
            if self._drawn_at is None or now - self._drawn_at >= self._every_s:
                self._drawn_at = now
                self._show()
        elif isinstance(told, Validation):
            figures = ", ".join(f"{name} {value:.4g}" for name, value in told.figures.items())
            self._say(f"step {told.step}: validation: {figures}")
        elif isinstance(told, Alert):
            self._say(f"step {told.step}: warning: {told.text}. {told.hint}")
        elif not (self._tty and told.kind in _QUIET_EVENTS):
            self._say(f"step {told.step}: {told.text}")

    def close(self) -> None:
        """The last figures stay on the screen."""
        self._show()
        if self._live:
            self._write("\n")
            self._live = ""

    def _show(self) -> None:
        if self._waiting is None:
            return
        figures, self._waiting = self._waiting, None
        text = line(figures, self._total, self._unit)
        if not self._tty:
            self._write(text + "\n")
            return
        if self._total:
            text = f"{_bar(figures.step / self._total)} {text}"
        columns = self._width or shutil.get_terminal_size().columns
        self._live = fitted(text, columns - 1)
        self._write("\r\x1b[K" + self._live)

    def _say(self, text: str) -> None:
        """A line that stays, above the live one."""
        text = one_line(text)
        if self._live:
            self._write("\r\x1b[K" + text + "\n" + self._live)
        else:
            self._write(text + "\n")


def line(figures: Figures, total_steps: int | None = None, unit: str = "samples") -> str:
    """Figures in one line."""
    of = f"/{total_steps}" if total_steps else ""
    parts = [f"step {figures.step}{of}", f"loss {figures.loss:.4f}", f"rate {figures.rate:.3g}"]
    if figures.units_per_s is not None:
        parts.append(f"{count_text(figures.units_per_s)} {unit}/s")
    parts.append(f"{format_duration(figures.step_s)}/step")
    held = figures.memory_peak_bytes or figures.memory_reserved_bytes
    if held is not None:
        parts.append(format_bytes(held))
    if figures.mfu is not None:
        parts.append(f"MFU {figures.mfu:.1%}")
    if figures.total_skipped:
        parts.append(f"{figures.total_skipped} skipped")
    if figures.eta_s is not None:
        parts.append(f"{format_duration(figures.eta_s)} left" if figures.eta_s else "done")
    return "  ".join(parts)


def count_text(value: float) -> str:
    """A count with three digits: `7.25`, `812`, `12.4k`, `3.40M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * size:
            return f"{_three(value / size)}{unit}"
    return _three(value)


def _three(value: float) -> str:
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"


def _bar(share: float) -> str:
    full = round(_BAR * min(1.0, share))
    return "[" + "#" * full + "." * (_BAR - full) + "]"


def one_line(text: str) -> str:
    """Text without what would move a terminal's cursor."""
    return "".join(" " if unicodedata.category(one) == "Cc" else one for one in text)


def fitted(text: str, columns: int) -> str:
    """The line cut at a whole part, so that it never wraps: a wrapped line cannot be drawn over."""
    text = one_line(text)
    if len(text) <= columns:
        return text
    whole = text[: columns + 1].rpartition("  ")[0]
    return whole or text[: max(0, columns)]
