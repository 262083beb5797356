"""Every text that is known, from files with their sources; and what stands behind an error."""

from __future__ import annotations

import builtins
import concurrent.futures
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import DeviceLost, OutOfMemory
from anyrig.memory import oom
from anyrig.memory.oom import Shortage, device_lost, recognise, recognise_text

HERE = Path(__file__).parent


def _cases(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = tomllib.loads((HERE / name).read_text(encoding="utf-8"))["case"]
    return cases


SHORT = _cases("out_of_memory.toml")
LOST = _cases("device_lost.toml")
ALIKE = _cases("look_alikes.toml")


def _kind(case: dict[str, Any]) -> type[BaseException]:
    """The class itself where its library is here; else one of the same name and module."""
    module, _, name = case["type"].rpartition(":")
    if not module:
        kind: type[BaseException] = getattr(builtins, name)
        return kind
    if "bases" not in case:
        found: type[BaseException] = getattr(importlib.import_module(module), name)
        return found
    bases = tuple(getattr(builtins, base) for base in case["bases"])
    made: type[BaseException] = type(name, bases, {"__module__": module})
    return made


def _error(case: dict[str, Any]) -> BaseException:
    kind = _kind(case)
    if case["type"].endswith("_ArrayMemoryError"):  # made of a shape and a type
        import numpy as np

        return kind((2048, 2048, 2048, 4), np.dtype("uint8"))
    return kind(*case["args"]) if "args" in case else kind(case["text"])


def _name(case: dict[str, Any]) -> str:
    return str(case["source"])[:40]


@pytest.mark.parametrize("case", SHORT, ids=_name)
def test_a_shortage_is_recognised(case: dict[str, Any]) -> None:
    found = recognise(_error(case))
    assert found is not None
    assert (found.where, found.fatal) == (case["where"], case.get("fatal", False))
    assert found.asked_bytes == case.get("asked")
    assert found.free_bytes == case.get("free")
    assert found.total_bytes == case.get("total")
    text = case.get("text", "")
    assert found.said in text or not text or len(found.said) > 300


@pytest.mark.parametrize("case", LOST, ids=_name)
def test_a_lost_device_is_recognised(case: dict[str, Any]) -> None:
    assert device_lost(_error(case))


@pytest.mark.parametrize("case", ALIKE, ids=_name)
def test_a_look_alike_is_not(case: dict[str, Any]) -> None:
    error = _error(case)
    assert recognise(error) is None
    assert (device_lost(error) is not None) == case.get("lost", False)


@pytest.mark.parametrize(
    ("cases", "least"), [(SHORT, 60), (LOST, 20), (ALIKE, 40)], ids=["short", "lost", "alike"]
)
def test_no_two_are_alike_but_for_numbers(cases: list[dict[str, Any]], least: int) -> None:
    shapes = [
        re.sub(r"0x[0-9a-f]+|\d+", "0", f"{case['type']} {case.get('text', case.get('args'))}")
        for case in cases
    ]
    assert len(set(shapes)) == len(cases) >= least
    assert all(case["source"] for case in cases)


def test_a_plain_shortage_is_no_lost_device() -> None:
    for case in SHORT:
        if not case.get("fatal"):
            assert device_lost(_error(case)) is None, case["source"]


@pytest.mark.parametrize(
    "size", ["1.50 GiB", "1536.00 MiB", "1.5 GB", "1572864 KiB", "1610612736 bytes"]
)
def test_every_unit_is_read(size: str) -> None:
    found = recognise(RuntimeError(f"CUDA out of memory. Tried to allocate {size}."))
    assert found is not None
    assert found.asked_bytes == 3 * 2**29


# -- real ones -------------------------------------------------------------------------------------


def test_what_the_installed_libraries_raise() -> None:
    import numpy as np
    import torch

    for request in (lambda: torch.empty(10**14), lambda: np.empty(10**14)):
        with pytest.raises((RuntimeError, MemoryError)) as raised:
            request()
        found = recognise(raised.value)
        assert found is not None
        assert found.where == "host"
        assert found.asked_bytes == pytest.approx(8e14, rel=0.51)
    with pytest.raises(RuntimeError) as overflow:
        torch.empty(2**62)
    assert recognise(overflow.value) is None


def test_a_session_that_cannot_have_its_memory() -> None:
    """ONNX Runtime on the CPU, under a limit of address space, in a process of its own."""
    code = """
import resource, onnxruntime, numpy as np
from anyrig.backends import graph
from anyrig.memory.oom import recognise
session = onnxruntime.InferenceSession(graph.product(4096), providers=["CPUExecutionProvider"])
feeds = {one.name: np.ones((4096, 4096), np.float32) for one in session.get_inputs()}
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 2**25, -1))
try:
    session.run(None, feeds)
except Exception as error:
    print(type(error).__name__, recognise(error) is not None, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert " True " in done.stdout, done.stdout + done.stderr


def test_windows_codes_count() -> None:
    class Windows(OSError):  # winerror is None elsewhere
        winerror = 1455

    class Other(OSError):
        winerror = 2

    assert recognise(Windows(22, "Die Auslagerungsdatei ist zu klein")) == Shortage(
        "host", said="[Errno 22] Die Auslagerungsdatei ist zu klein"
    )
    assert recognise(Other(22, "nicht gefunden")) is None


def test_the_number_of_an_accelerator_error_counts() -> None:
    import torch

    error = torch.AcceleratorError("CUDA error: words of another version")
    error.error_code = 2  # type: ignore[attr-defined]
    assert recognise(error) == Shortage("device", said="CUDA error: words of another version")
    error.error_code = 700  # type: ignore[attr-defined]
    assert recognise(error) is None
    assert device_lost(error) == "CUDA error: words of another version"


# -- what stands behind an error -------------------------------------------------------------------


def _raised(outer: BaseException, inner: BaseException, *, explicit: bool) -> BaseException:
    try:
        try:
            raise inner
        except BaseException:  # noqa: BLE001
            if explicit:
                raise outer from inner
            raise outer  # noqa: B904 - an error raised beside another
    except BaseException as error:  # noqa: BLE001 - it is what is asked for
        return error


SHORTAGE = RuntimeError("CUDA error: out of memory")


def test_an_explicit_cause_counts() -> None:
    assert recognise(_raised(ValueError("engine failed"), SHORTAGE, explicit=True))
    assert device_lost(
        _raised(
            ValueError("x"), RuntimeError("CUDA error: unspecified launch failure"), explicit=True
        )
    )


def test_what_an_error_was_raised_beside_counts_only_when_quoted() -> None:
    assert recognise(_raised(ValueError("bad setting"), SHORTAGE, explicit=False)) is None
    quoting = ValueError(f"cannot embed: {SHORTAGE}")
    assert recognise(_raised(quoting, SHORTAGE, explicit=False))


def test_a_ring_of_errors_ends() -> None:
    left, right = ValueError("left"), ValueError("right")
    left.__cause__, right.__cause__ = right, left
    assert recognise(left) is None
    assert device_lost(left) is None


def test_a_group_counts_when_all_of_it_does() -> None:
    import asyncio

    both = ExceptionGroup("two", [SHORTAGE, MemoryError()])
    assert recognise(both) == Shortage("device", said="CUDA error: out of memory")
    assert recognise(ExceptionGroup("two", [SHORTAGE, ValueError("x")])) is None
    cancelled = BaseExceptionGroup("two", [asyncio.CancelledError(), MemoryError()])
    assert recognise(cancelled) == Shortage("host")
    fatal = RuntimeError("error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)")
    nested = recognise(ExceptionGroup("one", [both, ExceptionGroup("deep", [fatal])]))
    assert nested is not None
    assert nested.fatal


def test_a_traceback_in_a_text_is_not_read_as_words() -> None:
    """torch's loaders put a worker's traceback into the text of the error they raise."""
    handled = """Caught RuntimeError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "a.py", line 1, in step
    raise RuntimeError("CUDA out of memory")
RuntimeError: CUDA out of memory

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in step
    raise RuntimeError("no CUDA error: out of memory here")
RuntimeError: shapes do not fit"""
    assert recognise(RuntimeError(handled)) is None
    real = handled.replace("shapes do not fit", "CUDA error: out of memory")
    assert recognise(RuntimeError(real))


def _run_out() -> None:
    raise MemoryError("in a child")


def test_an_error_of_another_process_counts() -> None:
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        error = pool.submit(_run_out).exception()
    assert error is not None
    assert recognise(error) == Shortage("host", said="in a child")


def test_an_error_whose_words_cannot_be_had() -> None:
    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise KeyError("no words")

    assert recognise(Mute("CUDA error: out of memory")) is None
    assert device_lost(Mute()) is None


@pytest.mark.parametrize("piece", ["\n", " ", ":", "(", "1", "CUDA error ", "Cuda failure (1) "])
def test_a_long_text_is_read_in_time(piece: str) -> None:
    """A pattern that goes back and forth over a long text would take minutes, not moments."""
    code = (
        "import sys; from anyrig.memory import oom\n"
        f"print(oom.recognise(RuntimeError({piece!r} * 50_000)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "None", done.stderr


def test_a_text_alone_can_be_judged() -> None:
    found = recognise_text("RuntimeError: CUDA error: out of memory")
    assert found is not None
    assert found.where == "device"
    assert recognise_text("RuntimeError: shapes do not fit") is None


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, anyrig.memory.oom; print({'torch', 'numpy', 'onnxruntime'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


# -- telling ---------------------------------------------------------------------------------------


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
    assert isinstance(told, OutOfMemory)
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
    assert isinstance(told, DeviceLost)
    assert "out of memory while training" in str(told)
    assert told.hint.startswith("Try --batch-size 4. Only a new process")
    told = oom.translate(RuntimeError("CUDA error: unspecified launch failure"), doing="training")
    assert isinstance(told, DeviceLost)
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
        pytest.raises(OutOfMemory, match="while speaking: 512 MiB of 24 GiB free") as raised,
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

    with pytest.raises(OutOfMemory), oom.translating("speaking", memory=memory):
        raise SHORTAGE


def test_a_translated_error_holds_none_of_the_step() -> None:
    import weakref

    class Tensor:
        """Stands for a tensor: a thing that can be referred to weakly."""

    held: list[weakref.ref[Tensor]] = []

    def step() -> None:
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        raise MemoryError

    with pytest.raises(OutOfMemory) as raised, oom.translating("speaking"):
        step()
    assert held[0]() is None
    assert raised.value.__cause__ is not None
    assert raised.value.__cause__.__traceback__ is not None  # its lines stay for who debugs
