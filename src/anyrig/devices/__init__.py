"""What devices a machine has, which backends can use them, and which one to use.

No framework is imported. The names below are for programs that use this package alone; they are
imported late, as every worker needs some class of `machine` and none of the vendors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.devices.choose import DeviceRequest, choose_device
    from anyrig.devices.discovery import discover
    from anyrig.devices.machine import Device, Machine

__all__ = ["Device", "DeviceRequest", "Machine", "choose_device", "discover"]
_MODULES = {
    "Device": "machine", "Machine": "machine", "DeviceRequest": "choose",
    "choose_device": "choose", "discover": "discovery",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
