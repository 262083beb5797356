"""What the vocoders share: convolutions over time, noise by seed, copies to the host.

Audio is held as [rows, time, channels]. torch sees an image one line high whose channels come last,
the layout its fast kernels want: nothing is transposed. A transposed convolution is computed
as a plain one that gives all phases of a step as channels; in this layout the phases then lie in
the order of time, so that putting them there costs nothing.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.errors import InvalidInputError

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""Of the vocoders; all others run in fp32."""
_BITS = 0xFFFFFFFF


class NamedTensors:
    """Tensors by name, under a prefix, with weight norm undone."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], prefix: str = "") -> None:
        self._tensors, self._prefix = tensors, prefix

    def at(self, *names: str | int) -> NamedTensors:
        return NamedTensors(self._tensors, self._prefix + "".join(f"{name}." for name in names))

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def get(self, name: str) -> torch.Tensor:
        """In fp32."""
        try:
            return self._tensors[self._prefix + name].detach().float()
        except KeyError:
            raise InvalidInputError(
                f"the weights lack {self._prefix + name}",
                hint="The file belongs to another model, or is truncated: download it again.",
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
                vector = self.get(direction)
                norm: torch.Tensor = torch.linalg.vector_norm(vector.flatten(1), dim=1).reshape(
                    -1, *[1] * (vector.dim() - 1)
                )
                return self.get(length) * vector / norm
        return self.get("weight")

    def bias(self) -> torch.Tensor | None:
        return self.get("bias") if "bias" in self else None


class TensorFormat(NamedTuple):
    """Where tensors live and in which format."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    fused: bool = False
    """Whether our own kernels run between convolutions."""

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, self.dtype)


@lru_cache(maxsize=64)
def has_triton(device: torch.device) -> bool:
    """Whether our own kernels run there: they are written in Triton.

    It compiles for NVIDIA from Volta on and for AMD, with the C compiler of the machine; for
    Windows its wheel brings one.
    """
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    has_compiler = os.name == "nt" or any(name and shutil.which(name) for name in compilers)
    return has_compiler and torch.cuda.get_device_capability(device) >= (7, 0)


class Conv:
    """A convolution over time.

    Args:
        weight: [out, in, taps].
        bias: [out].
        format: where it runs.
        padding: zeros at both ends.
        dilation: between taps.
        stride: between outputs.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        format: TensorFormat,
        *,
        padding: int | None = None,
        dilation: int = 1,
        stride: int = 1,
    ) -> None:
        taps = weight.shape[2]
        self.padding = (taps - 1) * dilation // 2 if padding is None else padding
        self.dilation, self.stride = dilation, stride
        self.weight = format.put(weight.unsqueeze(2)).contiguous(memory_format=torch.channels_last)
        self.bias = None if bias is None else format.put(bias)

    @classmethod
    def of(cls, weights: NamedTensors, format: TensorFormat, *, dilation: int = 1) -> Conv:
        """One that keeps the length."""
        return cls(weights.weight(), weights.bias(), format, dilation=dilation)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, time, in] to [rows, time, out]."""
        return self._run(x, self.bias)

    def without_bias(self, x: torch.Tensor) -> torch.Tensor:
        """For a caller that adds the bias along with something else."""
        return self._run(x, None)

    def _run(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        image = x.transpose(1, 2).unsqueeze(2)
        output = F.conv2d(
            image, self.weight, bias, stride=(1, self.stride),
            padding=(0, self.padding), dilation=(1, self.dilation),
        )  # fmt: skip
        return output.squeeze(2).transpose(1, 2)


class Upsample:
    """A transposed convolution that makes `stride` times as many steps, phase by phase."""

    def __init__(
        self, weights: NamedTensors, format: TensorFormat, *, stride: int, scale: float = 1.0
    ) -> None:
        weight, bias = weights.weight() * scale, weights.bias()
        self.stride = stride
        phases, self.margin = _split_phases(weight, stride)
        repeated = None if bias is None else bias.repeat(stride)
        self.conv = Conv(phases, repeated, format, padding=self.margin)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, time, in] to [rows, time * stride, out]."""
        return self._interleave(self.conv(x))

    def without_bias(self, x: torch.Tensor) -> torch.Tensor:
        return self._interleave(self.conv.without_bias(x))

    def _interleave(self, phases: torch.Tensor) -> torch.Tensor:
        rows, length, _ = phases.shape
        return phases.contiguous().reshape(rows, length * self.stride, -1)


def _split_phases(weight: torch.Tensor, stride: int) -> tuple[torch.Tensor, int]:
    """The plain convolution that a transposed one is: [phases * out, in, taps], and its half width.

    Output `stride * q + phase` hears input `q + shift` through the tap
    `phase + padding - stride * shift`, where there is one.
    """
    num_in, num_out, taps = weight.shape
    assert taps >= stride, "steps that nothing reaches"
    assert (taps - stride) % 2 == 0, "only those that keep whole steps"
    padding = (taps - stride) // 2
    margin = max((taps - 1 - padding) // stride, (padding + stride - 1) // stride)
    phases = weight.new_zeros(stride, num_out, num_in, 2 * margin + 1)
    for phase in range(stride):
        for shift in range(-margin, margin + 1):
            tap = phase + padding - stride * shift
            if 0 <= tap < taps:
                phases[phase, :, :, shift + margin] = weight[:, :, tap].T
    return phases.reshape(stride * num_out, num_in, -1), margin


class PaddingMask:
    """Steps of a tensor that must be zero: what a convolution reads beside each row."""

    def __init__(self, positions: torch.Tensor | None) -> None:
        self._positions = positions
        self._mask: torch.Tensor | None = None

    def mask(self, x: torch.Tensor) -> torch.Tensor:
        """Of each step of a tensor of that size: 1, or 0 where it must be zero."""
        if self._mask is None:
            self._mask = x.new_ones(x.shape[0] * x.shape[1], dtype=torch.uint8)
            if self._positions is not None:
                self._mask.index_fill_(0, self._positions, 0)
        return self._mask

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The tensor itself, with these steps zeroed in place."""
        if self._positions is not None:
            x.view(-1, x.shape[2]).index_fill_(0, self._positions, 0.0)
        return x


def expand_ranges(starts: Sequence[int], ends: Sequence[int]) -> NDArray[np.int64]:
    """Every position from each start to its end, in order."""
    first, last = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    lengths = np.maximum(last - first, 0)
    offsets = np.repeat(first - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.arange(int(lengths.sum()), dtype=np.int64) + offsets


def to_device(array: NDArray[np.generic], device: torch.device) -> torch.Tensor:
    """Copy an array to the device, without waiting where that is possible."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


# -- noise -----------------------------------------------------------------------------------------


def _hash32(number: torch.Tensor) -> torch.Tensor:
    """`lowbias32` by Chris Wellons, in int64."""
    number = ((number ^ (number >> 16)) * 0x7FEB352D) & _BITS
    number = ((number ^ (number >> 15)) * 0x846CA68B) & _BITS
    return number ^ (number >> 16)


def draw_normal(
    seeds: torch.Tensor, steps: torch.Tensor, channels: int, stream: int
) -> torch.Tensor:
    """Normal noise from a seed and a place, the same in any batch and on any device.

    A generator gives numbers in order, so a row's would depend on how many came before it. Here
    each is a hash of the row's seed and of its own place in the row, two of them made normal by Box
    and Muller: [..., channels] in fp32.

    Args:
        seeds: of each step's row, any integers, int64.
        steps: the number of each step in its row, of the same shape.
        channels: how many to a step.
        stream: another one gives other numbers from the same seed.
    """
    half = (channels + 1) // 2
    key = _hash32(
        (seeds & _BITS) ^ _hash32(((seeds >> 32) & _BITS) + 0x9E3779B9 * (stream + 1) & _BITS)
    )
    place = steps.unsqueeze(-1) * half + torch.arange(half, device=steps.device)
    first = _hash32(_hash32(place & _BITS) ^ key.unsqueeze(-1))
    second = _hash32(first ^ 0x5BD1E995)
    # From (0, 1], since the logarithm is taken; 24 bits are exact in fp32.
    radius = torch.sqrt(-2.0 * torch.log(((first >> 8) + 1).float() * 2.0**-24))
    angle = (second >> 8).float() * (2.0 * math.pi * 2.0**-24)
    both = torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
    return both.flatten(-2)[..., :channels]


# -- copies to the host ----------------------------------------------------------------------------


class HostCopy:
    """Audio on its way from a device to the host, while the device goes on."""

    def __init__(self, audio: torch.Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if audio.device.type != "cuda":
            self._host = audio.cpu()
            return
        self._host = torch.empty(audio.shape, dtype=audio.dtype, pin_memory=True)
        self._host.copy_(audio, non_blocking=True)
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record()

    def wait(self) -> Samples:
        if self._event is not None:
            self._event.synchronize()
        samples: Samples = self._host.numpy()
        return samples
