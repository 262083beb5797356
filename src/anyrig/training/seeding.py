"""Random numbers by item: what an item draws depends on run, epoch and item, and on nothing else.

So augmentation is the same whatever the number of workers, and after a resume.
"""

from __future__ import annotations

import contextlib
import operator
import random
import sys
import zlib
from collections.abc import Iterator
from typing import Any

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


def seed_item(seed: int, epoch: int, item: Any) -> None:
    """Seed Python, torch on the host, and numpy where it is loaded."""
    try:
        item = operator.index(item)
    except TypeError:  # a key, or a list of numbers, as a sampler of one's own may give
        item = zlib.crc32(repr(item).encode())
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
    states = host_random()
    try:
        yield
    finally:
        put_host_random(states)


def host_random() -> tuple[Any, Any, Any]:
    """The host's random states: Python's, torch's, and numpy's where it is loaded."""
    numpy = sys.modules.get("numpy")
    arrays = numpy.random.get_state() if numpy is not None else None
    return random.getstate(), torch.get_rng_state(), arrays


def put_host_random(states: tuple[Any, Any, Any]) -> None:
    """Put random states back."""
    python, host, arrays = states
    random.setstate(python)
    torch.set_rng_state(host)
    if arrays is not None:
        sys.modules["numpy"].random.set_state(arrays)
