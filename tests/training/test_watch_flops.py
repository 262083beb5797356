"""FLOPs against formulas on paper."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from anyrig.training.watch.flops import count_flops


def total(output: torch.Tensor) -> torch.Tensor:
    return output.float().sum()


def plain_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return total(model(batch))


class Attention(nn.Module):
    """Self-attention of several heads, its blocks computed again in the backward pass if wanted."""

    def __init__(self, width: int, heads: int, *, again: bool = False, reentrant: bool = False):
        super().__init__()
        self.joint = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.heads, self.again, self.reentrant = heads, again, reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.again:
            out: torch.Tensor = checkpoint(self.attend, x, use_reentrant=self.reentrant)
            return out
        return self.attend(x)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.joint(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


def on_paper(batch: int, length: int, width: int, *, inputs_need_gradients: bool) -> int:
    """2 m k n for each product: weights 4 d^2, attention 2 T d, forward and twice backward."""
    joint = 2 * batch * length * width * 3 * width
    out = 2 * batch * length * width * width
    attention = 2 * 2 * batch * length * length * width
    return 3 * (out + attention) + (3 if inputs_need_gradients else 2) * joint


def test_a_linear_layer() -> None:
    found = count_flops(nn.Linear(32, 48), plain_loss, torch.randn(8, 32), 8)
    assert found is not None
    # Forward, and the weights' gradient; the data needs none.
    assert found.total == 2 * (2 * 8 * 32 * 48)
    assert found.per_sample == found.total / 8


def test_two_linear_layers() -> None:
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    found = count_flops(model, plain_loss, torch.randn(8, 32), 8)
    assert found is not None
    assert found.total == 2 * (2 * 8 * 32 * 48) + 3 * (2 * 8 * 48 * 16)


def test_attention_is_counted() -> None:
    found = count_flops(Attention(32, 4), plain_loss, torch.randn(2, 16, 32), 2)
    assert found is not None
    assert found.total == on_paper(2, 16, 32, inputs_need_gradients=False)


def test_attention_by_products_costs_the_same() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by_products(model: nn.Module, batch: Any) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return total(model(batch))

    found = count_flops(Attention(32, 4), by_products, torch.randn(2, 16, 32), 2)
    assert found is not None
    assert found.total == on_paper(2, 16, 32, inputs_need_gradients=False)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_is_no_useful_work(reentrant: bool) -> None:
    inputs = torch.randn(2, 16, 32, requires_grad=reentrant)
    plain = count_flops(Attention(32, 4), plain_loss, inputs, 2)
    again = count_flops(Attention(32, 4, again=True, reentrant=reentrant), plain_loss, inputs, 2)
    assert plain is not None
    assert again == plain


def test_a_convolution() -> None:
    found = count_flops(nn.Conv2d(3, 8, 3, padding=1), plain_loss, torch.randn(2, 3, 10, 10), 2)
    assert found is not None
    assert found.total == 2 * (2 * 2 * 10 * 10 * 8 * 3 * 3 * 3)


def test_nothing_changes_and_nothing_is_computed() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(3)
    state = torch.get_rng_state()
    batch = {"x": torch.randn(4, 8), "label": "kept as it is"}
    torch.set_rng_state(state)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        assert batch["label"] == "kept as it is"
        return total(model(batch["x"]))

    assert count_flops(model, loss, batch, 4) is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_tensors_outside_of_the_state_and_tied_weights() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 16)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.table.weight
            self.kept = {"scales": [torch.ones(16)]}

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.table(ids) * self.kept["scales"][0])
            return out

    found = count_flops(Tied(), plain_loss, torch.zeros(4, 8, dtype=torch.long), 4)
    assert found is not None
    assert found.total == 3 * 2 * 4 * 8 * 16 * 50


def test_a_model_larger_than_the_memory_is_counted() -> None:
    with torch.device("meta"):
        model = nn.Linear(200_000, 200_000, bias=False)
    found = count_flops(model, plain_loss, torch.empty(64, 200_000, device="meta"), 64)
    assert found is not None
    assert found.total == 2 * (2 * 64 * 200_000**2)


def test_under_autocast() -> None:
    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return total(model(batch))

    found = count_flops(Attention(32, 4), loss, torch.randn(2, 16, 32), 2)
    assert found is not None
    assert found.total == on_paper(2, 16, 32, inputs_need_gradients=False)


def test_a_model_that_looks_at_its_values_has_no_count(caplog: pytest.LogCaptureFixture) -> None:
    class Looks(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) if x.sum().item() > 0 else super().forward(-x)

    with caplog.at_level("INFO"):
        assert count_flops(Looks(4, 4), plain_loss, torch.randn(2, 4), 2) is None
    assert "no MFU" in caplog.text
