"""Our own kernels beside plain torch, on a real GPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from anyrig.speech.models.layers import PaddingMask

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
