"""A device through ONNX Runtime: which provider, with which options, and what really ran.

ONNX Runtime creates a session without an error when its provider cannot start, and runs it on the
CPU. So the provider is read back from the session, and the nodes that it runs are counted.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import platform
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyrig.backends import NO_TELEMETRY, onnx_graph
from anyrig.backends.memory import MemoryUsage, ResidentMemory, keep_freed_memory
from anyrig.backends.onnx_graph import BuiltModel
from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.errors import DeviceUnusableError, MissingWeightsError
from anyrig.storage import derived
from anyrig.units import is_whole_number, normalize_pci_address

for _name, _value in NO_TELEMETRY.items():
    os.environ.setdefault(_name, _value)  # read once, when the library loads
import onnxruntime  # noqa: E402
from onnxruntime.capi import onnxruntime_pybind11_state as onnx_errors  # noqa: E402

log = logging.getLogger(__name__)
_WEBGPU = "WebGpuExecutionProvider"
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_TENSORRT = "TensorrtExecutionProvider"
_ROCM = "ROCMExecutionProvider"
_DAMAGED = (
    onnx_errors.InvalidProtobuf, onnx_errors.InvalidGraph, onnx_errors.InvalidArgument,
    onnx_errors.NoSuchFile, onnx_errors.NoModel,
)  # fmt: skip
"""What ONNX Runtime raises for a model that it cannot read."""
# Providers whose arena can be limited.
_LIMITED_PROVIDERS = (_CUDA, _ROCM)
_COPIES_PER_GRAPH = 8
_PRODUCTS_PER_GRAPH = 10


# Which of a device's indices a provider counts by.
_INDEX_KEYS = {
    _CUDA: "cuda",
    _TENSORRT: "cuda",
    _ROCM: "rocm",
    "MIGraphXExecutionProvider": "rocm",
    "DmlExecutionProvider": "dxgi",
}


def provider_options(device: Device, provider: str) -> dict[str, str]:
    """The options that make a provider use this device and no other."""
    options = {}
    if provider in _INDEX_KEYS:
        options["device_id"] = str(device.indices.get(_INDEX_KEYS[provider], 0))
    if provider == _CUDA:
        # Inputs vary in length. By default every algorithm is tried at each new one: on an H200
        # the default voice then spoke 18 s of audio a second, and 95 s with this.
        options["cudnn_conv_algo_search"] = "HEURISTIC"
    if provider == "OpenVINOExecutionProvider":
        # Not Level Zero's index: OpenVINO counts integrated graphics first, as GPU.0.
        place = device.indices.get("openvino", device.indices.get("xpu", 0))
        options["device_type"] = f"GPU.{place}"
    return options


def create_session(
    model: bytes | str,
    device: Device,
    backend: DeviceBackend,
    *,
    threads: int | None = None,
    limit_bytes: int | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    is_optimized: bool = False,
    save_optimized: Path | None = None,
) -> Any:
    """Create a session on a device; an error if the provider did not start.

    Args:
        model: bytes or path.
        threads: of the host; None means the cores that this process may use, since ONNX Runtime
            ignores a container's limit.
        limit_bytes: limit of device memory, where the provider has one.
        arrays: the model's external data.
        is_optimized: whether the model is a file that `save_optimized` wrote.
        save_optimized: write the graph as ONNX Runtime has optimised it for this processor.
    """
    options = _session_options(is_optimized=is_optimized, save_optimized=save_optimized)
    if backend.provider == _CPU:
        # Inputs vary in length, so cached blocks rarely fit and accumulate: a voice held 350 MB
        # after 1,000 lines and kept growing.
        options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if arrays:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
        options.add_external_initializers(list(arrays), values)
    options.intra_op_num_threads = _count_cores(device) if threads is None else threads
    options.inter_op_num_threads = 1
    if backend.provider == _WEBGPU:
        if device.memory.kind == "unified":  # a discrete card would be preferred otherwise
            options.add_session_config_entry(
                "ep.webgpuexecutionprovider.powerPreference", "low-power"
            )
        options.add_provider_for_devices([_find_webgpu_adapter(device)], {})
        session = onnxruntime.InferenceSession(model, sess_options=options)
    else:
        if backend.provider in (_CUDA, _TENSORRT):
            _preload_cuda()
        chosen = provider_options(device, backend.provider)
        if limit_bytes is not None and backend.provider in _LIMITED_PROVIDERS:
            chosen |= {"gpu_mem_limit": str(limit_bytes)}
            chosen |= {"arena_extend_strategy": "kSameAsRequested"}
        providers: list[Any] = [(backend.provider, chosen)]
        if backend.provider == _TENSORRT:  # nodes that it does not support stay on the GPU
            providers.append((_CUDA, provider_options(device, _CUDA)))
        session = onnxruntime.InferenceSession(model, sess_options=options, providers=providers)
    started = session.get_providers()
    if backend.provider not in started:
        raise DeviceUnusableError(
            f"{backend.provider} did not start; ONNX Runtime fell back to {started[0]}",
            hint="Run `anyrig -vv doctor`: the log has the provider's own message.",
        )
    return session


def _session_options(*, is_optimized: bool, save_optimized: Path | None) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.load_model_format", "ORT")
    if save_optimized is not None:
        options.optimized_model_filepath = str(save_optimized)
        options.add_session_config_entry("session.save_model_format", "ORT")
    return options


@functools.cache
def _describe_processor() -> tuple[str, str]:
    """What decides for which instructions a graph is optimised."""
    features = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        start = file.read(1 << 14)  # of the first core: there may be hundreds
        found = re.search(r"^(?:flags|Features)\s*:(.*)$", start, re.MULTILINE)
        features = found.group(1) if found else start
    return platform.machine(), features or platform.processor()  # which may start a process


def _count_cores(device: Device) -> int:
    """The cores that this process may use, under affinity and a container's limit."""
    return max(1, device.units or 1) if device.kind == "cpu" else _count_host_cores()


@functools.cache
def _count_host_cores() -> int:
    from anyrig.devices import cpu
    from anyrig.devices.probe import HostProbe, LiveProbe

    return max(1, int(cpu.read_cpu(HostProbe(LiveProbe(), {})).cores_usable))


@functools.cache
def _preload_cuda() -> None:
    """Load CUDA's libraries from their wheels, where the provider does not look."""
    if hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it did not find
            onnxruntime.preload_dlls()


def _find_webgpu_adapter(device: Device) -> Any:
    """ONNX Runtime's handle of a device for the WebGPU provider, which is registered once."""
    import onnxruntime_ep_webgpu as package

    name = package.get_ep_name()
    if not any(adapter.ep_name == name for adapter in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(name, package.get_library_path())
    adapters = [adapter for adapter in onnxruntime.get_ep_devices() if adapter.ep_name == name]
    if not adapters:
        raise DeviceUnusableError(
            "the WebGPU provider lists no adapter",
            hint="Install a Vulkan driver: sudo apt install libvulkan1 mesa-vulkan-drivers",
        )
    if device.pci_id is None:
        return adapters[0]
    vendor, _, number = device.pci_id.partition(":")
    wanted = (int(vendor, 16), int(number, 16))
    equal = [one for one in adapters if (one.device.vendor_id, one.device.device_id) == wanted]
    if not equal:
        raise DeviceUnusableError(
            f"the WebGPU provider does not list {device.name}",
            hint="Install its Vulkan driver: sudo apt install mesa-vulkan-drivers",
        )
    return _select_adapter(device, equal)


def _select_adapter(device: Device, equal: list[Any]) -> Any:
    """Of the adapters of equal cards, a device's own: by PCI address, DXGI index, or position."""
    facts = [{str(k): str(v) for k, v in one.device.metadata.items()} for one in equal]
    for adapter, known in zip(equal, facts, strict=True):
        address = normalize_pci_address(known.get("pci_bus_id", ""))
        if address and address == device.pci_address:
            return adapter
        if known.get("DxgiAdapterNumber", "-") == str(device.indices.get("dxgi")):
            return adapter
    order = list(range(len(equal)))
    if all(is_whole_number(known.get("card_idx", "")) for known in facts):
        order.sort(key=lambda number: int(facts[number]["card_idx"]))
    return equal[order[min(device.indices.get("same_model", 0), len(equal) - 1)]]


class OnnxModel:
    """A model on a device, and which provider really runs its nodes."""

    def __init__(
        self, session: Any, provider: str, arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        self.session = session
        self._provider = provider
        self._arrays = arrays  # the session reads them in place
        self.nodes: Counter[str] = Counter()
        """Number of nodes by provider; empty if the runtime is too old to list them."""
        for part in getattr(session, "get_provider_graph_assignment_info", tuple)():
            self.nodes[part.ep_name] += len(part.get_nodes())
        if self.fallback:
            level = logging.INFO if self.ran_on == provider else logging.WARNING
            log.log(level, "%s", self.fallback)

    @property
    def ran_on(self) -> str:
        """The requested provider if it runs any node; else the one that runs most."""
        if self._provider in self.nodes:
            return self._provider
        most = self.nodes.most_common(1)
        return most[0][0] if most else str(self.session.get_providers()[0])

    @property
    def fallback(self) -> str:
        """Describes which nodes run on another provider than requested; empty if none do."""
        total, here = self.nodes.total(), self.nodes[self._provider]
        if self._provider == _CPU or not total or here == total:
            return ""
        others = ", ".join(
            f"{n} on {name}" for name, n in self.nodes.items() if n and name != self._provider
        )
        return f"{self._provider} runs {here or 'none'} of the model's {total} nodes: {others}"

    def run(self, feeds: dict[str, Any]) -> list[Any]:
        """Every output, on the host."""
        outputs: list[Any] = self.session.run(None, feeds)
        return outputs


class OnnxHandle:
    """A device that this process uses through ONNX Runtime.

    ONNX Runtime does not report its memory: on a GPU only the device's own figures are known.
    """

    def __init__(
        self, device: Device, backend: DeviceBackend, *, threads: int | None = None
    ) -> None:
        self.name = backend.provider
        self.on_host = backend.provider == _CPU
        self._device, self._backend, self._threads = device, backend, threads
        self._limit_bytes: int | None = None
        self._resident = ResidentMemory() if self.on_host else None
        if self.on_host:
            keep_freed_memory()

    def load(self, model: bytes | str | Path | BuiltModel) -> OnnxModel:
        """Load a model; a fallback to the CPU is logged. A file that is damaged is an error."""
        arrays = None
        if isinstance(model, BuiltModel):
            model, arrays = model
        try:
            session = create_session(
                str(model) if isinstance(model, Path) else model,
                self._device,
                self._backend,
                threads=self._threads,
                limit_bytes=self._limit_bytes,
                arrays=arrays,
            )
        except _DAMAGED as error:
            if isinstance(model, bytes):
                raise
            reason = str(error).rpartition("failed:")[2].strip() or str(error)
            raise MissingWeightsError(
                f"{model} is not a valid ONNX file: {reason[:300]}",
                hint="Download it again: it is damaged or incomplete.",
            ) from error
        loaded = OnnxModel(session, self._backend.provider, arrays)
        self.name = loaded.ran_on
        return loaded

    def load_cached(self, name: str, digest: str, build: Callable[[], bytes]) -> OnnxModel:
        """Load a model whose optimised graph is kept between processes, where the CPU runs it.

        Optimising takes longer than loading: 350 of the 500 ms of the default voice. The results
        are the same to the bit.

        Args:
            name: of the model, for people.
            digest: tells its bytes from those of every other model.
            build: makes them; called if there is no optimised graph yet.
        """
        path = None
        if self.on_host:
            path = derived.find_path(
                f"{name}.ort", digest, onnxruntime.__version__, self._backend.provider,
                *_describe_processor(),
            )  # fmt: skip
        if path is None:
            return self.load(build())
        graph = derived.read(path)
        if graph is not None:
            try:
                session = create_session(
                    bytes(graph), self._device, self._backend, threads=self._threads,
                    is_optimized=True,
                )  # fmt: skip
                return OnnxModel(session, self._backend.provider)
            except Exception as error:  # noqa: BLE001 - whatever is wrong, the model itself is there
                log.debug("the optimised graph of %s cannot be loaded: %s", name, error)
        try:
            with tempfile.TemporaryDirectory() as folder:
                optimized = Path(folder, "graph.ort")
                session = create_session(
                    build(), self._device, self._backend, threads=self._threads,
                    save_optimized=optimized,
                )  # fmt: skip
                derived.write(path, optimized.read_bytes())
            return OnnxModel(session, self._backend.provider)
        except (OSError, onnx_errors.Fail, onnx_errors.RuntimeException) as error:
            log.debug("the optimised graph of %s cannot be written: %s", name, error)
            return self.load(build())

    def synchronize(self) -> None:
        """A run returns when its outputs are on the host, so there is nothing to wait for."""

    def memory(self) -> MemoryUsage:
        described = self._device.memory
        if self._resident is not None:
            return self._resident.read(described.total_bytes)
        return MemoryUsage(free_bytes=described.free_bytes, total_bytes=described.total_bytes)

    def reset_peak(self) -> None:
        if self._resident is not None:
            self._resident.reset_peak()

    def release(self) -> None:
        """A session's arena is freed with the session."""

    def limit(self, num_bytes: int) -> bool:
        """Limit the memory of sessions loaded from now on; whether the provider can."""
        self._limit_bytes = num_bytes
        return self._backend.provider in _LIMITED_PROVIDERS


class OnnxRunner:
    """Kernels that test and measure a device through ONNX Runtime."""

    architectures: tuple[str, ...] = ()

    def __init__(self, device: Device, backend: DeviceBackend) -> None:
        self._handle = OnnxHandle(device, backend)
        self._prepared: tuple[object, OnnxModel] | None = None
        self.ran_on = backend.provider
        self.precisions: tuple[Precision, ...] = ("fp32",)
        if device.kind == "gpu" and device.features.fp16 in ("matrix", "fast"):
            self.precisions = ("fp32", "fp16")

    def product(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        model = self._handle.load(onnx_graph.build_product(left.shape[0]))
        answer: NDArray[np.float32] = model.run({"left": left, "right": right})[0]
        self.ran_on = model.ran_on
        return answer

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        """Seconds for a chain of products inside one graph, which holds their matrix."""

        def build() -> bytes:
            # Scaled so that a long chain of products neither grows nor vanishes.
            matrix = np.random.default_rng(0).standard_normal((size, size)) / np.sqrt(size)
            dtype = np.float16 if precision == "fp16" else np.float32
            return onnx_graph.build_product_chain(matrix.astype(dtype), _PRODUCTS_PER_GRAPH)

        return self._time(
            self._prepare((size, precision), build), num_products, _PRODUCTS_PER_GRAPH
        )

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        """Seconds for passes over a vector (read it, write it) inside one graph."""
        model = self._prepare(
            num_bytes, lambda: onnx_graph.build_copy_chain(num_bytes // 4, _COPIES_PER_GRAPH)
        )
        # Filling the vector and reducing it are one more pass.
        return self._time(model, num_copies, _COPIES_PER_GRAPH + 1)

    def _prepare(self, key: object, build: Callable[[], bytes]) -> OnnxModel:
        """A graph that is loaded, kept until another is needed."""
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = None  # free its memory before the new one is created
            self._prepared = (key, self._handle.load(build()))
        return self._prepared[1]

    def _time(self, model: OnnxModel, count: int, per_graph: int) -> float:
        runs = max(1, round(count / per_graph))
        one = np.ones(1, np.float32)
        start = time.perf_counter()
        for _ in range(runs):
            model.run({"scale": one})  # returns when its output is on the host
        return (time.perf_counter() - start) * count / (runs * per_graph)
