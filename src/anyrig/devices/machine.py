"""A machine and its devices as frozen values.

`None` in a field means unknown; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from anyrig.devices.reasons import DeviceReason, ReasonCode, explain
from anyrig.devices.wheels import PLAIN_ONNX, InstalledPackages
from anyrig.install import format_install

TORCH_INDEX_URL = "https://download.pytorch.org/whl"

DeviceKind = Literal["gpu", "cpu"]
Fp16Speed = Literal["matrix", "fast", "slow", "none"]
DevicePart = Literal["whole", "mig", "vgpu", "partition"]
SystemName = Literal["Linux", "Windows", "macOS", "other"]
SourceState = Literal["found", "nothing", "failed"]
MemoryKind = Literal["dedicated", "unified", "unknown"]
Library = Literal["torch", "onnx"]
Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
"""A precision for computation; tf32 is fp32 with rounded products."""

_PRECISION_NAMES = {
    name: precision
    for precision, names in {
        "auto": "auto",
        "fp16": "fp16 float16 half f16 16 16-mixed",
        "bf16": "bf16 bfloat16 bf16-mixed",
        "fp32": "fp32 float32 float single full f32 32 32-true",
        "tf32": "tf32 tensorfloat32",
        "fp8": "fp8 float8 f8 8 float8_e4m3fn float8_e5m2",
        "fp64": "fp64 float64 double f64 64 64-true",
    }.items()
    for name in names.split()
}


def parse_precision(value: object) -> str | None:
    """`fp16` for torch.float16, "float16", "half" or Lightning's "16-mixed"; None if unknown.

    fp64 is recognised, but it is no precision that can be requested: it is the model's own.
    """
    if isinstance(value, bool):
        return None
    text = value.__name__ if isinstance(value, type) else str(value)
    return _PRECISION_NAMES.get(text.strip().lower().removeprefix("torch."))


ONE_PROCESS = "one_process"
"""The code of a note: the driver lets one process at a time use the device."""


@dataclass(frozen=True)
class DeviceNote:
    """Something unusual about a device that does not block it by itself."""

    code: str
    """`ONE_PROCESS`, or one for the vendor that made the note."""
    message: str


@dataclass(frozen=True)
class MemoryPool:
    """One of several memories behind a device, such as an APU's carve-out."""

    name: str
    total_bytes: int | None
    free_bytes: int | None = None


@dataclass(frozen=True)
class Memory:
    kind: MemoryKind = "unknown"
    total_bytes: int | None = None
    """What work may use at most; for unified memory, the share that counts."""
    free_bytes: int | None = None
    pools: tuple[MemoryPool, ...] = ()
    note: str = ""
    """Where an unusual figure comes from, or why there is none."""


@dataclass(frozen=True)
class Features:
    """Precisions that the hardware computes in. None: unknown."""

    fp16: Fp16Speed | None = None
    """`matrix`: matrix units; `fast`: at least twice fp32; `slow`: no faster than fp32."""
    tf32: bool | None = None
    bf16: bool | None = None
    """Native. Emulated bf16 is False: it runs, slower than fp32."""
    fp8: bool | None = None
    fp4: bool | None = None
    fnuz: bool = False
    """Whether its fp8 is the variant before OCP's, with other ranges and one zero."""


@dataclass(frozen=True)
class DeviceBackend:
    """One way to run work on a device."""

    library: Library
    selector: str
    """What a user selects it by: `cuda:0`, `rocm:0`, `webgpu:0`, `cpu`."""
    provider: str
    """What the library calls it: `cuda`, `CUDAExecutionProvider`."""
    package: str = ""
    """What provides it: `torch 2.11.0 (CUDA 13.0)`; empty if blocked."""
    blocked: DeviceReason | None = None
    """Why it is not usable."""

    @property
    def usable(self) -> bool:
        return self.blocked is None

    @property
    def reason(self) -> str:
        """Why it is usable, or why not."""
        return self.blocked.message if self.blocked else self.package

    @property
    def fix(self) -> str:
        """The command that would make it usable, if there is one."""
        return self.blocked.fix if self.blocked else ""


@dataclass(frozen=True)
class DeviceAdvice:
    """What to do so that a GPU is used: commands, or where to read on. Empty: nothing helps, or
    nothing is needed.
    """

    command: str = ""
    """Makes an unusable GPU usable; the one to show."""
    torch: str = ""
    """Makes it usable through torch."""
    onnx: str = ""
    """Makes it usable through ONNX Runtime."""


@dataclass(frozen=True)
class Device:
    """A GPU or the CPU, as the operating system sees it."""

    id: str
    """Stable over reboots: a UUID if there is one, else the PCI address."""
    kind: DeviceKind
    vendor: str
    name: str
    architecture: str | None = None
    capability: str | None = None
    """CUDA compute capability (`8.9`) or gfx target (`gfx1100`)."""
    memory: Memory = field(default_factory=Memory)
    driver: str | None = None
    driver_version: str | None = None
    pci_address: str | None = None
    pci_id: str | None = None
    """Vendor and device number, `10de:2684`."""
    features: Features = field(default_factory=Features)
    part: DevicePart = "whole"
    parent: str | None = None
    """The id of the device this is a part of."""
    units: int | None = None
    """Shader cores, compute units or CPU cores: compares devices of one vendor."""
    indices: Mapping[str, int] = field(default_factory=dict)
    """Position in each library's own order: {"nvml": 0, "cuda": 1}."""
    hardware_block: DeviceReason | None = None
    """Why no backend can use it, whatever is installed."""
    backends: tuple[DeviceBackend, ...] = ()
    notes: tuple[DeviceNote, ...] = ()
    advice: DeviceAdvice = field(default_factory=DeviceAdvice)

    @property
    def usable(self) -> bool:
        """Whether an installed backend can use it, as far as package metadata tell."""
        return self.hardware_block is None and any(backend.usable for backend in self.backends)

    @property
    def selectors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(backend.selector for backend in self.backends))

    @property
    def block_reason(self) -> DeviceReason | None:
        """Why it cannot be used, with the command that would change that."""
        if self.hardware_block or self.usable:
            return self.hardware_block
        reasons = "; ".join(dict.fromkeys(backend.reason for backend in self.backends))
        return explain(
            ReasonCode.NO_BACKEND, self.advice.command, reasons=reasons or "no backend supports it"
        )

    @property
    def capability_title(self) -> str:
        """`compute capability 8.9`, `gfx1100`."""
        if not self.capability:
            return ""
        is_number = self.capability[0].isdigit()
        return f"compute capability {self.capability}" if is_number else self.capability

    @property
    def number_text(self) -> str:
        """What users select it by: `0`, or `6:1` for a MIG instance."""
        number = str(self.indices.get("gpu", 0))
        return f"{number}:{self.indices['mig']}" if self.part == "mig" else number

    def with_index(self, library: str, index: int) -> Device:
        return replace(self, indices={**self.indices, library: index})

    def selector_for(self, library: str) -> str:
        """`cuda:0`; without a number if the library does not count the device.

        A MIG instance has no place in CUDA's order and is selected by its id.
        """
        if library in self.indices:
            return f"{library}:{self.indices[library]}"
        return self.id if self.part == "mig" else library

    def has_note(self, code: str) -> bool:
        return any(note.code == code for note in self.notes)


@dataclass(frozen=True)
class ResourceLimit:
    """Something that takes cores or memory away from this process."""

    kind: Literal["affinity", "cgroup", "rosetta"]
    message: str


@dataclass(frozen=True)
class Cpu:
    """The processor, and what this process may use of it."""

    name: str
    vendor: str
    architecture: str
    """The instruction set: x86_64, aarch64, arm64, AMD64."""
    cores_total: int
    cores_usable: float
    """Under affinity and cgroup limits; a quota of one and a half cores is 1.5."""
    memory: Memory
    vectors: tuple[str, ...] = ()
    """Vector and matrix extensions: avx2, avx512f, amx_bf16, sve."""
    limits: tuple[ResourceLimit, ...] = ()


@dataclass(frozen=True)
class Platform:
    """The operating system around the devices."""

    system: SystemName = "other"
    release: str = ""
    machine: str = ""
    python: str = ""
    wsl: int = 0
    """0, 1 or 2."""
    container: str = ""
    """docker, podman, kubernetes, lxc, ...; empty outside one."""
    distribution: str = ""
    virtual: str = ""
    """The hypervisor, if known."""

    @property
    def title(self) -> str:
        """`WSL2`, `Linux in docker`, `Windows`."""
        base = f"WSL{self.wsl}" if self.wsl else self.system
        if self.system == "other":
            base = self.distribution or "an unknown system"
        return f"{base} in {self.container}" if self.container else base

    @property
    def is_arm(self) -> bool:
        return self.machine.lower() in ("aarch64", "arm64")

    def unset_command(self, *variables: str) -> str:
        """The command that removes variables from the shell."""
        if self.system == "Windows":
            return f"Remove-Item {', '.join(f'Env:{name}' for name in variables)}"
        return f"unset {' '.join(variables)}"


@dataclass(frozen=True)
class DeviceNode:
    """A device file and this user's access to it."""

    path: str
    access: str
    """`rw`, `r` or empty."""
    group: str = ""


@dataclass(frozen=True)
class HostFacts:
    """What decides which backends can use a device, beside the device itself."""

    platform: Platform = field(default_factory=Platform)
    installed: InstalledPackages = field(default_factory=InstalledPackages)
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that affect devices, no others."""
    nodes: tuple[DeviceNode, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """What vendors and backends read of the host for themselves: versions of drivers."""

    def has_node(self, prefix: str) -> bool:
        return any(node.path.startswith(prefix) for node in self.nodes)

    def permission_block(self, prefix: str) -> DeviceReason | None:
        """Why this user cannot open any of the device files."""
        nodes = [node for node in self.nodes if node.path.startswith(prefix)]
        if not nodes or any("w" in node.access for node in nodes):
            return None
        fix = "sudo usermod -aG render,video $USER"
        if self.platform.container:
            fix = f"docker run --group-add {nodes[0].group or 'render'} ..."
        return explain(ReasonCode.NO_PERMISSION, fix, path=nodes[0].path)

    @property
    def torch_flavour(self) -> str:
        return self.installed.torch.flavour if self.installed.torch else ""

    def torch_command(self, requirement: str, flavour: str) -> str:
        """The command that installs another build of torch.

        pip considers a requirement satisfied by any installed build, so the old one goes first.
        """
        index_url = f"{TORCH_INDEX_URL}/{flavour}"
        if self.installed.torch:
            return format_install(requirement, index_url=index_url, uninstall=["torch"])
        build = format_install(requirement, index_url=index_url)
        return f"{build} && {format_install('anyrig[torch]')}"  # what anyrig needs beside it

    def torch_block(self, flavour: str, title: str, fix: str) -> DeviceReason | None:
        """Why the installed torch is not a build for such devices; `title` is for messages."""
        torch = self.installed.torch
        if torch is None:
            return explain(ReasonCode.NOT_INSTALLED, fix, package="torch")
        if torch.flavour != flavour:
            return explain(ReasonCode.WRONG_BUILD, fix, package=torch.title, feature=title)
        return None

    @property
    def torch_title(self) -> str:
        return self.installed.torch.title if self.installed.torch else ""

    def onnx_command(self, package: str) -> str:
        """The command that replaces the installed ONNX Runtime packages by one."""
        return format_install(package, uninstall=list(self.installed.onnx))

    def onnx_backend(
        self,
        selector: str,
        provider: str,
        package: str,
        fix: str,
        blocked: DeviceReason | None = None,
    ) -> DeviceBackend:
        """A provider of ONNX Runtime; `package` and `fix` are for messages if none has it."""
        installed = self.installed.package_of(provider)
        if not installed:
            missing = explain(ReasonCode.NOT_INSTALLED, fix, package=package)
            return DeviceBackend("onnx", selector, provider, blocked=missing)
        # Packages that install the same files overwrite each other.
        others = " and ".join(name for name in self.installed.onnx if name != installed)
        caveat = f", unless overwritten by {others}" if others else ""
        title = f"{installed} {self.installed.versions[installed]}{caveat}"
        return DeviceBackend("onnx", selector, provider, title, blocked)

    def plain_onnx(self) -> tuple[str, DeviceReason | None]:
        """The ONNX Runtime for providers that every package has, or why there is none."""
        onnx = self.installed.onnx
        if onnx:
            return f"{onnx[0]} {self.installed.versions[onnx[0]]}", None
        fix = format_install(PLAIN_ONNX)
        return "", explain(ReasonCode.NOT_INSTALLED, fix, package=PLAIN_ONNX)

    @property
    def render_block(self) -> DeviceReason | None:
        """Why this user cannot open the render nodes, which Level Zero and Vulkan need."""
        if self.platform.system != "Linux" or self.platform.wsl:
            return None
        if self.has_node("/dev/dri/render"):
            return self.permission_block("/dev/dri/render")
        if self.platform.container:
            fix = "docker run --device /dev/dri ..."
            return explain(ReasonCode.NOT_IN_CONTAINER, fix, path="/dev/dri")
        return explain(ReasonCode.NO_RENDER_NODE, "sudo dmesg | grep -i drm")


@dataclass(frozen=True)
class SourceReport:
    """What one source of devices reported, or why it failed."""

    source: str
    state: SourceState
    reason: str
    fix: str = ""


@dataclass(frozen=True)
class UnmatchedEntry:
    """An entry of a variable such as CUDA_VISIBLE_DEVICES that matches no device."""

    variable: str
    entry: str


@dataclass(frozen=True)
class Machine:
    """All devices of a machine, with what surrounds them."""

    host: HostFacts
    cpu: Cpu
    gpus: tuple[Device, ...]
    cpu_device: Device
    sources: tuple[SourceReport, ...] = ()
    groups: tuple[str, ...] = ()
    root: bool = False
    disk_free_bytes: int | None = None
    unmatched: tuple[UnmatchedEntry, ...] = ()

    @property
    def platform(self) -> Platform:
        return self.host.platform

    @property
    def packages(self) -> Mapping[str, str]:
        """Installed packages that can use a device, with their versions; torch's with its build."""
        titles = dict(self.host.installed.versions)
        if torch := self.host.installed.torch:
            titles["torch"] = torch.full_version
        return titles

    @property
    def devices(self) -> tuple[Device, ...]:
        """Every device, the CPU last."""
        return (*self.gpus, self.cpu_device)

    def find(self, device_id: str) -> Device | None:
        return next((device for device in self.devices if device.id == device_id), None)

    def gpus_of(self, vendor: str) -> Iterator[Device]:
        """The GPUs of one vendor, in order."""
        return (gpu for gpu in self.gpus if gpu.vendor == vendor)


# -- JSON: keys and values are public and older than some of the names above -------------------


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """Plain data for `--json` and HTTP."""
    host = machine.host
    torch = host.installed.torch
    facts = {
        **host.facts,
        "torch_flavour": torch.flavour if torch else "",
        "torch_runtime": torch.runtime if torch else "",
        "torch_kernels": " ".join(torch.kernels or ()) if torch else "",
    }
    return {
        "platform": asdict(machine.platform),
        "cpu": {**asdict(machine.cpu), "limits": [limit.message for limit in machine.cpu.limits]},
        "gpus": [device_to_json(gpu) for gpu in machine.gpus],
        "cpu_device": device_to_json(machine.cpu_device),
        "sources": [
            {"source": report.source, "state": report.state, "reason": report.reason}
            for report in machine.sources
        ],
        "packages": dict(machine.packages),
        "environment": dict(host.environment),
        "facts": {name: fact for name, fact in facts.items() if fact},
        "nodes": [asdict(node) for node in host.nodes],
        "groups": list(machine.groups),
        "root": machine.root,
        "disk_free_bytes": machine.disk_free_bytes,
        "unmatched": [asdict(entry) for entry in machine.unmatched],
    }


def device_to_json(device: Device) -> dict[str, Any]:
    data = asdict(device)
    data["backends"] = [backend_to_json(backend) for backend in device.backends]
    del data["hardware_block"]
    block = device.hardware_block
    data["blocked"] = block.message if block else ""
    data["blocked_fix"] = block.fix if block else ""
    data["notes"] = [note.message for note in device.notes]
    data["usable"] = device.usable
    data["selectors"] = list(device.selectors)
    data["why_not"] = str(device.block_reason or "")
    return data | reason_to_json(device.block_reason)


def reason_to_json(reason: DeviceReason | None) -> dict[str, Any]:
    """What translations need beside the message."""
    if reason is None:
        return {"code": "", "values": {}}
    return {"code": reason.code.value, "values": dict(reason.values)}


def backend_to_json(backend: DeviceBackend) -> dict[str, Any]:
    return {
        "backend": backend.library,
        "selector": backend.selector,
        "provider": backend.provider,
        "usable": backend.usable,
        "reason": backend.reason,
        "fix": backend.fix,
        **reason_to_json(backend.blocked),
    }


def backend_from_json(data: Mapping[str, Any]) -> DeviceBackend:
    """The inverse of `backend_to_json`."""
    package = data["reason"] if data["usable"] else ""
    blocked = None if data["usable"] else _reason_from_json(data, data["fix"])
    return DeviceBackend(data["backend"], data["selector"], data["provider"], package, blocked)


def _reason_from_json(data: Mapping[str, Any], fix: str) -> DeviceReason:
    return explain(ReasonCode(data["code"]), fix, **data["values"])


def device_from_json(data: Mapping[str, Any]) -> Device:
    """The inverse of `device_to_json`; notes are not kept."""
    values = {one.name: data[one.name] for one in fields(Device) if one.name in data}
    memory = dict(values["memory"])
    memory["pools"] = tuple(MemoryPool(**pool) for pool in memory["pools"])
    return Device(
        **values
        | {
            "memory": Memory(**memory),
            "features": Features(**values["features"]),
            "hardware_block": (
                _reason_from_json(data, data["blocked_fix"]) if data["blocked"] else None
            ),
            "backends": tuple(map(backend_from_json, data["backends"])),
            "notes": (),
            "advice": DeviceAdvice(**values["advice"]),
        }
    )
