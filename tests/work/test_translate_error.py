"""What an engine raised, as an error with amounts and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyrig.backends.memory import MemoryUsage
from anyrig.errors import AnyrigError, OutOfMemoryError, WorkError
from anyrig.memory.oom import detect_oom
from anyrig.work.retry import translate_error

OPTIONS = ("--batch-size 4", "--memory-gb 6", "--device cpu")
SHORTAGE = RuntimeError("CUDA error: out of memory")


class Handle:
    def __init__(self, *, on_host: bool = False, broken: bool = False) -> None:
        self.on_host, self.broken = on_host, broken

    def memory(self) -> MemoryUsage:
        if self.broken:
            raise RuntimeError("the device is gone")
        return MemoryUsage(free_bytes=2**29, total_bytes=24 * 2**30)


def _translate(
    error: Exception, options: Sequence[str] = (), handle: Any = None, doing: str = "speaking"
) -> AnyrigError:
    return translate_error(error, detect_oom(error), doing, options, handle)


def test_amounts_and_options() -> None:
    error = RuntimeError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.50 GiB"
        " of which 512.00 MiB is free."
    )
    translated = _translate(error, OPTIONS, doing="embedding 64 texts")
    assert isinstance(translated, OutOfMemoryError)
    assert translated.message.startswith(
        "the device ran out of memory while embedding 64 texts: tried to allocate 2 GiB, "
        "512 MiB of 23.5 GiB free (RuntimeError: CUDA"
    )
    assert translated.hint == "Try --batch-size 4, --memory-gb 6 or --device cpu."


def test_amounts_of_the_device() -> None:
    text = "the device ran out of memory while speaking"
    translated = _translate(SHORTAGE, handle=Handle())
    assert translated.message.startswith(f"{text}: 512 MiB of 24 GiB free (")
    assert translated.hint
    assert _translate(SHORTAGE, handle=Handle(broken=True)).message.startswith(f"{text} (")
    # The device's figures say nothing about the host's memory, and vice versa.
    host = "the host ran out of memory while speaking"
    assert _translate(MemoryError(), handle=Handle()).message == f"{host} (MemoryError)"
    translated = _translate(MemoryError(), handle=Handle(on_host=True))
    assert translated.message == f"{host}: 512 MiB of 24 GiB free (MemoryError)"


def test_other_errors() -> None:
    assert type(_translate(KeyError("x"))) is WorkError


def test_translated_errors_are_detected_again() -> None:
    found = detect_oom(_translate(RuntimeError("std::bad_alloc")))
    assert found is not None
    assert found.location == "host"
    found = detect_oom(_translate(MemoryError("Unable to allocate 1.5 GiB")))
    assert found is not None
    assert found.requested_bytes == 3 * 2**29
