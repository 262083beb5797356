"""What a training step takes of a device's memory, before anything is loaded, without the device.

A step runs on tensors without data (torch's fake tensors): forward, loss, backward, the optimizer,
and all of it again, since the optimizer's state appears with the first step. `MemoryTracker` counts
which storages are alive. As a torch without CUDA cannot run backward on tensors that are said to be
on a GPU, the tensors are those of a CPU, and `gpu_rules` has torch's dispatcher treat them as a GPU
would: the formats of autocast, attention without scores, dropout's mask of bytes. What the kernels
of a GPU take for themselves is added from the sources of its libraries.

Left out: the driver's own context (hundreds of MiB), what the caching allocator keeps between
tensors, and compiled models, which mostly take less. On an H200 the estimate is within 1.5 % of
what torch measures (benchmarks/results).
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

from anyrig.devices.machine import Device, Precision, parse_precision
from anyrig.devices.vendors import vendor_of
from anyrig.errors import AnyrigError, InvalidInputError, InvalidSettingError
from anyrig.events import OnEvent, ProgressEvent
from anyrig.training.batch import map_leaves, tensors_of
from anyrig.training.config import Recompute, TrainConfig
from anyrig.training.fake import (
    copy_batch_as_fake,
    copy_loss_as_fake,
    copy_model_as_fake,
    is_fake,
)
from anyrig.training.losses import Loss, LossOutput
from anyrig.units import GIB, KIB, MIB, format_bytes

if TYPE_CHECKING:
    from anyrig.training.tasks import Task

OptimizerChoice = str | Callable[..., torch.optim.Optimizer]
_HALF_DTYPES: Mapping[str, torch.dtype] = {
    "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16
}  # fmt: skip
_GPUS = frozenset({"cuda", "xpu", "mps"})
_FUSED = frozenset({"adamw", "adam", "sgd", "momentum"})
_STEPS = 2
_MICROS = 2
"""Further micro batches take what the second takes."""


@dataclass(frozen=True)
class Estimate:
    """What a step takes at its peak, in bytes; the parts add up to it."""

    micro_batch: int
    precision: Precision
    device_type: str
    weights: int
    gradients: int
    state: int
    """The optimizer's."""
    activations: int
    """With the batch, casts of weights, and whatever else lives for a while."""
    workspace: int
    """What libraries take beside tensors."""
    peak: int
    by_phase: Mapping[str, int]
    """The peak of forward, backward and optimize."""
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        parts = ", ".join(
            f"{name} {format_bytes(getattr(self, name))}"
            for name in ("weights", "gradients", "state", "activations", "workspace")
        )
        return f"{format_bytes(self.peak)} at a micro batch of {self.micro_batch} ({parts})"


def estimate(
    model: nn.Module,
    batch: Callable[[int], Any],
    loss: Loss,
    *,
    micro_batch: int = 1,
    num_micro: int = 1,
    precision: Precision = "fp32",
    optimizer: OptimizerChoice = "adamw",
    fused: bool = True,
    recompute: Recompute = "none",
    recompute_types: Sequence[str] = (),
    offload_optimizer: bool = False,
    device_type: str = "cuda",
    capability: str | None = None,
) -> Estimate:
    """The peak of a training step in eager mode.

    Args:
        model: it is not changed; one too large for this host may be on torch's `meta` device.
        batch: gives a batch of a size; `repeat_batch(example)` makes such a function.
        loss: of the model and a batch, a scalar, as the Trainer takes it.
        micro_batch: items computed at once.
        num_micro: micro batches in a step; from two on, gradients live during the forward pass.
        precision: as for the Trainer: bf16 and fp16 by autocast, fp8 counted as bf16.
        optimizer: a name that the Trainer knows, or a function of the model's parameter groups.
        fused: whether its kernels are fused; those that are not make copies of the weights.
        recompute: whether activations are computed again.
        recompute_types: class names of the blocks.
        offload_optimizer: its state is in host memory.
        device_type: torch's name of the kind of device it is for.
        capability: of a CUDA device, for the size of its libraries' workspaces.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    if micro_batch < 1 or num_micro < 1:
        raise InvalidInputError(
            f"a micro batch of {micro_batch}, {num_micro} of them", hint="Count from 1 up."
        )
    precision = cast("Precision", parse_precision(precision) or precision)
    tracker = MemoryTracker(kernel_bytes if device_type == "cuda" else None)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with _no_warnings(), _rules_of(device_type) as casts, contextlib.ExitStack() as stack:
            fake = copy_model_as_fake(model, mode, "cpu")
            fake_loss = copy_loss_as_fake(loss, mode, "cpu")
            stack.enter_context(mode)
            if recompute != "none":
                from anyrig.training.memory import recompute as recompute_blocks

                stack.enter_context(recompute_blocks(fake, recompute, recompute_types))
            built = _build_optimizer(fake, optimizer, fused, device_type)

            def run_micro_batch() -> None:
                tracker.phase = "forward"
                with tracker.pause():
                    items = copy_batch_as_fake(batch(micro_batch), mode, "cpu")
                tracker.add(tensors_of(items), "batch")
                with _autocast(precision):
                    output = fake_loss(fake, items)
                    value = output.loss if isinstance(output, LossOutput) else output
                if casts is not None:
                    casts.clear()
                tracker.phase = "backward"
                value.backward()  # type: ignore[no-untyped-call]

            state_part: Part = "elsewhere" if offload_optimizer else "state"
            _run_steps(fake, built, run_micro_batch, min(num_micro, _MICROS), tracker, state_part)
    except AnyrigError:
        raise
    except Exception as error:
        raise _explain_failure(error) from error
    rules = f"by {device_type}'s rules" if device_type in _GPUS else "as on a CPU"
    constant, at_peak = constant_bytes(device_type, capability), tracker.at_peak
    return Estimate(
        micro_batch=micro_batch,
        precision=precision,
        device_type=device_type,
        weights=at_peak.get("weights", 0),
        gradients=at_peak.get("gradients", 0),
        state=at_peak.get("state", 0),
        activations=at_peak.get("activations", 0) + at_peak.get("batch", 0),
        workspace=at_peak.get("workspace", 0) + constant,
        peak=tracker.peak_bytes + constant,
        by_phase={name: count + constant for name, count in tracker.peaks.items() if name},
        reasons=(f"counted {rules}",),
    )


def repeat_batch(example: Any) -> Callable[[int], Any]:
    """A function that gives batches of any size, without data, like an example of any size.

    Every tensor's first side counts the items; what has no sides is passed on.
    """

    def make(size: int) -> Any:
        def resize(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0:
                return leaf
            return torch.empty((size, *leaf.shape[1:]), dtype=leaf.dtype, device="meta")

        return map_leaves(example, resize)

    return make


def _run_steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    run_micro_batch: Callable[[], None],
    num_micro: int,
    tracker: MemoryTracker,
    state_part: Part,
) -> None:
    """Two steps, as a plain loop runs them."""
    model.train()
    tracker.add([*model.parameters(), *model.buffers()], "weights")
    for weight in model.parameters():
        if weight.requires_grad:
            hook = weight.register_post_accumulate_grad_hook
            hook(lambda one: tracker.add([one.grad], "gradients"))  # type: ignore[no-untyped-call]
    with tracker:
        for number in range(_STEPS):
            if number:
                gc.collect()  # cycles of the first step are gone before they matter
            for _ in range(num_micro):
                run_micro_batch()
            tracker.phase = "optimize"
            optimizer.step()
            states = (value for one in optimizer.state.values() for value in one.values())
            tracker.add((one for one in states if isinstance(one, torch.Tensor)), state_part)
            optimizer.zero_grad(set_to_none=True)


def _build_optimizer(
    model: nn.Module, choice: OptimizerChoice, fused: bool, device_type: str
) -> torch.optim.Optimizer:
    from anyrig.training.optim import build_optimizer

    fused = fused and choice in _FUSED and device_type in _GPUS | {"cpu"}
    optimizer = build_optimizer(choice, model, fused=fused).optimizer
    if not fused and device_type in _GPUS and "foreach" in optimizer.defaults:
        for group in optimizer.param_groups:  # what torch does by itself on a GPU
            group["foreach"] = True
    return optimizer


def _autocast(precision: Precision) -> contextlib.AbstractContextManager[Any]:
    half = _HALF_DTYPES.get(precision)
    return contextlib.nullcontext() if half is None else torch.autocast("cpu", dtype=half)


@contextlib.contextmanager
def _rules_of(device_type: str) -> Iterator[AutocastCache | None]:
    if device_type not in _GPUS:
        yield None
        return
    with gpu_rules(attention=device_type != "mps") as casts:  # Metal's writes the scores
        yield casts


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """What models warn of (no CUDA here, no data) says nothing about the real run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _explain_failure(error: Exception) -> InvalidSettingError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return InvalidSettingError(
        f"this step cannot be counted without data: {lines[0][:200]}",
        hint="A model or loss that reads values (.item(), .any() in an if) can only be measured: "
        "run a profile of it.",
    )


# -- which storages are alive ----------------------------------------------------------------------

Part = Literal["weights", "gradients", "state", "batch", "activations", "elsewhere"]
"""`elsewhere` is not on the device: it is not counted."""
ROUNDING = 512
"""Bytes: the smallest block of the caching allocator."""
CountWorkspace = Callable[[str, tuple[Any, ...], Any], int]
"""What a kernel takes for itself: of an operation's name, its arguments and its results."""


class MemoryTracker(TorchDispatchMode):
    """Counts the storages of what operations return, until the last tensor on them is gone.

    Args:
        workspace: what kernels take beside their results, until they end.
    """

    def __init__(self, workspace: CountWorkspace | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._workspace = workspace
        self._sizes: dict[int, tuple[weakref.ref[Any], int, Part]] = {}
        self._live: Counter[Part] = Counter()
        self._counting = True
        self.phase = ""
        self.peaks: dict[str, int] = {}
        """The most bytes in each phase."""
        self.at_peak: Mapping[str, int] = {}
        """What was alive when most was, by part, and `workspace`."""

    @property
    def peak_bytes(self) -> int:
        return max(self.peaks.values(), default=0)

    def add(self, tensors: Iterable[torch.Tensor], part: Part) -> None:
        """Count tensors that exist already, or that belong to a part from now on."""
        for tensor in tensors:
            self._count(tensor, part)
            key = id(tensor.untyped_storage())
            ref, size, before = self._sizes[key]
            self._live[before] -= size
            self._live[part] += size
            self._sizes[key] = (ref, size, part)
        self._update_peaks(0)

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        self._counting = False
        try:
            yield
        finally:
            self._counting = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        results = run_at_largest(func, args, kwargs or {})
        if self._counting:
            for tensor in _iterate_tensors(results):
                self._count(tensor, "activations")
            extra = self._workspace(str(func), args, results) if self._workspace is not None else 0
            self._update_peaks(extra)
        return results

    def _count(self, tensor: torch.Tensor, part: Part) -> None:
        storage = tensor.untyped_storage()
        key = id(storage)
        known = self._sizes.get(key)
        if known is not None and known[0]() is storage:
            return
        size = -(-storage.nbytes() // ROUNDING) * ROUNDING

        def forget(_: Any) -> None:
            _, size, part = self._sizes.pop(key)
            self._live[part] -= size

        self._sizes[key] = (weakref.ref(storage, forget), size, part)
        self._live[part] += size

    def _update_peaks(self, extra: int) -> None:
        now = self._live.total() - self._live["elsewhere"] + extra
        if now > self.peak_bytes:
            self.at_peak = {str(part): n for part, n in self._live.items()} | {"workspace": extra}
        self.peaks[self.phase] = max(now, self.peaks.get(self.phase, 0))


def _iterate_tensors(values: Any) -> Iterator[torch.Tensor]:
    return (one for one in tree_iter(values) if isinstance(one, torch.Tensor))


# -- operations whose results are as large as their data say ---------------------------------------


def run_at_largest(operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The results of an operation; one that selects elements by value selects all of them, where
    there are no values: the most that a step can need.
    """
    select_all = _SELECTING.get(str(operation))
    if select_all is None or not is_fake(args[0]):
        return operation(*args, **kwargs)
    return select_all(operation, args)


def _all_places(mask: torch.Tensor) -> torch.Tensor:
    return mask.new_empty((mask.numel(), mask.dim()), dtype=torch.long)


def _select_all(operation: Any, args: tuple[Any, ...]) -> torch.Tensor:
    values, mask = torch.broadcast_tensors(args[0], args[1])  # type: ignore[no-untyped-call]
    return cast("torch.Tensor", values.new_empty(mask.numel()))


def _index_all(operation: Any, args: tuple[Any, ...]) -> Any:
    """By numbers instead of by a mask: the result, and what is kept for backward, are as large."""
    indices: list[torch.Tensor | None] = []
    for one in args[1]:
        is_mask = one is not None and one.dtype in (torch.bool, torch.uint8)
        indices += _all_places(one).unbind(1) if is_mask else [one]
    return operation(args[0], indices, *args[2:])


_SELECTING: Mapping[str, Callable[[Any, tuple[Any, ...]], Any]] = {
    "aten.nonzero.default": lambda _, args: _all_places(args[0]),
    "aten.masked_select.default": _select_all,
    "aten.index.Tensor": _index_all,
    "aten.index_put.default": _index_all,
    "aten.index_put_.default": _index_all,
    "aten._index_put_impl_.default": _index_all,
}

# -- what a GPU's kernels take beside their results ------------------------------------------------

# cuBLAS keeps one for the thread that runs forward and one for backward's: torch gives it 32 MiB
# on Hopper and later, and 8,320 KiB (:4096:2:16:8) elsewhere.
_CUBLAS_LARGE, _CUBLAS = 2 * 32 * MIB, 2 * 8320 * KIB
_HALVES = (torch.float16, torch.bfloat16)


def constant_bytes(device_type: str, capability: str | None = None) -> int:
    """What stays taken as long as products run; an unknown capability counts as the largest."""
    if device_type != "cuda":
        return 0
    if capability is None or capability.startswith("gfx"):
        return _CUBLAS_LARGE
    return _CUBLAS_LARGE if int(capability.partition(".")[0] or 0) >= 9 else _CUBLAS


def kernel_bytes(operation: str, args: tuple[Any, ...], results: Any) -> int:
    """What one operation takes until it ends."""
    if operation.startswith("aten._scaled_dot_product_flash_attention_for_cpu_backward"):
        # Gradients of half-precision queries are added up in fp32, beside a sum of each row.
        query = args[1]
        rows = int(query.numel() // query.shape[-1])
        return (int(query.numel()) * 4 if query.dtype in _HALVES else 0) + rows * 4
    if operation.startswith("aten.convolution_backward"):
        return _transposed_bytes(args[1], args[0])
    if operation.startswith("aten.convolution."):
        return _transposed_bytes(args[0], results)
    if operation.startswith("aten.embedding_dense_backward"):
        return int(args[1].numel()) * 8 * 4  # token ids are sorted: two copies, and the order
    return 0


def _transposed_bytes(inputs: torch.Tensor, outputs: torch.Tensor) -> int:
    """Tensor cores need channels last: cuDNN transposes input and output in its workspace."""
    if inputs.dtype not in _HALVES or inputs.dim() != 4 or inputs.shape[1] < 8:
        return 0
    if inputs.is_contiguous(memory_format=torch.channels_last):
        return 0
    return inputs.numel() * inputs.element_size() + outputs.numel() * outputs.element_size()


# -- a GPU's rules on a plain CPU ------------------------------------------------------------------
# torch's lists of autocast on GPUs (ATen/autocast_mode.h), as its dispatcher names them.

_IN_HALF = frozenset(
    """_convolution _convolution.deprecated conv1d conv2d conv3d conv1d.padding conv2d.padding
    conv3d.padding conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input
    convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm
    chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    scaled_dot_product_attention""".split()
)
_IN_FP32 = frozenset(
    """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm
    group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss
    huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
    logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
    upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
    _upsample_bicubic2d_aa norm.Scalar norm.ScalarOpt_dim""".split()
)
_TO_FP32 = frozenset(
    """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
    linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList""".split()
)
"""Their result is requested in fp32; the kernel casts its input."""
_IN_WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"
    .split()
)  # fmt: skip
"""In the widest format among their inputs."""
AUTOCAST_OPERATIONS = _IN_HALF | _IN_FP32 | _TO_FP32 | _IN_WIDEST
_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def gpu_rules(*, attention: bool = True) -> Iterator[AutocastCache]:
    """Autocast, attention and dropout of fake tensors as a GPU does them.

    The dispatcher belongs to the whole process: another thread that uses autocast on the CPU
    meanwhile gets the GPU's formats too. Attention and dropout of real tensors are left alone.

    Args:
        attention: whether the device has kernels that do not write the scores.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch reports that kernels are replaced
        autocast: Any = torch.library.Library("aten", "IMPL", "AutocastCPU")  # type: ignore[no-untyped-call]
        autograd: Any = torch.library.Library("aten", "IMPL", "AutogradCPU")  # type: ignore[no-untyped-call]
        try:
            cache = AutocastCache()
            here: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
            names = {name.removeprefix("aten::") for name in here if name.startswith("aten::")}
            for name in sorted(names | AUTOCAST_OPERATIONS):
                operation = _find_operation(name)
                if operation is not None:
                    _replace_kernel(autocast, name, _build_kernel(name, operation, cache))
            _replace_kernel(autograd, "dropout", _drop_out)
            _replace_kernel(
                autograd, "scaled_dot_product_attention", _attend if attention else _attend_plainly
            )
            yield cache
        finally:
            autocast._destroy()
            autograd._destroy()


def _replace_kernel(library: Any, name: str, kernel: Callable[..., Any]) -> None:
    # Only later releases of torch have the argument, and ask for it.
    has_flag = "allow_override" in inspect.signature(library.impl).parameters
    library.impl(name, kernel, **({"allow_override": True} if has_flag else {}))


def _find_operation(name: str) -> Any:
    """torch's object of an operation; None if this version has none."""
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, overload or "default", None) if packet is not None else None


class AutocastCache:
    """Weights that autocast has cast already; cleared when it ends."""

    def __init__(self) -> None:
        self._casts: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if not _is_castable(tensor) or tensor.dtype == dtype:
            return tensor
        is_weight = tensor.is_leaf and tensor.requires_grad and tensor.dtype == torch.float32
        if not is_weight or dtype == torch.float32 or not torch.is_autocast_cache_enabled():
            return tensor.to(dtype)
        known = self._casts.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1].dtype == dtype:
            return known[1]
        result = tensor.to(dtype)
        self._casts[id(tensor)] = (weakref.ref(tensor), result)
        return result

    def clear(self) -> None:
        self._casts.clear()


def _build_kernel(name: str, operation: Any, cache: AutocastCache) -> Callable[..., Any]:
    """What an operation does under autocast."""
    # A GPU's autocast passes what is composed of other operations on, and casts in those: the
    # softmax inside of cross-entropy is in fp32 there. A CPU's has a rule for the whole.
    is_composed = name not in AUTOCAST_OPERATIONS and operation.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CompositeImplicitAutograd
    )
    autocast_keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def choose_dtype(values: Any) -> torch.dtype | None:
        if name in _IN_HALF:
            return torch.get_autocast_dtype("cpu")
        if name in _IN_FP32:
            return torch.float32
        if name in _IN_WIDEST:
            dtypes = {one.dtype for one in _iterate_tensors(values) if _is_castable(one)}
            return torch.float32 if torch.float32 in dtypes else None
        return None

    def run(*args: Any, **kwargs: Any) -> Any:
        if is_composed:
            return operation.decompose(*args, **kwargs)
        with torch._C._ExcludeDispatchKeyGuard(autocast_keys):
            if name in _TO_FP32:
                return _run_to_fp32(operation, args, kwargs)
            dtype = choose_dtype((args, kwargs))
            if dtype is not None:
                args, kwargs = tree_map_only(
                    torch.Tensor, lambda one: cache.cast(one, dtype), (args, kwargs)
                )
            return operation(*args, **kwargs)

    return run


def _is_castable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype != torch.float64


def _run_to_fp32(operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """With a result in fp32, unless the caller requests a format."""
    arguments = operation._schema.arguments
    bound = {one.name: one.default_value for one in arguments if one.has_default_value()}
    bound.update(zip((one.name for one in arguments), args, strict=False))
    bound.update(kwargs)
    inputs = next(_iterate_tensors(list(bound.values())), None)
    if inputs is None or not _is_castable(inputs) or bound.get("dtype") is not None:
        return operation(*args, **kwargs)
    fused = {"softmax": torch.ops.aten._softmax, "log_softmax": torch.ops.aten._log_softmax}
    kernel = fused.get(str(operation.overloadpacket).removeprefix("aten."))
    if kernel is not None and inputs.dtype == torch.float16:
        # A GPU's kernel reads fp16 and writes fp32: no copy between.
        return kernel.default(inputs, bound["dim"], True)
    bound["dtype"] = torch.float32
    positional = [bound[one.name] for one in arguments if not one.kwarg_only and one.name in bound]
    named = {one.name: bound[one.name] for one in arguments if one.kwarg_only and one.name in bound}
    return operation(*positional, **named)


def _drop_out(values: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not is_fake(values) or not train or not 0 < p < 1:
        plain: torch.Tensor = torch.ops.aten.dropout.default.decompose(values, p, train)
        return plain
    return torch.native_dropout(values, p, train)[0]


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """The CPU's kernel without scores keeps what a GPU's keeps: output, one number a row."""
    is_learnt = attn_mask is not None and attn_mask.requires_grad
    # What a GPU's kernels refuse: it writes the scores then.
    is_refused = query.dim() != 4 or any(one.stride(-1) != 1 for one in (query, key, value))
    if not is_fake(query) or is_learnt or is_refused:
        return _attend_plainly(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    output: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return output


def _attend_plainly(query: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """Attention in single operations; that of real tensors as torch does it by itself."""
    output: torch.Tensor
    if not is_fake(query):
        plain = torch.ops.aten.scaled_dot_product_attention.default
        output = plain.decompose(query, *args, **options)
        return output
    output = torch.ops.aten._scaled_dot_product_attention_math.default(
        query, *args, dropout_mask=None, **options
    )[0]
    return output


# -- which devices it fits -------------------------------------------------------------------------

_TORCH_TYPES = {"rocm": "cuda"}
# A CUDA context with torch's kernels loaded takes 300-600 MiB; others have been seen near it.
_CONTEXT_BYTES = 512 * MIB
# A process with torch loaded, a tiny model trained in it: 331 MiB seen on Linux.
_PROCESS_BYTES = 320 * MIB
# What the allocator keeps beside live tensors.
_SPARE = 1.05


@dataclass(frozen=True)
class DeviceEstimate:
    """What a step needs of one device, and whether it fits. A measurement decides."""

    device: Device
    estimate: Estimate
    needed_bytes: int
    """With the driver's context and what the allocator keeps."""
    existing_bytes: int | None
    """What is free there and may be used; all of it if the device does not tell what is free."""
    fits: bool | None
    """None if the device does not tell its memory."""
    largest_micro_batch: int | None
    """On a line through two estimates; None if there is one only."""
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device.id, "name": self.device.name,
            "needed_bytes": self.needed_bytes, "existing_bytes": self.existing_bytes,
            "fits": self.fits, "largest_micro_batch": self.largest_micro_batch,
            "reason": self.reason, "estimate": asdict(self.estimate),
        }  # fmt: skip


def estimate_devices(
    task: Task,
    settings: TrainConfig,
    optimizer: str,
    devices: Sequence[Device],
    precision_of: Callable[[Device], Precision],
    on_event: OnEvent = lambda event: None,
) -> list[DeviceEstimate]:
    """Estimate a task's step on each device, in the precision that it would train in."""
    known: dict[tuple[str, str], list[Estimate]] = {}
    found = []
    for device in devices:
        kind, precision = _find_torch_type(device), precision_of(device)
        if (kind, precision) not in known:
            on_event(ProgressEvent(f"estimating a step in {precision} for {kind}"))
            known[kind, precision] = _estimate_two_sizes(
                task, settings, optimizer, kind, precision, device
            )
        limit = _limit_bytes(device, settings)
        found.append(compare_with_device(known[kind, precision], device, limit))
    return found


def compare_with_device(
    estimates: Sequence[Estimate], device: Device, limit_bytes: int | None = None
) -> DeviceEstimate:
    """What a device has beside what a step needs at the largest estimated micro batch.

    Args:
        estimates: of one step, at one or two micro batches.
        device: that they were made for.
        limit_bytes: use at most this much of it.
    """
    low, high = (choose(estimates, key=lambda one: one.micro_batch) for choose in (min, max))
    context = _CONTEXT_BYTES if device.kind == "gpu" else _PROCESS_BYTES
    needed = int(high.peak * _SPARE) + context
    known = (device.memory.free_bytes, device.memory.total_bytes)
    free = next((one for one in known if one is not None), None)
    existing = min((one for one in (free, limit_bytes) if one is not None), default=None)
    largest = None
    if existing is not None and low is not high:
        slope = (high.peak - low.peak) / (high.micro_batch - low.micro_batch)
        available = (existing - context) / _SPARE
        if slope > 0:
            largest = max(0, int(low.micro_batch + (available - low.peak) / slope))
        else:  # so small that the optimizer's own peak hides it
            largest = high.micro_batch if available >= high.peak else 0
    reasons = ["it does not tell its memory"] if existing is None else []
    if reason := device.block_reason:
        reasons.append(f"not usable now: {reason}")
    return DeviceEstimate(
        device, high, needed, existing, None if existing is None else needed <= existing, largest,
        "; ".join(reasons),
    )  # fmt: skip


def _limit_bytes(device: Device, settings: TrainConfig) -> int | None:
    if settings.memory_gb:
        return int(settings.memory_gb * GIB)
    total = device.memory.total_bytes
    if total is None or not settings.memory_fraction:
        return None
    return int(total * settings.memory_fraction)


def _estimate_two_sizes(
    task: Task,
    settings: TrainConfig,
    optimizer: str,
    kind: str,
    precision: Precision,
    device: Device,
) -> list[Estimate]:
    """For one item and for the requested micro batch: a line through both gives the largest."""
    from anyrig.training.data import DataSource
    from anyrig.training.distributed.group import Group
    from anyrig.training.estimate import estimate, repeat_batch

    source = DataSource(task.data, settings, Group(), collate=task.collate)
    batch = source.batch
    requested = batch if settings.micro_batch == "auto" else settings.micro_batch
    # Where nothing is compiled, the trainer recomputes whole blocks.
    is_selective = settings.recompute == "selective" and kind in ("cuda", "xpu")
    recompute = (
        "blocks" if settings.recompute != "none" and not is_selective else settings.recompute
    )
    example = source.first_batch(2)
    return [
        estimate(
            task.model, repeat_batch(example), task.loss, micro_batch=size,
            num_micro=min(2, -(-batch // size)), precision=precision,
            optimizer=optimizer, fused=settings.fused_optimizer is not False,
            recompute=recompute, recompute_types=settings.recompute_types,
            offload_optimizer=settings.offload_optimizer, device_type=kind,
            capability=device.capability if kind == "cuda" else None,
        )
        for size in sorted({1, requested})
    ]  # fmt: skip


def _find_torch_type(device: Device) -> str:
    """The device type that torch has, or would have, for a device."""
    for backend in device.backends:
        if backend.library == "torch":
            name = backend.provider.partition(":")[0]
            return _TORCH_TYPES.get(name, name)
    if device.kind == "cpu":
        return "cpu"
    return vendor_of(device).torch_device.partition(":")[0] or "cuda"
