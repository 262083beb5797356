"""Settings of torch's allocator for a process that has not started torch yet.

torch reads them once, when it starts, and reads the whole string at once: a key that is not named
falls back to its default. So the user's keys are kept, and nothing is set afterwards.

Expandable segments let a block grow in place, so that changing batch sizes do not fragment the
memory. They are left alone where they are known to be ignored or to fail: Windows (ignored with a
warning, or a process broken by its first shortage, pytorch#188008), ROCm (ignored), MIG instances
(an assertion over NVML, vllm-project/ci-infra#355), Jetson boards (no virtual memory calls), and
WSL2, where we have not tested them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from anyrig.devices.allocator_settings import split_settings
from anyrig.devices.machine import Device, DeviceBackend

GENERAL, CUDA = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
_GENERAL_SINCE = (2, 9)
_SETTING = {"expandable_segments": "True"}
# Keys that contradict it: blocks that grow are never split, and other backends have none.
_CONFLICTS = ("expandable_segments", "max_split_size_mb", "backend")
# Jetson and Drive: Maxwell to Thor. GB10 is unified as well, and expandable segments help it.
_BOARDS = ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")


def choose_allocator_settings(
    device: Device,
    backend: DeviceBackend,
    environment: Mapping[str, str],
    *,
    torch_version: str,
    linux: bool,
) -> dict[str, str]:
    """What to add to the environment of a worker process before torch starts; may be empty.

    Args:
        environment: what is set already; it wins.
        linux: whether this is native Linux, not WSL.
    """
    if not (linux and _has_expandable_segments(device, backend)):
        return {}
    # The older name wins if both are set.
    name = next((n for n in (CUDA, GENERAL) if environment.get(n)), "")
    given = _parse(environment.get(name, ""))
    if not given.keys().isdisjoint(_CONFLICTS):
        return {}
    version = tuple(int(part) for part in re.findall(r"\d+", torch_version)[:2])
    name = name or (GENERAL if version >= _GENERAL_SINCE else CUDA)
    text = ",".join(f"{key}:{value}" for key, value in {**given, **_SETTING}.items())
    return {name: text}


def _has_expandable_segments(device: Device, backend: DeviceBackend) -> bool:
    if backend.library != "torch" or backend.provider != "cuda" or device.vendor != "nvidia":
        return False
    is_board = device.capability in _BOARDS and device.memory.kind == "unified"
    return device.part != "mig" and not is_board


def _parse(text: str) -> dict[str, str]:
    pairs = (item.partition(":") for item in split_settings(text))
    return {key: value for key, _, value in pairs}
