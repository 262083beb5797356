"""Devices from Python: listing, saving, checking and measuring them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anyrig import Rig
from anyrig.bench.measurements import Measurement
from anyrig.bench.process import BenchResult
from anyrig.devices.doctor import KernelResult
from anyrig.devices.machine import Device, DeviceBackend, Machine
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError
from anyrig.events import Event, NoticeEvent, ProgressEvent, WarningEvent

PAIR = "rtx4090-rtxpro6000-wsl2"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices are measured at once; tests/bench has the child process that really measures."""

    def measure(device: Device, backend: DeviceBackend, *_: Any, **options: Any) -> BenchResult:
        options["on_progress"]("product")
        product = Measurement("product", "fp32", 256, 1e9, "FLOP/s", 0.1, backend=backend.library)
        return BenchResult(KernelResult(backend.provider, device.id, True), (product,))

    monkeypatch.setattr("anyrig.bench.process.measure_device", measure)


def test_devices_are_listed_with_the_choice(machine: Callable[..., Machine]) -> None:
    found = Rig(machine=machine(PAIR)).devices(device="rtx 4090")
    assert found.choice is not None
    assert "4090" in found.choice.device.name
    data = found.to_json()
    assert data["choice"]["devices"] == [found.choice.device.id]
    assert all(row["suggested_workers"] for row in data["gpus"])


def test_a_wrong_name_hides_no_device(machine: Callable[..., Machine]) -> None:
    found = Rig(machine=machine(PAIR)).devices(device="nonsense")
    assert found.choice is None
    assert isinstance(found.error, DeviceNotFoundError)
    assert len(found.machine.gpus) == 2


@pytest.mark.usefixtures("measured")
def test_a_device_is_saved_measured_once_and_forgotten() -> None:
    events: list[Event] = []
    rig = Rig(on_event=events.append)
    assert rig.use("cpu").device == "cpu"
    assert any(isinstance(event, NoticeEvent) for event in events)
    assert any(isinstance(event, ProgressEvent) for event in events)
    saved = Rig().saved_device
    assert saved is not None
    assert saved.device == "cpu"
    assert Rig().measured_devices.speeds["cpu"] > 0
    events.clear()
    Rig(on_event=events.append).use("cpu")
    assert events == []

    from anyrig.app.devices import forget_device

    assert forget_device(Rig())
    assert Rig().saved_device is None


def test_a_kind_that_does_not_exist_is_a_warning_or_an_error() -> None:
    events: list[Event] = []
    rig = Rig(on_event=events.append)
    assert rig.use("directml").device == "directml"
    assert any(isinstance(event, WarningEvent) for event in events)
    with pytest.raises(DeviceUnusableError):
        rig.use("directml", strict=True)
