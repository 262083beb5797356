"""What one run learns of batch sizes, the next one begins with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from anyrig.devices.machine import Device, DeviceBackend
from anyrig.memory.limits import Limits
from anyrig.placement import Placement
from anyrig.work.engine import Recipe
from anyrig.work.known import Sizes, keep, key_of, sizes
from anyrig.work.outcome import Report
from anyrig.work.pace import Pace
from anyrig.work.pool import Pool
from anyrig.work.run import run

SEAT = Placement(Device("gpu", "gpu", "test", "gpu"), DeviceBackend("torch", "x", "cuda", True, ""))


def test_the_next_run_begins_right(tmp_path: Path) -> None:
    key = key_of(SEAT, "engine", "1", "driver 1")
    failures = []

    def engine(batch: Sequence[int]) -> Sequence[int]:
        if sum(batch) > 500:
            failures.append(len(batch))
            raise MemoryError
        return batch

    for expected in (1, 0):
        limits = Limits.load(tmp_path / "limits.json")
        begin = sizes(limits, key)
        pace = Pace(start=begin.start or 2048, failed=begin.failed)
        failures.clear()
        list(run([10] * 400, engine, cost=float, pace=pace))
        keep(limits, key, pace)
        assert (len(failures) > 0) == bool(expected)
    assert sizes(Limits.load(tmp_path / "limits.json"), key).start > 100


def test_nothing_is_known_under_another_version_driver_or_format(tmp_path: Path) -> None:
    limits = Limits.load(tmp_path / "limits.json")
    limits.record(key_of(SEAT, "engine", "1", "driver 1"), worked=100.0)
    assert sizes(limits, key_of(SEAT, "engine", "1", "driver 1")) == Sizes(100.0)
    for engine, version, stamp in (("other", "1", "driver 1"), ("engine", "2", "driver 1"),
                                   ("engine", "1", "driver 2")):  # fmt: skip
        assert sizes(limits, key_of(SEAT, engine, version, stamp)) == Sizes()


def test_a_pool_keeps_what_its_workers_learn(tmp_path: Path) -> None:
    seat = Placement(Device("a", "cpu", "test", "a"), DeviceBackend("onnx", "cpu", "cpu", True, ""))
    options = {"most_items": 64, "fits": 0.02, "call_s": 0.01}
    recipe = Recipe("anyrig.work.rehearse:Rehearsal", options, "rehearsal", "1")
    out_of_memory = []
    for _ in range(2):
        limits = Limits.load(tmp_path / "limits.json")
        report = Report()
        with Pool([seat], recipe, environment=os.environ, limits=limits) as pool:
            assert sum(1 for _ in pool.run([0.001] * 150, cost=float, report=report)) == 150
        out_of_memory.append(report.num_out_of_memory)
    assert out_of_memory[0] > 0
    assert out_of_memory[1] == 0
