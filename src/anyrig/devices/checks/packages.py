"""Checks of packages: torch's build, ONNX Runtime's providers, ones in each other's way."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.devices.checks.system import Probes
from anyrig.devices.describe import Device, Drive, Machine
from anyrig.devices.diagnose import Finding, State, of, torch_fix
from anyrig.devices.installed import ONNX_PACKAGES
from anyrig.install import format_install

_WANTED_FLAVOUR = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "apple": "mac"}


def _open(gpu: Device, backend: str) -> bool:
    return any(drive.usable for drive in gpu.drives if drive.backend == backend)


def torch_build(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """torch was built for the GPU that is here."""
    title = machine.packages.get("torch")
    if title is None:
        if machine.gpus:
            yield Finding(
                "torch",
                "good",
                "torch is not installed: training and torch-only models need it",
                format_install("anyrig[torch]"),
            )
        return
    flavour = machine.facts.get("torch_flavour", "")
    wanted = [gpu for gpu in machine.gpus if gpu.vendor in _WANTED_FLAVOUR and not gpu.blocked]
    missed = [gpu for gpu in wanted if _WANTED_FLAVOUR[gpu.vendor] != flavour]
    if not missed or any(_open(gpu, "torch") for gpu in wanted):
        yield Finding("torch", "good", f"torch {title}")
        return
    # DirectML is not among them: it holds torch at 2.4.
    fix = next(filter(None, (torch_fix(machine, gpu) for gpu in missed)), "")
    names = ", ".join(of(gpu) for gpu in missed)
    what = "was built for the CPU only" if flavour == "cpu" else "was built for another brand"
    state: State = "broken" if fix else "warning"
    here = "is" if len(missed) == 1 else "are"
    yield Finding("torch", state, f"torch {title} {what}, while {names} {here} here", fix)


def _alike(machine: Machine) -> Iterator[tuple[Device, str]]:
    """Free GPUs, one for all of the same name, with what to call them."""
    groups: dict[tuple[str, str], list[Device]] = {}
    for gpu in machine.gpus:
        if not gpu.blocked:
            key = (gpu.name, " ".join(drive.reason for drive in gpu.drives))
            groups.setdefault(key, []).append(gpu)
    for gpus in groups.values():
        more = f" and {len(gpus) - 1} more" if len(gpus) > 1 else ""
        yield gpus[0], of(gpus[0]) + more


def onnx_provider(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """ONNX Runtime has a provider for the brand of each GPU."""
    if not any(name in machine.packages for name in ONNX_PACKAGES):
        yield Finding(
            "onnx",
            "broken",
            "no onnxruntime package is installed: speech and documents need it",
            format_install("onnxruntime"),
        )
        return
    brands = {gpu.vendor for gpu in machine.gpus if not gpu.blocked}
    for gpu, name in _alike(machine):
        ways = [drive for drive in gpu.drives if drive.backend == "onnx"]
        opened = [drive for drive in ways if drive.usable]
        if opened:
            names = ", ".join(drive.provider for drive in opened)
            yield Finding("onnx", "good", f"{name}: ONNX Runtime has {names}", "", gpu.id)
        elif ways:
            # Brands' packages overwrite each other: only WebGPU serves several at once.
            own = next((drive.fix for drive in ways if drive.fix), "")
            fix = format_install("anyrig[webgpu]") if len(brands) > 1 else own
            reasons = "; ".join(drive.reason for drive in ways)
            yield Finding(
                "onnx",
                "warning",
                f"{name}: ONNX Runtime has no provider for it ({reasons})",
                fix,
                gpu.id,
            )


def _wanted_onnx(machine: Machine, present: list[str]) -> str:
    """The one of several packages that serves the first GPU here; the plain one without a GPU."""
    for gpu in machine.gpus:
        for drive in gpu.drives:
            for name in present:
                if drive.usable and drive.provider in ONNX_PACKAGES[name]:
                    return name
    return next((name for name in present if name != "onnxruntime"), present[0])


def onnx_shadow(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Packages that all write the module `onnxruntime`: the last one installed wins, in parts."""
    present = [name for name in ONNX_PACKAGES if name in machine.packages]
    if len(present) > 1:
        keep = _wanted_onnx(machine, present)
        yield Finding(
            "onnx-shadow",
            "broken",
            f"{' and '.join(present)} overwrite each other",
            format_install(keep, uninstall=list(present)),
        )
    elif present:
        yield Finding("onnx-shadow", "good", f"one ONNX Runtime: {present[0]}")


def leftovers(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Packages whose time is over, beside the ones that took their place."""
    if "pynvml" in machine.packages:
        yield Finding(
            "leftovers",
            "warning",
            "the package pynvml is a deprecated redirect: nvidia-ml-py is the living one",
            format_install("nvidia-ml-py", options="--force-reinstall", uninstall=["pynvml"]),
        )
    if "intel-extension-for-pytorch" in machine.packages:
        yield Finding(
            "leftovers",
            "warning",
            "intel-extension-for-pytorch has ended: torch's own XPU build took its place",
            "pip uninstall -y intel-extension-for-pytorch",
        )
    if "torch-directml" in machine.packages:
        told = "torch-directml is in maintenance and holds torch at 2.4.1; it has no autocast"
        needed = [gpu for gpu in machine.gpus if _only_directml(gpu)]
        if needed:
            names = ", ".join(of(gpu) for gpu in needed)
            yield Finding(
                "leftovers", "good", f"{told}. Keep it: nothing else in torch drives {names}"
            )
            return
        fix = "pip uninstall -y torch-directml"
        for gpu in machine.gpus:
            lost = [d for d in gpu.drives if d.provider == "privateuseone" and not d.usable]
            if lost and not gpu.blocked and not _open(gpu, "torch") and not torch_fix(machine, gpu):
                fix = lost[0].fix or fix  # no other torch is built for it
        yield Finding("leftovers", "warning", told, fix)


def _only_directml(gpu: Device) -> bool:
    """Whether torch reaches a GPU through DirectML and in no other way."""
    ways = [drive.provider for drive in gpu.drives if drive.usable and drive.backend == "torch"]
    return ways == ["privateuseone"]


def usable(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Some GPU can be used, where there is one that no variable hides and no other check explains.

    Broken where a library that is installed for the GPU cannot drive it; where none is installed,
    the CPU may be what is wanted.
    """
    free = [gpu for gpu in machine.gpus if not gpu.blocked]
    if not free or any(gpu.usable for gpu in machine.gpus):
        return
    shut = [(gpu, drive) for gpu in free for drive in gpu.drives if _installed_for(machine, drive)]
    for gpu, drive in shut[:1]:
        fix = drive.fix or gpu.why_not_fix or "anyrig -vv devices"
        text = f"{of(gpu)} cannot be used: {drive.reason}"
        yield Finding("usable", "broken", text, fix, gpu.id)
    if not shut:
        fixes = [drive.fix for gpu in free for drive in gpu.drives if drive.fix]
        webgpu = format_install("anyrig[webgpu]")  # one package for every brand
        names = ", ".join(of(gpu) for gpu in free)
        text = f"no GPU can be used: nothing that is installed drives {names}"
        yield Finding("usable", "warning", text, webgpu if webgpu in fixes else "".join(fixes[:1]))


def _installed_for(machine: Machine, drive: Drive) -> bool:
    """Whether the library behind a drive is installed, in a build for such GPUs."""
    if drive.backend == "onnx":
        packages = [name for name, given in ONNX_PACKAGES.items() if drive.provider in given]
        return any(name in machine.packages for name in packages)
    flavours = {"cuda": ("cuda", "rocm"), "xpu": ("xpu",), "mps": ("mac",)}
    return machine.facts.get("torch_flavour") in flavours.get(drive.provider, ())
