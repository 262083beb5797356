"""Weights of another model are refused before anything is changed, by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError
from anyrig.training.checkpoint import check_weights


def net(width: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))


def test_its_own_weights_fit() -> None:
    check_weights(net(), net().state_dict())


class Wrapped(nn.Module):
    """Named as torch.compile names what it wraps."""

    def __init__(self) -> None:
        super().__init__()
        self._orig_mod = net()


def test_a_compiled_model_takes_plain_names() -> None:
    check_weights(Wrapped(), net().state_dict())


def test_missing_unexpected_and_shapes_are_named() -> None:
    weights = net(5).state_dict()
    weights["3.bias"] = weights.pop("2.bias")
    with pytest.raises(InvalidInputError) as caught:
        check_weights(net(), weights)
    said = caught.value.message
    assert "lack 2.bias" in said
    assert "does not know 3.bias" in said
    assert "0.weight is 5x3, the model's 4x3" in said
    assert caught.value.hint


def test_many_names_are_cut_short() -> None:
    with pytest.raises(InvalidInputError, match=r"lack 0\.weight, 0\.bias, 2\.weight and 1 more"):
        check_weights(net(), {})


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model."])
def test_a_prefix_is_recognised(prefix: str) -> None:
    weights = {prefix + name: value for name, value in net().state_dict().items()}
    with pytest.raises(InvalidInputError) as caught:
        check_weights(net(), weights)
    assert prefix in caught.value.hint


def test_one_name_of_tied_weights_is_enough() -> None:
    model = nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 7, bias=False))
    model[1].weight = model[0].weight
    check_weights(model, {"0.weight": torch.zeros(7, 3)})
    check_weights(model, {"1.weight": torch.zeros(7, 3)})
    with pytest.raises(InvalidInputError, match="lack"):
        check_weights(model, {})
