"""Prometheus' text as its own parser reads it, and JSON that every parser reads."""

from __future__ import annotations

import json
import math
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from anyrig.monitor.alerts import Alert
from anyrig.monitor.report import DEVICE, HOST, prometheus_text, snapshot_json
from anyrig.monitor.sample import (
    Framework,
    HostProcess,
    HostSample,
    ProcessUse,
    Sample,
    Snapshot,
)

GIB = 1024**3
ODD = 'RTX "Ti"\\super\nsecond'


def full() -> Snapshot:
    gpu = Sample(
        "GPU-1", ODD, 10.0, 1000.0, compute_percent=62.5, memory_busy_percent=31.0,
        encoder_percent=1.0, decoder_percent=2.0, memory_total_bytes=140 * GIB,
        memory_used_bytes=10 * GIB, memory_free_bytes=130 * GIB, memory_ours_bytes=6 * GIB,
        memory_others_bytes=4 * GIB, power_w=412.3, power_limit_w=700.0, temperature_c=54.0,
        hotspot_c=70.0, memory_temperature_c=61.0, fan_percent=40.0, fan_rpm=1200, clock_mhz=1755,
        clock_max_mhz=1980, memory_clock_mhz=3201, memory_clock_max_mhz=3201,
        throttling=("power limit", "too hot"), ecc_errors=0, pcie_generation=5,
        pcie_generation_max=5, pcie_width=16, pcie_width_max=16, pcie_rx_bytes_s=1.5e6,
        pcie_tx_bytes_s=2.0, processes=(ProcessUse(42, "python", 6 * GIB, 55.0, True),),
        framework=Framework(5 * GIB, 6 * GIB, 7 * GIB), unknown={"fan": "no answer: x"},
    )  # fmt: skip
    lost = Sample("GPU-2", "lost one", 10.0, 1000.0, lost="NVML: GPU is lost")
    mine = HostProcess(42, "python", "ada", "python -m anyrig", 98.0, GIB, True)
    host = HostSample(10.0, 1000.0, 12.5, (10.0, 15.0), (0.5, 0.4, 0.3), 64 * GIB, 32 * GIB,
                      GIB, 8 * GIB, 0, 1.0, 2.0, 3.0, 4.0, (mine,))  # fmt: skip
    return Snapshot(10.0, 1000.0, (gpu, lost), host)


def families(snapshot: Snapshot) -> dict[str, Any]:
    return {
        family.name: family for family in text_string_to_metric_families(prometheus_text(snapshot))
    }


def test_the_text_parses_with_labels_as_they_were() -> None:
    found = families(full())
    used = found["anyrig_device_memory_used_bytes"]
    assert used.type == "gauge"
    assert used.documentation == "Memory in use by everybody."
    assert used.samples[0].labels == {"device": "GPU-1", "name": ODD}
    assert used.samples[0].value == 10 * GIB


def test_every_metric_is_told_once_there_is_something_to_tell() -> None:
    found = families(full())
    wanted = {f"anyrig_{metric.name}" for metric in (*DEVICE, *HOST)}
    wanted |= {"anyrig_device_throttled", "anyrig_process_memory_bytes"}
    assert set(found) == wanted


def test_base_units() -> None:
    found = families(full())

    def value(name: str) -> float:
        return float(found[f"anyrig_{name}"].samples[0].value)

    assert value("device_utilisation_ratio") == 0.625
    assert value("device_power_watts") == 412.3
    assert value("device_clock_hertz") == 1.755e9
    assert value("host_cpu_ratio") == 0.125
    assert value("framework_peak_bytes") == 7 * GIB
    reasons = {s.labels["reason"] for s in found["anyrig_device_throttled"].samples}
    assert reasons == {"power limit", "too hot"}
    assert found["anyrig_process_memory_bytes"].samples[0].labels["pid"] == "42"


def test_a_lost_device_is_down_and_has_no_other_figure() -> None:
    found = families(full())
    up = {s.labels["device"]: s.value for s in found["anyrig_device_up"].samples}
    assert up == {"GPU-1": 1.0, "GPU-2": 0.0}
    for name, family in found.items():
        if name not in ("anyrig_device_up",) and name.startswith("anyrig_device"):
            assert all(sample.labels["device"] == "GPU-1" for sample in family.samples)


def test_nothing_known_is_left_out() -> None:
    empty = Snapshot(0.0, 0.0, (Sample("cpu", "CPU", 0.0, 0.0),), HostSample(0.0, 0.0))
    assert set(families(empty)) == {"anyrig_device_up"}


def test_json_is_finite_and_has_the_same_keys_every_time() -> None:
    odd = Sample("GPU-3", "odd", 0.0, 0.0, power_w=math.nan, compute_percent=math.inf)
    snapshot = full()
    data = snapshot_json(
        Snapshot(0.0, 0.0, (*snapshot.devices, odd), snapshot.host),
        [Alert("lost", "GPU-2", "lost one", "lost: gone", 5.0)],
    )
    again = json.loads(json.dumps(data, allow_nan=False))
    first, second, third = again["devices"]
    assert set(first) == set(second) == set(third)
    assert third["power_w"] is None
    assert second["memory_used_bytes"] is None
    assert second["lost"] == "NVML: GPU is lost"
    assert first["processes"][0] == {
        "pid": 42, "name": "python", "memory_bytes": 6 * GIB, "compute_percent": 55.0, "ours": True,
    }  # fmt: skip
    assert first["framework"]["reserved_bytes"] == 6 * GIB
    assert first["throttling"] == ["power limit", "too hot"]
    assert first["unknown"] == {"fan": "no answer: x"}
    assert again["host"]["processes"][0]["command"] == "python -m anyrig"
    assert again["warnings"][0]["kind"] == "lost"
