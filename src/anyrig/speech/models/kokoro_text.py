"""Kokoro from phonemes to durations, and to what its decoder is told of each phoneme.

Always in fp32: a duration is rounded, and a unit more or less is another length. Rows come sorted,
the longest first, and padded; the LSTMs get them packed, so that none hears padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from anyrig.speech.models.convolve import Conv, Kind, Weights


class Linear:
    """A matrix and a bias."""

    def __init__(self, weights: Weights, kind: Kind) -> None:
        self.weight, bias = kind.put(weights.get("weight")), weights.bias()
        self.bias = None if bias is None else kind.put(bias)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Of the last dimension."""
        return F.linear(x, self.weight, self.bias)


class _Norm:
    def __init__(self, weights: Weights, kind: Kind, eps: float, names: tuple[str, str]) -> None:
        self._scale, self._shift = (kind.put(weights.get(name)) for name in names)
        self._eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self._scale.shape, self._scale, self._shift, self._eps)


class Lstm:
    """A layer that reads both ways, over rows of unequal length, the longest first."""

    def __init__(self, weights: Weights, kind: Kind) -> None:
        size, hidden = weights.get("weight_ih_l0").shape[1], weights.get("weight_hh_l0").shape[1]
        self._net = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
        self._net.load_state_dict({name: weights.get(name) for name in self._net.state_dict()})
        self._net.to(kind.device, kind.dtype).requires_grad_(False)
        self._net.flatten_parameters()

    def __call__(self, x: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Zero beyond each row's end."""
        if lengths[-1] == lengths[0]:
            return self._net(x)[0]  # type: ignore[no-any-return]
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True)
        done = pad_packed_sequence(self._net(packed)[0], True, total_length=x.shape[1])[0]
        return done.contiguous()  # it comes with time first


class TextBatch(NamedTuple):
    """Rows of phonemes, padded; the longest first."""

    ids: torch.Tensor
    lengths: Sequence[int]
    mask: torch.Tensor
    """True where there is a phoneme."""
    styles: torch.Tensor
    """[rows, 256]: the half for the voice, the half for how it speaks."""
    speeds: torch.Tensor
    """[rows]"""
    places: torch.Tensor
    """Where the phonemes lie, row behind row."""

    def real(self, x: torch.Tensor) -> torch.Tensor:
        """Of [rows, phonemes, size], the phonemes that are there: [all of them, size]."""
        return x.flatten(0, 1).index_select(0, self.places)

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        """The way back; zero where there is none."""
        out = x.new_zeros(self.ids.numel(), x.shape[1])
        return out.index_copy_(0, self.places, x).view(*self.ids.shape, -1)


class Albert:
    """The phoneme encoder: one layer, gone through many times."""

    def __init__(self, weights: Weights, settings: dict[str, Any], kind: Kind) -> None:
        eps = settings.get("layer_norm_eps", 1e-12)
        usual = ("weight", "bias")
        embeddings = weights.at("embeddings")
        layer = weights.at("encoder", "albert_layer_groups", 0, "albert_layers", 0)
        attention = layer.at("attention")
        places = embeddings.get("position_embeddings.weight")
        places = places + embeddings.get("token_type_embeddings.weight")[0]
        self._words = kind.put(embeddings.get("word_embeddings.weight"))
        self._places = kind.put(places)
        self._norm = _Norm(embeddings.at("LayerNorm"), kind, eps, usual)
        self._into = Linear(weights.at("encoder", "embedding_hidden_mapping_in"), kind)
        self._asks = [Linear(attention.at(n), kind) for n in ("query", "key", "value")]
        self._dense = Linear(attention.at("dense"), kind)
        self._inner_norm = _Norm(attention.at("LayerNorm"), kind, eps, usual)
        self._outer_norm = _Norm(layer.at("full_layer_layer_norm"), kind, eps, usual)
        self._up, self._down = (Linear(layer.at(n), kind) for n in ("ffn", "ffn_output"))
        self._heads: int = settings["num_attention_heads"]
        self._times: int = settings.get("num_hidden_layers", 12)

    def __call__(self, batch: TextBatch, full: bool) -> torch.Tensor:
        """[rows, phonemes, hidden]. Padding is seen by the attention alone, which skips it."""
        rows, length = batch.ids.shape
        seen = None if full else batch.mask[:, None, None]
        words = self._words[batch.ids] + self._places[:length]
        x = self._into(self._norm(batch.real(words)))
        for _ in range(self._times):
            query, key, value = (self._split(batch.padded(ask(x))) for ask in self._asks)
            heard = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
            x = self._inner_norm(x + self._dense(batch.real(heard.transpose(1, 2).flatten(2))))
            x = self._outer_norm(x + self._down(F.gelu(self._up(x), approximate="tanh")))
        return batch.padded(x)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], self._heads, -1).transpose(1, 2)


class Told(NamedTuple):
    """What is known of each phoneme."""

    prosody: torch.Tensor
    sound: torch.Tensor
    units: torch.Tensor
    """[rows, phonemes]: how long it lasts."""


class TextPart:
    """The encoders of text and the predictor of durations."""

    def __init__(self, weights: Weights, config: dict[str, Any], kind: Kind) -> None:
        predictor, sound = weights.at("predictor"), weights.at("text_encoder")
        self._albert = Albert(weights.at("bert"), config["plbert"], kind)
        self._into = Linear(weights.at("bert_encoder"), kind)
        layers = range(config["n_layer"])
        inner = predictor.at("text_encoder", "lstms")
        self._prosody = [
            (Lstm(inner.at(2 * n), kind), Linear(inner.at(2 * n + 1, "fc"), kind)) for n in layers
        ]
        self._last = Lstm(predictor.at("lstm"), kind)
        self._units = Linear(predictor.at("duration_proj", "linear_layer"), kind)
        self._table = kind.put(sound.get("embedding.weight"))
        self._convs = [
            (Conv.of(sound.at("cnn", n, 0), kind),
             _Norm(sound.at("cnn", n, 1), kind, 1e-5, ("gamma", "beta")))
            for n in layers
        ]  # fmt: skip
        self._sound = Lstm(sound.at("lstm"), kind)

    def __call__(self, batch: TextBatch) -> Told:
        """What the decoder is told, and for how long."""
        full = batch.lengths[-1] == batch.lengths[0]
        keep = batch.mask.unsqueeze(-1).float()
        x = self._into(self._albert(batch, full))
        style = batch.styles[:, 128:]
        beside = style.unsqueeze(1).expand(-1, x.shape[1], -1)
        x = torch.cat((x, beside), dim=2) * keep
        for lstm, told in self._prosody:
            x = lstm(x, batch.lengths)
            scale, shift = told(style).unsqueeze(1).chunk(2, dim=2)
            x = (1 + scale) * F.layer_norm(x, x.shape[-1:]) + shift
            x = torch.cat((x, beside), dim=2) * keep
        spread = torch.sigmoid(self._units(self._last(x, batch.lengths))).sum(-1)
        units = torch.round(spread / batch.speeds.unsqueeze(1)).clamp(min=1) * batch.mask
        return Told(x, self._heard(batch, keep), units.long())

    def _heard(self, batch: TextBatch, keep: torch.Tensor) -> torch.Tensor:
        x = self._table[batch.ids] * keep
        for conv, norm in self._convs:
            x = F.leaky_relu(norm(conv(x)), 0.2) * keep
        return self._sound(x, batch.lengths)
