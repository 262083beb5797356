"""What ctypes and fcntl read: bytes as the C compiler lays them out, and COM objects made here.

Offsets and sizes below were printed by a C compiler from the system's own headers (i915_drm.h,
xe_drm.h of Linux 6.12, dxgi.h, dxcore_interface.h); the DXGI calls themselves were run under Wine.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from anyrig.devices.native import directx, drm

GIB = 1024**3


def test_i915_regions() -> None:
    region = struct.pack("=HHIQQ64x", 1, 0, 0, 16 * GIB, 15 * GIB)
    data = struct.pack("=I12x", 2) + struct.pack("=HHIQQ64x", 0, 0, 0, 32 * GIB, 32 * GIB) + region
    assert len(region) == 88
    assert drm.decode("i915", data)[1] == {
        "memory_class": 1,
        "memory_instance": 0,
        "probed_size": 16 * GIB,
        "unallocated_size": 15 * GIB,
    }


def test_xe_regions() -> None:
    region = struct.pack("=HHIQQQQ48x", 1, 1, 65536, 12 * GIB, 1 * GIB, 12 * GIB, 0)
    assert len(region) == 88
    (found,) = drm.decode("xe", struct.pack("=I4x", 1) + region)
    assert (found["mem_class"], found["total_size"], found["used"]) == (1, 12 * GIB, 1 * GIB)


@pytest.mark.parametrize("data", [b"", b"\x01\0\0\0", struct.pack("=I12x", 3) + bytes(88)])
def test_truncated_regions(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"shorter|fit"):
        drm.decode("i915", data)


def test_query_of_a_plain_file(tmp_path: Any) -> None:
    path = tmp_path / "node"
    path.write_bytes(b"")
    with pytest.raises(OSError, match="ioctl"):
        drm.query(str(path))


def test_adapter_description() -> None:
    name = "AMD Radeon RX 7900 XTX".encode("utf-16-le").ljust(256, b"\0")
    numbers = (0x1002, 0x744C, 0x1EAE7901, 0xC8, 24 * GIB, 0, 16 * GIB)
    data = struct.pack(directx.DESC1, name, *numbers, 0x89ABCDEF, -2, 2)
    assert len(data) == 312
    found = directx.decode_desc1(data)
    assert found["Description"] == "AMD Radeon RX 7900 XTX"
    assert found["DedicatedVideoMemory"] == 24 * GIB
    assert found["AdapterLuid"] == 0xFFFFFFFE89ABCDEF
    assert found["Flags"] == 2


def test_dxgi_outside_windows() -> None:
    with pytest.raises(OSError, match="on Windows only"):
        directx.list_dxgi_adapters()


def test_driver_versions() -> None:
    assert directx.format_version(31 << 48 | 0 << 32 | 21921 << 16 | 1000) == "31.0.21921.1000"


class Object:
    """A COM object whose methods are Python functions, by slot; counts its releases."""

    def __init__(self, methods: dict[int, tuple[Any, Any]]) -> None:
        self.released = 0
        kinds = {2: (ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p), self._release), **methods}
        self._keep = {slot: kind(function) for slot, (kind, function) in kinds.items()}
        self._table = (ctypes.c_void_p * 16)()
        for slot, function in self._keep.items():
            self._table[slot] = ctypes.cast(function, ctypes.c_void_p).value
        self._this = ctypes.c_void_p(ctypes.addressof(self._table))
        self.address = ctypes.addressof(self._this)

    def _release(self, this: int) -> int:
        self.released += 1
        return 0


_P, _U, _S = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t
_PROPERTIES = {
    0: struct.pack("=Q", 77),
    2: b"AMD Radeon RX 7900 XTX\0",
    3: struct.pack("=4I", 0x1002, 0x744C, 0x1EAE7901, 0xC8),
    1: struct.pack("=Q", 32 << 48 | 21025 << 16 | 1024),
    7: struct.pack("=Q", 24 * GIB),
    11: b"\1",
    12: b"\0",
}


def _give(target: int, address: int) -> None:
    ctypes.c_void_p.from_address(target).value = address


def _adapter() -> Object:
    def size(this: int, number: int, out: int) -> int:
        _S.from_address(out).value = len(_PROPERTIES[number])
        return 0

    def read(this: int, number: int, length: int, out: int) -> int:
        ctypes.memmove(out, _PROPERTIES[number], length)
        return 0

    return Object(
        {
            5: (ctypes.CFUNCTYPE(ctypes.c_bool, _P, _U), lambda this, n: n in _PROPERTIES),
            6: (ctypes.CFUNCTYPE(ctypes.c_int32, _P, _U, _S, _P), read),
            7: (ctypes.CFUNCTYPE(ctypes.c_int32, _P, _U, _P), size),
            8: (ctypes.CFUNCTYPE(ctypes.c_bool, _P, _U), lambda this, n: False),
        }
    )


def test_dxcore_releases_its_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = _adapter()

    def get(this: int, index: int, iid: int, out: int) -> int:
        _give(out, adapter.address)
        return 0

    listing = Object(
        {
            3: (ctypes.CFUNCTYPE(ctypes.c_int32, _P, _U, _P, _P), get),
            4: (ctypes.CFUNCTYPE(_U, _P), lambda this: 1),
        }
    )

    def create(this: int, count: int, attributes: int, iid: int, out: int) -> int:
        _give(out, listing.address)
        return 0

    factory = Object({3: (ctypes.CFUNCTYPE(ctypes.c_int32, _P, _U, _P, _P, _P), create)})

    def make(iid: bytes, out: Any) -> int:
        _give(ctypes.addressof(out._obj), factory.address)
        return 0

    monkeypatch.setattr(directx, "_load", lambda _: _library(make))
    (found,) = directx.list_dxcore_adapters("libdxcore.so")  # in both lists, kept once
    assert found["DriverDescription"] == "AMD Radeon RX 7900 XTX"
    assert found["HardwareID"] == {
        "vendorID": 0x1002, "deviceID": 0x744C, "subSysID": 0x1EAE7901, "revision": 0xC8,
    }  # fmt: skip
    assert found["DriverVersion"] == "32.0.21025.1024"
    assert found["DedicatedAdapterMemory"] == 24 * GIB
    assert (found["IsHardware"], found["IsIntegrated"]) == (True, False)
    assert (factory.released, listing.released, adapter.released) == (1, 2, 2)


def test_failed_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = 0x80004002 - 2**32
    monkeypatch.setattr(directx, "_load", lambda _: _library(lambda iid, out: refuse))
    with pytest.raises(OSError, match="DXCoreCreateAdapterFactory failed with HRESULT 0x80004002"):
        directx.list_dxcore_adapters("libdxcore.so")


def _library(make: Any) -> Any:
    class Library:
        @property
        def DXCoreCreateAdapterFactory(self) -> Any:  # noqa: N802 - the library's own name
            class Call:
                def __call__(self, iid: bytes, out: Any) -> int:
                    return int(make(iid, out))

            return Call()

    return Library()
