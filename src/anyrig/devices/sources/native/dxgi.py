"""Display adapters as Windows' DXGI sees them, without any package but the standard library.

Calls go through the COM method tables by index, because ctypes knows no COM. Nothing is
loaded before ``adapters`` is called.
"""

from __future__ import annotations

import ctypes
import struct
import sys

from anyrig.devices.sources.native.com import check, guid, method, owned, version_text

# Indexes into the method tables, counted in the C interfaces of dxgi.h and dxgi1_4.h.
_QUERY_INTERFACE = 0
_CHECK_INTERFACE_SUPPORT = 9  # IDXGIAdapter
_GET_DESC1 = 10  # IDXGIAdapter1
_ENUM_ADAPTERS1 = 12  # IDXGIFactory1
_QUERY_VIDEO_MEMORY_INFO = 14  # IDXGIAdapter3

_FACTORY1 = "770aae78-f26f-4dba-a829-253c83d1b387"
_ADAPTER3 = "645967a4-1392-4310-a798-8053ce3e93fd"
_DEVICE = "54ec77fa-1377-44e6-8c32-88fd5f44c84c"

_NOT_FOUND = 0x887A0002
_SEARCH_SYSTEM32 = 0x00000800
_SEGMENT_LOCAL = 0

# DXGI_ADAPTER_DESC1: WCHAR[128], four UINT, three SIZE_T, LUID (unsigned low, signed high), UINT;
# the final 0N asks for the padding that the compiler adds behind Flags.
DESC1 = "@256s4I3NIiI0N"
_DESC1_KEYS = (
    "VendorId",
    "DeviceId",
    "SubSysId",
    "Revision",
    "DedicatedVideoMemory",
    "DedicatedSystemMemory",
    "SharedSystemMemory",
)
# DXGI_QUERY_VIDEO_MEMORY_INFO: Budget, CurrentUsage, AvailableForReservation, CurrentReservation.
MEMORY_INFO = "=4Q"


def decode_desc1(data: bytes) -> dict[str, object]:
    """Read the bytes of one DXGI_ADAPTER_DESC1; apart from the calls, so that it can be tested."""
    text, *numbers, low, high, flags = struct.unpack(DESC1, data)
    # Not c_wchar: that has four bytes outside Windows, and a lone surrogate must not raise.
    name = text.decode("utf-16-le", "replace").split("\0", 1)[0]
    found: dict[str, object] = {"Description": name, **dict(zip(_DESC1_KEYS, numbers, strict=True))}
    found["AdapterLuid"] = (high & 0xFFFFFFFF) << 32 | low
    found["Flags"] = flags
    return found


def adapters() -> list[dict[str, object]]:
    """List every adapter, in DXGI's order, with its description and this process's budget.

    DriverVersion, Budget and CurrentUsage are left out where the adapter does not give them:
    they are extras, and one adapter without them must not hide the others. CurrentUsage is
    this process's own, never the whole device's.
    """
    if sys.platform != "win32":
        raise OSError("DXGI is only on Windows")
    # System32 alone, so that a dxgi.dll beside the interpreter is never loaded.
    library = ctypes.WinDLL("dxgi.dll", winmode=_SEARCH_SYSTEM32)
    create = library.CreateDXGIFactory1
    create.restype = ctypes.c_int32
    create.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    made = ctypes.c_void_p()
    check("CreateDXGIFactory1", create(guid(_FACTORY1), ctypes.byref(made)))
    found: list[dict[str, object]] = []
    with owned(made) as factory:
        enumerate_ = method(
            factory, _ENUM_ADAPTERS1, ctypes.c_int32, ctypes.c_uint32, ctypes.c_void_p
        )
        # The bound only guards against a broken driver layer that never says "not found".
        for index in range(256):
            made = ctypes.c_void_p()
            result = enumerate_(factory, index, ctypes.byref(made))
            if result & 0xFFFFFFFF == _NOT_FOUND:
                break
            check("IDXGIFactory1::EnumAdapters1", result)
            with owned(made) as adapter:
                found.append(_describe(adapter))
    return found


def _describe(adapter: int) -> dict[str, object]:
    """Gather one adapter's description and what else it will give."""
    data = ctypes.create_string_buffer(struct.calcsize(DESC1))
    describe = method(adapter, _GET_DESC1, ctypes.c_int32, ctypes.c_void_p)
    check("IDXGIAdapter1::GetDesc1", describe(adapter, data))
    found = decode_desc1(data.raw)
    version = ctypes.c_int64()
    support = method(
        adapter, _CHECK_INTERFACE_SUPPORT, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p
    )
    # IDXGIDevice is the one interface whose answer carries the driver's version.
    if support(adapter, guid(_DEVICE), ctypes.byref(version)) >= 0:
        found["DriverVersion"] = version_text(version.value)
    made = ctypes.c_void_p()
    query = method(adapter, _QUERY_INTERFACE, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
    if query(adapter, guid(_ADAPTER3), ctypes.byref(made)) < 0:
        return found  # Before Windows 10 there is no IDXGIAdapter3.
    with owned(made) as adapter3:
        memory = ctypes.create_string_buffer(struct.calcsize(MEMORY_INFO))
        info = method(
            adapter3,
            _QUERY_VIDEO_MEMORY_INFO,
            ctypes.c_int32,
            ctypes.c_uint32,
            ctypes.c_uint32,
            ctypes.c_void_p,
        )
        if info(adapter3, 0, _SEGMENT_LOCAL, memory) >= 0:
            found["Budget"], found["CurrentUsage"] = struct.unpack(MEMORY_INFO, memory.raw)[:2]
    return found
