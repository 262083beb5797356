"""What a machine and its devices are, as frozen values. No probing, no deciding.

`None` in a field means that nobody could tell: unknown is said, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["gpu", "cpu"]
Fp16 = Literal["matrix", "fast", "slow", "none"]
Part = Literal["whole", "mig", "vgpu", "partition"]
SystemName = Literal["Linux", "Windows", "macOS", "other"]
SourceState = Literal["found", "nothing", "failed"]
MemoryKind = Literal["dedicated", "unified", "unknown"]
BackendName = Literal["torch", "onnx"]
Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
"""A number format that work is done in; tf32 is fp32 whose products are rounded."""


@dataclass(frozen=True)
class Pool:
    """One of the memories behind a device that has several, such as an APU."""

    name: str
    total_bytes: int | None
    free_bytes: int | None = None


@dataclass(frozen=True)
class Memory:
    """What a device can hold."""

    kind: MemoryKind = "unknown"
    total_bytes: int | None = None
    """What work may count on at most; for unified memory, the share that counts."""
    free_bytes: int | None = None
    pools: tuple[Pool, ...] = ()
    note: str = ""
    """Where an unusual figure comes from, or why there is none."""


@dataclass(frozen=True)
class Features:
    """Which number formats the silicon computes in. None: unknown."""

    fp16: Fp16 | None = None
    """`matrix` has matrix units, `fast` at least twice fp32, `slow` no faster than fp32."""
    tf32: bool | None = None
    bf16: bool | None = None
    """Native. Emulated bf16 is False: it runs, slower than fp32."""
    fp8: bool | None = None
    """In any variant: CDNA 3 has the older one (fnuz), all others OCP's."""
    fp4: bool | None = None


@dataclass(frozen=True)
class Drive:
    """One way to run work on a device, and whether it is open."""

    backend: BackendName
    word: str
    """The name a user may ask for it by: `cuda:0`, `rocm:0`, `webgpu:0`, `cpu`."""
    provider: str
    """What the backend calls it: `cuda`, `CUDAExecutionProvider`."""
    usable: bool
    reason: str
    """Why it is open, or exactly why it is not."""
    fix: str = ""
    """The command that would open it, when there is one."""


@dataclass(frozen=True)
class Device:
    """Something that computes, as the operating system sees it."""

    id: str
    """Stable over reboots and orders: a UUID where there is one, else the PCI address."""
    kind: Kind
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
    part: Part = "whole"
    parent: str | None = None
    """The id of the device this is a part of."""
    units: int | None = None
    """Shader cores, compute units or CPU cores: orders devices of one vendor by size."""
    indices: Mapping[str, int] = field(default_factory=dict)
    """Position in each library's own order: {"nvml": 0, "cuda": 1}."""
    blocked: str = ""
    """Why no backend may use it whatever is installed: hidden, MIG parent, prohibited."""
    blocked_fix: str = ""
    drives: tuple[Drive, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether some installed backend can drive it, as far as metadata tell."""
        return not self.blocked and any(drive.usable for drive in self.drives)

    @property
    def words(self) -> tuple[str, ...]:
        """Every backend word this device answers to, `cuda:0` before `webgpu:0`."""
        return tuple(dict.fromkeys(drive.word for drive in self.drives))

    @property
    def why_not(self) -> str:
        """Why nothing can drive it; empty when something can."""
        if self.blocked:
            return self.blocked
        if self.usable:
            return ""
        return "; ".join(dict.fromkeys(drive.reason for drive in self.drives)) or "nothing known"

    @property
    def why_not_fix(self) -> str:
        """The first command that would make it usable."""
        if self.blocked:
            return self.blocked_fix
        return next((d.fix for d in self.drives if d.fix and not d.usable), "")


@dataclass(frozen=True)
class Cpu:
    """The processor, with what this process may use of it."""

    name: str
    vendor: str
    architecture: str
    """The instruction set: x86_64, aarch64, arm64, AMD64."""
    cores_total: int
    cores_usable: float
    """Under affinity and cgroup limits; a quota of one and a half cores is 1.5."""
    memory: Memory
    vectors: tuple[str, ...] = ()
    """Vector and matrix extensions that matter for numbers: avx2, avx512f, amx_bf16, sve."""
    limits: tuple[str, ...] = ()
    """What takes cores or memory away, one sentence each."""


@dataclass(frozen=True)
class Platform:
    """The operating system around the devices."""

    system: SystemName
    release: str
    machine: str
    python: str
    wsl: int = 0
    """0, 1 or 2."""
    container: str = ""
    """docker, podman, kubernetes, lxc, ...; empty outside one."""
    distribution: str = ""
    virtual: str = ""
    """The hypervisor, where one says its name."""

    @property
    def title(self) -> str:
        """`WSL2`, `Linux in docker`, `Windows`."""
        base = f"WSL{self.wsl}" if self.wsl else self.system
        if self.system == "other":
            base = self.distribution or "an unknown system"
        return f"{base} in {self.container}" if self.container else base


@dataclass(frozen=True)
class SourceReport:
    """What one source saw, or why it was silent."""

    source: str
    state: SourceState
    reason: str


@dataclass(frozen=True)
class Node:
    """A device file and what this user may do with it."""

    path: str
    access: str
    """`rw`, `r` or empty."""
    group: str = ""


@dataclass(frozen=True)
class Unmatched:
    """A device that a variable such as CUDA_VISIBLE_DEVICES names and that is not there."""

    variable: str
    entry: str


@dataclass(frozen=True)
class Machine:
    """All devices of a machine, with the platform around them."""

    platform: Platform
    cpu: Cpu
    gpus: tuple[Device, ...]
    cpu_device: Device
    sources: tuple[SourceReport, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    """Installed packages that can drive a device, with their builds."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that shape what devices can do, no others."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Loose facts that only the doctor reads: loaders, toolkits, library paths."""
    nodes: tuple[Node, ...] = ()
    groups: tuple[str, ...] = ()
    root: bool = False
    disk_free_bytes: int | None = None
    unmatched: tuple[Unmatched, ...] = ()
    """What variables name that is not there."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """Every device, the CPU last."""
        return (*self.gpus, self.cpu_device)

    def find(self, device_id: str) -> Device | None:
        """The device of that id, if it is there."""
        return next((device for device in self.devices if device.id == device_id), None)

    def of(self, vendor: str) -> Iterator[Device]:
        """The GPUs of one vendor, in order."""
        return (gpu for gpu in self.gpus if gpu.vendor == vendor)


_DERIVED = ("usable", "words", "why_not")


def to_json(value: Machine | Device) -> dict[str, Any]:
    """Plain data for `--json`, with what the properties derive."""
    data: dict[str, Any] = asdict(value)
    if isinstance(value, Machine):
        data["gpus"] = [to_json(gpu) for gpu in value.gpus]
        data["cpu_device"] = to_json(value.cpu_device)
    else:
        data.update(usable=value.usable, words=list(value.words), why_not=value.why_not)
    return data


def device_from_json(data: Mapping[str, Any]) -> Device:
    """A device as `to_json` wrote it."""
    plain = {key: value for key, value in data.items() if key not in _DERIVED}
    memory = dict(plain["memory"])
    memory["pools"] = tuple(Pool(**pool) for pool in memory["pools"])
    plain["memory"] = Memory(**memory)
    plain["features"] = Features(**plain["features"])
    plain["drives"] = tuple(Drive(**drive) for drive in plain["drives"])
    plain["notes"] = tuple(plain["notes"])
    return Device(**plain)
