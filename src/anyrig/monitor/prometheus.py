"""A snapshot in Prometheus' text format. Unknown figures are left out."""

from __future__ import annotations

import math
from typing import NamedTuple

from anyrig.monitor.sample import MachineSnapshot


class Metric(NamedTuple):
    name: str
    help: str
    field: str = ""
    """The sample's attribute."""
    scale: float = 1.0


# Base units, as Prometheus recommends: ratios from 0 to 1, bytes, hertz, watts, degrees Celsius.
DEVICE_METRICS = (
    Metric("anyrig_device_utilisation_ratio", "Share of the time in which a kernel ran.",
           "compute_percent", 0.01),
    Metric("anyrig_device_memory_busy_ratio", "Share of the time in which memory was accessed.",
           "memory_busy_percent", 0.01),
    Metric("anyrig_device_encoder_ratio", "Load of the video encoder.", "encoder_percent", 0.01),
    Metric("anyrig_device_decoder_ratio", "Load of the video decoder.", "decoder_percent", 0.01),
    Metric("anyrig_device_memory_total_bytes", "Size of the memory.", "memory_total_bytes"),
    Metric("anyrig_device_memory_used_bytes", "Memory used by all processes.", "memory_used_bytes"),
    Metric("anyrig_device_memory_free_bytes", "Free memory.", "memory_free_bytes"),
    Metric("anyrig_device_memory_own_bytes", "Memory used by anyrig.", "memory_own_bytes"),
    Metric("anyrig_device_memory_others_bytes", "Memory used by other processes and the driver.",
           "memory_others_bytes"),
    Metric("anyrig_device_power_watts", "Power draw.", "power_w"),
    Metric("anyrig_device_power_limit_watts", "Power limit.", "power_limit_w"),
    Metric("anyrig_device_temperature_celsius", "Temperature of the chip.", "temperature_c"),
    Metric("anyrig_device_hotspot_celsius", "Temperature of its hottest spot.", "hotspot_c"),
    Metric("anyrig_device_memory_temperature_celsius", "Temperature of the memory.",
           "memory_temperature_c"),
    Metric("anyrig_device_fan_ratio", "Fan speed as a share of the highest.", "fan_percent", 0.01),
    Metric("anyrig_device_clock_hertz", "Clock of the compute units.", "clock_mhz", 1e6),
    Metric("anyrig_device_clock_max_hertz", "Highest clock of the compute units.",
           "clock_max_mhz", 1e6),
    Metric("anyrig_device_memory_clock_hertz", "Clock of the memory.", "memory_clock_mhz", 1e6),
    Metric("anyrig_device_pcie_generation", "PCIe generation in use.", "pcie_generation"),
    Metric("anyrig_device_pcie_lanes", "PCIe lanes in use.", "pcie_width"),
    Metric("anyrig_device_pcie_rx_bytes_per_second", "PCIe traffic to the device.",
           "pcie_rx_bytes_s"),
    Metric("anyrig_device_pcie_tx_bytes_per_second", "PCIe traffic from the device.",
           "pcie_tx_bytes_s"),
    Metric("anyrig_device_uncorrected_memory_errors",
           "Uncorrectable memory errors since the driver was loaded.", "ecc_errors"),
)  # fmt: skip
HOST_METRICS = (
    Metric("anyrig_host_cpu_ratio", "Load of all cores together.", "cpu_percent", 0.01),
    Metric("anyrig_host_memory_total_bytes", "Memory of the host or the container.",
           "memory_total_bytes"),
    Metric("anyrig_host_memory_available_bytes", "Memory that can still be allocated.",
           "memory_available_bytes"),
    Metric("anyrig_host_memory_own_bytes", "Resident memory of anyrig.", "memory_own_bytes"),
    Metric("anyrig_host_swap_total_bytes", "Swap space.", "swap_total_bytes"),
    Metric("anyrig_host_swap_used_bytes", "Swap in use.", "swap_used_bytes"),
    Metric("anyrig_host_disk_read_bytes_per_second", "Read from disks.", "disk_read_bytes_s"),
    Metric("anyrig_host_disk_write_bytes_per_second", "Written to disks.", "disk_write_bytes_s"),
    Metric("anyrig_host_network_rx_bytes_per_second", "Received.", "network_rx_bytes_s"),
    Metric("anyrig_host_network_tx_bytes_per_second", "Sent.", "network_tx_bytes_s"),
)  # fmt: skip
UP = Metric("anyrig_device_up", "1 while the device responds, 0 when it is lost.")
THROTTLED = Metric("anyrig_device_throttled", "1 for each reason why clocks are reduced.")
PROCESS_MEMORY = Metric("anyrig_process_memory_bytes", "Device memory of a process.")
HOST_LOAD = Metric("anyrig_host_load1", "Load average of one minute.")
METRIC_NAMES = frozenset(
    metric.name
    for metric in (*DEVICE_METRICS, *HOST_METRICS, UP, THROTTLED, PROCESS_MEMORY, HOST_LOAD)
)


def prometheus_text(snapshot: MachineSnapshot) -> str:
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}

    def add(metric: Metric, value: float | None, **labels: str) -> None:
        if value is None or not math.isfinite(value):
            return
        if metric.name not in gauges:
            gauges[metric.name] = Gauge(metric.name, metric.help, labels, registry=registry)
        gauge = gauges[metric.name]
        (gauge.labels(**labels) if labels else gauge).set(round(value * metric.scale, 6))

    for sample in snapshot.devices:
        device, name = sample.device, sample.name
        add(UP, 0.0 if sample.lost else 1.0, device=device, name=name)
        for metric in DEVICE_METRICS:
            add(metric, getattr(sample, metric.field), device=device, name=name)
        for reason in sample.throttling or ():
            add(THROTTLED, 1.0, device=device, name=name, reason=reason)
        for process in sample.processes or ():
            pid, process_name = str(process.pid), process.name or ""
            add(PROCESS_MEMORY, process.memory_bytes, device=device, pid=pid, process=process_name)
    for metric in HOST_METRICS:
        add(metric, getattr(snapshot.host, metric.field))
    add(HOST_LOAD, snapshot.host.load[0] if snapshot.host.load else None)
    return generate_latest(registry).decode()
