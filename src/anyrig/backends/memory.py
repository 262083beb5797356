"""Memory figures that every backend gives, this process's resident memory, and glibc's heap."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from anyrig.devices.machine import Device

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h
_KEPT_BYTES = 512 << 20
_MAX_MMAP_THRESHOLD = 32 << 20  # the most that glibc allows
_SLACK = 1 << 16  # small requests in between may move the next block slightly


class MemoryUsage(NamedTuple):
    """This process's use of a device's memory. None: the framework does not say."""

    allocated_bytes: int | None = None
    """In live tensors; on a CPU, the process's resident memory."""
    reserved_bytes: int | None = None
    """Taken from the driver: live tensors and the framework's cache."""
    peak_bytes: int | None = None
    """The most that was allocated since `reset_peak`."""
    peak_reserved_bytes: int | None = None
    free_bytes: int | None = None
    """Free on the device, for all processes."""
    total_bytes: int | None = None
    num_alloc_retries: int = 0
    """How often the allocator had to empty its cache to serve a request, since the process began:
    with that cache the work would have taken more than the device, or a limit, allows."""

    @property
    def cached_bytes(self) -> int | None:
        """Reserved and in no tensor: the framework's cache."""
        if self.reserved_bytes is None or self.allocated_bytes is None:
            return None
        return max(0, self.reserved_bytes - self.allocated_bytes)


def read_torch_memory(device: Device) -> MemoryUsage | None:
    """This process's use of a GPU through torch; None where it has not loaded torch, or torch does
    not use that GPU. A GPU that torch has not used yet stays untouched.
    """
    torch = sys.modules.get("torch")
    backend = next((one for one in device.backends if one.usable and one.library == "torch"), None)
    if torch is None or backend is None:
        return None
    module = getattr(torch, {"rocm": "cuda"}.get(backend.provider, backend.provider), None)
    if module is None or not hasattr(module, "is_available") or not module.is_available():
        return None
    if hasattr(module, "is_initialized") and not module.is_initialized():
        return MemoryUsage(0, 0, 0, 0, total_bytes=device.memory.total_bytes)
    handle: Any = importlib.import_module("anyrig.backends.torch").TorchHandle(device, backend)
    usage: MemoryUsage = handle.memory()
    return usage


class ResidentMemory:
    """This process's resident memory.

    On Linux the kernel records the peak, which can be reset; elsewhere the peak is that of the
    moments at which `read` was called.
    """

    def __init__(self) -> None:
        import psutil

        self._process = psutil.Process()
        self._peak = 0
        self._has_kernel_peak = sys.platform == "linux" and _reset_kernel_peak()

    def reset_peak(self) -> None:
        self._peak = 0
        if self._has_kernel_peak:
            _reset_kernel_peak()

    def read(self, total_bytes: int | None) -> MemoryUsage:
        """Usage now; `total_bytes` is the memory within a container's limit, if that is known."""
        import psutil

        now = int(self._process.memory_info().rss)
        system = psutil.virtual_memory()
        self._peak = max(self._peak, now, _read_kernel_peak() if self._has_kernel_peak else 0)
        total = total_bytes or int(system.total)
        free = min(int(system.available), max(0, total - now))
        return MemoryUsage(now, now, self._peak, self._peak, free, total)


def _reset_kernel_peak() -> bool:
    with contextlib.suppress(OSError):
        _CLEAR_REFS.write_text("5")
        return True
    return False


def _read_kernel_peak() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def keep_freed_memory() -> bool:
    """Let glibc keep freed blocks for later requests of any thread; whether the C library can.

    By default glibc returns large blocks to the system at once, or late, depending on earlier
    sizes: a voice on the CPU swung between 175 and 290 MB, and clearing fresh pages took time. One
    arena for all threads: with one per thread, memory freed by one is of no use to another, and a
    voice still grew after hundreds of lines; with one arena it was stable after eighty. Threads
    that have allocated before keep their arena.
    """
    mallopt = _libc_function("mallopt")
    if mallopt is None:
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD) and mallopt(
        _M_TRIM_THRESHOLD, _KEPT_BYTES
    )
    return bool(kept and mallopt(_M_ARENA_MAX, 1))


def trim_heap() -> bool:
    """Return free memory between blocks in use to the system; whether there was any.

    Freed memory is fragmented over time, and a process grows by a few per cent in ten thousand
    lines; trimming now and then costs milliseconds and prevents that.
    """
    malloc_trim = _libc_function("malloc_trim")
    return malloc_trim is not None and bool(malloc_trim(0))


def limit_arenas(count: int = 2) -> bool:
    """Limit glibc to this many malloc arenas; False where the C library has none.

    By default it opens up to eight for each core, and threads leave pieces in all of them: a server
    whose requests ran on forty threads grew by 50 KB with each one that encoded speech.
    """
    mallopt = _libc_function("mallopt")
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, count))


def clear_next_block(num_bytes: int) -> None:
    """Zero the block that the next request of this size will get.

    For libraries that read their working memory before they write it: their results then do not
    depend on what was there before. The same request twice in a row gets the same block.
    """
    malloc, free = _libc_function("malloc"), _libc_function("free")
    if malloc is None or free is None:  # Windows gives large blocks zeroed
        return
    malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    # Both, since a hole may be large enough for one and not for the other.
    for size in (num_bytes + _SLACK, num_bytes):
        block = malloc(ctypes.c_size_t(size))
        if block:
            ctypes.memset(block, 0, size)
            free(block)


def _libc_function(name: str) -> Any:
    """A function of the C library; None on a system or in a library without it."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
