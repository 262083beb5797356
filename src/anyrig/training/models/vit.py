"""A vision transformer: a picture's patches look at each other, and their mean tells its class."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidSettingError


@dataclass(frozen=True)
class VitShape:
    """The sizes of a model."""

    classes: int = 10
    channels: int = 3
    size: int = 32
    """Pixels of a side."""
    patch: int = 4
    """Pixels of a patch's side."""
    layers: int = 6
    heads: int = 4
    width: int = 128
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("classes", "channels", "size", "patch", "layers", "heads", "width"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidSettingError(
                    f"{name} is {value!r}", hint="It must be an integer of at least 1."
                )
        if self.size % self.patch:
            raise InvalidSettingError(
                f"a side of {self.size} cannot be cut into patches of {self.patch}",
                hint="Make the size a multiple of the patch.",
            )
        if self.width % self.heads:
            raise InvalidSettingError(
                f"width {self.width} cannot be shared by {self.heads} heads",
                hint="Make the width a multiple of the heads.",
            )


PRESETS: dict[str, VitShape] = {
    "nano": VitShape(layers=2, heads=2, width=32),
    "tiny": VitShape(layers=4, heads=3, width=96),
    "small": VitShape(),
    "base": VitShape(size=224, patch=16, layers=12, heads=12, width=768),
}


class VitBlock(nn.Module):
    """Attention over all patches, then each patch by itself, each added to what came in."""

    def __init__(self, shape: VitShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.dropout
        self.norm_1 = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm_2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)
        self.drop = nn.Dropout(shape.dropout)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States after the block."""
        states = states + self.drop(self._seen(self.norm_1(states)))
        made = self.down(F.gelu(self.up(self.norm_2(states))))
        added: torch.Tensor = states + self.drop(made)
        return added

    def _seen(self, states: torch.Tensor) -> torch.Tensor:
        size, length, width = states.shape
        split = self.qkv(states).view(size, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        gathered: torch.Tensor = self.out(seen.transpose(1, 2).reshape(size, length, width))
        return gathered


class Vit(nn.Module):
    """Pictures (batch, channels, size, size) in, a logit for each class out."""

    def __init__(self, shape: VitShape) -> None:
        super().__init__()
        self.shape = shape
        self.patches = nn.Conv2d(shape.channels, shape.width, shape.patch, stride=shape.patch)
        num_patches = (shape.size // shape.patch) ** 2
        self.positions = nn.Parameter(torch.empty(1, num_patches, shape.width))
        self.blocks = nn.ModuleList(VitBlock(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.classes)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.normal_(self.positions, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits (batch, classes)."""
        states = self.patches(pictures).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            states = block(states)
        logits: torch.Tensor = self.head(self.norm(states).mean(dim=1))
        return logits
