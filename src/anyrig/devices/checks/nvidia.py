"""Checks of NVIDIA's driver, its containers, and what torch was built for."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.devices.checks.system import Probes
from anyrig.devices.describe import Device, Machine
from anyrig.devices.diagnose import Finding, State, listed_kernels, of, torch_fix
from anyrig.devices.parts import nvidia as parts
from anyrig.devices.sources.nvidia import init_fix


def _silent(gpu: Device) -> bool:
    """Seen on the bus or by DirectX, while NVML does not answer for it."""
    return "nvml" not in gpu.indices


def driver(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """The driver answers for every card that the bus shows."""
    for gpu in machine.of("nvidia"):
        if _silent(gpu) and not _missing_toolkit(machine):
            # DirectX or the registry tell of it while NVML does not; it may work all the same.
            state: State = "warning" if gpu.notes else "broken"
            why = "; ".join(filter(None, [gpu.blocked, *gpu.notes]))
            fix = gpu.blocked_fix or _nvml_fix(machine)
            yield Finding("nvidia-driver", state, f"{of(gpu)}: {why}", fix, gpu.id)
    answering = [gpu for gpu in machine.of("nvidia") if not _silent(gpu)]
    if answering:
        version = answering[0].driver_version or "of unknown version"
        cuda = machine.facts.get("cuda_driver")
        told = f"driver {version}" + (f" runs CUDA up to {cuda}" if cuda else "")
        yield Finding("nvidia-driver", "good", told)
    elif not any(machine.of("nvidia")):
        failure = next((r for r in machine.sources if r.source == "nvidia"), None)
        if failure and failure.state == "failed":
            yield Finding(
                "nvidia-driver",
                "broken" if machine.platform.container else "warning",
                f"NVIDIA's library is here but does not start: {failure.reason}",
                init_fix(failure.reason),
            )


def _nvml_fix(machine: Machine) -> str:
    report = next((r for r in machine.sources if r.source == "nvidia"), None)
    return init_fix(report.reason) if report else "nvidia-smi"


def _missing_toolkit(machine: Machine) -> bool:
    """In a container that shows the host's card but not the host's driver."""
    if not machine.platform.container:
        return False
    given = any(node.path.startswith("/dev/nvidia") for node in machine.nodes)
    silent = any(_silent(gpu) for gpu in machine.of("nvidia"))
    return silent and not given


def container(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Inside a container the toolkit must hand the driver in."""
    if not machine.platform.container:
        return
    asked = machine.environment.get("NVIDIA_VISIBLE_DEVICES", "")
    if _missing_toolkit(machine):
        yield Finding(
            "nvidia-container",
            "broken",
            "the host has an NVIDIA GPU that this container was not given",
            "sudo apt install nvidia-container-toolkit && docker run --gpus all ...",
        )
    elif asked in ("void", "none"):
        yield Finding(
            "nvidia-container",
            "warning",
            f"NVIDIA_VISIBLE_DEVICES={asked} keeps GPUs out of this container",
            "docker run --gpus all ...",
        )
    elif any(not _silent(gpu) for gpu in machine.of("nvidia")):
        allowed = machine.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
        if allowed and not {"compute", "all"} & set(allowed.split(",")):
            yield Finding(
                "nvidia-container",
                "broken",
                f"NVIDIA_DRIVER_CAPABILITIES={allowed} leaves compute out",
                "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
            )
        else:
            yield Finding("nvidia-container", "good", "the container was given the GPU")


def cuda_runtime(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """The driver is new enough for the CUDA that torch was built with."""
    have, need = machine.facts.get("cuda_driver"), machine.facts.get("torch_runtime")
    if machine.facts.get("torch_flavour") != "cuda" or not have or not need:
        return
    gpu = next(machine.of("nvidia"), None)
    if int(have.split(".")[0]) < int(need.split(".")[0]):
        fix = torch_fix(machine, gpu) if gpu else ""
        yield Finding(
            "cuda-runtime",
            "broken",
            f"torch was built with CUDA {need}, the driver runs CUDA {have} at most",
            fix or "update NVIDIA's driver",
        )
    else:
        yield Finding("cuda-runtime", "good", f"torch's CUDA {need} runs on a driver for {have}")


def torch_kernels(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """The torch wheel holds machine code for each card: same major version, minor up to its own."""
    if machine.facts.get("torch_flavour") != "cuda":
        return
    for gpu in machine.of("nvidia"):
        capability = parts.parse(gpu.capability)
        kernels = listed_kernels(machine, probes, gpu)
        if not capability or not kernels or gpu.part == "mig":
            continue
        told = f"{of(gpu)} has compute capability {gpu.capability}"
        if parts.runs(capability, kernels):
            yield Finding(
                "torch-kernels", "good", f"{told}, which torch's kernels cover", "", gpu.id
            )
        else:
            fix = torch_fix(machine, gpu)
            yield Finding(
                "torch-kernels",
                "broken",
                f"{told}; the torch wheel holds only {' '.join(kernels)}",
                fix or "no official wheel holds kernels for it: use another backend",
                gpu.id,
            )


def parts_in_use(gpu: Device) -> bool:
    """Whether MIG or the compute mode keeps the whole device from use."""
    return "MIG" in gpu.blocked or "compute mode" in gpu.blocked


def parts_finding(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """MIG instances and compute modes."""
    for gpu in machine.of("nvidia"):
        for note in gpu.notes:
            if "next reset" in note and gpu.part != "mig":
                fix = f"sudo nvidia-smi --gpu-reset -i {gpu.indices.get('nvml', 0)}"
                yield Finding("nvidia-parts", "warning", f"{of(gpu)}: {note}", fix, gpu.id)
        if not parts_in_use(gpu):
            continue
        cut = "use those" in gpu.blocked
        yield Finding(
            "nvidia-parts",
            "good" if cut else "broken",
            f"{of(gpu)}: {gpu.blocked}",
            "" if cut else gpu.blocked_fix,
            gpu.id,
        )
