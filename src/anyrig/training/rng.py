"""Random states: captured and restored, derived where they are missing, and seeded by item.

States are those of torch on the host and the device, of Python, and of numpy where it is loaded. A
run that continues with another number of processes, or on another kind of device, lacks some. Those
are made from the seed, the step and the rank: the same every time, though not what an unbroken run
would have drawn, and `restore` says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import random
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def capture(device: torch.device | str = "cpu") -> dict[str, Any]:
    """The states of this process; a nest of tensors and plain values."""
    found: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    device = torch.device(device)
    source = _device_states(device)
    if source is not None:
        found[device.type] = source.get_rng_state(device)
    if "numpy" in sys.modules:
        import numpy

        state: Any = numpy.random.get_state(legacy=True)
        kind, keys, *rest = state
        found["numpy"] = [kind, torch.from_numpy(keys.astype("int64")), *rest]
    return found


def restore(
    states: Mapping[int, Mapping[str, Any]],
    rank: int = 0,
    device: torch.device | str = "cpu",
    *,
    seed: int = 0,
    step: int = 0,
) -> list[str]:
    """Put a rank's states back, and make those that were not kept.

    Args:
        states: by rank, as they were captured.
        rank: of this process.
        device: which this process trains on.
        seed: of the run, for what is missing.
        step: that the run goes on from, for what is missing.

    Returns:
        What could not be put back and was made anew, in words.
    """
    device = torch.device(device)
    mine = states.get(rank)
    if mine is None:
        _seed_all(device, derive_seed(seed, step, rank))
        return [f"process {rank} has no random state from before: made from seed, step and rank"]
    torch.set_rng_state(mine["torch"].cpu())
    random.setstate(mine["python"])
    if "numpy" in mine:
        import numpy

        kind, keys, *rest = mine["numpy"]
        numpy.random.set_state((kind, keys.cpu().numpy().astype("uint32"), *rest))
    source = _device_states(device)
    if source is None:
        return []
    if device.type in mine:
        source.set_rng_state(mine[device.type].cpu(), device)
        return []
    source.manual_seed(derive_seed(seed, step, rank))
    return [f"random numbers of {device.type} are made from seed, step and rank: it ran elsewhere"]


def derive_seed(seed: int, step: int, rank: int) -> int:
    """A number of 63 bits from three; neighbours share nothing."""
    text = f"anyrig {seed} {step} {rank}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1


def _seed_all(device: torch.device, number: int) -> None:
    _seed_host(number)
    source = _device_states(device)
    if source is not None:
        source.manual_seed(number)


def _device_states(device: torch.device) -> Any:
    """torch's module for the device's random numbers; None where it has none."""
    if device.type == "cpu":
        return None
    module = getattr(torch, device.type, None)
    if module is None or not hasattr(module, "get_rng_state"):
        return None  # DirectML: nothing can be asked
    return _Metal(module) if device.type == "mps" else module


class _Metal:
    """Metal has one device: its functions take none."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def get_rng_state(self, device: torch.device) -> torch.Tensor:
        state: torch.Tensor = self._module.get_rng_state()
        return state

    def set_rng_state(self, state: torch.Tensor, device: torch.device) -> None:
        self._module.set_rng_state(state)

    def manual_seed(self, number: int) -> None:
        self._module.manual_seed(number)


# -- items ----------------------------------------------------------------------------------------


_MASK = (1 << 64) - 1


def mix_seeds(*numbers: int) -> int:
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
    _seed_host(mix_seeds(seed, epoch, item))


def _seed_host(number: int) -> None:
    random.seed(number)
    # Not torch.manual_seed: that one seeds the devices as well, and they are at work.
    torch.default_generator.manual_seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number & 0xFFFFFFFF)


@contextlib.contextmanager
def preserved_host_rng() -> Iterator[None]:
    """The host's random states are afterwards what they were before."""
    states = capture_host()
    try:
        yield
    finally:
        restore_host(states)


def capture_host() -> tuple[Any, Any, Any]:
    """The host's random states: Python's, torch's, and numpy's where it is loaded."""
    numpy = sys.modules.get("numpy")
    arrays = numpy.random.get_state() if numpy is not None else None
    return random.getstate(), torch.get_rng_state(), arrays


def restore_host(states: tuple[Any, Any, Any]) -> None:
    """Put random states back."""
    python, host, arrays = states
    random.setstate(python)
    torch.set_rng_state(host)
    if arrays is not None:
        sys.modules["numpy"].random.set_state(arrays)
