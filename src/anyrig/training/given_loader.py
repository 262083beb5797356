"""A person's own DataLoader: what it says is what happens."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Subset

from anyrig.training.seeding import kept_random


def items_of(loader: DataLoader[Any]) -> Any:
    """The items that a loader gives in an epoch, in its order, as a data set."""
    lists: Any = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    with kept_random():
        torch.default_generator.manual_seed(0)
        numbers = [
            number for some in lists for number in (some if isinstance(some, list) else [some])
        ]
    return Subset(loader.dataset, numbers)
