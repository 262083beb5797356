"""Our own kernels beside plain torch, on a real GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from anyrig.speech.models.layers import PaddingMask
from anyrig.speech.models.vibevoice import operations
from anyrig.speech.models.vibevoice.checkpoint import CodecShape
from anyrig.speech.models.vibevoice.codec import CodecBlock, ConvState, LazyWeights

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu() -> torch.device:
    pytest.importorskip("triton")
    return torch.device("cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_between_convolutions(gpu: torch.device, dtype: torch.dtype) -> None:
    from anyrig.speech.models.triton_kernels import add_residual, leaky_relu

    x, more = (torch.randn(3, 501, 24, device=gpu, dtype=dtype) for _ in range(2))
    bias = torch.randn(24, device=gpu, dtype=dtype)
    padding = PaddingMask(torch.tensor([0, 7, 600, 1502], device=gpu))
    kept = padding.mask(x)
    close = {torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    wanted = padding(F.leaky_relu(x + bias, 0.1))
    assert torch.allclose(leaky_relu(x.clone(), bias, kept, 0.1), wanted, atol=close)
    total, heard = add_residual(x, more.clone(), bias, kept, 0.1)
    assert torch.allclose(total, padding(x + more + bias), atol=2 * close)
    assert torch.allclose(heard, F.leaky_relu(total, 0.1), atol=close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_snake_is_the_same_in_one_pass(gpu: torch.device, dtype: torch.dtype) -> None:
    from anyrig.speech.models.triton_kernels import snake

    x = 3 * torch.randn(4, 333, 48, device=gpu, dtype=dtype)
    scale, shift = (torch.randn(4, 1, 48, device=gpu) for _ in range(2))
    alpha = torch.rand(1, 1, 48, device=gpu) * 5 + 0.05
    ends = torch.tensor([333, 200, 1, 332], device=gpu)
    y = x.float() * scale + shift
    wanted = y + torch.sin(alpha * y) ** 2 / alpha
    wanted[torch.arange(333, device=gpu) >= ends[:, None]] = 0
    got = snake(x, scale, shift, alpha, ends).float()
    assert torch.allclose(got, wanted, atol=2e-4 if dtype == torch.float32 else 0.05, rtol=1e-2)


_CLOSE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("rows", "steps", "channels"),
    [(1, 1, 512), (3, 4, 128), (2, 37, 32), (64, 300, 64), (2, 100, 256)],
)
def test_a_block_of_the_codec(
    gpu: torch.device, dtype: torch.dtype, rows: int, steps: int, channels: int
) -> None:
    """Few steps too: fewer than the convolution looks back on."""
    shape = CodecShape(
        latent=4, kernel=7, filters=32, ratios=(2,), depths=(1, 1), eps=1e-5, noise=0.5
    )
    sizes = {
        "gamma": (channels,),
        "ffn_gamma": (channels,),
        "norm.weight": (channels,),
        "ffn_norm.weight": (channels,),
        "mixer.conv.weight": (channels, 1, 7),
        "mixer.conv.bias": (channels,),
        "ffn.linear1.weight": (4 * channels, channels),
        "ffn.linear1.bias": (4 * channels,),
        "ffn.linear2.weight": (channels, 4 * channels),
        "ffn.linear2.bias": (channels,),
    }
    source = torch.Generator().manual_seed(channels)
    tensors = {name: 0.3 * torch.randn(size, generator=source) for name, size in sizes.items()}
    x = torch.randn(rows, steps, channels, generator=source)
    before = torch.randn(rows, 6 * channels, generator=source)

    def run(device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        state = ConvState(before.to(device, dtype))
        block = CodecBlock(LazyWeights(tensors.__getitem__, device, dtype), shape)
        return block(x.to(device, dtype), state), state.after

    for got, wanted in zip(run(gpu, dtype), run(torch.device("cpu"), torch.float32), strict=True):
        assert _difference(got, wanted) < _CLOSE[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_between_products(gpu: torch.device, dtype: torch.dtype) -> None:
    x, more, shift, scale, gate = (torch.randn(5, 1, 96)[:, 0] for _ in range(5))
    weight, packed = torch.randn(96), torch.randn(5, 200)
    for function, arguments in (
        (operations.add_norm, (x, more, weight, 1e-6)),
        (operations.multiply_silu, (packed,)),
        (operations.modulate, (x, (gate, more), weight, shift, scale, 1e-5)),
        (operations.modulate, (x, None, None, shift, scale, 1e-5)),
    ):
        _compare(function, arguments, gpu, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 5])
def test_queries_keys_and_values(gpu: torch.device, dtype: torch.dtype, count: int) -> None:
    heads, kv_heads, size, rows, length = 6, 2, 16, 3, 20
    packed = torch.randn(rows * count, (heads + 2 * kv_heads) * size)
    rotary = torch.randn(rows * count, 1, size // 2).repeat(1, 1, 2)
    places = torch.arange(count) + torch.tensor([[2], [0], [9]])
    index = (places + length * torch.arange(rows)[:, None]).flatten()
    cached = torch.zeros(rows, length, 2, kv_heads, size)

    def run(
        packed: torch.Tensor, rotary: torch.Tensor, index: torch.Tensor, cached: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return operations.rotate(packed, (rotary.cos(), rotary.sin()), index, cached, count), cached

    _compare(run, (packed, rotary, index, cached), gpu, dtype)


def _compare(
    function: Callable[..., object],
    arguments: tuple[object, ...],
    gpu: torch.device,
    dtype: torch.dtype,
) -> None:
    """On the GPU in a format, beside plain torch in single precision."""

    def put(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(put, value))
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(gpu, dtype if value.is_floating_point() else None)

    got = function(*map(put, arguments))
    wanted = function(*arguments)
    pairs = zip(_list_tensors(got), _list_tensors(wanted), strict=True)
    assert all(_difference(one, other) < _CLOSE[dtype] for one, other in pairs)


def _list_tensors(value: object) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)  # type: ignore[call-overload]


def _difference(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got.cpu().float() - wanted).norm() / wanted.norm())
