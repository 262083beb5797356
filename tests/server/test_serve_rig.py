"""The machine over HTTP: recorded machines as rows, the choice of a device, what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anyrig.app.compute import DeviceOptions
from anyrig.app.devices import MonitoredMachine
from anyrig.app.models import ModelCache
from anyrig.app.rig import Rig
from anyrig.devices.discovery import from_record
from anyrig.devices.probe import load_record
from anyrig.server.routes.rig import Devices, Used
from tests.conftest import MACHINES, NAMES, Anyrig

Rigs = Callable[..., tuple[MonitoredMachine, Rig, ModelCache]]


@pytest.fixture
def rig() -> Iterator[Rigs]:
    with ExitStack() as stack:

        def open_(name: str, device: str = "") -> tuple[MonitoredMachine, Rig, ModelCache]:
            rig = Rig(machine=from_record(load_record(MACHINES / f"{name}.json"), {}))
            cache = ModelCache()
            options = DeviceOptions(device=device, no_bench=True)
            monitored = MonitoredMachine(rig, options, on_change=cache.reload_all)
            stack.callback(monitored.close)
            return monitored, rig, cache

        yield open_


def test_every_recorded_machine_is_told_whole(rig: Rigs, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            part, context, _ = rig(name)
            told = Devices.model_validate(part.devices())
            assert [row.id for row in told.devices] == [d.id for d in context.machine.devices]
            chosen = [device.id for device in context.preview_device(DeviceOptions()).devices]
            assert [row.id for row in told.devices if row.chosen] == chosen
            assert told.reason
            for row, device in zip(told.devices, context.machine.devices, strict=True):
                assert row.memory_total_bytes == device.memory.total_bytes
                assert bool(row.reason) == (not row.chosen)
                if device.kind == "gpu" and not device.usable:
                    assert not row.usable
                    assert device.block_reason is not None
                    assert row.reason == device.block_reason.message
                    assert row.fix == device.block_reason.fix
                else:
                    assert row.usable
                    assert row.fix == ""
            now = part.now()
            assert {row["device"] for row in now["devices"]} == {row.id for row in told.devices}
            assert part.history() == []
            assert part.measurements() == []


def test_another_device_is_used_and_models_are_loaded_anew(rig: Rigs) -> None:
    part, context, cache = rig("rtx4090-rtxpro6000-wsl2")

    class Model:
        closed = False

        def __enter__(self) -> Model:
            return self

        def __exit__(self, *_: object) -> None:
            self.closed = True

    with cache.borrow("speech", Model) as model:
        pass
    before = [row["id"] for row in part.devices()["devices"] if row["chosen"]]
    other = next(gpu for gpu in context.machine.gpus if gpu.id not in before)
    told = Used.model_validate(part.use(other.name))
    assert told.saved.device == other.id
    assert [row.id for row in told.devices if row.chosen] == [other.id]
    assert cache.loaded_models() == []
    cache.evict_idle()
    assert model.closed
    with cache.borrow("speech", Model):
        part.use(other.id)  # the same again disturbs nothing
        assert [one.name for one in cache.loaded_models()] == ["speech"]


def test_a_device_that_cannot_be_used_is_saved_with_a_warning(rig: Rigs) -> None:
    part, context, _ = rig("rtx5090-cpu-torch-windows")
    gpu = context.machine.gpus[0]
    told = part.use(gpu.id)
    assert "the CPU is used until that is fixed" in told["warnings"][0]
    assert [row["kind"] for row in told["devices"] if row["chosen"]] == ["cpu"]


def test_a_flag_comes_before_what_is_saved(rig: Rigs) -> None:
    part, context, _ = rig("rtx4090-rtxpro6000-wsl2", device="cpu")
    told = part.use(context.machine.gpus[0].id)
    assert any("takes precedence" in warning for warning in told["warnings"])
    assert [row["id"] for row in told["devices"] if row["chosen"]] == ["cpu"]


def test_a_choice_is_the_same_as_on_the_command_line(
    app_client: TestClient, anyrig: Anyrig, tmp_path: Path
) -> None:
    answer = app_client.put("/devices/chosen", json={"device": "cpu"})
    assert answer.status_code == 200
    assert answer.json()["saved"]["device"] == "cpu"
    listed = json.loads(anyrig("use", "--list", "--json").stdout)
    assert listed["saved"]["device"] == "cpu"
    assert app_client.put("/devices/chosen", json={"device": "auto"}).status_code == 200
    assert json.loads(anyrig("use", "--list", "--json").stdout)["saved"]["device"] == "auto"
