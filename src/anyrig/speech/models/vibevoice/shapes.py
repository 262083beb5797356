"""The sizes of VibeVoice models, read from a `config.json`. No framework is needed here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyrig.speech.models.vibevoice.checkpoint import list_depths, list_ratios

_FREQUENCIES, _MAX_PERIOD = 256, 10000.0
_SAMPLE_NOISE = 0.5


@dataclass(frozen=True)
class TextShape:
    """Of the language model."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    tied: bool
    """Whether the logits come from the embedding."""


@dataclass(frozen=True)
class HeadShape:
    """Of the diffusion head."""

    layers: int
    eps: float
    frequencies: int
    max_period: float


@dataclass(frozen=True)
class CodecShape:
    """Of an encoder; the decoder mirrors it."""

    latent: int
    kernel: int
    filters: int
    ratios: tuple[int, ...]
    depths: tuple[int, ...]
    eps: float
    noise: float
    """How much noise is added to the latents of a voice sample."""

    @property
    def hop(self) -> int:
        """Samples of one frame."""
        return math.prod(self.ratios)


@dataclass(frozen=True)
class RealtimeShape:
    """Of a whole VibeVoice-Realtime."""

    text: TextShape
    speech: TextShape
    codec: CodecShape
    head: HeadShape
    max_positions: int


def read_realtime_shape(config: Mapping[str, Any]) -> RealtimeShape:
    """The sizes in a config that `read_config` accepted."""
    text, head = config["decoder_config"], config["diffusion_head_config"]
    codec = config["acoustic_tokenizer_config"]
    heads, hidden = int(text["num_attention_heads"]), int(text["hidden_size"])
    upper = int(config.get("tts_backbone_num_hidden_layers", 20))

    def layers(count: int) -> TextShape:
        return TextShape(
            hidden=hidden,
            layers=count,
            heads=heads,
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or hidden // heads),
            eps=float(text.get("rms_norm_eps", 1e-6)),
            theta=float(text.get("rope_theta", 10000.0)),
            tied=False,
        )

    return RealtimeShape(
        text=layers(int(text["num_hidden_layers"]) - upper),
        speech=layers(upper),
        codec=CodecShape(
            latent=int(codec.get("vae_dim", 64)),
            kernel=7,
            filters=int(codec.get("decoder_n_filters", 32)),
            ratios=tuple(reversed(list_ratios(codec))),
            depths=tuple(reversed(list_depths(codec))),
            eps=float(codec.get("layernorm_eps", 1e-5)),
            noise=_SAMPLE_NOISE,
        ),
        head=HeadShape(
            layers=int(head.get("head_layers", 4)),
            eps=float(head.get("rms_norm_eps", 1e-5)),
            frequencies=_FREQUENCIES,
            max_period=_MAX_PERIOD,
        ),
        max_positions=int(text.get("max_position_embeddings", 8192)),
    )
