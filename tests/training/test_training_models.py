"""The models that come with anyrig: GPT, and a classifier of pictures."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from anyrig.errors import InvalidSettingError
from anyrig.training.models import vision
from anyrig.training.models.gpt import (
    PRESETS,
    Gpt,
    GptShape,
    gpt,
    gpt2_config,
    to_gpt2_names,
)
from anyrig.training.tasks.language import generate

SMALL = GptShape(vocabulary=101, context=24, layers=3, heads=2, width=32)


def test_logits_equal_those_of_transformers_with_the_same_weights() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    model = Gpt(SMALL).eval()
    for parameter in model.parameters():  # norms and biases too: ones and zeros would hide a swap
        torch.nn.init.normal_(parameter, std=0.2)
    config = transformers.GPT2Config(**gpt2_config(SMALL), attn_implementation="eager")
    twin = transformers.GPT2LMHeadModel(config).eval()
    found = twin.load_state_dict(to_gpt2_names(model.state_dict(), SMALL.vocabulary), strict=False)
    assert found.unexpected_keys == []
    assert found.missing_keys == ["lm_head.weight"]  # it is the embedding
    tokens = torch.randint(0, 101, (2, 24))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), twin(tokens).logits, atol=1e-5, rtol=1e-5)


def test_later_tokens_change_nothing_before_them() -> None:
    torch.manual_seed(0)
    model = Gpt(SMALL).eval()
    tokens = torch.randint(0, 101, (1, 12))
    other = tokens.clone()
    other[0, 7] = (other[0, 7] + 1) % 101
    before, after = model(tokens), model(other)
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7], after[:, 7])


def test_padded_rows_give_no_logits_and_get_no_gradient() -> None:
    model = Gpt(SMALL)
    assert model.head.weight is model.tokens.weight
    assert model.head.weight.shape[0] == 128
    logits = model(torch.randint(0, 101, (2, 8)))
    assert logits.shape == (2, 8, 101)
    logits.logsumexp(-1).sum().backward()
    assert model.head.weight.grad is not None
    assert model.head.weight.grad[101:].abs().max() == 0
    assert model.head.weight.grad[:101].abs().min() > 0


def test_gpt2_has_124_million_weights_and_starts_knowing_nothing() -> None:
    with torch.device("meta"):
        model = gpt("gpt2")
    padding = (model.shape.rows - 50257) * 768
    assert sum(one.numel() for one in model.parameters()) - padding == 124_439_808
    torch.manual_seed(1)
    small = gpt("tiny")
    logits = small(torch.randint(0, 256, (4, 32))).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, torch.randint(0, 256, (128,)))
    assert abs(loss.item() - math.log(256)) < 0.1
    down = small.blocks[0].get_parameter("mlp.down.weight").std().item()
    assert down == pytest.approx(0.02 / math.sqrt(8), rel=0.05)


def test_generation_is_drawn_by_its_generator_and_goes_past_the_context() -> None:
    torch.manual_seed(2)
    model = gpt("nano", context=8, dropout=0.2).train()
    start = torch.tensor([[1, 2, 3]])
    runs = [
        generate(model, start, 12, 0.9, 20, torch.Generator().manual_seed(seed))
        for seed in (4, 4, 5)
    ]
    assert runs[0].shape == (1, 15)
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert model.training
    likeliest = generate(model, start, 1, temperature=0.0)[0, -1]
    assert generate(model, start, 1, top_k=1)[0, -1] == likeliest


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="heads"):
        GptShape(width=10, heads=3)
    with pytest.raises(InvalidSettingError, match="unknown GPT"):
        gpt("gpt3")
    with pytest.raises(InvalidSettingError, match="context"):
        Gpt(PRESETS["nano"])(torch.zeros((1, 65), dtype=torch.long))


MODELS = [
    (vision.ConvNet, dataclasses.replace(vision.PRESETS["nano"], classes=5)),
    (vision.ConvNet, vision.ConvShape(classes=5, widths=(8, 16), blocks=2, stem=4)),
]


@pytest.mark.parametrize(("kind", "shape"), MODELS)
def test_a_classifier_starts_undecided_and_all_of_it_learns(kind: Any, shape: Any) -> None:
    torch.manual_seed(0)
    model = kind(shape)
    pictures = torch.randn(6, 3, 32, 32)
    logits = model(pictures)
    assert logits.shape == (6, 5)
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(6) % 5)
    assert abs(loss.item() - math.log(5)) < 0.8
    loss.backward()  # type: ignore[no-untyped-call]  # torch's own
    assert all(one.grad is not None for one in model.parameters())
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(model(pictures), torch.arange(6) % 5)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        optimiser.step()
    assert loss.item() < 1.0
