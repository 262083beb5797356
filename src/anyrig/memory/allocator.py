"""Settings of torch's allocator for a process that has not started torch yet.

torch reads them once, when it starts, and reads the whole string at once: a key that is not named
falls back to its default. So what the user set is kept, key by key, and nothing is set afterwards.

Expandable segments let a block grow in place, so memory of changing batch sizes does not fall into
pieces that fit nothing. They are left alone where they are known to be ignored or to break:
Windows (ignored with a warning, or a process broken by its first shortage, pytorch#188008), ROCm
(ignored), MIG instances (an assertion over NVML, vllm-project/ci-infra#355), Jetson boards (no
virtual memory calls), and WSL2, where nobody has run them for us.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

from anyrig.devices.machine import Device, DeviceBackend

GENERAL, CUDA = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
# Two parameters of one mechanism: blocks that grow are never split.
_CLASHES = ("expandable_segments", "max_split_size_mb", "backend")
_WISHED = ("expandable_segments", "True")
# Jetson and Drive: Maxwell to Thor. GB10 is unified as well, and expandable segments help it.
_BOARDS = ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")
_GENERAL_SINCE = (2, 9)


class Settings(NamedTuple):
    """Variables for a process's environment, and why these."""

    variables: dict[str, str]
    reason: str


def settings_for(
    device: Device,
    drive: DeviceBackend,
    environment: Mapping[str, str],
    *,
    torch_started: bool,
    torch_version: str = "",
    platform: str = sys.platform,
    wsl: bool = False,
) -> Settings:
    """What to add to the environment of a child, or of this process before torch starts.

    Args:
        device: what will be used.
        drive: through which backend.
        environment: what is set already; it wins.
        torch_started: whether torch is loaded in that process: then it is too late.
        torch_version: the installed one; from 2.9 on the general variable's name is read.
        platform: as `sys.platform` says it.
        wsl: whether this is Linux inside Windows.
    """
    why_not = _why_not(device, drive, platform, wsl)
    if why_not:
        return Settings({}, why_not)
    if torch_started:
        return Settings({}, "torch has started: its allocator keeps the settings it has")
    # The older name wins where both are set.
    name = next((n for n in (CUDA, GENERAL) if environment.get(n)), "")
    theirs = parsed(environment.get(name, ""))
    clash = next((key for key in _CLASHES if key in theirs), "")
    if clash:
        return Settings({}, f"{name} sets {clash}: left as it is")
    name = name or (GENERAL if _version(torch_version) >= _GENERAL_SINCE else CUDA)
    text = ",".join(f"{key}:{value}" for key, value in {**theirs, _WISHED[0]: _WISHED[1]}.items())
    return Settings({name: text}, "expandable segments: blocks grow in place when batches change")


def parsed(text: str) -> dict[str, str]:
    """The keys and values of an allocator string; values in brackets may hold commas."""
    pairs = re.findall(r"\s*([\w.]+)\s*:\s*(\[[^\]]*\]|[^,]*)", text)
    return {key: value.strip() for key, value in pairs}


def _why_not(device: Device, drive: DeviceBackend, platform: str, wsl: bool) -> str:
    if drive.backend != "torch" or drive.provider != "cuda" or device.vendor != "nvidia":
        return "only torch's CUDA allocator has expandable segments"
    if platform != "linux" or wsl:
        return "expandable segments are for Linux itself"
    if device.part == "mig":
        return "expandable segments fail on MIG instances"
    if device.capability in _BOARDS and device.memory.kind == "unified":
        return "expandable segments fail on Jetson boards"
    return ""


def _version(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
