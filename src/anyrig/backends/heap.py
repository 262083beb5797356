"""The host's heap, in a process that takes and frees large blocks of ever other sizes.

glibc gives such blocks back to the system at once, or late, as earlier sizes happened to teach it:
a voice on the CPU swung between 175 and 290 MB, and clearing fresh pages cost it time. It is told
to keep what was freed, and to keep it in one place: with a heap for each thread, what one thread
freed is of no use to another, and a voice still grew after hundreds of lines. With one for all it
stood still after eighty.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MOST_ARENAS = -1, -3, -8  # M_... of malloc.h
_LARGEST_KEPT = 32 << 20  # the most that glibc allows
_SLACK = 1 << 16  # small requests in between may move the next block by a little


def keep_freed(num_bytes: int = 512 << 20) -> bool:
    """Keep up to so many freed bytes for the next block of any thread; whether the C library can.

    Threads that have asked for memory before keep the heap they have.
    """
    mallopt = _mallopt()
    if mallopt is None:
        return False
    kept = mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT) and mallopt(_TRIM_THRESHOLD, num_bytes)
    return bool(kept and mallopt(_MOST_ARENAS, 1))


def trim() -> bool:
    """Give back whatever is free, wherever it lies between blocks in use; whether anything was.

    What was kept freed is cut into pieces over time, and a process grows by a few per cent in ten
    thousand lines; a trim now and then costs milliseconds and stops that.
    """
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return False


def limit_arenas(most: int = 2) -> bool:
    """Limit glibc to this many malloc arenas; False where the C library has none.

    By default it opens up to eight for each core, and threads leave pieces in all of them: a server
    whose requests ran on forty threads grew by 50 KB with each one that encoded speech.
    """
    mallopt = _mallopt()
    return mallopt is not None and bool(mallopt(_MOST_ARENAS, most))


def clear_next(num_bytes: int) -> None:
    """Clear the block that the next request for so many bytes will be given.

    For libraries that read their working memory before they write it: what they make then does not
    hang on what lay there before. The same request twice in a row is given the same block.
    """
    try:
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        libc.free.argtypes = [ctypes.c_void_p]
    except (OSError, AttributeError, TypeError):  # Windows gives large blocks cleared
        return
    # Both, as a hole may be large enough for the one and not for the other.
    for size in (num_bytes + _SLACK, num_bytes):
        block = libc.malloc(ctypes.c_size_t(size))
        if block:
            ctypes.memset(block, 0, size)
            libc.free(block)


def _mallopt() -> Callable[[int, int], int] | None:
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return None
    return found
