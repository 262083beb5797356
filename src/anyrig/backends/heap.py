"""The host's heap, in a process that takes and frees large blocks of ever other sizes.

glibc gives such blocks back to the system at once, or late, as earlier sizes happened to teach it:
a voice on the CPU swung between 175 and 290 MB, and clearing fresh pages cost it time. Told to keep
what was freed, it stood still at 268 MB after fifty lines, at no more CPU time.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_... of malloc.h
_LARGEST_KEPT = 32 << 20  # the most that glibc allows


def keep_freed(num_bytes: int = 512 << 20) -> bool:
    """Keep up to so many freed bytes for the next block; whether the C library can."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)) and bool(
        mallopt(_TRIM_THRESHOLD, num_bytes)
    )
