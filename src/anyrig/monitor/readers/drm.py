"""What each process uses of a GPU, as Linux' DRM drivers tell in /proc/PID/fdinfo.

Finding the files means looking through every process, so a few processes are looked through at each
sample, ours always; files once found are read every time. Documented in the kernel's
Documentation/gpu/drm-usage-stats.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from anyrig.units import is_whole_number, normalize_pci_address

_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
# Processes looked through at each sample: about a millisecond.
_SLICE = 24


class Client(NamedTuple):
    """One open door to a GPU."""

    address: str
    pid: int
    client: str
    memory_bytes: dict[str, int]
    """By region: vram, gtt, local0, system0."""
    busy_ns: dict[str, int]
    """By engine."""
    cycles: dict[str, tuple[int, int]]
    """By engine: busy and all cycles."""


class DrmClients:
    """The processes that have a GPU open."""

    def __init__(self, root: str = "/") -> None:
        self._proc = f"{root.rstrip('/')}/proc"
        self._doors: dict[int, tuple[str, ...]] = {}
        """The fdinfo files of each process that lead to a GPU."""
        self._queue: list[int] = []

    def look(self, ours: Iterable[int]) -> list[Client]:
        """Every door that is known by now, each client once."""
        for pid in {*ours, *self._next_slice()}:
            found = tuple(self._find(pid))
            if found:
                self._doors[pid] = found
            else:
                self._doors.pop(pid, None)
        clients: dict[tuple[str, str, int], Client] = {}
        for pid, paths in list(self._doors.items()):
            alive = False
            for path in paths:
                client = self._read(pid, path)
                if client is not None:
                    alive = True
                    clients[client.address, client.client, pid] = client
            if not alive:
                del self._doors[pid]
        return list(clients.values())

    def _next_slice(self) -> list[int]:
        if not self._queue:
            try:
                self._queue = [
                    int(name) for name in os.listdir(self._proc) if is_whole_number(name)
                ]
            except OSError:
                return []
        taken, self._queue = self._queue[:_SLICE], self._queue[_SLICE:]
        return taken

    def _find(self, pid: int) -> Iterator[str]:
        folder = f"{self._proc}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            return  # another user's process, or gone
        for name in names:
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:
                continue
            if "/dev/dri/" in target:
                yield f"{self._proc}/{pid}/fdinfo/{name}"

    def _read(self, pid: int, path: str) -> Client | None:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return parse(pid, file.read(1 << 16))
        except OSError:
            return None


def parse(pid: int, text: str) -> Client | None:
    """One fdinfo file, where it is a GPU's."""
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in rows.items()}
    address = normalize_pci_address(facts.get("drm-pdev", ""))
    if not address:
        return None
    memory: dict[str, int] = {}
    busy: dict[str, int] = {}
    cycles: dict[str, tuple[int, int]] = {}
    # What is resident counts; older kernels tell only what was asked for, under another name.
    for kind in ("drm-total-", "drm-memory-", "drm-resident-"):
        for key, value in facts.items():
            if key.startswith(kind) and not key.startswith("drm-total-cycles-"):
                number, _, unit = value.partition(" ")
                if is_whole_number(number):
                    memory[key.removeprefix(kind)] = int(number) * _UNITS.get(unit.strip(), 1)
    for key, value in facts.items():
        number = value.split(" ")[0]
        if not is_whole_number(number):
            continue
        if key.startswith("drm-engine-") and not key.startswith("drm-engine-capacity-"):
            busy[key.removeprefix("drm-engine-")] = int(number)
        elif key.startswith("drm-cycles-"):
            engine = key.removeprefix("drm-cycles-")
            whole = facts.get(f"drm-total-cycles-{engine}", "0").split(" ")[0]
            cycles[engine] = (int(number), int(whole) if is_whole_number(whole) else 0)
    return Client(address, pid, facts.get("drm-client-id", ""), memory, busy, cycles)


class Use(NamedTuple):
    """What one process uses of one GPU."""

    memory_bytes: int
    compute_percent: float | None


class DrmUse:
    """Each process's memory and share of the busiest engine, sample after sample."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, int], Client] = {}
        self._at_s = 0.0

    def update(
        self, clients: Iterable[Client], at_s: float, regions: tuple[str, ...]
    ) -> dict[str, dict[int, Use]]:
        """By GPU and process.

        Args:
            clients: all doors that are open now.
            at_s: when they were looked at.
            regions: how the names begin of the memory that counts.
        """
        elapsed = at_s - self._at_s
        found: dict[str, dict[int, Use]] = {}
        now: dict[tuple[str, str, int], Client] = {}
        for client in clients:
            key = (client.address, client.client, client.pid)
            now[key] = client
            used = sum(
                size for name, size in client.memory_bytes.items() if name.startswith(regions)
            )
            busy = _busiest(self._before.get(key), client, elapsed)
            rows = found.setdefault(client.address, {})
            before = rows.get(client.pid, Use(0, None))
            shares = [share for share in (before.compute_percent, busy) if share is not None]
            together = min(100.0, sum(shares)) if shares else None
            rows[client.pid] = Use(before.memory_bytes + used, together)
        self._before, self._at_s = now, at_s
        return found


def _busiest(before: Client | None, now: Client, elapsed_s: float) -> float | None:
    """The share of the time in which the client's busiest engine worked for it."""
    if before is None or elapsed_s <= 0:
        return None
    shares = [
        100.0 * (ns - before.busy_ns.get(engine, ns)) / (elapsed_s * 1e9)
        for engine, ns in now.busy_ns.items()
    ]
    for engine, (busy, whole) in now.cycles.items():
        busy_before, whole_before = before.cycles.get(engine, (busy, whole))
        if whole > whole_before:
            shares.append(100.0 * (busy - busy_before) / (whole - whole_before))
    return min(100.0, max(0.0, max(shares))) if shares else None
