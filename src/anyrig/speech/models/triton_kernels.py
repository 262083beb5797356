"""What the vocoders do between convolutions, each in one pass over memory, as Triton kernels.

Plain torch makes a pass for every operation, and here memory is what is waited for. torch.compile
would make one pass as well, after seconds of compiling, and with a sine that is exact over all
numbers; of a snake the square of a sine is wanted, which comes again with every half turn, so a
polynomial over half a turn does: within 4e-6, under what half precision can tell.
Imported only where Triton is installed (`has_triton`).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _snake(x, out, scale, shift, alpha, ends, length, channels, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < length * channels
    channel = offsets % channels
    place = row.to(tl.int64) * length * channels + offsets
    factor = tl.load(scale + row * channels + channel, mask=inside, other=0.0)
    added = tl.load(shift + row * channels + channel, mask=inside, other=0.0)
    turn = tl.load(alpha + channel, mask=inside, other=1.0)
    y = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) * factor + added
    angle = turn * y
    angle -= tl.floor(angle * 0.3183098861837907 + 0.5) * 3.141592653589793
    square = angle * angle
    sine = 2.7557319e-6 * square - 1.9841270e-4
    sine = sine * square + 8.3333333e-3
    sine = sine * square - 0.16666667
    sine = (sine * square + 1.0) * angle
    done = y + sine * sine / turn
    end = tl.load(ends + row)
    done = tl.where(offsets // channels < end, done, 0.0)
    tl.store(out + place, done.to(out.dtype.element_ty), mask=inside)


def snake(
    x: torch.Tensor,
    scale: torch.Tensor,
    shift: torch.Tensor,
    alpha: torch.Tensor,
    ends: torch.Tensor,
) -> torch.Tensor:
    """y + sin(alpha * y)^2 / alpha with y = x * scale + shift; zero beyond each row's end.

    Args:
        x: [rows, steps, channels], without gaps in memory.
        scale: [rows, 1, channels] in fp32.
        shift: likewise.
        alpha: [1, 1, channels] in fp32.
        ends: [rows], how far each goes.
    """
    rows, length, channels = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(length * channels, _BLOCK), rows)
    _snake[grid](
        x, out, scale.contiguous(), shift.contiguous(), alpha, ends, length, channels, BLOCK=_BLOCK
    )
    return out


@triton.jit
def _leaky_relu(x, bias, mask, slope, total, channels, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    added = tl.load(bias + offsets % channels, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32) + added
    y = tl.where(y >= 0, y, y * slope)
    y *= tl.load(mask + offsets // channels, mask=inside, other=0).to(tl.float32)
    tl.store(x + offsets, y.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _add_residual(x, more, bias, mask, hidden, slope, total, channels, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    added = tl.load(bias + offsets % channels, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(more + offsets, mask=inside, other=0.0).to(tl.float32) + added
    y += tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32)
    y *= tl.load(mask + offsets // channels, mask=inside, other=0).to(tl.float32)
    tl.store(more + offsets, y.to(more.dtype.element_ty), mask=inside)
    y = tl.where(y >= 0, y, y * slope)
    tl.store(hidden + offsets, y.to(hidden.dtype.element_ty), mask=inside)


def leaky_relu(
    x: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor, slope: float
) -> torch.Tensor:
    """A leaky ReLU of x + bias, in x itself, zero at steps outside of the mask; channels last."""
    grid = (triton.cdiv(x.numel(), _BLOCK),)
    _leaky_relu[grid](x, bias, mask, slope, x.numel(), x.shape[-1], BLOCK=_BLOCK)
    return x


def add_residual(
    x: torch.Tensor, more: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor, slope: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """x + more + bias, in `more` itself, and a leaky ReLU of that; zero outside of the mask."""
    hidden = torch.empty_like(more)
    grid = (triton.cdiv(more.numel(), _BLOCK),)
    _add_residual[grid](
        x, more, bias, mask, hidden, slope, more.numel(), more.shape[-1], BLOCK=_BLOCK
    )
    return more, hidden
