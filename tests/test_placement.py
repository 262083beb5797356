"""Where work runs, and how much memory it may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.devices.choose import DeviceChoice, DeviceRequest, choose_device
from anyrig.devices.discovery import from_record
from anyrig.devices.machine import Machine, Memory
from anyrig.devices.reasons import ReasonCode
from anyrig.errors import (
    DeviceUnusableError,
    InvalidInputError,
    InvalidOptionError,
    OutOfMemoryError,
    render,
)
from anyrig.placement import (
    PlacementOptions,
    PlacementPlan,
    Workload,
    memory_budget,
    plan_placement,
)
from anyrig.precision import selftest
from anyrig.precision.selftest import CheckResult
from anyrig.units import GIB
from tests.conftest import NAMES, record_of

Machines = Callable[..., Machine]
VOICE = Workload("the voice", precisions=("fp32", "bf16", "fp16"), worker_bytes=2 * GIB)


def choose(machine: Machine, selector: str = "auto") -> DeviceChoice:
    return choose_device(machine, [DeviceRequest(selector, "flag")])


def plan(
    machine: Machine, selector: str = "auto", workload: Workload = VOICE, **options: object
) -> PlacementPlan:
    choice = choose(machine, selector)
    return plan_placement(machine, choice, workload, PlacementOptions(**options))  # type: ignore[arg-type]


def test_gpu_placement(machine: Machines) -> None:
    found = plan(machine("h200-linux"))
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


def test_devices_share_the_cores(machine: Machines) -> None:
    found = plan(machine("h200-linux"), "all")
    assert [p.device.kind for p in found.placements] == ["gpu", "cpu"]
    assert {p.threads for p in found.placements} == {8}
    assert "8 threads: 16 usable cores over 2 processes" in found.placements[0].reasons
    assert found.fallback is None


def test_workers_share_the_memory_budget(machine: Machines) -> None:
    here = machine("h200-linux")
    (one,) = plan(here).placements
    (four,) = plan(here, workers_per_device=4).placements
    assert one.budget_bytes is not None
    assert four.budget_bytes == one.budget_bytes // 4
    assert four.workers == 4
    with pytest.raises(InvalidInputError, match=r"100 workers of 2 GiB each do not fit") as caught:
        plan(here, workers_per_device=100)
    assert "--workers-per-device" in render(caught.value.hint, "command")


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_workers_have_a_limit_by_the_cores(machine: Machines, device: str) -> None:
    here, small = machine("h200-linux"), Workload("tiny", worker_bytes=1)
    (found,) = plan(here, device, small, workers_per_device=32).placements
    assert found.workers == 32
    with pytest.raises(InvalidOptionError, match="at most 32 on this machine, which has 16 cores"):
        plan(here, device, small, workers_per_device=33)


@pytest.mark.parametrize(
    ("profile", "share"), [("quality", 0.85), ("balanced", 0.9), ("low-memory", 0.55)]
)
def test_profile_sets_the_budget(machine: Machines, profile: str, share: float) -> None:
    (placement,) = plan(machine("h200-linux"), profile=profile).placements
    total = placement.device.memory.total_bytes
    assert total is not None
    assert placement.budget_bytes == int(total * share)
    assert any(f"{share:.0%}" in reason and profile in reason for reason in placement.reasons)


def test_requested_options_win(machine: Machines) -> None:
    here = machine("h200-linux")
    (placement,) = plan(here, precision="fp32", memory_gb=24).placements
    assert (placement.precision, placement.budget_bytes) == ("fp32", 24 * GIB)
    (half,) = plan(here, memory_fraction=0.5).placements
    assert half.budget_bytes == (half.device.memory.total_bytes or 0) // 2


def test_measured_speeds_reach_the_placement(machine: Machines) -> None:
    here = machine("h200-linux")
    gpu = here.gpus[0].id
    speeds = {gpu: {("torch", "bf16"): 700e12, ("torch", "fp16"): 600e12, ("torch", "fp32"): 50e12}}
    found = plan_placement(here, choose(here), VOICE, speeds=speeds)  # type: ignore[arg-type]
    assert (found.placements[0].precision, found.placements[0].speed) == ("bf16", 700e12)


def test_format_that_failed_its_self_test_is_not_used(machine: Machines) -> None:
    here = machine("h200-linux")
    failed = {here.gpus[0].id: {"fp16": "NaN", "bf16": "NaN"}}
    found = plan_placement(here, choose(here), VOICE, failed=failed)  # type: ignore[arg-type]
    assert found.placements[0].precision == "fp32"


def test_workload_too_large_for_the_gpu_runs_on_the_cpu(machine: Machines) -> None:
    here = machine("arc-b580-linux")
    workload = Workload("a giant", ("torch", "onnx"), worker_bytes=15 * GIB)
    found = plan(here, workload=workload)
    assert found.placements[0].device.kind == "cpu"
    assert "needs 15 GiB, may use" in found.warnings[0]


def test_workload_too_large_for_every_device_is_an_error(machine: Machines) -> None:
    with pytest.raises(OutOfMemoryError, match="a giant does not fit on any device") as caught:
        plan(machine("t4-linux"), workload=Workload("a giant", worker_bytes=900 * GIB))
    assert "--memory-gb" in render(caught.value.hint, "command")


def test_engine_without_a_gpu_backend_runs_on_the_cpu(machine: Machines) -> None:
    found = plan(machine("h200-linux"), workload=Workload("a model", libraries=("onnx",)))
    assert found.placements[0].device.kind == "cpu"
    assert "needs ONNX Runtime" in found.warnings[0]
    (skipped,) = found.skipped
    assert skipped.device.name == "NVIDIA H200"


def test_workload_without_gpu_benefit_runs_on_the_cpu(machine: Machines) -> None:
    found = plan(machine("h200-linux"), workload=Workload("a tiny model", gpu=False))
    assert found.placements[0].device.kind == "cpu"
    assert found.skipped[0].reason.code is ReasonCode.NO_GPU_BENEFIT


def test_no_usable_backend_is_an_error(machine: Machines) -> None:
    with pytest.raises(DeviceUnusableError, match="no device can run a model"):
        plan(machine("h200-linux"), "cpu", workload=Workload("a model", libraries=()))


def test_small_workload_on_every_recorded_machine(
    machine: Machines, subtests: pytest.Subtests
) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            here = machine(name)
            workload = Workload("small work", ("torch", "onnx"), ("fp32", "bf16", "fp16"))
            if not any(device.usable for device in here.devices):
                with pytest.raises(DeviceUnusableError):
                    plan_placement(here, choose(here), workload)
                continue
            for placement in plan_placement(here, choose(here), workload).placements:
                assert placement.backend.usable
                assert placement.threads >= 1
                assert len(placement.reasons) >= 5
                total = placement.device.memory.total_bytes
                if total is not None and placement.budget_bytes is not None:
                    assert 0 <= placement.budget_bytes <= total
                if placement.precision == "bf16":
                    assert placement.device.features.bf16


def test_allocator_variables_are_set_for_workers(machine: Machines) -> None:
    (placement,) = plan(machine("h200-linux")).placements
    assert placement.variables == {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert any("expandable segments" in reason for reason in placement.reasons)
    (cpu,) = plan(machine("no-gpu")).placements
    assert cpu.variables == {}


def test_saved_self_test_is_found_by_torch_version(machine: Machines, tmp_path: Path) -> None:
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


def test_tensorrt_backend_needs_its_package(machine: Machines) -> None:
    record = record_of("rtx4070-laptop-docker")
    plain = from_record(record).gpus[0]
    assert not any("tensorrt" in selector for selector in plain.selectors)
    record["packages"]["tensorrt-cu13"] = "10.14.1"
    backends = from_record(record).gpus[0].backends
    (tensorrt,) = [one for one in backends if one.provider == "TensorrtExecutionProvider"]
    assert tensorrt.usable
    assert tensorrt.selector.startswith("tensorrt:")
    assert "tensorrt-cu13 10.14.1" in tensorrt.reason


def test_selector_cpu_leaves_the_library_to_the_engine(machine: Machines) -> None:
    for backends in (("onnx", "torch"), ("torch", "onnx")):
        workload = Workload("a model", libraries=backends)
        found = plan(machine("h200-linux"), "cpu", workload=workload)
        usable = [
            backend.library for backend in found.placements[0].device.backends if backend.usable
        ]
        assert found.placements[0].backend.library == next(b for b in backends if b in usable)


def test_synonym_of_a_library_selects_its_backend() -> None:
    record = record_of("rtx4070-laptop-docker")
    record["packages"]["tensorrt-cu13"] = "10.14.1"
    here = from_record(record)
    (named,) = plan(here, "tensorrt:0").placements
    (synonym,) = plan(here, "trt:0").placements
    assert named.backend.selector == "tensorrt:0"
    assert synonym.backend == named.backend


NOW = Memory("dedicated", 24 * GIB, 22 * GIB)
BUSY = Memory("dedicated", 24 * GIB, 10 * GIB)


@pytest.mark.parametrize(
    ("memory", "gib", "fraction", "expected", "words"),
    [
        (NOW, None, None, int(24 * GIB * 0.9), "90% of 24 GiB (balanced profile)"),
        (BUSY, None, None, 9 * GIB, "90% of the 10 GiB free"),
        (NOW, 10.0, None, 10 * GIB, "10 GiB requested"),
        (NOW, None, 0.5, 12 * GIB, "50% of the device's memory requested"),
        (BUSY, 40.0, None, 9 * GIB, "40 GiB requested, but only 10 GiB free; using 90% of that"),
        (BUSY, None, 0.5, 9 * GIB, "requested, but only 10 GiB free; using 90% of that"),
        (replace(NOW, free_bytes=None), 40.0, None, int(24 * GIB * 0.9), "but only 24 GiB free"),
        (NOW, 1e-12, None, 1, "requested"),
        (Memory(), None, None, None, "only speed"),
        (Memory(), 4.0, None, 4 * GIB, "4 GiB requested"),
        (Memory(), None, 0.5, None, "only speed"),
        (Memory("unified", None, 10 * GIB), None, 0.5, 9 * GIB, "90% of the 10 GiB free"),
    ],
)
def test_budget(
    machine: Callable[..., Machine],
    memory: Memory,
    gib: float | None,
    fraction: float | None,
    expected: int | None,
    words: str,
) -> None:
    device = replace(machine("h200-linux").gpus[0], memory=memory)
    options = PlacementOptions(memory_gb=gib, memory_fraction=fraction)
    num_bytes, reason = memory_budget(device, options)
    assert num_bytes == expected
    assert words in reason
