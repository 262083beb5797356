"""A GPU's rules of casting, attention and dropout for tensors without data on a plain CPU.

A build of torch without CUDA cannot run backward on tensors that say they are on a GPU, so an
estimate runs on the CPU's own kind of tensors. Three things differ there and change memory: which
operations autocast runs in which format, attention (a GPU keeps its output and one number a row,
never the scores) and dropout (a GPU keeps a mask of bytes). For as long as `gpu_rules` is open,
torch's dispatcher follows the GPU's rules for them.

The dispatcher belongs to the whole process: another thread that uses autocast on the CPU meanwhile
gets the GPU's formats too. Attention and dropout of tensors that hold data are left alone.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

_ALONE = threading.Lock()
# torch's lists for GPUs (ATen/autocast_mode.h), as its dispatcher names them.
_HALF = frozenset(
    """_convolution _convolution.deprecated conv1d conv2d conv3d conv1d.padding conv2d.padding
    conv3d.padding conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input
    convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm
    chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    scaled_dot_product_attention""".split()
)
_FULL = frozenset(
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
# Their result is asked for in fp32; the input is cast inside, where it must be.
_FULL_RESULT = frozenset(
    """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
    linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList""".split()
)
# Brought to the widest format among their inputs.
_WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"
    .split()
)  # fmt: skip
_RULED = _HALF | _FULL | _FULL_RESULT | _WIDEST
Kernel = Callable[..., Any]


@contextlib.contextmanager
def gpu_rules(*, attention: bool = True) -> Iterator[Casts]:
    """Autocast, attention and dropout of tensors without data as a GPU does them.

    Args:
        attention: whether the device has kernels that do not write the scores down.
    """
    with _ALONE, warnings.catch_warnings():
        # torch says that kernels are replaced: they are, and come back.
        warnings.simplefilter("ignore")
        casts: Any = _library("AutocastCPU")
        others: Any = _library("AutogradCPU")
        try:
            memory = Casts()
            for name, kernel in _cast_kernels(memory).items():
                _put(casts, name, kernel)
            _put(others, "dropout", _dropout)
            _put(others, "scaled_dot_product_attention", _attention if attention else _scores)
            yield memory
        finally:
            casts._destroy()
            others._destroy()


def _library(key: str) -> Any:
    return torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]


def _put(library: Any, name: str, kernel: Kernel) -> None:
    # Some releases of torch ask before a kernel is replaced, others have no word for it.
    asked = "allow_override" in inspect.signature(library.impl).parameters
    library.impl(name, kernel, **({"allow_override": True} if asked else {}))


# -- autocast --------------------------------------------------------------------------------------


def _cast_kernels(casts: Casts) -> dict[str, Kernel]:
    """A kernel for every operation that autocast touches on a CPU or on a GPU."""
    here: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    names = {name.removeprefix("aten::") for name in here if name.startswith("aten::")}
    kernels: dict[str, Kernel] = {}
    for name in sorted(names | _HALF | _FULL | _FULL_RESULT | _WIDEST):
        operation = _operation(name)
        if operation is not None:
            kernels[name] = casts.kernel(name, operation)
    return kernels


def _operation(name: str) -> Any:
    """torch's object of an operation; None where this build has none."""
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, overload or "default", None) if packet is not None else None


class Casts:
    """Casts as autocast does them, with its memory of weights already cast."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
        self._autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def kernel(self, name: str, operation: Any) -> Kernel:
        """What stands for an operation under autocast."""
        change = self._change(name)
        # A GPU's autocast lets what is made of other operations through, and casts in those: the
        # softmax inside of cross-entropy is in fp32 there. A CPU's has a rule for the whole.
        composed = name not in _RULED and operation.has_kernel_for_dispatch_key(
            torch._C.DispatchKey.CompositeImplicitAutograd
        )

        def run(*args: Any, **kwargs: Any) -> Any:
            if composed:
                return operation.decompose(*args, **kwargs)
            with torch._C._ExcludeDispatchKeyGuard(self._autocast):
                if name in _FULL_RESULT:
                    return _in_full(operation, args, kwargs)
                dtype = change(args, kwargs)
                if dtype is None:
                    return operation(*args, **kwargs)
                return operation(*_cast(args, dtype, self), **_cast(kwargs, dtype, self))

        return run

    @staticmethod
    def _change(name: str) -> Callable[[Any, Any], torch.dtype | None]:
        if name in _HALF:
            return lambda args, kwargs: torch.get_autocast_dtype("cpu")
        if name in _FULL:
            return lambda args, kwargs: torch.float32
        if name in _WIDEST:
            return lambda args, kwargs: _widest((args, kwargs))
        return lambda args, kwargs: None

    def to(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The tensor in a format; a weight is cast once until autocast ends."""
        if not _eligible(tensor) or tensor.dtype == dtype:
            return tensor
        weight = tensor.is_leaf and tensor.requires_grad and tensor.dtype == torch.float32
        if not weight or dtype == torch.float32 or not torch.is_autocast_cache_enabled():
            return tensor.to(dtype)
        found = self._kept.get(id(tensor))
        if found is not None and found[0]() is tensor and found[1].dtype == dtype:
            return found[1]
        made = tensor.to(dtype)
        self._kept[id(tensor)] = (weakref.ref(tensor), made)
        return made

    def forget(self) -> None:
        """Autocast has ended."""
        self._kept.clear()


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(value: Any, dtype: torch.dtype, casts: Casts) -> Any:
    """The same nest of arguments with its tensors in a format."""
    if isinstance(value, torch.Tensor):
        return casts.to(value, dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(one, dtype, casts) for one in value)
    if isinstance(value, dict):
        return {key: _cast(one, dtype, casts) for key, one in value.items()}
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _widest(value: Any) -> torch.dtype | None:
    """fp32 where one of the tensors has it, else as they are."""
    formats = {one.dtype for one in _tensors(value) if _eligible(one)}
    return torch.float32 if torch.float32 in formats else None


def _in_full(operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """With a result in fp32, unless the caller asks for a format."""
    bound = _by_name(operation, args, kwargs)
    given = next(_tensors(list(bound.values())), None)
    if given is None or not _eligible(given) or bound.get("dtype") is not None:
        return operation(*args, **kwargs)
    fused = {"softmax": torch.ops.aten._softmax, "log_softmax": torch.ops.aten._log_softmax}
    kernel = fused.get(str(operation.overloadpacket).removeprefix("aten."))
    if kernel is not None and given.dtype == torch.float16:
        # A GPU's kernel reads fp16 and writes fp32: no copy between.
        return kernel.default(given, bound["dim"], True)
    bound["dtype"] = torch.float32
    ordered = {one.name: one.kwarg_only for one in operation._schema.arguments}
    positional = [bound[name] for name, keyword in ordered.items() if not keyword and name in bound]
    named = {name: bound[name] for name, keyword in ordered.items() if keyword and name in bound}
    return operation(*positional, **named)


def _by_name(operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of an operation by name, with the defaults of those not given."""
    arguments = operation._schema.arguments
    bound = {one.name: one.default_value for one in arguments if one.has_default_value()}
    bound.update(zip((one.name for one in arguments), args, strict=False))
    bound.update(kwargs)
    return bound


# -- attention and dropout -------------------------------------------------------------------------


def _without_data(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def _dropout(given: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not _without_data(given) or not train or not 0 < p < 1:
        left: torch.Tensor = torch.ops.aten.dropout.default.decompose(given, p, train)
        return left
    return torch.native_dropout(given, p, train)[0]


def _attention(
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
    """The CPU's kernel without scores has the same books as a GPU's: output, one number a row."""
    learnt = attn_mask is not None and attn_mask.requires_grad
    # What a GPU's kernels refuse: it then writes the scores down.
    refused = query.dim() != 4 or any(one.stride(-1) != 1 for one in (query, key, value))
    if not _without_data(query) or learnt or refused:
        return _scores(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    made: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return made


def _scores(query: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """Attention in single steps; tensors with data go the way they would have gone."""
    made: torch.Tensor
    if not _without_data(query):
        plain = torch.ops.aten.scaled_dot_product_attention.default
        made = plain.decompose(query, *args, **options)
        return made
    made = torch.ops.aten._scaled_dot_product_attention_math.default(
        query, *args, dropout_mask=None, **options
    )[0]
    return made
