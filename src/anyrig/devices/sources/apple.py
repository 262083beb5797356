"""Apple's GPU through system_profiler, with the share of unified memory that Metal gives it."""

from __future__ import annotations

import json
from typing import Any

from anyrig.devices.describe import Device, Memory, SourceReport, SourceState
from anyrig.devices.parts import apple as parts
from anyrig.devices.sources.cpu import mac_facts
from anyrig.devices.sources.system import Silent, System
from anyrig.units import MIB, format_bytes, pluralize


def find(system: System, system_memory: Memory) -> tuple[list[Device], SourceReport]:
    """Every GPU of a Mac."""
    try:
        answer = json.loads(system.run("system_profiler", "SPDisplaysDataType", "-json"))
        rows = [row for row in answer.get("SPDisplaysDataType", []) if isinstance(row, dict)]
    except (Silent, ValueError, AttributeError) as error:
        return [], SourceReport("apple", "failed", f"system_profiler: {error}")
    devices = [_describe(system, row, number, system_memory) for number, row in enumerate(rows)]
    state: SourceState = "found" if devices else "nothing"
    return devices, SourceReport("apple", state, f"{pluralize(len(devices), 'GPU')}")


def _describe(system: System, row: dict[str, Any], number: int, memory: Memory) -> Device:
    name = str(row.get("sppci_model") or row.get("_name") or "GPU of unknown name")
    apple = "apple" in str(row.get("spdisplays_vendor", "")).lower() or name.startswith("Apple")
    release = mac_facts(system).get("kern.osproductversion")
    if not apple:
        return Device(
            id=f"mac-gpu-{number}",
            kind="gpu",
            vendor=_vendor(row),
            name=name,
            memory=Memory(note=str(row.get("spdisplays_vram", "macOS does not tell its memory"))),
            driver="Metal",
            driver_version=release,
        )
    return Device(
        id=f"mac-gpu-{number}",
        kind="gpu",
        vendor="apple",
        name=name,
        architecture=name,
        capability=_metal(row),
        memory=_share(system, memory),
        driver="Metal",
        driver_version=release,
        features=parts.features(name),
        units=int(str(row.get("sppci_cores", "0"))) or None,
    )


def _metal(row: dict[str, Any]) -> str | None:
    """`spdisplays_metal4` as `metal4`; older systems use another key."""
    told = str(row.get("spdisplays_mtlgpufamilysupport") or row.get("spdisplays_metal") or "")
    return told.removeprefix("spdisplays_") or None


def _vendor(row: dict[str, Any]) -> str:
    told = str(row.get("spdisplays_vendor", "")).lower()
    return next((word for word in ("amd", "intel", "nvidia") if word in told), "unknown")


def _share(system: System, memory: Memory) -> Memory:
    if memory.total_bytes is None:
        return Memory("unified", note="macOS does not tell its memory")
    total, rule = parts.working_set(memory.total_bytes)
    limit = mac_facts(system).get("iogpu.wired_limit_mb", "0")
    if limit.isdigit() and int(limit):
        total, rule = int(limit) * MIB, "set by iogpu.wired_limit_mb"
    free = None if memory.free_bytes is None else min(memory.free_bytes, total)
    note = f"unified: {format_bytes(total)} of {format_bytes(memory.total_bytes)} ({rule})"
    return Memory("unified", total, free, note=note)
