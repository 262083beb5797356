"""torch.compile with a fallback that says why, and the attention kernels that a model trains with.

A model is compiled when it is first called, so that is where compiling fails: no C++ compiler, no
triton, code that cannot be traced. From then on the model runs as it is, and the same step is made
again from the same random states. A shortage of memory is no such failure and is passed on.

A kernel of attention that is wrong with a mask may be right, and twice as fast, without one. So a
model's own calls are recorded, on tensors without data, and each kernel is tried on shapes like
them, forward and backward, against fp64 on the host. What is wrong there is switched off while the
run lasts; the others are tried in the order of their speed, and torch's plain attention last.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import AnyrigError
from anyrig.memory.oom import detect_device_loss, detect_oom
from anyrig.training import rng
from anyrig.training.batch import Batch
from anyrig.training.losses import Loss

if TYPE_CHECKING:
    from anyrig.devices.machine import Precision
    from anyrig.precision.kernel_checks import AttentionCase, MaskKind


T = TypeVar("T")
OnMessage = Callable[[str], None]
CompileOption = bool | Literal["auto"]
_OLDEST = (7, 0)
"""The compute capability that triton's kernels begin at."""
_PARTS = ("torch/_dynamo/", "torch/_inductor/", "torch/_functorch/", "torch/fx/", "triton/")
_CLASSES = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "triton")
# What compiled code goes through when it runs, compiled long ago: no sign that compiling failed.
_RUNNING = ("eval_frame.py", "runtime_wrappers.py", "aot_autograd.py", "output_code.py", "utils.py")
_LIMIT_LOG = "torch._dynamo.convert_frame"
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
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    fullgraph: bool = False,
    on_message: OnMessage | None = None,
) -> Compiled:
    """A model compiled in place.

    Args:
        model: that is compiled when it is called next.
        how: true forces, false forbids, `auto` where a GPU gains from it.
        device_type: where it runs.
        mode: of torch.compile, such as "reduce-overhead" for recorded kernels.
        dynamic: whether shapes vary; None finds out.
        backend: of torch.compile.
        fullgraph: fail where code cannot be compiled as one piece.
        on_message: is given the reason of a fall-back.
    """
    decision = decide_compile(
        how, device_type, triton=_has_triton(how), capability=_read_capability(how, device_type)
    )
    compiled = Compiled(model, decision, on_message)
    if decision.used:
        compiled.begin(backend=backend, mode=mode, dynamic=dynamic, fullgraph=fullgraph)
    return compiled


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
        self._listener: _LimitListener | None = None

    def begin(self, **options: Any) -> None:
        """Have it compiled when it is called next."""
        try:
            _compile_in_place(self._model, options)
        except Exception as error:  # noqa: BLE001  # a Python that torch does not know yet, and so on
            self._fall_back(self.failure(error) or _summarize_error(error))
        else:
            self._listener = _LimitListener(self._report)

    def failure(self, error: BaseException) -> str | None:
        """Why compiling failed, in a line, when an error means that; None for every other error."""
        if not self.used or not isinstance(error, Exception) or isinstance(error, AnyrigError):
            return None
        if detect_oom(error) is not None or detect_device_loss(error) is not None:
            return None
        return (
            _summarize_error(error)
            if any(_is_from_compiler(link) for link in _iterate_causes(error))
            else None
        )

    def falls_back(self, error: BaseException) -> bool:
        """Whether an error came from compiling. If so, all goes on without, from the next call on.

        The caller makes its step again, after gradients are dropped and random states put back.
        """
        reason = self.failure(error)
        if reason is not None:
            self._fall_back(reason)
        return reason is not None

    def run(
        self,
        step: Callable[[], T],
        *,
        reset: Callable[[], object] | None = None,
        device: torch.device | str = "cpu",
    ) -> T:
        """Make a step; where compiling fails in it, make it again without.

        Args:
            step: forward and backward of a batch, without the optimiser's step.
            reset: drops the gradients that the failed try may have left.
            device: whose random state is put back too.
        """
        if not self.used:
            return step()
        before = rng.capture(device)
        try:
            return step()
        except Exception as error:
            if not self.falls_back(error):
                raise
        # Outside of the handler: the error holds the tensors of the failed try.
        rng.restore({0: before}, 0, device)
        if reset is not None:
            reset()
        return step()

    def undo(self) -> None:
        """Run as it was before, for good."""
        self.used = False
        self._model._compiled_call_impl = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def __enter__(self) -> Compiled:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def _fall_back(self, why: str) -> None:
        self.undo()
        self.reason = f"not compiled: {why}"
        self._report(self.reason)

    def _report(self, text: str) -> None:
        if self._on_message is not None:
            self._on_message(text)


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


class _LimitListener(logging.Handler):
    """Hears torch say that it compiles something no more because its shapes keep changing."""

    def __init__(self, report: OnMessage) -> None:
        super().__init__(logging.WARNING)
        self._report, self._has_reported = report, False
        logging.getLogger(_LIMIT_LOG).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if "recompile_limit" in record.getMessage() and not self._has_reported:
            self._has_reported = True
            self._report(
                "a part of the model runs as it is: it was compiled too often, as shapes or values "
                "keep changing; items of equal length help"
            )

    def close(self) -> None:
        logging.getLogger(_LIMIT_LOG).removeHandler(self)
        super().close()


# -- recognising -----------------------------------------------------------------------------------


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = getattr(link, "inner_exception", None) or link.__cause__ or link.__context__


def _is_from_compiler(error: BaseException) -> bool:
    """Whether an error is of the compiler's own, or came up while it was at work."""
    if type(error).__module__.startswith(_CLASSES):
        return True
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename.replace("\\", "/")
        if any(part in path for part in _PARTS) and not path.endswith(_RUNNING):
            return True
        trace = trace.tb_next
    return False


_HINTS = (
    (("C++ compiler", "CppCompile", "g++"), "a C++ compiler is needed (g++ or clang++)"),
    (("C compiler",), "a C compiler is needed (gcc or clang)"),
    (("Python.h",), "Python's headers are needed (python3-dev)"),
    (("TritonMissing", "No module named 'triton'", "working triton"), "triton is not installed"),
    (("RecompileLimit", "recompile_limit"), "it was compiled too often, as shapes keep changing"),
)


def _summarize_error(error: BaseException) -> str:
    """A compiler's error in a line: the innermost cause, or what is missing where that is known."""
    links = list(_iterate_causes(error))
    whole = "\n".join(f"{type(link).__name__}: {link}" for link in links)
    for words, meaning in _HINTS:
        if any(word in whole for word in words):
            return meaning
    inner = links[-1]
    with contextlib.suppress(Exception):
        lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
        if lines:
            return f"{type(inner).__name__}: {lines[0]}"[:_LENGTH]
    return type(inner).__name__


# -- attention ------------------------------------------------------------------------------------


log = logging.getLogger(__name__)
_LONGEST = 1024
"""Longer calls are tried at about this length: the reference on the host grows with its square."""
_PERIOD = 128
"""Known faults depend on the length's remainder by this."""
_MAX_CALLS = 6
_ROUNDS = 5
_ENOUGH_FLOPS = 1e12
"""Of a timed call: less than this ends before the host has started the next one."""
_TENSOR_BYTES = 32 << 20
"""No tensor of a timed call is larger."""


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

    from anyrig.training.fake import copy_batch_as_fake, copy_model_as_fake

    found: dict[AttentionCall, None] = {}

    class CallRecorder(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is F.scaled_dot_product_attention:
                found[_describe_call(*args, **(kwargs or {}))] = None
            return func(*args, **(kwargs or {}))

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = copy_model_as_fake(model, mode)
        with torch.no_grad(), CallRecorder():
            loss(fake, copy_batch_as_fake(batch, mode))
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
    there: set[str] = set()
    for call in calls:
        for result in check_attention(device, (precision,), _build_cases(call)):
            name = result.backend
            if result.verdict == "wrong":
                wrong.setdefault(name, f"{name} is wrong at {call.text}: {result.problem}")
            elif result.verdict == "right" and name != "math":
                there.add(name)
    right = sorted(there - set(wrong))
    measured = {name: _measure_item_s(name, calls, device, precision) for name in right}
    times = {name: seconds for name, seconds in measured.items() if seconds is not None}
    if not times:
        return AttentionChoice((), "; ".join(["plain attention", *wrong.values()]))
    kept = tuple(sorted(times, key=lambda name: times[name]))
    details = ", ".join(f"{name} {seconds * 1e6:.1f} us" for name, seconds in sorted(times.items()))
    shapes = ", ".join(call.text for call in calls)
    return AttentionChoice(
        kept, "; ".join([f"{kept[0]} for {shapes} ({details} an item)", *wrong.values()])
    )


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


def _measure_item_s(
    name: str, calls: Sequence[AttentionCall], device: torch.device, precision: Precision
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
                total += _measure_within_memory(call, batch, device, DTYPES[precision])
            except RuntimeError:
                return None
    return total


def _measure_within_memory(
    call: AttentionCall, batch: int, device: torch.device, dtype: torch.dtype
) -> float:
    """How long an item takes, among fewer where memory is short."""
    while True:
        try:
            return _time_call(call, *_draw_tensors(call, batch, device, dtype)) / batch
        except torch.OutOfMemoryError:
            if batch == 1:
                raise
            batch //= 2


def timed_batch(call: AttentionCall, itemsize: int) -> int:
    """How many items a call is timed with: so many that the device takes longer than the host."""
    flops = 14 * call.heads * call.queries * call.keys * call.head_dim  # forward and backward
    size = call.heads * max(call.queries, call.keys) * call.head_dim * itemsize
    return max(1, min(round(_ENOUGH_FLOPS / flops), _TENSOR_BYTES // size))


def _draw_tensors(
    call: AttentionCall, batch: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    query = torch.randn(batch, call.heads, call.queries, call.head_dim, device=device, dtype=dtype)
    key = torch.randn(batch, call.key_heads, call.keys, call.head_dim, device=device, dtype=dtype)
    return query.requires_grad_(), key.requires_grad_(), key.clone().detach().requires_grad_()


def _time_call(
    call: AttentionCall, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> float:
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
