"""Memory of devices: batch sizes that fit, out-of-memory errors, recovery from them."""

from anyrig.memory.batch_size import BatchSizeResult, find_batch_size
from anyrig.memory.oom import MemoryShortage, detect_oom
from anyrig.memory.profile import plot_profile, profile_batch_sizes
from anyrig.memory.recovery import RecoveryOutcome, run_with_recovery

__all__ = [
    "BatchSizeResult",
    "MemoryShortage",
    "RecoveryOutcome",
    "detect_oom",
    "find_batch_size",
    "plot_profile",
    "profile_batch_sizes",
    "run_with_recovery",
]
