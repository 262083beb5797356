"""Convolutions over time as the vocoders here need them: quick on tensor cores, and exact at ends.

Sound is held as [rows, time, channels]. torch takes that for a picture one line high whose channels
come last, the layout its fast kernels want: none turns a tensor round. A transposed convolution is
done as a plain one that gives all phases of a step as channels; in this layout the phases then lie
in the order of time, so that putting them there costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from anyrig.errors import InvalidInputError


class Weights:
    """Tensors by name, under a prefix, with weight norm undone."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], prefix: str = "") -> None:
        self._tensors, self._prefix = tensors, prefix

    def at(self, *names: str | int) -> Weights:
        """Those under a name."""
        return Weights(self._tensors, self._prefix + "".join(f"{name}." for name in names))

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def get(self, name: str) -> torch.Tensor:
        """One of them, in fp32."""
        try:
            return self._tensors[self._prefix + name].detach().float()
        except KeyError:
            raise InvalidInputError(
                f"the weights lack {self._prefix + name}",
                hint="The file belongs to another model, or is truncated: fetch it again.",
            ) from None

    def weight(self) -> torch.Tensor:
        """The weight of a layer. Weight norm keeps a length and a direction: joined here for good.

        torch has named the two in two ways.
        """
        for length, direction in (
            ("weight_g", "weight_v"),
            ("parametrizations.weight.original0", "parametrizations.weight.original1"),
        ):
            if length in self:
                towards = self.get(direction)
                norm: torch.Tensor = torch.linalg.vector_norm(towards.flatten(1), dim=1).reshape(
                    -1, *[1] * (towards.dim() - 1)
                )
                return self.get(length) * towards / norm
        return self.get("weight")

    def bias(self) -> torch.Tensor | None:
        """The bias of a layer that has one."""
        return self.get("bias") if "bias" in self else None


class Kind(NamedTuple):
    """Where tensors live and in which format."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    quick: bool = False
    """Whether kernels of our own do what stands between convolutions."""

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor, there and so."""
        return tensor.to(self.device, self.dtype)


def quick(device: torch.device) -> bool:
    """Whether our own kernels run there: they are written in Triton."""
    return device.type == "cuda" and find_spec("triton") is not None


class Conv:
    """A convolution over time of [rows, time, channels].

    Args:
        weight: [out, in, taps].
        bias: [out].
        kind: where it runs.
        padding: zeros at both ends.
        dilation: between taps.
        stride: between outputs.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        kind: Kind,
        *,
        padding: int | None = None,
        dilation: int = 1,
        stride: int = 1,
    ) -> None:
        taps = weight.shape[2]
        self.padding = (taps - 1) * dilation // 2 if padding is None else padding
        self.dilation, self.stride = dilation, stride
        self.weight = kind.put(weight.unsqueeze(2)).contiguous(memory_format=torch.channels_last)
        self.bias = None if bias is None else kind.put(bias)

    @classmethod
    def of(cls, weights: Weights, kind: Kind, *, dilation: int = 1, scale: float = 1.0) -> Conv:
        """One that keeps the length; `scale` is of its input."""
        return cls(weights.weight() * scale, weights.bias(), kind, dilation=dilation)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Of [rows, time, in], [rows, time, out]."""
        return self.run(x, self.bias)

    def bare(self, x: torch.Tensor) -> torch.Tensor:
        """Without the bias, for who adds it along with something else."""
        return self.run(x, None)

    def run(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """With a bias of one's own."""
        picture = x.transpose(1, 2).unsqueeze(2)
        done = F.conv2d(
            picture, self.weight, bias, stride=(1, self.stride),
            padding=(0, self.padding), dilation=(1, self.dilation),
        )  # fmt: skip
        return done.squeeze(2).transpose(1, 2)


class Upsample:
    """A transposed convolution that makes `stride` times as many steps, phase by phase."""

    def __init__(self, weights: Weights, kind: Kind, *, stride: int, scale: float = 1.0) -> None:
        weight, bias = weights.weight() * scale, weights.bias()
        self.stride = stride
        phases, self.reach = _phases(weight, stride)
        repeated = None if bias is None else bias.repeat(stride)
        self.conv = Conv(phases, repeated, kind, padding=self.reach)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Of [rows, time, in], [rows, time * stride, out]."""
        return self._in_time(self.conv(x))

    def bare(self, x: torch.Tensor) -> torch.Tensor:
        """Without the bias."""
        return self._in_time(self.conv.bare(x))

    def _in_time(self, phases: torch.Tensor) -> torch.Tensor:
        rows, length, _ = phases.shape
        return phases.contiguous().reshape(rows, length * self.stride, -1)


def _phases(weight: torch.Tensor, stride: int) -> tuple[torch.Tensor, int]:
    """The plain convolution that a transposed one is: [phases * out, in, taps], and its half width.

    Output `stride * q + phase` hears input `q + shift` through the tap
    `phase + padding - stride * shift`, where there is one.
    """
    num_in, num_out, taps = weight.shape
    assert taps >= stride, "steps that nothing reaches"
    assert (taps - stride) % 2 == 0, "only those that keep whole steps"
    padding = (taps - stride) // 2
    reach = max((taps - 1 - padding) // stride, (padding + stride - 1) // stride)
    made = weight.new_zeros(stride, num_out, num_in, 2 * reach + 1)
    for phase in range(stride):
        for shift in range(-reach, reach + 1):
            tap = phase + padding - stride * shift
            if 0 <= tap < taps:
                made[phase, :, :, shift + reach] = weight[:, :, tap].T
    return made.reshape(stride * num_out, num_in, -1), reach


class Silence:
    """Steps of a packed tensor that must be zero: what a convolution hears beside each row."""

    def __init__(self, positions: torch.Tensor | None) -> None:
        self._positions = positions
        self._kept: torch.Tensor | None = None

    def kept(self, x: torch.Tensor) -> torch.Tensor:
        """Of every step of a tensor of that size, 1 where it stays and 0 where it must be zero."""
        if self._kept is None:
            self._kept = x.new_ones(x.shape[0] * x.shape[1], dtype=torch.uint8)
            if self._positions is not None:
                self._kept.index_fill_(0, self._positions, 0)
        return self._kept

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The tensor itself, those steps zeroed in place."""
        if self._positions is not None:
            x.view(-1, x.shape[2]).index_fill_(0, self._positions, 0.0)
        return x


def spans(starts: Sequence[int], ends: Sequence[int]) -> NDArray[np.int64]:
    """Every position from each start up to its end, in order."""
    first, last = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    lengths = np.maximum(last - first, 0)
    offsets = np.repeat(first - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.arange(int(lengths.sum()), dtype=np.int64) + offsets


def to_device(array: NDArray[np.generic], device: torch.device) -> torch.Tensor:
    """An array on the device, without waiting for it where that can be."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
