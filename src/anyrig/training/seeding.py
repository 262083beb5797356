"""Random numbers by item: what an item draws depends on run, epoch and item, and on nothing else.

So augmentation is the same whatever the number of workers, and after a resume.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import torch

_MASK = (1 << 64) - 1


def mixed(*numbers: int) -> int:
    """One number of 64 bits from several; neighbours give numbers that have nothing in common."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ (number & _MASK)) & _MASK
        # The finisher of splitmix64.
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def seed_item(seed: int, epoch: int, item: int) -> None:
    """Seed Python, torch on the host, and numpy where it is loaded."""
    number = mixed(seed, epoch, item)
    random.seed(number)
    # Not torch.manual_seed: that one seeds the devices as well, and they are at work.
    torch.default_generator.manual_seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number & 0xFFFFFFFF)


@contextlib.contextmanager
def kept_random() -> Iterator[None]:
    """The host's random states are afterwards what they were before."""
    python, host = random.getstate(), torch.get_rng_state()
    numpy = sys.modules.get("numpy")
    arrays = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_rng_state(host)
        if numpy is not None:
            numpy.random.set_state(arrays)
