"""A snapshot in Prometheus' text format. Unknown figures are left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.monitor.sample import MachineSnapshot

if TYPE_CHECKING:
    from prometheus_client import Metric


class _Gauge(NamedTuple):
    name: str
    help: str
    field: str = ""
    """The sample's attribute."""
    scale: float = 1.0


# Base units, as Prometheus recommends: ratios from 0 to 1, bytes, hertz, watts, degrees Celsius.
DEVICE_GAUGES = (
    _Gauge("anyrig_device_utilisation_ratio", "Share of the time in which a kernel ran.",
          "compute_percent", 0.01),
    _Gauge("anyrig_device_memory_busy_ratio", "Share of the time in which memory was accessed.",
          "memory_busy_percent", 0.01),
    _Gauge("anyrig_device_encoder_ratio", "Load of the video encoder.", "encoder_percent", 0.01),
    _Gauge("anyrig_device_decoder_ratio", "Load of the video decoder.", "decoder_percent", 0.01),
    _Gauge("anyrig_device_memory_total_bytes", "Size of the memory.", "memory_total_bytes"),
    _Gauge("anyrig_device_memory_used_bytes", "Memory used by all processes.", "memory_used_bytes"),
    _Gauge("anyrig_device_memory_free_bytes", "Free memory.", "memory_free_bytes"),
    _Gauge("anyrig_device_memory_ours_bytes", "Memory used by anyrig.", "memory_ours_bytes"),
    _Gauge("anyrig_device_memory_others_bytes", "Memory used by other processes and the driver.",
          "memory_others_bytes"),
    _Gauge("anyrig_device_power_watts", "Power draw.", "power_w"),
    _Gauge("anyrig_device_power_limit_watts", "Power limit.", "power_limit_w"),
    _Gauge("anyrig_device_temperature_celsius", "Temperature of the chip.", "temperature_c"),
    _Gauge("anyrig_device_hotspot_celsius", "Temperature of its hottest spot.", "hotspot_c"),
    _Gauge("anyrig_device_memory_temperature_celsius", "Temperature of the memory.",
          "memory_temperature_c"),
    _Gauge("anyrig_device_fan_ratio", "Fan speed as a share of the highest.", "fan_percent", 0.01),
    _Gauge("anyrig_device_clock_hertz", "Clock of the compute units.", "clock_mhz", 1e6),
    _Gauge("anyrig_device_clock_max_hertz", "Highest clock of the compute units.",
          "clock_max_mhz", 1e6),
    _Gauge("anyrig_device_memory_clock_hertz", "Clock of the memory.", "memory_clock_mhz", 1e6),
    _Gauge("anyrig_device_pcie_generation", "PCIe generation in use.", "pcie_generation"),
    _Gauge("anyrig_device_pcie_lanes", "PCIe lanes in use.", "pcie_width"),
    _Gauge("anyrig_device_pcie_rx_bytes_per_second", "PCIe traffic to the device.",
          "pcie_rx_bytes_s"),
    _Gauge("anyrig_device_pcie_tx_bytes_per_second", "PCIe traffic from the device.",
          "pcie_tx_bytes_s"),
    _Gauge("anyrig_device_uncorrected_memory_errors",
          "Uncorrectable memory errors since the driver was loaded.", "ecc_errors"),
)  # fmt: skip
HOST_GAUGES = (
    _Gauge("anyrig_host_cpu_ratio", "Load of all cores together.", "cpu_percent", 0.01),
    _Gauge("anyrig_host_memory_total_bytes", "Memory of the host or the container.",
          "memory_total_bytes"),
    _Gauge("anyrig_host_memory_available_bytes", "Memory that can still be allocated.",
          "memory_available_bytes"),
    _Gauge("anyrig_host_memory_ours_bytes", "Resident memory of anyrig.", "memory_ours_bytes"),
    _Gauge("anyrig_host_swap_total_bytes", "Swap space.", "swap_total_bytes"),
    _Gauge("anyrig_host_swap_used_bytes", "Swap in use.", "swap_used_bytes"),
    _Gauge("anyrig_host_disk_read_bytes_per_second", "Read from disks.", "disk_read_bytes_s"),
    _Gauge("anyrig_host_disk_write_bytes_per_second", "Written to disks.", "disk_write_bytes_s"),
    _Gauge("anyrig_host_network_rx_bytes_per_second", "Received.", "network_rx_bytes_s"),
    _Gauge("anyrig_host_network_tx_bytes_per_second", "Sent.", "network_tx_bytes_s"),
)  # fmt: skip
UP = _Gauge("anyrig_device_up", "1 while the device responds, 0 when it is lost.")
THROTTLED = _Gauge("anyrig_device_throttled", "1 for each reason why clocks are reduced.")
PROCESS_MEMORY = _Gauge("anyrig_process_memory_bytes", "Device memory of a process.")
HOST_LOAD = _Gauge("anyrig_host_load1", "Load average of one minute.")
METRIC_NAMES = frozenset(
    gauge.name for gauge in (*DEVICE_GAUGES, *HOST_GAUGES, UP, THROTTLED, PROCESS_MEMORY, HOST_LOAD)
)

Row = tuple[tuple[str, ...], float | None]


def prometheus_text(snapshot: MachineSnapshot) -> str:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class SnapshotCollector(Collector):
        def collect(self) -> Iterable[Metric]:
            return _collect(snapshot)

    registry = CollectorRegistry()
    registry.register(SnapshotCollector())
    return generate_latest(registry).decode()


def _collect(snapshot: MachineSnapshot) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    def family(gauge: _Gauge, labels: tuple[str, ...], rows: Iterable[Row]) -> Iterator[Metric]:
        found = GaugeMetricFamily(gauge.name, gauge.help, labels=labels)
        for values, number in rows:
            if number is not None and math.isfinite(number):
                found.add_metric(values, number)
        if found.samples:
            yield found

    samples, host = snapshot.devices, snapshot.host
    labels = ("device", "name")
    up: list[Row] = [((s.device, s.name), 0.0 if s.lost else 1.0) for s in samples]
    yield from family(UP, labels, up)
    for gauge in DEVICE_GAUGES:
        yield from family(gauge, labels, (((s.device, s.name), _read(s, gauge)) for s in samples))
    throttled = (((s.device, s.name, r), 1.0) for s in samples for r in s.throttling or ())
    yield from family(THROTTLED, (*labels, "reason"), throttled)
    memory = (
        ((sample.device, str(process.pid), process.name or ""), process.memory_bytes)
        for sample in samples
        for process in sample.processes or ()
    )
    yield from family(PROCESS_MEMORY, ("device", "pid", "process"), memory)
    for gauge in HOST_GAUGES:
        yield from family(gauge, (), [((), _read(host, gauge))])
    yield from family(HOST_LOAD, (), [((), host.load[0] if host.load else None)])


def _read(sample: Any, gauge: _Gauge) -> float | None:
    value: float | None = getattr(sample, gauge.field)
    return None if value is None else round(value * gauge.scale, 6)
