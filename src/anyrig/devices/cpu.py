"""The processor and the platform, with the cores and memory that this process may really use.

Containers and batch systems take cores and memory away through cgroups and affinity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from anyrig.devices.machine import (
    Cpu,
    Device,
    DeviceBackend,
    Features,
    HostFacts,
    Memory,
    Platform,
    ResourceLimit,
    SystemName,
)
from anyrig.devices.probe import HostProbe, Unavailable
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.install import format_install
from anyrig.units import format_bytes, pluralize

_CGROUP = "/sys/fs/cgroup"
# v1 means "no limit" by a huge number, rounded down to a page.
_NO_LIMIT = 1 << 60
# Extensions that matter for the speed of matrix code.
_X86_VECTORS = (
    "sse4_2 avx avx2 fma f16c avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 "
    "amx_tile amx_int8 amx_bf16 amx_fp16"
).split()
_ARM_VECTORS = "asimd asimdhp asimddp fphp bf16 i8mm sve sve2 sme".split()
_ARM_PARTS = {
    ("0x41", "0xd03"): "Cortex-A53", ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76", ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd07"): "Cortex-A57", ("0x4e", "0x004"): "NVIDIA Carmel",
    ("0x41", "0xd83"): "Neoverse V3AE", ("0x41", "0xd84"): "Neoverse V3",
    ("0x41", "0xd8e"): "Neoverse N3", ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2", ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725", ("0x41", "0xd42"): "Cortex-A78AE",
    ("0xc0", "0xac3"): "Ampere-1", ("0x61", "0x022"): "Apple M1",
}  # fmt: skip
# sysctl's names on macOS.
_MAC_KEYS = (
    "hw.memsize hw.ncpu hw.pagesize machdep.cpu.brand_string hw.optional.neon "
    "hw.optional.arm.FEAT_BF16 hw.optional.arm.FEAT_I8MM hw.optional.arm.FEAT_SME "
    "hw.optional.avx2_0 hw.optional.avx512f kern.osproductversion sysctl.proc_translated "
    "iogpu.wired_limit_mb"
).split()
# What a virtual machine's firmware calls itself; a real board has its vendor's name there.
_HYPERVISORS = {
    "QEMU": "QEMU", "Standard PC": "QEMU", "KVM": "KVM", "VMware": "VMware",
    "VirtualBox": "VirtualBox", "Xen": "Xen", "HVM domU": "Xen", "Amazon EC2": "Amazon EC2",
    "Google Compute Engine": "Google Compute Engine", "Virtual Machine": "Hyper-V",
    "OpenStack": "OpenStack",
    "Firecracker": "Firecracker",
}  # fmt: skip
_SYSTEMS: dict[str, SystemName] = {"Linux": "Linux", "Windows": "Windows", "Darwin": "macOS"}
_PROCESSOR_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"


def read_platform(system: HostProbe) -> Platform:
    """The operating system, and what it runs in: WSL, a container, a hypervisor."""
    host = system.host()
    name = _SYSTEMS.get(str(host.get("system")), "other")
    release = str(host.get("release", ""))
    if name == "macOS":
        release = read_sysctl(system).get("kern.osproductversion", release)
    return Platform(
        system=name,
        release=release,
        machine=str(host.get("machine", "")),
        python=str(host.get("python", "")),
        wsl=_wsl(system, release) if name == "Linux" else 0,
        container=_container(system) if name == "Linux" else "",
        distribution=_distribution(system, host),
        virtual=_virtual(system) if name == "Linux" else "",
    )


def _wsl(system: HostProbe, release: str) -> int:
    """1, 2 or 0: WSL1 has no kernel of its own and no /dev/dxg."""
    text = (system.read_text("/proc/version") or release).lower()
    if "microsoft" not in text:
        return 0
    two = "wsl2" in text or "microsoft-standard" in text or system.read_node("/dev/dxg") is not None
    return 2 if two else 1


def _container(system: HostProbe) -> str:
    if "KUBERNETES_SERVICE_HOST" in system.environment:
        return "kubernetes"
    if system.read_node("/.dockerenv") is not None:
        return "docker"
    if system.read_node("/run/.containerenv") is not None:
        return "podman"
    named = system.environment.get("container", "") or system.read_text("/run/systemd/container")
    if named:
        return named
    groups = system.read_text("/proc/1/cgroup")
    for word in ("kubepods", "docker", "lxc", "containerd", "libpod"):
        if word in groups:
            return {"kubepods": "kubernetes", "libpod": "podman"}.get(word, word)
    return ""


def _distribution(system: HostProbe, host: dict[str, Any]) -> str:
    kind = str(host.get("system", ""))
    if kind != "Linux":
        return "" if kind in _SYSTEMS else kind
    found = re.search(
        r'^PRETTY_NAME="?([^"\n]+)', system.read_text("/etc/os-release"), re.MULTILINE
    )
    return found[1] if found else ""


def _virtual(system: HostProbe) -> str:
    if "gvisor" in system.read_text("/proc/version").lower():
        return "gVisor"
    if hypervisor := system.read_text("/sys/hypervisor/type"):
        return hypervisor
    board = " ".join(
        system.read_text(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")
    )
    known = next((title for word, title in _HYPERVISORS.items() if word in board), "")
    guest = "hypervisor" in _cpuinfo(system.read_text("/proc/cpuinfo")).get("flags", "").split()
    return known or ("a virtual machine" if guest else "")


def read_cpu(system: HostProbe) -> Cpu:
    """The processor as this process may use it."""
    kind = system.host().get("system")
    if kind == "Windows":
        return _read_windows(system)
    if kind == "Darwin":
        return _read_mac(system)
    return _read_linux(system)


def _read_linux(system: HostProbe) -> Cpu:
    host = system.host()
    info = _cpuinfo(system.read_text("/proc/cpuinfo"))
    total = _online(system.read_text("/sys/devices/system/cpu/online")) or int(
        host.get("cpu_count", 1)
    )
    usable, core_limits = _usable_cores(system, total, int(host.get("affinity", total)))
    memory, memory_limits = _linux_memory(system)
    flags = set((info.get("flags") or info.get("Features") or "").split())
    machine = str(host.get("machine", ""))
    return Cpu(
        name=_linux_name(system, info, machine),
        vendor=_vendor(info.get("vendor_id", "") or info.get("CPU implementer", "")),
        architecture=machine,
        cores_total=total,
        cores_usable=usable,
        memory=memory,
        vectors=tuple(name for name in (*_X86_VECTORS, *_ARM_VECTORS) if name in flags),
        limits=(*core_limits, *memory_limits),
    )


def _cpuinfo(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value}


def _linux_name(system: HostProbe, info: dict[str, str], machine: str) -> str:
    named = info.get("model name", "")
    if not named:
        part = (info.get("CPU implementer", ""), info.get("CPU part", ""))
        named = _ARM_PARTS.get(part, "") or system.read_text("/sys/firmware/devicetree/base/model")
    return re.sub(r"\s+", " ", named) or f"{machine} processor"


def _vendor(text: str) -> str:
    known = {
        "GenuineIntel": "intel", "AuthenticAMD": "amd", "0x41": "arm", "0x61": "apple",
        "0x51": "qualcomm", "0xc0": "ampere", "Qualcomm Technologies Inc": "qualcomm",
    }  # fmt: skip
    return known.get(text, "unknown")


def _online(text: str) -> int:
    """The count of a list such as `0-3,8`."""
    return sum(
        int(last or first) - int(first) + 1 for first, last in re.findall(r"(\d+)(?:-(\d+))?", text)
    )


def _usable_cores(
    system: HostProbe, total: int, affinity: int
) -> tuple[float, tuple[ResourceLimit, ...]]:
    usable: float = total
    limits: list[ResourceLimit] = []
    if affinity < total:
        usable = affinity
        text = f"CPU affinity allows {affinity} of {pluralize(total, 'core')}"
        limits.append(ResourceLimit("affinity", text))
    quota = min(_cpu_quotas(system), default=None)
    if quota is not None and quota < usable:
        usable = quota
        text = f"a cgroup quota allows {quota:g} of {pluralize(total, 'core')}"
        limits.append(ResourceLimit("cgroup", text))
    return usable, tuple(limits)


def _cpu_quotas(system: HostProbe) -> Iterator[float]:
    """Every quota between this process's group and the root; the smallest one applies."""
    for folder in _group_folders(system, ""):
        quota, _, period = system.read_text(f"{folder}/cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)
    for folder in _group_folders(system, "cpu"):
        used = system.read_number(f"{folder}/cpu.cfs_quota_us") or -1
        period_us = system.read_number(f"{folder}/cpu.cfs_period_us") or 0
        if used > 0 and period_us > 0:
            yield used / period_us


def _group_folders(system: HostProbe, controller: str) -> Iterator[str]:
    """The cgroup folders of this process, innermost first: v2 (controller "") or a v1 one.

    In a container the path in /proc/self/cgroup may be the host's, which is not mounted; the root
    of the mount is then the group, so it is always included.
    """
    mount = f"{_CGROUP}/{controller}".rstrip("/")
    inner = PurePosixPath("/")
    for line in system.read_text("/proc/self/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers == controller or controller in controllers.split(","):
            inner = PurePosixPath(path or "/")
    for step in (inner, *inner.parents):
        yield f"{mount}{step}".rstrip("/")


def _linux_memory(system: HostProbe) -> tuple[Memory, tuple[ResourceLimit, ...]]:
    info = {
        key: int(kib) * 1024
        for key, kib in re.findall(r"^(\w+):\s+(\d+) kB", system.read_text("/proc/meminfo"), re.M)
    }
    total, free = info.get("MemTotal"), info.get("MemAvailable", info.get("MemFree"))
    limit, left = read_memory_limit(system)
    if limit is None or (total is not None and limit >= total):
        return Memory("dedicated" if total else "unknown", total, free), ()
    text = f"a cgroup limits memory to {format_bytes(limit)}"
    if total:
        text += f" of {format_bytes(total)}"
    free = min(size for size in (limit, left, free) if size is not None)
    return Memory("dedicated", limit, free, note=text), (ResourceLimit("cgroup", text),)


def read_memory_limit(system: HostProbe) -> tuple[int | None, int | None]:
    """The smallest memory limit above this process, and how much it may still use.

    Every group up to the root has its own limit and use, so the one with the least left counts,
    which need not be the one with the smallest limit. Cached files can be freed.
    """
    limits: list[int] = []
    left: list[int] = []
    for controller, names in (
        ("", ("memory.max", "memory.current", "inactive_file")),
        ("memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")),
    ):
        for folder in _group_folders(system, controller):
            limit = system.read_number(f"{folder}/{names[0]}")
            if limit is None or limit >= _NO_LIMIT:
                continue
            used = system.read_number(f"{folder}/{names[1]}") or 0
            cache = re.search(
                rf"^{names[2]} (\d+)", system.read_text(f"{folder}/memory.stat"), re.M
            )
            limits.append(limit)
            left.append(max(0, limit - max(0, used - int(cache[1] if cache else 0))))
    return min(limits, default=None), min(left, default=None)


def read_sysctl(system: HostProbe) -> dict[str, str]:
    try:
        text = system.run("sysctl", *_MAC_KEYS)
    except Unavailable:
        return {}
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def _read_mac(system: HostProbe) -> Cpu:
    host, facts = system.host(), read_sysctl(system)
    total = int(facts.get("hw.memsize", 0)) or None
    extensions = {
        "hw.optional.neon": "asimd", "hw.optional.arm.FEAT_BF16": "bf16",
        "hw.optional.arm.FEAT_I8MM": "i8mm", "hw.optional.arm.FEAT_SME": "sme",
        "hw.optional.avx2_0": "avx2", "hw.optional.avx512f": "avx512f",
    }  # fmt: skip
    name = facts.get("machdep.cpu.brand_string", "Mac processor")
    cores = int(facts.get("hw.ncpu", host.get("cpu_count", 1)))
    rosetta = ResourceLimit("rosetta", "Python runs under Rosetta translation")
    return Cpu(
        name=name,
        # Under Rosetta the brand is "VirtualApple".
        vendor="apple" if "Apple" in name else "intel",
        architecture=str(host.get("machine", "")),
        cores_total=cores,
        cores_usable=cores,
        memory=Memory(
            "unified", total, min(filter(None, (_mac_free(system), total)), default=None)
        ),
        vectors=tuple(word for key, word in extensions.items() if facts.get(key) == "1"),
        limits=(rosetta,) if facts.get("sysctl.proc_translated") == "1" else (),
    )


def _mac_free(system: HostProbe) -> int | None:
    """Free, inactive and speculative pages: available without swapping."""
    try:
        text = system.run("vm_stat")
    except Unavailable:
        return None
    size = re.search(r"page size of (\d+) bytes", text)
    pages = re.findall(r"^Pages (?:free|inactive|speculative):\s+(\d+)\.", text, re.MULTILINE)
    return int(size[1]) * sum(map(int, pages)) if size and pages else None


def _read_windows(system: HostProbe) -> Cpu:
    host = system.host()
    try:
        values = system.registry(_PROCESSOR_KEY)
    except Unavailable:
        values = {}
    cores = int(host.get("cpu_count", 1))
    return Cpu(
        name=str(values.get("ProcessorNameString", "Windows processor")).strip(),
        vendor=_vendor(str(values.get("VendorIdentifier", ""))),
        architecture=str(host.get("machine", "")),
        cores_total=cores,
        cores_usable=int(host.get("affinity", cores)),
        memory=_windows_memory(host),
        vectors=tuple(host.get("vectors", ())),
    )


def _windows_memory(host: dict[str, Any]) -> Memory:
    total, free = host.get("memory_total"), host.get("memory_available")
    return Memory("dedicated" if total else "unknown", total, free)


def describe_device(processor: Cpu) -> Device:
    fast = {"avx512_fp16", "amx_fp16", "asimdhp"} & set(processor.vectors)
    native = {"avx512_bf16", "amx_bf16", "bf16"} & set(processor.vectors)
    return Device(
        id="cpu",
        kind="cpu",
        vendor=processor.vendor,
        name=processor.name,
        architecture=processor.architecture,
        memory=processor.memory,
        features=Features("fast" if fast else "slow", False, bool(native), False, False),
        units=int(processor.cores_usable) or 1,
    )


def list_backends(host: HostFacts) -> tuple[DeviceBackend, ...]:
    torch_block = None
    if host.installed.torch is None:
        fix = format_install("anyrig[torch]")
        torch_block = explain(ReasonCode.NOT_INSTALLED, fix, package="torch")
    return (
        DeviceBackend("onnx", "cpu", "CPUExecutionProvider", *host.plain_onnx()),
        DeviceBackend("torch", "cpu", "cpu", host.torch_title, torch_block),
    )
