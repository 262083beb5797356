"""Memory of devices: batch sizes that fit, out-of-memory errors, recovery from them."""

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
