"""Attention on shapes known to break, through each of torch's backends, against fp64 on the host.

Inputs are rounded so that fp16 and bf16 hold them exactly: one reference serves every format, and
what is measured is the kernel's error, not the rounding of its inputs.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from anyrig.devices.machine import Precision
from anyrig.errors import KernelError
from anyrig.precision.verdict import Result, Tried, Verdict

log = logging.getLogger(__name__)
MaskKind = Literal["none", "causal", "bool", "additive", "padding", "empty rows"]
BACKENDS: dict[str, SDPBackend] = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# Largest error over the size of a value's terms. Two dozen roundings of the format for the
# halves; in fp32 a product of -1000 before its scaling costs a thousand before the exponential.
TOLERANCE = {"fp32": 1e-3, "fp16": 24 * 2.0**-11, "bf16": 24 * 2.0**-8}
_ABSENT = ("No available kernel", "No viable backend", "enable_gqa", "not supported")
# Terms below this share of a tensor's largest count as that: fp16 rounds tiny ones to nothing.
_LEAST = 1e-3
_TENSORS = ("out", "grad_q", "grad_k", "grad_v")


@dataclass(frozen=True)
class Case:
    """One shape to try."""

    name: str
    queries: int
    keys: int
    head_dim: int = 64
    heads: int = 2
    key_heads: int = 2
    mask: MaskKind = "none"
    logit: float = 0.0
    """What every logit is moved by; at -120 the exponential of a row's sum overflows fp32."""
    spread: float = 1.0
    """Times the usual size of queries and keys."""
    decides: bool = True
    """Whether a wrong answer switches a backend off; else it is only told."""
    source: str = ""


CASES: tuple[Case, ...] = (
    Case("704 with a mask, very negative logits", 704, 704, heads=1, key_heads=1, mask="bool",
         logit=-120.0, source="pytorch#196678, trl#7181"),
    Case("192 with an additive mask, very negative logits", 192, 192, 128, mask="additive",
         logit=-120.0, source="pytorch#196678, cudnn-frontend#628"),
    Case("640 with a mask, very negative logits", 640, 640, mask="bool", logit=-120.0,
         source="the sound neighbour of 704"),
    Case("1 query on 128 keys, very negative logits", 1, 128, logit=-120.0,
         source="cudnn-frontend#1072"),
    Case("1000 with padding", 1000, 1000, mask="padding", source="Automodel#3141: batches of two"),
    Case("17 causal, heads of 80", 17, 17, 80, mask="causal"),
    Case("1000 causal, heads of 128", 1000, 1000, 128, mask="causal"),
    Case("256 causal, grouped heads", 256, 256, heads=4, key_heads=2, mask="causal"),
    Case("192 with large logits", 192, 192, spread=4.0, source="pytorch#160841, optimum#1100"),
    Case("length 1", 1, 1),
    Case("128 with rows that see nothing", 128, 128, mask="empty rows", decides=False,
         source="what a row without keys gives is nowhere promised"),
)  # fmt: skip


class Inputs(NamedTuple):
    """Queries, keys, values and the gradient that comes back, on the host in fp64."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    """True where a query sees a key, or what is added to the logits."""
    causal: bool
    back: torch.Tensor


def inputs(case: Case) -> Inputs:
    """The tensors of a case: the same on every machine."""
    random = torch.Generator().manual_seed(20261115)

    def draw(heads: int, length: int, scale: float = 1.0) -> torch.Tensor:
        plain = torch.randn(1, heads, length, case.head_dim, generator=random) * scale
        # Tiny values are subnormal in fp16; without them bf16's seven bits fit both formats.
        return plain.bfloat16().double().where(plain.abs() > 2.0**-10, torch.tensor(0.0).double())

    small = 0.1 if case.logit else case.spread
    query = draw(case.heads, case.queries, small)
    key = draw(case.key_heads, case.keys, small)
    if case.logit:
        query[..., 0] = 1.0
        key[..., 0] = _round(case.logit * math.sqrt(case.head_dim))
    value, back = draw(case.key_heads, case.keys), draw(case.heads, case.queries)
    return Inputs(query, key, value, _mask(case, random), case.mask == "causal", back)


def _round(number: float) -> float:
    return float(torch.tensor(number).bfloat16())


def _mask(case: Case, random: torch.Generator) -> torch.Tensor | None:
    shape = (case.queries, case.keys)
    if case.mask in ("none", "causal"):
        return None
    # Masks have all four sides: some backends take no others.
    lower = torch.ones(1, 1, *shape, dtype=torch.bool).tril()
    if case.mask == "bool":
        return lower
    if case.mask == "padding":
        return (torch.arange(case.keys) < case.keys - 123).expand(1, 1, *shape).clone()
    if case.mask == "empty rows":
        lower[..., ::7, :] = False
        return lower
    bias = torch.randn(1, 1, *shape, generator=random).bfloat16().double()
    # fp16 holds -10000, and a softmax that subtracts its maximum makes exactly nothing of it.
    return bias.masked_fill(~lower, -9984.0)


class Truth(NamedTuple):
    """Output and gradients, and how large the terms are that each value is a sum of."""

    values: tuple[torch.Tensor, ...]
    sizes: tuple[torch.Tensor, ...]
    """Where terms cancel, rounding is measured by them and not by the little that is left."""


def reference(given: Inputs) -> Truth:
    """Attention and its gradients by the textbook, in fp64 on the host."""
    groups = given.query.shape[1] // given.key.shape[1]
    query, back = given.query, given.back
    keys, values = (t.repeat_interleave(groups, dim=1) for t in (given.key, given.value))
    scale = 1 / math.sqrt(query.shape[-1])
    # A row that sees nothing gives nothing: softmax would say NaN.
    weights = torch.softmax(_masked(query @ keys.mT * scale, given), dim=-1).nan_to_num(0.0)
    out = weights @ values
    through = back @ values.mT
    inner = (back * out).sum(-1, keepdim=True)
    logits = weights * (through - inner) * scale
    sizes = weights * (through.abs() + (back * out).abs().sum(-1, keepdim=True)) * scale
    return Truth(
        (
            out,
            logits @ keys,
            _together(logits.mT @ query, groups),
            _together(weights.mT @ back, groups),
        ),
        (
            weights @ values.abs(),
            sizes @ keys.abs(),
            _together(sizes.mT @ query.abs(), groups),
            _together(weights.mT @ back.abs(), groups),
        ),
    )


def _masked(logits: torch.Tensor, given: Inputs) -> torch.Tensor:
    if given.causal:
        seen = torch.ones(logits.shape[-2:], dtype=torch.bool).tril()
        return logits.masked_fill(~seen, -math.inf)
    if given.mask is None:
        return logits
    if given.mask.dtype == torch.bool:
        return logits.masked_fill(~given.mask, -math.inf)
    return logits + given.mask


def _together(tensor: torch.Tensor, groups: int) -> torch.Tensor:
    """What the query heads of one key head add up to."""
    batch, heads, length, dim = tensor.shape
    return tensor.reshape(batch, heads // groups, groups, length, dim).sum(2)


def attend(
    given: Inputs, precision: Precision, device: torch.device, backend: SDPBackend | None = None
) -> list[torch.Tensor]:
    """Output and gradients of torch's attention, through one backend or torch's own choice."""
    dtype = DTYPES[precision]
    # The format first: some devices have no fp64 to convert from.
    query, key, value = (t.to(dtype).to(device).requires_grad_() for t in given[:3])
    mask = given.mask
    if mask is not None:
        mask = mask.to(device) if mask.dtype == torch.bool else mask.to(dtype).to(device)
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": given.causal}
    if query.shape[1] != key.shape[1]:
        options["enable_gqa"] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each backend that declines says why, at length
        if backend is None:
            out = F.scaled_dot_product_attention(query, key, value, **options)
        else:
            with sdpa_kernel([backend]):
                out = F.scaled_dot_product_attention(query, key, value, **options)
        out.backward(given.back.to(dtype).to(device))  # type: ignore[no-untyped-call]  # torch's own
    return [out.detach(), *(t.grad for t in (query, key, value) if t.grad is not None)]


def judge(found: Sequence[torch.Tensor], truth: Truth, tolerance: float) -> tuple[float, int, str]:
    """The worst error over the tolerance, how many values are not finite, and where."""
    worst, num_bad, where = 0.0, 0, ""
    for name, ours, right, size in zip(_TENSORS, found, truth.values, truth.sizes, strict=True):
        host = ours.cpu().double()
        bad = int((~torch.isfinite(host)).sum())
        if bad:
            num_bad, where = num_bad + bad, where or name
            continue
        allowed = size.clamp(min=float(size.max()) * _LEAST + 1e-30) * tolerance
        error = float(((host - right).abs() / allowed).max())
        if error > worst:
            worst, where = error, where or (name if error > 1 else "")
    return worst, num_bad, where


def try_attention(
    device: torch.device,
    precisions: Sequence[Precision],
    cases: Sequence[Case] = CASES,
    *,
    deadline: float = math.inf,
) -> Iterator[Result]:
    """Every backend in every format on every case, as results come.

    Args:
        device: where to compute.
        precisions: of fp32, fp16 and bf16.
        cases: the shapes, the most telling first.
        deadline: by `time.perf_counter`, after which no new case is begun.
    """
    for case in cases:
        if time.perf_counter() > deadline:
            log.info("self-test: no time left for %s and what follows", case.name)
            return
        given = inputs(case)
        truth = reference(given)
        for backend in BACKENDS:
            for precision in precisions:
                yield _tried(case, given, truth, backend, precision, device)


def _tried(
    case: Case,
    given: Inputs,
    truth: Truth,
    backend: str,
    precision: Precision,
    device: torch.device,
) -> Result:
    what = Tried("attention", backend, precision, case.name, case.decides)
    tolerance = TOLERANCE[precision]
    try:
        found = attend(given, precision, device, BACKENDS[backend])
        error, num_bad, where = judge(found, truth, tolerance)
    except torch.OutOfMemoryError:
        return Result(what, "not there", note="no memory to try it")
    except RuntimeError as raised:
        text = str(raised).partition("\n")[0]
        if type(raised).__name__ == "AcceleratorError":
            # What a driver reports so stays: every later call in this process would fail as well.
            raise KernelError(
                f"attention through {backend} in {precision} ended in: {text}",
                hint="Start again with a new process; `anyrig doctor` checks the device.",
            ) from raised
        if any(words in text for words in _ABSENT):
            return Result(what, "not there", note=text[:120])
        return Result(what, "wrong", note=f"it raised: {text[:200]}", source=case.source)
    verdict: Verdict = "wrong" if num_bad or error > 1 else "right"
    return Result(what, verdict, error, num_bad, where, source=case.source)
