"""Snapshots for programs: Prometheus' text and plain data for JSON.

What nobody could tell is left out of the text (Prometheus has no null) and null in JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from anyrig.monitor.alerts import Alert
from anyrig.monitor.sample import HostSample, ProcessUse, Sample, Snapshot

PREFIX = "anyrig"


class Metric(NamedTuple):
    """One name in the text."""

    name: str
    help: str
    value: Callable[[Any], float | None]


def _plain(name: str, help_text: str, field: str, scale: float = 1.0) -> Metric:
    def value(sample: Any) -> float | None:
        told = getattr(sample, field)
        return None if told is None else told * scale

    return Metric(name, help_text, value)


def _books(name: str, help_text: str, field: str) -> Metric:
    def value(sample: Sample) -> float | None:
        return getattr(sample.framework, field) if sample.framework else None

    return Metric(name, help_text, value)


# Names in base units, as Prometheus asks: ratios from 0 to 1, bytes, hertz, watts, celsius.
DEVICE: tuple[Metric, ...] = (
    Metric("device_up", "1 while the device answers, 0 when it is lost.",
           lambda sample: 0.0 if sample.lost else 1.0),
    _plain("device_utilisation_ratio", "Share of the time in which something computed.",
           "compute_percent", 0.01),
    _plain("device_memory_busy_ratio", "Share of the time in which memory was accessed.",
           "memory_busy_percent", 0.01),
    _plain("device_encoder_ratio", "Load of the video encoder.", "encoder_percent", 0.01),
    _plain("device_decoder_ratio", "Load of the video decoder.", "decoder_percent", 0.01),
    _plain("device_memory_total_bytes", "Memory of the device.", "memory_total_bytes"),
    _plain("device_memory_used_bytes", "Memory in use by everybody.", "memory_used_bytes"),
    _plain("device_memory_free_bytes", "Memory left.", "memory_free_bytes"),
    _plain("device_memory_ours_bytes", "Memory in use by our processes.", "memory_ours_bytes"),
    _plain("device_memory_others_bytes", "Memory in use by others and the driver.",
           "memory_others_bytes"),
    _plain("device_power_watts", "Power drawn.", "power_w"),
    _plain("device_power_limit_watts", "Power that may be drawn.", "power_limit_w"),
    _plain("device_temperature_celsius", "Temperature of the chip.", "temperature_c"),
    _plain("device_hotspot_celsius", "Temperature of its hottest spot.", "hotspot_c"),
    _plain("device_memory_temperature_celsius", "Temperature of the memory.",
           "memory_temperature_c"),
    _plain("device_fan_ratio", "Fan, of its highest speed.", "fan_percent", 0.01),
    _plain("device_clock_hertz", "Clock of the compute units.", "clock_mhz", 1e6),
    _plain("device_clock_max_hertz", "Their highest clock.", "clock_max_mhz", 1e6),
    _plain("device_memory_clock_hertz", "Clock of the memory.", "memory_clock_mhz", 1e6),
    _plain("device_pcie_generation", "PCIe generation in use.", "pcie_generation"),
    _plain("device_pcie_lanes", "PCIe lanes in use.", "pcie_width"),
    _plain("device_pcie_rx_bytes_per_second", "Towards the device.", "pcie_rx_bytes_s"),
    _plain("device_pcie_tx_bytes_per_second", "From the device.", "pcie_tx_bytes_s"),
    _plain("device_uncorrected_memory_errors", "Since the driver started.", "ecc_errors"),
    _books("framework_allocated_bytes", "In the framework's live tensors.", "allocated_bytes"),
    _books("framework_reserved_bytes", "Taken from the driver by the framework.",
           "reserved_bytes"),
    _books("framework_peak_bytes", "The most that was allocated.", "peak_bytes"),
)  # fmt: skip
HOST: tuple[Metric, ...] = (
    _plain("host_cpu_ratio", "Load of all cores together.", "cpu_percent", 0.01),
    Metric("host_load1", "Load average of a minute.",
           lambda host: host.load[0] if host.load else None),
    _plain("host_memory_total_bytes", "Memory of the host, or of the container.",
           "memory_total_bytes"),
    _plain("host_memory_available_bytes", "What can still be handed out.",
           "memory_available_bytes"),
    _plain("host_memory_ours_bytes", "Resident in our processes.", "memory_ours_bytes"),
    _plain("host_swap_total_bytes", "Swap space.", "swap_total_bytes"),
    _plain("host_swap_used_bytes", "Swap in use.", "swap_used_bytes"),
    _plain("host_disk_read_bytes_per_second", "Read from disks.", "disk_read_bytes_s"),
    _plain("host_disk_write_bytes_per_second", "Written to disks.", "disk_write_bytes_s"),
    _plain("host_network_rx_bytes_per_second", "Received.", "network_rx_bytes_s"),
    _plain("host_network_tx_bytes_per_second", "Sent.", "network_tx_bytes_s"),
)  # fmt: skip
THROTTLED = Metric("device_throttled", "1 for each reason that holds the clocks down.", lambda _: 1)
PROCESS_MEMORY = Metric(
    "process_memory_bytes", "Of a device, by process.", lambda use: use.memory_bytes
)


def prometheus_text(snapshot: Snapshot) -> str:
    """The snapshot in Prometheus' text exposition format."""
    lines: list[str] = []
    for metric in DEVICE:
        rows = [(_labels(sample), metric.value(sample)) for sample in snapshot.devices]
        lines += _metric(metric, rows)
    lines += _metric(THROTTLED, list(_reasons(snapshot.devices)))
    lines += _metric(PROCESS_MEMORY, list(_processes(snapshot.devices)))
    for metric in HOST:
        lines += _metric(metric, [({}, metric.value(snapshot.host))])
    return "\n".join(lines) + "\n"


def _labels(sample: Sample) -> dict[str, str]:
    return {"device": sample.device, "name": sample.name}


def _reasons(samples: Sequence[Sample]) -> Iterator[tuple[dict[str, str], float | None]]:
    for sample in samples:
        for reason in sample.throttling or ():
            yield {**_labels(sample), "reason": reason}, 1.0


def _processes(samples: Sequence[Sample]) -> Iterator[tuple[dict[str, str], float | None]]:
    for sample in samples:
        for use in sample.processes or ():
            labels = {"device": sample.device, "pid": str(use.pid), "process": use.name or ""}
            yield labels, PROCESS_MEMORY.value(use)


def _metric(metric: Metric, rows: Sequence[tuple[dict[str, str], float | None]]) -> list[str]:
    """A metric's lines; none when nobody could tell it of any device."""
    told = [(labels, value) for labels, value in rows if value is not None and math.isfinite(value)]
    if not told:
        return []
    name = f"{PREFIX}_{metric.name}"
    head = [f"# HELP {name} {metric.help}", f"# TYPE {name} gauge"]
    return head + [f"{name}{_braces(labels)} {_number(value)}" for labels, value in told]


def _braces(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.replace("\r", " ")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(round(value, 6))


def snapshot_json(snapshot: Snapshot, alerts: Sequence[Alert] = ()) -> dict[str, Any]:
    """The snapshot as plain data, finite, with the same keys every time."""
    return {
        "time": snapshot.wall_s,
        "monotonic": snapshot.monotonic_s,
        "devices": [sample_json(sample) for sample in snapshot.devices],
        "host": host_json(snapshot.host),
        "warnings": [alert._asdict() for alert in alerts],
    }


def sample_json(sample: Sample) -> dict[str, Any]:
    """One device's sample as plain data."""
    data = {name: _finite(value) for name, value in vars(sample).items()}
    data["throttling"] = None if sample.throttling is None else list(sample.throttling)
    data["processes"] = _uses(sample.processes)
    data["framework"] = sample.framework._asdict() if sample.framework else None
    data["unknown"] = dict(sample.unknown)
    return data


def _uses(processes: Sequence[ProcessUse] | None) -> list[dict[str, Any]] | None:
    return None if processes is None else [use._asdict() for use in processes]


def host_json(host: HostSample) -> dict[str, Any]:
    """The host's sample as plain data."""
    data = {name: _finite(value) for name, value in vars(host).items()}
    data["cores_percent"] = list(host.cores_percent)
    data["load"] = None if host.load is None else list(host.load)
    data["processes"] = [process._asdict() for process in host.processes]
    data["unknown"] = dict(host.unknown)
    return data


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
