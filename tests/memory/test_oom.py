"""Every known message, from files with their sources; causes and contexts."""

from __future__ import annotations

import builtins
import concurrent.futures
import importlib
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import (
    AnyrigError,
    BrokerUnavailableError,
    InvalidInputError,
    LanguageModelError,
    StorageError,
)
from anyrig.memory.oom import MemoryShortage, detect_device_loss, detect_oom

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


def test_oom_is_detected(subtests: pytest.Subtests) -> None:
    for case in SHORT:
        with subtests.test(case=case):
            found = detect_oom(_error(case))
            assert found is not None
            assert (found.location, found.fatal) == (case["where"], case.get("fatal", False))
            assert found.requested_bytes == case.get("asked")
            assert found.free_bytes == case.get("free")
            assert found.total_bytes == case.get("total")
            text = case.get("text", "")
            assert found.message in text or not text or len(found.message) > 300


def test_device_loss_is_detected(subtests: pytest.Subtests) -> None:
    for case in LOST:
        with subtests.test(case=case):
            assert detect_device_loss(_error(case))


def test_look_alikes_are_not_detected(subtests: pytest.Subtests) -> None:
    for case in ALIKE:
        with subtests.test(case=case):
            error = _error(case)
            assert detect_oom(error) is None
            assert (detect_device_loss(error) is not None) == case.get("lost", False)


@pytest.mark.parametrize("kind", [LanguageModelError, BrokerUnavailableError, StorageError])
@pytest.mark.parametrize(
    "text",
    ["CUDA out of memory. Tried to allocate 2.00 GiB.", "CUDA error: unspecified launch failure"],
)
def test_what_another_machine_says_is_not_about_this_one(
    kind: type[AnyrigError], text: str
) -> None:
    error = kind(f"the server answered 500: {text}", hint="")
    assert detect_oom(error) is None
    assert detect_device_loss(error) is None


@pytest.mark.parametrize("word", ["error", "RuntimeError", "with", "message"])
def test_a_quoted_error_counts(word: str) -> None:
    assert detect_oom(RuntimeError(f"the child ended, {word} 'CUDA error: out of memory'"))


def test_oom_is_not_device_loss() -> None:
    for case in SHORT:
        if not case.get("fatal"):
            assert detect_device_loss(_error(case)) is None, case["source"]


# -- real errors ----------------------------------------------------------------------------------


def test_errors_of_installed_libraries() -> None:
    import numpy as np
    import torch

    for request in (lambda: torch.empty(10**14), lambda: np.empty(10**14)):
        with pytest.raises((RuntimeError, MemoryError)) as raised:
            request()
        found = detect_oom(raised.value)
        assert found is not None
        assert found.location == "host"
        assert found.requested_bytes == pytest.approx(8e14, rel=0.51)
    with pytest.raises(RuntimeError) as overflow:
        torch.empty(2**62)
    assert detect_oom(overflow.value) is None


def test_onnx_runtime_out_of_memory() -> None:
    """On the CPU, with limited address space, in a process of its own."""
    code = """
import resource, onnxruntime, numpy as np
from anyrig.backends.onnx_graph import build_product
from anyrig.memory.oom import detect_oom
session = onnxruntime.InferenceSession(build_product(4096), providers=["CPUExecutionProvider"])
feeds = {one.name: np.ones((4096, 4096), np.float32) for one in session.get_inputs()}
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 2**25, -1))
try:
    session.run(None, feeds)
except Exception as error:
    print(type(error).__name__, detect_oom(error) is not None, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert " True " in done.stdout, done.stdout + done.stderr


def test_windows_error_codes() -> None:
    class Windows(OSError):  # winerror is None elsewhere
        winerror = 1455

    class Other(OSError):
        winerror = 2

    assert detect_oom(Windows(22, "Die Auslagerungsdatei ist zu klein")) == MemoryShortage(
        "host", message="[Errno 22] Die Auslagerungsdatei ist zu klein"
    )
    assert detect_oom(Other(22, "nicht gefunden")) is None


def test_error_code_of_accelerator_errors() -> None:
    import torch

    error = torch.AcceleratorError("CUDA error: text of another version")
    error.error_code = 2  # type: ignore[attr-defined]
    assert detect_oom(error) == MemoryShortage(
        "device", message="CUDA error: text of another version"
    )
    error.error_code = 700  # type: ignore[attr-defined]
    assert detect_oom(error) is None
    assert detect_device_loss(error) == "CUDA error: text of another version"


# -- causes and contexts -------------------------------------------------------------------------


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


def test_cause_counts() -> None:
    assert detect_oom(_raised(ValueError("engine failed"), SHORTAGE, explicit=True))
    assert detect_device_loss(
        _raised(
            ValueError("x"), RuntimeError("CUDA error: unspecified launch failure"), explicit=True
        )
    )


def test_context_counts_only_if_quoted() -> None:
    assert detect_oom(_raised(ValueError("bad setting"), SHORTAGE, explicit=False)) is None
    quoting = ValueError(f"cannot embed: {SHORTAGE}")
    assert detect_oom(_raised(quoting, SHORTAGE, explicit=False))


_LONG = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 4.00 GiB of"
    " which 0 bytes is free. Of the allocated memory 3.27 GiB is allocated by PyTorch, and 257.08"
    " MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try"
    " setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See"
    " documentation for Memory Management"
)


def _quotations(inner: BaseException) -> Iterator[str]:
    yield f"cannot embed: {inner}"
    yield f"cannot embed: {inner!r}"
    yield f"cannot embed 'a sentence':\n    {inner}\nand then some"
    yield f"{'a long sentence ' * 5000} failed: {inner}"
    yield f"cannot embed: {str(inner)[:200]}..."


def test_long_quotation_counts(subtests: pytest.Subtests) -> None:
    import torch

    for inner in (torch.OutOfMemoryError(_LONG), RuntimeError(f"{_LONG}\n{'a detail; ' * 9000}")):
        for text in _quotations(inner):
            with subtests.test(text=text[:60], inner=type(inner)):
                quoting = ValueError(text)
                found = detect_oom(_raised(quoting, inner, explicit=False))
                assert found is not None
                assert found.requested_bytes == 20 * 2**20
                assert detect_oom(ValueError(text)) is None  # without the error it quotes
        other = ValueError("cannot embed: CUDA out of memory is what the text is about")
        assert detect_oom(_raised(other, inner, explicit=False)) is None
    lost = RuntimeError(f"CUDA error: an illegal memory access was encountered {'x' * 500}")
    assert detect_device_loss(_raised(ValueError(f"failed: {lost}"), lost, explicit=False))


def test_message_at_the_end_of_a_long_text() -> None:
    output = "loading layer 7\n" * 9000
    assert detect_oom(RuntimeError(f"the process ended:\n{output}\n{_LONG}"))
    assert detect_oom(RuntimeError(f"{_LONG}\n{output}"))


def test_cyclic_error_chain() -> None:
    left, right = ValueError("left"), ValueError("right")
    left.__cause__, right.__cause__ = right, left
    assert detect_oom(left) is None
    assert detect_device_loss(left) is None


def test_group_counts_if_all_members_do() -> None:
    import asyncio

    both = ExceptionGroup("two", [SHORTAGE, MemoryError()])
    assert detect_oom(both) == MemoryShortage("device", message="CUDA error: out of memory")
    assert detect_oom(ExceptionGroup("two", [SHORTAGE, ValueError("x")])) is None
    assert detect_oom(ExceptionGroup("twice the same", [SHORTAGE, SHORTAGE]))
    cancelled = BaseExceptionGroup("two", [asyncio.CancelledError(), MemoryError()])
    assert detect_oom(cancelled) == MemoryShortage("host")
    fatal = RuntimeError("error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)")
    nested = detect_oom(ExceptionGroup("one", [both, ExceptionGroup("deep", [fatal])]))
    assert nested is not None
    assert nested.fatal


def test_traceback_in_the_text_is_ignored() -> None:
    """torch's data loaders put a worker's traceback into the text of the error they raise."""
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
    assert detect_oom(RuntimeError(handled)) is None
    real = handled.replace("shapes do not fit", "CUDA error: out of memory")
    assert detect_oom(RuntimeError(real))


def _run_out() -> None:
    raise MemoryError("in a child")


def test_error_of_another_process() -> None:
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        error = pool.submit(_run_out).exception()
    assert error is not None
    assert detect_oom(error) == MemoryShortage("host", message="in a child")


def test_error_without_text() -> None:
    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise KeyError("no text")

    assert detect_oom(Mute("CUDA error: out of memory")) is None
    assert detect_device_loss(Mute()) is None


# -- cost -----------------------------------------------------------------------------------------

_PIECES = (
    "1", "1,", "1.1", "\n", " ", ":", "(", "[", "( )", "-", ", ", "CUDA ", "CUDA error ",
    "CUDA error 1",
    "in CUDA with error ", "Cuda failure (1) ", "hip error [2]: ", "ROCm failed in x::y<z> code ",
    "posix_memalign(", "cudaMalloc", "cuAllocAlloc ", "RESOURCE_EXHAUSTED ", "clclcl", "kIOkIO",
    "Failed to allocate 1", "alloc 1 ", "Unable to allocate 1.", "Allocation on device ",
    "by allocator c", "Traceback (most recent call last):\n", "stream s size ", "; 1",
)  # fmt: skip
_STARTS = (
    "CUDA error ", "Cuda failure 2 ", "HIP error: ", "CUDA a b error (", "posix_memalign(",
    "cudaMalloc ", "Failed to allocate ", "Requested : ", "RESOURCE_EXHAUSTED: ",
)  # fmt: skip


def _cpu_s(text: str) -> float:
    error = RuntimeError(text)
    start = time.thread_time()
    detect_oom(error)
    detect_device_loss(error)
    return time.thread_time() - start


def _is_linear(text: str) -> bool:
    """Whether four times the text costs no more than about four times the time."""
    return any(
        _cpu_s(text) < 10 * _cpu_s(text[: len(text) // 4]) + 0.02
        for _ in range(3)  # in case that other work disturbs
    )


def test_cost_grows_with_the_length_of_a_text_only() -> None:
    """A pattern that backtracks takes seconds for 24 digits, and minutes for 30."""
    for digits in (24, 28, 1000):
        assert _cpu_s(f"CUDA error {'1' * digits}x") < 0.2
    for piece in _PIECES:
        assert _is_linear(piece * (10_000 // len(piece))), piece
        for start in _STARTS:
            assert _is_linear(start + piece * (800 // len(piece))), (start, piece)


def test_text_of_other_types_is_not_read() -> None:
    """The type is looked at first: a KeyError may hold any text, of any length."""
    reads = 0

    class Counted(str):
        def __str__(self) -> str:
            nonlocal reads
            reads += 1
            return self

    class Refused(InvalidInputError):
        def __str__(self) -> str:
            nonlocal reads
            reads += 1
            return self.message

    text = "CUDA out of memory. Tried to allocate 20.00 MiB."
    for error in (ValueError(Counted(text)), Refused(text, hint="")):
        assert detect_oom(error) is None
        assert detect_device_loss(error) is None
    assert reads == 0


def test_no_framework_is_imported() -> None:
    code = """
import sys
from anyrig.memory.oom import detect_oom
assert detect_oom(RuntimeError("CUDA error: out of memory"))
print({"torch", "numpy", "onnxruntime"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr
