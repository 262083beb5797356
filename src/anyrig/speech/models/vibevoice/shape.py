"""The sizes of a VibeVoice model, read from the `config.json` of its folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyrig.errors import InvalidInputError


@dataclass(frozen=True)
class TextShape:
    """The language model's."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    tied: bool
    """Whether the scores come from the embedding itself."""


@dataclass(frozen=True)
class CodecShape:
    """An encoder's; the decoder is its mirror."""

    latent: int
    kernel: int
    filters: int
    ratios: tuple[int, ...]
    depths: tuple[int, ...]
    eps: float
    noise: float
    """How much noise belongs on a latent of the voice sample."""

    @property
    def hop(self) -> int:
        """Samples of one frame."""
        return math.prod(self.ratios)


@dataclass(frozen=True)
class HeadShape:
    """The diffusion head's."""

    layers: int
    eps: float
    frequencies: int
    max_period: float


@dataclass(frozen=True)
class Tokens:
    """What the language model may say: they stand in the order of their numbers."""

    end: int
    begin_audio: int
    end_audio: int
    audio: int

    @property
    def all(self) -> tuple[int, int, int, int]:
        """In this order everywhere, so that a tie falls as it would over the whole vocabulary."""
        return (self.end, self.begin_audio, self.end_audio, self.audio)


@dataclass(frozen=True)
class Shape:
    """A whole model's."""

    text: TextShape
    acoustic: CodecShape
    semantic: CodecShape
    head: HeadShape
    tokens: Tokens


def read(config: Mapping[str, Any]) -> Shape:
    """The sizes in a `config.json`; what it leaves out is as transformers would have it."""
    if config.get("model_type") != "vibevoice" or "text_config" not in config:
        raise InvalidInputError(
            "this is no VibeVoice folder in the form transformers 5 reads",
            hint="Take a converted one, such as vibevoice/VibeVoice-1.5B-hf: its config.json has "
            "a text_config.",
        )
    text, head = config["text_config"], config.get("diffusion_head_config") or {}
    _known(text.get("hidden_act", "silu"), "silu")
    _known(head.get("hidden_act", "silu"), "silu")
    return Shape(
        text=_text(text, bool(config.get("tie_word_embeddings", False))),
        acoustic=_codec(config.get("audio_config") or {}, 64),
        semantic=_codec(config.get("semantic_model_config") or {}, 128),
        head=HeadShape(
            layers=head.get("num_hidden_layers", 4),
            eps=head.get("rms_norm_eps", 1e-5),
            frequencies=head.get("frequency_embedding_size", 256),
            max_period=head.get("diffusion_max_period", 10000),
        ),
        tokens=Tokens(
            end=config.get("eos_token_id", 151643),
            begin_audio=config.get("audio_bos_token_id", 151652),
            end_audio=config.get("audio_eos_token_id", 151653),
            audio=config.get("audio_token_id", 151654),
        ),
    )


def _text(text: Mapping[str, Any], tied: bool) -> TextShape:
    heads, hidden = text.get("num_attention_heads", 32), text.get("hidden_size", 4096)
    rope = text.get("rope_parameters") or {}
    _known(rope.get("rope_type", "default"), "default")
    return TextShape(
        hidden=hidden,
        layers=text.get("num_hidden_layers", 32),
        heads=heads,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or hidden // heads,
        eps=text.get("rms_norm_eps", 1e-6),
        theta=float(rope.get("rope_theta", text.get("rope_theta", 10000.0))),
        tied=bool(text.get("tie_word_embeddings", tied)),
    )


def _codec(codec: Mapping[str, Any], latent: int) -> CodecShape:
    _known(codec.get("hidden_act", "gelu"), "gelu")
    _known(codec.get("channels", 1), 1)
    return CodecShape(
        latent=codec.get("hidden_size", latent),
        kernel=codec.get("kernel_size", 7),
        filters=codec.get("num_filters", 32),
        ratios=tuple(codec.get("downsampling_ratios", (2, 2, 4, 5, 5, 8))),
        depths=tuple(codec.get("depths", (3, 3, 3, 3, 3, 3, 8))),
        eps=codec.get("rms_norm_eps", 1e-5),
        noise=codec.get("vae_std", 0.625),
    )


def _known(value: object, wanted: object) -> None:
    if value != wanted:
        raise InvalidInputError(
            f"this VibeVoice model is built with {value!r}, where {wanted!r} was expected",
            hint="A variant of the model that anyrig does not know; use the published 1.5B or 7B.",
        )
