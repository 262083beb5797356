"""The largest batch, on simulated devices: jumps, kept pieces, spilling, silence, noise."""

from __future__ import annotations

import gc
import logging
import random
import weakref
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError
from anyrig.memory.fit import Fit, Trial, fit
from anyrig.memory.oom import Shortage
from anyrig.units import GIB, MIB
from tests.memory.simulated import Full, Simulated, recognise


def search(device: Simulated, **options: Any) -> Fit:
    options.setdefault("budget_bytes", device.capacity_bytes if device.told else None)
    return fit(device.step, meter=device, recognise=recognise, clock=device.clock, **options)


def check(device: Simulated, found: Fit, num_steps: int = 2) -> None:
    """What holds for every answer, whatever the device."""
    assert found.answer.size == found.batch
    assert device.steps.count(found.batch) >= num_steps
    assert found.answer.num_steps >= num_steps
    if found.budget_bytes is not None and found.answer.peak_bytes is not None:
        assert found.answer.peak_bytes <= found.budget_bytes
    assert found.num_out_of_memory == device.failures
    assert {one.size for one in found.tries} == set(device.steps)
    others = [one.size for one in found.tries if one is not found.answer and one.ran]
    assert len(set(others)) == len(others), "a size was tried twice, and it is not the answer"


near_lines = st.builds(
    Simulated,
    capacity_bytes=st.integers(4 * GIB, 80 * GIB),
    fixed_bytes=st.integers(0, 3 * GIB),
    slope_bytes=st.integers(8 * MIB, 700 * MIB),
    optimiser_peak_bytes=st.integers(0, 512 * MIB),
    kept=st.floats(0, 0.08),
    stuck=st.floats(0, 1),
    rounding_bytes=st.sampled_from([1, 512, 2 * MIB, 20 * MIB]),
)


def num_hidden(device: Simulated) -> int:
    """How many tries show the optimiser's peak alone, when each goes as far as is surely safe.

    Until a batch takes more than that peak, nothing tells its slope: all that is known is that it
    takes no more, so a size may grow as often as the peak goes into what is free. To be bolder is
    to run out of memory where the slope is steep.
    """
    peak, room = device.optimiser_peak_bytes, device.capacity_bytes - device.fixed_bytes
    found, size = 0, 1
    while size * device.slope_bytes < peak:
        found += 1
        size = max(size + 1, int(size * room / (peak * (1 + device.kept))))
    return found


def check_near_line(device: Simulated) -> None:
    """One failure, tries within the bound, and five per cent but for one piece of the allocator.

    Simulated 60,000 times, 20,000 each uniformly over `near_lines`, over `hidden_slopes` and with
    every value often at its ends: never more than six tries where the peak hides at most two of
    them, nor more than four beyond the hidden ones; never two failures. Five answers in 60,000 were
    more than five per cent low, where pieces are larger than what an item takes; none against a
    device that is one piece smaller. Over six tries were: none of the uniform curves, 580 and 171
    of the others, eleven at most.
    """
    found = search(device)
    check(device, found)
    assert len(found.tries) <= max(6, num_hidden(device) + 4)
    assert found.num_out_of_memory <= 1
    assert found.batch >= 0.95 * device.largest(device.capacity_bytes - device.rounding_bytes)


@settings(max_examples=300, deadline=None)
@given(near_lines.filter(lambda device: num_hidden(device) <= 2))
def test_nearly_a_line(device: Simulated) -> None:
    """Six tries, one failure and five per cent: the bar for the H200, on any near-linear curve."""
    check_near_line(device)


hidden_slopes = st.builds(
    Simulated,
    capacity_bytes=st.integers(4 * GIB, 5 * GIB),
    fixed_bytes=st.integers(0, 3 * GIB),
    slope_bytes=st.integers(8 * MIB, 12 * MIB),
    optimiser_peak_bytes=st.integers(256 * MIB, 512 * MIB),
    kept=st.floats(0, 0.08),
    stuck=st.floats(0, 1),
    rounding_bytes=st.sampled_from([1, 512, 2 * MIB, 20 * MIB]),
)


@settings(max_examples=300, deadline=None)
@given(hidden_slopes)
@example(
    Simulated(
        capacity_bytes=4 * GIB,
        fixed_bytes=2_727_777_863,
        slope_bytes=8_388_688,
        optimiser_peak_bytes=512 * MIB,
        rounding_bytes=1,
    )  # fmt: skip
)
def test_a_slope_that_the_optimisers_peak_hides(device: Simulated) -> None:
    """A peak that fills much of the memory costs tries, not failures: the example takes seven."""
    check_near_line(device)


anything = st.builds(
    Simulated,
    capacity_bytes=st.integers(1 * GIB, 80 * GIB),
    fixed_bytes=st.integers(0, 900 * MIB),
    slope_bytes=st.integers(0, 2 * GIB),
    optimiser_peak_bytes=st.integers(0, 2 * GIB),
    kept=st.floats(0, 0.5),
    stuck=st.floats(0, 1),
    jump_at=st.integers(1, 200),
    jump_bytes=st.integers(0, 20 * GIB),
    rounding_bytes=st.sampled_from([1, 2 * MIB, 20 * MIB]),
    spills=st.booleans(),
    told=st.booleans(),
    sticky=st.booleans(),
)


@settings(max_examples=300, deadline=None)
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
    """Never an untested size, never over the budget, never more tries than allowed."""
    try:
        found = search(device, most=most, start=start, multiple=multiple, max_trials=max_trials)
    except OutOfMemoryError:
        tried = set(device.steps)
        assert min(tried) == multiple or len(tried) == max_trials or device.sticky
        return
    check(device, found)
    assert found.batch % multiple == 0
    assert most is None or max(device.steps) <= most
    assert len(found.tries) <= max_trials


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3000), st.floats(1.0, 1.3), st.randoms(use_true_random=False))
def test_a_spill_without_figures_is_seen_by_its_speed(
    most: int, noise: float, source: random.Random
) -> None:
    device = Simulated(
        capacity_bytes=2 * GIB + most * MIB, slope_bytes=MIB, spills=True, told=False,
        noise=lambda: source.uniform(1.0, noise), rounding_bytes=1,
    )  # fmt: skip
    found = search(device)
    check(device, found)
    assert 0.94 * most <= found.batch <= most
    assert found.tries[-1].outcome in ("ran", "slow")
    assert len(found.tries) <= 20


def test_a_driver_that_spills_stops_at_the_budget() -> None:
    device = Simulated(spills=True, kept=0.03)
    found = search(device, budget_bytes=12 * GIB)
    check(device, found)
    assert found.num_out_of_memory == 0
    largest = max(n for n in range(1, 100) if device.taken(n) <= 12 * GIB)
    assert 0.95 * largest <= found.batch <= largest


def test_a_budget_that_is_not_real_is_seen_by_its_speed() -> None:
    """The driver says 48 GiB and spills from 24 on."""
    device = Simulated(capacity_bytes=24 * GIB, spills=True)
    found = search(device, budget_bytes=48 * GIB)
    check(device, found)
    assert found.batch <= device.largest()
    assert any(one.outcome == "slow" for one in found.tries)


def test_one_slow_moment_is_no_cliff() -> None:
    pauses = iter([1.0] * 8 + [30.0] + [1.0] * 1000)
    device = Simulated(told=False, noise=lambda: next(pauses))
    found = search(device, most=64)
    assert found.batch == 64
    assert all(one.ran for one in found.tries)


def test_the_optimisers_peak_does_not_hide_the_slope() -> None:
    """Sizes 1 to 8 all peak in the optimiser's step: a line through 1 and 2 would be flat."""
    device = Simulated(optimiser_peak_bytes=2 * GIB)
    found = search(device)
    check(device, found)
    assert found.num_out_of_memory <= 1
    assert found.batch >= 0.95 * device.largest()


def test_state_that_comes_with_the_first_step_is_counted() -> None:
    """A size that runs once and fails at its second step is no answer."""
    device = Simulated()
    plain = device.step
    runs: dict[int, int] = {}

    def step(size: int) -> object:
        runs[size] = runs.get(size, 0) + 1
        if runs[size] >= 2 and size > 40:
            device.failures += 1
            raise Full("state")
        return plain(size)

    device.step = step  # type: ignore[method-assign]
    found = search(device)
    assert 38 <= found.batch <= 40


def test_the_data_are_fewer_than_the_memory_holds() -> None:
    device = Simulated()
    found = search(device, most=10)
    assert found.batch == 10
    assert "all that was asked for" in found.reason
    assert max(device.steps) == 10


def test_a_known_size_is_where_the_next_run_starts() -> None:
    device = Simulated(kept=0.02)
    first = search(device)
    again = Simulated(kept=0.02)
    found = search(again, start=first.batch)
    assert found.batch >= first.batch
    assert len(found.tries) <= 2


def test_a_start_that_is_too_large_comes_down() -> None:
    device = Simulated()
    found = search(device, start=5000)
    check(device, found)
    assert found.batch >= 0.95 * device.largest()


def test_a_slow_device_is_not_kept_busy_for_hours() -> None:
    device = Simulated(seconds_an_item=5.0)
    found = search(device, longest_trial_s=60.0)
    check(device, found)
    assert found.batch == 5
    assert max(one.seconds for one in found.tries) <= 61.0
    assert "a try takes" in found.reason


def test_a_search_goes_on_from_what_was_tried() -> None:
    device = Simulated(kept=0.03)
    trial = Trial(device.step, device, device.capacity_bytes, recognise, clock=device.clock)
    swept = [trial.run(size) for size in (1, 2, 4, 8, 16, 32, 64)]
    found = search(device, tried=swept)
    check(device, found)
    assert found.tries[:7] == tuple(swept)
    assert len(found.tries) <= 10
    assert found.batch >= 0.95 * device.largest()


def test_nothing_fits() -> None:
    device = Simulated(slope_bytes=30 * GIB)
    with pytest.raises(
        OutOfMemoryError, match="a batch of 1 does not fit: no room for 1"
    ) as caught:
        search(device)
    assert "checkpointing" in caught.value.hint
    over = Simulated(slope_bytes=30 * GIB, spills=True)
    with pytest.raises(OutOfMemoryError, match="it took 32 GiB of 24 GiB"):
        search(over)
    with pytest.raises(OutOfMemoryError, match="no smaller one was tried: all 2 tries are used"):
        search(Simulated(), start=5000, max_trials=2)


def test_a_runtime_that_gives_nothing_back_ends_the_search() -> None:
    """A smaller size would be judged by the memory of the larger one before it."""
    device = Simulated(sticky=True, spills=True, jump_at=20, jump_bytes=30 * GIB)
    found = search(device)
    check(device, found)
    assert found.batch < 20
    assert "keeps what it once took" in found.reason


def test_any_other_error_is_raised() -> None:
    def step(size: int) -> object:
        raise ValueError("not memory")

    device = Simulated()
    with pytest.raises(ValueError, match="not memory"):
        fit(step, meter=device, budget_bytes=GIB, recognise=recognise, clock=device.clock)


def test_a_lost_device_ends_the_search() -> None:
    """It cannot be used again in this process."""

    def lost(_: BaseException) -> Shortage:
        return Shortage("device", fatal=True, said="device lost")

    device = Simulated(capacity_bytes=GIB)
    with pytest.raises(DeviceLostError, match="lost at a batch of 1: device lost"):
        fit(device.step, meter=device, budget_bytes=GIB, recognise=lost, clock=device.clock)


@pytest.mark.parametrize("options", [{"start": 0}, {"multiple": 0}, {"most": 4, "multiple": 8}])
def test_sizes_that_are_none(options: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError):
        search(Simulated(), **options)


class _Tensor:
    """Something large enough to be missed."""


def test_what_a_failed_step_held_is_gone_before_memory_is_released() -> None:
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
        except Full as error:
            raise Full("while failing") from error

    device.step = step  # type: ignore[method-assign]
    gc.disable()
    try:
        fit(device.step, meter=device, budget_bytes=device.capacity_bytes, recognise=recognise,
            start=4096, clock=device.clock)  # fmt: skip
    finally:
        gc.enable()
    assert device.failures
    assert max(alive_at_release) == 0


def test_the_log_holds_the_peak_of_every_size(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    with caplog.at_level(logging.INFO):
        found = search(Simulated(), tell=told.append)
    for one in found.tries:
        assert f"batch {one.size}: " in caplog.text
    assert "took" in caplog.text
    assert len(told) >= len(found.tries)
    assert found.fastest.rate == max(one.rate or 0 for one in found.tries)
    assert found.throughput == found.answer.rate
