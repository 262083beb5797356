"""Hardware tables, and which wheel runs on which part."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from anyrig.devices import amd, intel, nvidia
from anyrig.devices.machine import Features
from anyrig.devices.native import directx, drm

SAME_MAJOR = [
    ((8, 9), "sm_86", True), ((8, 0), "sm_86", False), ((12, 0), "sm_100 sm_90", False),
    ((12, 0), "sm_90 compute_90", True), ((9, 0), "sm_90a", True), ((9, 1), "sm_90a", False),
    ((7, 5), "", False), ((12, 0), "compute_121", False), ((9, 0), "nonsense sm_ sm_x", False),
    # Systems on a chip run what was built for them, as torch.cuda.DEVICE_REQUIREMENT has it.
    ((8, 7), "sm_80 sm_86", False), ((8, 7), "sm_87", True), ((8, 9), "sm_87", False),
    ((8, 7), "sm_80 compute_80", True), ((11, 0), "sm_101", True), ((10, 3), "sm_101", False),
]  # fmt: skip


def test_same_major_rule(subtests: pytest.Subtests) -> None:
    for capability, kernels, runs in SAME_MAJOR:
        with subtests.test(capability=capability, kernels=kernels):
            assert nvidia.can_run(capability, tuple(kernels.split())) == runs


@pytest.mark.parametrize(
    ("torch", "cuda", "arm", "windows", "first", "last"),
    [
        ("2.11.0", "13.0", False, False, "sm_75", "sm_120"),
        ("2.13.0", "13.0", True, False, "sm_80", "sm_120"),
        ("2.0.1", "11.7", False, False, "sm_37", "sm_86"),
        ("2.13.0", "12.6", False, True, "sm_50", "sm_90"),
    ],
)
def test_torch_wheels(
    torch: str, cuda: str, arm: bool, windows: bool, first: str, last: str
) -> None:
    kernels = nvidia.list_cuda_kernels(torch, cuda, arm=arm, windows=windows)
    assert kernels is not None
    assert (kernels[0], kernels[-1]) == (first, last)
    assert not any(kernel.startswith("compute") for kernel in kernels)


@pytest.mark.parametrize(
    ("rocm", "target", "runs"),
    [("6.4", "gfx1100", True), ("6.4", "gfx1151", False), ("7.2", "gfx1151", True),
     ("7.14", "gfx906", False), ("6.4", "gfx1031", False), ("6.0", "gfx942", True)],
)  # fmt: skip
def test_rocm_wheels(rocm: str, target: str, runs: bool) -> None:
    assert amd.can_run(target, amd.list_rocm_targets(rocm) or ()) == runs


@pytest.mark.parametrize(
    ("version", "cuda", "capability", "runs"),
    [("1.26.0", "12.8", (7, 0), True), ("1.31.1", "13.0", (7, 0), False),
     ("1.31.1", "13.0", (10, 0), False), ("1.31.1", "13.0", (12, 0), True),
     ("1.22.0", "12.2", (6, 1), True)],
)  # fmt: skip
def test_onnx_wheels(version: str, cuda: str, capability: tuple[int, int], runs: bool) -> None:
    needed, kernels = nvidia.find_onnx_gpu_build(version, arm=False, windows=False)
    assert needed == cuda
    assert nvidia.can_run(capability, kernels or ()) == runs


def test_rule_matches_torch() -> None:
    cuda = pytest.importorskip("torch.cuda")
    table = getattr(cuda, "DEVICE_REQUIREMENT", None)
    if table is None:
        pytest.skip("this torch has no such table")
    devices = [*nvidia.CAPABILITIES]
    for built, runs_on in table.items():
        found = {d for d in devices if nvidia.can_run(d, (f"sm_{built}",))}
        assert found == {d for d in devices if 10 * d[0] + d[1] in runs_on}, f"sm_{built}"


def test_unlisted_hardware_is_unknown() -> None:
    assert amd.describe_target("gfx9999") == amd.describe_target(None) == (None, Features())
    assert nvidia.describe_capability((13, 0), "NVIDIA") == (None, Features())
    assert intel.find_family(0xFFFF).architecture is None


def test_gtx_16_has_no_tensor_cores() -> None:
    assert nvidia.describe_capability((7, 5), "NVIDIA GeForce GTX 1660 Ti")[1].fp16 == "fast"


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

    library = SimpleNamespace(DXCoreCreateAdapterFactory=make)
    monkeypatch.setattr(directx, "_load", lambda _: library)
    (found,) = directx.list_dxcore_adapters("libdxcore.so")  # in both lists, kept once
    assert found["DriverDescription"] == "AMD Radeon RX 7900 XTX"
    assert found["HardwareID"] == {
        "vendorID": 0x1002, "deviceID": 0x744C, "subSysID": 0x1EAE7901, "revision": 0xC8,
    }  # fmt: skip
    assert found["DriverVersion"] == "32.0.21025.1024"
    assert found["DedicatedAdapterMemory"] == 24 * GIB
    assert (found["IsHardware"], found["IsIntegrated"]) == (True, False)
    assert (factory.released, listing.released, adapter.released) == (1, 2, 2)
