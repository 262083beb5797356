"""Looking on while a model is trained: figures, warnings, where they go, and a report.

`Recorder` is what a loop is given; its parts work alone: `Phases` times parts of a step,
`count_flops` says what a step computes, `find_nonfinite` names the module that spoils a run, and
`watch.report.report` draws a run from its `metrics.jsonl`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.training.watch.alerts import Alert, Rules
    from anyrig.training.watch.figures import Figures, RunEvent, Validation
    from anyrig.training.watch.flops import count_flops
    from anyrig.training.watch.health import find_nonfinite
    from anyrig.training.watch.phases import Phases
    from anyrig.training.watch.record import Recorder

__all__ = ["Alert", "Figures", "Phases", "Recorder", "Rules", "RunEvent", "Validation",
           "count_flops", "find_nonfinite"]  # fmt: skip
_WHERE = {
    "Alert": "alerts",
    "Rules": "alerts",
    "Figures": "figures",
    "RunEvent": "figures",
    "Validation": "figures",
    "Phases": "phases",
    "Recorder": "record",
    "count_flops": "flops",
    "find_nonfinite": "health",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
