"""Steps of a module, sizes that are known, allocator settings, the plot of a profile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from anyrig.backends import DeviceHandle, open_device
from anyrig.backends.memory import trim_heap
from anyrig.backends.torch import TorchHandle
from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, DeviceBackend, Machine, Precision
from anyrig.memory.allocator import CUDA, GENERAL, choose_allocator_settings
from anyrig.memory.batch_size import find_batch_size
from anyrig.memory.known_sizes import BatchSizeKey, KnownBatchSize, KnownBatchSizes
from anyrig.memory.module_step import build_step, build_transformer
from anyrig.units import MIB
from tests.memory.conftest import GPU_LIMIT


@pytest.fixture
def device() -> DeviceHandle:
    machine = discover({})
    backend = next(backend for backend in machine.cpu_device.backends if backend.library == "torch")
    return open_device(machine.cpu_device, backend)


def small() -> nn.Module:
    return build_transformer(1, 32, 2, 64)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_step(precision: Precision) -> None:
    model = small()
    before = [one.detach().clone() for one in model.parameters()]
    step = build_step(model, (8, 32), "cpu", precision=precision)
    step(3)
    step(2)
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert any(changed)
    assert all(one.dtype == torch.float32 for one in model.parameters())


def test_largest_batch_on_this_cpu(device: DeviceHandle) -> None:
    """Real tensors against the process's real resident memory."""
    wide = nn.Sequential(nn.Linear(4096, 256), nn.Linear(256, 16))
    trim_heap()  # memory that earlier tests freed would be reused, and not seen
    now = device.memory().allocated_bytes
    assert now is not None
    step = build_step(wide, (512, 4096), "cpu", training=False)
    found = find_batch_size(step, device, budget_bytes=now + 256 * MIB)
    assert found.best.peak_bytes is not None
    assert found.best.peak_bytes <= now + 256 * MIB
    assert 2 <= found.batch_size <= 48  # 8 MiB of input per item; freed memory is used again
    assert found.best.rate


@pytest.mark.gpu
def test_result_holds_on_a_gpu(limited_gpu: TorchHandle) -> None:
    """Few trials, one failure at most, and twenty more steps under the limit."""
    model = build_transformer(4, 512, 8, 2048)
    step = build_step(model, (512, 512), limited_gpu.device, precision="bf16")
    found = find_batch_size(step, limited_gpu, budget_bytes=GPU_LIMIT)
    assert len(found.trials) <= 6, found.trials
    assert found.num_out_of_memory <= 1, found.trials
    for _ in range(20):
        step(found.batch_size)


KEY = BatchSizeKey("GPU-1", "minilm", "1.0", "fp16", "driver 580; torch 2.11")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "limits.json"


def test_sizes_are_saved(path: Path) -> None:
    KnownBatchSizes(path).record(KEY, worked=64.0)
    KnownBatchSizes(path).record(KEY, failed=128.5)
    known = KnownBatchSizes(path).get(KEY)
    assert known is not None
    assert (known.worked, known.failed) == (64.0, 128.5)
    assert known.when


def test_a_file_of_an_older_version_is_read(path: Path) -> None:
    path.parent.mkdir()
    row = {"worked": 64.0, "failed": None, "peak_bytes": 1000, "when": "2026-01-01"}
    path.write_text(json.dumps({"format": 1, "limits": {str(KEY): row}}))
    assert KnownBatchSizes(path).get(KEY) == KnownBatchSize(64.0, None, "2026-01-01")


def test_concurrent_processes_keep_all_sizes(path: Path) -> None:
    """Real processes, all at once."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from anyrig.memory.known_sizes import KnownBatchSizes, BatchSizeKey\n"
        "sizes = KnownBatchSizes(Path(sys.argv[1]))\n"
        "for n in range(20): sizes.record(BatchSizeKey(sys.argv[2], str(n), ''), worked=float(n))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abcd"]
    assert [one.wait(timeout=60) for one in running] == [0] * 4
    sizes = KnownBatchSizes(path)
    assert all(sizes.get(BatchSizeKey(name, str(n), "")) for name in "abcd" for n in range(20))


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": 1, "limits": {"a": {"worked": "many"}}}'],
)
def test_unreadable_file_counts_as_empty(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    sizes = KnownBatchSizes(path)
    assert sizes.get(KEY) is None
    sizes.record(KEY, worked=1.0)
    assert json.loads(path.read_text())["limits"]


TORCH_CUDA = DeviceBackend("torch", "cuda:0", "cuda")


@pytest.fixture
def h200(machine: Callable[..., Machine]) -> Device:
    return machine("h200-linux").gpus[0]


def test_linux_with_cuda(h200: Device) -> None:
    new = choose_allocator_settings(h200, TORCH_CUDA, {}, torch_version="2.11.0+cu130", linux=True)
    assert new == {GENERAL: "expandable_segments:True"}
    old = choose_allocator_settings(h200, TORCH_CUDA, {}, torch_version="2.6.0", linux=True)
    assert old == {CUDA: "expandable_segments:True"}


@pytest.mark.parametrize(
    ("environment", "variables"),
    [
        ({GENERAL: "garbage_collection_threshold:0.8"},
         {GENERAL: "garbage_collection_threshold:0.8,expandable_segments:True"}),
        ({GENERAL: "a:1", CUDA: "roundup_power2_divisions:[256:1,512:2]"},
         {CUDA: "roundup_power2_divisions:[256:1,512:2],expandable_segments:True"}),
        ({CUDA: "expandable_segments:False"}, {}),
        ({CUDA: "backend:cudaMallocAsync"}, {}),
    ],
)  # fmt: skip
def test_user_settings_are_kept(
    h200: Device, environment: dict[str, str], variables: dict[str, str]
) -> None:
    found = choose_allocator_settings(
        h200, TORCH_CUDA, environment, torch_version="2.13", linux=True
    )
    assert found == variables


def test_unsupported_devices(h200: Device) -> None:
    board = replace(h200, capability="8.7", memory=replace(h200.memory, kind="unified"))
    spark = replace(h200, capability="12.1", memory=replace(h200.memory, kind="unified"))
    mig = replace(h200, part="mig")
    onnx = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider")
    amd = replace(h200, vendor="amd")

    def given(device: Device, backend: DeviceBackend = TORCH_CUDA, *, linux: bool = True) -> bool:
        found = choose_allocator_settings(device, backend, {}, torch_version="", linux=linux)
        return bool(found)

    assert given(spark)
    assert not given(board)
    assert not given(mig)
    assert not given(amd)
    assert not given(h200, onnx)
    assert not given(h200, linux=False)
