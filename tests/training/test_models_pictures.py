"""The convnet, the ViT and the U-Net: shapes, starts, gradients everywhere, refusals."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from anyrig.errors import InvalidSettingError
from anyrig.training.models import convnet, unet, vit

MODELS = [
    (convnet.ConvNet, dataclasses.replace(convnet.PRESETS["nano"], classes=5)),
    (convnet.ConvNet, convnet.ConvShape(classes=5, widths=(8, 16), blocks=2, stem=4)),
    (vit.Vit, dataclasses.replace(vit.PRESETS["nano"], classes=5)),
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


def test_an_item_is_judged_by_itself_when_the_model_is_used() -> None:
    torch.manual_seed(0)
    for kind, shape in MODELS:
        model = kind(shape).eval()
        pictures = torch.randn(4, 3, 32, 32)
        torch.testing.assert_close(model(pictures)[1:2], model(pictures[1:2]), atol=1e-5, rtol=1e-4)


def test_patches_know_their_places() -> None:
    torch.manual_seed(0)
    model = vit.Vit(vit.PRESETS["nano"]).eval()
    picture = torch.randn(1, 3, 32, 32)
    turned = picture.roll(4, dims=3)  # the same patches elsewhere
    assert not torch.allclose(model(picture), model(turned), atol=1e-6)


@pytest.mark.parametrize("preset", ["nano", "tiny"])
def test_a_u_net_starts_at_nought_and_depends_on_time(preset: str) -> None:
    torch.manual_seed(0)
    shape = unet.PRESETS[preset]
    model = unet.Unet(shape)
    pictures = torch.randn(2, 1, shape.size, shape.size)
    made = model(pictures, torch.tensor([0, 900]))
    assert made.shape == pictures.shape
    assert made.abs().max() == 0
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    early, late = (model(pictures, torch.full((2,), time)) for time in (10, 700))
    assert not torch.allclose(early, late)
    early.square().mean().backward()
    assert all(one.grad is not None and one.grad.any() for one in model.parameters())


def test_the_small_u_net_is_of_a_known_size() -> None:
    with torch.device("meta"):
        model = unet.Unet(unet.PRESETS["small"])
        made = model(torch.empty(2, 3, 64, 64), torch.empty(2))
    assert made.shape == (2, 3, 64, 64)
    assert 10e6 < sum(one.numel() for one in model.parameters()) < 30e6


def test_waves_tell_all_times_apart() -> None:
    marks = unet.waves(torch.arange(1000), 32)
    assert marks.shape == (1000, 32)
    apart = torch.cdist(marks, marks) + torch.eye(1000) * 9
    assert apart.min() > 0.01


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (unet.UnetShape, {"size": 36}, "halved"),
        (unet.UnetShape, {"heads": 7}, "heads"),
        (unet.UnetShape, {"levels": ()}, "U-Net"),
        (convnet.ConvShape, {"widths": (8, 0)}, "convnet"),
        (vit.VitShape, {"patch": 5}, "patches"),
        (vit.VitShape, {"heads": 5}, "heads"),
        (vit.VitShape, {"layers": 0}, "layers"),
    ],
)
def test_sizes_that_cannot_be_are_refused(kind: Any, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSettingError, match=said):
        kind(**values)
