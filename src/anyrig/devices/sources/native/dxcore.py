"""Adapters as DXCore sees them: in WSL2 the only list of the Windows host's GPUs.

Calls go through the C++ method tables by index, because ctypes knows no COM. Nothing is
loaded before ``adapters`` is called.
"""

from __future__ import annotations

import ctypes
import struct
import sys

from anyrig.devices.sources.native.com import check, guid, method, owned, version_text

# Indexes into the method tables, counted in dxcore_interface.h.
_CREATE_ADAPTER_LIST = 3  # IDXCoreAdapterFactory
_GET_ADAPTER = 3  # IDXCoreAdapterList
_GET_ADAPTER_COUNT = 4
_IS_PROPERTY_SUPPORTED = 5  # IDXCoreAdapter
_GET_PROPERTY = 6
_GET_PROPERTY_SIZE = 7
_IS_QUERY_STATE_SUPPORTED = 8
_QUERY_STATE = 9

_FACTORY = "78ee5945-c36e-4b13-a669-005dd11c0f06"
_LIST = "526c7776-40e9-459b-b711-f32ad76dfc28"
_ADAPTER = "f0db4c7f-fe5a-42a2-bd62-f2a6cf6fc83e"
_CORE_COMPUTE = "248e2800-a793-4724-abaa-23a6de1be090"
_GRAPHICS = "0c9ece4d-2f6e-4f01-8c96-e89e331b47b1"

# DXCoreAdapterProperty.
PROPERTIES = {
    "InstanceLuid": 0,
    "DriverVersion": 1,
    "DriverDescription": 2,
    "HardwareID": 3,
    "DedicatedAdapterMemory": 7,
    "DedicatedSystemMemory": 8,
    "SharedSystemMemory": 9,
    "IsHardware": 11,
    "IsIntegrated": 12,
}
_MEMORY_BUDGET = 1  # DXCoreAdapterState::AdapterMemoryBudget
_MEMORY_USAGE = 2  # DXCoreAdapterState::AdapterMemoryUsageBytes, of newer versions
# Both states take two uint32: node or physical adapter 0, and local or dedicated memory 0.
_FIRST_LOCAL = bytes(8)
# DXCoreAdapterMemoryBudget: budget, currentUsage, availableForReservation, currentReservation.
_BUDGET_SIZE = 32
# DXCoreMemoryUsage: committed, resident.
_USAGE_SIZE = 16


def decode_property(name: str, data: bytes) -> object:
    """Give a property's bytes their meaning; apart from the calls, so that it can be tested."""
    if name == "DriverDescription":
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")
    if name == "HardwareID":
        fields = ("vendorID", "deviceID", "subSysID", "revision")
        return dict(zip(fields, struct.unpack_from("=4I", data), strict=True))
    number = int.from_bytes(data, "little")
    if name == "DriverVersion":
        return version_text(number)
    if name.startswith("Is"):
        return number != 0
    # The sizes are size_t or uint64_t, the LUID two 32-bit halves, low first: all of them numbers.
    return number


def adapters(library: str) -> list[dict[str, object]]:
    """List the adapters that can compute, then those that can only draw, each once.

    A property, or a memory state, that the adapter says it does not have is left out. The
    budget's CurrentUsage is this process's own; UsedResident, where there, is the device's.
    """
    loaded = _load(library)
    create = loaded.DXCoreCreateAdapterFactory
    create.restype = ctypes.c_int32
    create.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    made = ctypes.c_void_p()
    check("DXCoreCreateAdapterFactory", create(guid(_FACTORY), ctypes.byref(made)))
    found: dict[object, dict[str, object]] = {}
    with owned(made) as factory:
        # Two lists, because the attributes of one list must all hold at once.
        for attribute in (_CORE_COMPUTE, _GRAPHICS):
            for adapter in _listed(factory, attribute):
                found.setdefault(adapter.get("InstanceLuid", len(found)), adapter)
    return list(found.values())


def _listed(factory: int, attribute: str) -> list[dict[str, object]]:
    """Describe the adapters that have one attribute."""
    made = ctypes.c_void_p()
    create = method(
        factory,
        _CREATE_ADAPTER_LIST,
        ctypes.c_int32,
        ctypes.c_uint32,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
    )
    result = create(factory, 1, guid(attribute), guid(_LIST), ctypes.byref(made))
    check("IDXCoreAdapterFactory::CreateAdapterList", result)
    found = []
    with owned(made) as listing:
        count = method(listing, _GET_ADAPTER_COUNT, ctypes.c_uint32)(listing)
        get = method(
            listing,
            _GET_ADAPTER,
            ctypes.c_int32,
            ctypes.c_uint32,
            ctypes.c_char_p,
            ctypes.c_void_p,
        )
        for index in range(count):
            made = ctypes.c_void_p()
            result = get(listing, index, guid(_ADAPTER), ctypes.byref(made))
            check("IDXCoreAdapterList::GetAdapter", result)
            with owned(made) as adapter:
                found.append(_describe(adapter))
    return found


def _describe(adapter: int) -> dict[str, object]:
    """Gather every property that one adapter has, and its memory state."""
    found: dict[str, object] = {}
    supported = method(adapter, _IS_PROPERTY_SUPPORTED, ctypes.c_bool, ctypes.c_uint32)
    for name, number in PROPERTIES.items():
        if supported(adapter, number):
            found[name] = decode_property(name, _property(adapter, name, number))
    budget = _state(adapter, _MEMORY_BUDGET, _BUDGET_SIZE)
    if budget is not None:
        found["Budget"], found["CurrentUsage"] = struct.unpack_from("=2Q", budget)
    usage = _state(adapter, _MEMORY_USAGE, _USAGE_SIZE)
    if usage is not None:
        found["UsedCommitted"], found["UsedResident"] = struct.unpack("=2Q", usage)
    return found


def _property(adapter: int, name: str, number: int) -> bytes:
    """Ask for a property's size, then for its bytes: the description's length varies."""
    size = ctypes.c_size_t()
    measure = method(adapter, _GET_PROPERTY_SIZE, ctypes.c_int32, ctypes.c_uint32, ctypes.c_void_p)
    result = measure(adapter, number, ctypes.byref(size))
    check(f"IDXCoreAdapter::GetPropertySize({name})", result)
    data = ctypes.create_string_buffer(size.value)
    get = method(
        adapter,
        _GET_PROPERTY,
        ctypes.c_int32,
        ctypes.c_uint32,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    check(f"IDXCoreAdapter::GetProperty({name})", get(adapter, number, size.value, data))
    return data.raw


def _state(adapter: int, state: int, size: int) -> bytes | None:
    """Ask for a state of the first node's local memory; None where it is not to be had."""
    supported = method(adapter, _IS_QUERY_STATE_SUPPORTED, ctypes.c_bool, ctypes.c_uint32)
    if not supported(adapter, state):
        return None
    data = ctypes.create_string_buffer(size)
    query = method(
        adapter,
        _QUERY_STATE,
        ctypes.c_int32,
        ctypes.c_uint32,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    # A failure is no error: memory state is an extra, and the adapter is there all the same.
    failed = query(adapter, state, len(_FIRST_LOCAL), _FIRST_LOCAL, size, data) < 0
    return None if failed else data.raw


def _load(library: str) -> ctypes.CDLL:
    """Load the library with the convention of its exports on this system."""
    if sys.platform == "win32":
        return ctypes.WinDLL(library)
    return ctypes.CDLL(library)
