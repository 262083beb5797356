"""Memory of devices: batch sizes that fit, out-of-memory errors, recovery from them.

The names below are for programs that use this package alone; they are imported late, as every
worker imports some module of it and none needs them all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.memory.batch_size import (
        BatchSizeResult,
        find_batch_size,
        plot_profile,
        sweep_batch_sizes,
    )
    from anyrig.memory.oom import MemoryShortage, detect_oom
    from anyrig.memory.recovery import RecoveryOutcome, run_with_recovery

__all__ = [
    "BatchSizeResult",
    "MemoryShortage",
    "RecoveryOutcome",
    "detect_oom",
    "find_batch_size",
    "plot_profile",
    "run_with_recovery",
    "sweep_batch_sizes",
]
_MODULES = {
    "MemoryShortage": "oom", "detect_oom": "oom", "RecoveryOutcome": "recovery",
    "run_with_recovery": "recovery",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'batch_size')}")
    return getattr(module, name)
