"""ONNX Runtime's words for a device: which provider, with which options, and what really ran.

A session is made without complaint when its provider cannot start, and runs on the CPU. So the
provider is read back from the session, and `where_it_ran` reads it from a profile, node by node.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyrig.backends import QUIET, Precision, graph
from anyrig.devices.describe import Device, Drive
from anyrig.errors import KernelFailed

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)  # it looks once, when it loads
import onnxruntime  # noqa: E402

_WEBGPU = "WebGpuExecutionProvider"
_COPIES_IN_GRAPH = 8
_PRODUCTS_IN_GRAPH = 10


def options(device: Device, provider: str) -> dict[str, str]:
    """What a provider must be told to use this device and no other."""
    number = {
        "CUDAExecutionProvider": device.indices.get("cuda", 0),
        "TensorrtExecutionProvider": device.indices.get("cuda", 0),
        "ROCMExecutionProvider": device.indices.get("rocm", 0),
        "MIGraphXExecutionProvider": device.indices.get("rocm", 0),
        "DmlExecutionProvider": device.indices.get("dxgi", 0),
    }.get(provider)
    if number is not None:
        return {"device_id": str(number)}
    if provider == "OpenVINOExecutionProvider":
        return {"device_type": f"GPU.{device.indices.get('xpu', 0)}"}
    return {}


def session(model: bytes, device: Device, drive: Drive, *, profile: str = "") -> Any:
    """A session of a model on a device; an error when the provider did not start."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    if profile:
        settings.enable_profiling = True
        settings.profile_file_prefix = profile
    if drive.provider == _WEBGPU:
        settings.add_provider_for_devices([_webgpu_device(device)], {})
        made = onnxruntime.InferenceSession(model, sess_options=settings)
    else:
        providers: list[Any] = [(drive.provider, options(device, drive.provider))]
        made = onnxruntime.InferenceSession(model, sess_options=settings, providers=providers)
    if drive.provider not in made.get_providers():
        raise KernelFailed(
            f"{drive.provider} did not start; ONNX Runtime fell back to {made.get_providers()[0]}",
            hint="Run `anyrig -vv doctor`: the provider's own message is in the log.",
        )
    return made


def _webgpu_device(device: Device) -> Any:
    """The WebGPU provider's handle for a device, after its library has been registered once."""
    import onnxruntime_ep_webgpu as package

    name = package.get_ep_name()
    if not any(found.ep_name == name for found in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(name, package.get_library_path())
    found = [handle for handle in onnxruntime.get_ep_devices() if handle.ep_name == name]
    if not found:
        raise KernelFailed(
            "the WebGPU provider lists no adapter",
            hint="Install a Vulkan driver: sudo apt install libvulkan1 mesa-vulkan-drivers",
        )
    if device.pci_id is None:
        return found[0]
    vendor, _, number = device.pci_id.partition(":")
    wanted = (int(vendor, 16), int(number, 16))
    for handle in found:
        if (handle.device.vendor_id, handle.device.device_id) == wanted:
            return handle
    raise KernelFailed(
        f"the WebGPU provider does not list {device.name}",
        hint="Its Vulkan driver is missing: sudo apt install mesa-vulkan-drivers",
    )


def where_it_ran(profile: Path) -> dict[str, int]:
    """How many node runs each provider had, from a session's profile."""
    counts: dict[str, int] = {}
    for event in json.loads(profile.read_text()):
        provider = event.get("args", {}).get("provider") if event.get("cat") == "Node" else None
        if provider:
            counts[provider] = counts.get(provider, 0) + 1
    return counts


def _product_chain(size: int, precision: Precision) -> bytes:
    random = np.random.default_rng(0)
    # Scaled so that a long chain of products neither grows nor vanishes.
    matrix = (random.standard_normal((size, size)) / np.sqrt(size)).astype(np.float32)
    if precision == "fp16":
        matrix = matrix.astype(np.float16)
    return graph.product_chain(matrix, _PRODUCTS_IN_GRAPH)


class OnnxRunner:
    """Kernels through ONNX Runtime."""

    kernels: tuple[str, ...] = ()

    def __init__(self, device: Device, drive: Drive) -> None:
        self._device, self._drive = device, drive
        self._ready: tuple[object, Any] | None = None
        self.ran_on = drive.provider
        self.precisions: tuple[Precision, ...] = ("fp32",)
        if device.kind == "gpu" and device.features.fp16 in ("matrix", "fast"):
            self.precisions = ("fp32", "fp16")

    def product(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        """The matrix product of two fp32 matrices."""
        model = graph.product(left.shape[0])
        with tempfile.TemporaryDirectory() as folder:
            made = session(model, self._device, self._drive, profile=os.path.join(folder, "run"))
            (answer,) = made.run(None, {"left": left, "right": right})
            ran = where_it_ran(Path(made.end_profiling()))
        self.ran_on = max(ran, key=lambda name: ran[name]) if ran else made.get_providers()[0]
        result: NDArray[np.float32] = answer
        return result

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        """Seconds for a chain of products inside one graph, whose matrices it holds."""
        made = self._chain((size, precision), lambda: _product_chain(size, precision))
        return self._timed(made, num_products, _PRODUCTS_IN_GRAPH)

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        """Seconds for sweeps over a vector (read it, write it), inside one graph."""
        made = self._chain(num_bytes, lambda: graph.sweep_chain(num_bytes // 4, _COPIES_IN_GRAPH))
        # Filling the vector and reducing it are one sweep more.
        return self._timed(made, num_copies, _COPIES_IN_GRAPH + 1)

    def _chain(self, key: object, model: Callable[[], bytes]) -> Any:
        """The session of a graph, kept until another graph is asked for."""
        if self._ready is None or self._ready[0] != key:
            self._ready = None  # free the old one's memory before the new one takes its own
            self._ready = (key, session(model(), self._device, self._drive))
        return self._ready[1]

    def _timed(self, made: Any, count: int, in_graph: int) -> float:
        runs = max(1, round(count / in_graph))
        one = np.ones(1, np.float32)
        start = time.perf_counter()
        for _ in range(runs):
            made.run(None, {"scale": one})  # a run returns when its output is on the host
        return (time.perf_counter() - start) * count / (runs * in_graph)
