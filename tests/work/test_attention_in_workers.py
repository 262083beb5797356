"""Attention that a self-test found wrong is switched off in workers, before their engine loads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anyrig.app import compute
from anyrig.app.compute import ComputeOptions
from anyrig.app.rig import Rig
from anyrig.bench import process
from anyrig.devices.discovery import from_record
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.devices.probe import load_record
from anyrig.placement import Placement, PlacementPlan, Workload
from anyrig.precision import selftest
from anyrig.precision.selftest import CheckResult
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.conftest import MACHINES

TORCH = DeviceBackend("torch", "cpu", "cpu")
WRONG = CheckResult("attention", "cudnn", "bf16", "a case", "wrong", 9.0, where="out")


def on_in_worker(placement: Placement) -> list[str]:
    recipe = EngineFactory("tests.work.engines:ReportsAttention")
    with WorkerPool(LocalWorkers([placement], recipe, environment=os.environ)) as pool:
        (outcome,) = pool.run([0], cost=float)
    assert outcome.failure is None, outcome.failure
    assert outcome.result is not None
    return list(outcome.result)


def test_a_worker_switches_off_what_is_wrong_before_its_engine_loads() -> None:
    torch: Any = pytest.importorskip("torch")
    seat = Placement(
        Device("a", "cpu", "test", "a"), TORCH, disabled_attention_backends=("cudnn", "efficient")
    )
    assert on_in_worker(seat) == ["flash", "math"]
    assert torch.backends.cuda.cudnn_sdp_enabled()  # nothing runs here


def rig() -> Rig:
    """This program on a recorded machine with an H200."""
    return Rig(machine=from_record(load_record(MACHINES / "h200-linux.json")))


OPTIONS = ComputeOptions(device="gpu", no_bench=True)


def placed(one: Rig) -> PlacementPlan:
    workload = Workload("a model", libraries=("torch",))
    return compute.place(one, one.choose_device(OPTIONS), workload, OPTIONS)


def keep(one: Rig, *results: CheckResult) -> None:
    gpu = one.machine.gpus[0]
    version = one.machine.packages["torch"].partition(" ")[0]
    key = f"{gpu.id}; cuda; driver {gpu.driver_version}; torch {version}; cuDNN 1; test 1"
    one.folders.selftests.parent.mkdir(parents=True, exist_ok=True)
    selftest.save_report(one.folders.selftests, selftest.SelfTestReport(results, key, 1.0))


def test_every_placement_on_a_device_carries_what_an_earlier_test_found() -> None:
    one = rig()
    assert [place.disabled_attention_backends for place in placed(one).placements] == [()]
    keep(one, WRONG)
    assert [place.disabled_attention_backends for place in placed(one).placements] == [("cudnn",)]


def test_a_first_test_runs_in_a_process_of_its_own_and_workers_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tested: list[str] = []

    def self_test(
        device: Device, backend: DeviceBackend, path: Path, environment: Mapping[str, str], **_: Any
    ) -> process.SelfTestSummary:
        tested.append(device.id)
        return process.SelfTestSummary(device.id, device.name, faults={"cudnn": "cuDNN is wrong"})

    monkeypatch.setattr(process, "run_self_test", self_test)
    one = rig()
    monkeypatch.setattr(Rig, "may_measure", lambda rig, options: False)
    found = placed(one)
    assert compute.test_devices(one, found, OPTIONS) == found  # --no-bench: nothing is tested
    monkeypatch.setattr(Rig, "may_measure", lambda rig, options: True)
    found = compute.test_devices(one, found, OPTIONS)
    assert [place.disabled_attention_backends for place in found.placements] == [("cudnn",)]
    assert tested == [one.machine.gpus[0].id]
    assert caplog.messages == ["cuDNN is wrong; disabled, torch uses another backend"]
    keep(one, WRONG)
    monkeypatch.setattr(Rig, "may_measure", lambda rig, options: False)
    again = placed(one)
    monkeypatch.setattr(Rig, "may_measure", lambda rig, options: True)
    caplog.clear()
    found = compute.test_devices(one, again, OPTIONS)
    assert [place.disabled_attention_backends for place in found.placements] == [("cudnn",)]
    assert len(tested) == 1  # it is known
    assert len(caplog.messages) == 1
