"""A device bound to this process: memory that is told, models whose nodes are counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from anyrig.backends import MemoryNow, attach, graph
from anyrig.backends.onnx import Model, OnnxBound, session
from anyrig.backends.resident import Resident
from anyrig.devices.discover import discover
from anyrig.devices.machine import BackendName, Device, DeviceBackend, Machine, Memory
from anyrig.units import MIB
from tests.backends.test_runners import SWIFTSHADER

CPU = "CPUExecutionProvider"


@pytest.fixture(scope="module")
def here() -> Machine:
    return discover({})


def drive_of(machine: Machine, backend: BackendName) -> DeviceBackend:
    return next(drive for drive in machine.cpu_device.backends if drive.backend == backend)


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_the_cpu_tells_its_memory(here: Machine, backend: BackendName) -> None:
    bound = attach(here.cpu_device, drive_of(here, backend))
    assert bound.backend == backend
    bound.reset_peak()
    before = bound.memory()
    block = np.ones(64 * MIB // 8)
    during = bound.memory()
    del block
    after = bound.memory()
    assert before.allocated_bytes is not None
    assert during.allocated_bytes is not None
    assert during.allocated_bytes - before.allocated_bytes > 60 * MIB
    assert after.peak_bytes is not None
    assert after.peak_bytes - before.allocated_bytes > 60 * MIB
    assert during.free_bytes is not None
    assert during.total_bytes is not None
    assert 0 < during.free_bytes < during.total_bytes
    bound.synchronise()
    bound.release()
    assert not bound.limit(1 << 30)


def test_a_peak_can_be_begun_anew() -> None:
    resident = Resident()
    resident.reset_peak()
    np.ones(64 * MIB // 8)
    high = resident.memory().peak_bytes
    resident.reset_peak()
    low = resident.memory().peak_bytes
    assert high is not None
    assert low is not None
    assert high - low > 50 * MIB or sys.platform != "linux"


def test_threads_are_set(here: Machine) -> None:
    before = torch.get_num_threads()
    try:
        attach(here.cpu_device, drive_of(here, "torch"), threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    made = session(graph.product(8), here.cpu_device, drive_of(here, "onnx"), threads=1)
    assert made.get_session_options().intra_op_num_threads == 1


def test_a_container_s_limit_bounds_what_is_free(here: Machine) -> None:
    boxed = Device("cpu", "cpu", "test", "boxed", memory=Memory("unified", 8 * MIB, 4 * MIB))
    seen = attach(boxed, drive_of(here, "torch")).memory()
    assert (seen.total_bytes, seen.free_bytes) == (8 * MIB, 0)


def test_a_device_whose_library_tells_nothing_is_described(here: Machine) -> None:
    gpu = Device("x", "gpu", "test", "x", memory=Memory("dedicated", 8 * MIB, 4 * MIB))
    bound = OnnxBound(gpu, DeviceBackend("onnx", "dml:0", "DmlExecutionProvider", True, ""))
    assert bound.memory() == MemoryNow(free_bytes=4 * MIB, total_bytes=8 * MIB)
    assert not bound.limit(MIB)
    cuda = OnnxBound(gpu, DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider", True, ""))
    assert cuda.limit(MIB)


def test_a_model_says_which_provider_runs_its_nodes(here: Machine, tmp_path: Path) -> None:
    path = tmp_path / "product.onnx"
    path.write_bytes(graph.product(8))
    bound = attach(here.cpu_device, drive_of(here, "onnx"))
    assert isinstance(bound, OnnxBound)
    model = bound.load(path)
    assert (model.ran_on, model.nodes, model.fell_back) == (CPU, {CPU: 1}, "")
    eye = np.eye(8, dtype=np.float32)
    np.testing.assert_array_equal(model.run({"left": eye, "right": eye})[0], eye)


class Session:
    """ONNX Runtime's session, as far as it tells who runs what."""

    def get_providers(self) -> list[str]:
        return ["CUDAExecutionProvider", CPU]


@pytest.mark.parametrize(
    ("nodes", "ran_on", "said"),
    [
        ({"CUDAExecutionProvider": 10}, "CUDAExecutionProvider", ""),
        ({"CUDAExecutionProvider": 8, CPU: 2}, "CUDAExecutionProvider", "runs 8 of the model's 10"),
        ({CPU: 10}, CPU, "runs none of the model's 10 nodes: 10 on CPUExecutionProvider"),
    ],
)
def test_a_silent_fall_back_is_told_as_the_cpu(
    nodes: dict[str, int], ran_on: str, said: str
) -> None:
    model = Model(Session(), "CUDAExecutionProvider", nodes)
    assert model.ran_on == ran_on
    assert said in model.fell_back if said else model.fell_back == ""


WEBGPU = """
import sys, logging
sys.path[:0] = {paths!r}
import numpy as np
from anyrig.backends import attach, graph
from anyrig.devices.machine import Device, DeviceBackend
drive = DeviceBackend("onnx", "webgpu:0", "WebGpuExecutionProvider", True, "")
bound = attach(Device("x", "gpu", "other", "software"), drive)
model = bound.load(graph.product(16))
left = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
answer = model.run({{"left": left, "right": left}})[0]
print(bound.name, model.ran_on, model.nodes, float(abs(answer - left @ left).max()) < 1e-4)
"""


@pytest.mark.system("chromium", SWIFTSHADER)
def test_a_model_runs_on_webgpu_and_says_so(here: Machine) -> None:
    """In a process of its own, on a software adapter: any brand goes this way."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", WEBGPU.format(paths=[str(root / "src")])],
        capture_output=True, text=True, timeout=180,
        env={**os.environ, "VK_ICD_FILENAMES": SWIFTSHADER,
             "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1",
             "LD_LIBRARY_PATH": str(Path(SWIFTSHADER).parent)},
    )  # fmt: skip
    assert done.stdout.split()[:2] == ["WebGpuExecutionProvider"] * 2, done.stderr[-500:]
    assert done.stdout.strip().endswith("True")


def test_an_older_runtime_tells_after_the_first_run(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it could list its nodes, a profile of the first run told who ran them."""
    monkeypatch.setattr("anyrig.backends.onnx.TELLS", False)
    bound = OnnxBound(here.cpu_device, drive_of(here, "onnx"))
    model = bound.load(graph.product(8))
    assert model.nodes == {}
    eye = np.eye(8, dtype=np.float32)
    for _ in range(2):
        model.run({"left": eye, "right": eye})
    assert (model.nodes, model.ran_on) == ({CPU: 1}, CPU)
