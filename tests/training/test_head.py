"""The chunked loss is the plain one, in value and gradients, for all targets and models."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from anyrig.training.losses import IGNORED, LanguageLoss, linear_cross_entropy
from anyrig.training.models.gpt import Gpt, GptShape

CHUNKS: list[int | Literal["auto"]] = [1, 3, "auto", 50]


def case(dtype: torch.dtype, *, rows: int = 13, width: int = 8, size: int = 11) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(4)
    states = torch.randn(rows, width, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(size, width, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(size, (rows,), generator=generator)
    return states.requires_grad_(), weight.requires_grad_(), targets


def both(states: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, **how: Any) -> Any:
    """Loss and gradients of the plain way and of ours."""
    found = []
    for loss in (
        cross_entropy(states @ weight.t(), targets, ignore_index=IGNORED),
        linear_cross_entropy(states, weight, targets, **how),
    ):
        found.append((loss.detach(), *torch.autograd.grad(loss * 3.0, (states, weight))))
    return found


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_value_and_gradients_are_the_plain_ones(
    dtype: torch.dtype, most: float, chunks: int | Literal["auto"]
) -> None:
    states, weight, targets = case(dtype)
    for plain, ours in zip(*both(states, weight, targets, chunks=chunks), strict=True):
        assert ours.dtype == dtype
        assert torch.allclose(plain, ours, rtol=0, atol=most)


@pytest.mark.parametrize("chunks", CHUNKS)
def test_ignored_targets_count_nowhere(chunks: int | Literal["auto"]) -> None:
    states, weight, targets = case(torch.float64)
    targets[::3] = IGNORED
    for plain, ours in zip(*both(states, weight, targets, chunks=chunks), strict=True):
        assert torch.allclose(plain, ours, rtol=0, atol=1e-12)


def test_nothing_but_ignored_targets_is_nought_and_not_nan() -> None:
    states, weight, targets = case(torch.float32)
    loss = linear_cross_entropy(states, weight, torch.full_like(targets, IGNORED), chunks=3)
    first, second = torch.autograd.grad(loss, (states, weight))
    assert float(loss.detach()) == 0.0
    assert not first.any()
    assert not second.any()


def test_rows_behind_the_vocabulary_are_not_there() -> None:
    states, weight, targets = case(torch.float64, size=16)
    targets = targets.clamp(max=10)
    plain = cross_entropy(states @ weight[:11].t(), targets)
    ours = linear_cross_entropy(states, weight, targets, chunks=3, vocabulary=11)
    assert float(ours.detach()) == pytest.approx(float(plain.detach()), abs=1e-12)
    (gradient,) = torch.autograd.grad(ours, weight)
    assert not gradient[11:].any()
    assert gradient[:11].any()


def test_autocast_computes_products_in_bf16_and_sums_in_fp32() -> None:
    states, weight, targets = case(torch.float32, rows=40)
    (plain, *_), _ = both(states, weight, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = linear_cross_entropy(states, weight, targets, chunks=4)
    assert ours.dtype == torch.float32
    assert float(ours.detach()) != float(plain.detach())
    assert float(ours.detach()) == pytest.approx(float(plain.detach()), rel=1e-2)
    true = torch.autograd.grad(cross_entropy(states @ weight.t(), targets), (states, weight))
    for wanted, found in zip(true, torch.autograd.grad(ours, (states, weight)), strict=True):
        assert found.dtype == torch.float32
        assert torch.cosine_similarity(wanted.flatten(), found.flatten(), dim=0) > 0.999


class Live(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """What is computed while this lasts: operations, and the sizes of what they give."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor):
            self.names.append(func._schema.name)
            self.sizes.append(found.numel())
        return found


def test_pieces_hold_no_whole_logits() -> None:
    states, weight, targets = case(torch.float32, rows=128, size=512)
    largest = {}
    for chunks in (1, 8):
        with Live() as seen:
            linear_cross_entropy(states, weight, targets, chunks=chunks)
        largest[chunks] = max(seen.sizes)
    assert largest[1] == 128 * 512
    assert largest[8] == 16 * 512


def test_without_gradients_none_are_computed() -> None:
    states, weight, targets = case(torch.float32)
    with Live() as trained:
        linear_cross_entropy(states, weight, targets)
    with torch.no_grad(), Live() as measured:
        loss = linear_cross_entropy(states, weight, targets)
    assert not loss.requires_grad
    assert trained.names.count("aten::mm") == 3
    assert measured.names.count("aten::mm") == 1


# ---------------------------------------------------------------- models


def own_gpt() -> Gpt:
    torch.manual_seed(0)
    return Gpt(GptShape(vocabulary=61, context=16, layers=2, heads=2, width=32))


def tokens(size: int = 61) -> torch.Tensor:
    return torch.randint(size, (3, 13), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("chunks", CHUNKS)
def test_our_own_model(chunks: int | Literal["auto"]) -> None:
    model, given = own_gpt(), tokens()
    logits = model(given[:, :-1])[..., :61]
    plain = cross_entropy(logits.flatten(0, 1), given[:, 1:].flatten())
    found = LanguageLoss(chunks)(model, {"tokens": given})
    assert float(found.detach()) == pytest.approx(float(plain.detach()), rel=1e-5)
    weights = tuple(model.parameters())
    for one, other in zip(
        torch.autograd.grad(plain, weights), torch.autograd.grad(found, weights), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)


def foreign(kind: str, **changed: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=61, n_positions=16, n_layer=2, n_head=2, n_embd=32, attn_pdrop=0.0,
            embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0, **changed,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config)
    options = {
        "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 16,
        **changed,
    }  # fmt: skip
    if kind == "gemma2":
        return transformers.Gemma2ForCausalLM(
            transformers.Gemma2Config(head_dim=16, final_logit_softcapping=5.0, **options)
        )
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**options))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma2"])
def test_models_of_transformers_give_their_own_loss(kind: str) -> None:
    model, given = foreign(kind), tokens()
    labels = given.clone()
    labels[:, :4] = IGNORED
    plain = model(input_ids=given, labels=labels).loss
    found = LanguageLoss(3)(model, {"tokens": given, "labels": labels})
    assert float(found.detach()) == pytest.approx(float(plain.detach()), rel=1e-5)
    weights = tuple(weight for weight in model.parameters() if weight.requires_grad)
    for one, other in zip(
        torch.autograd.grad(plain, weights), torch.autograd.grad(found, weights), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_head_with_a_bias_counts_it() -> None:
    model, given = _with_bias(foreign("llama")), tokens()
    plain = model(input_ids=given, labels=given).loss
    found = LanguageLoss(3)(model, {"tokens": given})
    assert float(found.detach()) == pytest.approx(float(plain.detach()), rel=1e-5)


def _with_bias(model: Any) -> Any:
    head = nn.Linear(32, 61)
    nn.init.normal_(head.bias)
    model.set_output_embeddings(head)
    return model
