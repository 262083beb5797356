"""VibeVoice-Realtime: a small VibeVoice that speaks while its text still comes.

The language model is split. Its lower layers (the text model) read text alone; their hidden states,
in the place of embeddings, and latents of speech go to the upper layers (the speech model). Five
tokens of text, six frames of speech, and so on. A frame's latent comes from the diffusion head,
guided by a second, unconditional sequence of the speech model that sees only speech.
`realtime.py` runs many utterances at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyrig.speech.models.vibevoice.checkpoint import (
    list_depths,
    list_ratios,
    published_name,
    read_config,
)
from anyrig.speech.models.vibevoice.codec import CodecShape, Decoder, Weights
from anyrig.speech.models.vibevoice.model import (
    Connector,
    DiffusionHead,
    HeadShape,
    LanguageModel,
    SolverStep,
    TextShape,
    open_weights,
)

SPEECH, TEXT = 0, 1
"""Types of inputs of the speech model."""
COEFFICIENTS = ("alpha", "sigma", "keep", "now", "before", "noise")
"""Of a `SolverStep`, in the order of `stack_steps`."""
_FREQUENCIES, _MAX_PERIOD = 256, 10000.0
_SAMPLE_NOISE = 0.5


@dataclass(frozen=True)
class RealtimeShape:
    """Of a whole model."""

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


class RealtimeVoice:
    """A model, ready to be stepped by `WindowLoop`.

    Args:
        weights: under the names of the published file.
    """

    def __init__(self, shape: RealtimeShape, weights: Weights) -> None:
        self.shape = shape
        self.device, self.dtype = weights.device, weights.dtype
        inner = weights.under("model")
        self.embedding = inner["language_model.embed_tokens.weight"]
        self.text = LanguageModel(shape.text, inner.under("language_model"), norm=False)
        self.speech = LanguageModel(shape.speech, inner.under("tts_language_model"))
        self.types = inner["tts_input_types.weight"]
        self.head = DiffusionHead(shape.head, inner.under("diffusion_head"), 1)
        self.decoder = Decoder(shape.codec, inner.under("acoustic_decoder"))
        self._connector = Connector(inner.under("acoustic_connector"))
        self._scale = inner.read_fp32("speech_scaling_factor")
        self._offset = inner.read_fp32("speech_bias_factor")
        end = weights.under("tts_eos_classifier")
        self._end = end["fc1.weight"], end["fc1.bias"], end["fc2.weight"], end["fc2.bias"]

    def sample(
        self, hidden: Tensor, noise: Tensor, times: Tensor, steps: Tensor, guidance: Tensor
    ) -> Tensor:
        """Latents, in single precision. Each row has steps of its own.

        Args:
            hidden: of the conditional and the unconditional sequence: row, 2, vector.
            noise: the start of each row, then what its steps add: step + 1, row, vector.
            times: of `DiffusionHead.embed_times`: step, row, vector.
            steps: of `stack_steps`: step, coefficient, row.
            guidance: of each row.
        """
        shifts = self.head.modulate(hidden.flatten(0, 1), times.repeat_interleave(2, 1))
        latent, last = noise[0], torch.zeros_like(noise[0])
        for modulation, numbers, fresh in zip(shifts, steps[..., None], noise[1:], strict=True):
            branches = self.head.predict(latent, modulation).view(-1, 2, latent.shape[-1])
            conditional, unconditional = branches.float().unbind(1)
            velocity = torch.lerp(unconditional, conditional, guidance[:, None])
            alpha, sigma, keep, now, before, spread = numbers
            clean = alpha * latent - sigma * velocity
            latent = keep * latent + now * clean + before * last + spread * fresh
            last = clean
        return latent

    def decode(self, latents: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The audio of one frame of each row, and the decoder's state after it."""
        unscaled = (latents[:, None] / self._scale - self._offset).to(self.dtype)
        audio, state = self.decoder(unscaled, state)
        return audio[..., 0], state

    def connect(self, latents: Tensor) -> Tensor:
        """Inputs of the speech model, from latents."""
        return self._connector(latents.to(self.dtype)) + self.types[SPEECH]

    def is_end(self, hidden: Tensor) -> Tensor:
        """Whether the speech ends with the frame of this hidden state, for each row."""
        first, first_bias, second, second_bias = self._end
        inner = torch.relu(F.linear(hidden, first, first_bias))
        return F.linear(inner, second, second_bias)[:, 0] > 0


def stack_steps(steps: tuple[SolverStep, ...], count: int) -> Tensor:
    """The numbers of some steps, and of more that change nothing: step, coefficient."""
    rows = [[getattr(step, name) for name in COEFFICIENTS] for step in steps]
    still = [float(name == "keep") for name in COEFFICIENTS]
    return torch.tensor(rows + [still] * (count - len(steps)))


def load_realtime_model(folder: Path, device: torch.device, dtype: torch.dtype) -> RealtimeVoice:
    """The model of a folder: `config.json` and safetensors, as published."""
    shape = read_realtime_shape(read_config(folder))
    return RealtimeVoice(shape, rename_weights(open_weights(folder, device, dtype)))


def rename_weights(published: Weights) -> Weights:
    """Published tensors under the names that the parts of the 1.5B model have."""
    return Weights(
        lambda name: published.read_fp32(published_name(name)), published.device, published.dtype
    )
