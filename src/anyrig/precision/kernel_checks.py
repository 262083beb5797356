"""The checks of the self-test: attention and matrix products, compared with fp64 on the host.

Attention runs forward and backward through each of torch's backends, on shapes that are known to
have broken. Inputs are rounded so that fp16 and bf16 hold them exactly: one reference serves every
format, and what is measured is the error of the kernel, not of the rounded inputs.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from anyrig.backends.torch import DTYPES, use_tf32
from anyrig.devices.machine import Precision
from anyrig.errors import KernelError
from anyrig.precision.selftest import CheckResult, Verdict

log = logging.getLogger(__name__)
MaskKind = Literal["none", "causal", "bool", "additive", "padding", "empty rows"]
ATTENTION_BACKENDS: dict[str, SDPBackend] = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
# Largest error relative to the terms that add up to a value. Two dozen roundings for the 16-bit
# formats; in fp32 a product of -1000 before its scaling costs a thousand before the exponential.
_ATTENTION_TOLERANCE = {"fp32": 1e-3, "fp16": 24 * 2.0**-11, "bf16": 24 * 2.0**-8}
# Relative to the root of the sum of squared terms, since signs differ. Results are rounded once,
# and some kernels keep sums in the format itself.
_PRODUCT_TOLERANCE = {
    "fp32": 1e-4, "tf32": 8 * 2.0**-11, "fp16": 16 * 2.0**-11, "bf16": 16 * 2.0**-8,
    "fp8": 16 * 2.0**-8,
}  # fmt: skip
# What torch raises when a backend does not accept a shape or a format.
_NO_KERNEL = ("No available kernel", "No viable backend", "enable_gqa", "not supported")
# Terms below this share of a tensor's largest count as this large: fp16 rounds tiny ones to zero.
_MIN_MAGNITUDE = 1e-3
_FP8_MULTIPLE = 16
_SEED = 20261115


class Reference(NamedTuple):
    """The right values, and the magnitude of the terms that each is a sum of.

    Where terms cancel, rounding errors are relative to them, not to the little that is left.
    """

    names: tuple[str, ...]
    values: tuple[torch.Tensor, ...]
    magnitudes: tuple[torch.Tensor, ...]


def _check(
    check: CheckResult,
    compute: Callable[[], Sequence[torch.Tensor]],
    reference: Reference,
    tolerance: float,
) -> CheckResult:
    """Run a kernel and compare its results with the reference; what it raises is a result too."""
    try:
        return _compare(check, compute(), reference, tolerance)
    except (NotImplementedError, torch.OutOfMemoryError) as raised:
        return replace(check, verdict="unsupported", note=_first_line(raised))
    except RuntimeError as raised:
        note = _first_line(raised)
        # A format that was not built for this device is not a fault: the device's description says
        # whether it may be chosen.
        missing = check.area == "product" and check.precision != "fp32"
        if missing or any(words in note for words in _NO_KERNEL):
            return replace(check, verdict="unsupported", note=note)
        if type(raised).__name__ == "AcceleratorError":
            # The driver's error state persists: every later call in this process fails as well.
            raise KernelError(
                f"{check.backend} {check.area} in {check.precision} failed: {note}".lstrip(),
                hint="Start a new process. `anyrig doctor` checks the device.",
            ) from raised
        return replace(check, verdict="wrong", note=f"raised: {note}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def _compare(
    check: CheckResult, found: Sequence[torch.Tensor], reference: Reference, tolerance: float
) -> CheckResult:
    """The worst error, and values that are not finite."""
    if check.area == "attention" and len(found) < len(reference.names):
        return replace(check, verdict="wrong", note="a gradient is missing")
    worst, num_bad, where = 0.0, 0, ""
    # fp8 products have no backward pass, so there may be fewer results than references.
    for name, ours, right, magnitude in zip(reference.names, found, *reference[1:], strict=False):
        host = ours.cpu().double()
        bad = int((~torch.isfinite(host)).sum())
        if bad:
            num_bad, where = num_bad + bad, where or name
            continue
        error = float(((host - right).abs() / (magnitude * tolerance)).max())
        if error > worst:
            worst, where = error, where or (name if error > 1 else "")
    verdict: Verdict = "wrong" if num_bad or worst > 1 else "right"
    return replace(check, verdict=verdict, error=worst, num_bad=num_bad, where=where)


# -- attention -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttentionCase:
    name: str
    queries: int
    keys: int
    head_dim: int = 64
    heads: int = 2
    key_heads: int = 2
    mask: MaskKind = "none"
    logit: float = 0.0
    """Added to every logit; at -120 the exponential of a row's sum overflows fp32."""
    spread: float = 1.0
    """Factor on the size of queries and keys."""
    affects_choice: bool = True
    """Whether a wrong result disables a backend, or is only reported."""
    source: str = ""


ATTENTION_CASES: tuple[AttentionCase, ...] = (
    AttentionCase("704 with a mask, very negative logits", 704, 704, heads=1, key_heads=1,
                  mask="bool", logit=-120.0, source="pytorch#196678, trl#7181"),
    AttentionCase("192 with an additive mask, very negative logits", 192, 192, 128, mask="additive",
                  logit=-120.0, source="pytorch#196678, cudnn-frontend#628"),
    AttentionCase("640 with a mask, very negative logits", 640, 640, mask="bool", logit=-120.0,
                  source="control case for 704"),
    AttentionCase("1 query on 128 keys, very negative logits", 1, 128, logit=-120.0,
                  source="cudnn-frontend#1072"),
    AttentionCase("1000 with padding", 1000, 1000, mask="padding",
                  source="Automodel#3141: batches of two"),
    AttentionCase("17 causal, heads of 80", 17, 17, 80, mask="causal"),
    AttentionCase("1000 causal, heads of 128", 1000, 1000, 128, mask="causal"),
    AttentionCase("256 causal, grouped heads", 256, 256, heads=4, key_heads=2, mask="causal"),
    AttentionCase("192 with large logits", 192, 192, spread=4.0,
                  source="pytorch#160841, optimum#1100"),
    AttentionCase("length 1", 1, 1),
    AttentionCase("128 with fully masked rows", 128, 128, mask="empty rows", affects_choice=False,
                  source="the result of a row without keys is undefined"),
)  # fmt: skip


class AttentionInputs(NamedTuple):
    """Tensors on the host in fp64."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    """True where a query sees a key, or a bias that is added to the logits."""
    causal: bool
    grad_out: torch.Tensor


def make_attention_inputs(case: AttentionCase) -> AttentionInputs:
    """The tensors of a case: the same on every machine."""
    random = torch.Generator().manual_seed(_SEED)

    def draw(heads: int, length: int, scale: float = 1.0) -> torch.Tensor:
        values = torch.randn(1, heads, length, case.head_dim, generator=random) * scale
        # Tiny values are subnormal in fp16; without them bf16's seven bits fit both formats.
        return values.bfloat16().double().where(values.abs() > 2.0**-10, torch.tensor(0.0).double())

    scale = 0.1 if case.logit else case.spread
    query = draw(case.heads, case.queries, scale)
    key = draw(case.key_heads, case.keys, scale)
    if case.logit:
        query[..., 0] = 1.0
        key[..., 0] = float(torch.tensor(case.logit * math.sqrt(case.head_dim)).bfloat16())
    value, grad_out = draw(case.key_heads, case.keys), draw(case.heads, case.queries)
    mask = _make_mask(case, random)
    return AttentionInputs(query, key, value, mask, case.mask == "causal", grad_out)


def _make_mask(case: AttentionCase, random: torch.Generator) -> torch.Tensor | None:
    shape = (case.queries, case.keys)
    if case.mask in ("none", "causal"):
        return None
    # Some backends only accept masks with all four dimensions.
    lower = torch.ones(1, 1, *shape, dtype=torch.bool).tril()
    if case.mask == "bool":
        return lower
    if case.mask == "padding":
        return (torch.arange(case.keys) < case.keys - 123).expand(1, 1, *shape).clone()
    if case.mask == "empty rows":
        lower[..., ::7, :] = False
        return lower
    bias = torch.randn(1, 1, *shape, generator=random).bfloat16().double()
    # fp16 holds -10000, and a softmax that subtracts its maximum turns it into exactly zero.
    return bias.masked_fill(~lower, -9984.0)


def attention_reference(given: AttentionInputs) -> Reference:
    """Attention and its gradients by the textbook, in fp64 on the host."""
    groups = given.query.shape[1] // given.key.shape[1]
    query, grad_out = given.query, given.grad_out
    keys, values = (t.repeat_interleave(groups, dim=1) for t in (given.key, given.value))
    scale = 1 / math.sqrt(query.shape[-1])
    # A row that sees no key gives zero, where softmax gives NaN.
    weights = torch.softmax(_apply_mask(query @ keys.mT * scale, given), dim=-1).nan_to_num(0.0)
    out = weights @ values
    through = grad_out @ values.mT
    inner = (grad_out * out).sum(-1, keepdim=True)
    logits = weights * (through - inner) * scale
    sizes = weights * (through.abs() + (grad_out * out).abs().sum(-1, keepdim=True)) * scale

    def sum_groups(tensor: torch.Tensor) -> torch.Tensor:
        """Add up the query heads that share a key head."""
        batch, heads, length, dim = tensor.shape
        return tensor.reshape(batch, heads // groups, groups, length, dim).sum(2)

    magnitudes = (
        weights @ values.abs(),
        sizes @ keys.abs(),
        sum_groups(sizes.mT @ query.abs()),
        sum_groups(weights.mT @ grad_out.abs()),
    )
    return Reference(
        ("out", "grad_q", "grad_k", "grad_v"),
        (out, logits @ keys, sum_groups(logits.mT @ query), sum_groups(weights.mT @ grad_out)),
        tuple(m.clamp(min=float(m.max()) * _MIN_MAGNITUDE + 1e-30) for m in magnitudes),
    )


def _apply_mask(logits: torch.Tensor, given: AttentionInputs) -> torch.Tensor:
    if given.causal:
        visible = torch.ones(logits.shape[-2:], dtype=torch.bool).tril()
        return logits.masked_fill(~visible, -math.inf)
    if given.mask is None:
        return logits
    if given.mask.dtype == torch.bool:
        return logits.masked_fill(~given.mask, -math.inf)
    return logits + given.mask


def run_attention(
    given: AttentionInputs,
    precision: Precision,
    device: torch.device,
    backend: SDPBackend | None = None,
) -> list[torch.Tensor]:
    """Output and gradients of torch's attention, through one backend or torch's own choice."""
    dtype = DTYPES[precision]
    # Cast before moving: some devices have no fp64 to cast from.
    query, key, value = (t.to(dtype).to(device).requires_grad_() for t in given[:3])
    mask = given.mask
    if mask is not None:
        mask = mask.to(device) if mask.dtype == torch.bool else mask.to(dtype).to(device)
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": given.causal}
    if query.shape[1] != key.shape[1]:
        options["enable_gqa"] = True
    choice = contextlib.nullcontext() if backend is None else sdpa_kernel([backend])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each backend that declines explains why, at length
        with choice:
            out = F.scaled_dot_product_attention(query, key, value, **options)
        out.backward(given.grad_out.to(dtype).to(device))  # type: ignore[no-untyped-call]  # torch's
    return [out.detach(), *(t.grad for t in (query, key, value) if t.grad is not None)]


def check_attention(
    device: torch.device,
    precisions: Sequence[Precision],
    cases: Sequence[AttentionCase] = ATTENTION_CASES,
    *,
    deadline: float = math.inf,
) -> Iterator[CheckResult]:
    """Check every backend in every format on every case.

    Args:
        precisions: of fp32, fp16 and bf16.
        cases: the most telling first.
        deadline: by `time.perf_counter`, after which no new case is started.
    """
    for case in cases:
        if time.perf_counter() > deadline:
            log.info("self-test: no time left for %s and later cases", case.name)
            return
        given = make_attention_inputs(case)
        reference = attention_reference(given)
        for backend, kernel in ATTENTION_BACKENDS.items():
            for precision in precisions:
                yield _check(
                    CheckResult(
                        "attention", backend, precision, case.name,
                        source=case.source, affects_choice=case.affects_choice,
                    ),
                    partial(run_attention, given, precision, device, kernel),
                    reference,
                    _ATTENTION_TOLERANCE[precision],
                )  # fmt: skip


# -- matrix products -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProductCase:
    """A product of (rows x inner) and (inner x columns)."""

    name: str
    rows: int
    inner: int
    columns: int
    large: float = 0.0
    """Pairs of terms of this size cancel: partial sums leave fp16's range, results do not."""
    affects_choice: bool = True


PRODUCT_CASES: tuple[ProductCase, ...] = (
    ProductCase("256 x 512 x 256", 256, 512, 256),
    ProductCase("17 x 1000 x 33", 17, 1000, 33),
    ProductCase("one row on 1024 x 64", 1, 1024, 64),
    ProductCase("fp16 partial-sum overflow", 64, 512, 64, large=128.0, affects_choice=False),
)


def check_products(
    device: torch.device,
    precisions: Sequence[Precision],
    cases: Sequence[ProductCase] = PRODUCT_CASES,
) -> Iterator[CheckResult]:
    """Check every format on every case, forward and backward.

    What a model does most must be right first: this decides whether a format may be chosen on a
    device, whatever its description says.
    """
    for case in cases:
        left, right, grad_out = given = _make_product_inputs(case)
        pairs = ((left, right), (grad_out, right.t()), (left.t(), grad_out))
        reference = Reference(
            ("product", "grad_left", "grad_right"),
            tuple(a @ b for a, b in pairs),
            tuple((a.square() @ b.square()).sqrt().clamp(min=1e-30) for a, b in pairs),
        )
        for precision in precisions:
            yield _check(
                CheckResult(
                    "product", "", precision, case.name, affects_choice=case.affects_choice
                ),
                partial(run_product, given, precision, device),
                reference,
                _PRODUCT_TOLERANCE[precision],
            )


def _make_product_inputs(case: ProductCase) -> tuple[torch.Tensor, ...]:
    """Two matrices and a gradient on the host in fp64, exact in every format down to fp8."""
    random = torch.Generator().manual_seed(_SEED)

    def draw(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=random).to(torch.float8_e4m3fn).double()

    left, right = draw(case.rows, case.inner), draw(case.inner, case.columns)
    if case.large:
        # The first half adds up beyond fp16's range, the second half takes it away again.
        part = case.inner // 16
        left[:, : 2 * part] = case.large
        right[:part], right[part : 2 * part] = case.large, -case.large
    return left, right, draw(case.rows, case.columns)


def run_product(
    given: Sequence[torch.Tensor], precision: Precision, device: torch.device
) -> list[torch.Tensor]:
    """The product and both gradients; in fp8 the product only."""
    left, right, grad_out = given
    if precision == "fp8":
        if any(size % _FP8_MULTIPLE for size in (*left.shape[1:], *right.shape)):
            raise NotImplementedError("fp8 kernels need sizes that are multiples of 16")
        one = torch.ones((), device=device)
        a = left.to(torch.float8_e4m3fn).to(device)
        b = right.t().contiguous().to(torch.float8_e4m3fn).to(device).t()
        return [torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)]
    dtype = DTYPES[precision]
    a, b = (tensor.to(dtype).to(device).requires_grad_() for tensor in (left, right))
    with use_tf32(precision == "tf32"):
        result = a @ b
        result.backward(grad_out.to(dtype).to(device))  # type: ignore[no-untyped-call]  # torch's
    return [result.detach(), *(t.grad for t in (a, b) if t.grad is not None)]
