"""Checks of AMD's compute driver: access, containers, WSL2, and what torch was built for."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.devices.checks.system import Probes
from anyrig.devices.describe import Machine
from anyrig.devices.diagnose import Finding, join_fix, listed_kernels, of, severity, torch_fix
from anyrig.devices.parts import amd as parts
from anyrig.devices.reach.amd import KFD_FIX
from anyrig.install import format_install


def _on_linux(machine: Machine) -> bool:
    return machine.platform.system == "Linux" and not machine.platform.wsl


def access(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """This user may open /dev/kfd and the render nodes."""
    if not _on_linux(machine) or not any(machine.of("amd")):
        return
    nodes = {node.path: node for node in machine.nodes}
    wanted = [nodes[path] for path in nodes if path == "/dev/kfd" or "/renderD" in path]
    shut = [node for node in wanted if "w" not in node.access]
    for node in shut:
        owner = f" (it belongs to the group {node.group})" if node.group else ""
        fix = join_fix(machine, node.group)
        text = f"this user may not open {node.path}{owner}"
        yield Finding("amd-access", severity(machine), text, fix)
    if "/dev/kfd" not in nodes and not machine.platform.container:
        yield Finding(
            "amd-access",
            severity(machine),
            "/dev/kfd is not there: no compute on AMD",
            KFD_FIX,
        )
    elif wanted and not shut and "/dev/kfd" in nodes:
        yield Finding("amd-access", "good", "this user may open /dev/kfd and the render nodes")


def container(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Inside a container the device files must be handed in."""
    if not machine.platform.container or not any(machine.of("amd")):
        return
    given = any(node.path == "/dev/kfd" for node in machine.nodes)
    if given:
        yield Finding("amd-container", "good", "the container was given /dev/kfd")
    else:
        yield Finding(
            "amd-container",
            severity(machine),
            "the host's AMD GPU was not given to this container",
            "docker run --device /dev/kfd --device /dev/dri --group-add video ...",
        )


def torch_kernels(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """The ROCm wheel holds code for each card's gfx target."""
    if machine.facts.get("torch_flavour") != "rocm":
        return
    for gpu in machine.of("amd"):
        kernels = listed_kernels(machine, probes, gpu)
        if not gpu.capability or not kernels:
            continue
        override = machine.environment.get("HSA_OVERRIDE_GFX_VERSION")
        if override:
            yield Finding(
                "torch-kernels",
                "warning",
                f"{of(gpu)} is run as HSA_OVERRIDE_GFX_VERSION={override}: at your own risk",
                "anyrig doctor proves each result against the CPU",
                gpu.id,
            )
        elif parts.runs(gpu.capability, kernels):
            yield Finding(
                "torch-kernels", "good", f"torch holds code for {gpu.capability}", "", gpu.id
            )
        else:
            # Not what a drive says of itself: that may be about who may open the card.
            fix = torch_fix(machine, gpu)
            yield Finding(
                "torch-kernels",
                "broken",
                f"{of(gpu)} is {gpu.capability}; the torch wheel holds only {' '.join(kernels)}",
                fix or f"use the webgpu extra: {format_install('anyrig[webgpu]')}",
                gpu.id,
            )
