"""Norm, snake and a row's end in one pass over memory, as a Triton kernel.

Plain torch takes five passes. A compiled function takes one, and then waits for its sine, which is
exact over all numbers; here its square is wanted, which comes again with every half turn, so a
polynomial over half a turn does: within 4e-6, under what half precision can tell.
Imported only where Triton is there.
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
