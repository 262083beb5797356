"""Training on whatever there is: steps that fit, precision that cannot blow up, runs that survive.

    from anyrig.training import Settings, Trainer

    with Trainer(model, optimizer="adamw", data=pairs, loss=loss, settings=Settings()) as trainer:
        summary = trainer.run()

Each part can be used alone in a loop of one's own; what is named here is loaded when it is used.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.training.loop import Summary, Trainer
    from anyrig.training.protocol import Task
    from anyrig.training.settings import Settings

__all__ = ["Settings", "Summary", "Task", "Trainer"]
_WHERE = {
    "Settings": "settings",
    "Summary": "loop",
    "Task": "protocol",
    "Trainer": "loop",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _without_collections():
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Importing makes no garbage, but enough objects to set off a collection over all of torch's:
    90 ms of CPU on top of 60.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
