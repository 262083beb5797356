"""VibeVoice, long-form speech with a voice from a sample: our own inference on its weights.

A language model (Qwen2) predicts frame by frame what comes next; a small diffusion head makes the
latent of a frame; a decoder of causal convolutions (`codec.py`) makes 133 ms of audio of it; an
encoder hears that audio, and its features are the language model's next input. `generate.py` runs
the frames of many utterances.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.speech.models.vibevoice.checkpoint import CodecShape, HeadShape, TextShape
from anyrig.speech.models.vibevoice.codec import CodecDecoder, CodecEncoder, LazyWeights
from anyrig.speech.models.vibevoice.operations import (
    add_norm,
    modulate,
    multiply_silu,
    rotate,
    split_heads,
)
from anyrig.speech.models.vibevoice.solver import TRAINED_STEPS, SolverStep, plan_steps


@dataclass(frozen=True)
class SpeechTokens:
    """What the language model may predict, in the order of their ids."""

    end: int
    begin_audio: int
    end_audio: int
    audio: int

    @property
    def all(self) -> tuple[int, int, int, int]:
        """In this order, so that ties fall as they would over the whole vocabulary."""
        return (self.end, self.begin_audio, self.end_audio, self.audio)


@dataclass(frozen=True)
class VibeVoiceShape:
    """Of a whole model."""

    text: TextShape
    acoustic: CodecShape
    semantic: CodecShape
    head: HeadShape
    tokens: SpeechTokens


def read_shape(config: Mapping[str, Any]) -> VibeVoiceShape:
    """The sizes in a `config.json`; what it leaves out is as transformers would have it."""
    if config.get("model_type") != "vibevoice" or "text_config" not in config:
        raise InvalidInputError(
            "this is not a VibeVoice folder in the format of transformers 5",
            hint="Use a converted one, such as vibevoice/VibeVoice-1.5B-hf: its config.json has "
            "a text_config.",
        )
    text, head = config["text_config"], config.get("diffusion_head_config") or {}
    _expect(text.get("hidden_act", "silu"), "silu")
    _expect(head.get("hidden_act", "silu"), "silu")
    return VibeVoiceShape(
        text=_read_text(text, bool(config.get("tie_word_embeddings", False))),
        acoustic=_read_codec(config.get("audio_config") or {}, 64),
        semantic=_read_codec(config.get("semantic_model_config") or {}, 128),
        head=HeadShape(
            layers=head.get("num_hidden_layers", 4),
            eps=head.get("rms_norm_eps", 1e-5),
            frequencies=head.get("frequency_embedding_size", 256),
            max_period=head.get("diffusion_max_period", 10000),
        ),
        tokens=SpeechTokens(
            end=config.get("eos_token_id", 151643),
            begin_audio=config.get("audio_bos_token_id", 151652),
            end_audio=config.get("audio_eos_token_id", 151653),
            audio=config.get("audio_token_id", 151654),
        ),
    )


def _read_text(text: Mapping[str, Any], tied: bool) -> TextShape:
    heads, hidden = text.get("num_attention_heads", 32), text.get("hidden_size", 4096)
    rope = text.get("rope_parameters") or {}
    _expect(rope.get("rope_type", "default"), "default")
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


def _read_codec(codec: Mapping[str, Any], latent: int) -> CodecShape:
    _expect(codec.get("hidden_act", "gelu"), "gelu")
    _expect(codec.get("channels", 1), 1)
    return CodecShape(
        latent=codec.get("hidden_size", latent),
        kernel=codec.get("kernel_size", 7),
        filters=codec.get("num_filters", 32),
        ratios=tuple(codec.get("downsampling_ratios", (2, 2, 4, 5, 5, 8))),
        depths=tuple(codec.get("depths", (3, 3, 3, 3, 3, 3, 8))),
        eps=codec.get("rms_norm_eps", 1e-5),
        noise=codec.get("vae_std", 0.625),
    )


def _expect(value: object, required: object) -> None:
    if value != required:
        raise InvalidInputError(
            f"this VibeVoice model is built with {value!r}, where {required!r} was expected",
            hint="A variant of the model that anyrig does not know; use the published 1.5B or 7B.",
        )


# -- checkpoints -----------------------------------------------------------------------------------


def open_weights(folder: Path, device: torch.device, dtype: torch.dtype) -> LazyWeights:
    """The tensors of a folder's safetensors files."""
    files = _find_files(folder)
    handles = {
        path: safe_open(path, framework="pt", device="cpu") for path in sorted(set(files.values()))
    }

    def read(name: str) -> Tensor:
        if name not in files:
            raise MissingWeightsError(
                f"{folder} has no tensor {name}",
                hint="The folder is incomplete, or of another model: download it again.",
            )
        tensor: Tensor = handles[files[name]].get_tensor(name)  # type: ignore[no-untyped-call]
        return tensor

    return LazyWeights(read, device, dtype)


def _find_files(folder: Path) -> dict[str, Path]:
    """The file of each tensor."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = json.loads(index.read_text())["weight_map"]
        return {name: folder / file for name, file in names.items()}
    files: dict[str, Path] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt", device="cpu") as handle:
            files.update(dict.fromkeys(handle.keys(), path))
    return files


# -- the language model ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageLayer:
    """One layer's weights; matrices that share their input are one."""

    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class SpeechLanguageModel:
    """Layers of Qwen2, with their keys and values in buffers that never move.

    A row is a sequence of its own length. A step takes a few inputs of every row; keys and values
    go to the row's own next places, and attention looks at the places before each. The group of
    query heads that share a key head stands where a sequence would: a key head is read once for
    all.

    Args:
        norm: whether a norm follows the last layer; not where the layers of another model do.
    """

    def __init__(self, shape: TextShape, weights: LazyWeights, *, norm: bool = True) -> None:
        self.shape = shape
        self.layers = [_read_layer(weights.under(f"layers.{n}")) for n in range(shape.layers)]
        self.norm = weights["norm.weight"] if norm else None
        self._device, self._dtype = weights.device, weights.dtype
        half = torch.arange(0, shape.head_dim, 2, device=weights.device, dtype=torch.float32)
        self._frequencies = shape.theta ** -(half / shape.head_dim)

    def new_cache(self, rows: int, length: int) -> Tensor:
        """Keys and values of some rows: layer, row, place, key or value, head."""
        shape = self.shape
        size = (shape.layers, rows, length, 2, shape.kv_heads, shape.head_dim)
        return torch.zeros(size, dtype=self._dtype, device=self._device)

    def step(
        self, inputs: Tensor, cache: Tensor, lengths: Tensor, span: int, *, stride: int = 1
    ) -> Tensor:
        """The hidden states after some more inputs of each row.

        Args:
            inputs: row, input, vector. Those of a row that are padding come last: what they write
                is written over by the row's next inputs, before anything sees it.
            cache: written at each row's next places.
            lengths: how many places of each row are filled.
            span: no row is longer than this; attention looks no further.
            stride: these rows are every second, third ... of the cache.
        """
        rows, count, _ = inputs.shape
        device, shape = inputs.device, self.shape
        places = lengths[:, None] + torch.arange(count, device=device)
        hidden = torch.arange(span, device=device) > places[..., None]
        visible = torch.zeros((), dtype=inputs.dtype, device=device)
        mask = visible.masked_fill(hidden, float("-inf"))
        # The heads of a group are queries one after the other: each sees what its input sees.
        mask = mask.repeat(1, shape.heads // shape.kv_heads, 1) if count > 1 else mask
        rotary = self._rotary(places.flatten())
        starts = torch.arange(rows, device=device)[:, None] * (stride * cache.shape[2])
        index = (places + starts).flatten()
        x = inputs.flatten(0, 1)
        normed = F.rms_norm(x, x.shape[-1:], self.layers[0].norm, shape.eps)
        with _masked_attention(device):
            for n, (layer, cached) in enumerate(zip(self.layers, cache, strict=True)):
                more = self._attend(layer, normed, cached, rotary, index, mask[:, None], stride)
                x, normed = add_norm(x, more, layer.mlp_norm, shape.eps)
                x, normed = add_norm(x, run_mlp(layer, normed), self._next_norm(n), shape.eps)
        return normed.view(rows, count, -1)

    def prefill(self, inputs: Tensor, cache: Tensor) -> None:
        """Keys and values of whole beginnings, row, place, vector: padded at their ends.

        What stands on the padding never matters: no earlier place sees it, and a later one of the
        same row is written over it.
        """
        rows, length, _ = inputs.shape
        shape = self.shape
        rotary = self._rotary(torch.arange(length, device=inputs.device))
        group = shape.heads // shape.kv_heads
        x = inputs.flatten(0, 1)
        normed = F.rms_norm(x, x.shape[-1:], self.layers[0].norm, shape.eps)
        for n, (layer, cached) in enumerate(zip(self.layers, cache, strict=True)):
            packed = F.linear(normed, layer.qkv, layer.qkv_bias)
            heads = packed.view(rows, length, -1, shape.head_dim)
            query, key, value = split_heads(heads, shape.kv_heads, rotary)
            cached[:rows, :length, 0], cached[:rows, :length, 1] = key, value
            attended = F.scaled_dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2).repeat_interleave(group, 1),
                value.transpose(1, 2).repeat_interleave(group, 1),
                is_causal=True,
            )
            more = F.linear(attended.transpose(1, 2).flatten(2).flatten(0, 1), layer.out)
            x, normed = add_norm(x, more, layer.mlp_norm, shape.eps)
            x, normed = add_norm(x, run_mlp(layer, normed), self._next_norm(n), shape.eps)

    def _next_norm(self, layer: int) -> Tensor | None:
        """The norm that follows a layer: the next one's, or the last."""
        after = self.layers[layer + 1 : layer + 2]
        return after[0].norm if after else self.norm

    def _attend(
        self,
        layer: LanguageLayer,
        normed: Tensor,
        cached: Tensor,
        rotary: tuple[Tensor, Tensor],
        index: Tensor,
        mask: Tensor,
        stride: int,
    ) -> Tensor:
        shape, (rows, _, _, span) = self.shape, mask.shape
        count, group = len(normed) // rows, shape.heads // shape.kv_heads
        packed = F.linear(normed, layer.qkv, layer.qkv_bias)
        queries = rotate(packed, rotary, index, cached, count)
        seen = cached[: rows * stride : stride, :span].permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(
            queries, seen[0], seen[1], attn_mask=mask.expand(-1, *queries.shape[1:3], -1)
        )
        attended = attended.view(rows, shape.kv_heads, group, count, shape.head_dim)
        return F.linear(attended.permute(0, 3, 1, 2, 4).reshape(rows * count, -1), layer.out)

    def _rotary(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the rotary embedding, for each place and every head."""
        angles = places[:, None, None].float() * self._frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(self._dtype), angles.sin().to(self._dtype)


def _masked_attention(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """On CUDA, the kernels that are right with a mask: cuDNN's were not (`precision.selftest`)."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    backends = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    context: contextlib.AbstractContextManager[None] = sdpa_kernel(backends)
    return context


def run_mlp(layer: LanguageLayer, normed: Tensor) -> Tensor:
    return F.linear(multiply_silu(F.linear(normed, layer.gate_up)), layer.down)


def _read_layer(weights: LazyWeights) -> LanguageLayer:
    attention, mlp = weights.under("self_attn"), weights.under("mlp")
    return LanguageLayer(
        norm=weights["input_layernorm.weight"],
        qkv=attention.concatenate(*(f"{part}_proj.weight" for part in "qkv")),
        qkv_bias=attention.concatenate(*(f"{part}_proj.bias" for part in "qkv")),
        out=attention["o_proj.weight"],
        mlp_norm=weights["post_attention_layernorm.weight"],
        gate_up=mlp.concatenate("gate_proj.weight", "up_proj.weight"),
        down=mlp["down_proj.weight"],
    )


# -- the noise scheduler ---------------------------------------------------------------------------


_SCHEDULER: Mapping[str, object] = {
    "beta_schedule": "squaredcos_cap_v2",
    "prediction_type": "v_prediction",
    "algorithm_type": "dpmsolver++",
    "solver_order": 2,
    "solver_type": "midpoint",
    "num_train_timesteps": TRAINED_STEPS,
    "timestep_spacing": "linspace",
    "final_sigmas_type": "zero",
    "lower_order_final": True,
}


def advance(
    step: SolverStep, latent: Tensor, velocity: Tensor, last: Tensor
) -> tuple[Tensor, Tensor]:
    """The next latent, and this step's estimate of the clean one."""
    clean = step.alpha * latent - step.sigma * velocity
    following = step.keep * latent + step.now * clean
    if step.before:
        following = following + step.before * last
    return following, clean


def check_scheduler(settings: Mapping[str, Any]) -> None:
    """That a checkpoint's `noise_scheduler_config` asks for this solver and no other."""
    for name, expected in _SCHEDULER.items():
        if settings.get(name, expected) != expected:
            raise InvalidInputError(
                f"this model's scheduler has {name} = {settings[name]!r}; expected {expected!r}",
                hint="Use the published checkpoint, or take the settings out of its "
                "generation_config.json if you know that they do not matter.",
            )


# -- the diffusion head ----------------------------------------------------------------------------


@dataclass(frozen=True)
class HeadLayer:
    """One layer's weights, but for those that modulate it."""

    norm: Tensor
    gate_up: Tensor
    down: Tensor


class DiffusionHead:
    """The latent of a frame from noise, conditioned on the hidden state of the language model.

    Both branches of the guidance are rows of one batch, alternating. What depends on the branch and
    on the time, but not on the latent, is computed for all steps beforehand: half of the head's
    weights are then read once a frame and not once a step.
    """

    def __init__(self, shape: HeadShape, weights: LazyWeights, num_steps: int) -> None:
        self.shape = shape
        self.steps = plan_steps(num_steps)
        self._input = weights["noisy_images_proj.weight"]
        self._condition = weights["cond_proj.weight"]
        parts = [weights.under(f"layers.{n}") for n in range(shape.layers)]
        self._modulate = torch.cat(
            [*(part["linear.weight"] for part in parts), weights["final_layer.linear_1.weight"]]
        )
        self._layers = [
            HeadLayer(
                part["norm.weight"],
                part.concatenate("ffn.gate_proj.weight", "ffn.up_proj.weight"),
                part["ffn.down_proj.weight"],
            )
            for part in parts
        ]
        self._output = weights["final_layer.linear_2.weight"]
        self._time_weights = (
            weights["timestep_proj.fc1.weight"],
            weights["timestep_proj.fc2.weight"],
        )
        self._times = self.embed_times([step.time for step in self.steps])

    def sample(self, hidden_states: Tensor, noise: Tensor, guidance: Tensor) -> Tensor:
        """Latents, in single precision.

        Args:
            hidden_states: of the conditional and the unconditional branch: row, 2, vector.
            noise: the start of each row.
            guidance: the guidance scale.
        """
        shifts = self.modulate(hidden_states.flatten(0, 1), self._times[:, None])
        latent, last = noise, torch.zeros_like(noise)
        for step, modulation in zip(self.steps, shifts, strict=True):
            conditional, unconditional = (
                self.predict(latent, modulation).view(-1, 2, noise.shape[-1]).float().unbind(1)
            )
            velocity = torch.lerp(unconditional, conditional, guidance)
            latent, last = advance(step, latent, velocity, last)
        return latent

    def predict(self, latent: Tensor, modulation: Tensor) -> Tensor:
        """The velocity of each branch of each row: two rows for each latent."""
        shape = self.shape
        x = F.linear(latent.to(self._input.dtype), self._input).repeat_interleave(2, 0)
        parts = modulation.chunk(3 * shape.layers + 2, dim=-1)
        residual = None
        for n, layer in enumerate(self._layers):
            shift, scale, gate = parts[3 * n : 3 * n + 3]
            x, inner = modulate(x, residual, layer.norm, shift, scale, shape.eps)
            more = F.linear(multiply_silu(F.linear(inner, layer.gate_up)), layer.down)
            residual = gate, more
        _, inner = modulate(x, residual, None, parts[-2], parts[-1], shape.eps)
        return F.linear(inner, self._output)

    def modulate(self, hidden_states: Tensor, times: Tensor) -> Tensor:
        """Shifts, scales (with their one) and gates: step, row, all of them side by side.

        Args:
            hidden_states: a vector a row.
            times: of `embed_times`: step, row or 1, vector.
        """
        condition = F.linear(hidden_states, self._condition) + times
        modulations = F.linear(F.silu(condition), self._modulate)
        size = hidden_states.shape[-1]
        scales = modulations.view(*modulations.shape[:2], -1, size)
        # Layers have shift, scale, gate; the last part has shift, scale.
        scales[..., 1::3, :] += 1
        return modulations

    def embed_times(self, times: Sequence[int]) -> Tensor:
        """The embedding of each time, rounded as the model was trained to see it."""
        half, (first, second) = self.shape.frequencies // 2, self._time_weights
        power = torch.arange(half, device=first.device, dtype=torch.float32) / half
        frequencies = torch.exp(-math.log(self.shape.max_period) * power)
        steps = torch.tensor(times, device=first.device)
        angles = steps.to(first.dtype).float()[:, None] * frequencies
        waves = torch.cat((angles.cos(), angles.sin()), dim=-1).to(first.dtype)
        return F.linear(F.silu(F.linear(waves, first)), second)


# -- the model -------------------------------------------------------------------------------------


# A sample is encoded in parts of so many frames: four seconds at the published sizes.
_VOICE_CHUNK_FRAMES = 30


class Connector:
    """From features of a codec to inputs of the language model."""

    def __init__(self, weights: LazyWeights) -> None:
        self._first, self._first_bias = weights["linear_1.weight"], weights["linear_1.bias"]
        self._norm = weights["act.weight"]
        self._second, self._second_bias = weights["linear_2.weight"], weights["linear_2.bias"]

    def __call__(self, x: Tensor) -> Tensor:
        hidden = F.linear(x, self._first, self._first_bias)
        hidden = F.rms_norm(hidden, hidden.shape[-1:], self._norm, 1e-6)
        return F.linear(hidden, self._second, self._second_bias)


class FrameOutput(NamedTuple):
    """The audio of a frame, and the state after it."""

    audio: Tensor
    next_input: Tensor
    acoustic: Tensor
    semantic: Tensor


class VibeVoiceModel:
    """A model, ready to be stepped by `FrameLoop`."""

    def __init__(self, shape: VibeVoiceShape, weights: LazyWeights, *, num_steps: int = 10) -> None:
        self.shape = shape
        self.device, self.dtype = weights.device, weights.dtype
        inner = weights.under("model")
        self.embedding = inner["language_model.embed_tokens.weight"]
        self.language = SpeechLanguageModel(shape.text, inner.under("language_model"))
        self.head = DiffusionHead(shape.head, inner.under("diffusion_head"), num_steps)
        self.decoder = CodecDecoder(shape.acoustic, inner.under("audio_tower.decoder"))
        self.semantic_encoder = CodecEncoder(
            shape.semantic, inner.under("semantic_tokenizer_encoder")
        )
        self._acoustic_encoder = CodecEncoder(shape.acoustic, inner.under("audio_tower.encoder"))
        self._acoustic = Connector(inner.under("multi_modal_projector"))
        self._semantic = Connector(inner.under("semantic_connector"))
        self._scale = inner.read_fp32("latent_scaling_factor")
        self._offset = inner.read_fp32("latent_bias_factor")
        tokens = torch.tensor(shape.tokens.all, device=self.device)
        self.token_inputs = self.embedding[tokens]
        head = self.embedding if shape.text.tied else weights["lm_head.weight"]
        self._token_weights = head[tokens].float()

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Logits of `SpeechTokens.all`."""
        return F.linear(hidden.float(), self._token_weights)

    def decode_frame(self, latents: Tensor, acoustic: Tensor, semantic: Tensor) -> FrameOutput:
        """Decode the latents of one frame, and encode its audio as the next input."""
        latents = latents[:, None]
        unscaled = (latents / self._scale - self._offset).to(self.dtype)
        audio, acoustic = self.decoder(unscaled, acoustic)
        features, semantic = self.semantic_encoder(audio, semantic)
        next_input = self._acoustic(latents.to(self.dtype)) + self._semantic(features)
        return FrameOutput(audio[..., 0], next_input[:, 0], acoustic, semantic)

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        """Inputs of the language model."""
        return self.embedding[tokens.to(self.device)]

    @torch.inference_mode()
    def encode_voice(self, samples: Tensor, *, seed: int = 0) -> Tensor:
        """Inputs of the language model for a voice, from a sample of it: one a frame.

        Args:
            samples: mono, at the model's rate, of the loudness `normalize_loudness` gives.
            seed: of the noise that the model was trained to find on a sample.
        """
        hop, size = self.shape.acoustic.hop, self.shape.acoustic
        samples = F.pad(samples, (0, -len(samples) % hop)).to(self.device, self.dtype)
        state, parts = self._acoustic_encoder.zero_state(1), []
        for part in torch.split(samples, _VOICE_CHUNK_FRAMES * hop):
            latents, state = self._acoustic_encoder(part[None, :, None], state)
            parts.append(latents)
        latents = torch.cat(parts, dim=1).float()
        source = torch.Generator().manual_seed(seed)
        spread = size.noise * torch.randn(1, generator=source)
        noise = spread * torch.randn(latents.shape, generator=source)
        latents = (latents + noise.to(self.device) + self._offset) * self._scale
        return self._acoustic(latents.to(self.dtype))[0]


def load_model(
    folder: Path, device: torch.device, dtype: torch.dtype, *, num_steps: int = 10
) -> VibeVoiceModel:
    """The model of a folder: `config.json` and safetensors."""
    shape = read_shape(json.loads((folder / "config.json").read_text()))
    settings = folder / "generation_config.json"
    if settings.is_file():
        generation: dict[str, Any] = json.loads(settings.read_text())
        check_scheduler(generation.get("noise_scheduler_config") or {})
    return VibeVoiceModel(shape, open_weights(folder, device, dtype), num_steps=num_steps)
