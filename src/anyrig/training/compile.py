"""torch.compile with a fallback, the attention kernels of a model, and cuDNN's benchmark.

A model is compiled when it is first called, so that is where compiling fails: no C++ compiler, no
triton, code that cannot be traced. A call or a step that fails while the model is compiled is made
again without; if the compiler was not the reason, it fails again as it is. A shortage of memory is
passed on.

A kernel of attention that is wrong with a mask may be right, and twice as fast, without one. So a
model's own calls are recorded, on tensors without data, and each kernel is tried on shapes like
them, forward and backward, against fp64 on the host. What is wrong there is switched off while the
run lasts, and torch's plain attention is tried last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import AnyrigError
from anyrig.memory.oom import detect_device_loss, detect_oom
from anyrig.training.batch import Batch
from anyrig.training.losses import Loss

if TYPE_CHECKING:
    from anyrig.devices.machine import Precision
    from anyrig.precision.kernel_checks import AttentionCase, MaskKind


OnMessage = Callable[[str], None]
CompileOption = bool | Literal["auto"]
_OLDEST = (7, 0)
"""The compute capability that triton's kernels begin at."""
_LENGTH = 200


class CompileDecision(NamedTuple):
    """Whether to compile, and why."""

    used: bool
    reason: str


def decide_compile(
    how: CompileOption, device_type: str, *, triton: bool, capability: tuple[int, int] | None
) -> CompileDecision:
    """Whether compiling is worth it on a device.

    Args:
        how: true forces, false forbids, `auto` weighs.
        device_type: cuda (ROCm too), xpu, mps, cpu, privateuseone.
        triton: whether the package is there.
        capability: NVIDIA's, None for others.
    """
    if how is False:
        return CompileDecision(False, "not compiled, as set")
    if how is True:
        return CompileDecision(True, "compiled, as set")
    if device_type not in ("cuda", "xpu"):
        return CompileDecision(
            False, f"not compiled: {_NO_GAIN.get(device_type, _NO_GAIN['privateuseone'])}"
        )
    if not triton:
        return CompileDecision(
            False, f"not compiled: {device_type} needs the triton package for it"
        )
    if capability is not None and capability < _OLDEST:
        have = ".".join(str(part) for part in capability)
        return CompileDecision(
            False, f"not compiled: triton needs compute capability 7.0, this has {have}"
        )
    return CompileDecision(True, f"compiled: {device_type} with triton")


_NO_GAIN = {
    "cpu": "on a CPU the compiler takes longer than most runs gain",
    "mps": "torch's compiler for Metal is not finished",
    "privateuseone": "torch's compiler does not know this device",
}


def compile_model(
    model: nn.Module,
    how: CompileOption,
    device_type: str,
    *,
    mode: str | None = None,
    backend: str | Callable[..., Any] = "inductor",
    on_message: OnMessage | None = None,
) -> Compiled:
    """A model compiled in place.

    Args:
        model: that is compiled when it is called next.
        how: true forces, false forbids, `auto` where a GPU gains from it.
        device_type: where it runs.
        mode: of torch.compile, such as "reduce-overhead" for recorded kernels.
        backend: of torch.compile.
        on_message: is given the reason of a fall-back.
    """
    decision = preview_compile(how, device_type)
    compiled = Compiled(model, decision, on_message)
    if decision.used:
        compiled.begin(backend=backend, mode=mode)
    return compiled


def preview_compile(how: CompileOption, device_type: str) -> CompileDecision:
    """What `compile_model` would decide here."""
    return decide_compile(
        how, device_type, triton=_has_triton(how), capability=_read_capability(how, device_type)
    )


def _has_triton(how: CompileOption) -> bool:
    return how == "auto" and find_spec("triton") is not None


def _read_capability(how: CompileOption, device_type: str) -> tuple[int, int] | None:
    if how != "auto" or device_type != "cuda" or torch.version.hip or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_capability()


class Compiled:
    """A model that is compiled, until that fails."""

    def __init__(
        self, model: nn.Module, decision: CompileDecision, on_message: OnMessage | None
    ) -> None:
        self.used, self.reason = decision
        self._model, self._on_message = model, on_message

    def begin(self, **options: Any) -> None:
        """Have it compiled when it is called next."""
        try:
            _compile_in_place(self._model, options)
        except Exception as error:  # noqa: BLE001  # a Python that torch does not know yet, and so on
            self._fall_back(error)

    def falls_back(self, error: BaseException) -> bool:
        """Whether what ended with an error is to be done again, now that nothing is compiled.

        The caller drops gradients and puts random states back first. A shortage of memory and a
        device that was lost have other reasons.
        """
        if not self.used or not isinstance(error, Exception) or isinstance(error, AnyrigError):
            return False
        if detect_oom(error) is not None or detect_device_loss(error) is not None:
            return False
        self._fall_back(error)
        return True

    def undo(self) -> None:
        """Run as it was before, for good."""
        self.used = False
        self._model._compiled_call_impl = None

    def __enter__(self) -> Compiled:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def _fall_back(self, error: Exception) -> None:
        self.undo()
        self.reason = f"not compiled: {_first_line(error)}"
        if self._on_message is not None:
            self._on_message(self.reason)


def _first_line(error: BaseException) -> str:
    """What the error was raised from says it best: torch wraps the compiler's own errors."""
    while (inner := getattr(error, "inner_exception", None) or error.__cause__) is not None:
        error = inner
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *lines[:1]])[:_LENGTH]


def _compile_in_place(model: nn.Module, options: dict[str, Any]) -> None:
    """Compile a model's call. Its weights' names and its class stay as they are.

    torch's compiler passes over frames of torch.nn itself: a model that is an nn.Sequential would
    stay as it is without a word, so a function of ours stands around it.
    """
    plain: Any = model._call_impl

    def call_plain(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    compiled, sizes = torch.compile(call_plain, **options), set[int]()

    def call(*args: Any, **kwargs: Any) -> Any:
        _compile_for_batch_size((args, kwargs), sizes)
        return compiled(*args, **kwargs)

    model._compiled_call_impl = call


_BATCH_SIZES = 3
"""How many sizes of a batch get code of their own: that of a run, of its last batch, of its
validation. From the next one on the code is for any size."""


def _compile_for_batch_size(inputs: Any, sizes: set[int]) -> None:
    """Have code compiled for this very size of a batch.

    Left to itself torch compiles for any size as soon as it has seen two, and such code is slower:
    it cannot call cuDNN's attention, and half of an H200's time in training is lost.
    """
    from torch.utils._pytree import tree_leaves

    tensors = [one for one in tree_leaves(inputs) if isinstance(one, torch.Tensor) and one.dim()]
    if not tensors:
        return
    sizes.add(tensors[0].shape[0])
    if len(sizes) <= _BATCH_SIZES:
        for tensor in tensors:
            torch._dynamo.mark_static(tensor, 0)


# -- attention ------------------------------------------------------------------------------------


_LONGEST = 1024
"""Longer calls are tried at about this length: the reference on the host grows with its square."""
_PERIOD = 128
"""Known faults depend on the length's remainder by this."""
_MAX_CALLS = 6
_HOPPER = (9, 0)
"""From this compute capability on cuDNN's kernel is the fastest, before it flash attention."""


class AttentionCall(NamedTuple):
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


class AttentionChoice(NamedTuple):
    """The kernels in use, the fastest first, and why."""

    kernels: tuple[str, ...]
    reason: str


def record_attention_calls(model: nn.Module, loss: Loss, batch: Batch) -> tuple[AttentionCall, ...]:
    """The distinct calls of attention in a forward pass, without computing it.

    Args:
        model: it is copied without its data.
        loss: as the loop calls it.
        batch: of any size.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.overrides import TorchFunctionMode

    from anyrig.training.fake import copy_batch_as_fake, copy_loss_as_fake, copy_model_as_fake

    found: dict[AttentionCall, None] = {}

    class CallRecorder(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is F.scaled_dot_product_attention:
                found[_describe_call(*args, **(kwargs or {}))] = None
            return func(*args, **(kwargs or {}))

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake, fake_loss = copy_model_as_fake(model, mode), copy_loss_as_fake(loss, mode)
        with torch.no_grad(), CallRecorder():
            fake_loss(fake, copy_batch_as_fake(batch, mode))
    return tuple(found)


def _describe_call(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **_: Any,
) -> AttentionCall:
    mask: MaskKind = "causal" if is_causal else "none"
    if attn_mask is not None:
        mask = "bool" if attn_mask.dtype == torch.bool else "additive"
    sides = query.shape if query.dim() == 4 else (1, *query.shape)
    heads = key.shape[-3] if key.dim() >= 3 else 1
    return AttentionCall(sides[0], sides[1], heads, sides[2], key.shape[-2], sides[3], mask)


@contextlib.contextmanager
def best_attention(
    calls: Sequence[AttentionCall], device: torch.device, precision: Precision
) -> Iterator[AttentionChoice]:
    """Only the kernels that are right for some calls, the fastest first, while in the context.

    Args:
        calls: of `record_attention_calls`.
        device: other than CUDA and ROCm devices have one kernel, which stays.
        precision: that the model computes in.
    """
    from torch.nn.attention import sdpa_kernel

    from anyrig.precision.kernel_checks import ATTENTION_BACKENDS

    if device.type != "cuda" or not calls:
        why = "no call of torch's attention" if not calls else f"{device.type} has no choice"
        yield AttentionChoice((), why)
        return
    chosen = choose_attention(calls[:_MAX_CALLS], device, _attention_precision(precision))
    # In this order, since compiled code for any size of batch cannot call cuDNN's kernel, and plain
    # attention takes twice the time and memory of the next best.
    order = [ATTENTION_BACKENDS[name] for name in (*chosen.kernels, "math")]
    with sdpa_kernel(order, set_priority=True), _separate_compiler_cache(chosen.kernels):
        yield chosen


@contextlib.contextmanager
def _separate_compiler_cache(kernels: Sequence[str]) -> Iterator[None]:
    """Keep torch's compiler from taking code of its cache that has another kernel inside.

    Which kernel runs is settled while a model is traced, and the cache's keys do not hold it.
    """
    config = getattr(torch.compiler, "config", None)
    before = getattr(config, "cache_key_tag", None)
    if config is None or before is None:
        yield
        return
    config.cache_key_tag = f"{before} attention {' '.join(kernels)}".strip()
    try:
        yield
    finally:
        config.cache_key_tag = before


def _attention_precision(precision: Precision) -> Precision:
    """What attention is computed in under a precision."""
    return {"fp8": "bf16", "tf32": "fp32"}.get(precision, precision)  # type: ignore[return-value]


def choose_attention(
    calls: Sequence[AttentionCall], device: torch.device, precision: Precision
) -> AttentionChoice:
    """The kernels that are right for all calls, the fastest first."""
    from anyrig.precision.kernel_checks import check_attention

    wrong: dict[str, str] = {}
    right: set[str] = set()
    for call in calls:
        for result in check_attention(device, (precision,), _build_cases(call)):
            if result.verdict == "wrong":
                text = f"{result.backend} is wrong at {call.text}: {result.problem}"
                wrong.setdefault(result.backend, text)
            elif result.verdict == "right":
                right.add(result.backend)
    # "math" is torch's plain attention, which needs no choice.
    kernels = tuple(name for name in _order_kernels(device) if name in right - set(wrong))
    shapes = ", ".join(call.text for call in calls)
    reason = f"{kernels[0]} for {shapes}" if kernels else "plain attention"
    return AttentionChoice(kernels, "; ".join([reason, *wrong.values()]))


def _order_kernels(device: torch.device) -> tuple[str, ...]:
    is_recent = not torch.version.hip and torch.cuda.get_device_capability(device) >= _HOPPER
    return ("cudnn", "flash", "efficient") if is_recent else ("flash", "cudnn", "efficient")


def _build_cases(call: AttentionCall) -> list[AttentionCase]:
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


# -- cuDNN -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def cudnn_benchmark(option: CompileOption, device_type: str, *, gains: bool) -> Iterator[str]:
    """Let cuDNN try its algorithms for a convolution and keep the fastest; the reason.

    Args:
        option: `auto` does it where it gains: each new shape is tried anew.
        device_type: where it runs.
        gains: whether the model has convolutions, and inputs of one size.
    """
    used = option is True or (option == "auto" and device_type == "cuda" and gains)
    why = "as set" if option != "auto" else "convolutions on inputs of one size"
    if option == "auto" and not used:
        why = "no convolutions on inputs of one size"
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = used
    try:
        yield f"benchmark {'on' if used else 'off'}: {why}"
    finally:
        torch.backends.cudnn.benchmark = before
