"""Apple's GPUs: what Metal gives a model, by chip generation.

fp16 runs at least at fp32's rate on all of them. Apple documents bfloat in Metal's language but not
which generations compute it natively, so bf16 stays unknown; there is no TF32, FP8 or FP4.
"""

from __future__ import annotations

from anyrig.devices.describe import Features

FEATURES = Features(fp16="fast", tf32=False, bf16=None, fp8=False, fp4=False)
# Metal's recommended working set: two thirds of memory up to 36 GiB, three quarters above, as
# machines of both kinds report it (10.67 of 16 GB, 48 of 64 GB).
SMALL_BYTES = 36 * 1024**3


def working_set(total_bytes: int) -> tuple[int, str]:
    """The bytes of unified memory a GPU may hold, and the rule behind it."""
    if total_bytes <= SMALL_BYTES:
        return total_bytes * 2 // 3, "two thirds of memory, Metal's working-set limit"
    return total_bytes * 3 // 4, "three quarters of memory, Metal's working-set limit"
