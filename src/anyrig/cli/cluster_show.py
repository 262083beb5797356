"""How a cluster looks on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyrig.cli.output import format_table, paint
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.cluster.status import Row, Status

_MOODS = {"ready": "good", "busy": "good", "lost": "broken", "draining": "warning"}


def told(found: Status) -> str:
    """A table of workers, and what is wrong with some."""
    notice = found.coordinator
    lines = [
        f"coordinator {notice.host} (anyrig {notice.version})" if notice
        else "no coordinator: work goes on, but large answers have no box"
    ]  # fmt: skip
    if not found.rows:
        return "\n".join([*lines, "", "No worker has joined. `anyrig worker --join TOKEN` does."])
    head = ["worker", "status", "device", "GPUs", "free MB", "models", "characters/s", "segments",
            "version", "host", "last sign"]  # fmt: skip
    text = format_table([head, *map(_cells, found.rows)], right=(3, 4, 6, 7))
    top, *rest = text.splitlines()
    lines += ["", paint(top, "bold")]
    for row, line in zip(found.rows, rest, strict=True):
        painted = paint(row.status, _MOODS.get(row.status, "warning"))
        lines.append(line.replace(row.status, painted, 1) if row.status not in row.name else line)
    notes = [f"{row.name}: {row.trouble}" for row in found.rows if row.trouble]
    working = sum(not row.trouble for row in found.rows)
    lines += ["", f"{working} of {pluralize(len(found.rows), 'worker')} can be given work"]
    return "\n".join([*lines, *notes])


def _cells(row: Row) -> list[str]:
    card = row.card
    if card is None:
        return [row.name, row.status, "?", "", "", "", "", "", "?", "?", _ago(row)]
    free = card.gpu_memory_free_mb
    return [
        row.name, row.status, f"{card.device_type} ({card.device})" if card.device else
        card.device_type,
        str(card.gpu_count) if card.gpu_available else "-",
        str(free) if card.gpu_available and free is not None else "-",
        ", ".join(card.cached_models) or "-",
        ", ".join(f"{name} {rate:,.0f}" for name, rate in card.speeds.items()) or "-",
        f"{card.segments_done:,}", card.version, card.host, _ago(row),
    ]  # fmt: skip


def _ago(row: Row) -> str:
    if row.last_sign_s is None:
        return "?"
    seconds = row.last_sign_s
    return f"{seconds:.0f} s ago" if seconds < 60 else f"{format_duration(seconds)} ago"
