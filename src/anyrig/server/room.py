"""Whether memory is short, of the host or of a device: then idle models are unloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyrig.server.kept import Short
from anyrig.units import GIB, MIB, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyrig.monitor import MachineSnapshot

_SHARE = 0.05


def floor_bytes(total: int, free_mb: float) -> float:
    """What should stay free of a memory: what the settings say, else a twentieth, 1 GiB at most."""
    return free_mb * MIB if free_mb else min(_SHARE * total, GIB)


class Watch:
    """Says what is short.

    Args:
        latest: the last samples of every device.
        free_mb: what should stay free; 0 leaves it to us.
    """

    def __init__(self, latest: Callable[[], MachineSnapshot | None], free_mb: float = 0.0) -> None:
        self._latest, self._free_mb = latest, free_mb
        self._told: float | None = None
        """When the sample was taken by which something was called short: it is so once, as an
        unloading shows only in the next."""

    def __call__(self) -> list[Short]:
        """Every memory that is short by the last sample; nothing twice of one sample.

        GPUs come first: what leaves one makes room on the host as well.
        """
        snapshot = self._latest()
        if snapshot is None or snapshot.monotonic_s == self._told:
            return []
        host = snapshot.host
        rows = [(one.device, one.name, one.memory_total_bytes, one.memory_free_bytes)
                for one in snapshot.devices[:-1] if not one.lost]  # fmt: skip
        rows.append(("", "the host", host.memory_total_bytes, host.memory_available_bytes))
        found = [
            Short(device, f"{format_bytes(free)} of memory are left on {name}")
            for device, name, total, free in rows
            if total and free is not None and free < floor_bytes(total, self._free_mb)
        ]
        if found:
            self._told = snapshot.monotonic_s
        return found
