"""What child processes saw when they ran a kernel on each device and compared it with the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.devices.checks.system import Probes
from anyrig.devices.describe import Device, Machine
from anyrig.devices.diagnose import Finding, Probe, of
from anyrig.devices.words import number_text

# Random fp32 products agree to about 1e-6 of their largest value, to 1e-3 where TF32 is on.
TOLERANCE = 5e-3


def wrong(probe: Probe) -> str:
    """What is wrong with a device's answer; empty when it is right or did not run."""
    if not probe.ok:
        return ""
    if not probe.finite:
        return "it answers wrongly: a product of matrices gave NaN or infinity"
    if probe.max_error is not None and probe.max_error > TOLERANCE:
        share = f"{probe.max_error:.1%}"
        return f"it answers wrongly: a product of matrices differs from the CPU's by {share}"
    return ""


def kernel(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """A real kernel ran on each device and agrees with the CPU."""
    for device in machine.devices:
        for probe in probes:
            if probe.device == device.id:
                yield _finding(device, probe)


def _word(device: Device) -> str:
    return "cpu" if device.kind == "cpu" else number_text(device)


def _finding(device: Device, probe: Probe) -> Finding:
    name = "the CPU" if device.kind == "cpu" else of(device)
    how = "torch" if probe.backend == "torch" else "ONNX Runtime"
    if probe.provider.endswith("ExecutionProvider") and device.kind == "gpu":
        how += f" ({probe.provider})"
    if not probe.ok:
        return Finding(
            "kernel",
            "broken",
            f"{name} through {how} did not run: {probe.error}",
            f"anyrig -vv doctor --device {_word(device)}",
            device.id,
        )
    fault = wrong(probe)
    if fault:
        return Finding(
            "kernel",
            "broken",
            f"{name} through {how} cannot be trusted: {fault}",
            "never chosen until it answers rightly; update its driver",
            device.id,
        )
    if device.kind == "gpu" and probe.ran_on in ("cpu", "CPUExecutionProvider"):
        return Finding(
            "kernel",
            "broken",
            f"{name} through {how} silently fell back to the CPU",
            f"anyrig -vv doctor --device {_word(device)}",
            device.id,
        )
    return Finding(
        "kernel",
        "good",
        f"{name} through {how}: a kernel ran on {probe.ran_on} and agrees with the CPU"
        f" ({probe.max_error or 0:.0e})",
        "",
        device.id,
    )
