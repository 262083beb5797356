"""ONNX Runtime's words for a device: which provider, with which options, and what really ran.

A session is made without complaint when its provider cannot start, and runs on the CPU. So the
provider is read back from the session, and `where_it_ran` reads it from a profile, node by node.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.backends import QUIET, MemoryNow, heap
from anyrig.backends.graph import Written
from anyrig.backends.resident import Resident
from anyrig.devices.machine import BackendName, Device, DeviceBackend
from anyrig.errors import KernelError
from anyrig.units import is_whole_number, normalize_pci_address

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)  # it looks once, when it loads
import onnxruntime  # noqa: E402

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger(__name__)
_WEBGPU = "WebGpuExecutionProvider"
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_TENSORRT = "TensorrtExecutionProvider"
_POWER = "ep.webgpuexecutionprovider.powerPreference"
_DXGI = "DxgiAdapterNumber"
# Providers whose arena takes a limit.
_LIMITED = (_CUDA, "ROCMExecutionProvider")


def options(device: Device, provider: str) -> dict[str, str]:
    """What a provider must be told to use this device and no other."""
    number = {
        _CUDA: device.indices.get("cuda", 0),
        _TENSORRT: device.indices.get("cuda", 0),
        "ROCMExecutionProvider": device.indices.get("rocm", 0),
        "MIGraphXExecutionProvider": device.indices.get("rocm", 0),
        "DmlExecutionProvider": device.indices.get("dxgi", 0),
    }.get(provider)
    if provider == _CUDA:
        # Lines are never of one length. By default every algorithm is tried at each new one: on an
        # H200 the default voice then spoke 18 s of audio a second, and 95 s like this.
        return {"device_id": str(number), "cudnn_conv_algo_search": "HEURISTIC"}
    if number is not None:
        return {"device_id": str(number)}
    if provider == "OpenVINOExecutionProvider":
        # Not Level Zero's number: here the processor's own graphics are always GPU.0.
        place = device.indices.get("openvino", device.indices.get("xpu", 0))
        return {"device_type": f"GPU.{place}"}
    return {}


def session(
    model: bytes | str,
    device: Device,
    drive: DeviceBackend,
    *,
    profile: str = "",
    threads: int | None = None,
    limit_bytes: int | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
) -> Any:
    """A session of a model on a device; an error when the provider did not start.

    Args:
        model: the model's bytes, or its path.
        device: what to run on.
        drive: through which provider.
        profile: the beginning of the name of a profile to write.
        threads: how many of the host's threads may compute; when None, as many as this process
            has cores, of which ONNX Runtime itself would not know a container's limit.
        limit_bytes: the most device memory to take, where the provider can be held to it.
        arrays: weights that the model names as lying elsewhere.
    """
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    if drive.provider == _CPU:
        # Lines and pages are never of one length. Kept blocks then fit badly and pile up: a voice
        # held 350 MB after 1,000 lines and grew without end.
        settings.enable_cpu_mem_arena = False
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if arrays:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
        settings.add_external_initializers(list(arrays), values)
    settings.intra_op_num_threads = _host_cores(device) if threads is None else threads
    settings.inter_op_num_threads = 1
    if profile:
        settings.enable_profiling = True
        settings.profile_file_prefix = profile
    if drive.provider == _WEBGPU:
        if device.memory.kind == "unified":  # beside a card the card would be taken
            settings.add_session_config_entry(_POWER, "low-power")
        settings.add_provider_for_devices([_webgpu_device(device)], {})
        made = onnxruntime.InferenceSession(model, sess_options=settings)
    else:
        if drive.provider in (_CUDA, _TENSORRT):
            _find_cuda()
        told = options(device, drive.provider)
        if limit_bytes is not None and drive.provider in _LIMITED:
            told |= {"gpu_mem_limit": str(limit_bytes)}
            told |= {"arena_extend_strategy": "kSameAsRequested"}
        providers: list[Any] = [(drive.provider, told)]
        if drive.provider == _TENSORRT:  # what it cannot do stays on the GPU
            providers.append((_CUDA, options(device, _CUDA)))
        made = onnxruntime.InferenceSession(model, sess_options=settings, providers=providers)
    if drive.provider not in made.get_providers():
        raise KernelError(
            f"{drive.provider} did not start; ONNX Runtime fell back to {made.get_providers()[0]}",
            hint="Run `anyrig -vv doctor`: the provider's own message is in the log.",
        )
    return made


def _host_cores(device: Device) -> int:
    """The cores that this process may use, under affinity and a container's limit."""
    return max(1, device.units or 1) if device.kind == "cpu" else _cores_here()


@functools.cache
def _cores_here() -> int:
    from anyrig.devices import cpu
    from anyrig.devices.probe import LiveProbe, System

    return max(1, int(cpu.read_cpu(System(LiveProbe(), {})).cores_usable))


@functools.cache
def _find_cuda() -> None:
    """Load CUDA's libraries from the wheels that bring them: the provider does not look there."""
    if hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it did not find
            onnxruntime.preload_dlls()


def _webgpu_device(device: Device) -> Any:
    """The WebGPU provider's handle for a device, after its library has been registered once."""
    import onnxruntime_ep_webgpu as package

    name = package.get_ep_name()
    if not any(found.ep_name == name for found in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(name, package.get_library_path())
    found = [handle for handle in onnxruntime.get_ep_devices() if handle.ep_name == name]
    if not found:
        raise KernelError(
            "the WebGPU provider lists no adapter",
            hint="Install a Vulkan driver: sudo apt install libvulkan1 mesa-vulkan-drivers",
        )
    if device.pci_id is None:
        return found[0]
    vendor, _, number = device.pci_id.partition(":")
    wanted = (int(vendor, 16), int(number, 16))
    equal = [h for h in found if (h.device.vendor_id, h.device.device_id) == wanted]
    if equal:
        return _own_handle(device, equal)
    raise KernelError(
        f"the WebGPU provider does not list {device.name}",
        hint="Its Vulkan driver is missing: sudo apt install mesa-vulkan-drivers",
    )


def _own_handle(device: Device, equal: list[Any]) -> Any:
    """Of the handles of equal cards, a device's own: by its address, DXGI's number, or place."""
    told = [{str(key): str(value) for key, value in h.device.metadata.items()} for h in equal]
    for handle, facts in zip(equal, told, strict=True):
        address = normalize_pci_address(facts.get("pci_bus_id", ""))
        if address and address == device.pci_address:
            return handle
        if "dxgi" in device.indices and facts.get(_DXGI) == str(device.indices["dxgi"]):
            return handle
    if all(is_whole_number(facts.get("card_idx", "")) for facts in told):
        order = sorted(range(len(equal)), key=lambda n: int(told[n]["card_idx"]))
        equal = [equal[number] for number in order]
    place = device.indices.get("equal", 0)
    return equal[min(place, len(equal) - 1)]


def where_it_ran(profile: Path) -> dict[str, int]:
    """How many node runs each provider had, from a session's profile."""
    counts: dict[str, int] = {}
    for event in json.loads(profile.read_text()):
        provider = event.get("args", {}).get("provider") if event.get("cat") == "Node" else None
        if provider:
            counts[provider] = counts.get(provider, 0) + 1
    return counts


TELLS = hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
"""Whether a session can say who runs its nodes; an older one only after a run, by a profile."""


def assigned(made: Any) -> dict[str, int]:
    """How many nodes of a session's graph each provider was given; nothing where it cannot tell."""
    counts: dict[str, int] = {}
    for part in made.get_provider_graph_assignment_info() if TELLS else ():
        counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
    return counts


class Model:
    """A model on a device, and which provider really runs its nodes."""

    def __init__(
        self,
        made: Any,
        wanted: str,
        nodes: dict[str, int],
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.session = made
        self._arrays = arrays  # the session reads them where they lie
        self.nodes = nodes
        """Provider to number of nodes; with an older runtime empty until the first run."""
        self._wanted = wanted
        self._profiled = False

    @property
    def ran_on(self) -> str:
        """The provider that was asked for if it runs any node; else the one that runs most."""
        if self._wanted in self.nodes:
            return self._wanted
        most = max(self.nodes, key=lambda name: self.nodes[name], default="")
        return most or str(self.session.get_providers()[0])

    @property
    def fell_back(self) -> str:
        """What runs elsewhere than was asked for, in a sentence; nothing when nothing does."""
        total, here = sum(self.nodes.values()), self.nodes.get(self._wanted, 0)
        if self._wanted == _CPU or not total or here == total:
            return ""
        others = ", ".join(
            f"{n} on {name}" for name, n in self.nodes.items() if n and name != self._wanted
        )
        if not here:
            return f"{self._wanted} started and runs none of the model's {total} nodes: {others}"
        return f"{self._wanted} runs {here} of the model's {total} nodes; {others}"

    def run(self, feeds: dict[str, Any]) -> list[Any]:
        """Every output, once it is on the host."""
        outputs: list[Any] = self.session.run(None, feeds)
        if not self.nodes and not TELLS and not self._profiled:
            self._profiled = True
            profile = Path(self.session.end_profiling())
            self.nodes = where_it_ran(profile)
            profile.unlink(missing_ok=True)
            self.tell()
        return outputs

    def tell(self) -> None:
        """Say in the log what runs elsewhere than was asked for."""
        if self.fell_back:
            level = logging.INFO if self.ran_on == self._wanted else logging.WARNING
            log.log(level, "%s", self.fell_back)


class OnnxBound:
    """A device bound to this process through ONNX Runtime.

    It keeps no books that can be read: on a GPU only the device's own figures tell its memory.
    """

    backend: BackendName = "onnx"

    def __init__(self, device: Device, drive: DeviceBackend, *, threads: int | None = None) -> None:
        self.name = drive.provider
        self.on_host = drive.provider == _CPU
        self._device, self._drive, self._threads = device, drive, threads
        self._limit_bytes: int | None = None
        self._resident = Resident() if drive.provider == _CPU else None
        if self.on_host:
            heap.keep_freed()

    def load(self, model: bytes | str | Path | Written) -> Model:
        """A model on the device; a silent fall-back to the CPU is in the answer and in the log."""
        arrays = model.arrays if isinstance(model, Written) else None
        told = model.model if isinstance(model, Written) else model
        source = str(told) if isinstance(told, Path) else told
        made = session(
            source,
            self._device,
            self._drive,
            profile="" if TELLS else os.path.join(tempfile.gettempdir(), "anyrig-profile"),
            threads=self._threads,
            limit_bytes=self._limit_bytes,
            arrays=arrays,
        )
        loaded = Model(made, self._drive.provider, assigned(made), arrays)
        loaded.tell()
        self.name = loaded.ran_on
        return loaded

    def synchronise(self) -> None:
        """Nothing to wait for: a run returns when its output is on the host."""

    def memory(self) -> MemoryNow:
        """On a CPU the process's own; elsewhere only what the device's description says."""
        if self._resident is not None:
            return self._resident.memory()
        described = self._device.memory
        return MemoryNow(free_bytes=described.free_bytes, total_bytes=described.total_bytes)

    def reset_peak(self) -> None:
        """Begin to measure the peak anew, where it can be measured."""
        if self._resident is not None:
            self._resident.reset_peak()

    def release(self) -> None:
        """Nothing to call: a session's arena goes with the session."""

    def limit(self, num_bytes: int) -> bool:
        """Hold the sessions loaded from now on to so many bytes; whether the provider can."""
        self._limit_bytes = num_bytes
        return self._drive.provider in _LIMITED
