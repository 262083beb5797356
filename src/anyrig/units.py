"""Format byte counts, durations and rates for people; parse numbers, ranges and PCI addresses."""

from __future__ import annotations

import math
import re

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def format_bytes(count: int) -> str:
    """Format a byte count in binary units: `512 MiB`, `23.5 GiB`."""
    if count < KIB:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= KIB
        # 1023.5 would print as "1024 MiB": take the next unit instead.
        if round(value) < KIB or unit == "TiB":
            break
    digits = 0 if value >= 100 or abs(value - round(value)) < 0.05 else 1
    return f"{value:.{digits}f} {unit}"


def format_download(count: int) -> str:
    """Format the size of a download in decimal units, as hubs and indexes list it: `89 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def shorten(text: str, length: int) -> str:
    """A text in one line of at most so many characters; what is cut off is an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def format_duration(seconds: float) -> str:
    """Format a duration: `420 ms`, `3.2 s`, `4 min 05 s`, `2 h 10 min`."""
    if seconds < 0.01:
        return f"{seconds * 1000:.2f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def format_time_left(low_s: float, high_s: float) -> str:
    """Format what an estimate says: `4 min 05 s left`, or a range, `2 to 5 min left`."""
    if low_s == high_s:
        return f"{format_duration(low_s)} left" if low_s >= 1 else "under 1 s left"
    low, high, unit = round_range(low_s, high_s)
    if not low:
        return f"up to {high} {unit} left"
    return f"{low} to {high} {unit} left" if low < high else f"about {high} {unit} left"


def round_range(low_s: float, high_s: float) -> tuple[int, int, str]:
    """A range of seconds in whole seconds, minutes or hours: `(2, 5, "min")`."""
    for seconds, unit in ((3600, "h"), (60, "min")):
        if high_s >= 2 * seconds:
            return int(low_s // seconds), math.ceil(high_s / seconds), unit
    return int(low_s), max(1, math.ceil(high_s)), "s"


def format_flops(rate: float) -> str:
    """Format floating-point operations per second: `51.0 TFLOP/s`, `88.3 GFLOP/s`."""
    unit, value = ("TFLOP/s", rate / 1e12) if rate >= 1e12 else ("GFLOP/s", rate / 1e9)
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def format_bandwidth(rate: float) -> str:
    """Format bytes per second in decimal units, as vendors do: `4.3 TB/s`, `18.2 GB/s`."""
    if rate >= 1e12:
        return f"{rate / 1e12:.2f} TB/s"
    return f"{rate / 1e9:.1f} GB/s"


def format_speed(audio_s: float, wall_s: float = 1.0) -> str:
    """Format how fast audio was made or read: `44.1 times real time`, `0.03 times real time`."""
    speed = audio_s / max(wall_s, 1e-3)
    return f"{speed:.1f} times real time" if speed >= 1 else f"{speed:.2g} times real time"


def is_whole_number(text: str) -> bool:
    """Whether text is an unsigned number in ASCII digits, at most 100.

    str.isdigit() also accepts `²`, which int() rejects, and int() rejects thousands of digits.
    """
    return text.isascii() and text.isdigit() and len(text) <= 100


def parse_range(text: str, last: int = 0) -> tuple[int, int] | None:
    """`3` and `3-7` as first and last; `5-` ends with `last` where that is given."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*(?:(-)\s*(\d{0,9})\s*)?", text)
    if match is None or (match[2] and not match[3] and not last):
        return None
    first = int(match[1])
    return first, first if match[2] is None else int(match[3] or last)


def pluralize(count: int, noun: str) -> str:
    """`1 core`, `4 cores`: regular nouns only."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def normalize_pci_address(address: str) -> str:
    """Convert `00000000:01:00.0` or `01:00.0` to `0000:01:00.0`; an empty string for other text."""
    match = re.fullmatch(
        r"(?:([0-9a-fA-F]+):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.(\d)", address.strip()
    )
    if not match:
        return ""
    domain, bus, slot, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}.{function}"
