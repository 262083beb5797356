"""What records a device's kernels and plays them back: CUDA graphs.

Run on no CPU: what decides about recordings is in `graphs` and is tested with a tape of its own.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch

Play = Callable[[], None]


class Trial(NamedTuple):
    """A call that was made to learn about it."""

    loss: torch.Tensor
    host_s: float
    device_s: float
    waited: bool
    """Whether the host waited for the device within it: that cannot be recorded."""


class Tape(Protocol):
    """What records and plays."""

    def trial(self, work: Callable[[], torch.Tensor]) -> Trial:
        """Do it for real, where it will be recorded, and look."""

    def record(self, work: Callable[[], torch.Tensor]) -> tuple[Play, torch.Tensor]:
        """Record it without doing it: what plays it, and where its result will be."""

    def erase(self) -> None:
        """Give a recording's memory back, a failed one's as well."""


class CudaTape:
    """CUDA graphs: trials and recordings on one stream of their own."""

    def __init__(self, device: torch.device) -> None:
        make: Any = torch.cuda.Stream
        self._device, self._side = device, make(device)
        self._graph: torch.cuda.CUDAGraph | None = None

    def trial(self, work: Callable[[], torch.Tensor]) -> Trial:
        """On the side stream, as autograd remembers where a weight was used first."""
        now = torch.cuda.current_stream(self._device)
        self._side.wait_stream(now)
        event: Any = torch.cuda.Event
        marks = [event(enable_timing=True) for _ in range(2)]
        with torch.cuda.stream(self._side):
            self._side.synchronize()  # only what is launched from here on is timed
            marks[0].record()
            began = time.perf_counter()
            with _waits_seen() as waits:
                loss = work()
            host_s = time.perf_counter() - began
            marks[1].record()
        now.wait_stream(self._side)
        loss.record_stream(now)
        marks[1].synchronize()
        return Trial(loss, host_s, marks[0].elapsed_time(marks[1]) / 1000, bool(waits))

    def record(self, work: Callable[[], torch.Tensor]) -> tuple[Play, torch.Tensor]:
        """As a CUDA graph. Other threads may go on: pinning, checkpoints."""
        graph = torch.cuda.CUDAGraph()
        self._graph = graph
        pool = torch.cuda.graph_pool_handle()
        torch.cuda.synchronize(self._device)
        before = torch.cuda.get_rng_state(self._device)
        try:
            with torch.cuda.graph(graph, pool, self._side, capture_error_mode="thread_local"):
                loss = work()
        except Exception:
            self._repair(before, pool)
            raise
        return graph.replay, loss

    def _repair(self, before: torch.Tensor, pool: Any) -> None:
        """What a recording that broke off leaves recording: the generator, and the allocator.

        An allocator that believes in a recording frees nothing for the rest of the process.
        """
        index = torch.cuda.current_device() if self._device.index is None else self._device.index
        ends: Any = torch._C
        with contextlib.suppress(RuntimeError, AttributeError):
            ends._cuda_endAllocateToPool(index, pool)  # refused where torch has ended it
            ends._cuda_releasePool(index, pool)
        generator: Any = torch.cuda.default_generators[self._device.index or 0]
        with contextlib.suppress(RuntimeError, AttributeError):
            generator.graphsafe_set_state(generator.clone_state())
        with contextlib.suppress(RuntimeError):
            torch.cuda.set_rng_state(before, self._device)

    def erase(self) -> None:
        """Free the recording's pool."""
        if self._graph is not None:
            torch.cuda.synchronize(self._device)
            with contextlib.suppress(RuntimeError):
                self._graph.reset()
            self._graph = None
        torch.cuda.empty_cache()


@contextlib.contextmanager
def _waits_seen() -> Iterator[list[str]]:
    """What makes the host wait for the device in here, as torch tells it."""
    found: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for warning in heard:
        text = str(warning.message)
        if "synchronizing" in text:
            found.append(text)
        elif "ynchronization debug mode" not in text:  # torch says that this is a new feature
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
