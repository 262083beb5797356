"""The files of VibeVoice: their sizes, and of the Realtime model which tensors there are, what they
are called, what is wrong.

No framework is needed here: a folder is checked before anything is loaded. The runtime is built of
the parts of the 1.5B model, whose published weights have other names; `published_name` translates.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError

MODEL_TYPE = "vibevoice_streaming"
REPOSITORY = "microsoft/VibeVoice-Realtime-0.5B"
_KERNEL = 7
_FREQUENCIES, _MAX_PERIOD = 256, 10000.0
_SAMPLE_NOISE = 0.5
_EXPECTED_CODEC: Mapping[str, object] = {
    "causal": True, "channels": 1, "conv_bias": True, "conv_norm": "none",
    "disable_last_norm": True, "layernorm": "RMSNorm", "layernorm_elementwise_affine": True,
    "mixer_layer": "depthwise_conv", "pad_mode": "constant",
}  # fmt: skip
_EXPECTED_HEAD: Mapping[str, object] = {
    "prediction_type": "v_prediction", "ddpm_beta_schedule": "cosine", "ddpm_num_steps": 1000,
}  # fmt: skip

# Our names of tensors, and those of the published file; numbers of layers count from the stem.
_RENAMES: tuple[tuple[str, str], ...] = (
    (r"^model\.diffusion_head\.", "model.prediction_head."),
    (r"timestep_proj\.fc1\.", "t_embedder.mlp.0."),
    (r"timestep_proj\.fc2\.", "t_embedder.mlp.2."),
    (r"(prediction_head\.layers\.\d+)\.linear\.", r"\1.adaLN_modulation.1."),
    (r"final_layer\.linear_1\.", "final_layer.adaLN_modulation.1."),
    (r"final_layer\.linear_2\.", "final_layer.linear."),
    (r"^model\.acoustic_decoder\.", "model.acoustic_tokenizer.decoder."),
    (r"decoder\.stem\.", "decoder.conv_layers.-1."),
    (r"\.mixer\.conv\.", ".mixer.conv.conv.conv."),
    (r"decoder\.head\.conv\.", "decoder.head.conv.conv."),
    (r"acoustic_connector\.linear_1\.", "acoustic_connector.fc1."),
    (r"acoustic_connector\.act\.", "acoustic_connector.norm."),
    (r"acoustic_connector\.linear_2\.", "acoustic_connector.fc2."),
)
_DECODER_LAYER = re.compile(r"decoder\.conv_layers\.(-?\d+)\.(stage\.)?")


def published_name(name: str) -> str:
    """What a tensor of ours is called in the published file."""
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name)

    def count_from_stem(found: re.Match[str]) -> str:
        number = int(found[1]) + 1
        return f"decoder.stages.{number}." if found[2] else f"decoder.upsample_layers.{number}.0."

    return _DECODER_LAYER.sub(count_from_stem, name)


def read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a folder, if it is of this model and of a kind that is known here."""
    path = folder / "config.json"
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        kind = config["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{path} is not the configuration of a model", hint=f"Use that of {REPOSITORY}."
        ) from error
    if kind != MODEL_TYPE:
        raise InvalidInputError(
            f"{folder} contains {kind}, not {MODEL_TYPE}", hint=f"Use {REPOSITORY}."
        )
    for part in ("decoder_config", "acoustic_tokenizer_config", "diffusion_head_config"):
        if not isinstance(config.get(part), dict):
            raise InvalidInputError(f"{path} has no {part}", hint=f"Use that of {REPOSITORY}.")
    _expect(path, config["acoustic_tokenizer_config"], _EXPECTED_CODEC)
    _expect(path, config["diffusion_head_config"], _EXPECTED_HEAD)
    return dict(config)


def _expect(path: Path, part: Mapping[str, Any], expected: Mapping[str, object]) -> None:
    for name, value in expected.items():
        if part.get(name, value) != value:
            raise InvalidInputError(
                f"{path}: {name} is {part[name]!r}, expected {value!r}",
                hint=f"Another variant of the model; use {REPOSITORY}.",
            )


def list_ratios(codec: Mapping[str, Any]) -> list[int]:
    """By how much each layer of the decoder lengthens its input, in order."""
    ratios = codec.get("decoder_ratios") or codec.get("encoder_ratios") or (8, 5, 5, 4, 2, 2)
    return [int(ratio) for ratio in ratios]


def list_depths(codec: Mapping[str, Any]) -> list[int]:
    """How many blocks follow each layer of the decoder, in order."""
    depths = codec.get("decoder_depths")
    if isinstance(depths, str):
        return [int(depth) for depth in depths.split("-")]
    depths = codec.get("encoder_depths", "3-3-3-3-3-3-8")
    depths = depths.split("-") if isinstance(depths, str) else depths
    return [int(depth) for depth in reversed(depths)]


# -- which tensors there must be -------------------------------------------------------------------


def list_tensors(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name, as published, and shape of every tensor that the runtime reads."""
    found: dict[str, tuple[int, ...]] = {}
    text, hidden = config["decoder_config"], int(config["decoder_config"]["hidden_size"])
    latent = int(config["acoustic_tokenizer_config"].get("vae_dim", 64))
    upper = int(config.get("tts_backbone_num_hidden_layers", 20))
    found["model.language_model.embed_tokens.weight"] = (int(text["vocab_size"]), hidden)
    for name, layers in (
        ("language_model", int(text["num_hidden_layers"]) - upper),
        ("tts_language_model", upper),
    ):
        for layer in range(layers):
            _add(found, f"model.{name}.layers.{layer}", _language_layer(text, hidden))
    _add(found, "model", {
        "tts_language_model.norm.weight": (hidden,), "tts_input_types.weight": (2, hidden),
        "acoustic_connector.fc1.weight": (hidden, latent), "acoustic_connector.fc1.bias": (hidden,),
        "acoustic_connector.norm.weight": (hidden,),
        "acoustic_connector.fc2.weight": (hidden, hidden), "acoustic_connector.fc2.bias": (hidden,),
        "speech_scaling_factor": (), "speech_bias_factor": (),
    })  # fmt: skip
    _add(found, "tts_eos_classifier", {
        "fc1.weight": (hidden, hidden), "fc1.bias": (hidden,), "fc2.weight": (1, hidden),
        "fc2.bias": (1,),
    })  # fmt: skip
    _add(found, "model.prediction_head", _head(config["diffusion_head_config"], hidden, latent))
    codec = _decoder(config["acoustic_tokenizer_config"], latent)
    _add(found, "model.acoustic_tokenizer.decoder", codec)
    return found


def _add(
    found: dict[str, tuple[int, ...]], prefix: str, tensors: Mapping[str, tuple[int, ...]]
) -> None:
    found.update({f"{prefix}.{name}": shape for name, shape in tensors.items()})


def _language_layer(text: Mapping[str, Any], hidden: int) -> dict[str, tuple[int, ...]]:
    heads, wide = int(text["num_attention_heads"]), int(text["intermediate_size"])
    size = int(text.get("head_dim") or hidden // heads)
    keys = int(text.get("num_key_value_heads") or heads) * size
    return {
        "input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (heads * size, hidden), "self_attn.q_proj.bias": (heads * size,),
        "self_attn.k_proj.weight": (keys, hidden), "self_attn.k_proj.bias": (keys,),
        "self_attn.v_proj.weight": (keys, hidden), "self_attn.v_proj.bias": (keys,),
        "self_attn.o_proj.weight": (hidden, heads * size),
        "mlp.gate_proj.weight": (wide, hidden), "mlp.up_proj.weight": (wide, hidden),
        "mlp.down_proj.weight": (hidden, wide),
    }  # fmt: skip


def _head(head: Mapping[str, Any], hidden: int, latent: int) -> dict[str, tuple[int, ...]]:
    wide = int(hidden * head.get("head_ffn_ratio", 3.0))
    found: dict[str, tuple[int, ...]] = {
        "noisy_images_proj.weight": (hidden, latent), "cond_proj.weight": (hidden, hidden),
        "t_embedder.mlp.0.weight": (hidden, _FREQUENCIES),
        "t_embedder.mlp.2.weight": (hidden, hidden),
        "final_layer.adaLN_modulation.1.weight": (2 * hidden, hidden),
        "final_layer.linear.weight": (latent, hidden),
    }  # fmt: skip
    for layer in range(int(head.get("head_layers", 4))):
        _add(found, f"layers.{layer}", {
            "norm.weight": (hidden,), "adaLN_modulation.1.weight": (3 * hidden, hidden),
            "ffn.gate_proj.weight": (wide, hidden), "ffn.up_proj.weight": (wide, hidden),
            "ffn.down_proj.weight": (hidden, wide),
        })  # fmt: skip
    return found


def _decoder(codec: Mapping[str, Any], latent: int) -> dict[str, tuple[int, ...]]:
    ratios, depths = list_ratios(codec), list_depths(codec)
    width = int(codec.get("decoder_n_filters", 32)) * 2 ** len(ratios)
    found: dict[str, tuple[int, ...]] = {}
    _add_conv(found, "upsample_layers.0.0.conv.conv", (width, latent, _KERNEL), width)
    for layer, depth in enumerate(depths):
        size = width >> layer
        if layer:
            kernel = 2 * ratios[layer - 1]
            name = f"upsample_layers.{layer}.0.convtr.convtr"
            _add_conv(found, name, (2 * size, size, kernel), size)
        for block in range(depth):
            at = f"stages.{layer}.{block}"
            _add(found, at, {
                "norm.weight": (size,), "gamma": (size,), "ffn_norm.weight": (size,),
                "ffn_gamma": (size,),
            })  # fmt: skip
            _add_conv(found, f"{at}.mixer.conv.conv.conv", (size, 1, _KERNEL), size)
            _add_conv(found, f"{at}.ffn.linear1", (4 * size, size), 4 * size)
            _add_conv(found, f"{at}.ffn.linear2", (size, 4 * size), size)
    last = width >> (len(depths) - 1)
    _add_conv(found, "head.conv.conv", (1, last, _KERNEL), 1)
    return found


def _add_conv(
    found: dict[str, tuple[int, ...]], name: str, shape: tuple[int, ...], bias: int
) -> None:
    _add(found, name, {"weight": shape, "bias": (bias,)})


# -- sizes -----------------------------------------------------------------------------------------


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
