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
from anyrig.backends.onnx_graph import build_product
from anyrig.memory.oom import recognise
session = onnxruntime.InferenceSession(build_product(4096), providers=["CPUExecutionProvider"])
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
    assert recognise(ExceptionGroup("twice the same", [SHORTAGE, SHORTAGE]))
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
