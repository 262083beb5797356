"""A small model with what makes gradients hard to send, and one training step of it."""

from __future__ import annotations

import torch
from torch import nn

from anyrig.memory.oom import detect_oom
from anyrig.memory.recovery import clear_frames
from anyrig.training.distributed.group import Group

NUM_ITEMS, WIDTH, WORDS = 12, 8, 11
SHORT = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)"


class Bomb(torch.autograd.Function):
    """Nothing in the forward pass; runs out of memory in the backward pass."""

    @staticmethod
    def forward(ctx: object, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(SHORT)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 2 * WIDTH)
        self.second = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = value + self.second(torch.tanh(self.first(value)))
        return out


class Model(nn.Module):
    """Tied, frozen and unused weights, a buffer, and a bomb that can be armed."""

    def __init__(self, seed: int = 0, unused: bool = True) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        self.frozen = nn.Linear(WIDTH, WIDTH)
        self.frozen.requires_grad_(False)
        if unused:
            self.unused = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("scale", torch.rand(1) + 0.5)
        self.explodes = False

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        value = self.words(words) + self.frozen(self.words(words))
        for number, block in enumerate(self.blocks):
            if self.explodes and number == 1:
                value = Bomb.apply(value)  # type: ignore[no-untyped-call]
            value = block(value)
        out: torch.Tensor = self.head(value * self.scale)
        return out


def items(step: int = 0) -> torch.Tensor:
    made = torch.Generator().manual_seed(100 + step)
    return torch.randint(WORDS, (NUM_ITEMS, 5), generator=made)


def loss_of(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    out = model(words[:, :-1])
    return nn.functional.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten())


def gradients(model: nn.Module, group: Group, batch: torch.Tensor, micro: int) -> bool:
    """The gradients of a global batch; whether any process ran out on the way."""
    first, count = group.share(len(batch))
    mine = torch.split(batch[first : first + count], micro)
    ran_out = False
    for number, part in enumerate(mine):
        try:
            with group.accumulate(last=number == len(mine) - 1):
                loss = loss_of(model, part) * len(part) / len(batch)
                loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if detect_oom(error) is None:
                raise
            clear_frames(error)
            ran_out = True
            break
    return group.finish(ran_out=ran_out).ran_out


def flat(model: nn.Module) -> dict[str, torch.Tensor]:
    """Gradients by name; a missing one is zeros."""
    return {
        name: torch.zeros_like(one) if one.grad is None else one.grad.detach().clone()
        for name, one in model.named_parameters()
        if one.requires_grad
    }
