"""Checks of what stands around the devices: platform, WSL, limits, disk, variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyrig.devices.describe import Machine
from anyrig.devices.diagnose import Finding, Probe, of
from anyrig.units import GIB, format_bytes, pluralize

Probes = Sequence[Probe]
_OLDEST_PYTHON = (3, 11)
# The default install with its models, and room for what it makes.
_LEAST_DISK = 2 * GIB
_COMFORTABLE_DISK = 10 * GIB
_WSL_ADVICE = {
    "nvidia": "NVIDIA works through the Windows driver: never install a Linux driver inside WSL",
    "amd": "AMD works with ROCm for WSL (librocdxg) and a recent Adrenalin driver on Windows",
    "intel": "Intel works with torch's XPU build on a recent Windows driver",
}
# Variables that old guides set and that do nothing, or only harm.
_IDLE_VARIABLES = {
    "TORCH_CUDNN_V8_API_ENABLED": "does nothing since torch 2.0",
    "CUDA_LAUNCH_BLOCKING": "waits for every kernel: for debugging only",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "turns the caching allocator off: for debugging only",
}


def platform(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """The operating system and Python are ones that the packages have wheels for."""
    here = machine.platform
    told = " ".join(filter(None, (here.title, here.release, here.machine, f"Python {here.python}")))
    version = tuple(int(part) for part in here.python.split(".")[:2] if part.isdigit())
    if version and version < _OLDEST_PYTHON:
        yield Finding(
            "platform",
            "broken",
            f"{told}: anyrig needs Python 3.11 or newer",
            "uv tool install --python 3.12 anyrig",
        )
    elif here.system == "macOS" and machine.cpu.vendor == "apple" and here.machine == "x86_64":
        yield Finding(
            "platform",
            "broken",
            f"{told}: this Python is built for Intel and runs translated by Rosetta",
            "uv tool install --python cpython-3.12-macos-aarch64 anyrig",
        )
    elif here.system == "macOS" and here.machine == "x86_64":
        yield Finding(
            "platform",
            "broken",
            f"{told}: ONNX Runtime and torch have no wheel for macOS on Intel",
            "use a Mac with Apple silicon, or Linux",
        )
    elif here.system == "Windows" and here.machine.upper() == "ARM64":
        yield Finding(
            "platform",
            "warning",
            f"{told}: sentencex, pyebur128 and PyYAML have no wheel for Windows on ARM",
            "install the x64 Python, which Windows runs translated",
        )
    elif here.system == "other":
        yield Finding(
            "platform",
            "warning",
            f"{told}: an operating system we do not know",
            "the CPU may still work: anyrig bench",
        )
    else:
        yield Finding("platform", "good", told)


def wsl(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """WSL1 has no GPU; WSL2 has, with a way of its own for each brand."""
    if machine.platform.wsl == 1:
        yield Finding(
            "wsl", "broken", "WSL1 gives no access to a GPU", "wsl --set-version <name> 2"
        )
    if machine.platform.system == "Windows":
        yield from _wsl_instead(machine)
    if machine.platform.wsl != 2:
        return
    vendors = sorted({gpu.vendor for gpu in machine.gpus} & set(_WSL_ADVICE))
    if not vendors:
        yield Finding(
            "wsl",
            "warning",
            "WSL2 shows no GPU: the Windows driver is too old or /dev/dxg is missing",
            "wsl --update",
        )
    for vendor in vendors:
        usable = any(gpu.usable for gpu in machine.of(vendor))
        yield Finding(
            "wsl",
            "good" if usable else "warning",
            _WSL_ADVICE[vendor],
            "" if usable else "docs/troubleshooting.md#wsl2",
        )


def _wsl_instead(machine: Machine) -> Iterator[Finding]:
    """What NVIDIA's cards do in WSL2 and not on Windows itself."""
    cards = [gpu for gpu in machine.of("nvidia") if "nvml" in gpu.indices]
    if sum(gpu.usable for gpu in cards) > 1:
        yield Finding(
            "wsl",
            "warning",
            "several GPUs train together through NCCL, which is not built for Windows: WSL2 has it,"
            " on the driver that is here",
            "wsl --install",
        )
    elif cards:
        yield Finding(
            "wsl",
            "good",
            "FlashAttention's package and NCCL are not built for Windows: WSL2 has both, on the"
            " driver that is here",
            "wsl --install",
        )


def sources(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Every source answered, or says why it did not."""
    failed = [report for report in machine.sources if report.state == "failed"]
    for report in failed:
        yield Finding(
            "sources",
            "warning",
            f"the {report.source} source failed: {report.reason}",
            "anyrig -vv devices",
        )
    if not failed:
        found = [report.source for report in machine.sources if report.state == "found"]
        yield Finding("sources", "good", f"every source answered; devices from {', '.join(found)}")


def limits(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """What cgroups, affinity or a translated Python take away."""
    for sentence in machine.cpu.limits:
        fix = "raise the container's --cpus or --memory"
        if not machine.platform.container:
            fix = "cat /proc/self/cgroup names the group that sets it"
        if "Rosetta" in sentence:
            fix = "install a Python built for arm64"
        elif "affinity" in sentence:
            fix = "taskset -cp 0-$(($(nproc --all)-1)) $$"
        yield Finding("limits", "warning", sentence, fix)
    if not machine.cpu.limits:
        memory = machine.cpu.memory.total_bytes
        told = f" and {format_bytes(memory)} of memory" if memory else ""
        cores = pluralize(int(machine.cpu.cores_usable), "core")
        yield Finding("limits", "good", f"no limit: {cores}{told} can be used")


def disk(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """There is room for models and results."""
    free = machine.disk_free_bytes
    if free is None:
        return
    told = f"{format_bytes(free)} free in the home folder"
    if free < _LEAST_DISK:
        yield Finding("disk", "broken", f"only {told}", "pip cache purge")
    elif free < _COMFORTABLE_DISK:
        yield Finding(
            "disk", "warning", f"{told}: torch with CUDA alone needs 8", "pip cache purge"
        )
    else:
        yield Finding("disk", "good", told)


def _unset(machine: Machine, variable: str) -> str:
    """The command that removes a variable from the shell."""
    windows = machine.platform.system == "Windows"
    return f"Remove-Item Env:{variable}" if windows else f"unset {variable}"


def visibility(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Devices that a variable hides, and those that it names in vain."""
    for one in machine.unmatched:
        yield Finding(
            "visibility",
            "warning",
            f"{one.variable} names {one.entry}, which is not there",
            _unset(machine, one.variable),
        )
    hidden = [gpu for gpu in machine.gpus if gpu.blocked.startswith("hidden by")]
    for gpu in hidden:
        yield Finding(
            "visibility", "warning", f"{of(gpu)} is {gpu.blocked}", gpu.blocked_fix, gpu.id
        )
    if machine.gpus and not hidden and not machine.unmatched:
        yield Finding("visibility", "good", "no variable hides a device")


def allocator(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Variables that torch's allocator reads, and some that old guides set for nothing."""
    environment = machine.environment
    found = False
    if {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} <= set(environment):
        found = True
        yield Finding(
            "allocator",
            "warning",
            "PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF are both set: the first wins",
            _unset(machine, "PYTORCH_CUDA_ALLOC_CONF"),
        )
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    named = next((name for name in names if name in environment), names[1])
    settings = environment.get(named, "")
    windows = machine.platform.system == "Windows" or machine.platform.wsl
    if "expandable_segments:True" in settings and windows:
        found = True
        yield Finding(
            "allocator",
            "warning",
            "expandable_segments does not work on Windows or WSL2",
            _unset(machine, named),
        )
    for name, what in _IDLE_VARIABLES.items():
        if environment.get(name, "0") not in ("", "0"):
            found = True
            yield Finding("allocator", "warning", f"{name} {what}", _unset(machine, name))
    if not found and machine.facts.get("torch_flavour") in ("cuda", "rocm"):
        told = f"set: {settings}" if settings else "torch's defaults"
        yield Finding("allocator", "good", f"allocator settings are sound ({told})")


def spill(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """On Windows and in WSL2 NVIDIA's driver may use system memory instead of saying it is full."""
    if machine.platform.system != "Windows" and machine.platform.wsl != 2:
        return
    if any(gpu.usable for gpu in machine.of("nvidia")):
        yield Finding(
            "spill",
            "warning",
            "a full GPU spills into system memory here instead of failing: work only gets slow",
            "NVIDIA Control Panel: CUDA - Sysmem Fallback Policy: Prefer No Sysmem Fallback",
        )
