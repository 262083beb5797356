"""Data for a run, under one name: loaders, their plan, batches of any nesting, and a meter.

The parts are in `reading` (items to batches), `loader` (workers), `loading_plan` (how many, by
measurement), `nests` (batches of any nesting), `ahead` (copies beside the work) and `starving`.
"""

from __future__ import annotations

from anyrig.training.ahead import Ahead, ahead
from anyrig.training.loader import (
    Loader,
    Options,
    StreamLoader,
    failures_in_words,
    worker_failure,
)
from anyrig.training.loading_plan import Host, Plan, host_now, plan
from anyrig.training.nests import bytes_of, cut, pinned, size_of, to_device
from anyrig.training.reading import Picks, numbered
from anyrig.training.starving import Starvation

__all__ = [
    "Ahead", "Host", "Loader", "Options", "Picks", "Plan", "Starvation", "StreamLoader", "ahead",
    "bytes_of", "cut", "failures_in_words", "host_now", "numbered", "pinned", "plan", "size_of",
    "to_device", "worker_failure",
]  # fmt: skip
