"""Attention kernels by a model's own calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from anyrig.training import compile as attending
from anyrig.training.compile import AttentionCall, best_attention, record_attention_calls
from anyrig.training.estimate import estimate, repeat_batch
from anyrig.training.flops import count_flops
from anyrig.training.losses import LanguageLoss
from anyrig.training.models.gpt import PRESETS, Gpt


def test_calls_are_seen_without_computing() -> None:
    model = Gpt(PRESETS["nano"])
    before = torch.get_rng_state()
    found = record_attention_calls(
        model, LanguageLoss(), {"tokens": torch.zeros(3, 33, dtype=torch.int64)}
    )
    assert found == (AttentionCall(3, 2, 2, 32, 32, 32, "causal"),)
    assert torch.equal(before, torch.get_rng_state())
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("is_module", [False, True])
def test_a_loss_keeps_nothing_of_the_look_at_a_model(is_module: bool) -> None:
    class Weighted(torch.nn.Module if is_module else object):  # type: ignore[misc]
        weights: torch.Tensor | None = None

        def __call__(self, model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
            found = model(batch)
            if self.weights is None:
                self.weights = torch.ones(found.shape[1])
            result: torch.Tensor = (found * self.weights).sum()
            return result

    loss, model, batch = Weighted(), torch.nn.Linear(4, 3), torch.ones(2, 4)
    assert record_attention_calls(model, loss, batch) == ()
    flops = count_flops(model, loss, batch, 2)
    assert flops is not None
    assert flops.total > 0
    estimate(model, repeat_batch(batch), loss, device_type="cpu")
    with torch.no_grad():
        assert torch.equal(loss(model, batch), model(batch).sum())


def test_other_devices_are_left_as_they_are() -> None:
    call = AttentionCall(1, 2, 2, 16, 16, 8, "causal")
    switches: Any = torch.backends.cuda
    before = switches.flash_sdp_enabled()
    with best_attention([call], torch.device("cpu"), "fp32") as chosen:
        assert chosen.kernels == ()
        assert "cpu" in chosen.reason
        assert switches.flash_sdp_enabled() == before


def test_code_compiled_with_one_kernel_is_not_taken_for_another() -> None:
    config: Any = torch.compiler.config
    with attending._separate_compiler_cache(("cudnn",)):
        one = config.cache_key_tag
    with attending._separate_compiler_cache(("flash",)):
        assert config.cache_key_tag != one
    assert config.cache_key_tag == ""


@pytest.mark.gpu
def test_what_is_wrong_with_a_mask_may_be_right_without_one() -> None:
    device = torch.device("cuda")
    switches: Any = torch.backends.cuda
    before = switches.cudnn_sdp_enabled()
    with best_attention(
        [AttentionCall(8, 12, 12, 1024, 1024, 64, "causal")], device, "bf16"
    ) as chosen:
        assert chosen.kernels
        assert switches.cudnn_sdp_enabled() == ("cudnn" in chosen.kernels)
    assert switches.cudnn_sdp_enabled() == before
    with best_attention([AttentionCall(8, 1, 1, 704, 704, 64, "bool")], device, "bf16") as chosen:
        query = torch.full((1, 1, 704, 64), 0.1, device=device, dtype=torch.bfloat16)
        query.requires_grad_()
        mask = torch.ones(1, 1, 704, 704, device=device, dtype=torch.bool).tril()
        found: Any = F.scaled_dot_product_attention(query, query * -1200, query, attn_mask=mask)
        found.sum().backward()
        assert query.grad is not None
        assert torch.isfinite(query.grad).all()
