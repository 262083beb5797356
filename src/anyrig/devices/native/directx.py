"""Display adapters through DXGI (Windows) and DXCore (WSL2), with the standard library alone.

ctypes has no COM: methods are called by their index in the object's method table, and every object
is released. No library is loaded before it is needed.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

_U32, _SIZE, _GUID, _OUT = ctypes.c_uint32, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
_RELEASE = 2

# -- COM -----------------------------------------------------------------------------------------


def _guid(text: str) -> bytes:
    """A GUID as memory holds it: the first three groups are little-endian."""
    return UUID(text).bytes_le


def _check(call: str, result: int) -> None:
    if result < 0:
        raise OSError(f"{call} failed with HRESULT 0x{result & 0xFFFFFFFF:08X}")


def _method(
    this: int, index: int, *arguments: Any, result: Any = ctypes.c_int32
) -> Callable[..., int]:
    """A method of an object, which begins with the pointer to its method table."""
    table = ctypes.c_void_p.from_address(this).value or 0
    slot = table + index * ctypes.sizeof(ctypes.c_void_p)
    address = ctypes.c_void_p.from_address(slot).value or 0
    convention: Any = ctypes.CFUNCTYPE
    if sys.platform == "win32":  # stdcall, which differs in 32-bit code
        convention = ctypes.WINFUNCTYPE
    call: Callable[..., int] = convention(result, ctypes.c_void_p, *arguments)(address)
    return call


@contextmanager
def _release_at_end(pointer: ctypes.c_void_p) -> Iterator[int]:
    """An object that is released on every way out."""
    this = pointer.value
    if not this:
        raise OSError("a successful HRESULT came with a null object")
    try:
        yield this
    finally:
        _method(this, _RELEASE, result=_U32)(this)


@contextmanager
def _create_factory(create: Any, name: str, interface: str) -> Iterator[int]:
    create.restype = ctypes.c_int32
    create.argtypes = (_GUID, _OUT)
    pointer = ctypes.c_void_p()
    _check(name, create(_guid(interface), ctypes.byref(pointer)))
    with _release_at_end(pointer) as factory:
        yield factory


def format_version(number: int) -> str:
    """A driver version as Windows shows it: four words, highest first."""
    return ".".join(str(number >> shift & 0xFFFF) for shift in (48, 32, 16, 0))


# -- DXGI ----------------------------------------------------------------------------------------

# Indices into the method tables, counted in the C interfaces of dxgi.h and dxgi1_4.h.
_QUERY_INTERFACE = 0
_CHECK_INTERFACE_SUPPORT = 9  # IDXGIAdapter
_GET_DESC1 = 10  # IDXGIAdapter1
_ENUM_ADAPTERS1 = 12  # IDXGIFactory1
_QUERY_VIDEO_MEMORY_INFO = 14  # IDXGIAdapter3

_DXGI_FACTORY1 = "770aae78-f26f-4dba-a829-253c83d1b387"
_DXGI_ADAPTER3 = "645967a4-1392-4310-a798-8053ce3e93fd"
_DXGI_DEVICE = "54ec77fa-1377-44e6-8c32-88fd5f44c84c"

_NOT_FOUND = 0x887A0002
_SEARCH_SYSTEM32 = 0x00000800
_SEGMENT_LOCAL = 0

# DXGI_ADAPTER_DESC1: WCHAR[128], four UINT, three SIZE_T, LUID (unsigned low, signed high), UINT;
# the final 0N is the padding that the compiler adds behind Flags.
DESC1 = "@256s4I3NIiI0N"
_DESC1_KEYS = (
    "VendorId", "DeviceId", "SubSysId", "Revision",
    "DedicatedVideoMemory", "DedicatedSystemMemory", "SharedSystemMemory",
)  # fmt: skip
# DXGI_QUERY_VIDEO_MEMORY_INFO: Budget, CurrentUsage, AvailableForReservation, CurrentReservation.
_MEMORY_INFO = "=4Q"


def decode_desc1(data: bytes) -> dict[str, object]:
    text, *numbers, low, high, flags = struct.unpack(DESC1, data)
    # Not c_wchar: that has four bytes outside Windows, and a lone surrogate must not raise.
    name = text.decode("utf-16-le", "replace").split("\0", 1)[0]
    found: dict[str, object] = {"Description": name, **dict(zip(_DESC1_KEYS, numbers, strict=True))}
    found["AdapterLuid"] = (high & 0xFFFFFFFF) << 32 | low
    found["Flags"] = flags
    return found


def list_dxgi_adapters() -> list[dict[str, object]]:
    """Every adapter, in DXGI's order, with its description and this process's memory budget.

    DriverVersion, Budget and CurrentUsage are missing if the adapter does not report them.
    CurrentUsage is this process's own, never the whole device's.
    """
    if sys.platform != "win32":
        raise OSError("DXGI is available on Windows only")
    # System32 alone, so that a dxgi.dll beside the interpreter is never loaded.
    library = ctypes.WinDLL("dxgi.dll", winmode=_SEARCH_SYSTEM32)
    found: list[dict[str, object]] = []
    name = "CreateDXGIFactory1"
    with _create_factory(library.CreateDXGIFactory1, name, _DXGI_FACTORY1) as factory:
        enumerate_adapters = _method(factory, _ENUM_ADAPTERS1, _U32, _OUT)
        # The bound guards against a broken driver layer that never returns "not found".
        for index in range(256):
            pointer = ctypes.c_void_p()
            result = enumerate_adapters(factory, index, ctypes.byref(pointer))
            if result & 0xFFFFFFFF == _NOT_FOUND:
                break
            _check("IDXGIFactory1::EnumAdapters1", result)
            with _release_at_end(pointer) as adapter:
                found.append(_describe_dxgi(adapter))
    return found


def _describe_dxgi(adapter: int) -> dict[str, object]:
    data = ctypes.create_string_buffer(struct.calcsize(DESC1))
    _check("IDXGIAdapter1::GetDesc1", _method(adapter, _GET_DESC1, _OUT)(adapter, data))
    found = decode_desc1(data.raw)
    version = ctypes.c_int64()
    check_support = _method(adapter, _CHECK_INTERFACE_SUPPORT, _GUID, _OUT)
    # IDXGIDevice is the one interface whose answer has the driver's version.
    if check_support(adapter, _guid(_DXGI_DEVICE), ctypes.byref(version)) >= 0:
        found["DriverVersion"] = format_version(version.value)
    pointer = ctypes.c_void_p()
    query = _method(adapter, _QUERY_INTERFACE, _GUID, _OUT)
    if query(adapter, _guid(_DXGI_ADAPTER3), ctypes.byref(pointer)) < 0:
        return found  # there is no IDXGIAdapter3 before Windows 10
    with _release_at_end(pointer) as adapter3:
        memory = ctypes.create_string_buffer(struct.calcsize(_MEMORY_INFO))
        query_memory = _method(adapter3, _QUERY_VIDEO_MEMORY_INFO, _U32, _U32, _OUT)
        if query_memory(adapter3, 0, _SEGMENT_LOCAL, memory) >= 0:
            found["Budget"], found["CurrentUsage"] = struct.unpack(_MEMORY_INFO, memory.raw)[:2]
    return found


# -- DXCore: in WSL2 the only list of the Windows host's GPUs -------------------------------------

# Indices into the method tables, counted in dxcore_interface.h.
_CREATE_ADAPTER_LIST = 3  # IDXCoreAdapterFactory
_GET_ADAPTER = 3  # IDXCoreAdapterList
_GET_ADAPTER_COUNT = 4
_IS_PROPERTY_SUPPORTED = 5  # IDXCoreAdapter
_GET_PROPERTY = 6
_GET_PROPERTY_SIZE = 7

_DXCORE_FACTORY = "78ee5945-c36e-4b13-a669-005dd11c0f06"
_DXCORE_LIST = "526c7776-40e9-459b-b711-f32ad76dfc28"
_DXCORE_ADAPTER = "f0db4c7f-fe5a-42a2-bd62-f2a6cf6fc83e"
_CORE_COMPUTE = "248e2800-a793-4724-abaa-23a6de1be090"
_GRAPHICS = "0c9ece4d-2f6e-4f01-8c96-e89e331b47b1"

# DXCoreAdapterProperty.
_PROPERTIES = {
    "InstanceLuid": 0, "DriverVersion": 1, "DriverDescription": 2, "HardwareID": 3,
    "DedicatedAdapterMemory": 7, "SharedSystemMemory": 9, "IsHardware": 11, "IsIntegrated": 12,
}  # fmt: skip


def list_dxcore_adapters(library: str) -> list[dict[str, object]]:
    """The adapters that can compute, then those that can only draw, each once.

    A property that an adapter does not support is missing.
    """
    create = _load(library).DXCoreCreateAdapterFactory
    found: dict[object, dict[str, object]] = {}
    with _create_factory(create, "DXCoreCreateAdapterFactory", _DXCORE_FACTORY) as factory:
        # Two lists, because the attributes of one list must all apply at once.
        for attribute in (_CORE_COMPUTE, _GRAPHICS):
            for adapter in _list_with_attribute(factory, attribute):
                found.setdefault(adapter.get("InstanceLuid", len(found)), adapter)
    return list(found.values())


def _list_with_attribute(factory: int, attribute: str) -> Iterator[dict[str, object]]:
    pointer = ctypes.c_void_p()
    create = _method(factory, _CREATE_ADAPTER_LIST, _U32, _GUID, _GUID, _OUT)
    result = create(factory, 1, _guid(attribute), _guid(_DXCORE_LIST), ctypes.byref(pointer))
    _check("IDXCoreAdapterFactory::CreateAdapterList", result)
    with _release_at_end(pointer) as adapters:
        get = _method(adapters, _GET_ADAPTER, _U32, _GUID, _OUT)
        for index in range(_method(adapters, _GET_ADAPTER_COUNT, result=_U32)(adapters)):
            pointer = ctypes.c_void_p()
            result = get(adapters, index, _guid(_DXCORE_ADAPTER), ctypes.byref(pointer))
            _check("IDXCoreAdapterList::GetAdapter", result)
            with _release_at_end(pointer) as adapter:
                yield _describe_dxcore(adapter)


def _describe_dxcore(adapter: int) -> dict[str, object]:
    is_supported = _method(adapter, _IS_PROPERTY_SUPPORTED, _U32, result=ctypes.c_bool)
    return {
        name: _decode_property(name, _read_property(adapter, name, number))
        for name, number in _PROPERTIES.items()
        if is_supported(adapter, number)
    }


def _read_property(adapter: int, name: str, number: int) -> bytes:
    """Query the size, then the bytes: the description's length varies."""
    size = ctypes.c_size_t()
    result = _method(adapter, _GET_PROPERTY_SIZE, _U32, _OUT)(adapter, number, ctypes.byref(size))
    _check(f"IDXCoreAdapter::GetPropertySize({name})", result)
    data = ctypes.create_string_buffer(size.value)
    result = _method(adapter, _GET_PROPERTY, _U32, _SIZE, _OUT)(adapter, number, size.value, data)
    _check(f"IDXCoreAdapter::GetProperty({name})", result)
    return data.raw


def _decode_property(name: str, data: bytes) -> object:
    if name == "DriverDescription":
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")
    if name == "HardwareID":
        fields = ("vendorID", "deviceID", "subSysID", "revision")
        return dict(zip(fields, struct.unpack_from("=4I", data), strict=True))
    # Sizes are size_t or uint64_t, the LUID two 32-bit halves, low first: all of them numbers.
    number = int.from_bytes(data, "little")
    if name == "DriverVersion":
        return format_version(number)
    return number != 0 if name.startswith("Is") else number


def _load(library: str) -> ctypes.CDLL:
    """With the calling convention of its exports on this system."""
    if sys.platform == "win32":
        return ctypes.WinDLL(library)
    return ctypes.CDLL(library)
