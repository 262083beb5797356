"""What is right, doubtful or broken on a machine, each with the command that fixes it.

Checks are pure functions of a `Machine` and of the kernels that child processes ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from anyrig.devices.advice import find_torch_install
from anyrig.devices.allocator_settings import check_allocator
from anyrig.devices.findings import Finding, Findings, KernelResult, State, broken, good, title_of
from anyrig.devices.findings import warning as warn
from anyrig.devices.machine import ONE_PROCESS, Device, DeviceBackend, Machine
from anyrig.devices.reasons import ReasonCode
from anyrig.devices.vendors import SOURCES, VENDORS, vendor_of
from anyrig.devices.wheels import CPU_FLAVOUR, FIRST_TORCH, PLAIN_ONNX, parse_version
from anyrig.install import format_install
from anyrig.units import GIB, format_bytes, pluralize

__all__ = ["Finding", "KernelResult", "State", "describe_wrong_result", "diagnose"]

Results = Sequence[KernelResult]
# Checks that explain why a GPU cannot be used; if none of them is broken, `usable` does.
_EXPLAINING = {
    "platform", "wsl", "torch-kernels", "torch", "kernel",
    *(name for source in SOURCES for name in source.explaining_checks),
}  # fmt: skip


def diagnose(machine: Machine, results: Iterable[KernelResult] = ()) -> tuple[Finding, ...]:
    """Every check's findings, in the order a person would look."""
    ran = tuple(results)
    checks: list[tuple[str, Callable[[Machine], Findings]]] = [
        ("platform", _check_platform),
        ("wsl", _check_wsl),
        ("sources", _check_sources),
        ("limits", _check_limits),
        ("disk", _check_disk),
        *(check for source in SOURCES for check in source.checks.items()),
        ("visibility", _check_visibility),
        ("torch", _check_torch_build),
        ("torch-kernels", partial(_check_torch_kernels, results=ran)),
        ("onnx", _check_onnx_providers),
        ("onnx-conflict", _check_onnx_conflicts),
        ("obsolete-packages", _check_obsolete_packages),
        ("flash-attention", _check_flash_attention),
        ("bf16", _check_bf16),
        ("allocator", check_allocator),
        ("kernel", partial(_check_kernels, results=ran)),
    ]
    found = [replace(one, check=name) for name, check in checks for one in check(machine)]
    if not any(finding.state == "broken" and finding.check in _EXPLAINING for finding in found):
        found += [replace(finding, check="usable") for finding in _check_usable(machine)]
    return tuple(found)


# -- platform ------------------------------------------------------------------------------------

_MIN_PYTHON = (3, 11)
# The default install with its models, and room for results.
_MIN_DISK = 2 * GIB
_COMFORTABLE_DISK = 10 * GIB


def _check_platform(machine: Machine) -> Findings:
    """The packages have wheels for this operating system and Python."""
    here, vendors = machine.platform, VENDORS.values()
    title = " ".join(
        filter(None, (here.title, here.release, here.machine, f"Python {here.python}"))
    )
    version = tuple(int(part) for part in here.python.split(".")[:2] if part.isdigit())
    if version and version < _MIN_PYTHON:
        fix = "uv tool install --python 3.12 anyrig"
        yield broken(f"{title}: anyrig requires Python 3.11 or newer", fix)
    elif problem := next(filter(None, (v.find_platform_problem(machine) for v in vendors)), None):
        yield broken(f"{title}: {problem[0]}", problem[1])
    elif here.system == "Windows" and here.machine.upper() == "ARM64":
        text = "sentencex, pyebur128 and PyYAML have no wheel for Windows on ARM"
        yield warn(f"{title}: {text}", "install the x64 Python, which Windows emulates")
    elif here.system == "other":
        fix = "the CPU may still work: anyrig bench"
        yield warn(f"{title}: unknown operating system", fix)
    else:
        yield good(title)


def _check_wsl(machine: Machine) -> Findings:
    """WSL1 has no GPU; in WSL2 each vendor needs its own setup."""
    if machine.platform.wsl == 1:
        yield broken("WSL1 has no GPU access", "wsl --set-version <name> 2")
    if machine.platform.wsl != 2:
        return
    present = {gpu.vendor for gpu in machine.gpus}
    vendors = [one for one in VENDORS.values() if one.name in present and one.wsl_advice]
    if not vendors and machine.platform.container:
        text = "no GPU in this container: /dev/dxg of WSL2 is not mapped into it"
        yield warn(text, "docker run --gpus all ...")
    elif not vendors:
        text = "no GPU in WSL2: the Windows driver is too old or /dev/dxg is missing"
        yield warn(text, "wsl --update")
    for vendor in vendors:
        if any(gpu.usable for gpu in machine.gpus_of(vendor.name)):
            yield good(vendor.wsl_advice)
        else:
            yield warn(vendor.wsl_advice, "docs/troubleshooting.md#wsl2")


def _check_sources(machine: Machine) -> Findings:
    failed = [report for report in machine.sources if report.state == "failed"]
    for report in failed:
        text = f"the {report.source} source failed: {report.reason}"
        yield warn(text, report.fix or "anyrig -vv devices")
    if not failed:
        found = [report.source for report in machine.sources if report.state == "found"]
        yield good(f"no source failed; devices from {', '.join(found)}")


def _check_limits(machine: Machine) -> Findings:
    """What cgroups, affinity or Rosetta take away."""
    fixes = {
        "cgroup": "raise the container's --cpus or --memory"
        if machine.platform.container
        else "cat /proc/self/cgroup shows the group that sets it",
        "rosetta": "install a Python built for arm64",
        "affinity": "raise the container's --cpuset-cpus"
        if machine.platform.container
        else "taskset -cp 0-$(($(nproc --all)-1)) $$",
    }
    for limit in machine.cpu.limits:
        yield warn(limit.message, fixes[limit.kind])
    if not machine.cpu.limits:
        memory = machine.cpu.memory.total_bytes
        cores = pluralize(int(machine.cpu.cores_usable), "core")
        yield good(f"no limits: {cores}{f', {format_bytes(memory)}' if memory else ''}")


def _check_disk(machine: Machine) -> Findings:
    free = machine.disk_free_bytes
    if free is None:
        return
    text = f"{format_bytes(free)} free in the home folder"
    if free < _MIN_DISK:
        yield broken(f"only {text}", "pip cache purge")
    elif free < _COMFORTABLE_DISK:
        yield warn(f"{text}: torch for a GPU alone needs 8 GiB", "pip cache purge")
    else:
        yield good(text)


def _check_visibility(machine: Machine) -> Findings:
    """Variables that hide devices, or list devices that do not exist."""
    for one in machine.unmatched:
        text = f"{one.variable} lists {one.entry}, which does not exist"
        yield warn(text, machine.platform.unset_command(one.variable))
    hidden = False
    for gpu in machine.gpus:
        if gpu.hardware_block and gpu.hardware_block.code is ReasonCode.HIDDEN:
            hidden = True
            yield warn(f"{title_of(gpu)} is {gpu.hardware_block}", gpu.hardware_block.fix, gpu)
    if machine.gpus and not hidden and not machine.unmatched:
        yield good("no variable hides a device")


# -- packages ------------------------------------------------------------------------------------


def _has_torch(gpu: Device) -> bool:
    return any(backend.usable for backend in gpu.backends if backend.library == "torch")


def _find_torch_fix(gpus: Iterable[Device], machine: Machine) -> str:
    return next(filter(None, (vendor_of(g).find_torch_fix(g, machine.host) for g in gpus)), "")


def _check_torch_build(machine: Machine) -> Findings:
    """torch was built for the GPU."""
    torch = machine.host.installed.torch
    gpus = [gpu for gpu in machine.gpus if vendor_of(gpu).torch_flavour and not gpu.hardware_block]
    if torch is None:
        text = "torch is not installed: training, fine-tuning and torch-only models are unavailable"
        fix = find_torch_install(machine)
        yield good(text if fix else f"{text}; it has no wheels for this system", fix)
        return
    version = parse_version(torch.version)
    if version and version < (parse_version(FIRST_TORCH) or version):
        text = f"{torch.title} is too old: anyrig needs {FIRST_TORCH} or newer"
        yield warn(text, _find_torch_fix(gpus, machine) or format_install("anyrig[torch]"))
        return
    unserved = [gpu for gpu in gpus if vendor_of(gpu).torch_flavour != torch.flavour]
    fix = _find_torch_fix(unserved, machine)
    serves_another = len(unserved) < len(gpus)  # the other checks tell about that one
    if not unserved or any(_has_torch(gpu) for gpu in gpus) or (serves_another and not fix):
        yield good(torch.title)
        return
    target = "the CPU only" if torch.flavour == CPU_FLAVOUR else "another brand"
    names = ", ".join(title_of(gpu) for gpu in unserved)
    make = broken if fix else warn
    yield make(f"{torch.title} was built for {target}, not for {names}", fix)


def _check_torch_kernels(machine: Machine, results: Results) -> Findings:
    """The torch wheel has machine code for each card."""
    torch = machine.host.installed.torch
    if torch is None:
        return
    own = (one for one in results if one.backend == "torch" and one.kernels)
    listed = {result.device: result.kernels for result in own}
    for gpu in machine.gpus:
        vendor = vendor_of(gpu)
        kernels = listed.get(gpu.id) or torch.kernels  # what torch lists itself wins
        if vendor.torch_flavour != torch.flavour or gpu.part == "mig":
            continue
        if not gpu.capability or not kernels:
            continue
        if override := vendor.describe_override(machine.host):
            text = f"{title_of(gpu)} runs with {override}, at your own risk"
            yield warn(text, "anyrig doctor compares each result with the CPU", gpu)
        elif vendor.has_kernels(gpu, kernels):
            text = f"{title_of(gpu)}: torch has kernels for {gpu.capability_title}"
            yield good(text, device=gpu)
        else:
            # Not the backend's own fix: that may be about access to the card.
            fix = vendor.find_torch_fix(gpu, machine.host)
            text = f"{title_of(gpu)} needs kernels for {gpu.capability_title}"
            text += f"; the torch wheel has only {' '.join(kernels)}"
            if fix:
                yield broken(text, fix, gpu)
            elif gpu.usable:
                yield warn(f"{text}, and no other has them: only ONNX Runtime can use it", "", gpu)
            else:
                fix = gpu.advice.command or "anyrig devices"
                yield broken(f"{text}, and no other has them", fix, gpu)


def _group_equal_gpus(machine: Machine) -> Iterator[tuple[Device, str]]:
    """One GPU for all of the same model and state, with what to call them."""
    groups: dict[tuple[str, str], list[Device]] = {}
    for gpu in machine.gpus:
        if not gpu.hardware_block:
            key = (gpu.name, " ".join(backend.reason for backend in gpu.backends))
            groups.setdefault(key, []).append(gpu)
    for gpus in groups.values():
        more = f" and {len(gpus) - 1} more" if len(gpus) > 1 else ""
        yield gpus[0], title_of(gpus[0]) + more


def _check_onnx_providers(machine: Machine) -> Findings:
    """ONNX Runtime has a provider for each GPU."""
    if not machine.host.installed.onnx:
        text = "no onnxruntime package is installed: speech and documents need it"
        yield broken(text, format_install(PLAIN_ONNX))
        return
    for gpu, name in _group_equal_gpus(machine):
        backends = [backend for backend in gpu.backends if backend.library == "onnx"]
        usable = ", ".join(backend.provider for backend in backends if backend.usable)
        if usable:
            yield good(f"{name}: ONNX Runtime has {usable}", device=gpu)
        elif backends:
            reasons = "; ".join(backend.reason for backend in backends)
            text = f"{name}: ONNX Runtime has no provider for it ({reasons})"
            yield warn(text, gpu.advice.onnx, gpu)


def _check_onnx_conflicts(machine: Machine) -> Findings:
    """Packages that all install the module `onnxruntime`: the last one overwrites parts of it."""
    installed = machine.host.installed.onnx
    if len(installed) > 1:
        text = f"{' and '.join(installed)} overwrite each other"
        fix = format_install(_best_onnx_package(machine), uninstall=list(installed))
        yield broken(text, fix)
    elif installed:
        yield good(f"one ONNX Runtime: {installed[0]}")


def _best_onnx_package(machine: Machine) -> str:
    """The package that serves the first GPU; the plain one without a GPU."""
    installed = machine.host.installed.providers
    for gpu in machine.gpus:
        for backend in gpu.backends:
            for name in installed:
                if backend.usable and backend.provider in installed[name]:
                    return name
    return next((name for name in installed if name != PLAIN_ONNX), PLAIN_ONNX)


def _check_obsolete_packages(machine: Machine) -> Findings:
    for source in SOURCES:
        for package, (text, fix) in source.obsolete_packages.items():
            if package in machine.host.installed.versions:
                yield warn(text, fix)


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
            if _is_installed_for(machine, gpu, backend):
                fix = backend.fix or gpu.advice.command or "anyrig -vv devices"
                text = f"{title_of(gpu)} cannot be used: {backend.reason}"
                yield broken(text, fix, gpu)
                return
    names = ", ".join(title_of(gpu) for gpu in gpus)
    text = f"no GPU can be used: no installed package supports {names}"
    yield warn(text, next((gpu.advice.command for gpu in gpus if gpu.advice.command), ""))


def _is_installed_for(machine: Machine, gpu: Device, backend: DeviceBackend) -> bool:
    """Whether the library of a backend is installed, in a build for such GPUs."""
    if backend.library == "onnx":
        return bool(machine.host.installed.package_of(backend.provider))
    flavour = vendor_of(gpu).torch_flavour
    return bool(flavour) and machine.host.torch_flavour == flavour


# -- precisions and attention ---------------------------------------------------------------------

_FLASH_PACKAGES = ("flash-attn", "flash-attn-3", "flash-attn-4")


def _check_flash_attention(machine: Machine) -> Findings:
    """Which FlashAttention packages are installed, and which run on each GPU."""
    versions = machine.host.installed.versions
    installed = [(name, versions[name]) for name in _FLASH_PACKAGES if name in versions]
    seen: set[str] = set()
    for gpu in machine.gpus:
        vendor = vendor_of(gpu)
        flash = vendor.advise_flash_attention(gpu)
        if flash is None or not gpu.capability or gpu.capability in seen:
            continue
        seen.add(gpu.capability)
        advice, fix = flash
        if fix and machine.platform.system == "Windows":
            advice += ". The package is not built for Windows: use WSL2"
            fix = "wsl --install"
        working = []
        for name, version in installed:
            if vendor.runs_flash_attention(gpu, name, version):
                working.append(f"{name} {version}")
                continue
            newer = fix if name == "flash-attn" else ""
            text = f"{name} {version} has no kernels for {gpu.capability}; {advice}"
            yield warn(f"{title_of(gpu)}: {text}", newer or f"pip uninstall -y {name}", gpu)
        if working:
            text = f"{' and '.join(working)} {'is' if len(working) == 1 else 'are'} installed"
            yield good(f"{title_of(gpu)}: {text}; {advice}", device=gpu)
        elif not installed:
            yield good(f"{title_of(gpu)}: {advice}", fix, gpu)


def _check_bf16(machine: Machine) -> Findings:
    """torch says yes even if bf16 is only emulated, slower than fp32."""
    seen: set[tuple[str, bool | None]] = set()
    for gpu in machine.gpus:
        native = gpu.features.bf16
        if (gpu.name, native) in seen or gpu.hardware_block:
            continue
        seen.add((gpu.name, native))
        if native:
            yield good(
                f"{title_of(gpu)} supports bf16 natively: no loss scaling needed", device=gpu
            )
        elif native is False:
            better = "fp16" if gpu.features.fp16 in ("matrix", "fast") else "fp32"
            text = f"{title_of(gpu)} only emulates bf16, whatever torch reports: use {better}"
            yield warn(text, device=gpu)
        else:
            text = f"{title_of(gpu)}: native bf16 support is unknown; it is measured before use"
            yield good(text, device=gpu)


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
    name = f"{title_of(device)} with {library}"
    selector = "cpu" if device.kind == "cpu" else device.number_text
    verbose = f"anyrig -vv doctor --device {selector}"
    if not result.ok:
        text = f"{name} failed to run: {result.error}"
        if device.has_note(ONE_PROCESS):
            text += "; another process may be using it"
        return broken(text, verbose, device)
    if wrong := describe_wrong_result(result):
        fix = "update its driver; it is not used until its results are right"
        return broken(f"{name} gives {wrong}", fix, device)
    if device.kind == "gpu" and result.ran_on in ("cpu", "CPUExecutionProvider"):
        return broken(f"{name} silently fell back to the CPU", verbose, device)
    error = f"{result.max_error or 0:.0e}"
    text = f"{name}: a kernel ran on {result.ran_on} and agrees with the CPU ({error})"
    return good(text, device=device)
