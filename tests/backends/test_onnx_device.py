"""ONNX Runtime is given the device that was chosen, and no more of the host than it may have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from anyrig.backends import attach, onnx, open_runner
from anyrig.backends.bind import bind
from anyrig.devices.machine import Device, DeviceBackend, Machine

Load = Callable[..., Machine]
PAIR = "arc-b580-pair-uhd770-linux"
OPENVINO, WEBGPU = "OpenVINOExecutionProvider", "WebGpuExecutionProvider"


@dataclass
class FakeSession:
    """What a session was made with."""

    settings: Any
    providers: list[Any]
    handle: Any = None

    def get_providers(self) -> list[str]:
        return [name for name, _ in self.providers] or [WEBGPU]

    def run(self, names: Any, feeds: Any) -> list[Any]:
        return []

    def get_provider_graph_assignment_info(self) -> list[Any]:
        return []


@dataclass
class FakeHardware:
    vendor_id: int
    device_id: int
    metadata: Mapping[str, str]


@dataclass(eq=False)
class FakeHandle:
    """One adapter in ONNX Runtime's list."""

    device: FakeHardware
    ep_name: str = WEBGPU


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    """Every session that is made from now on."""
    made: list[FakeSession] = []

    def session(model: Any, sess_options: Any, providers: Any = ()) -> FakeSession:
        made.append(
            FakeSession(sess_options, list(providers), getattr(sess_options, "chosen", None))
        )
        return made[-1]

    monkeypatch.setattr("onnxruntime.InferenceSession", session)
    return made


# -- OpenVINO --------------------------------------------------------------------------------------


def _openvino(device: Device) -> str:
    return onnx.options(device, OPENVINO)["device_type"]


def test_openvino_counts_the_graphics_of_the_processor_first(machine: Load) -> None:
    here = machine(PAIR)
    assert [(gpu.name, _openvino(gpu)) for gpu in here.gpus] == [
        ("Intel UHD Graphics 770", "GPU.0"),
        ("Intel Arc B580", "GPU.1"),
        ("Intel Arc B580", "GPU.2"),
    ]
    assert [gpu.selectors[0] for gpu in here.gpus] == [
        "xpu:2",
        "xpu:0",
        "xpu:1",
    ]  # Level Zero's count


def test_openvino_counts_only_what_a_mask_leaves(machine: Load) -> None:
    here = machine(PAIR, {"ZE_AFFINITY_MASK": "0,1"})  # the two cards
    assert [_openvino(gpu) for gpu in here.gpus[1:]] == ["GPU.0", "GPU.1"]
    here = machine(PAIR, {"ZE_AFFINITY_MASK": "1,2"})
    assert (_openvino(here.gpus[0]), _openvino(here.gpus[2])) == ("GPU.0", "GPU.1")


def test_openvino_without_graphics_in_the_processor_begins_with_the_card(machine: Load) -> None:
    assert _openvino(machine("arc-b580-linux").gpus[0]) == "GPU.0"
    assert _openvino(machine("core-ultra-linux").gpus[0]) == "GPU.0"


def test_a_child_that_sees_one_card_calls_it_the_first(machine: Load) -> None:
    for gpu, mask in zip(machine(PAIR).gpus, ("2", "0", "1"), strict=True):
        variables, seen = bind(gpu, {})
        assert variables["ZE_AFFINITY_MASK"] == mask
        assert _openvino(seen) == "GPU.0"


# -- WebGPU ----------------------------------------------------------------------------------------


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """ONNX Runtime's list of adapters; a session's options keep the one that was picked."""
    module = ModuleType("onnxruntime_ep_webgpu")
    module.get_ep_name = lambda: WEBGPU  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_webgpu", module)

    class Options:
        def __init__(self) -> None:
            self.entries: dict[str, str] = {}

        def add_session_config_entry(self, key: str, value: str) -> None:
            self.entries[key] = value

        def add_provider_for_devices(self, handles: list[Any], options: Any) -> None:
            (self.chosen,) = handles

    monkeypatch.setattr("onnxruntime.SessionOptions", Options)

    def put(*handles: FakeHandle) -> None:
        monkeypatch.setattr("onnxruntime.get_ep_devices", lambda: list(handles))

    return put


def _handle(pci_id: str, **metadata: str) -> FakeHandle:
    vendor, _, device = pci_id.partition(":")
    return FakeHandle(FakeHardware(int(vendor, 16), int(device, 16), metadata))


def _picked(gpu: Device, sessions: list[FakeSession]) -> Any:
    onnx.session(b"", gpu, DeviceBackend("onnx", "webgpu", WEBGPU, True, ""), threads=1)
    return sessions[-1].handle


@pytest.mark.parametrize("known", ["address", "card", "nothing"])
def test_two_equal_cards_are_told_apart(
    machine: Load, adapters: Callable[..., None], sessions: list[FakeSession], known: str
) -> None:
    metadata: list[dict[str, str]] = [{}, {}, {}]
    if known == "address":
        metadata = [{"pci_bus_id": address} for address in ("0000:00:02.0", "03:00.0", "07:00.0")]
    elif known == "card":
        metadata = [{"card_idx": str(number)} for number in range(3)]
    ids = ("8086:a780", "8086:e20b", "8086:e20b")
    handles = [_handle(id_, **told) for id_, told in zip(ids, metadata, strict=True)]
    # Their list has no order of its own; without any metadata there is none but that.
    adapters(*(handles if known == "nothing" else reversed(handles)))
    assert [_picked(gpu, sessions) for gpu in machine(PAIR).gpus] == handles


def test_two_equal_cards_on_windows_go_by_dxgi(
    adapters: Callable[..., None], sessions: list[FakeSession]
) -> None:
    cards = [
        Device(f"pci-1002:744c{end}", "gpu", "amd", "RX 7900 XTX", pci_id="1002:744c",
               indices={"gpu": number, "webgpu": number, "dxgi": place})
        for number, (end, place) in enumerate((("", 0), ("#1", 2)))
    ]  # fmt: skip
    first, second = (_handle("1002:744c", DxgiAdapterNumber=place) for place in ("0", "2"))
    adapters(second, first)
    assert [_picked(card, sessions) for card in cards] == [first, second]


def test_a_worker_tells_vulkan_which_of_two_equal_cards_is_its_own(machine: Load) -> None:
    """The provider leaves the choice of the adapter to Vulkan, whose order a variable sets."""
    told = [bind(gpu, {})[0]["DRI_PRIME"] for gpu in machine(PAIR).gpus]
    assert told == ["pci-0000_00_02_0", "pci-0000_03_00_0", "pci-0000_07_00_0"]
    assert bind(machine(PAIR).gpus[1], {"DRI_PRIME": "1"})[0]["DRI_PRIME"] == "pci-0000_03_00_0"


def test_graphics_of_the_processor_are_asked_for_as_such(
    machine: Load, adapters: Callable[..., None], sessions: list[FakeSession]
) -> None:
    """Beside a card the provider takes the card unless it is asked for low power."""
    here = machine(PAIR)
    adapters(*(_handle(gpu.pci_id or "") for gpu in here.gpus))
    key = "ep.webgpuexecutionprovider.powerPreference"
    for gpu, wanted in zip(here.gpus, ("low-power", None, None), strict=True):
        _picked(gpu, sessions)
        assert sessions[-1].settings.entries.get(key) == wanted


# -- the host's cores ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "threads"), [("cpu64-cgroup4", 4), ("arm-cgroup-v1", 8), ("no-gpu", 4)]
)
def test_onnx_on_the_cpu_keeps_to_the_cores_of_its_container(
    machine: Load, sessions: list[FakeSession], name: str, threads: int
) -> None:
    cpu = machine(name).cpu_device
    drive = DeviceBackend("onnx", "cpu", "CPUExecutionProvider", True, "")
    attach(cpu, drive).load(b"")  # type: ignore[attr-defined]
    assert sessions[-1].settings.intra_op_num_threads == threads
    assert sessions[-1].settings.inter_op_num_threads == 1
    attach(cpu, drive, threads=3).load(b"")  # type: ignore[attr-defined]
    assert sessions[-1].settings.intra_op_num_threads == 3
    open_runner(cpu, drive).time_products(8, "fp32", 10)
    assert sessions[-1].settings.intra_op_num_threads == threads


def test_a_quota_below_one_core_is_one_thread(machine: Load, sessions: list[FakeSession]) -> None:
    from anyrig.devices.discover import from_record
    from tests.conftest import record_of

    record = record_of("cpu64-cgroup4")
    path = next(path for path in record["files"] if path.endswith("cpu.max"))
    record["files"][path] = "50000 100000\n"
    drive = DeviceBackend("onnx", "cpu", "CPUExecutionProvider", True, "")
    attach(from_record(record).cpu_device, drive).load(b"")  # type: ignore[attr-defined]
    assert sessions[-1].settings.intra_op_num_threads == 1


def test_the_host_side_of_a_gpu_keeps_to_them_too(
    machine: Load, sessions: list[FakeSession]
) -> None:
    from anyrig.devices.discover import discover

    drive = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider", True, "")
    attach(machine("h200-linux").gpus[0], drive).load(b"")  # type: ignore[attr-defined]
    cores = max(1, int(discover({}).cpu.cores_usable))
    assert sessions[-1].settings.intra_op_num_threads == cores
