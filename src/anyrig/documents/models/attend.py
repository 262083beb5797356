"""Attention over texts that lie one after the other, without padding between them.

`Varlen` is Flash Attention's own way, for half precision on a GPU that has it. `Grouped` is for
everything else: full precision, biases by distance, any device. It pads texts of like length to
each other for the attention alone, so that all the rest of the work stays without padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor

_SPARE = 1.15
"""Padded over real tokens of a group, at most."""
_MOST_SCORES = 1 << 26  # of one group: 128 MB a head where a kernel keeps them


class Attend(Protocol):
    """How texts of some lengths attend to themselves."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
        """All three are [tokens, heads, size]; `window` 0 looks everywhere."""


@dataclass(frozen=True)
class Rows:
    """Texts in a batch: how many tokens each has, on a device."""

    lengths: tuple[int, ...]
    device: torch.device

    @cached_property
    def counts(self) -> Tensor:
        """The lengths on the device."""
        return torch.tensor(self.lengths, device=self.device)

    @cached_property
    def edges(self) -> Tensor:
        """Where each text begins, and where the last one ends."""
        return F.pad(self.counts.cumsum(0, dtype=torch.int32), (1, 0))

    @cached_property
    def owners(self) -> Tensor:
        """For each token, which text it belongs to."""
        numbers = torch.arange(len(self.lengths), device=self.device)
        return numbers.repeat_interleave(self.counts, output_size=sum(self.lengths))

    @cached_property
    def places(self) -> Tensor:
        """For each token, its place in its text."""
        return torch.arange(sum(self.lengths), device=self.device) - self.edges[self.owners]


class Varlen:
    """Flash Attention over unequal lengths."""

    def __init__(self, rows: Rows) -> None:
        from torch.nn.attention.varlen import varlen_attn

        self._attend, self._edges = varlen_attn, rows.edges
        self._longest = max(rows.lengths)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
        """Attention."""
        more: Any = {"window_size": (window, window)} if window else {}
        edges, longest = self._edges, self._longest
        return cast(Tensor, self._attend(q, k, v, edges, edges, longest, longest, **more))


class Grouped:
    """Groups of like length, padded for the attention alone.

    Args:
        rows: the texts.
        bias: of MPNet, [buckets, heads]; none elsewhere.
    """

    def __init__(self, rows: Rows, bias: Tensor | None = None) -> None:
        self._groups = [_PaddedGroup(rows, members, bias) for members in _groups(rows.lengths)]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
        """Attention."""
        out = torch.empty_like(v)
        for group in self._groups:
            group.attend(q, k, v, window, out)
        return out


class _PaddedGroup:
    """Some texts, padded to the longest of them."""

    def __init__(self, rows: Rows, members: Sequence[int], bias: Tensor | None) -> None:
        longest = max(rows.lengths[n] for n in members)
        chosen = torch.tensor(members, device=rows.device)
        steps = torch.arange(longest, device=rows.device)
        counts = rows.counts[chosen]
        self._real = steps[None, :] < counts[:, None]
        self._whole = all(rows.lengths[n] == longest for n in members)
        self._from = (rows.edges[chosen][:, None] + steps[None, :]).where(self._real, 0)
        self._steps = steps
        self._bias = None if bias is None else _by_distance(bias, steps)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, window: int, out: Tensor) -> None:
        """Fill in the part of `out` that is these texts'."""
        q, k, v = (one[self._from].transpose(1, 2) for one in (q, k, v))
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask(window, q.dtype))
        out[self._from[self._real]] = found.transpose(1, 2)[self._real]

    def _mask(self, window: int, dtype: torch.dtype) -> Tensor | None:
        near = None
        if window:
            near = (self._steps[:, None] - self._steps[None, :]).abs() <= window
        if self._whole and near is None and self._bias is None:
            return None
        seen = self._real[:, None, None, :]
        seen = seen if near is None else seen & near
        if self._bias is None:
            return seen
        return torch.where(seen, self._bias.to(dtype), torch.finfo(dtype).min)


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Texts of like length together, the shortest first."""
    order = sorted(range(len(lengths)), key=lambda n: lengths[n])
    found: list[list[int]] = []
    real = 0
    for number in order:
        length = max(1, lengths[number])
        if found:
            count = len(found[-1]) + 1
            padded = count * length
            if padded <= _SPARE * (real + length) and padded * length <= _MOST_SCORES:
                found[-1].append(number)
                real += length
                continue
        found.append([number])
        real = length
    return found


def _by_distance(bias: Tensor, steps: Tensor) -> Tensor:
    """MPNet's bias for each pair of places: near distances alone, far ones by their logarithm."""
    buckets = bias.shape[0] // 2
    away = steps[None, :] - steps[:, None]
    near = buckets // 2
    far = away.abs()
    scaled = torch.log(far.clamp(min=1).float() / near) / math.log(128 / near) * (buckets - near)
    bucket = torch.where(far < near, far, (near + scaled.long()).clamp(max=buckets - 1))
    bucket = bucket + (away > 0).long() * buckets
    return bias[bucket].permute(2, 0, 1)[None]
