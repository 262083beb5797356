"""The batch size search on simulated devices: jumps, caches, spilling, missing figures, noise."""

from __future__ import annotations

import gc
import logging
import platform
import random
import subprocess
import sys
import weakref
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError
from anyrig.memory.batch_size import (
    BatchSizeResult,
    BatchTrial,
    find_batch_size,
    sweep_batch_sizes,
)
from anyrig.memory.size_search import forecast_sizes
from anyrig.units import GIB, MIB
from tests.memory.simulated import Simulated


def search(device: Simulated, **options: Any) -> BatchSizeResult:
    options.setdefault("budget_bytes", device.capacity_bytes if device.reports_memory else None)
    return find_batch_size(device.step, device, clock=device.clock, **options)


def check(device: Simulated, found: BatchSizeResult, num_steps: int = 2) -> None:
    """What holds for every result, whatever the device."""
    assert found.best.size == found.batch_size
    assert device.steps.count(found.batch_size) >= num_steps
    assert found.best.num_steps >= num_steps
    if found.budget_bytes is not None and found.best.peak_bytes is not None:
        assert found.best.peak_bytes <= found.budget_bytes
    assert found.num_out_of_memory == device.failures
    assert {one.size for one in found.trials} == set(device.steps)
    others = [one.size for one in found.trials if one is not found.best and one.ran]
    assert len(set(others)) == len(others), "a size was tried twice, and it is not the result"


near_lines = st.builds(
    Simulated,
    capacity_bytes=st.integers(4 * GIB, 80 * GIB),
    fixed_bytes=st.integers(0, 3 * GIB),
    slope_bytes=st.integers(8 * MIB, 700 * MIB),
    optimizer_peak_bytes=st.integers(0, 512 * MIB),
    cached=st.floats(0, 0.08),
    stuck=st.floats(0, 1),
    rounding_bytes=st.sampled_from([1, 512, 2 * MIB, 20 * MIB]),
)


def num_hidden(device: Simulated) -> int:
    """How many trials see only the optimizer's peak, if each goes as far as is safe.

    Until a batch takes more than that peak, its slope is unknown: it takes no more than the peak,
    so a size may grow as often as the peak fits into the free memory. Growing faster would run out
    of memory where the slope is steep.
    """
    peak, room = device.optimizer_peak_bytes, device.capacity_bytes - device.fixed_bytes
    found, size = 0, 1
    while size * device.slope_bytes < peak:
        found += 1
        size = max(size + 1, int(size * room / (peak * (1 + device.cached))))
    return found


def check_near_line(device: Simulated) -> None:
    """One failure, a bounded number of trials, and within 5 % but for one block of the allocator.

    Simulated 60,000 times, 20,000 each uniformly over `near_lines`, over `hidden_slopes` and with
    values often at their ends: never more than four trials beyond those that see only the peak, nor
    two failures. Three results in 60,000 were more than 5 % low, where blocks are larger than an
    item; none against a device that is one block smaller. More than six trials: none of the uniform
    curves, 264 and 379 of the others, at most ten.
    """
    found = search(device)
    check(device, found)
    assert len(found.trials) <= max(6, num_hidden(device) + 4)
    assert found.num_out_of_memory <= 1
    assert found.batch_size >= 0.95 * device.largest(device.capacity_bytes - device.rounding_bytes)


@settings(max_examples=100, deadline=None)
@given(near_lines.filter(lambda device: num_hidden(device) <= 2))
def test_nearly_linear(device: Simulated) -> None:
    """Six trials, one failure and 5 %: the bar for the H200, on any near-linear curve."""
    check_near_line(device)


hidden_slopes = st.builds(
    Simulated,
    capacity_bytes=st.integers(4 * GIB, 5 * GIB),
    fixed_bytes=st.integers(0, 3 * GIB),
    slope_bytes=st.integers(8 * MIB, 12 * MIB),
    optimizer_peak_bytes=st.integers(256 * MIB, 512 * MIB),
    cached=st.floats(0, 0.08),
    stuck=st.floats(0, 1),
    rounding_bytes=st.sampled_from([1, 512, 2 * MIB, 20 * MIB]),
)


@settings(max_examples=100, deadline=None)
@given(hidden_slopes)
@example(
    Simulated(
        capacity_bytes=4 * GIB,
        fixed_bytes=2_727_777_863,
        slope_bytes=8_388_688,
        optimizer_peak_bytes=512 * MIB,
        rounding_bytes=1,
    )  # fmt: skip
)
def test_slope_hidden_by_the_optimizer_peak(device: Simulated) -> None:
    """A peak that fills much of the memory costs trials, not failures: the example takes seven."""
    check_near_line(device)


anything = st.builds(
    Simulated,
    capacity_bytes=st.integers(1 * GIB, 80 * GIB),
    fixed_bytes=st.integers(0, 900 * MIB),
    slope_bytes=st.integers(0, 2 * GIB),
    optimizer_peak_bytes=st.integers(0, 2 * GIB),
    cached=st.floats(0, 0.5),
    stuck=st.floats(0, 1),
    jump_at=st.integers(1, 200),
    jump_bytes=st.integers(0, 20 * GIB),
    rounding_bytes=st.sampled_from([1, 2 * MIB, 20 * MIB]),
    spills=st.booleans(),
    reports_memory=st.booleans(),
    sticky=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(
    anything,
    st.none() | st.integers(64, 5000),
    st.integers(1, 300),
    st.sampled_from([1, 8, 64]),
    st.integers(1, 12),
)
def test_any_curve(
    device: Simulated, most: int | None, start: int, multiple: int, max_trials: int
) -> None:
    """Never an untested size, never over the budget, never more trials than allowed."""
    try:
        found = search(device, max_size=most, start=start, multiple=multiple, max_trials=max_trials)
    except OutOfMemoryError:
        tried = set(device.steps)
        assert min(tried) == multiple or len(tried) == max_trials or device.sticky
        return
    check(device, found)
    assert found.batch_size % multiple == 0
    assert most is None or max(device.steps) <= most
    assert len(found.trials) <= max_trials


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3000), st.floats(1.0, 1.3), st.randoms(use_true_random=False))
def test_spilling_is_detected_by_speed_without_memory_figures(
    most: int, noise: float, source: random.Random
) -> None:
    device = Simulated(
        capacity_bytes=2 * GIB + most * MIB, slope_bytes=MIB, spills=True, reports_memory=False,
        noise=lambda: source.uniform(1.0, noise), rounding_bytes=1,
    )  # fmt: skip
    found = search(device)
    check(device, found)
    assert 0.94 * most <= found.batch_size <= most
    assert found.trials[-1].outcome in ("ran", "slow")
    assert len(found.trials) <= 20


def test_spilling_driver_stops_at_the_budget() -> None:
    device = Simulated(spills=True, cached=0.03)
    found = search(device, budget_bytes=12 * GIB)
    check(device, found)
    assert found.num_out_of_memory == 0
    largest = max(n for n in range(1, 100) if device.taken(n) <= 12 * GIB)
    assert 0.95 * largest <= found.batch_size <= largest


def test_spilling_below_the_budget_is_detected_by_speed() -> None:
    """The driver reports 48 GiB and spills from 24 GiB on."""
    device = Simulated(capacity_bytes=24 * GIB, spills=True)
    found = search(device, budget_bytes=48 * GIB)
    check(device, found)
    assert found.batch_size <= device.largest()
    assert any(one.outcome == "slow" for one in found.trials)


def test_a_single_slow_step_is_not_spilling() -> None:
    pauses = iter([1.0] * 8 + [30.0] + [1.0] * 1000)
    device = Simulated(reports_memory=False, noise=lambda: next(pauses))
    found = search(device, max_size=64)
    assert found.batch_size == 64
    assert all(one.ran for one in found.trials)


def test_optimizer_peak_at_small_sizes() -> None:
    """Sizes 1 to 8 all peak in the optimizer's step: a line through 1 and 2 would be flat."""
    device = Simulated(optimizer_peak_bytes=2 * GIB)
    found = search(device)
    check(device, found)
    assert found.num_out_of_memory <= 1
    assert found.batch_size >= 0.95 * device.largest()


def test_state_allocated_by_the_first_step() -> None:
    """A size that runs once and fails at its second step does not count."""
    device = Simulated()
    plain = device.step
    runs: dict[int, int] = {}

    def step(size: int) -> object:
        runs[size] = runs.get(size, 0) + 1
        if runs[size] >= 2 and size > 40:
            device.failures += 1
            raise MemoryError("state")
        return plain(size)

    device.step = step  # type: ignore[method-assign]
    found = search(device)
    assert 38 <= found.batch_size <= 40


def test_max_size() -> None:
    device = Simulated()
    found = search(device, max_size=10)
    assert found.batch_size == 10
    assert "10 is the requested maximum" in found.reason
    assert max(device.steps) == 10


def test_start_at_a_known_size() -> None:
    device = Simulated(cached=0.02)
    first = search(device)
    again = Simulated(cached=0.02)
    found = search(again, start=first.batch_size)
    assert found.batch_size >= first.batch_size
    assert len(found.trials) <= 2


def test_start_that_is_too_large() -> None:
    device = Simulated()
    found = search(device, start=5000)
    check(device, found)
    assert found.batch_size >= 0.95 * device.largest()


def test_slow_device_stops_at_the_time_limit() -> None:
    device = Simulated(seconds_per_item=5.0)
    found = search(device, max_trial_s=60.0)
    check(device, found)
    assert found.batch_size == 5
    assert max(one.seconds for one in found.trials) <= 61.0
    assert "a trial takes" in found.reason


def test_result_holds_if_steps_find_the_cache_of_earlier_ones() -> None:
    """Without a cache a first step takes less than those after it, which find other blocks."""
    device = Simulated(refilled=0.06)
    found = search(device)
    assert 0.95 * device.largest() <= found.batch_size <= device.largest()
    for _ in range(20):
        device.step(found.batch_size)


def test_result_holds_under_a_limit_of_reserved_memory() -> None:
    """A size that runs by emptying the cache in every step fails sooner or later."""
    device = Simulated(cached=0.1, max_retries=5)
    assert device.need(85) < device.capacity_bytes < device.reserved(85)
    found = search(device, start=85)
    assert found.trials[0].outcome == "over budget"
    assert found.trials[0].num_steps == 4
    assert 0.95 * device.largest() <= found.batch_size <= device.largest()
    for _ in range(20):
        device.step(found.batch_size)


def test_emptying_the_cache_once_is_no_failure() -> None:
    device = Simulated(max_retries=1)
    plain = device.step

    def step(size: int) -> object:
        device.num_retries += not device.steps
        return plain(size)

    device.step = step  # type: ignore[method-assign]
    assert search(device, start=80).trials[0].ran


def test_nothing_fits() -> None:
    device = Simulated(slope_bytes=30 * GIB)
    with pytest.raises(
        OutOfMemoryError, match="batch size 1 does not fit: no room for 1"
    ) as caught:
        search(device)
    assert "checkpointing" in caught.value.hint
    over = Simulated(slope_bytes=30 * GIB, spills=True)
    with pytest.raises(OutOfMemoryError, match="it took 32 GiB of a budget of 24 GiB"):
        search(over)
    with pytest.raises(
        OutOfMemoryError, match="smaller sizes were not tried: all 2 trials are used"
    ):
        search(Simulated(), start=5000, max_trials=2)


def test_runtime_that_never_releases_memory() -> None:
    """A smaller size would be judged by the memory of the larger one before it."""
    device = Simulated(sticky=True, spills=True, jump_at=20, jump_bytes=30 * GIB)
    found = search(device)
    check(device, found)
    assert found.batch_size < 20
    assert "does not release memory" in found.reason


def test_any_other_error_is_raised() -> None:
    def step(size: int) -> object:
        raise ValueError("not memory")

    device = Simulated()
    with pytest.raises(ValueError, match="not memory"):
        find_batch_size(step, device, budget_bytes=GIB, clock=device.clock)


def test_lost_device() -> None:
    """It cannot be used again in this process."""

    def step(size: int) -> object:
        raise RuntimeError("error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)")

    device = Simulated(capacity_bytes=GIB)
    with pytest.raises(DeviceLostError, match="lost at batch size 1: error: 40"):
        find_batch_size(step, device, budget_bytes=GIB, clock=device.clock)


@pytest.mark.parametrize(
    "options",
    [{"start": 0}, {"multiple": 0}, {"max_size": 4, "multiple": 8}, {"budget_bytes": 0},
     {"max_trial_s": 0.0}],
)  # fmt: skip
def test_invalid_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        search(Simulated(), **options)


class _Tensor:
    """Can be referenced weakly."""


def test_tensors_of_a_failed_step_are_freed_before_release() -> None:
    """The traceback of an error holds the frames, and they hold the tensors."""
    dead: list[weakref.ref[_Tensor]] = []
    alive_at_release: list[int] = []

    class Watched(Simulated):
        def release(self) -> None:
            alive_at_release.append(sum(ref() is not None for ref in dead))

    device = Watched()
    plain = device.step

    def step(size: int) -> object:
        tensor = _Tensor()
        dead.append(weakref.ref(tensor))
        try:
            return plain(size)
        except MemoryError as error:
            raise MemoryError("while failing") from error

    device.step = step  # type: ignore[method-assign]
    gc.disable()
    try:
        find_batch_size(device.step, device, budget_bytes=device.capacity_bytes,
            start=4096, clock=device.clock)  # fmt: skip
    finally:
        gc.enable()
    assert device.failures
    assert max(alive_at_release) == 0


def test_collections_of_a_search_do_not_look_at_the_objects_of_the_program() -> None:
    frozen: list[int] = []
    device = Simulated(on_host=True)
    plain = device.step

    def step(size: int) -> object:
        frozen.append(gc.get_freeze_count())
        return plain(size)

    device.step = step  # type: ignore[method-assign]
    gc.unfreeze()  # hypothesis freezes what is there when it begins
    find_batch_size(device.step, device, budget_bytes=device.capacity_bytes, clock=device.clock)
    sweep_batch_sizes(device.step, device, sizes=(1, 2))
    assert min(frozen) > 0
    assert gc.get_freeze_count() == 0


def test_log_and_progress(caplog: pytest.LogCaptureFixture) -> None:
    messages: list[str] = []
    with caplog.at_level(logging.INFO):
        found = search(Simulated(), on_progress=messages.append)
    for one in found.trials:
        assert f"batch size {one.size}: " in caplog.text
    assert "took" in caplog.text
    assert len(messages) >= len(found.trials)
    assert found.fastest.rate == max(one.rate or 0 for one in found.trials)


# -- forecast --------------------------------------------------------------------------------------


def trial(size: int, peak_bytes: int, idle_bytes: int = 0, outcome: Any = "ran") -> BatchTrial:
    return BatchTrial(size, outcome, 2, 1.0, 0.5, peak_bytes, peak_bytes, idle_bytes)


@given(st.integers(0, 8 * GIB), st.integers(MIB, GIB), st.integers(2, 40), st.integers(9, 80))
def test_forecast_on_a_line(fixed: int, slope: int, size: int, gib: int) -> None:
    trials = [trial(n, fixed + slope * n, fixed) for n in (1, size)]
    capacity = max(gib * GIB, fixed + slope * size)
    forecast = forecast_sizes(trials, capacity)
    assert forecast is not None
    assert forecast.max_size is not None
    assert size <= forecast.safe_size <= (capacity - fixed) // slope <= forecast.max_size


def test_forecast_at_the_ends_of_a_curve() -> None:
    # The optimizer's peak hides the slope: the safe size follows from idle memory alone.
    flat = [trial(size, 4 * GIB, 2 * GIB) for size in (1, 2)]
    assert forecast_sizes(flat, 24 * GIB) == (22, None, 2 * GIB)
    over = [trial(10, 10 * GIB), trial(40, 40 * GIB, outcome="over budget")]
    assert forecast_sizes(over, 24 * GIB) == (24, 24, 10 * GIB)
    # A peak at the budget was limited by the allocator: it predicts nothing.
    full = forecast_sizes([trial(10, 11 * GIB), trial(22, 24 * GIB)], 24 * GIB)
    assert full is not None
    assert full.safe_size == 22


# -- sweep -----------------------------------------------------------------------------------------


def test_sweep_of_powers_of_two_finds_the_largest() -> None:
    device = Simulated()
    seen: list[tuple[int, int]] = []
    found = sweep_batch_sizes(
        device.step, device, budget_bytes=device.capacity_bytes,
        on_progress=lambda _, done, total: seen.append((done, total)),
    )  # fmt: skip
    assert [one.size for one in found.trials][:7] == [1, 2, 4, 8, 16, 32, 64]
    assert 0.95 * device.largest() <= found.batch_size <= device.largest()
    assert all(done <= total for done, total in seen)


def test_sweep_of_given_sizes_stops_at_the_first_failure() -> None:
    device = Simulated(capacity_bytes=6 * GIB)
    found = sweep_batch_sizes(device.step, device, sizes=(32, 1, 4, 64, 16), budget_bytes=6 * GIB)
    assert [(one.size, one.outcome) for one in found.trials] == [
        (1, "ran"), (4, "ran"), (16, "ran"), (32, "out of memory"),
    ]  # fmt: skip
    assert found.batch_size == 16


def test_sweep_of_sizes_that_do_not_fit() -> None:
    with pytest.raises(OutOfMemoryError):
        sweep_batch_sizes(Simulated().step, Simulated(), sizes=(1000,))
    with pytest.raises(InvalidInputError, match="invalid batch sizes"):
        sweep_batch_sizes(Simulated().step, Simulated(), sizes=(0, 1))


# -- the host's memory -----------------------------------------------------------------------------

# In a process of its own: what other tests freed would be returned as well.
_FREED = """
import torch
from anyrig.backends import open_device
from anyrig.devices.discovery import discover
from anyrig.memory.batch_size import TrialRunner
cpu = discover({}).cpu_device
device = open_device(cpu, next(d for d in cpu.backends if d.library == "torch"))
torch.ones(4_000_000).free = torch.ones(10_000_000)  # raises the library's thresholds
held = [torch.ones(250_000) for _ in range(400)]  # 400 MB in blocks too small to be mapped alone
large = device.memory().allocated_bytes
keep = held[-1]
del held
TrialRunner(lambda size: None, device, None).release()
device.reset_peak()
small = device.memory()
print(large - small.allocated_bytes > 300_000_000, large - small.peak_bytes > 300_000_000)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or platform.machine() != "x86_64",
    reason="glibc; torch for ARM has an allocator of its own",
)
def test_freed_memory_is_returned_to_the_system() -> None:
    """So that a smaller batch can be measured after a larger one."""
    done = subprocess.run(
        [sys.executable, "-c", _FREED], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "True True\n", done.stderr
