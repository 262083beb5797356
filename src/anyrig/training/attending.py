"""Which of torch's attention kernels a model trains with: those that are right for it, the fastest.

A kernel that is wrong with a mask may be right, and twice as fast, without one. So a model's own
calls are looked at, on tensors without data, and each kernel is tried on shapes like them, forward
and backward, against fp64 on the host. What is wrong there is switched off while the run lasts, and
so is what is clearly slower than the best. torch's plain attention always stays: others fall back
to it.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.training.protocol import Batch, Loss

if TYPE_CHECKING:
    from anyrig.devices.machine import Precision
    from anyrig.precision.kernel_checks import AttentionCase, MaskKind

log = logging.getLogger(__name__)
_SWITCHES = {
    "cudnn": ("cudnn_sdp_enabled", "enable_cudnn_sdp"),
    "flash": ("flash_sdp_enabled", "enable_flash_sdp"),
    "efficient": ("mem_efficient_sdp_enabled", "enable_mem_efficient_sdp"),
}
_LONGEST = 1024
"""Longer calls are tried at about this length: the reference on the host grows with its square."""
_PERIOD = 128
"""Known faults depend on the length's remainder by this."""
_SLOWER = 1.03
_MOST = 6
_ROUNDS = 5
_ENOUGH_FLOPS = 1e12
"""Of a timed call: less than this ends before the host has started the next one."""
_TENSOR_BYTES = 32 << 20
"""No tensor of a timed call is larger."""


class Call(NamedTuple):
    """How a model calls attention."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    mask: MaskKind

    @property
    def text(self) -> str:
        """`1024 x 64 causal`."""
        sides = f"{self.queries}" if self.queries == self.keys else f"{self.queries} on {self.keys}"
        kind = {"none": "", "causal": " causal", "bool": " with a mask"}
        return f"{sides} x {self.head_dim}{kind.get(self.mask, ' with a bias')}"


class Chosen(NamedTuple):
    """The kernels that stay on, and why."""

    kernels: tuple[str, ...]
    reason: str


def calls_of(model: nn.Module, loss: Loss, batch: Batch) -> tuple[Call, ...]:
    """The distinct calls of attention in a forward pass, without computing it.

    Args:
        model: it is copied without its data.
        loss: as the loop calls it.
        batch: of any size.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode

    from anyrig.training.watch.flops import shadows, shadows_of_batch

    found: dict[Call, None] = {}

    class Listening(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is F.scaled_dot_product_attention:
                found[_call(*args, **(kwargs or {}))] = None
            return func(*args, **(kwargs or {}))

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        ghost = copy.deepcopy(model, shadows(model, mode.from_tensor))
        with torch.no_grad(), Listening():
            loss(ghost, shadows_of_batch(batch, mode.from_tensor))
    return tuple(found)


def _call(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **_: Any,
) -> Call:
    mask: MaskKind = "causal" if is_causal else "none"
    if attn_mask is not None:
        mask = "bool" if attn_mask.dtype == torch.bool else "additive"
    sides = query.shape if query.dim() == 4 else (1, *query.shape)
    heads = key.shape[-3] if key.dim() >= 3 else 1
    return Call(sides[0], sides[1], heads, sides[2], key.shape[-2], sides[3], mask)


@contextlib.contextmanager
def best_attention(
    calls: Sequence[Call], device: torch.device, precision: Precision
) -> Iterator[Chosen]:
    """Only the kernels that are right for some calls, the fastest of them, while in the context.

    Args:
        calls: of `calls_of`.
        device: other than CUDA and ROCm devices have one kernel, which stays.
        precision: that the model computes in.
    """
    if device.type != "cuda" or not calls:
        why = "no call of torch's attention" if not calls else f"{device.type} has no choice"
        yield Chosen((), why)
        return
    before = {name: getattr(torch.backends.cuda, read)() for name, (read, _) in _SWITCHES.items()}
    chosen = choose(calls[:_MOST], device, _format(precision))
    try:
        for name, (_, switch) in _SWITCHES.items():
            getattr(torch.backends.cuda, switch)(name in chosen.kernels)
        with _compiled_apart(chosen.kernels):
            yield chosen
    finally:
        for name, (_, switch) in _SWITCHES.items():
            getattr(torch.backends.cuda, switch)(before[name])


@contextlib.contextmanager
def _compiled_apart(kernels: Sequence[str]) -> Iterator[None]:
    """Keep torch's compiler from taking code of its cache that has another kernel inside.

    Which kernel runs is settled while a model is traced, and the cache's keys do not hold it.
    """
    config = getattr(torch.compiler, "config", None)
    before = getattr(config, "cache_key_tag", None)
    if config is None or before is None:
        yield
        return
    config.cache_key_tag = f"{before} attention {' '.join(sorted(kernels))}".strip()
    try:
        yield
    finally:
        config.cache_key_tag = before


def _format(precision: Precision) -> Precision:
    """What attention is computed in under a precision."""
    return {"fp8": "bf16", "tf32": "fp32"}.get(precision, precision)  # type: ignore[return-value]


def choose(calls: Sequence[Call], device: torch.device, precision: Precision) -> Chosen:
    """The kernels that are right for all calls, without those that are slower than the best."""
    from anyrig.precision.kernel_checks import check_attention

    wrong: dict[str, str] = {}
    there: set[str] = set()
    for call in calls:
        for result in check_attention(device, (precision,), _cases(call)):
            name = result.backend
            if result.verdict == "wrong":
                wrong.setdefault(name, f"{name} is wrong at {call.text}: {result.problem}")
            elif result.verdict == "right" and name != "math":
                there.add(name)
    right = sorted(there - set(wrong))
    measured = {name: _seconds(name, calls, device, precision) for name in right}
    times = {name: seconds for name, seconds in measured.items() if seconds is not None}
    if not times:
        return Chosen((), "; ".join(["plain attention", *wrong.values()]))
    best = min(times.values())
    kept = tuple(sorted((n for n in times if times[n] <= best * _SLOWER), key=lambda n: times[n]))
    told = ", ".join(f"{name} {seconds * 1e6:.1f} us" for name, seconds in sorted(times.items()))
    shapes = ", ".join(call.text for call in calls)
    return Chosen(kept, "; ".join([f"{kept[0]} for {shapes} ({told} an item)", *wrong.values()]))


def _cases(call: Call) -> list[AttentionCase]:
    """A call's shape on plain values, and on those that faults are known by."""
    from anyrig.precision.kernel_checks import AttentionCase

    def near(length: int) -> int:
        return length if length <= _LONGEST else _LONGEST - _PERIOD + length % _PERIOD

    groups = max(1, call.heads // max(1, call.key_heads))
    plain = AttentionCase(
        call.text, near(call.queries), near(call.keys), call.head_dim,
        heads=groups, key_heads=1, mask=call.mask,
    )  # fmt: skip
    if call.mask == "causal" and call.queries != call.keys:
        return []  # what that means differs between kernels, and none is tried on it
    return [plain, AttentionCase(**{**vars(plain), "logit": -120.0})]


def _seconds(
    name: str, calls: Sequence[Call], device: torch.device, precision: Precision
) -> float | None:
    """Of an item through all calls and back; None where the kernel takes one of them not."""
    from torch.nn.attention import sdpa_kernel

    from anyrig.backends.torch import DTYPES
    from anyrig.precision.kernel_checks import ATTENTION_BACKENDS

    total = 0.0
    with sdpa_kernel([ATTENTION_BACKENDS[name]]):
        for call in calls:
            batch = timed_batch(call, DTYPES[precision].itemsize)
            try:
                total += _with_room(call, batch, device, DTYPES[precision])
            except RuntimeError:
                return None
    return total


def _with_room(call: Call, batch: int, device: torch.device, dtype: torch.dtype) -> float:
    """How long an item takes, among fewer where memory is short."""
    while True:
        try:
            return _timed(call, *_tensors(call, batch, device, dtype)) / batch
        except torch.OutOfMemoryError:
            if batch == 1:
                raise
            batch //= 2


def timed_batch(call: Call, itemsize: int) -> int:
    """How many items a call is timed with: so many that the device takes longer than the host."""
    flops = 14 * call.heads * call.queries * call.keys * call.head_dim  # forward and backward
    size = call.heads * max(call.queries, call.keys) * call.head_dim * itemsize
    return max(1, min(round(_ENOUGH_FLOPS / flops), _TENSOR_BYTES // size))


def _tensors(
    call: Call, batch: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    query = torch.randn(batch, call.heads, call.queries, call.head_dim, device=device, dtype=dtype)
    key = torch.randn(batch, call.key_heads, call.keys, call.head_dim, device=device, dtype=dtype)
    return query.requires_grad_(), key.requires_grad_(), key.clone().detach().requires_grad_()


def _timed(call: Call, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> float:
    mask = None
    if call.mask not in ("none", "causal"):
        sides = (1, 1, call.queries, call.keys)
        kind = torch.bool if call.mask == "bool" else query.dtype
        mask = torch.ones(sides, device=query.device, dtype=kind)
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": call.mask == "causal"}
    if call.heads != call.key_heads:
        options["enable_gqa"] = True
    best = float("inf")
    for _ in range(_ROUNDS):
        torch.cuda.synchronize(query.device)
        began = time.perf_counter()
        for _ in range(3):
            F.scaled_dot_product_attention(query, key, value, **options).sum().backward()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize(query.device)
        best = min(best, (time.perf_counter() - began) / 3)
    return best
