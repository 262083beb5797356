"""Snapshots in Prometheus' text, as its own parser reads it, and in JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from anyrig.monitor.alerts import DeviceAlert
from anyrig.monitor.prometheus import prometheus_text
from anyrig.monitor.sample import (
    DeviceProcess,
    DeviceSample,
    HostProcess,
    HostSample,
    MachineSnapshot,
    ThrottleReason,
    snapshot_to_json,
)

GIB = 1024**3
ODD_NAME = 'RTX "Ti"\\super\nsecond\rthird'


def build_snapshot() -> MachineSnapshot:
    """One device with every figure, and a lost one."""
    gpu = DeviceSample(
        "GPU-1", ODD_NAME, 10.0, 1000.0, compute_percent=57.0, memory_busy_percent=31.0,
        encoder_percent=1.0, decoder_percent=2.0, memory_total_bytes=140 * GIB,
        memory_used_bytes=10 * GIB, memory_own_bytes=6 * GIB, power_w=412.3, power_limit_w=700.0,
        temperature_c=54.0, hotspot_c=70.0, memory_temperature_c=61.0, fan_percent=40.0,
        fan_rpm=1200, clock_mhz=1755, clock_max_mhz=1980, memory_clock_mhz=3201,
        memory_clock_max_mhz=3201, throttling=(ThrottleReason.POWER, ThrottleReason.THERMAL),
        ecc_errors=0, pcie_generation=5, pcie_generation_max=5, pcie_width=16, pcie_width_max=16,
        pcie_rx_bytes_s=1.5e6, pcie_tx_bytes_s=2.0,
        processes=(DeviceProcess(42, "python", 6 * GIB, 55.0, True),), unknown={"fan": "x"},
    )  # fmt: skip
    lost = DeviceSample("GPU-2", "lost one", 10.0, 1000.0, lost="NVML: GPU is lost")
    ours = HostProcess(42, "python", "ada", "python -m anyrig", 98.0, GIB, True)
    host = HostSample(10.0, 1000.0, 12.5, (10.0, 15.0), (0.5, 0.4, 0.3), 64 * GIB, 32 * GIB,
                      GIB, 8 * GIB, 0, 1.0, 2.0, 3.0, 4.0, (ours,))  # fmt: skip
    return MachineSnapshot(10.0, 1000.0, (gpu, lost), host)


def families(snapshot: MachineSnapshot) -> dict[str, Any]:
    return {
        family.name: family for family in text_string_to_metric_families(prometheus_text(snapshot))
    }


def test_labels_survive_the_text() -> None:
    used = families(build_snapshot())["anyrig_device_memory_used_bytes"]
    assert used.type == "gauge"
    assert used.documentation == "Memory used by all processes."
    assert used.samples[0].labels == {"device": "GPU-1", "name": ODD_NAME}
    assert used.samples[0].value == 10 * GIB


def test_base_units() -> None:
    found = families(build_snapshot())

    def value(name: str) -> float:
        return float(found[f"anyrig_{name}"].samples[0].value)

    assert value("device_utilisation_ratio") == 0.57
    assert value("device_power_watts") == 412.3
    assert value("device_clock_hertz") == 1.755e9
    assert value("device_memory_free_bytes") == 130 * GIB
    assert value("device_memory_others_bytes") == 4 * GIB
    assert value("host_cpu_ratio") == 0.125
    assert value("host_load1") == 0.5
    reasons = {s.labels["reason"] for s in found["anyrig_device_throttled"].samples}
    assert reasons == {"power limit", "thermal"}
    assert found["anyrig_process_memory_bytes"].samples[0].labels == {
        "device": "GPU-1", "pid": "42", "process": "python",
    }  # fmt: skip


def test_a_lost_device_is_down_and_has_no_other_metric() -> None:
    found = families(build_snapshot())
    up = {s.labels["device"]: s.value for s in found.pop("anyrig_device_up").samples}
    assert up == {"GPU-1": 1.0, "GPU-2": 0.0}
    for name, family in found.items():
        if name.startswith("anyrig_device"):
            assert all(sample.labels["device"] == "GPU-1" for sample in family.samples)


def test_unknown_figures_are_left_out() -> None:
    cpu = DeviceSample("cpu", "CPU", 0.0, 0.0, power_w=math.nan)
    empty = MachineSnapshot(0.0, 0.0, (cpu,), HostSample(0.0, 0.0))
    assert set(families(empty)) == {"anyrig_device_up"}


def test_json_is_finite_and_has_the_same_keys_every_time() -> None:
    odd = DeviceSample("GPU-3", "odd", 0.0, 0.0, power_w=math.nan, compute_percent=math.inf)
    snapshot = build_snapshot()
    data = snapshot_to_json(
        MachineSnapshot(0.0, 0.0, (*snapshot.devices, odd), snapshot.host),
        [DeviceAlert("lost", "GPU-2", "lost one", "lost: gone", 5.0)],
    )
    again = json.loads(json.dumps(data, allow_nan=False))
    first, second, third = again["devices"]
    assert set(first) == set(second) == set(third)
    assert third["power_w"] is None
    assert second["memory_used_bytes"] is None
    assert second["lost"] == "NVML: GPU is lost"
    assert first["processes"][0]["pid"] == 42
    assert again["warnings"][0]["kind"] == "lost"


def test_json_has_the_keys_of_the_first_release() -> None:
    data = snapshot_to_json(build_snapshot())
    assert set(data) == {"time", "monotonic", "devices", "host", "warnings"}
    assert set(data["devices"][0]) == {
        "device", "name", "monotonic_s", "wall_s", "lost", "compute_percent",
        "memory_busy_percent", "encoder_percent", "decoder_percent", "memory_total_bytes",
        "memory_used_bytes", "memory_free_bytes", "memory_own_bytes", "memory_others_bytes",
        "power_w", "power_limit_w", "temperature_c", "hotspot_c", "memory_temperature_c",
        "fan_percent", "fan_rpm", "clock_mhz", "clock_max_mhz", "memory_clock_mhz",
        "memory_clock_max_mhz", "throttling", "ecc_errors", "pcie_generation",
        "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_rx_bytes_s",
        "pcie_tx_bytes_s", "processes", "framework", "unknown",
    }  # fmt: skip
    assert set(data["host"]) == {
        "monotonic_s", "wall_s", "cpu_percent", "cores_percent", "load", "memory_total_bytes",
        "memory_available_bytes", "memory_own_bytes", "swap_total_bytes", "swap_used_bytes",
        "disk_read_bytes_s", "disk_write_bytes_s", "network_rx_bytes_s", "network_tx_bytes_s",
        "processes", "unknown",
    }  # fmt: skip
