"""What is right, doubtful or broken on a machine, each with the command that fixes it.

Checks are pure functions of a `Machine` and of the kernels that child processes ran.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from anyrig.devices import amd, nvidia
from anyrig.devices.allocator_settings import VARIABLES, find_problems, split_settings
from anyrig.devices.choose import format_gpu_number
from anyrig.devices.discover import find_torch_fix, find_torch_install
from anyrig.devices.machine import Device, DeviceBackend, Machine, NoteCode
from anyrig.devices.reasons import DeviceReason, ReasonCode
from anyrig.devices.wheels import ONNX_PACKAGES
from anyrig.install import format_install
from anyrig.units import GIB, format_bytes, pluralize

State = Literal["good", "warning", "broken"]


@dataclass(frozen=True)
class Finding:
    check: str
    state: State
    message: str
    fix: str = ""
    """A command, or where to read on."""
    device: str = ""
    """The id of the device it is about."""


@dataclass(frozen=True)
class KernelResult:
    """What a child process reported after running a kernel on a device."""

    backend: str
    device: str
    ok: bool
    error: str = ""
    """Why the kernel did not run, in the library's own words."""
    max_error: float | None = None
    """Largest difference to the CPU's result, relative to its largest value."""
    finite: bool = True
    """Whether the result has finite numbers only."""
    ran_on: str = ""
    """Where the library says that it ran."""
    kernels: tuple[str, ...] = ()
    """What the library itself lists: sm_ or gfx names."""
    seconds: float = 0.0
    provider: str = ""
    """The backend's name for its way to the device: `cuda`, `DmlExecutionProvider`."""


Findings = Iterator[Finding]
Results = Sequence[KernelResult]
# Checks that explain why a GPU cannot be used; if none of them is broken, `usable` does.
_EXPLAINING = (
    "platform", "wsl", "nvidia-driver", "nvidia-container", "cuda-runtime", "torch-kernels",
    "nvidia-parts", "amd-access", "amd-container", "intel-access", "torch", "kernel",
)  # fmt: skip


def diagnose(machine: Machine, results: Iterable[KernelResult] = ()) -> tuple[Finding, ...]:
    """Every check's findings, in the order a person would look."""
    ran = tuple(results)
    checks: dict[str, Callable[[Machine], Findings]] = {
        "platform": _check_platform,
        "wsl": _check_wsl,
        "sources": _check_sources,
        "limits": _check_limits,
        "disk": _check_disk,
        "nvidia-driver": _check_nvidia_driver,
        "nvidia-container": _check_nvidia_container,
        "cuda-runtime": _check_cuda_runtime,
        "torch-kernels": partial(_check_torch_kernels, results=ran),
        "nvidia-parts": _check_nvidia_parts,
        "amd-access": partial(_check_access, vendor="amd"),
        "amd-container": _check_amd_container,
        "intel-access": partial(_check_access, vendor="intel"),
        "visibility": _check_visibility,
        "torch": _check_torch_build,
        "onnx": _check_onnx_providers,
        "onnx-conflict": _check_onnx_conflicts,
        "obsolete-packages": _check_obsolete_packages,
        "flash-attention": _check_flash_attention,
        "bf16": _check_bf16,
        "allocator": _check_allocator,
        "sysmem-fallback": _check_memory_fallback,
        "kernel": partial(_check_kernels, results=ran),
    }
    found = [replace(one, check=name) for name, check in checks.items() for one in check(machine)]
    if not any(finding.state == "broken" and finding.check in _EXPLAINING for finding in found):
        found += [replace(finding, check="usable") for finding in _check_usable(machine)]
    return tuple(found)


def _finding(state: State, message: str, fix: str = "", device: Device | None = None) -> Finding:
    return Finding("", state, message, fix, device.id if device else "")


_good, _warning, _broken = (partial(_finding, state) for state in get_args(State))


def _unusable(machine: Machine, reason: DeviceReason) -> Finding:
    """A GPU that cannot be used is broken; beside another that works it is a warning."""
    make = _warning if any(gpu.usable for gpu in machine.gpus) else _broken
    return make(reason.message, reason.fix)


def _title(device: Device) -> str:
    if device.kind == "cpu":
        return "the CPU"
    return f"GPU {format_gpu_number(device)} ({device.name})"


# -- platform ------------------------------------------------------------------------------------

_MIN_PYTHON = (3, 11)
# The default install with its models, and room for results.
_MIN_DISK = 2 * GIB
_COMFORTABLE_DISK = 10 * GIB
_WSL_ADVICE = {
    "nvidia": "NVIDIA GPUs use the Windows driver: never install a Linux driver inside WSL",
    "amd": "AMD GPUs need ROCm for WSL (librocdxg) and a recent Adrenalin driver on Windows",
    "intel": "Intel GPUs need torch's XPU build and a recent Windows driver",
}


def _check_platform(machine: Machine) -> Findings:
    """The packages have wheels for this operating system and Python."""
    here = machine.platform
    title = " ".join(
        filter(None, (here.title, here.release, here.machine, f"Python {here.python}"))
    )
    version = tuple(int(part) for part in here.python.split(".")[:2] if part.isdigit())
    if version and version < _MIN_PYTHON:
        fix = "uv tool install --python 3.12 anyrig"
        yield _broken(f"{title}: anyrig requires Python 3.11 or newer", fix)
    elif here.system == "macOS" and here.machine == "x86_64":
        text = "ONNX Runtime and torch have no wheel for macOS on Intel"
        fix = "use a Mac with Apple silicon, or Linux"
        if machine.cpu.vendor == "apple":
            text = "this Python is built for Intel and runs under Rosetta translation"
            fix = "uv tool install --python cpython-3.12-macos-aarch64 anyrig"
        yield _broken(f"{title}: {text}", fix)
    elif here.system == "Windows" and here.machine.upper() == "ARM64":
        text = "sentencex, pyebur128 and PyYAML have no wheel for Windows on ARM"
        yield _warning(f"{title}: {text}", "install the x64 Python, which Windows emulates")
    elif here.system == "other":
        fix = "the CPU may still work: anyrig bench"
        yield _warning(f"{title}: unknown operating system", fix)
    else:
        yield _good(title)


def _check_wsl(machine: Machine) -> Findings:
    """WSL1 has no GPU; in WSL2 each brand needs its own setup, and can do more than on Windows."""
    if machine.platform.wsl == 1:
        yield _broken("WSL1 has no GPU access", "wsl --set-version <name> 2")
    if machine.platform.system == "Windows":
        cards = [gpu for gpu in machine.gpus_of("nvidia") if _in_nvml(gpu)]
        if sum(gpu.usable for gpu in cards) > 1:
            text = "training on several GPUs needs NCCL, which is not built for Windows: use WSL2"
            yield _warning(f"{text}, which uses the installed driver", "wsl --install")
        elif cards:
            text = "the FlashAttention package and NCCL are not built for Windows: WSL2 has both"
            yield _good(f"{text} and uses the installed driver", fix="wsl --install")
    if machine.platform.wsl != 2:
        return
    vendors = sorted({gpu.vendor for gpu in machine.gpus} & set(_WSL_ADVICE))
    if not vendors:
        text = "no GPU in WSL2: the Windows driver is too old or /dev/dxg is missing"
        yield _warning(text, "wsl --update")
    for vendor in vendors:
        if any(gpu.usable for gpu in machine.gpus_of(vendor)):
            yield _good(_WSL_ADVICE[vendor])
        else:
            yield _warning(_WSL_ADVICE[vendor], "docs/troubleshooting.md#wsl2")


def _check_sources(machine: Machine) -> Findings:
    failed = [report for report in machine.sources if report.state == "failed"]
    for report in failed:
        text = f"the {report.source} source failed: {report.reason}"
        yield _warning(text, "anyrig -vv devices")
    if not failed:
        found = [report.source for report in machine.sources if report.state == "found"]
        yield _good(f"no source failed; devices from {', '.join(found)}")


def _check_limits(machine: Machine) -> Findings:
    """What cgroups, affinity or Rosetta take away."""
    fixes = {
        "cgroup": "raise the container's --cpus or --memory"
        if machine.platform.container
        else "cat /proc/self/cgroup shows the group that sets it",
        "rosetta": "install a Python built for arm64",
        "affinity": "taskset -cp 0-$(($(nproc --all)-1)) $$",
    }
    for limit in machine.cpu.limits:
        yield _warning(limit.message, fixes[limit.kind])
    if not machine.cpu.limits:
        memory = machine.cpu.memory.total_bytes
        cores = pluralize(int(machine.cpu.cores_usable), "core")
        yield _good(f"no limits: {cores}{f', {format_bytes(memory)}' if memory else ''}")


def _check_disk(machine: Machine) -> Findings:
    free = machine.disk_free_bytes
    if free is None:
        return
    text = f"{format_bytes(free)} free in the home folder"
    if free < _MIN_DISK:
        yield _broken(f"only {text}", "pip cache purge")
    elif free < _COMFORTABLE_DISK:
        yield _warning(f"{text}: torch with CUDA alone needs 8 GiB", "pip cache purge")
    else:
        yield _good(text)


def _check_visibility(machine: Machine) -> Findings:
    """Variables that hide devices, or list devices that do not exist."""
    for one in machine.unmatched:
        text = f"{one.variable} lists {one.entry}, which does not exist"
        yield _warning(text, machine.platform.unset_command(one.variable))
    hidden = False
    for gpu in machine.gpus:
        if gpu.hardware_block and gpu.hardware_block.code is ReasonCode.HIDDEN:
            hidden = True
            yield _warning(f"{_title(gpu)} is {gpu.hardware_block}", gpu.hardware_block.fix, gpu)
    if machine.gpus and not hidden and not machine.unmatched:
        yield _good("no variable hides a device")


# -- NVIDIA --------------------------------------------------------------------------------------


def _in_nvml(gpu: Device) -> bool:
    """Not so if only the bus or DirectX lists it."""
    return "nvml" in gpu.indices


def _check_nvidia_driver(machine: Machine) -> Findings:
    """The driver works for every card on the bus."""
    report = next((r for r in machine.sources if r.source == "nvidia"), None)
    gpus = list(machine.gpus_of("nvidia"))
    for gpu in gpus:
        if _in_nvml(gpu) or _is_outside(gpu):
            continue  # or explained by `nvidia-container`
        reasons = [str(gpu.hardware_block)] if gpu.hardware_block else []
        reasons += [note.message for note in gpu.notes]
        text = f"{_title(gpu)}: {'; '.join(reasons)}"
        fix = (gpu.hardware_block.fix if gpu.hardware_block else "") or (
            report.fix if report else ""
        )
        # If DirectX or the registry lists it while NVML does not, it may work all the same.
        make = _warning if gpu.notes else _broken
        yield make(text, fix or "nvidia-smi", gpu)
    working = [gpu for gpu in gpus if _in_nvml(gpu)]
    if working:
        cuda = machine.host.cuda_driver
        version = working[0].driver_version or "of unknown version"
        yield _good(f"driver {version}" + (f" supports CUDA up to {cuda}" if cuda else ""))
    elif not gpus and report and report.state == "failed":
        text = f"the NVIDIA driver library is installed but fails to start: {report.reason}"
        make = _broken if machine.platform.container else _warning
        yield make(text, report.fix or "nvidia-smi")


def _is_outside(gpu: Device) -> bool:
    """Whether a container shows the host's card but not the host's driver."""
    return (
        gpu.hardware_block is not None
        and gpu.hardware_block.code is ReasonCode.DRIVER_NOT_IN_CONTAINER
    )


def _check_nvidia_container(machine: Machine) -> Findings:
    if not machine.platform.container:
        return
    visible = machine.host.environment.get("NVIDIA_VISIBLE_DEVICES", "")
    outside = [gpu for gpu in machine.gpus_of("nvidia") if _is_outside(gpu)]
    for gpu in outside:
        if gpu.hardware_block:
            yield _broken(f"{_title(gpu)}: {gpu.hardware_block}", gpu.hardware_block.fix, gpu)
    if outside:
        return
    if visible in ("void", "none"):
        text = f"NVIDIA_VISIBLE_DEVICES={visible} excludes all GPUs from this container"
        yield _warning(text, "docker run --gpus all ...")
    elif any(_in_nvml(gpu) for gpu in machine.gpus_of("nvidia")):
        if blocked := nvidia.compute_block(machine.host):
            yield _broken(blocked.message, blocked.fix)
        else:
            yield _good("the GPU is mapped into the container")


def _check_cuda_runtime(machine: Machine) -> Findings:
    """The driver is new enough for torch's CUDA."""
    torch, have = machine.host.installed.torch, machine.host.cuda_driver
    if torch is None or torch.flavour != "cuda" or not have or not torch.runtime:
        return
    need = torch.runtime
    if nvidia.driver_is_too_old(machine.host, need):
        gpu = next(machine.gpus_of("nvidia"), None)
        fix = find_torch_fix(gpu, machine.host) if gpu else ""
        text = f"torch was built with CUDA {need}, the driver supports CUDA {have} at most"
        yield _broken(text, fix or "update the NVIDIA driver")
    else:
        yield _good(f"torch's CUDA {need} works with a driver for CUDA {have}")


def _check_torch_kernels(machine: Machine, results: Results) -> Findings:
    """The torch wheel has machine code for each card."""
    torch, override = machine.host.installed.torch, machine.host.gfx_override
    if torch is None or torch.flavour not in ("cuda", "rocm"):
        return
    vendor = nvidia if torch.flavour == "cuda" else amd
    own = (one for one in results if one.backend == "torch" and one.kernels)
    listed = {result.device: result.kernels for result in own}
    for gpu in machine.gpus_of("nvidia" if vendor is nvidia else "amd"):
        kernels = listed.get(gpu.id) or torch.kernels  # what torch lists itself wins
        if not gpu.capability or not kernels or gpu.part == "mig":
            continue
        if vendor is amd and override:
            text = f"{_title(gpu)} runs with HSA_OVERRIDE_GFX_VERSION={override}, at your own risk"
            yield _warning(text, "anyrig doctor compares each result with the CPU", gpu)
        elif vendor.has_kernels(gpu, kernels):
            yield _good(f"{_title(gpu)}: torch has kernels for {gpu.capability_title}", device=gpu)
        else:
            # Not the backend's own fix: that may be about access to the card.
            webgpu = f"no official wheel has them; use WebGPU: {format_install('anyrig[webgpu]')}"
            text = f"{_title(gpu)} needs kernels for {gpu.capability_title}"
            text += f"; the torch wheel has only {' '.join(kernels)}"
            yield _broken(text, find_torch_fix(gpu, machine.host) or webgpu, gpu)


def _check_nvidia_parts(machine: Machine) -> Findings:
    """MIG instances and compute modes."""
    for gpu in machine.gpus_of("nvidia"):
        for note in gpu.notes:
            if note.code is NoteCode.MIG_PENDING:
                fix = f"sudo nvidia-smi --gpu-reset -i {gpu.indices.get('nvml', 0)}"
                yield _warning(f"{_title(gpu)}: {note.message}", fix, gpu)
        if gpu.hardware_block is None:
            continue
        text = f"{_title(gpu)}: {gpu.hardware_block}"
        if gpu.hardware_block.code is ReasonCode.MIG_PARENT:
            yield _good(text, device=gpu)
        elif gpu.hardware_block.code in (ReasonCode.MIG_EMPTY, ReasonCode.COMPUTE_PROHIBITED):
            yield _broken(text, gpu.hardware_block.fix, gpu)


# -- AMD and Intel -------------------------------------------------------------------------------


def _check_access(machine: Machine, vendor: str) -> Findings:
    """This user may open the render nodes, and /dev/kfd for AMD."""
    here = machine.platform
    if here.system != "Linux" or here.wsl or not any(machine.gpus_of(vendor)):
        return
    kfd = amd.kfd_block(machine.host) if vendor == "amd" else None
    if kfd and kfd.code is ReasonCode.NOT_IN_CONTAINER:
        return  # explained by `amd-container`
    blocks = [block for block in (kfd, machine.host.render_block) if block]
    for block in blocks:
        yield _unusable(machine, block)
    if not blocks:
        needed = ("/dev/dri/renderD*", *(["/dev/kfd"] if vendor == "amd" else []))
        yield _good(f"{' and '.join(needed)}: accessible")


def _check_amd_container(machine: Machine) -> Findings:
    if not machine.platform.container or not any(machine.gpus_of("amd")):
        return
    block = amd.kfd_block(machine.host)
    if block and block.code is ReasonCode.NOT_IN_CONTAINER:
        yield _unusable(machine, block)
    else:
        yield _good("/dev/kfd is mapped into the container")


# -- packages ------------------------------------------------------------------------------------

_TORCH_FLAVOURS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "apple": "mac"}


def _has_torch(gpu: Device) -> bool:
    return any(backend.usable for backend in gpu.backends if backend.library == "torch")


def _check_torch_build(machine: Machine) -> Findings:
    """torch was built for the GPU."""
    torch = machine.host.installed.torch
    if torch is None:
        text = "torch is not installed: training, fine-tuning and torch-only models are unavailable"
        fix = find_torch_install(machine)
        yield _good(text if fix else f"{text}; it has no wheels for this system", fix)
        return
    gpus = [gpu for gpu in machine.gpus if gpu.vendor in _TORCH_FLAVOURS and not gpu.hardware_block]
    unserved = [gpu for gpu in gpus if _TORCH_FLAVOURS[gpu.vendor] != torch.flavour]
    if not unserved or any(_has_torch(gpu) for gpu in gpus):
        yield _good(torch.title)
        return
    # DirectML does not count: it keeps torch at 2.4.
    fix = next(filter(None, (find_torch_fix(gpu, machine.host) for gpu in unserved)), "")
    target = "the CPU only" if torch.flavour == "cpu" else "another brand"
    names = ", ".join(_title(gpu) for gpu in unserved)
    make = _broken if fix else _warning
    yield make(f"{torch.title} was built for {target}, not for {names}", fix)


def _group_equal_gpus(machine: Machine) -> Iterator[tuple[Device, str]]:
    """One GPU for all of the same model and state, with what to call them."""
    groups: dict[tuple[str, str], list[Device]] = {}
    for gpu in machine.gpus:
        if not gpu.hardware_block:
            key = (gpu.name, " ".join(backend.reason for backend in gpu.backends))
            groups.setdefault(key, []).append(gpu)
    for gpus in groups.values():
        more = f" and {len(gpus) - 1} more" if len(gpus) > 1 else ""
        yield gpus[0], _title(gpus[0]) + more


def _check_onnx_providers(machine: Machine) -> Findings:
    """ONNX Runtime has a provider for each GPU."""
    if not machine.host.installed.onnx:
        text = "no onnxruntime package is installed: speech and documents need it"
        yield _broken(text, format_install("onnxruntime"))
        return
    brands = {gpu.vendor for gpu in machine.gpus if not gpu.hardware_block}
    for gpu, name in _group_equal_gpus(machine):
        backends = [backend for backend in gpu.backends if backend.library == "onnx"]
        usable = ", ".join(backend.provider for backend in backends if backend.usable)
        if usable:
            yield _good(f"{name}: ONNX Runtime has {usable}", device=gpu)
        elif backends:
            # Brands' packages overwrite each other: only WebGPU serves several at once.
            own = next((backend.fix for backend in backends if backend.fix), "")
            fix = format_install("anyrig[webgpu]") if len(brands) > 1 else own
            reasons = "; ".join(backend.reason for backend in backends)
            text = f"{name}: ONNX Runtime has no provider for it ({reasons})"
            yield _warning(text, fix, gpu)


def _check_onnx_conflicts(machine: Machine) -> Findings:
    """Packages that all install the module `onnxruntime`: the last one overwrites parts of it."""
    installed = machine.host.installed.onnx
    if len(installed) > 1:
        text = f"{' and '.join(installed)} overwrite each other"
        fix = format_install(_best_onnx_package(machine), uninstall=list(installed))
        yield _broken(text, fix)
    elif installed:
        yield _good(f"one ONNX Runtime: {installed[0]}")


def _best_onnx_package(machine: Machine) -> str:
    """The package that serves the first GPU; the plain one without a GPU."""
    installed = machine.host.installed.onnx
    for gpu in machine.gpus:
        for backend in gpu.backends:
            for name in installed:
                if backend.usable and backend.provider in ONNX_PACKAGES[name]:
                    return name
    return next((name for name in installed if name != "onnxruntime"), installed[0])


def _check_obsolete_packages(machine: Machine) -> Findings:
    installed = machine.host.installed.versions
    if "pynvml" in installed:
        text = "the package pynvml is deprecated in favour of nvidia-ml-py"
        fix = format_install("nvidia-ml-py", options="--force-reinstall", uninstall=["pynvml"])
        yield _warning(text, fix)
    if "intel-extension-for-pytorch" in installed:
        text = "intel-extension-for-pytorch is discontinued: torch's own XPU build replaces it"
        yield _warning(text, "pip uninstall -y intel-extension-for-pytorch")
    if "torch-directml" not in installed:
        return
    text = "torch-directml is in maintenance, keeps torch at 2.4.1 and has no autocast"
    needed = [gpu for gpu in machine.gpus if _only_directml(gpu)]
    if needed:
        names = ", ".join(_title(gpu) for gpu in needed)
        yield _good(f"{text}. Keep it: no other torch build supports {names}")
        return
    fix = "pip uninstall -y torch-directml"
    for gpu in machine.gpus:
        unusable = [b for b in gpu.backends if b.provider == "privateuseone" and not b.usable]
        without = (
            not gpu.hardware_block and not _has_torch(gpu) and not find_torch_fix(gpu, machine.host)
        )
        if unusable and without:
            fix = unusable[0].fix or fix  # no other torch is built for it
    yield _warning(text, fix)


def _only_directml(gpu: Device) -> bool:
    torch = [b.provider for b in gpu.backends if b.usable and b.library == "torch"]
    return torch == ["privateuseone"]


def _check_usable(machine: Machine) -> Findings:
    """Some GPU can be used, unless a variable hides all or another check explains why not.

    Broken if an installed library for the GPU cannot use it; if none is installed, the CPU may be
    what is wanted.
    """
    gpus = [gpu for gpu in machine.gpus if not gpu.hardware_block]
    if not gpus or any(gpu.usable for gpu in gpus):
        return
    for gpu in gpus:
        for backend in gpu.backends:
            if _is_installed_for(machine, backend):
                block = gpu.block_reason
                fix = backend.fix or (block.fix if block else "") or "anyrig -vv devices"
                text = f"{_title(gpu)} cannot be used: {backend.reason}"
                yield _broken(text, fix, gpu)
                return
    fixes = [backend.fix for gpu in gpus for backend in gpu.backends if backend.fix]
    webgpu = format_install("anyrig[webgpu]")  # one package for every brand
    names = ", ".join(_title(gpu) for gpu in gpus)
    text = f"no GPU can be used: no installed package supports {names}"
    yield _warning(text, webgpu if webgpu in fixes else "".join(fixes[:1]))


def _is_installed_for(machine: Machine, backend: DeviceBackend) -> bool:
    """Whether the library of a backend is installed, in a build for such GPUs."""
    if backend.library == "onnx":
        return bool(machine.host.installed.package_of(backend.provider))
    flavours = {"cuda": ("cuda", "rocm"), "xpu": ("xpu",), "mps": ("mac",)}
    return machine.host.torch_flavour in flavours.get(backend.provider, ())


# -- precisions and attention ---------------------------------------------------------------------

# flash-attn has kernels for 12.x from this release on.
_FIRST_FOR_RTX_BLACKWELL = (2, 8, 3, 1)
# Packages of FlashAttention 2, 3 and 4, with the major capabilities that each has kernels for.
_FLASH_PACKAGES = {
    "flash-attn": (8, 9, 10, 11, 12), "flash-attn-3": (8, 9), "flash-attn-4": (8, 9, 10, 11, 12),
}  # fmt: skip
_FLASH_AMD_TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx11", "gfx12")
_FLASH_BLACKWELL = "FlashAttention 2 is in torch's SDPA; 4 is the beta flash-attn-4; 3 does not run"
_FLASH_ADVICE = {
    8: "FlashAttention 2 is in torch's SDPA; the package is built from source",
    9: "FlashAttention 2 is in torch's SDPA; 3 is built from source (hopper/), 4 is the beta"
    " flash-attn-4",
    10: _FLASH_BLACKWELL,
    11: _FLASH_BLACKWELL,
    12: "FlashAttention 2 runs (package from 2.8.3.post1); 3 does not; 4 is the beta flash-attn-4",
}


def _check_flash_attention(machine: Machine) -> Findings:
    """Which FlashAttention packages are installed, and which run on each GPU."""
    versions = machine.host.installed.versions
    installed = [(name, versions[name]) for name in _FLASH_PACKAGES if name in versions]
    seen: set[str] = set()
    for gpu in machine.gpus:
        if gpu.vendor not in ("nvidia", "amd") or not gpu.capability or gpu.capability in seen:
            continue
        seen.add(gpu.capability)
        advice, fix = _advise_flash_attention(gpu)
        if fix and machine.platform.system == "Windows":
            advice += ". The package is not built for Windows: use WSL2"
            fix = "wsl --install"
        working = []
        for name, version in installed:
            if _flash_runs(gpu, name, version):
                working.append(f"{name} {version}")
                continue
            newer = fix if name == "flash-attn" else ""
            text = f"{name} {version} has no kernels for {gpu.capability}; {advice}"
            yield _warning(f"{_title(gpu)}: {text}", newer or f"pip uninstall -y {name}", gpu)
        if working:
            text = f"{' and '.join(working)} {'is' if len(working) == 1 else 'are'} installed"
            yield _good(f"{_title(gpu)}: {text}; {advice}", device=gpu)
        elif not installed:
            yield _good(f"{_title(gpu)}: {advice}", fix, gpu)


def _flash_runs(gpu: Device, package: str, version: str) -> bool:
    if gpu.vendor == "amd":
        return package == "flash-attn" and (gpu.capability or "").startswith(_FLASH_AMD_TARGETS)
    major = (nvidia.parse_capability(gpu.capability) or (0, 0))[0]
    if major == 12 and package == "flash-attn":
        numbers = tuple(map(int, re.findall(r"\d+", version.partition("+")[0])))
        return numbers >= _FIRST_FOR_RTX_BLACKWELL
    return major in _FLASH_PACKAGES[package]


def _advise_flash_attention(gpu: Device) -> tuple[str, str]:
    """Advice, and the command that builds FlashAttention 2 if it runs."""
    if gpu.vendor == "amd":
        runs = (gpu.capability or "").startswith(_FLASH_AMD_TARGETS)
        text = (
            "FlashAttention 2 can be built for it (CK)" if runs else "no FlashAttention: use SDPA"
        )
        return text, ""
    capability = nvidia.parse_capability(gpu.capability) or (0, 0)
    if capability < (7, 5):
        return "no FlashAttention: torch's SDPA uses its plain kernels", ""
    if capability < (8, 0):
        return "no FlashAttention for Turing: torch's SDPA uses memory-efficient attention", ""
    if capability[0] not in _FLASH_ADVICE:
        return "whether FlashAttention runs on it is unknown: use torch's SDPA", ""
    command = format_install("flash-attn", options="--no-build-isolation")
    return _FLASH_ADVICE[capability[0]], f'TORCH_CUDA_ARCH_LIST="{gpu.capability}" {command}'


def _check_bf16(machine: Machine) -> Findings:
    """torch says yes even if bf16 is only emulated, slower than fp32."""
    seen: set[tuple[str, bool | None]] = set()
    for gpu in machine.gpus:
        native = gpu.features.bf16
        if (gpu.name, native) in seen or gpu.hardware_block:
            continue
        seen.add((gpu.name, native))
        if native:
            yield _good(f"{_title(gpu)} supports bf16 natively: no loss scaling needed", device=gpu)
        elif native is False:
            better = "fp16" if gpu.features.fp16 in ("matrix", "fast") else "fp32"
            text = f"{_title(gpu)} only emulates bf16, whatever torch reports: use {better}"
            yield _warning(text, device=gpu)
        else:
            text = f"{_title(gpu)}: native bf16 support is unknown; it is measured before use"
            yield _good(text, device=gpu)


# -- memory --------------------------------------------------------------------------------------

# Variables that old guides set.
_HARMFUL_VARIABLES = {
    "TORCH_CUDNN_V8_API_ENABLED": "has no effect since torch 2.0",
    "CUDA_LAUNCH_BLOCKING": "waits for every kernel: for debugging only",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "disables the caching allocator: for debugging only",
}


def _check_allocator(machine: Machine) -> Findings:
    """Variables of torch's allocator."""
    environment = machine.host.environment
    unset = machine.platform.unset_command
    findings = [*_check_allocator_settings(machine)]
    for name, effect in _HARMFUL_VARIABLES.items():
        if environment.get(name, "0") not in ("", "0"):
            findings.append(_warning(f"{name} {effect}", unset(name)))
    if not findings and machine.host.torch_flavour in ("cuda", "rocm"):
        settings = next((environment[name] for name in VARIABLES if environment.get(name)), "")
        findings.append(_good(f"allocator settings are valid ({settings or 'torch defaults'})"))
    yield from findings


def _check_allocator_settings(machine: Machine) -> Findings:
    unset = machine.platform.unset_command
    flavour, version = machine.host.torch_flavour, machine.packages.get("torch", "")
    settings = {
        name: text for name in VARIABLES if (text := machine.host.environment.get(name, ""))
    }
    read = [name for name in settings if flavour == "rocm" or name != "PYTORCH_HIP_ALLOC_CONF"]
    if len(read) > 1:
        both = "both " if len(read) == 2 else ""
        yield _warning(f"{' and '.join(read)} are {both}set: the first wins", unset(read[0]))
    for name, text in settings.items():
        problems = "; ".join(find_problems(text, version.partition(" ")[0]))
        if problems:
            # torch refuses it when it first uses a GPU.
            make = _broken if name in read[:1] and flavour in ("cuda", "rocm") else _warning
            yield make(f"{name}: {problems}", unset(name))
    windows = machine.platform.system == "Windows" or machine.platform.wsl
    if windows and read and "expandable_segments:True" in split_settings(settings[read[0]]):
        yield _warning("expandable_segments is not supported on Windows or WSL2", unset(read[0]))


def _check_memory_fallback(machine: Machine) -> Findings:
    """NVIDIA's Windows driver may use system memory instead of reporting out-of-memory."""
    if machine.platform.system != "Windows" and machine.platform.wsl != 2:
        return
    if any(gpu.usable for gpu in machine.gpus_of("nvidia")):
        text = "a full GPU spills into system memory instead of failing, and becomes slow"
        fix = "NVIDIA Control Panel: CUDA - Sysmem Fallback Policy: Prefer No Sysmem Fallback"
        yield _warning(text, fix)


# -- kernels -------------------------------------------------------------------------------------

# Random fp32 products agree to about 1e-6 of their largest value, to 1e-3 with TF32.
_TOLERANCE = 5e-3


def describe_wrong_result(result: KernelResult) -> str:
    """What is wrong with a device's result; empty if it is right or did not run."""
    if not result.ok:
        return ""
    if not result.finite:
        return "wrong results: a matrix product contains NaN or infinity"
    if result.max_error is not None and result.max_error > _TOLERANCE:
        return f"wrong results: a matrix product differs from the CPU's by {result.max_error:.1%}"
    return ""


def _check_kernels(machine: Machine, results: Results) -> Findings:
    """A real kernel ran on each device and agrees with the CPU."""
    for device in machine.devices:
        for result in results:
            if result.device == device.id:
                yield _check_kernel(device, result)


def _check_kernel(device: Device, result: KernelResult) -> Finding:
    library = "torch" if result.backend == "torch" else "ONNX Runtime"
    if result.provider.endswith("ExecutionProvider") and device.kind == "gpu":
        library += f" ({result.provider})"
    name = f"{_title(device)} with {library}"
    selector = "cpu" if device.kind == "cpu" else format_gpu_number(device)
    verbose = f"anyrig -vv doctor --device {selector}"
    if not result.ok:
        return _broken(f"{name} failed to run: {result.error}", verbose, device)
    if wrong := describe_wrong_result(result):
        fix = "update its driver; it is not used until its results are right"
        return _broken(f"{name} gives {wrong}", fix, device)
    if device.kind == "gpu" and result.ran_on in ("cpu", "CPUExecutionProvider"):
        return _broken(f"{name} silently fell back to the CPU", verbose, device)
    error = f"{result.max_error or 0:.0e}"
    text = f"{name}: a kernel ran on {result.ran_on} and agrees with the CPU ({error})"
    return _good(text, device=device)
