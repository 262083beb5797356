"""Models whose training memory is measured, each with its loss and batches of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.training.models.gpt import Gpt, GptShape
from benchmarks.resnet import Resnet, ResnetShape
from examples.train.diffusion import Unet

CLASSES = 1000


class Case(NamedTuple):
    name: str
    make: Callable[[], nn.Module]
    example: Any
    """One item, as a batch."""
    loss: Callable[[nn.Module, Any], torch.Tensor]
    sizes: tuple[int, ...]
    """Micro batches to measure."""
    max_integer: int
    """Integers in batches are below this."""
    attention: bool = True


def make_batch(case: Case, size: int, device: torch.device) -> Any:
    """Random items of a case on a device."""

    def fill(leaf: torch.Tensor) -> torch.Tensor:
        shape = (size, *leaf.shape[1:])
        if leaf.is_floating_point():
            return torch.randn(shape, device=device)
        return torch.randint(case.max_integer, shape, device=device)

    return tuple(fill(leaf) for leaf in case.example)


def cases(*, tiny: bool) -> list[Case]:
    """GPT-2 124M, BERT-base, ResNet-50 and a U-Net for 64 x 64; or small ones of the same kinds."""
    found = [_gpt(tiny), _bert(tiny), _resnet(tiny), _unet(tiny)]
    return [case for case in found if case is not None]


def _next_token(model: nn.Module, given: Any) -> torch.Tensor:
    tokens, targets = given
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def _gpt(tiny: bool) -> Case:
    shape = GptShape(256, 64, 2, 2, 64) if tiny else GptShape()
    tokens = torch.zeros(1, shape.context, dtype=torch.long)
    return Case("GPT-2 124M", lambda: Gpt(shape), (tokens, tokens), _next_token,
                (1, 2, 4) if tiny else (4, 16, 48), shape.vocabulary)  # fmt: skip


def _masked_token(model: nn.Module, given: Any) -> torch.Tensor:
    tokens, targets = given
    found: torch.Tensor = model(input_ids=tokens, labels=targets).loss
    return found


def _bert(tiny: bool) -> Case | None:
    try:
        import transformers
    except ImportError:
        print("transformers is not installed: no BERT", flush=True)
        return None
    library: Any = transformers  # its classes are not typed
    config = library.BertConfig()
    if tiny:
        config = library.BertConfig(vocab_size=256, hidden_size=64, num_hidden_layers=2,
                            num_attention_heads=2, intermediate_size=128)  # fmt: skip
    tokens = torch.zeros(1, 64 if tiny else 512, dtype=torch.long)
    return Case("BERT-base", lambda: library.BertForMaskedLM(config), (tokens, tokens),
                _masked_token, (1, 2, 4) if tiny else (8, 32, 96), config.vocab_size)  # fmt: skip


def _class(model: nn.Module, given: Any) -> torch.Tensor:
    pictures, classes = given
    return F.cross_entropy(model(pictures), classes)


def _resnet(tiny: bool) -> Case:
    shape = ResnetShape(CLASSES, width=8, stages=(1, 1)) if tiny else ResnetShape(CLASSES)
    side = 32 if tiny else 224
    example = (torch.zeros(1, 3, side, side), torch.zeros(1, dtype=torch.long))
    return Case("ResNet-50", lambda: Resnet(shape), example, _class,
                (1, 2, 4) if tiny else (16, 64, 192), CLASSES, attention=False)  # fmt: skip


def _noise(model: nn.Module, given: Any) -> torch.Tensor:
    pictures, times, noise = given
    return F.mse_loss(model(pictures, times), noise)


def _unet(tiny: bool) -> Case:
    side = 16 if tiny else 64
    pictures = torch.zeros(1, 3, side, side)
    example = (pictures, torch.zeros(1, dtype=torch.long), pictures)

    def make() -> Unet:
        if tiny:
            return Unet(channels=3, width=16)
        return Unet(channels=3, width=64, factors=(1, 2, 3, 4), blocks=2, heads=4)

    return Case("U-Net", make, example, _noise,
                (1, 2, 4) if tiny else (16, 64, 192), 1000)  # fmt: skip
