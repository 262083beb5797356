"""Matrix products in each number format, forward and backward, against fp64 on the host.

What a model does most must be right before anything else is: this decides whether a format may be
chosen on a device, whatever is said of its generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from anyrig.devices.machine import Precision
from anyrig.precision.tf32 import tf32
from anyrig.precision.verdict import Result, Tried, Verdict

DTYPES = {
    "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
}  # fmt: skip
# Largest error over the size of the terms' sum (the root of their count, since signs differ).
# Results are rounded once and sums may be kept in the format itself by some kernels.
TOLERANCE = {
    "fp32": 1e-4, "tf32": 8 * 2.0**-11, "fp16": 16 * 2.0**-11, "bf16": 16 * 2.0**-8,
    "fp8": 16 * 2.0**-8,
}  # fmt: skip
_E4M3_MULTIPLE = 16


@dataclass(frozen=True)
class Shape:
    """A product of (rows x inner) and (inner x columns)."""

    name: str
    rows: int
    inner: int
    columns: int
    large: float = 0.0
    """Pairs of terms of this size that cancel: partial sums leave fp16's range, results do not."""
    decides: bool = True


SHAPES: tuple[Shape, ...] = (
    Shape("256 x 512 x 256", 256, 512, 256),
    Shape("17 x 1000 x 33", 17, 1000, 33),
    Shape("one row on 1024 x 64", 1, 1024, 64),
    Shape("sums that pass 65504 on their way", 64, 512, 64, large=128.0, decides=False),
)


def try_products(
    device: torch.device, precisions: Sequence[Precision], shapes: Sequence[Shape] = SHAPES
) -> Iterator[Result]:
    """Every format on every shape, as results come."""
    for shape in shapes:
        left, right, back = _inputs(shape)
        for precision in precisions:
            run = _eighths if precision == "fp8" else _dense
            yield _tried(shape, precision, (left, right, back), device, run)


Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Run = Callable[[Given, Precision, torch.device], list[torch.Tensor]]


def _inputs(shape: Shape) -> Given:
    """Two matrices and a gradient on the host, exact in every format down to fp8."""
    random = torch.Generator().manual_seed(20261115)

    def draw(rows: int, columns: int) -> torch.Tensor:
        plain = torch.randn(rows, columns, generator=random)
        return plain.to(torch.float8_e4m3fn).double()

    left, right = draw(shape.rows, shape.inner), draw(shape.inner, shape.columns)
    if shape.large:
        # The first half adds up past fp16's range, the second takes it away again.
        sixteen = shape.inner // 16
        left[:, : 2 * sixteen] = shape.large
        right[:sixteen], right[sixteen : 2 * sixteen] = shape.large, -shape.large
    return left, right, draw(shape.rows, shape.columns)


def _dense(given: Given, precision: Precision, device: torch.device) -> list[torch.Tensor]:
    dtype = DTYPES[precision]
    left, right = (tensor.to(dtype).to(device).requires_grad_() for tensor in given[:2])
    with tf32(precision == "tf32"):
        result = left @ right
        result.backward(given[2].to(dtype).to(device))  # type: ignore[no-untyped-call]  # torch's own
    assert left.grad is not None
    assert right.grad is not None
    return [result.detach(), left.grad, right.grad]


def _eighths(given: Given, precision: Precision, device: torch.device) -> list[torch.Tensor]:
    """fp8 has no backward pass here, and kernels for multiples of 16 alone."""
    left, right, _ = given
    if any(side % _E4M3_MULTIPLE for side in (*left.shape[1:], *right.shape)):
        raise NotImplementedError("fp8 takes multiples of 16 alone")
    one = torch.ones((), device=device)
    result = torch._scaled_mm(
        left.to(torch.float8_e4m3fn).to(device),
        right.t().contiguous().to(torch.float8_e4m3fn).to(device).t(),
        one, one, out_dtype=torch.bfloat16,
    )  # fmt: skip
    return [result]


def _tried(
    shape: Shape, precision: Precision, given: Given, device: torch.device, run: Run
) -> Result:
    what = Tried("product", "", precision, shape.name, shape.decides)
    try:
        found = run(given, precision, device)
    except (NotImplementedError, torch.OutOfMemoryError) as raised:
        return Result(what, "not there", note=str(raised).partition("\n")[0][:120])
    except RuntimeError as raised:
        # A format that was never built for this device is no fault; whether it may be chosen
        # is for the device's description to say.
        text = str(raised).partition("\n")[0][:200]
        return Result(what, "wrong" if precision == "fp32" else "not there", note=text)
    error, num_bad, where = _judged(found, given, TOLERANCE[precision])
    verdict: Verdict = "wrong" if num_bad or error > 1 else "right"
    return Result(what, verdict, error, num_bad, where)


def _judged(
    found: Sequence[torch.Tensor], given: Given, tolerance: float
) -> tuple[float, int, str]:
    left, right, back = given
    pairs = (
        ("product", left, right),
        ("grad_left", back, right.t()),
        ("grad_right", left.t(), back),
    )
    worst, num_bad, where = 0.0, 0, ""
    for ours, (name, a, b) in zip(found, pairs, strict=False):
        host = ours.cpu().double()
        bad = int((~torch.isfinite(host)).sum())
        if bad:
            num_bad, where = num_bad + bad, where or name
            continue
        size = (a.square() @ b.square()).sqrt()
        error = float(((host - a @ b).abs() / (size * tolerance).clamp(min=1e-30)).max())
        if error > worst:
            worst, where = error, where or (name if error > 1 else "")
    return worst, num_bad, where
