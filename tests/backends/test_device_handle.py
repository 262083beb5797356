"""Device handles and kernels through torch and ONNX Runtime."""

from __future__ import annotations

import mmap
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from anyrig.backends import onnx_graph, open_device, open_runner
from anyrig.backends.onnx import create_session
from anyrig.backends.torch import TorchRunner
from anyrig.bench.kernels import compare_with_cpu
from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, DeviceBackend, Features, Machine, Memory
from anyrig.errors import DeviceUnusableError, InvalidSettingError
from anyrig.precision.choose import choose_precision
from anyrig.units import MIB

CUDA = DeviceBackend("torch", "cuda:0", "cuda")


@pytest.fixture(scope="module")
def here() -> Machine:
    return discover({})


def find_backend(machine: Machine, library: str) -> DeviceBackend:
    return next(backend for backend in machine.cpu_device.backends if backend.library == library)


@pytest.mark.parametrize("library", ["torch", "onnx"])
def test_memory_of_the_cpu(here: Machine, library: str) -> None:
    handle = open_device(here.cpu_device, find_backend(here, library))
    handle.reset_peak()
    before = handle.memory()
    with mmap.mmap(-1, 64 * MIB) as block:  # not from the heap, which may have room for it
        block.write(b"1" * (64 * MIB))
        during = handle.memory()
    after = handle.memory()
    assert before.allocated_bytes is not None
    assert during.allocated_bytes is not None
    assert during.allocated_bytes - before.allocated_bytes > 60 * MIB
    assert after.peak_bytes is not None
    assert after.peak_bytes - before.allocated_bytes > 60 * MIB
    assert during.free_bytes is not None
    assert during.total_bytes is not None
    assert 0 < during.free_bytes < during.total_bytes
    handle.synchronize()
    handle.release()
    assert not handle.limit(1 << 30)


@pytest.mark.parametrize("has_limit", [True, False])
def test_limit_on_an_intel_gpu(monkeypatch: pytest.MonkeyPatch, has_limit: bool) -> None:
    """torch.xpu can limit a process from 2.10 on; before that nothing is limited."""
    limits: list[float] = []
    module = SimpleNamespace(
        mem_get_info=lambda device: (6 * MIB, 8 * MIB),
        memory_stats=lambda device: {},
    )
    if has_limit:
        module.set_per_process_memory_fraction = lambda fraction, device: limits.append(fraction)
    monkeypatch.setattr(torch, "xpu", module)
    arc = Device("0000:03:00.0", "gpu", "intel", "Arc", indices={"xpu": 0})
    handle = open_device(arc, DeviceBackend("torch", "xpu:0", "xpu"))
    assert handle.limit(2 * MIB) is has_limit
    assert limits == ([0.25] if has_limit else [])


@pytest.mark.parametrize("library", ["torch", "onnx"])
def test_free_memory_is_within_the_container_limit(here: Machine, library: str) -> None:
    limited = Device("cpu", "cpu", "test", "limited", memory=Memory("unified", 8 * MIB, 4 * MIB))
    usage = open_device(limited, find_backend(here, library)).memory()
    assert (usage.total_bytes, usage.free_bytes) == (8 * MIB, 0)


def test_threads_are_set(here: Machine) -> None:
    before = torch.get_num_threads()
    try:
        open_device(here.cpu_device, find_backend(here, "torch"), threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    session = create_session(
        onnx_graph.build_product(8), here.cpu_device, find_backend(here, "onnx"), threads=1
    )
    assert session.get_session_options().intra_op_num_threads == 1


# -- kernels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["torch", "onnx"])
def test_kernels_on_the_cpu(here: Machine, library: str) -> None:
    runner = open_runner(here.cpu_device, find_backend(here, library))
    left, right = np.random.default_rng(1).standard_normal((2, 64, 64)).astype(np.float32)
    np.testing.assert_allclose(runner.product(left, right), left @ right, rtol=1e-3, atol=1e-4)
    assert runner.ran_on in ("cpu", "CPUExecutionProvider")
    assert compare_with_cpu(runner) < 1e-5
    assert runner.precisions[0] == "fp32"
    for precision in runner.precisions:
        assert runner.time_products(64, precision, 10) > 0
    assert runner.time_copies(1 << 20, 4) > 0


def test_a_provider_that_does_not_start_is_an_error() -> None:
    gpu = Device("GPU-x", "gpu", "nvidia", "none", features=Features(fp16="matrix"))
    backend = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider")
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(DeviceUnusableError, match="fell back to CPUExecutionProvider"),
    ):
        open_runner(gpu, backend).product(*[np.eye(4, dtype=np.float32)] * 2)


def test_torch_without_a_gpu_is_an_error() -> None:
    with pytest.raises(DeviceUnusableError, match="does not see a GPU"):
        open_runner(Device("GPU-x", "gpu", "nvidia", "none"), CUDA)


@pytest.mark.gpu
def test_every_usable_gpu() -> None:
    from anyrig.bench import process

    found = discover(os.environ)
    assert found.gpus
    for gpu in found.gpus:
        for backend in gpu.backends:
            if backend.usable and not gpu.hardware_block:
                answer = process.check_kernel(gpu, backend, os.environ)
                assert answer.ok, answer.error
                assert answer.max_error is not None
                assert answer.max_error < 5e-3


@pytest.mark.parametrize(
    ("fnuz", "provider", "expected"),
    [(False, "cuda", True), (True, "cuda", False), (False, "xpu", False)],
)
def test_fp8_is_measured_where_it_can_be_chosen(
    fnuz: bool, provider: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = Features(fp16="matrix", bf16=True, fp8=True, fnuz=fnuz)
    device = Device("gpu", "gpu", "amd", "a GPU", features=features)
    backend = DeviceBackend("torch", "rocm:0", provider)
    monkeypatch.setattr("anyrig.backends.torch.find_torch_device", lambda *_: torch.device("cpu"))
    if expected:
        choose_precision(device, backend, requested="fp8", training=True)
    else:
        with pytest.raises(InvalidSettingError, match="fp8 cannot be used"):
            choose_precision(device, backend, requested="fp8", training=True)
    assert ("fp8" in TorchRunner(device, backend).precisions) is expected
