"""Checks of Intel's GPUs: who may open them."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.devices.checks.system import Probes
from anyrig.devices.describe import Machine
from anyrig.devices.diagnose import Finding, join_fix, severity


def access(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """This user may open the render node."""
    if machine.platform.system != "Linux" or machine.platform.wsl:
        return
    if not any(machine.of("intel")):
        return
    renders = [node for node in machine.nodes if "/renderD" in node.path]
    shut = [node for node in renders if "w" not in node.access]
    for node in shut:
        group = node.group or "render"
        yield Finding(
            "intel-access",
            severity(machine),
            f"this user may not open {node.path} (group {group})",
            join_fix(machine, node.group),
        )
    if not renders:
        yield Finding(
            "intel-access",
            severity(machine),
            "there is no /dev/dri/renderD* for the Intel GPU",
            "docker run --device /dev/dri ..."
            if machine.platform.container
            else "sudo modprobe xe",
        )
    elif not shut:
        yield Finding("intel-access", "good", "this user may open the render nodes")
