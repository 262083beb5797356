"""Apple's GPUs: what Metal gives a model, by chip generation.

fp16 runs at fp32's rate on M1 to M4, not at twice it: what it saves is memory. From M5 on each core
has matrix units, which not every library uses yet: there fp16's rate stays unknown until measured.
Apple documents bfloat in Metal's language but not which generations compute it natively, so bf16
stays unknown; there is no TF32, FP8 or FP4.
"""

from __future__ import annotations

import re
from dataclasses import replace

from anyrig.devices.describe import Features
from anyrig.units import GIB

_FEATURES = Features(fp16="slow", tf32=False, bf16=None, fp8=False, fp4=False)
_WITH_MATRIX_UNITS = re.compile(r"Apple M([5-9]|[1-9]\d)\b")
# Metal's recommendedMaxWorkingSetSize as machines report it: 10.67 of 16 GiB, 27 of 36, 48 of 64,
# 107.5 of 128. Releases of macOS differ by up to a tenth; these are the smaller figures.
_SHARES = ((128 * GIB, 84, "84 %"), (36 * GIB, 75, "three quarters"))


def working_set(total_bytes: int) -> tuple[int, str]:
    """The bytes of unified memory a GPU may hold, and the rule behind it."""
    for least, percent, told in _SHARES:
        if total_bytes >= least:
            return total_bytes * percent // 100, f"{told} of memory, Metal's working-set limit"
    return total_bytes * 2 // 3, "two thirds of memory, Metal's working-set limit"


def features(name: str) -> Features:
    """What a chip computes in, by its name: `Apple M4 Max`."""
    return replace(_FEATURES, fp16=None) if _WITH_MATRIX_UNITS.match(name) else _FEATURES
