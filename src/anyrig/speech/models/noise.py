"""Normal noise from a seed and a place, the same in any company and on any device.

A generator gives numbers in order, so a row's would depend on how many came before it. Here each is
a hash of the row's seed and of its own place in the row (`lowbias32` by Chris Wellons, twice over),
two of them turned normal by Box and Muller.
"""

from __future__ import annotations

import math

import torch

_BITS = 0xFFFFFFFF


def mixed(number: torch.Tensor) -> torch.Tensor:
    """32 bits well stirred, in int64."""
    number = ((number ^ (number >> 16)) * 0x7FEB352D) & _BITS
    number = ((number ^ (number >> 15)) * 0x846CA68B) & _BITS
    return number ^ (number >> 16)


def normal(seeds: torch.Tensor, steps: torch.Tensor, channels: int, stream: int) -> torch.Tensor:
    """Normal numbers of shape [..., channels] in fp32.

    Args:
        seeds: of each step's row, any integers, int64.
        steps: the number of each step in its row, of the same shape.
        channels: how many to a step.
        stream: another one gives other numbers from the same seed.
    """
    half = (channels + 1) // 2
    key = mixed(
        (seeds & _BITS) ^ mixed(((seeds >> 32) & _BITS) + 0x9E3779B9 * (stream + 1) & _BITS)
    )
    place = steps.unsqueeze(-1) * half + torch.arange(half, device=steps.device)
    first = mixed(mixed(place & _BITS) ^ key.unsqueeze(-1))
    second = mixed(first ^ 0x5BD1E995)
    # From (0, 1], since the logarithm is taken; 24 bits are exact in fp32.
    radius = torch.sqrt(-2.0 * torch.log(((first >> 8) + 1).float() * 2.0**-24))
    angle = (second >> 8).float() * (2.0 * math.pi * 2.0**-24)
    both = torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
    return both.flatten(-2)[..., :channels]
