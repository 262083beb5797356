"""Windows: memory, processor features, the registry."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

from anyrig.devices.probe import NotFound, Unavailable

# MEMORYSTATUSEX: length, load, then seven 64-bit figures; the first two are all and free memory.
_MEMORY_STATUS = "=2I7Q"
# The values that are read; drivers keep hundreds of others beside them.
_VALUES = frozenset(
    "DriverDesc MatchingDeviceId DriverVersion ProviderName HardwareInformation.qwMemorySize "
    "ProcessorNameString VendorIdentifier".split()
)
# IsProcessorFeaturePresent's numbers, from winnt.h.
_FEATURES = {39: "avx", 40: "avx2", 41: "avx512f", 19: "asimd"}


def host() -> dict[str, Any]:
    """Memory and vector extensions; empty on other systems."""
    if sys.platform != "win32":
        return {}
    kernel = ctypes.WinDLL("kernel32")
    size = struct.calcsize(_MEMORY_STATUS)
    status = ctypes.create_string_buffer(struct.pack("=I", size).ljust(size, b"\0"), size)
    answer: dict[str, Any] = {
        "vectors": [
            name for number, name in _FEATURES.items() if kernel.IsProcessorFeaturePresent(number)
        ]
    }
    if kernel.GlobalMemoryStatusEx(status):
        _, _, total, free, *_ = struct.unpack(_MEMORY_STATUS, status.raw)
        answer |= {"memory_total": total, "memory_available": free}
    return answer


def registry_values(key: str) -> dict[str, Any]:
    """The values of a key below HKEY_LOCAL_MACHINE that describe a device."""
    if sys.platform != "win32":
        raise NotFound("only Windows has a registry")
    import winreg

    values: dict[str, Any] = {}
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
            for number in range(winreg.QueryInfoKey(opened)[1]):
                name, value, kind = winreg.EnumValue(opened, number)
                # Some drivers write numbers as REG_BINARY.
                if isinstance(value, bytes) and kind == winreg.REG_BINARY and len(value) in (4, 8):
                    value = int.from_bytes(value, "little")
                if name in _VALUES and isinstance(value, (int, str)):
                    values[name] = value
    except FileNotFoundError as error:
        raise NotFound(f"no registry key {key}") from error
    except OSError as error:
        raise Unavailable(f"registry key {key}: {error.strerror}") from error
    return values


def registry_subkeys(key: str) -> list[str]:
    if sys.platform != "win32":
        raise NotFound("only Windows has a registry")
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
            count = winreg.QueryInfoKey(opened)[0]
            return [winreg.EnumKey(opened, number) for number in range(count)]
    except OSError as error:
        raise NotFound(f"no registry key {key}") from error
