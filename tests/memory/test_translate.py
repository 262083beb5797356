"""Errors of memory and lost devices as ours: what was running, what was asked for, what to try."""

from __future__ import annotations

import weakref

import pytest

from anyrig.errors import DeviceLostError, OutOfMemoryError
from anyrig.memory import oom
from anyrig.memory.oom import Shortage, recognise

SHORTAGE = RuntimeError("CUDA error: out of memory")


class Memory:
    """What a device had."""

    free_bytes: int | None = 2**29
    total_bytes: int | None = 24 * 2**30


OPTIONS = ("--batch-size 4", "--memory-gb 6", "--device cpu")


def test_a_shortage_is_told_with_figures_and_options() -> None:
    error = RuntimeError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.50 GiB"
        " of which 512.00 MiB is free."
    )
    told = oom.translate(error, doing="embedding 64 texts", options=OPTIONS)
    assert isinstance(told, OutOfMemoryError)
    assert str(told) == (
        "the device ran out of memory while embedding 64 texts: 2 GiB asked for, "
        "512 MiB of 23.5 GiB free"
    )
    assert told.hint == "Try --batch-size 4, --memory-gb 6 or --device cpu."


def test_what_the_library_does_not_say_is_asked_of_the_device() -> None:
    told = oom.translate(SHORTAGE, doing="speaking", memory=Memory())
    assert str(told) == "the device ran out of memory while speaking: 512 MiB of 24 GiB free"
    assert told.hint
    # The device's figures say nothing of the host's memory, and the other way round.
    told = oom.translate(MemoryError(), doing="speaking", memory=Memory())
    assert str(told) == "the computer ran out of memory while speaking"
    told = oom.translate(MemoryError(), doing="speaking", memory=Memory(), memory_of="host")
    assert str(told).endswith("512 MiB of 24 GiB free")


def test_a_fatal_shortage_and_a_lost_device_need_a_new_process() -> None:
    fatal = RuntimeError(
        "level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)"
    )
    told = oom.translate(fatal, doing="training", options=OPTIONS[:1])
    assert isinstance(told, DeviceLostError)
    assert "out of memory while training" in str(told)
    assert told.hint.startswith("Try --batch-size 4. Only a new process")
    told = oom.translate(RuntimeError("CUDA error: unspecified launch failure"), doing="training")
    assert isinstance(told, DeviceLostError)
    assert str(told) == (
        "the device was lost while training: CUDA error: unspecified launch failure"
    )


def test_other_errors_cannot_be_told_so() -> None:
    with pytest.raises(ValueError, match="neither"):
        oom.translate(KeyError("x"), doing="nothing")


def test_what_was_told_is_recognised_again() -> None:
    told = oom.translate(RuntimeError("std::bad_alloc"), doing="reading")
    assert recognise(told) == Shortage("host", said=str(told))
    told = oom.translate(MemoryError("Unable to allocate 1.5 GiB"), doing="reading")
    found = recognise(told)
    assert found is not None
    assert found.asked_bytes == 3 * 2**29


def test_errors_leave_a_block_as_ours() -> None:
    asked = []

    def memory() -> Memory:
        asked.append(1)
        return Memory()

    with (
        pytest.raises(OutOfMemoryError, match="while speaking: 512 MiB of 24 GiB free") as raised,
        oom.translating("speaking", options=OPTIONS, memory=memory),
    ):
        raise SHORTAGE
    assert raised.value.__cause__ is SHORTAGE
    assert asked == [1]
    with pytest.raises(KeyError), oom.translating("speaking", memory=memory):
        raise KeyError("CUDA out of memory")
    assert asked == [1]


def test_a_device_that_cannot_tell_its_memory_hinders_nothing() -> None:
    def memory() -> Memory:
        raise RuntimeError("the device is gone")

    with pytest.raises(OutOfMemoryError), oom.translating("speaking", memory=memory):
        raise SHORTAGE


def test_a_translated_error_holds_none_of_the_step() -> None:
    class Tensor:
        """Stands for a tensor: a thing that can be referred to weakly."""

    held: list[weakref.ref[Tensor]] = []

    def step() -> None:
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        raise MemoryError

    with pytest.raises(OutOfMemoryError) as raised, oom.translating("speaking"):
        step()
    assert held[0]() is None
    assert raised.value.__cause__ is not None
    assert raised.value.__cause__.__traceback__ is not None  # its lines stay for who debugs
