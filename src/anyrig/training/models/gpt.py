"""A language model of GPT-2's architecture, whose weights travel to and from transformers.

Learned positions, norms before their layers, one matrix for queries, keys and values, and a head
that shares its weights with the embedding. The vocabulary's rows are padded to a multiple of 64,
because matrix units are fast on such sizes; no logit of a padded row leaves `forward`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidSettingError

_ROWS = 64
_STD = 0.02


@dataclass(frozen=True)
class GptShape:
    """The sizes of a model."""

    vocabulary: int = 50257
    context: int = 1024
    """The most tokens it sees at once."""
    layers: int = 12
    heads: int = 12
    width: int = 768
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "layers", "heads", "width"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidSettingError(
                    f"{name} is {value!r}", hint="It must be an integer of at least 1."
                )
        if self.width % self.heads:
            raise InvalidSettingError(
                f"width {self.width} cannot be shared by {self.heads} heads",
                hint="Make the width a multiple of the heads.",
            )
        if not 0 <= self.dropout < 1:
            raise InvalidSettingError(
                f"dropout is {self.dropout!r}", hint="It must be at least 0 and below 1."
            )

    @property
    def rows(self) -> int:
        """The vocabulary's rows with their padding."""
        return -(-self.vocabulary // _ROWS) * _ROWS


PRESETS: dict[str, GptShape] = {
    "nano": GptShape(vocabulary=256, context=64, layers=2, heads=2, width=64),
    "tiny": GptShape(vocabulary=256, context=128, layers=4, heads=4, width=128),
    "small": GptShape(vocabulary=4096, context=256, layers=6, heads=6, width=384),
    "gpt2": GptShape(),
    "gpt2-medium": GptShape(layers=24, heads=16, width=1024),
    "gpt2-large": GptShape(layers=36, heads=20, width=1280),
    "gpt2-xl": GptShape(layers=48, heads=25, width=1600),
}


class GptAttention(nn.Module):
    """Each position looks at itself and those before it."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.dropout
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """What each position gathers, of the same size as the states."""
        size, length, width = states.shape
        split = self.qkv(states).view(size, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=mask is None
        )
        gathered: torch.Tensor = self.out(seen.transpose(1, 2).reshape(size, length, width))
        return gathered


class GptMlp(nn.Module):
    """Four times the width, and back."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Each position by itself."""
        changed: torch.Tensor = self.down(F.gelu(self.up(states), approximate="tanh"))
        return changed


class GptBlock(nn.Module):
    """Attention, then the positions by themselves, each added to what came in."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(shape.width)
        self.attention = GptAttention(shape)
        self.norm_2 = nn.LayerNorm(shape.width)
        self.mlp = GptMlp(shape)
        self.drop = nn.Dropout(shape.dropout)

    def forward(self, states: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """States after the block."""
        states = states + self.drop(self.attention(self.norm_1(states), mask))
        changed: torch.Tensor = states + self.drop(self.mlp(self.norm_2(states)))
        return changed


class Gpt(nn.Module):
    """Tokens in, a logit for each next token out."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.shape = shape
        self.vocabulary = shape.vocabulary
        """Logits from here on belong to padded rows: a loss that uses `head` cuts them off."""
        self.tokens = nn.Embedding(shape.rows, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.drop = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(GptBlock(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.rows, bias=False)
        self.head.weight = self.tokens.weight
        self._initialise()

    def _initialise(self) -> None:
        """Small normal weights; what is added to the stream of states shrinks with the depth."""
        scaled = _STD / math.sqrt(2 * self.shape.layers)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear) and name != "head":
                residual = name.endswith(("attention.out", "mlp.down"))
                nn.init.normal_(module.weight, std=scaled if residual else _STD)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=_STD)

    def forward(
        self,
        tokens: torch.Tensor,
        *,
        positions: torch.Tensor | None = None,
        hidden: bool = False,
    ) -> torch.Tensor:
        """Logits (batch, length, vocabulary), or with `hidden` the states that the head reads.

        With `positions`, which begin at 0 with each document of a row, a token sees those of its
        own document alone.
        """
        length = tokens.shape[1]
        if length > self.shape.context:
            raise InvalidSettingError(
                f"{length} tokens are more than the model's context of {self.shape.context}",
                hint="Cut the text into shorter windows, or make the context longer.",
            )
        mask = None if positions is None else document_mask(positions)
        places = torch.arange(length, device=tokens.device) if positions is None else positions
        states = self.drop(self.tokens(tokens) + self.positions(places))
        for block in self.blocks:
            states = block(states) if mask is None else block(states, mask)
        states = self.norm(states)
        made: torch.Tensor = states if hidden else self.head(states)[..., : self.vocabulary]
        return made


def document_mask(positions: torch.Tensor) -> torch.Tensor:
    """What each position may look at (batch, 1, length, length): itself and those before it in its
    document; a document begins where its positions do.
    """
    documents = (positions == 0).cumsum(1)
    return (documents[:, None, :, None] == documents[:, None, None, :]).tril()


def gpt(shape: str | GptShape, **changes: int | float) -> Gpt:
    """A model of a preset's name, or of a shape, with some of its sizes changed."""
    if isinstance(shape, str):
        if shape not in PRESETS:
            raise InvalidSettingError(
                f"unknown GPT preset {shape!r}", hint=f"Valid names: {', '.join(PRESETS)}."
            )
        shape = PRESETS[shape]
    return Gpt(dataclasses.replace(shape, **changes))  # type: ignore[arg-type]  # checked there


_PARTS = {
    "norm_1": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "norm_2": "ln_2",
    "mlp.up": "mlp.c_fc",
    "mlp.down": "mlp.c_proj",
}
_ENDS = {
    "tokens.weight": "transformer.wte.weight",
    "positions.weight": "transformer.wpe.weight",
    "norm.weight": "transformer.ln_f.weight",
    "norm.bias": "transformer.ln_f.bias",
    "head.weight": "lm_head.weight",
}


def _list_transposed(name: str) -> str:
    if name in _ENDS:
        return _ENDS[name]
    _, number, *path, leaf = name.split(".")
    return f"transformer.h.{number}.{_PARTS['.'.join(path)]}.{leaf}"


def _transpose(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """GPT-2 in transformers keeps the matrices of its blocks input first."""
    is_matrix = name.startswith("blocks.") and tensor.dim() == 2
    return tensor.t().contiguous() if is_matrix else tensor


def to_gpt2_names(
    state: Mapping[str, torch.Tensor], vocabulary: int | None = None
) -> dict[str, torch.Tensor]:
    """Weights as transformers' GPT2LMHeadModel names and lays them out, without padded rows.

    The head is left out: transformers ties it to the embedding as well.
    """
    named = {}
    for name, tensor in state.items():
        if name == "head.weight":
            continue
        if name == "tokens.weight" and vocabulary is not None:
            tensor = tensor[:vocabulary].contiguous()
        named[_list_transposed(name)] = _transpose(name, tensor)
    return named


def gpt2_config(shape: GptShape) -> dict[str, int | float | str | bool | list[str]]:
    """The shape as the config.json of a GPT-2 in transformers."""
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": shape.vocabulary,
        "n_positions": shape.context,
        "n_embd": shape.width,
        "n_layer": shape.layers,
        "n_head": shape.heads,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": shape.dropout,
        "embd_pdrop": shape.dropout,
        "attn_pdrop": shape.dropout,
        "tie_word_embeddings": True,
    }
