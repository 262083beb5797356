"""Real kernels through torch and ONNX Runtime on the CPU, and WebGPU on a software adapter."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from anyrig.backends import open_runner
from anyrig.bench.kernels import compare_with_cpu
from anyrig.devices.discover import discover
from anyrig.devices.machine import Device, DeviceBackend, Features, Machine
from anyrig.errors import KernelError

SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"


@pytest.fixture(scope="module")
def here() -> Machine:
    return discover({})


@pytest.mark.parametrize("library", ["torch", "onnx"])
def test_product_on_the_cpu(here: Machine, library: str) -> None:
    backend = next(backend for backend in here.cpu_device.backends if backend.library == library)
    runner = open_runner(here.cpu_device, backend)
    random = np.random.default_rng(1)
    left = random.standard_normal((64, 64)).astype(np.float32)
    right = random.standard_normal((64, 64)).astype(np.float32)
    np.testing.assert_allclose(runner.product(left, right), left @ right, rtol=1e-3, atol=1e-4)
    assert runner.ran_on in ("cpu", "CPUExecutionProvider")
    assert compare_with_cpu(runner) < 1e-5


@pytest.mark.parametrize("library", ["torch", "onnx"])
def test_every_listed_format_can_be_timed(here: Machine, library: str) -> None:
    backend = next(backend for backend in here.cpu_device.backends if backend.library == library)
    runner = open_runner(here.cpu_device, backend)
    assert runner.precisions[0] == "fp32"
    for precision in runner.precisions:
        assert runner.time_products(64, precision, 10) > 0
    assert runner.time_copies(1 << 20, 4) > 0


def test_a_provider_that_does_not_start_is_an_error(here: Machine) -> None:
    gpu = Device("GPU-x", "gpu", "nvidia", "none", features=Features(fp16="matrix"))
    backend = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider", True, "")
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(KernelError, match="fell back to CPUExecutionProvider"),
    ):
        open_runner(gpu, backend).product(*[np.eye(4, dtype=np.float32)] * 2)


def test_torch_without_a_gpu_is_an_error() -> None:
    gpu = Device("GPU-x", "gpu", "nvidia", "none")
    with pytest.raises(KernelError, match="does not see a GPU"):
        open_runner(gpu, DeviceBackend("torch", "cuda:0", "cuda", True, ""))


@pytest.mark.system("chromium", SWIFTSHADER)
def test_webgpu_on_a_software_adapter() -> None:
    """In its own process: Vulkan reads its variables once."""
    code = """
import numpy as np
from anyrig.backends import open_runner
from anyrig.bench.kernels import compare_with_cpu
from anyrig.devices.machine import Device, DeviceBackend
runner = open_runner(Device("x", "gpu", "unknown", "software"),
                     DeviceBackend("onnx", "webgpu:0", "WebGpuExecutionProvider", True, ""))
print(compare_with_cpu(runner) < 1e-4, runner.ran_on)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1",
            "VK_ICD_FILENAMES": SWIFTSHADER,
            "LD_LIBRARY_PATH": os.path.dirname(SWIFTSHADER),
        },
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "WebGpuExecutionProvider"], done.stderr


@pytest.mark.gpu
def test_every_usable_gpu() -> None:
    from anyrig.bench import process

    found = discover(os.environ)
    assert found.gpus
    for gpu in found.gpus:
        for backend in gpu.backends:
            if backend.usable and not gpu.blocked:
                answer = process.check_kernel(gpu, backend, os.environ)
                assert answer.ok, answer.error
                assert answer.max_error is not None
                assert answer.max_error < 5e-3
