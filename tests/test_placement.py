"""Need in, placement out: on recorded machines, with reasons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.devices.choose import DeviceChoice, DeviceRequest, choose_device
from anyrig.devices.discover import from_record
from anyrig.devices.machine import Machine
from anyrig.errors import DeviceUnusableError, InvalidInputError, OutOfMemoryError
from anyrig.placement import PlacementOptions, PlacementPlan, Workload, plan_placement
from anyrig.precision import selftest
from anyrig.precision.selftest import CheckResult
from anyrig.units import GIB
from tests.conftest import NAMES, record_of

Machines = Callable[..., Machine]
VOICE = Workload("the voice", precisions=("fp32", "bf16", "fp16"), worker_bytes=2 * GIB)


def chosen(machine: Machine, word: str = "auto") -> DeviceChoice:
    return choose_device(machine, [DeviceRequest(word, "flag")])


def placed(
    machine: Machine, word: str = "auto", need: Workload = VOICE, **wanted: object
) -> PlacementPlan:
    return plan_placement(machine, chosen(machine, word), need, PlacementOptions(**wanted))  # type: ignore[arg-type]


def test_a_gpu_with_everything(machine: Machines) -> None:
    found = placed(machine("h200-linux"))
    (placement,) = found.placements
    assert placement.device.name == "NVIDIA H200"
    assert (placement.backend.library, placement.backend.selector) == ("torch", "cuda:0")
    assert placement.precision in ("fp16", "bf16")
    assert placement.budget_bytes is not None
    assert placement.budget_bytes < (placement.device.memory.total_bytes or 0)
    assert placement.threads == 16
    assert "16 threads: all usable cores" in placement.reasons
    assert found.fallback is not None
    assert found.fallback.device.kind == "cpu"
    assert found.warnings == ()


def test_every_device_shares_the_cores(machine: Machines) -> None:
    found = placed(machine("h200-linux"), "all")
    assert [p.device.kind for p in found.placements] == ["gpu", "cpu"]
    assert {p.threads for p in found.placements} == {8}
    assert "8 threads: 16 usable cores over 2 processes" in found.placements[0].reasons
    assert found.fallback is None


def test_workers_share_a_device_and_are_refused_above_its_budget(machine: Machines) -> None:
    here = machine("h200-linux")
    (one,) = placed(here).placements
    (four,) = placed(here, workers_per_device=4).placements
    assert one.budget_bytes is not None
    assert four.budget_bytes == one.budget_bytes // 4
    assert four.workers == 4
    with pytest.raises(InvalidInputError, match=r"100 workers of 2 GiB each do not fit") as caught:
        placed(here, workers_per_device=100)
    assert "--workers-per-device" in caught.value.hint
    with pytest.raises(InvalidInputError, match="--workers-per-device is 0"):
        placed(here, workers_per_device=0)


@pytest.mark.parametrize(
    ("profile", "share"), [("quality", 0.85), ("balanced", 0.9), ("low-memory", 0.55)]
)
def test_the_profile_sets_the_budget(machine: Machines, profile: str, share: float) -> None:
    (placement,) = placed(machine("h200-linux"), profile=profile).placements
    total = placement.device.memory.total_bytes
    assert total is not None
    assert placement.budget_bytes == int(total * share)
    assert any(f"{share:.0%}" in reason and profile in reason for reason in placement.reasons)


def test_what_was_asked_for_wins(machine: Machines) -> None:
    here = machine("h200-linux")
    (placement,) = placed(here, precision="fp32", memory_gb=24).placements
    assert (placement.precision, placement.budget_bytes) == ("fp32", 24 * GIB)
    (half,) = placed(here, memory_fraction=0.5).placements
    assert half.budget_bytes == (half.device.memory.total_bytes or 0) // 2
    with pytest.raises(InvalidInputError, match="both given"):
        placed(here, memory_gb=24, memory_fraction=0.5)


def test_measured_speeds_reach_the_placement(machine: Machines) -> None:
    here = machine("h200-linux")
    gpu = here.gpus[0].id
    speeds = {gpu: {("torch", "bf16"): 700e12, ("torch", "fp16"): 600e12, ("torch", "fp32"): 50e12}}
    found = plan_placement(here, chosen(here), VOICE, speeds=speeds)  # type: ignore[arg-type]
    assert (found.placements[0].precision, found.placements[0].speed) == ("bf16", 700e12)


def test_a_format_that_failed_its_self_test_is_not_taken(machine: Machines) -> None:
    here = machine("h200-linux")
    failed = {here.gpus[0].id: {"fp16": "NaN", "bf16": "NaN"}}
    found = plan_placement(here, chosen(here), VOICE, failed=failed)  # type: ignore[arg-type]
    assert found.placements[0].precision == "fp32"


def test_what_does_not_fit_goes_to_the_cpu_with_a_warning(machine: Machines) -> None:
    here = machine("arc-b580-linux")
    need = Workload("a giant", ("torch", "onnx"), worker_bytes=15 * GIB)
    found = placed(here, need=need)
    assert found.placements[0].device.kind == "cpu"
    assert "needs 15 GiB, may use" in found.warnings[0]


def test_what_fits_nowhere_is_an_error(machine: Machines) -> None:
    with pytest.raises(OutOfMemoryError, match="a giant does not fit on any device") as caught:
        placed(machine("t4-linux"), need=Workload("a giant", worker_bytes=900 * GIB))
    assert "--memory-gb" in caught.value.hint


def test_an_engine_without_a_way_to_the_gpu_says_so(machine: Machines) -> None:
    found = placed(machine("h200-linux"), need=Workload("a model", libraries=("onnx",)))
    assert found.placements[0].device.kind == "cpu"
    assert "needs ONNX Runtime" in found.warnings[0]
    (over,) = found.skipped
    assert over.device.name == "NVIDIA H200"


def test_work_that_gains_nothing_from_a_gpu_stays_on_the_cpu(machine: Machines) -> None:
    found = placed(machine("h200-linux"), need=Workload("a tiny model", gpu=False))
    assert found.placements[0].device.kind == "cpu"
    assert "does not benefit" in found.skipped[0].reason.message


def test_a_machine_where_nothing_runs_it(machine: Machines) -> None:
    with pytest.raises(DeviceUnusableError, match="no device can run a model"):
        placed(machine("h200-linux"), "cpu", need=Workload("a model", libraries=()))


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_machine_has_a_place_for_small_work(machine: Machines, name: str) -> None:
    here = machine(name)
    need = Workload("small work", ("torch", "onnx"), ("fp32", "bf16", "fp16"))
    if not any(device.usable for device in here.devices):
        with pytest.raises(DeviceUnusableError):
            plan_placement(here, chosen(here), need)
        return
    for placement in plan_placement(here, chosen(here), need).placements:
        assert placement.backend.usable
        assert placement.threads >= 1
        assert len(placement.reasons) >= 5
        total = placement.device.memory.total_bytes
        if total is not None and placement.budget_bytes is not None:
            assert 0 <= placement.budget_bytes <= total
        if placement.precision == "bf16":
            assert placement.device.features.bf16


def test_a_workers_allocator_is_told_before_it_starts(machine: Machines) -> None:
    (placement,) = placed(machine("h200-linux")).placements
    assert placement.variables == {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert any("expandable segments" in reason for reason in placement.reasons)
    (cpu,) = placed(machine("no-gpu")).placements
    assert cpu.variables == {}


def test_a_self_test_that_was_kept_reaches_the_placement(machine: Machines, tmp_path: Path) -> None:
    """Under the version that torch gives itself, not the title that is printed."""
    here = machine("h200-linux")
    gpu = here.gpus[0]
    assert "(" in here.packages["torch"]
    version = here.packages["torch"].partition(" ")[0]
    key = f"{gpu.id}; cuda; driver {gpu.driver_version}; torch {version}; cuDNN 1; test 1"
    bad = CheckResult("product", "", "bf16", "square", "wrong", 9.0, where="out")
    selftest.save_report(tmp_path / "tests.json", selftest.SelfTestReport((bad,), key, 1.0))
    found = selftest.find_reports(tmp_path / "tests.json", here.devices, version)
    assert set(found) == {gpu.id}
    assert set(found[gpu.id].failed_formats) == {"bf16"}
    assert selftest.find_reports(tmp_path / "tests.json", here.devices, "9.9") == {}


def test_tensorrt_is_a_way_where_its_libraries_are(machine: Machines) -> None:
    record = record_of("rtx4070-laptop-docker")
    plain = from_record(record).gpus[0]
    assert not any("tensorrt" in word for word in plain.selectors)
    record["packages"]["tensorrt-cu13"] = "10.14.1"
    drives = from_record(record).gpus[0].backends
    (way,) = [backend for backend in drives if backend.provider == "TensorrtExecutionProvider"]
    assert way.usable
    assert way.selector.startswith("tensorrt:")
    assert "tensorrt-cu13 10.14.1" in way.reason


def test_the_word_cpu_leaves_the_way_to_the_engine(machine: Machines) -> None:
    for backends in (("onnx", "torch"), ("torch", "onnx")):
        need = Workload("a model", libraries=backends)
        found = placed(machine("h200-linux"), "cpu", need=need)
        usable = [
            backend.library for backend in found.placements[0].device.backends if backend.usable
        ]
        assert found.placements[0].backend.library == next(b for b in backends if b in usable)
