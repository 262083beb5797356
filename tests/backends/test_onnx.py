"""ONNX Runtime: the chosen device is used, host cores are limited, fallbacks are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest

from anyrig.backends import onnx, onnx_graph, open_device, open_runner
from anyrig.backends.memory import MemoryUsage
from anyrig.backends.onnx import OnnxHandle, OnnxModel
from anyrig.backends.process import bind_device
from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, DeviceBackend, Machine, Memory
from anyrig.units import MIB

Load = Callable[..., Machine]
SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"
PAIR = "arc-b580-pair-uhd770-linux"
CPU = "CPUExecutionProvider"
ONNX_CPU = DeviceBackend("onnx", "cpu", CPU)
OPENVINO, WEBGPU = "OpenVINOExecutionProvider", "WebGpuExecutionProvider"


@dataclass
class FakeSession:
    """Records what a session was created with."""

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
    """Every session that is created from now on."""
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
    return onnx.provider_options(device, OPENVINO)["device_type"]


def test_openvino_counts_integrated_graphics_first(machine: Load) -> None:
    here = machine(PAIR)
    assert [(gpu.name, _openvino(gpu)) for gpu in here.gpus] == [
        ("Intel UHD Graphics 770", "GPU.0"),
        ("Intel Arc B580", "GPU.1"),
        ("Intel Arc B580", "GPU.2"),
    ]
    assert [gpu.selectors[0] for gpu in here.gpus] == [
        "xpu:2", "xpu:0", "xpu:1"
    ]  # fmt: skip  # Level Zero's count


def test_openvino_counts_visible_devices_only(machine: Load) -> None:
    here = machine(PAIR, {"ZE_AFFINITY_MASK": "0,1"})  # the two cards
    assert [_openvino(gpu) for gpu in here.gpus[1:]] == ["GPU.0", "GPU.1"]
    here = machine(PAIR, {"ZE_AFFINITY_MASK": "1,2"})
    assert (_openvino(here.gpus[0]), _openvino(here.gpus[2])) == ("GPU.0", "GPU.1")


def test_a_bound_child_has_one_openvino_device(machine: Load) -> None:
    for gpu, mask in zip(machine(PAIR).gpus, ("2", "0", "1"), strict=True):
        variables, seen = bind_device(gpu, {})
        assert variables["ZE_AFFINITY_MASK"] == mask
        assert _openvino(seen) == "GPU.0"


# -- WebGPU ----------------------------------------------------------------------------------------


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets ONNX Runtime's list of adapters; a session's options record the selected one."""
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
    onnx.create_session(b"", gpu, DeviceBackend("onnx", "webgpu", WEBGPU), threads=1)
    return sessions[-1].handle


@pytest.mark.parametrize("known", ["address", "card", "nothing"])
def test_two_equal_cards_are_distinguished(
    machine: Load, adapters: Callable[..., None], sessions: list[FakeSession], known: str
) -> None:
    metadata: list[dict[str, str]] = [{}, {}, {}]
    if known == "address":
        metadata = [{"pci_bus_id": address} for address in ("0000:00:02.0", "03:00.0", "07:00.0")]
    elif known == "card":
        metadata = [{"card_idx": str(number)} for number in range(3)]
    ids = ("8086:a780", "8086:e20b", "8086:e20b")
    handles = [_handle(id_, **told) for id_, told in zip(ids, metadata, strict=True)]
    # The list is unordered; without metadata its order is all there is.
    adapters(*(handles if known == "nothing" else reversed(handles)))
    assert [_picked(gpu, sessions) for gpu in machine(PAIR).gpus] == handles


def test_two_equal_cards_on_windows_are_distinguished_by_dxgi_index(
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


def test_a_bound_child_selects_its_vulkan_device(machine: Load) -> None:
    """The provider leaves the adapter to Vulkan, whose order a variable sets."""
    told = [bind_device(gpu, {})[0]["DRI_PRIME"] for gpu in machine(PAIR).gpus]
    assert told == ["pci-0000_00_02_0", "pci-0000_03_00_0", "pci-0000_07_00_0"]
    assert (
        bind_device(machine(PAIR).gpus[1], {"DRI_PRIME": "1"})[0]["DRI_PRIME"] == "pci-0000_03_00_0"
    )


def test_integrated_graphics_need_the_low_power_preference(
    machine: Load, adapters: Callable[..., None], sessions: list[FakeSession]
) -> None:
    """The provider prefers a discrete card otherwise."""
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
def test_threads_on_the_cpu_follow_the_container_limit(
    machine: Load, sessions: list[FakeSession], name: str, threads: int
) -> None:
    cpu = machine(name).cpu_device
    open_device(cpu, ONNX_CPU).load(b"")  # type: ignore[attr-defined]
    assert sessions[-1].settings.intra_op_num_threads == threads
    assert sessions[-1].settings.inter_op_num_threads == 1
    open_device(cpu, ONNX_CPU, threads=3).load(b"")  # type: ignore[attr-defined]
    assert sessions[-1].settings.intra_op_num_threads == 3
    open_runner(cpu, ONNX_CPU).time_products(8, "fp32", 10)
    assert sessions[-1].settings.intra_op_num_threads == threads


def test_threads_beside_a_gpu_follow_the_container_limit(
    machine: Load, sessions: list[FakeSession]
) -> None:
    backend = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider")
    open_device(machine("h200-linux").gpus[0], backend).load(b"")  # type: ignore[attr-defined]
    cores = max(1, int(discover({}).cpu.cores_usable))
    assert sessions[-1].settings.intra_op_num_threads == cores


# -- CUDA ------------------------------------------------------------------------------------------


@pytest.fixture
def gpu(machine: Callable[..., Machine]) -> Device:
    return replace(machine("h200-linux").gpus[0], indices={"cuda": 3})


def test_cudnn_does_not_search_algorithms_for_every_new_length(gpu: Device) -> None:
    """It does by default: the default voice was five times slower."""
    told = onnx.provider_options(gpu, "CUDAExecutionProvider")
    assert told == {"device_id": "3", "cudnn_conv_algo_search": "HEURISTIC"}
    assert onnx.provider_options(gpu, "TensorrtExecutionProvider") == {"device_id": "3"}


# -- models ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here() -> Machine:
    return discover({})


def test_memory_of_a_gpu_comes_from_its_description(here: Machine) -> None:
    gpu = Device("x", "gpu", "test", "x", memory=Memory("dedicated", 8 * MIB, 4 * MIB))
    handle = OnnxHandle(gpu, DeviceBackend("onnx", "dml:0", "DmlExecutionProvider"))
    assert handle.memory() == MemoryUsage(free_bytes=4 * MIB, total_bytes=8 * MIB)
    assert not handle.limit(MIB)
    cuda = OnnxHandle(gpu, DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider"))
    assert cuda.limit(MIB)


def test_a_model_reports_which_provider_runs_its_nodes(here: Machine, tmp_path: Path) -> None:
    path = tmp_path / "product.onnx"
    path.write_bytes(onnx_graph.build_product(8))
    handle = open_device(here.cpu_device, ONNX_CPU)
    assert isinstance(handle, OnnxHandle)
    model = handle.load(path)
    assert (model.ran_on, model.nodes, model.fallback) == (CPU, {CPU: 1}, "")
    eye = np.eye(8, dtype=np.float32)
    np.testing.assert_array_equal(model.run({"left": eye, "right": eye})[0], eye)


@dataclass
class GraphPart:
    ep_name: str
    num_nodes: int

    def get_nodes(self) -> range:
        return range(self.num_nodes)


@dataclass
class AssignedSession:
    """A session whose nodes run on several providers."""

    nodes: dict[str, int]

    def get_provider_graph_assignment_info(self) -> list[GraphPart]:
        return [GraphPart(name, count) for name, count in self.nodes.items()]


@pytest.mark.parametrize(
    ("nodes", "ran_on", "message"),
    [
        ({"CUDAExecutionProvider": 10}, "CUDAExecutionProvider", ""),
        ({"CUDAExecutionProvider": 8, CPU: 2}, "CUDAExecutionProvider", "runs 8 of the model's 10"),
        ({CPU: 10}, CPU, "runs none of the model's 10 nodes: 10 on CPUExecutionProvider"),
    ],
)
def test_a_fallback_to_the_cpu_is_reported(
    nodes: dict[str, int], ran_on: str, message: str
) -> None:
    model = OnnxModel(AssignedSession(nodes), "CUDAExecutionProvider")
    assert model.ran_on == ran_on
    assert message in model.fallback if message else model.fallback == ""


WEBGPU_PROGRAM = """
from anyrig.backends import open_device, open_runner, onnx_graph
from anyrig.bench.kernels import compare_with_cpu
from anyrig.devices.machine import Device, DeviceBackend
backend = DeviceBackend("onnx", "webgpu:0", "WebGpuExecutionProvider")
device = Device("x", "gpu", "other", "software")
handle = open_device(device, backend)
model = handle.load(onnx_graph.build_product(16))
runner = open_runner(device, backend)
print(compare_with_cpu(runner) < 1e-4, runner.ran_on, handle.name, dict(model.nodes))
"""


@pytest.mark.system("chromium", SWIFTSHADER)
def test_webgpu_on_a_software_adapter() -> None:
    """In its own process: Vulkan reads its variables once."""
    done = subprocess.run(
        [sys.executable, "-c", WEBGPU_PROGRAM],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "VK_ICD_FILENAMES": SWIFTSHADER,
             "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1",
             "LD_LIBRARY_PATH": str(Path(SWIFTSHADER).parent)},
    )  # fmt: skip
    assert done.stdout == f"True {WEBGPU} {WEBGPU} {{'{WEBGPU}': 1}}\n", done.stderr[-500:]


def test_an_inner_value_becomes_an_output() -> None:
    model = onnx_graph.build_copy_chain(4, 3)
    changed = onnxruntime.InferenceSession(
        onnx_graph.add_outputs(model, ["v1", "v0"]), providers=["CPUExecutionProvider"]
    )
    assert [output.name for output in changed.get_outputs()] == ["result", "v1", "v0"]
    result, first, zeroth = changed.run(None, {"scale": np.array([2.0], np.float32)})
    assert result == -2.0
    assert first.tolist() == [-2.0] * 4
    assert zeroth.tolist() == [2.0] * 4


def test_outputs_are_replaced() -> None:
    chain = _one_graph(onnx_graph.build_copy_chain(4, 3))
    changed = onnx_graph.replace_outputs(chain, ["v1", "v0"])
    made = onnxruntime.InferenceSession(changed, providers=["CPUExecutionProvider"])
    assert [output.name for output in made.get_outputs()] == ["v1", "v0"]
    first, zeroth = made.run(None, {"scale": np.array([2.0], np.float32)})
    assert first.tolist() == [-2.0] * 4
    assert zeroth.tolist() == [2.0] * 4
    # Nodes that only led to the old output are gone.
    assert onnx_graph.find_node_outputs(changed, "Neg") == ["v1"]
    assert onnx_graph.find_node_outputs(changed, "ReduceMax") == []


def _like(size: int) -> bytes:
    """A vector of `scale`, and two random vectors of its shape that are added."""
    added = onnx_graph.encode_node("RandomNormalLike", ["v0"], "one")
    again = onnx_graph.encode_node("RandomNormalLike", ["v0"], "two")
    total = onnx_graph.encode_node("Add", ["one", "two"], "total")
    nodes = b"".join(onnx_graph.bytes_field(1, node) for node in (added, again, total))
    return onnx_graph.add_outputs(
        onnx_graph.build_copy_chain(size, 1) + onnx_graph.bytes_field(7, nodes), ["total"]
    )


def test_noise_is_an_input_that_is_repeated() -> None:
    whole = _one_graph(_like(5))
    model, names = onnx_graph.replace_noise(whole)
    assert names == ["anyrig.noise0", "anyrig.noise1"]
    made = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {
        "scale": np.array([2.0], np.float32),
        names[0]: np.array([1, 2, 3, 4, 5, 6, 7], np.float32),
        names[1]: np.array([10, 20], np.float32),
    }
    assert made.run(["total"], feeds)[0].tolist() == [11, 22, 13, 24, 15]


def _one_graph(model: bytes) -> bytes:
    """Join the pieces of the graph, as in a model file."""
    found = list(onnx_graph._fields(model, 0, len(model)))
    pieces = b"".join(model[f.body : f.end] for f in found if f.field == 7)
    others = b"".join(model[f.start : f.end] for f in found if f.field != 7)
    return others + onnx_graph.bytes_field(7, pieces)


@pytest.mark.parametrize("kept", [0, 1, 5, 40, -1])
def test_a_truncated_model_is_invalid(kept: int) -> None:
    model = _one_graph(onnx_graph.build_copy_chain(4, 2))[:kept]
    with pytest.raises(onnx_graph.InvalidOnnxError):
        onnx_graph.check_model(model)


@pytest.mark.parametrize(
    "model", [b"\xff" * 40, b"\x07abc", b"<html></html>", b"\x3a\x04\x0a\x99ab"]
)
def test_other_bytes_are_invalid(model: bytes) -> None:
    with pytest.raises(onnx_graph.InvalidOnnxError):
        onnx_graph.find_node_outputs(model, "Ceil")
    with pytest.raises(onnx_graph.InvalidOnnxError):
        onnx_graph.replace_noise(model)
