"""Training on any device: steps that fit its memory, precision that cannot ruin a run, and runs
that continue after an interruption.

    from anyrig.training import Trainer

    Trainer(model, loader, loss=nn.CrossEntropyLoss(), epochs=3).fit()

Each part can be used alone in a loop of one's own; what is named here is loaded when it is used.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.monitor import Monitor
    from anyrig.training.callbacks import Callback
    from anyrig.training.config import TrainConfig
    from anyrig.training.data import optimize_dataloader
    from anyrig.training.loggers import PrintLogger
    from anyrig.training.losses import LossOutput
    from anyrig.training.own_loop import (
        MemoryProfile,
        MixedPrecision,
        find_batch_size,
        gpu_info,
        memory_usage,
        prepare_model,
        profile_memory,
        release_memory,
    )
    from anyrig.training.step import StepResult, TrainStep
    from anyrig.training.tasks import Task
    from anyrig.training.trainer import Trainer, TrainResult

_MODULES = {
    "Callback": "callbacks",
    "LossOutput": "losses",
    "MemoryProfile": "own_loop",
    "MixedPrecision": "own_loop",
    "PrintLogger": "loggers",
    "StepResult": "step",
    "Task": "tasks",
    "TrainConfig": "config",
    "TrainResult": "trainer",
    "TrainStep": "step",
    "Trainer": "trainer",
    "find_batch_size": "own_loop",
    "gpu_info": "own_loop",
    "memory_usage": "own_loop",
    "optimize_dataloader": "data",
    "prepare_model": "own_loop",
    "profile_memory": "own_loop",
    "release_memory": "own_loop",
}
__all__ = [
    "Callback", "LossOutput", "MemoryProfile", "MixedPrecision", "Monitor", "PrintLogger",
    "StepResult", "Task", "TrainConfig", "TrainResult", "TrainStep", "Trainer", "find_batch_size",
    "gpu_info", "memory_usage", "optimize_dataloader", "prepare_model", "profile_memory",
    "release_memory",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Monitor":
        from anyrig.monitor import Monitor

        return Monitor
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _without_collections():
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Importing makes no garbage, but enough objects to set off a collection over all of torch's:
    90 ms of CPU on top of 60.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
